//! What operations cost, in counters that repeat exactly.
//!
//! Claims: the "In counters". Allocations are in `allocations.rs`, which has a global
//! allocator of its own.

use crate::common::{counter, on, tiny, try_on, until};
use std::sync::Arc;
use std::time::Duration;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::{FaultFs, MemFs, Operation, TraceFs};
use velella::{Builder, Db, WriteOptions};

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
fn a_scan_costs_the_same_over_one_version_or_ten_thousand() {
    // A live snapshot below all of them keeps nothing pruned from being needed twice.
    let db = on(&MemFs::new(), roomy());
    let scan = |db: &Db| {
        costs(
            db,
            ["memtable_comparisons", "memtable_versions_skipped"],
            || {
                assert_eq!(db.iter().unwrap().count(), 20);
            },
        )
    };
    let write = |rounds: u32| {
        for round in 0..rounds {
            for key in 0..20u32 {
                db.put(key.to_be_bytes(), round.to_le_bytes()).unwrap();
            }
        }
    };
    write(1);
    let [one, _] = scan(&db);
    write(10_000);
    let [many, skipped] = scan(&db);
    assert!(
        many <= one + one / 5,
        "{one} comparisons over one version, {many} over many"
    );
    assert!(skipped <= 20, "{skipped} versions were passed over");
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

#[test]
fn a_hot_key_is_pruned_while_a_device_syncs_a_round() {
    let slow = FaultFs::over_mem(&MemFs::new());
    let db = try_on(Arc::new(slow.clone()), roomy()).unwrap();
    let long = Fault::Delay(Duration::from_secs(3));
    slow.inject(Rule::every(long).of(Operation::SyncMap));
    db.put("hot", "first").unwrap();
    std::thread::scope(|scope| {
        let round = scope.spawn(|| db.persist().unwrap());
        until(|| slow.fired() > 0);
        // Another one waits for its turn meanwhile, and keeps nothing.
        db.put("hot", "second").unwrap();
        scope.spawn(|| db.persist().unwrap());
        std::thread::sleep(Duration::from_millis(50));
        let [pruned] = costs(&db, ["memtable_versions_pruned"], || {
            for turn in 0..20_000u32 {
                db.put("hot", turn.to_le_bytes()).unwrap();
            }
        });
        assert!(!round.is_finished(), "a slower device is needed");
        assert!(pruned > 10_000, "{pruned} of 20,000 versions were pruned");
        slow.heal();
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
