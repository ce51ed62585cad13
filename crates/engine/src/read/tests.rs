//! A key that expires while it is read: what one answer, or snapshot, says held at one moment.

use crate::db::Db;
use crate::entry::Decision;
use crate::fixture::{fresh, open, tiny};
use crate::options::{KeyspaceOptions, WriteOptions};
use crate::read::Reader;
use std::cell::Cell;
use std::cmp::Ordering;
use std::sync::{Arc, Mutex};
use velella_base::Order;
use velella_vfs::MemFs;

type Hook = Box<dyn FnOnce() + Send>;

/// Takes `read` of a key that expires while it is on its way to the table that has it. What
/// happens first, `meanwhile`, happens after the memtables were looked at.
fn read_while_it_expires<R>(
    meanwhile: impl FnOnce(&Db) + Send + 'static,
    read: impl FnOnce(&crate::keyspace::Keyspace) -> R,
) -> R {
    let (db, engine) = open(Arc::new(MemFs::new()), tiny());
    let hook: Arc<Mutex<Option<Hook>>> = Arc::default();
    let taken = Arc::clone(&hook);
    let order = Order::custom("calls-back", move |a: &[u8], b: &[u8]| -> Ordering {
        let hook = taken.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        a.cmp(b)
    });
    let options = KeyspaceOptions {
        order,
        ..KeyspaceOptions::default()
    };
    let keyspace = db.create_keyspace("k", options).unwrap();
    let at = engine.wall.now_ms() + 3_600_000;
    keyspace
        .put_expiring("a", "v", at, WriteOptions::default())
        .unwrap();
    db.flush().unwrap();
    let other = db.clone();
    *hook.lock().unwrap() = Some(Box::new(move || {
        let writer = std::thread::spawn(move || {
            meanwhile(&other);
            assert!(engine.wall.now_ms() < at, "in time");
            engine.wall.advance_to(at);
        });
        writer.join().unwrap();
    }));
    let answer = read(&keyspace);
    assert!(hook.lock().unwrap().is_none(), "it went to the table");
    answer
}

fn renew(db: &Db) {
    db.keyspace("k").unwrap().put("a", "v").unwrap();
}

fn renew_for_a_while(db: &Db) {
    let keyspace = db.keyspace("k").unwrap();
    keyspace
        .put_expiring("a", "v", u64::MAX, WriteOptions::default())
        .unwrap();
}

#[test]
fn a_key_renewed_in_time_is_never_read_as_absent() {
    for renew in [renew, renew_for_a_while] {
        let value = read_while_it_expires(renew, |of| of.get("a").unwrap());
        assert_eq!(value.unwrap(), "v");
        let value = read_while_it_expires(renew, |of| of.get_strict("a").unwrap());
        assert_eq!(value.unwrap(), "v");
        let length = read_while_it_expires(renew, |of| of.get_with("a", <[u8]>::len).unwrap());
        assert_eq!(length, Some(1));
        let entry = read_while_it_expires(renew, |of| of.get_entry("a").unwrap());
        assert_eq!(entry.unwrap().value, "v");
        assert!(read_while_it_expires(renew, |of| of.contains("a").unwrap()));
    }
}

#[test]
fn a_key_renewed_in_time_is_never_decided_on_as_absent() {
    for renew in [renew, renew_for_a_while] {
        let swapped = read_while_it_expires(renew, |of| {
            of.compare_and_swap("a", Some(b"v"), Some(b"w")).unwrap()
        });
        assert!(swapped);
        let mut seen = Vec::new();
        read_while_it_expires(renew, |of| {
            of.rmw("a", |old| {
                seen.push(old.is_some());
                Decision::Keep
            })
            .unwrap();
        });
        assert_eq!(seen, [true]);
    }
}

#[test]
fn a_key_that_expires_on_the_way_is_absent() {
    let nothing = |_: &Db| {};
    assert_eq!(
        read_while_it_expires(nothing, |of| of.get("a").unwrap()),
        None
    );
    let strict = read_while_it_expires(nothing, |of| of.get_strict("a").unwrap());
    assert_eq!(strict, None);
    let swapped = read_while_it_expires(nothing, |of| {
        of.compare_and_swap("a", None, Some(b"w")).unwrap()
    });
    assert!(swapped);
}

#[test]
fn a_key_that_is_renewed_and_expires_again_on_the_way_is_absent() {
    let renew = |db: &Db| {
        let keyspace = db.keyspace("k").unwrap();
        keyspace
            .put_expiring("a", "w", 1, WriteOptions::default())
            .unwrap();
    };
    assert_eq!(
        read_while_it_expires(renew, |of| of.get("a").unwrap()),
        None
    );
    assert!(!read_while_it_expires(renew, |of| of
        .contains("a")
        .unwrap()));
}

#[test]
fn a_snapshot_in_which_a_key_is_alive_shows_nothing_written_once_it_had_expired() {
    let (db, engine) = fresh();
    let at = engine.wall.now_ms() + 3_600_000;
    db.put_expiring("k", "v", at, WriteOptions::default())
        .unwrap();
    let is_first = Cell::new(true);
    let registration = engine.snapshots.take(&engine.clock, || {
        let now_ms = engine.wall.now_ms();
        // It is stopped here for long.
        if is_first.replace(false) {
            engine.wall.advance_to(at);
            assert_eq!(db.get_strict("k").unwrap(), None);
            db.put("x", "written because k is gone").unwrap();
        }
        now_ms
    });
    let reader = Reader::snapshot(registration.at(), registration.now_ms());
    assert!(engine.is_live(&db.core, b"x", reader).unwrap());
    assert!(!engine.is_live(&db.core, b"k", reader).unwrap());
}
