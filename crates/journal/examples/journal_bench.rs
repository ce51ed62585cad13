//! What a record of 140 bytes costs, mapped and written, while rounds go on in the background.
//!
//! ```text
//! cargo run --release -p velella-journal --example journal_bench [directory [records]]
//! ```
//! Prints, per way of access: nanoseconds a record (`reserve` and `commit`), what rounds and
//! preparation did meanwhile, and what a record costs that waits for a round of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use velella_base::{Result, Stamp};
use velella_journal::{Access, Config, Journal};
use velella_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella_sync::thread;
use velella_vfs::OsFs;

const RECORD: usize = 140;
/// Records timed together.
const BATCH: u64 = 100;
/// Between rounds, as for buffered writes.
const ROUND: Duration = Duration::from_secs(1);
/// Records that each wait for a round of their own.
const SYNCED: u64 = 500;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().map_or_else(
        || std::env::temp_dir().join("velella-journal-bench"),
        PathBuf::from,
    );
    let records = arguments
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(4_000_000);
    println!("{records} records of {RECORD} bytes in {}", dir.display());
    for access in [Access::Mapped, Access::Write] {
        let dir = dir.join(format!("{access:?}-{}", std::process::id()));
        let result = run(&dir, access, records);
        // What is left behind is only space.
        let _ = std::fs::remove_dir_all(&dir);
        result?;
    }
    Ok(())
}

fn run(dir: &Path, access: Access, records: u64) -> Result<()> {
    let next = AtomicU64::new(1);
    let config = Config {
        vfs: Arc::new(OsFs::new()),
        dir: dir.to_path_buf(),
        database: 1,
        incarnation: 1,
        lanes: 1,
        segment_bytes: Config::SEGMENT_BYTES,
        extent_bytes: Config::EXTENT_BYTES,
        access,
        ack_after_done: false,
        // Relaxed: a counter.
        next_file: Arc::new(move || Ok(next.fetch_add(1, Ordering::Relaxed))),
        note: None,
        make_room: None,
    };
    let (journal, mut lanes, _) = Journal::create(config, Stamp::ZERO)?;
    let lane = &mut lanes[0];
    journal.prepare(|| false)?;
    let (clock, running) = (AtomicU64::new(0), AtomicBool::new(true));
    thread::scope(|scope| {
        let preparer = scope.spawn(|| prepare(&journal, &running));
        let coordinator = scope.spawn(|| rounds(&journal, &clock, &running));
        let written = write(lane, &clock, records);
        // Release, partner: the Acquire in `prepare` and `rounds`.
        running.store(false, Ordering::Release);
        let results = [preparer.join(), coordinator.join()];
        for result in results {
            result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let (mean, median_batch) = written?;
        let (median, worst) = synced(&journal, lane, &clock)?;
        let stats = journal.stats();
        println!(
            "{:>6}: {mean:6.1} ns a record, in the median batch {median_batch:6.1}; {} rounds, {} syncs, {} waits \
             for a segment; with a round each: median {median:?}, slowest {worst:?}",
            stats.access, stats.rounds, stats.syncs, stats.segment_waits
        );
        Ok(())
    })
}

/// Nanoseconds a record: the mean, and the median over batches (which no other process disturbs).
fn write(lane: &mut velella_journal::Lane, clock: &AtomicU64, records: u64) -> Result<(f64, f64)> {
    let payload = [7; RECORD];
    let mut batches = Vec::new();
    let mut written = 0;
    while written < records {
        let begin = thread::now();
        for _ in 0..BATCH {
            lane.reserve(&[&payload])?;
            // Relaxed: one writer; the coordinator only reads.
            let stamp = clock.load(Ordering::Relaxed) + 1;
            lane.commit(Stamp(stamp))?;
            // Release, partner: the Acquire in `rounds`: the record is in its lane.
            clock.store(stamp, Ordering::Release);
        }
        batches.push(begin.elapsed());
        written += BATCH;
        // A database does something between its writes: without a pause this measures how fast
        // the device takes new segments.
        if written % 50_000 == 0 {
            thread::sleep(Duration::from_millis(40));
        }
    }
    let mean = batches.iter().sum::<Duration>().as_secs_f64() * 1e9 / written as f64;
    batches.sort();
    let per_record = |batch: Duration| batch.as_secs_f64() * 1e9 / BATCH as f64;
    Ok((mean, per_record(batches[batches.len() / 2])))
}

/// Median and slowest time of a record with a round of its own.
fn synced(
    journal: &Journal,
    lane: &mut velella_journal::Lane,
    clock: &AtomicU64,
) -> Result<(Duration, Duration)> {
    let mut times = Vec::new();
    for _ in 0..SYNCED {
        let begin = thread::now();
        lane.reserve(&[&[7; RECORD]])?;
        // Relaxed: this is the only thread left.
        let stamp = clock.load(Ordering::Relaxed) + 1;
        lane.commit(Stamp(stamp))?;
        clock.store(stamp, Ordering::Relaxed);
        journal.round(|| Stamp(stamp))?;
        times.push(begin.elapsed());
    }
    times.sort();
    Ok((times[times.len() / 2], times[times.len() - 1]))
}

fn prepare(journal: &Journal, running: &AtomicBool) -> Result<()> {
    // Acquire, partner: the Release in `run`.
    while running.load(Ordering::Acquire) {
        journal.prepare(|| false)?;
        journal.wait_for_preparation(Duration::from_millis(10), || false);
    }
    Ok(())
}

fn rounds(journal: &Journal, clock: &AtomicU64, running: &AtomicBool) -> Result<()> {
    // Acquire, partner: the Release in `run`.
    while running.load(Ordering::Acquire) {
        // Acquire, partner: the Release in `write`.
        let durable = journal.round(|| Stamp(clock.load(Ordering::Acquire)))?;
        journal.release(Stamp(durable.0 + 1))?;
        thread::sleep(ROUND);
    }
    Ok(())
}
