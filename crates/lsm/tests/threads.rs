//! Readers, a flusher and two compaction threads on one tree: every read is what a snapshot of
//! its stamp must show, whatever moves meanwhile.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella_base::{Cursor, Order, Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_sync::rng::Rng;
use velella_tree::Wanted;
use velella_tree::contract::Bench;
use velella_vfs::MemFs;

const KEYS: u64 = 200;

/// Run `stamp` writes every key whose number leaves `stamp % 3` modulo 3, and no other.
fn writes(stamp: u64, key: u64) -> bool {
    key % 3 == stamp % 3
}

fn name(key: u64) -> Vec<u8> {
    format!("key{key:05}").into_bytes()
}

/// The newest stamp at or below `at` that writes `key`.
fn expected(key: u64, at: u64) -> Option<u64> {
    (at.saturating_sub(2).max(1)..=at)
        .rev()
        .find(|stamp| writes(*stamp, key))
}

#[test]
fn reads_are_exact_while_everything_moves() {
    let vfs = Arc::new(MemFs::new());
    let bench = Bench::create(vfs, Order::Bytewise, velella_lsm::open).unwrap();
    let flushed = AtomicU64::new(0);
    let done = AtomicBool::new(false);
    // Readers stay within this distance of the newest stamp; what they may read is kept.
    const LAG: u64 = 8;
    let retention = || {
        let newest = flushed.load(Ordering::Acquire);
        let points = (newest.saturating_sub(2 * LAG)..newest)
            .map(Stamp)
            .collect();
        Retention::new(Stamp(newest), Stamp(newest), points)
    };
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let (bench, flushed, done) = (&bench, &flushed, &done);
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                while !done.load(Ordering::Acquire) {
                    let newest = flushed.load(Ordering::Acquire);
                    let at = newest.saturating_sub(rng.below(LAG));
                    let key = rng.below(KEYS);
                    let found = bench.get(&name(key), at).unwrap();
                    let late = flushed.load(Ordering::Acquire) > newest + LAG;
                    assert!(late || found.map(|found| found.0) == expected(key, at));
                }
            });
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    if let Some(job) = bench.tree.next_job(Wanted::Due, &retention()) {
                        job.run(&retention, &|| Ok(true)).unwrap();
                    }
                    std::thread::yield_now();
                }
            });
        }
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let newest = flushed.load(Ordering::Acquire);
                let mut cursor = bench.tree.cursor(false);
                // What it reads is kept, unless more than that was flushed before it was made.
                if flushed.load(Ordering::Acquire) > newest + LAG {
                    continue;
                }
                let mut seen = Vec::new();
                cursor.seek(&name(0), Stamp::MAX).unwrap();
                while let Some(entry) = cursor.entry() {
                    if entry.stamp.0 <= newest && seen.last() != Some(&entry.key.to_vec()) {
                        seen.push(entry.key.to_vec());
                    }
                    cursor.next().unwrap();
                }
                let whole: Vec<_> = (0..KEYS)
                    .filter(|key| expected(*key, newest).is_some())
                    .map(name)
                    .collect();
                assert_eq!(seen, whole, "a scan at {newest} lost or gained keys");
            }
        });
        for stamp in 1..=400 {
            let run = (0..KEYS)
                .filter(|key| writes(stamp, *key))
                .map(|key| (name(key), stamp, ValueKind::Put, vec![b'v'; 20]))
                .collect();
            bench.flush(run, &retention()).unwrap();
            flushed.store(stamp, Ordering::Release);
        }
        done.store(true, Ordering::Release);
    });
    bench.tree.verify(&mut |_| ()).unwrap();
}
