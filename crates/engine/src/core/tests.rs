//! What a database that takes no more writes still does (E2).

use crate::fixture::fresh;
use std::time::Duration;
use velella_base::{Error, ErrorKind};
use velella_testkit::Watchdog;

/// This thread has the lock of the cause, and would wait for itself.
#[test]
fn reads_of_a_read_only_database_do_not_look_for_the_cause() {
    let _watchdog = Watchdog::new("reads_of_a_read_only_database", 60);
    let (db, _) = fresh();
    for key in ["a", "b", "c"] {
        db.put(key, "v").unwrap();
    }
    db.flush().unwrap();
    let engine = db.engine();
    engine.halt(Error::new(ErrorKind::ReadOnly, "write", "on purpose"));
    let cause = engine.cause.lock();
    assert_eq!(db.get("a").unwrap().unwrap(), "v");
    assert_eq!(db.snapshot().get(&db, "b").unwrap().unwrap(), "v");
    let mut iter = db.iter().unwrap();
    while iter.step().unwrap() {
        assert_eq!(iter.pair().unwrap().unwrap().1, b"v");
    }
    drop(cause);
    assert_eq!(db.put("a", "w").unwrap_err().kind(), ErrorKind::ReadOnly);
}

/// A failure that comes to light while the database is closed does not open it for readers.
#[test]
fn what_was_closed_stays_closed_whatever_fails_then() {
    let (db, _) = fresh();
    db.put("a", "v").unwrap();
    db.close().unwrap();
    db.engine()
        .halt(Error::new(ErrorKind::ReadOnly, "write", "too late"));
    assert_eq!(db.get("a").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(db.put("a", "w").unwrap_err().kind(), ErrorKind::Closed);
}

/// Whoever has them may wait for this thread, by way of another database.
#[test]
fn who_waits_for_a_pair_that_nobody_gives_back_is_told_of_a_close() {
    let _watchdog = Watchdog::new("who_waits_for_a_pair", 60);
    let (db, engine) = fresh();
    let pairs = engine.all_pairs();
    let writer = db.clone();
    let waits = velella_sync::thread::spawn("waits", move || writer.put("k", "v")).unwrap();
    // It may still be on its way there: then this shows nothing.
    velella_sync::thread::sleep(Duration::from_millis(20));
    engine.halt_as_closed();
    assert_eq!(waits.join().unwrap().unwrap_err().kind(), ErrorKind::Closed);
    drop(pairs);
}
