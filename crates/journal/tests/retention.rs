//! Which segments stay, which are reused, and what their old bytes may not do.

use crate::common::*;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;
use velella_base::Stamp;
use velella_journal::{Access, Recovery, Report, Rule};
use velella_vfs::mem::CrashMode;
use velella_vfs::{MemFs, Vfs};

/// a segment goes by its stamps, never by its age.
#[test]
fn x3_segment_truncation() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    bench.write(0, b"oldest, and in no table").unwrap();
    for _ in 0..8000 {
        bench.write(1, &[1; 1000]).unwrap();
    }
    bench.round().unwrap();
    // The keyspace of stamp 1 is not flushed; all others are.
    bench.journal.release(Stamp(1)).unwrap();
    bench.round().unwrap();
    bench.journal.prepare(|| false).unwrap();
    let segments = files(&fs, "seg").len();
    assert!(segments > 28, "{segments}");
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), (1..=8001).collect::<Vec<_>>());
    let stats = bench.journal.stats();
    // The first one is a single extent, two are ready.
    let bytes = (segments as u64 - 3) * (256 << 10) + (64 << 10);
    assert_eq!(stats.unflushed_bytes, bytes);

    // Now it is flushed as well, but lane 0 still stands in the oldest segment.
    bench.journal.release(Stamp(8002)).unwrap();
    let idle = &mut bench.lanes[0];
    bench.journal.close_idle(idle).unwrap();
    let before = files(&fs, "seg").len();
    bench.journal.release(Stamp(8002)).unwrap();
    assert_eq!(
        files(&fs, "seg").len(),
        before,
        "no round has excluded them yet"
    );
    bench.round().unwrap();
    bench.journal.prepare(|| false).unwrap();
    let after = files(&fs, "seg").len();
    assert!(
        after <= 19,
        "{after} of {before}: sixteen to reuse, two ready, one open"
    );
    assert_eq!(bench.journal.stats().unflushed_bytes, 0);
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert!(
        recovered.stamps().len() < 400,
        "what is in tables is not read again"
    );
    assert!(
        recovered
            .report
            .notes
            .iter()
            .all(|note| note.contains("power loss"))
    );
}

#[test]
fn as_many_segments_are_kept_as_the_last_flush_needed() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    // So many records of a kilobyte, then a flush of them: the segment files there are then.
    let mut cycle = |records: u32| {
        for _ in 0..records {
            bench.write(0, &[1; 1000]).unwrap();
            // As the background does.
            bench.journal.prepare(|| false).unwrap();
        }
        bench.round().unwrap();
        bench.journal.release(Stamp(bench.clock + 1)).unwrap();
        bench.round().unwrap();
        bench.journal.prepare(|| false).unwrap();
        files(&fs, "seg").len()
    };
    // Six segments of 256 KiB.
    for _ in 0..4 {
        let left = cycle(1500);
        assert!(
            (7..=10).contains(&left),
            "{left}: none is deleted and made again"
        );
    }
    assert!(cycle(8000) <= 19, "not without end");
    let last = (0..20).map(|_| cycle(300)).last();
    assert!(last.is_some_and(|last| last <= 5), "{last:?}: nor for ever");
}

#[test]
fn eight_extents_are_fetched_for_each_one_that_was_taken() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    let fetched = || -> Vec<(u64, u64)> {
        let all = files(&fs, "seg");
        let fetched = all.iter().map(|path| fs.take_fetched(path).unwrap());
        fetched.flatten().collect()
    };
    let extent = 64 << 10;
    let whole = (0, 4 * extent);
    bench.journal.prepare(|| false).unwrap();
    assert_eq!(fetched(), [], "nobody writes");
    // The first segment is one extent: there is nothing behind it.
    bench.write(0, &[1; 1000]).unwrap();
    bench.journal.prepare(|| false).unwrap();
    assert_eq!(fetched(), [whole, whole]);
    // The rest of that, and the first extent of the next segment.
    for _ in 0..80 {
        bench.write(0, &[1; 1000]).unwrap();
    }
    bench.journal.prepare(|| true).unwrap();
    assert_eq!(fetched(), [], "cancelled");
    // Two, so that it is all there is.
    for _ in 0..130 {
        bench.write(0, &[1; 1000]).unwrap();
    }
    bench.journal.prepare(|| false).unwrap();
    assert_eq!(fetched(), [(3 * extent, extent), whole, whole]);
    bench.journal.prepare(|| false).unwrap();
    assert_eq!(fetched(), [], "nobody took an extent meanwhile");
}

#[test]
fn what_lanes_left_goes_to_the_device_while_somebody_waits_to_prepare() {
    for access in [Access::Mapped, Access::Write] {
        let fs = MemFs::new();
        let mut config = config(Arc::new(fs.clone()), 1, 1);
        (config.access, config.segment_bytes) = (access, 1 << 20);
        let extent = config.extent_bytes;
        let mut bench = Bench::start(config).unwrap();
        let journal = Arc::clone(&bench.journal);
        let mut fill_extents = |count: usize| {
            for _ in 0..63 * count {
                bench.write(0, &[1; 1000]).unwrap();
            }
        };
        let handed = || -> Vec<(u64, u64)> {
            let all = files(&fs, "seg");
            let handed = all.iter().map(|path| fs.take_written_back(path).unwrap());
            handed.flatten().collect()
        };
        // The first segment is one extent; with the next a preparation is due.
        fill_extents(2);
        journal.prepare(|| false).unwrap();
        assert!(!handed().is_empty(), "who prepares hands on");
        fill_extents(4);
        // Each time that it looks whether it is over, until then.
        let seen = RefCell::new(Vec::new());
        journal.wait_for_preparation(Duration::from_mins(1), || {
            seen.borrow_mut().extend(handed());
            seen.borrow().iter().any(|(from, _)| *from >= 4 * extent)
        });
        let seen = seen.into_inner();
        let (from, len) = *seen.last().expect("it ended by them");
        assert_eq!(from % extent, 0);
        assert!((60 << 10..=extent).contains(&len), "{len}");
        journal.prepare(|| false).unwrap();
        assert_eq!(handed(), [], "once");
    }
}

#[test]
fn who_forgoes_segments_has_nothing_to_prepare_at_once() {
    let mut bench = Bench::start(config(Arc::new(MemFs::new()), 1, 1)).unwrap();
    for _ in 0..80 {
        // The second segment: others are wanted.
        bench.write(0, &[1; 1000]).unwrap();
    }
    bench.journal.forgo().unwrap();
    let has_waited = Cell::new(false);
    bench.journal.wait_for_preparation(Duration::ZERO, || {
        has_waited.set(true);
        false
    });
    assert!(has_waited.get(), "or it would be asked again and again");
}

#[test]
fn a_busy_lane_leaves_an_old_segment_at_its_next_record() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    bench.write(0, b"x").unwrap();
    for _ in 0..2000 {
        bench.write(1, &[1; 1000]).unwrap();
    }
    bench.round().unwrap();
    bench.journal.release(Stamp(bench.clock + 1)).unwrap();
    let oldest = files(&fs, "seg")[0].clone();
    bench.write(0, b"y").unwrap();
    bench.round().unwrap();
    bench.journal.prepare(|| false).unwrap();
    assert!(!fs.exists(&oldest).unwrap(), "recycled under a new number");
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps().last(), Some(&2002));
}

#[test]
fn stale_bytes_of_recycled_segments_never_validate() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    // Every record has the same size, so that stale records stand exactly where new ones would.
    for cycle in 0..30 {
        for turn in 0..300 {
            bench.write(turn % 2, &[cycle; 1000]).unwrap();
        }
        bench.round().unwrap();
        bench.journal.release(Stamp(bench.clock + 1)).unwrap();
        bench.write(0, &[cycle; 1000]).unwrap();
        bench.round().unwrap();
        bench.journal.prepare(|| false).unwrap();
        bench.write(1, &[cycle; 1000]).unwrap();
        let image = fs.image(u64::from(cycle), CrashMode::KeepAll);
        let recovered = recover(&image, &bench.last()).unwrap();
        assert_eq!(
            recovered.report.rule,
            Rule::PageCache,
            "{:?}",
            recovered.report
        );
        let stamps = recovered.stamps();
        let expected = (stamps[0]..=bench.clock).collect::<Vec<_>>();
        assert_eq!(stamps[stamps.len() - 2..], expected[expected.len() - 2..]);
        assert!(
            recovered
                .records
                .iter()
                .all(|(_, payload)| *payload == [cycle; 1000])
        );
    }
    let segments = files(&fs, "seg").len();
    assert!(
        segments < 8,
        "{segments} segments for a journal that is always flushed"
    );
}

/// CL-14: what the first crash discarded does not come back after the second, even if a careless
/// caller reused the stamps.
#[test]
fn cl14_double_crash() {
    let mut discarded = 0;
    for seed in 0..100 {
        let fs = MemFs::new();
        let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
        bench.write(0, b"kept").unwrap();
        bench.round().unwrap();
        bench.write(0, b"lost").unwrap();
        bench.write(1, b"lost").unwrap();
        let first = bench.last();
        let fs = fs.image(seed, CrashMode::Random);
        let recovered = recover(&fs, &first).unwrap();
        assert_eq!(recovered.stamps(), [1]);
        discarded += recovered.report.discarded_records;

        // The new incarnation runs with the same stamps.
        let mut bench = Bench::start_at(config(Arc::new(fs.clone()), 2, 2), Stamp(1)).unwrap();
        bench.journal.discard_older().unwrap();
        bench.journal.prepare(|| false).unwrap();
        bench.write(0, b"new").unwrap();
        bench.round().unwrap();
        for mode in [CrashMode::Random, CrashMode::KeepAll, CrashMode::Strict] {
            let recovered = recover(&fs.image(seed, mode), &bench.last()).unwrap();
            assert_eq!(
                recovered.records,
                [(2, b"new".to_vec())],
                "seed {seed} {mode:?}"
            );
        }
    }
    assert!(discarded > 0, "no crash left a record above the cut");
}

#[test]
fn files_of_older_incarnations_go_and_ours_stay() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, &[1; 40_000]).unwrap();
    bench.write(0, &[1; 300_000]).unwrap();
    let foreign = dir().join("journal/notes.txt");
    fs.write_file(&foreign, b"not ours").unwrap();
    let bench = Bench::start(config(Arc::new(fs.clone()), 2, 1)).unwrap();
    bench.journal.discard_older().unwrap();
    bench.journal.prepare(|| false).unwrap();
    assert_eq!(files(&fs, "large").len(), 0);
    assert_eq!(files(&fs, "seal").len(), 1);
    assert_eq!(files(&fs, "seg").len(), 2);
    assert!(fs.exists(&foreign).unwrap());
    recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
}

/// A closed database may be copied so that zeros take no space in the copy.
#[test]
fn segments_of_earlier_runs_need_no_space_of_their_own() {
    let fs = MemFs::new();
    let bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.journal.prepare(|| false).unwrap();
    bench.journal.close(|| Stamp(0)).unwrap();
    let whole = files(&fs, "seg");
    for path in &whole {
        let bytes = fs.read_file(path).unwrap();
        fs.remove(path).unwrap();
        let sparse = fs.create(path).unwrap();
        sparse.set_len(bytes.len() as u64).unwrap();
        for (page, bytes) in (0..).zip(bytes.chunks(4096)) {
            if bytes.iter().any(|byte| *byte != 0) {
                sparse.write_at(page * 4096, bytes).unwrap();
            }
        }
    }
    recover(&fs, &bench.last()).unwrap();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 2, 1)).unwrap();
    bench.journal.discard_older().unwrap();
    bench.journal.prepare(|| false).unwrap();
    for _ in 0..600 {
        bench.write(0, &[1; 1000]).unwrap();
    }
    let left = files(&fs, "seg");
    assert!(whole.iter().all(|path| !left.contains(path)), "{left:?}");
}

#[test]
fn large_files_go_when_no_needed_record_refers_to_them() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    bench.write(0, &[1; 1 << 20]).unwrap();
    for _ in 0..600 {
        bench.write(0, &[1; 1000]).unwrap();
    }
    bench.round().unwrap();
    assert_eq!(files(&fs, "large").len(), 1);
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.records[0].1.len(), 1 << 20);
    bench.journal.release(Stamp(bench.clock + 1)).unwrap();
    // At the next extent the lane leaves the large file as well.
    for _ in 0..70 {
        bench.write(0, &[2; 1000]).unwrap();
    }
    bench.round().unwrap();
    bench.journal.prepare(|| false).unwrap();
    assert_eq!(files(&fs, "large").len(), 0);
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps().last(), Some(&bench.clock));
}

#[test]
fn a_full_device_fails_the_reservation_and_poisons_nothing() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 1)).unwrap();
    fs.set_space_max(Some(fs.space_used() + 4096));
    let error = loop {
        if let Err(error) = bench.write(0, &[1; 10_000]) {
            break error;
        }
    };
    assert_eq!(error.kind(), velella_base::ErrorKind::NoSpace, "{error}");
    let written = bench.clock;
    bench.round().unwrap();
    fs.set_space_max(None);
    bench.write(0, b"there is space again").unwrap();
    bench.round().unwrap();
    let recovered = recover(&fs.image(1, CrashMode::Strict), &bench.last()).unwrap();
    assert_eq!(recovered.stamps(), (1..=written + 1).collect::<Vec<_>>());
    assert!(bench.journal.stats().segment_waits > 0);
}

#[test]
fn records_that_nobody_needs_are_counted_and_passed() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 3)).unwrap();
    for turn in 0..90usize {
        // One of them is large enough for a file of its own.
        let len = if turn == 20 { 1 << 20 } else { 100 };
        bench.write(turn % 3, &vec![5; len]).unwrap();
        if turn == 59 {
            bench.round().unwrap();
        }
    }
    let mut last = bench.last();
    for (assume_power_loss, end) in [(false, 90), (true, 60)] {
        last.assume_power_loss = assume_power_loss;
        let all = recover(&fs.image(1, CrashMode::KeepAll), &last).unwrap();
        assert_eq!(all.records.len() as u64, end);
        for needed_from in [0, 1, 2, 40, 59, 60, 61, 90, 91, 1000] {
            let image: Arc<dyn Vfs> = Arc::new(fs.image(1, CrashMode::KeepAll));
            let mut recovery = Recovery::open(image, &dir(), DATABASE, &last).unwrap();
            recovery.skip_below(Stamp(needed_from));
            assert!(recovery.bytes_left() > 0);
            let mut stamps = Vec::new();
            while let Some(record) = recovery.next_record().unwrap() {
                stamps.push(record.stamp.0);
            }
            // Lanes are walked beyond what their seals cover by then, to count what is given up.
            assert_eq!(recovery.bytes_left(), 0);
            let expected: Vec<u64> = (needed_from.max(1)..=end).collect();
            assert_eq!(stamps, expected, "from {needed_from}");
            let counted = |report: &Report| {
                let taken = (report.records, report.bytes);
                (taken, report.discarded_records, report.discarded_bytes)
            };
            assert_eq!(counted(recovery.report()), counted(&all.report));
        }
    }
}

#[test]
fn what_is_still_to_be_read_is_no_more_than_there_is_where_a_lane_ends_in_a_torn_record() {
    let fs = MemFs::new();
    let mut bench = Bench::start(config(Arc::new(fs.clone()), 1, 2)).unwrap();
    bench.write(1, &[1; 100]).unwrap();
    bench.round().unwrap();
    // No seal knows of the other lane; a part of its first record's payload is lost.
    bench.write(0, &[0xab; 3000]).unwrap();
    let image = fs.image(1, CrashMode::KeepAll);
    let mut torn = 0;
    for path in files(&image, "seg") {
        let mut bytes = image.read_file(&path).unwrap();
        if let Some(at) = bytes.windows(1500).position(|part| part == [0xab; 1500]) {
            bytes[at + 1000] = 0;
            image.remove(&path).unwrap();
            image.write_file(&path, &bytes).unwrap();
            torn += 1;
        }
    }
    assert_eq!(torn, 1);
    let mut last = bench.last();
    last.assume_power_loss = true;
    let mut recovery = Recovery::open(Arc::new(image), &dir(), DATABASE, &last).unwrap();
    let left = recovery.bytes_left();
    assert!((100..1000).contains(&left), "{left}");
    let record = recovery.next_record().unwrap().unwrap();
    assert_eq!((record.stamp, record.payload.len()), (Stamp(1), 100));
    assert!(recovery.next_record().unwrap().is_none());
    assert_eq!(recovery.bytes_left(), 0);
}
