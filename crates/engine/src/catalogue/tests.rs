//! A drop that fails leaves a keyspace that is as usable as the database is.

use super::Marked;
use crate::entry::Decision;
use crate::fixture::{fresh, open, tiny, until};
use crate::options::{JournalMode, WriteOptions};
use crate::write_batch::WriteBatch;
use std::sync::Arc;
use velella_base::ErrorKind;
use velella_sync::atomic::Ordering;
use velella_sync::{epoch, thread};
use velella_testkit::Watchdog;
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::{FaultFs, MemFs, Operation};

#[test]
fn a_drop_that_finds_no_room_leaves_the_keyspace_as_it_was() {
    let faulty = FaultFs::over_mem(&MemFs::new());
    let (db, engine) = open(Arc::new(faulty.clone()), tiny().journal(JournalMode::Off));
    // The flush must fail here, not in a worker, which would end all writing.
    db.handle.workers.lock().stop(&engine);
    let keyspace = db.create_keyspace("k", Default::default()).unwrap();
    keyspace.put("a", "1").unwrap();
    faulty.inject(Rule::every(Fault::NoSpace).on(".sst"));
    let error = db.drop_keyspace("k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    faulty.heal();
    keyspace.put("b", "2").unwrap();
    assert_eq!(keyspace.increment("n", 1).unwrap(), 1);
    assert_eq!(db.keyspace("k").unwrap().get("a").unwrap().unwrap(), "1");
    db.drop_keyspace("k").unwrap();
    assert_eq!(
        keyspace.put("c", "3").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_drop_for_which_the_manifest_has_no_room_can_be_repeated() {
    for fault in [Fault::Short, Fault::NoSpace] {
        let mem = MemFs::new();
        let faulty = FaultFs::over_mem(&mem);
        let (db, engine) = open(Arc::new(faulty.clone()), tiny());
        db.handle.workers.lock().stop(&engine);
        let keyspace = db.create_keyspace("k", Default::default()).unwrap();
        keyspace.put("a", "1").unwrap();
        faulty.inject(Rule::every(fault).on("MANIFEST").of(Operation::Write));
        let error = db.drop_keyspace("k").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        let error = db.create_keyspace("l", Default::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        faulty.heal();
        keyspace.put("b", "2").unwrap();
        assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
        assert!(db.keyspace("l").is_err());
        db.drop_keyspace("k").unwrap();
        db.create_keyspace("l", Default::default()).unwrap();
        drop((keyspace, db, engine));
        let (db, _) = open(Arc::new(mem), tiny());
        assert!(db.keyspace("k").is_err() && db.keyspace("l").is_ok());
    }
}

#[test]
fn while_a_drop_is_undecided_nobody_is_told_that_it_is_done() {
    let (db, _) = fresh();
    let keyspace = db.create_keyspace("k", Default::default()).unwrap();
    let marked = Marked::new(&keyspace.core).unwrap();
    for error in [
        keyspace.put("b", "2").unwrap_err(),
        db.drop_keyspace("k").unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.to_string().contains("it is being dropped"), "{error}");
    }
    drop(marked);
    keyspace.put("b", "2").unwrap();
    db.drop_keyspace("k").unwrap();
    let error = keyspace.put("b", "2").unwrap_err();
    assert!(error.to_string().contains("it was dropped"), "{error}");
}

#[test]
fn a_drop_in_doubt_ends_writing_and_is_decided_by_the_next_opening() {
    // A full disk that a sync meets is as any sync that fails.
    for (fault, operation) in [
        (Fault::Io, Operation::Write),
        (Fault::NoSpace, Operation::SyncData),
    ] {
        let mem = MemFs::new();
        let faulty = FaultFs::over_mem(&mem);
        let (db, engine) = open(Arc::new(faulty.clone()), tiny());
        db.handle.workers.lock().stop(&engine);
        let keyspace = db.create_keyspace("k", Default::default()).unwrap();
        keyspace.put("a", "1").unwrap();
        db.persist().unwrap();
        faulty.inject(Rule::every(fault).on("MANIFEST").of(operation));
        let error = db.drop_keyspace("k").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        assert!(faulty.fired() > 0);
        faulty.heal();
        let told = db.stats().read_only.unwrap();
        assert!(told.contains("in doubt"), "{told}");
        // Were it only the manifest that had stopped, this would be acknowledged and lost.
        let refused = keyspace.put("b", "2").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
        assert_eq!(db.put("b", "2").unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
        drop(db.close());
        drop((keyspace, db, engine));
        let (db, _) = open(Arc::new(mem), tiny());
        if let Ok(keyspace) = db.keyspace("k") {
            assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
            keyspace.put("b", "2").unwrap();
        }
        db.verify().unwrap();
    }
}

/// Only the creation is in doubt, and its caller was told: what was written is durable.
#[test]
fn a_database_in_which_a_creation_is_in_doubt_closes_without_an_error() {
    let mem = MemFs::new();
    let faulty = FaultFs::over_mem(&mem);
    let (db, _engine) = open(Arc::new(faulty.clone()), tiny());
    faulty.inject(Rule::every(Fault::Io).on("MANIFEST").of(Operation::Write));
    let error = db.create_keyspace("k", Default::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    faulty.heal();
    db.put("a", "1").unwrap();
    db.close().unwrap();
    let (db, _) = open(Arc::new(mem), tiny());
    assert_eq!(db.get("a").unwrap().unwrap(), "1");
}

#[test]
fn a_creation_does_not_wait_for_a_batch_that_keeps_switches_off() {
    let _watchdog = Watchdog::new("a_creation_does_not_wait", 60);
    let (db, engine) = fresh();
    let batch = engine.keep_switches_off();
    let keyspace = db.create_keyspace("k", Default::default()).unwrap();
    let sync = WriteOptions::sync();
    keyspace.put_with("a", "1", sync).unwrap();
    drop(batch);
}

#[test]
fn no_flush_runs_between_a_drop_and_its_readers_being_told() {
    let _watchdog = Watchdog::new("no_flush_runs", 120);
    let (db, engine) = fresh();
    for _ in 0..300 {
        let keyspace = db.create_keyspace("k", Default::default()).unwrap();
        keyspace.put("a", "1").unwrap();
        thread::scope(|scope| {
            let dropping = scope.spawn(|| db.drop_keyspace("k").unwrap());
            let is_named = || engine.keyspaces.lock().contains_key("k");
            loop {
                // As a flush does, which would take the memtable away.
                let turn = engine.flushes.turn.try_lock();
                if turn.is_some() && !is_named() {
                    assert!(keyspace.core.check_there().is_err());
                    break;
                }
            }
            dropping.join().unwrap();
        });
    }
}

#[test]
fn external_values_in_memory_go_with_their_keyspace() {
    let _watchdog = Watchdog::new("external_values_in_memory", 60);
    let (db, engine) = fresh();
    // Before the writes: a worker would take the values into tables.
    db.handle.workers.lock().stop(&engine);
    engine.stopping.store(false, Ordering::Release);
    let keyspace = db.create_keyspace("k", Default::default()).unwrap();
    // Too little for a switch.
    let value = vec![7; (1 << 20) + 1];
    keyspace.put("immutable", &value).unwrap();
    engine.switch(&[Arc::clone(&keyspace.core)]);
    keyspace.put("current", &value).unwrap();
    let mems = || {
        let guard = epoch::pin();
        let view = keyspace.core.view.load(&guard);
        (view.immutables(), view.cur.table.is_empty())
    };
    assert_eq!(mems(), (1, false));
    db.drop_keyspace("k").unwrap();
    drop(keyspace);
    // The last that has the immutable one is the queue of flushes.
    engine.flush_next().unwrap();
    until(|| {
        engine.reclaim();
        db.stats().external_bytes == 0
    });
}

#[test]
fn who_stands_on_an_external_value_of_a_dropped_keyspace_is_told() {
    let _watchdog = Watchdog::new("who_stands_on_an_external_value", 60);
    let (db, engine) = fresh();
    let keyspace = db.create_keyspace("k", Default::default()).unwrap();
    // Before the write: a worker that flushes it puts the value into a table, whose version the
    // iterator would hold.
    db.handle.workers.lock().stop(&engine);
    keyspace.put("large", vec![7; 2 << 20]).unwrap();
    engine.switch(&[Arc::clone(&keyspace.core)]);
    let mut iter = keyspace.iter().unwrap();
    assert!(iter.seek_first().unwrap());
    db.drop_keyspace("k").unwrap();
    // The memtable leaves, and with it who held the value's file.
    engine.flush_next().unwrap();
    until(|| {
        engine.reclaim();
        db.stats().external_bytes == 0
    });
    let error = iter.value().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert!(error.to_string().contains("dropped"), "{error}");
}

#[test]
fn writes_to_a_dropped_keyspace_leave_nothing_in_memory_or_on_the_disk() {
    let (db, engine) = fresh();
    let keyspace = db.create_keyspace("k", Default::default()).unwrap();
    keyspace.put("k", "1").unwrap();
    db.handle.workers.lock().stop(&engine);
    db.drop_keyspace("k").unwrap();
    let bytes = || {
        let guard = epoch::pin();
        keyspace.core.view.load(&guard).cur.table.bytes()
    };
    let (before, large) = (bytes(), vec![7; 2 << 20]);
    let mut batch = WriteBatch::new();
    batch.put(&keyspace, "batch", &large);
    for key in 0..2_000u32 {
        let key = key.to_be_bytes();
        let errors = [
            keyspace.put(key, "2").unwrap_err(),
            keyspace.delete(key).unwrap_err(),
            keyspace.rmw(key, |_| Decision::Delete).unwrap_err(),
        ];
        assert!(errors.iter().all(|of| of.kind() == ErrorKind::NotFound));
    }
    keyspace.put("large", &large).unwrap_err();
    db.write(&batch).unwrap_err();
    assert_eq!(bytes(), before);
    assert_eq!(db.stats().external_bytes, 0);
}

#[test]
fn the_memory_of_a_dropped_keyspace_is_not_counted_whoever_ends_a_write_to_it() {
    let (db, engine) = fresh();
    db.handle.workers.lock().stop(&engine);
    let keyspace = db.create_keyspace("k", Default::default()).unwrap();
    keyspace.put("k", "1").unwrap();
    db.drop_keyspace("k").unwrap();
    let before = engine.memtable_bytes.now();
    // As a batch does that was committed just before.
    engine.fills(&keyspace.core.view.load(&epoch::pin()).cur);
    assert_eq!(engine.memtable_bytes.now(), before);
}
