//! Many keyspaces share one budget, whatever holds their flushes up.

use crate::budget;
use crate::db::Db;
use crate::entry::Decision;
use crate::fixture::{open, tiny, until};
use crate::options::{JournalMode, WriteOptions};
use crate::write_batch::WriteBatch;
use std::sync::Arc;
use velella_base::ErrorKind;
use velella_sync::atomic::Ordering;
use velella_sync::thread;
use velella_testkit::Watchdog;
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::{FaultFs, MemFs, Operation};

const BUDGET: u64 = 16 << 20;
/// What one write may take at once: a chunk, and an index that doubles.
const STEP: u64 = 1 << 20;
const KEYSPACES: u32 = 16;

fn stalls(db: &Db, cause: &str) -> u64 {
    stalled(db, cause).0
}

/// How often writers waited for `cause`, and for how many microseconds in all.
fn stalled(db: &Db, cause: &str) -> (u64, u64) {
    let stalls = db.stats().stalls;
    let of = stalls.iter().find(|stall| stall.cause == cause);
    of.map_or((0, 0), |stall| (stall.count, stall.total_us))
}

fn memtables_of_many_keyspaces_stay_within_their_share(journal: JournalMode) {
    let _watchdog = Watchdog::new("memtables_of_many_keyspaces", 120);
    let builder = tiny().memory(BUDGET).write_buffer(BUDGET).journal(journal);
    let (db, engine) = open(Arc::new(MemFs::new()), builder);
    let names: Vec<_> = (0..KEYSPACES).map(|name| name.to_string()).collect();
    let create = |name: &String| db.keyspace_or_create(name).unwrap();
    let keyspaces: Vec<_> = names.iter().map(create).collect();
    let paused = engine.flushes.pause();
    // As much as the whole budget; no keyspace alone fills its write buffer.
    let write = |thread: u32| {
        for turn in 0..8_000u32 {
            let keyspace = &keyspaces[(turn % KEYSPACES) as usize];
            let key = [turn, thread].map(u32::to_be_bytes).concat();
            keyspace.put(key, [7; 1_000]).unwrap();
            let taken = db.stats().memory.memtables;
            assert!(taken <= BUDGET / 2 + STEP, "{taken} bytes of memtables");
        }
    };
    thread::scope(|scope| {
        let write = &write;
        let writers = [0, 1].map(|thread| scope.spawn(move || write(thread)));
        let is_over = || writers.iter().any(|writer| writer.is_finished());
        until(|| stalls(&db, "memory") == 2 || is_over());
        assert!(!is_over(), "they wait for the flush");
        let taken = db.stats().memory.memtables;
        assert!(taken > BUDGET / 2 - STEP, "{taken}: they waited too early");
        drop(paused);
        engine.work.wake_all();
    });
    let counted: usize = keyspaces
        .iter()
        .map(|keyspace| keyspace.iter().unwrap().count())
        .sum();
    assert_eq!(counted, 16_000);
    db.flush().unwrap();
    let left = engine.memtable_bytes.now();
    assert_eq!(left, 0, "what was flushed is counted no more");
}

#[test]
fn memtables_of_many_keyspaces_stay_within_their_share_and_writers_go_on() {
    memtables_of_many_keyspaces_stay_within_their_share(JournalMode::Auto);
}

#[test]
fn without_a_journal_too() {
    memtables_of_many_keyspaces_stay_within_their_share(JournalMode::Off);
}

#[test]
fn memtables_give_way_to_filters_that_outgrow_the_cache() {
    let _watchdog = Watchdog::new("memtables_give_way_to_filters", 120);
    let builder = tiny().memory(BUDGET).write_buffer(BUDGET).bloom_bits(32);
    let (db, engine) = open(Arc::new(MemFs::new()), builder);
    // Filters of 5 MB: indexes are small, since a block takes many such pairs.
    for number in 0..1_300_000u32 {
        db.put(number.to_be_bytes(), "").unwrap();
    }
    db.flush().unwrap();
    let stalled = stalls(&db, "memory");
    let pinned = engine.env.cache.table_bytes();
    let most = budget::memtable_bytes(&engine.options, 0);
    let share = budget::memtable_bytes(&engine.options, pinned);
    assert!(share < most - 2 * STEP, "{pinned} pinned leave {share}");
    let paused = engine.flushes.pause();
    thread::scope(|scope| {
        let db = &db;
        let writer = scope.spawn(move || {
            for number in 0..10_000u32 {
                db.put(number.to_be_bytes(), [7; 1_000]).unwrap();
            }
        });
        until(|| stalls(db, "memory") > stalled || writer.is_finished());
        assert!(!writer.is_finished(), "it waits for the flush");
        let taken = db.stats().memory.memtables;
        let around = share - STEP..most - STEP;
        assert!(around.contains(&taken), "{taken} of {share}");
        drop(paused);
        engine.work.wake_all();
    });
}

#[test]
fn memtables_of_a_dropped_keyspace_are_counted_no_more() {
    let (db, engine) = open(Arc::new(MemFs::new()), tiny());
    let keyspace = db.create_keyspace("short", Default::default()).unwrap();
    keyspace.put("k", "v").unwrap();
    assert!(engine.memtable_bytes.now() > 0);
    db.drop_keyspace("short").unwrap();
    assert_eq!(engine.memtable_bytes.now(), 0);
}

#[test]
fn what_a_refused_batch_leaves_in_a_memtable_is_counted() {
    let _watchdog = Watchdog::new("what_a_refused_batch_leaves", 60);
    let (db, engine) = open(Arc::new(MemFs::new()), tiny());
    let rows = db.create_keyspace("rows", Default::default()).unwrap();
    let since = db.snapshot();
    db.put("meta", "1").unwrap();
    let mut batch = WriteBatch::new();
    for row in 0..100u32 {
        batch.put(&rows, row.to_be_bytes(), [7; 1_000]);
    }
    batch.put(&db, "meta", "2");
    let refuse = || db.write_if_unchanged(&batch, &since, WriteOptions::default());
    assert_eq!(refuse().unwrap(), None);
    assert!(engine.memtable_bytes.now() > 100_000);
    // As often as it fills the write buffer, all the same.
    while engine.counters.flushes.sum() == 0 {
        assert_eq!(refuse().unwrap(), None);
    }
    assert_eq!(rows.iter().unwrap().count(), 0);
}

#[test]
fn what_a_failed_batch_leaves_in_a_memtable_is_counted() {
    let mem = MemFs::new();
    let (db, _) = open(Arc::new(mem.clone()), tiny());
    db.put("meta", "1").unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let faulty = FaultFs::over_mem(&mem);
    let (db, engine) = open(Arc::new(faulty.clone()), tiny());
    let mut batch = WriteBatch::new();
    for row in 0..100u32 {
        batch.put(&db, row.to_be_bytes(), [7; 1_000]);
    }
    batch.put(&db, "meta", "2");
    faulty.inject(Rule::every(Fault::Io).of(Operation::Read).on(".sst"));
    let outcome = db.write_if_unchanged(&batch, &db.snapshot(), WriteOptions::default());
    assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Io);
    assert!(engine.memtable_bytes.now() > 100_000);
}

#[test]
fn an_update_is_slowed_down_for_its_value_too() {
    let (db, engine) = open(Arc::new(MemFs::new()), tiny());
    db.handle.workers.lock().stop(&engine);
    engine.stopping.store(false, Ordering::Release);
    engine.pace.set(0.1);
    let waits = || stalled(&db, "compaction");
    let (mut before, value) = (waits(), [7; 200_000]);
    let updates: [&dyn Fn(); 2] = [
        &|| drop(db.rmw("k", |_| Decision::put(&value)).unwrap()),
        &|| assert!(db.update("k", |_| Decision::put(&value)).unwrap().is_some()),
    ];
    for update in updates {
        update();
        let after = waits();
        assert!(after.0 > before.0);
        // 200 kB at less than 64 MB a second.
        assert!(after.1 >= before.1 + 3_000, "{after:?} after {before:?}");
        before = after;
    }
}
