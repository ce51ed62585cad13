//! A key that expires while it is read: what one answer, or snapshot, says held at one moment.

use crate::core::Engine;
use crate::db::Db;
use crate::entry::Decision;
use crate::fixture::{fresh, open, tiny};
use crate::keyspace::Keyspace;
use crate::keyspace_core::Core;
use crate::options::{KeyspaceOptions, WriteOptions};
use crate::read::Reader;
use std::cmp::Ordering;
use std::sync::{Arc, Mutex};
use velella_base::Order;
use velella_tree::Wanted;
use velella_vfs::MemFs;

type Hook = Box<dyn FnOnce() + Send>;

/// When a key expires that is being read.
#[derive(Debug, Clone, Copy, PartialEq)]
enum While {
    /// While the table that has it is looked at.
    InTheTable,
    /// Before that, and it is compacted away.
    OnTheWay,
}

/// Takes `read` of a key that expires while it is on its way to the table that has it. What
/// happens first, `meanwhile`, happens after the current memtable was looked at.
fn read_while_it_expires<R>(
    expires: While,
    meanwhile: impl FnOnce(&Db) + Send + 'static,
    read: impl FnOnce(&Keyspace) -> R,
) -> R {
    let (db, engine) = open(Arc::new(MemFs::new()), tiny());
    let hook: Arc<Mutex<Option<Hook>>> = Arc::default();
    let taken = Arc::clone(&hook);
    // A worker compares too. It would wait, pinned, for a thread that might hold the last handle by
    // then, and so for itself: no test of this process could wait for garbage from then on.
    let reader = std::thread::current().id();
    let order = Order::custom("calls-back", move |a: &[u8], b: &[u8]| -> Ordering {
        let is_reader = std::thread::current().id() == reader;
        let hook = is_reader.then(|| taken.lock().unwrap().take()).flatten();
        if let Some(hook) = hook {
            hook();
        }
        a.cmp(b)
    });
    let asked = order.clone();
    let options = KeyspaceOptions {
        order: Some(order),
        ..KeyspaceOptions::default()
    };
    let keyspace = db.create_keyspace("k", options).unwrap();
    let at = engine.wall.now_ms() + 3_600_000;
    keyspace
        .put_expiring("a", "v", at, WriteOptions::default())
        .unwrap();
    db.flush().unwrap();
    let paused = engine.flushes.pause();
    if expires == While::OnTheWay {
        // The first comparison is in the memtable that waits for its flush.
        keyspace.put("b", "x").unwrap();
        engine.switch(std::slice::from_ref(&keyspace.core));
    }
    let (other, core, engine) = (db.clone(), Arc::clone(&keyspace.core), Arc::clone(&engine));
    *hook.lock().unwrap() = Some(Box::new(move || {
        let writer = std::thread::spawn(move || {
            meanwhile(&other);
            assert!(engine.wall.now_ms() < at, "in time");
            engine.wall.advance_to(at + 1);
            if expires == While::OnTheWay {
                compact(&engine, &core);
            }
        });
        writer.join().unwrap();
    }));
    let elsewhere = std::thread::spawn(move || asked.compare(b"a", b"b"));
    assert!(elsewhere.join().unwrap().is_lt() && hook.lock().unwrap().is_some());
    let answer = read(&keyspace);
    assert!(hook.lock().unwrap().is_none(), "it went to the table");
    drop(paused);
    answer
}

/// Everything, whatever its size: the first job may only move a table.
fn compact(engine: &Engine, core: &Core) {
    let mut wanted = Wanted::Everything;
    while let Some(job) = core.tree.next_job(wanted, &engine.retention()) {
        engine.run_job(core, job).unwrap();
        wanted = Wanted::Rest;
    }
}

/// Every way to renew a key, and every moment.
fn all() -> impl Iterator<Item = (While, fn(&Db))> {
    let ways = [renew, renew_for_a_while].into_iter();
    ways.flat_map(|way: fn(&Db)| [(While::InTheTable, way), (While::OnTheWay, way)])
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
    for (expires, renew) in all() {
        let value = read_while_it_expires(expires, renew, |of| of.get("a").unwrap());
        assert_eq!(value.unwrap(), "v");
        let value = read_while_it_expires(expires, renew, |of| of.get_strict("a").unwrap());
        assert_eq!(value.unwrap(), "v");
        let length =
            read_while_it_expires(expires, renew, |of| of.get_with("a", <[u8]>::len).unwrap());
        assert_eq!(length, Some(1));
        let entry = read_while_it_expires(expires, renew, |of| of.get_entry("a").unwrap());
        assert_eq!(entry.unwrap().value, "v");
        assert!(read_while_it_expires(expires, renew, |of| of
            .contains("a")
            .unwrap()));
    }
}

#[test]
fn a_key_renewed_in_time_is_never_decided_on_as_absent() {
    for (expires, renew) in all() {
        let swapped = read_while_it_expires(expires, renew, |of| {
            of.compare_and_swap("a", Some(b"v"), Some(b"w")).unwrap()
        });
        assert!(swapped);
        let mut seen = Vec::new();
        read_while_it_expires(expires, renew, |of| {
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
    for expires in [While::InTheTable, While::OnTheWay] {
        let read = |of: &Keyspace| (of.get("a").unwrap(), of.get_strict("a").unwrap());
        assert_eq!(read_while_it_expires(expires, |_| {}, read), (None, None));
        let swap = |of: &Keyspace| of.compare_and_swap("a", None, Some(b"w")).unwrap();
        assert!(read_while_it_expires(expires, |_| {}, swap));
    }
}

#[test]
fn a_key_that_is_renewed_and_expires_again_on_the_way_is_absent() {
    let renew = |db: &Db| {
        let keyspace = db.keyspace("k").unwrap();
        keyspace
            .put_expiring("a", "w", 1, WriteOptions::default())
            .unwrap();
    };
    for expires in [While::InTheTable, While::OnTheWay] {
        let read = |of: &Keyspace| (of.get("a").unwrap(), of.contains("a").unwrap());
        assert_eq!(read_while_it_expires(expires, renew, read), (None, false));
    }
}

#[test]
fn a_snapshot_in_which_a_key_is_alive_shows_nothing_written_once_it_had_expired() {
    let (db, engine) = fresh();
    let at = engine.wall.now_ms() + 3_600_000;
    db.put_expiring("k", "v", at, WriteOptions::default())
        .unwrap();
    let said = engine.wall.now_ms();
    // It is stopped here for long.
    engine.wall.advance_to(at);
    assert_eq!(db.get_strict("k").unwrap(), None);
    db.put("x", "written because k is gone").unwrap();
    let registration = engine
        .snapshots
        .take(&engine.clock, said, || engine.wall.now_ms());
    let reader = Reader::snapshot(registration.at(), registration.now_ms());
    assert!(engine.is_live(&db.core, b"x", reader).unwrap());
    assert!(!engine.is_live(&db.core, b"k", reader).unwrap());
}
