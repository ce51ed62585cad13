//! What a write holds, and when.

use crate::budget::LANES;
use crate::change::Change;
use crate::commit::Window;
use crate::db::Db;
use crate::fixture::{ALONE, fresh, open, tiny, until};
use crate::options::{JournalMode, WriteOptions};
use crate::write_batch::WriteBatch;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use velella_base::limits::INLINE_VALUE_BYTES_MAX;
use velella_base::{Error, ErrorKind, Result, Stamp};
use velella_memtable::{Install, Owner};
use velella_sync::atomic::Ordering;
use velella_sync::epoch;
use velella_testkit::Watchdog;
use velella_vfs::MemFs;

#[test]
fn an_external_value_is_held_before_its_version_is_installed() {
    let _watchdog = Watchdog::new("held_before_installed", 60);
    let (db, engine) = fresh();
    let view = db.core.view.load_full(&epoch::pin());
    let externals = view.cur.externals.lock();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| db.put("large", vec![7; INLINE_VALUE_BYTES_MAX + 1]));
        // The writer has the file's hold, and now needs the lock that we have.
        until(|| format!("{:?}", engine.env.externals).contains("holds: 1"));
        let installed = {
            let guard = epoch::pin();
            view.cur.table.undecided(b"large", &guard).is_some()
        };
        drop(externals);
        writer.join().unwrap().unwrap();
        assert!(!installed, "it waits for a lock while its key is undecided");
    });
    assert_eq!(view.cur.externals.lock().len(), 1, "held once");
}

#[test]
fn a_panic_in_a_window_ends_writing_with_an_error_and_holds_nobody_up() {
    let (db, engine) = fresh();
    db.put("k", "before").unwrap();
    let view = db.core.view.load_full(&epoch::pin());
    let owner = catch_unwind(AssertUnwindSafe(|| {
        let pair = engine.checkout(WriteOptions::default()).unwrap();
        let guard = epoch::pin();
        let change = Change::put(&engine, b"k", b"never", None).unwrap();
        let owner = Owner::Slot(pair.index());
        let installed = view
            .cur
            .table
            .install(&change.intent(), owner, None, &guard);
        let Install::Installed(_pending) = installed else {
            panic!("nobody else writes")
        };
        let _window = Window::open(&engine, pair.index());
        engine.clock.draw();
        resume_unwind(Box::new("a bug"));
    }));
    assert!(owner.is_err());
    // A resolving reader, a writer of the key, and a switch would wait for these.
    assert_eq!(engine.slots.frontier(&engine.clock), engine.clock.now());
    let guard = epoch::pin();
    assert!(view.cur.table.undecided(b"k", &guard).is_none());
    assert_eq!(db.get_strict("k").unwrap().unwrap(), "before");
    assert_eq!(db.put("k", "x").unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(
        db.put("other", "x").unwrap_err().kind(),
        ErrorKind::ReadOnly
    );
    assert_eq!(db.persist().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::ReadOnly);
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::ReadOnly);
}

#[test]
fn a_writer_that_waits_for_a_key_hears_that_writing_has_ended() {
    let (db, engine) = fresh();
    let view = db.core.view.load_full(&epoch::pin());
    let guard = epoch::pin();
    let change = Change::put(&engine, b"k", b"never", None).unwrap();
    // Its owner stands still for ever: no pair has this slot.
    let installed = view
        .cur
        .table
        .install(&change.intent(), Owner::Slot(LANES - 1), None, &guard);
    let Install::Installed(pending) = installed else {
        panic!("nobody else writes")
    };
    engine.halt(Error::new(ErrorKind::ReadOnly, "write", "a test says so"));
    let undecided = view.cur.table.undecided(b"k", &guard).unwrap();
    let error = engine.wait_for(&undecided).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnly);
    pending.abort();
}

/// Without a journal nothing refuses them later: a lane would.
#[test]
fn who_gets_a_pair_once_the_door_is_shut_does_not_write() {
    let _watchdog = Watchdog::new("who_gets_a_pair_once_the_door_is_shut", 60);
    let put: fn(&Db) -> Result<Stamp> = |db| db.put("k", "v");
    let batch: fn(&Db) -> Result<Stamp> = |db| {
        let mut batch = WriteBatch::new();
        batch.put(db, "k", "v").put(db, "l", "v");
        db.write(&batch)
    };
    for write in [put, batch] {
        let builder = tiny().simulated(ALONE).journal(JournalMode::Off);
        let (db, engine) = open(Arc::new(MemFs::new()), builder);
        let pairs = engine.all_pairs();
        // Who is let in owes for it, and then looks for a pair.
        engine.pace.set(0.1);
        let is_in = || engine.pace.owed_nanos.load(Ordering::Relaxed) > 0;
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&db));
            until(is_in);
            engine.halt_as_closed();
            drop(pairs);
            let refused = writer.join().unwrap().unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Closed);
        });
        assert!(db.core.view.load(&epoch::pin()).cur.table.is_empty());
    }
}
