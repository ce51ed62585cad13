//! What operations cost, in counters that repeat exactly.
//!
//! Claims: the "In counters". Allocations are in `allocations.rs`, which has a global
//! allocator of its own.

use crate::common::{alone, counter, on, tiny, try_on, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use velella::vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella::vfs::{MemFs, Operation, TraceFs};
use velella::{Builder, Compression, Db, IterOptions, Snapshot, WriteOptions};
use velella_testkit::Watchdog;

/// Nothing switches: what is counted is the memtable's.
fn roomy() -> Builder {
    tiny().memory(1 << 30).write_buffer(64 << 20)
}

/// What `work` adds to the named counters.
fn costs<const N: usize>(db: &Db, names: [&str; N], work: impl FnOnce()) -> [u64; N] {
    let before = names.map(|name| counter(db, name));
    work();
    let mut costs = names.map(|name| counter(db, name));
    costs
        .iter_mut()
        .zip(before)
        .for_each(|(cost, before)| *cost -= before);
    costs
}

#[test]
fn an_update_takes_no_tower_and_one_cas() {
    let db = on(&MemFs::new(), roomy());
    let names = [
        "memtable_towers",
        "memtable_cas_attempts",
        "memtable_cas_failures",
        "memtable_versions",
    ];
    for number in 0..1_000u32 {
        db.put(number.to_be_bytes(), "first").unwrap();
    }
    let costs = costs(&db, names, || {
        for number in 0..1_000u32 {
            db.put(number.to_be_bytes(), "again").unwrap();
        }
    });
    assert_eq!(costs, [0, 1_000, 0, 1_000]);
}

#[test]
fn an_rmw_of_an_existing_key_takes_no_tower_and_one_cas() {
    let db = on(&MemFs::new(), roomy());
    db.increment("n", 1).unwrap();
    let names = ["memtable_towers", "memtable_cas_attempts", "rmw_retries"];
    let costs = costs(&db, names, || {
        (2..502).for_each(|sum| assert_eq!(db.increment("n", 1).unwrap(), sum))
    });
    assert_eq!(costs, [0, 500, 0]);
}

#[test]
fn a_scan_passes_over_the_versions_above_its_snapshot_alone_and_once() {
    const ROUNDS: u64 = 300;
    let db = on(&MemFs::new(), roomy());
    let names = ["memtable_comparisons", "memtable_versions_skipped"];
    let scan = |at: Option<&Snapshot>| {
        let snapshot = at.cloned();
        let options = IterOptions {
            snapshot,
            ..IterOptions::default()
        };
        costs(&db, names, || {
            assert_eq!(db.iter_with(options).unwrap().count(), 20);
        })
    };
    let write = |round: u64| {
        for key in 0..20u32 {
            db.put(key.to_be_bytes(), round.to_le_bytes()).unwrap();
        }
        db.snapshot()
    };
    let first = write(0);
    let one = scan(None);
    let mut later = Vec::new();
    let pruned = costs(&db, ["memtable_versions_pruned"], || {
        later.extend((1..ROUNDS).map(write));
    });
    assert_eq!(pruned, [0], "snapshots keep them");
    assert_eq!(scan(None), one);
    let last_but_one = &later[later.len() - 2];
    for (snapshot, above) in [(last_but_one, 1), (&first, ROUNDS - 1)] {
        assert_eq!(scan(Some(snapshot)), [one[0], 20 * above]);
    }
}

#[test]
fn a_scan_over_tables_costs_the_same_over_one_version_or_many() {
    let db = on(&MemFs::new(), roomy());
    let scan = |db: &Db| {
        costs(db, ["table_comparisons"], || {
            assert_eq!(db.iter().unwrap().count(), 20)
        })[0]
    };
    for key in 0..20u32 {
        db.put(key.to_be_bytes(), "v").unwrap();
    }
    db.compact().unwrap();
    let one = scan(&db);
    let snapshots: Vec<_> = (0..200u32)
        .map(|round| {
            for key in 0..20u32 {
                db.put(key.to_be_bytes(), round.to_le_bytes()).unwrap();
            }
            db.snapshot()
        })
        .collect();
    db.compact().unwrap();
    assert!(db.verify().unwrap().entries >= 4_000);
    let many = scan(&db);
    assert!(
        many <= 40 * one.max(20),
        "{one} comparisons over one version, {many} over 200"
    );
    drop(snapshots);
}

#[test]
fn a_scan_over_tables_leaves_a_run_of_versions_by_a_seek_both_ways() {
    const KEYS: u64 = 20;
    // Without threads: nobody else touches a block.
    let builder = alone().memory(1 << 30).write_buffer(64 << 20);
    let db = on(&MemFs::new(), builder.compression(Compression::None));
    let snapshots: Vec<_> = (0..200u32)
        .map(|_| {
            for key in 0..KEYS {
                db.put(key.to_be_bytes(), [7; 100]).unwrap();
            }
            db.snapshot()
        })
        .collect();
    db.compact().unwrap();
    let levels = &db.stats().keyspaces[0].levels;
    let bytes: u64 = levels.iter().map(|level| level.bytes).sum();
    assert!(bytes > 200 * KEYS * 100, "{bytes}: nothing is left out");
    let touched = || {
        let cache = db.stats().cache;
        cache.hits + cache.misses
    };
    for backward in [false, true] {
        let before = touched();
        let [compared] = costs(&db, ["table_comparisons"], || {
            let iter = db.iter().unwrap();
            let found = if backward {
                iter.rev().count()
            } else {
                iter.count()
            };
            assert_eq!(found as u64, KEYS);
        });
        let blocks = touched() - before;
        let what = format!("{blocks} blocks, {compared} comparisons, backward: {backward}");
        assert!(blocks <= 5 * KEYS, "{what}: one version after the other");
        assert!((4 * KEYS..=40 * KEYS).contains(&compared), "{what}");
    }
    drop(snapshots);
}

#[test]
fn long_chains_are_pruned_when_nobody_reads_their_middle() {
    let db = on(&MemFs::new(), roomy());
    for round in 0..20_000u32 {
        db.put("hot", round.to_le_bytes()).unwrap();
        if round % 1_000 == 0 {
            db.persist().unwrap();
        }
    }
    let pruned = counter(&db, "memtable_versions_pruned");
    assert!(pruned > 10_000, "{pruned} of 20,000 versions were pruned");
    assert_eq!(db.get("hot").unwrap().unwrap(), 19_999u32.to_le_bytes());
}

/// In front of a journal: its syncs last until they are let go.
#[derive(Debug, Default)]
struct Held {
    holds: AtomicBool,
    begun: AtomicU64,
}

impl Interceptor for Held {
    fn before(&self, call: &Call<'_>) -> Verdict {
        if call.operation == Operation::SyncMap {
            // Relaxed: a count, and a flag that orders nothing.
            self.begun.fetch_add(1, Ordering::Relaxed);
            until(|| !self.holds.load(Ordering::Relaxed));
        }
        Verdict::Pass
    }

    fn after(&self, _: &Call<'_>, _: bool) {}
}

#[test]
fn a_hot_key_is_pruned_while_a_device_syncs_a_round() {
    let _watchdog = Watchdog::new("a_hot_key_is_pruned", 120);
    let device = Arc::new(Held::default());
    let fs = Intercepted::standing(Arc::clone(&device), Arc::new(MemFs::new()));
    let db = try_on(Arc::new(fs), roomy()).unwrap();
    db.put("hot", "first").unwrap();
    device.holds.store(true, Ordering::Relaxed);
    let begun = || device.begun.load(Ordering::Relaxed);
    let before = begun();
    std::thread::scope(|scope| {
        let round = scope.spawn(|| db.persist().unwrap());
        until(|| begun() > before);
        // Another one waits for its turn meanwhile, and keeps nothing.
        db.put("hot", "second").unwrap();
        scope.spawn(|| db.persist().unwrap());
        std::thread::sleep(Duration::from_millis(50));
        let [pruned] = costs(&db, ["memtable_versions_pruned"], || {
            for turn in 0..20_000u32 {
                db.put("hot", turn.to_le_bytes()).unwrap();
            }
        });
        let is_over = round.is_finished();
        device.holds.store(false, Ordering::Relaxed);
        assert!(!is_over);
        assert!(pruned > 10_000, "{pruned} of 20,000 versions were pruned");
    });
}

#[test]
fn a_buffered_put_and_a_get_from_memory_call_no_file_system() {
    let trace = TraceFs::counting(Arc::new(MemFs::new()));
    let db = try_on(Arc::new(trace.clone()), roomy()).unwrap();
    let calls = || {
        trace
            .counts()
            .iter()
            .map(|(_, count)| count.calls)
            .sum::<u64>()
    };
    db.put("warm", "up").unwrap();
    db.persist().unwrap();
    // The background threads make calls of their own now and then: a quiet moment is looked for.
    let quiet = (0..200).any(|_| {
        let before = calls();
        for number in 0..20u32 {
            db.put(number.to_be_bytes(), "value").unwrap();
            assert!(db.get(number.to_be_bytes()).unwrap().is_some());
        }
        calls() == before
    });
    assert!(quiet, "200 times, 20 puts made a call");
}

#[test]
fn a_get_of_an_absent_key_asks_one_filter_a_table_and_reads_no_block() {
    let db = on(&MemFs::new(), roomy());
    for number in 0..2_000u32 {
        db.put(number.to_be_bytes(), "v").unwrap();
    }
    // To the last level: a table that goes there while it is read may make the read look again.
    db.compact().unwrap();
    let names = ["table_filter_probes", "table_filter_negatives"];
    let [probes, negatives] = costs(&db, names, || {
        for number in 0..1_000u32 {
            // Between two keys, so that the table's range does not exclude it.
            assert!(
                !db.contains([&number.to_be_bytes()[..], b"x"].concat())
                    .unwrap()
            );
        }
    });
    assert_eq!(probes, 1_000);
    assert!(negatives > 950, "{negatives} of 1,000");
}

#[test]
fn stats_say_what_was_done() {
    let db = on(&MemFs::new(), tiny());
    let snapshot = db.snapshot();
    for number in 0..100u32 {
        db.put(number.to_be_bytes(), "v").unwrap();
    }
    let stamp = db.put_with("last", "v", WriteOptions::sync()).unwrap();
    db.flush().unwrap();
    db.increment("n", 1).unwrap();
    let stats = db.stats();
    assert_eq!(stats.counters["writes"], 102);
    assert_eq!(stats.counters["rmws"], 1);
    assert_eq!(stats.snapshots, 1);
    assert!(stats.durable_stamp >= stamp.0 && stats.last_stamp > stamp.0);
    assert_eq!(
        stats.keyspaces[0]
            .levels
            .iter()
            .map(|level| level.entries)
            .sum::<u64>(),
        101
    );
    assert_eq!(
        (stats.journal.records, stats.memory.budget),
        (102, 16 << 20)
    );
    assert_eq!(stats.stalls.len(), 8);
    drop(snapshot);
}
