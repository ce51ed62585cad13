//! Background threads beside each other, and when one of them cannot be started.

use crate::fixture::{ALONE, fresh, open, tiny, until};
use crate::jobs::REFUSE;
use crate::options::{WriteOptions, processors};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use velella_base::ErrorKind;
use velella_testkit::Watchdog;
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

#[test]
fn a_worker_compacts_while_a_flush_is_under_way() {
    let _watchdog = Watchdog::new("a_worker_compacts", 60);
    let (db, engine) = fresh();
    // Enough tables in level 0 for a compaction, which this keeps from the workers.
    let whole = engine.compacting.write();
    for round in 0..8u32 {
        db.put(round.to_be_bytes(), "v").unwrap();
        db.put("again", "v").unwrap();
        db.flush().unwrap();
    }
    // A flush that takes its time, and another that is due.
    let turn = engine.flushes.pause();
    db.put("late", "v").unwrap();
    engine.switch(&engine.cores());
    assert!(!engine.flushes.is_empty());
    drop(whole);
    engine.work.wake_all();
    until(|| engine.counters.compactions.sum() > 0);
    drop(turn);
    until(|| engine.flushes.is_empty());
}

#[test]
fn a_second_hand_joins_once_flushes_pile_up() {
    let _watchdog = Watchdog::new("a_second_hand_joins", 60);
    let (db, engine) = fresh();
    // As if other threads were at work, as many as may be whatever the writers do.
    let busy = || engine.crew.counts().0;
    let hands: Vec<_> = (0..processors())
        .map(|_| engine.crew.join(|| true).unwrap())
        .collect();
    until(|| busy() == hands.len());
    let switch = |key: &str| {
        db.put(key, "v").unwrap();
        engine.switch(&engine.cores());
    };
    let refused = engine.crew.counts().1;
    switch("first");
    until(|| engine.crew.counts().1 > refused + 1);
    assert_eq!(
        engine.flushes.len(),
        1,
        "the worker leaves it to the others"
    );
    switch("second");
    until(|| engine.flushes.len() == 1);
    drop(hands);
    until(|| engine.flushes.is_empty());
}

#[test]
fn no_segment_is_kept_ahead_while_flushes_lack_descriptors_or_room() {
    let _watchdog = Watchdog::new("no_segment_is_kept_ahead", 60);
    no_segment_is_kept_ahead_during(Fault::TooManyFiles);
    no_segment_is_kept_ahead_during(Fault::NoSpace);
}

fn no_segment_is_kept_ahead_during(fault: Fault) {
    let mem = MemFs::new();
    let faulty = FaultFs::over_mem(&mem);
    let (db, engine) = open(Arc::new(faulty.clone()), tiny());
    let segments = || {
        let names = mem.files().into_iter();
        let is_segment = |path: &PathBuf| path.extension().is_some_and(|of| of == "seg");
        names.filter(is_segment).count()
    };
    db.put("k", "v").unwrap();
    until(|| segments() == 3);
    let tables = Rule::every(fault).of(Operation::Create);
    faulty.inject(tables.on(".sst"));
    engine.switch(&engine.cores());
    until(|| segments() == 1);
    assert!(engine.shortages.flushes.is_on());
    faulty.heal();
    until(|| engine.flushes.is_empty() && segments() == 3);
    assert_eq!(db.get("k").unwrap().unwrap(), "v");
}

#[test]
fn a_journal_that_is_too_long_is_flushed_for_once() {
    let _watchdog = Watchdog::new("a_journal_that_is_too_long", 60);
    let builder = tiny().write_buffer(3 << 20);
    let (db, engine) = open(Arc::new(MemFs::new()), builder);
    let paused = engine.flushes.pause();
    while engine.flushes.is_empty() {
        db.put("again and again", [7; 1_000]).unwrap();
        engine.bound_journal().unwrap();
    }
    // Its end is as far away as before, until that flush is done.
    db.put("again and again", "later").unwrap();
    engine.bound_journal().unwrap();
    assert_eq!(engine.flushes.len(), 1);
    drop(paused);
    until(|| engine.flushes.is_empty());
}

#[test]
fn a_flush_that_waits_keeps_no_other_keyspace_from_giving_up_the_journal() {
    let _watchdog = Watchdog::new("a_flush_that_waits", 60);
    let builder = tiny().write_buffer(3 << 20).memory(128 << 20);
    let (db, engine) = open(Arc::new(MemFs::new()), builder);
    let create = |name: &str| db.create_keyspace(name, Default::default()).unwrap();
    let quiet = create("quiet");
    quiet.put("once", "v").unwrap();
    // Journal for several buffers and none full, even where a reader of another test keeps what
    // was overwritten: the writer must never wait for a flush.
    let others = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"].map(create);
    let _paused = engine.flushes.pause();
    db.put("again and again", "v").unwrap();
    engine.switch(&[Arc::clone(&db.core)]);
    let is_switched = || {
        let guard = velella_sync::epoch::pin();
        quiet.core.view.load(&guard).immutables() == 1
    };
    for other in others.iter().cycle() {
        if is_switched() {
            break;
        }
        other.put("again and again", [7; 1_000]).unwrap();
        engine.bound_journal().unwrap();
    }
}

#[test]
fn an_opening_that_cannot_start_a_thread_leaves_no_thread_and_no_lock() {
    let fs = Arc::new(MemFs::new());
    for nth in 1..=4 {
        let vfs: Arc<dyn Vfs> = fs.clone();
        let builder = tiny().background_threads(2).vfs(vfs);
        REFUSE.set(nth);
        let error = builder.clone().open("/db").unwrap_err();
        assert_eq!(REFUSE.replace(0), 0);
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("velella-"), "{error}");
        let db = builder.open("/db").unwrap();
        db.put("k", nth.to_le_bytes()).unwrap();
        db.close().unwrap();
    }
}

#[test]
fn an_idle_journal_notes_by_itself_that_its_last_round_completed() {
    let _watchdog = Watchdog::new("an_idle_journal_notes", 60);
    let seals = |builder| {
        let faulty = FaultFs::over_mem(&MemFs::new());
        let counted = Rule::every(Fault::Delay(Duration::ZERO)).on(".seal");
        let (db, engine) = open(Arc::new(faulty.clone()), builder);
        faulty.inject(counted.of(Operation::SyncData));
        (db, engine, faulty)
    };
    // Its own threads make none.
    let (db, engine, synced) = seals(tiny().simulated(ALONE));
    db.put_with("k", "v", WriteOptions::sync()).unwrap();
    assert_eq!(synced.fired(), 1, "a round syncs its seal");
    engine.note_done().unwrap();
    assert_eq!(synced.fired(), 2);
    engine.note_done().unwrap();
    assert_eq!(synced.fired(), 2, "and what says that it completed once");

    // Not a round of the writer's: it might be over before the thread looks for the first time.
    let (db, engine, synced) = seals(tiny());
    let rounds = || engine.journal.as_ref().unwrap().stats().rounds;
    let before = rounds();
    let stamp = db.put("k", "v").unwrap();
    until(|| db.durable() >= stamp && rounds() > before);
    until(|| synced.fired() > rounds() - before);
}
