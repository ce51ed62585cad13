//! The journal takes little space once its writes are in tables, whatever the size of the values.

mod common;

use common::{DIR, on, tiny, until};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use velella::vfs::{MemFs, Vfs};
use velella_testkit::Watchdog;

const WRITE_BUFFER: u64 = 2 << 20;

/// Bytes of the journal's files.
fn space(fs: &MemFs) -> u64 {
    let dir = Path::new(DIR).join("journal");
    let names = fs.read_dir(&dir).unwrap();
    // A file may go between the two calls.
    names
        .iter()
        .map(|name| fs.len(&dir.join(name)).unwrap_or(0))
        .sum()
}

#[test]
fn a_flush_gives_the_journal_of_large_values_back_even_if_nothing_follows() {
    let _watchdog = Watchdog::new("journal_space", 300);
    for len in [64 << 10, 300 << 10, 1 << 20] {
        let fs = MemFs::new();
        let db = on(&fs, tiny());
        let empty = space(&fs);
        for turn in 0..30_000_000 / len {
            db.put(format!("{turn}"), vec![1; len]).unwrap();
            db.put(format!("small {turn}"), "small").unwrap();
        }
        db.flush().unwrap();
        // The rounds and the sweep are others' work: soon, but not at once.
        until(|| space(&fs) <= empty + (8 << 20));
        db.close().unwrap();
    }
}

/// The most that was unflushed by the journal's own account, and the most its files took, while
/// `threads` write 60 MB in values of `len` bytes.
fn most_under_a_stream(threads: usize, len: usize) -> (u64, u64) {
    let fs = MemFs::new();
    let db = on(&fs, tiny().write_buffer(WRITE_BUFFER));
    let (unflushed, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (fs, db, unflushed, bytes) = (&fs, &db, &unflushed, &bytes);
            scope.spawn(move || {
                for turn in 0..60_000_000 / len / threads {
                    let key = format!("{thread} {}", turn % 10);
                    db.put(key, vec![1; len]).unwrap();
                    // Relaxed: maxima, read after the threads ended.
                    unflushed.fetch_max(db.stats().journal.unflushed_bytes, Ordering::Relaxed);
                    bytes.fetch_max(space(fs), Ordering::Relaxed);
                }
            });
        }
    });
    db.close().unwrap();
    (unflushed.into_inner(), bytes.into_inner())
}

#[test]
fn a_stream_of_large_values_keeps_the_journal_near_its_bound() {
    let _watchdog = Watchdog::new("journal_space", 300);
    for threads in [1, 4] {
        for len in [64 << 10, 300 << 10, 1 << 20] {
            let (unflushed, bytes) = most_under_a_stream(threads, len);
            // Beyond ten write buffers: what each writer adds before it is stopped, and the rest
            // of its lane's large file. In files: segments ready, to reuse, and just freed.
            let bound = 10 * WRITE_BUFFER + (threads * (2 * len + (2 << 20))) as u64;
            let found = format!("{threads} threads, {len} bytes, at most {bound}");
            assert!(unflushed <= bound, "{found}: {unflushed} unflushed");
            assert!(bytes <= bound + (12 << 20), "{found}: {bytes} in files");
        }
    }
}

/// What fills the journal and no memtable: it is the journal's bound that has this flushed, and not
/// before it is near.
#[test]
fn keys_written_again_and_again_are_flushed_when_the_journal_is_near_its_bound() {
    let _watchdog = Watchdog::new("journal_space", 300);
    let db = on(&MemFs::new(), tiny().write_buffer(WRITE_BUFFER));
    let mut most = 0;
    for turn in 0..300_000 {
        db.put(format!("{}", turn % 10), vec![1; 100]).unwrap();
        if turn % 200 == 0 {
            let unflushed = || db.stats().journal.unflushed_bytes;
            most = most.max(unflushed());
            // Ten are the bound; if nobody flushes by now, the watchdog ends it.
            until(|| unflushed() < 12 * WRITE_BUFFER);
        }
    }
    assert!(
        (6 * WRITE_BUFFER..=14 * WRITE_BUFFER).contains(&most),
        "{most} bytes"
    );
}
