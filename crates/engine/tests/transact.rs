//! Reading, deciding and writing as one step, over any keys, and that it ends.
//!
//! Claims: `transact.rs` T1-T3.

mod common;

use common::{alone, contents, counter, fresh, on};
use std::sync::atomic::{AtomicBool, Ordering};
use velella::vfs::MemFs;
use velella::{Db, Error, ErrorKind, WriteOptions};
use velella_testkit::Watchdog;

fn number(value: Option<velella::Value>) -> u64 {
    value.map_or(0, |value| {
        std::str::from_utf8(&value).unwrap().parse().unwrap()
    })
}

fn buffered() -> WriteOptions {
    WriteOptions::default()
}

#[test]
fn what_was_decided_is_written_with_what_was_read() {
    let db = fresh();
    db.put("a", "1").unwrap();
    let (was, stamp) = db
        .transact(buffered(), |snapshot, batch| {
            let was = snapshot.get(&db, "a")?.unwrap();
            batch.delete(&db, "a").put(&db, "b", &was);
            Ok::<_, Error>(was.to_vec())
        })
        .unwrap();
    assert_eq!(was, b"1");
    assert_eq!(db.get_entry("b").unwrap().unwrap().stamp, stamp.unwrap());
    assert_eq!(contents(&db).len(), 1);
    let nothing = db.transact(buffered(), |_, _| Ok::<_, Error>(7)).unwrap();
    assert_eq!(nothing, (7, None));
    let refused = db.transact(buffered(), |_, batch| {
        batch.put(&db, "c", "1");
        Err::<(), _>(Error::invalid("test", "no"))
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(db.get("c").unwrap(), None);
    assert_eq!(counter(&db, "written_alone"), 0);
}

/// Somebody writes a key of the batch in every attempt that lets others write.
#[test]
fn after_a_few_losses_the_others_wait() {
    let _watchdog = Watchdog::new("after_a_few_losses_the_others_wait", 60);
    let db = fresh();
    let mut calls = 0;
    let written = std::thread::scope(|scope| {
        db.transact(buffered(), |snapshot, batch| {
            calls += 1;
            let other = scope.spawn(|| db.put("hot", "other").unwrap());
            // The fifth time it waits for us, as we would for it.
            if calls < 5 {
                other.join().unwrap();
            }
            batch.put(&db, "hot", "mine").put(&db, "cold", "mine");
            Ok::<_, Error>(snapshot.get(&db, "hot")?.is_some())
        })
    });
    let (read, stamp) = written.unwrap();
    assert!(read && stamp.is_some());
    assert_eq!((calls, counter(&db, "written_alone")), (5, 1));
    assert_eq!(db.get("cold").unwrap().unwrap(), "mine");
    // The last put waited for the transaction, and came after it.
    assert_eq!(db.get("hot").unwrap().unwrap(), "other");
}

#[test]
fn transactions_of_many_keys_beside_writers_lose_no_write_and_end() {
    let _watchdog = Watchdog::new("transactions_of_many_keys_beside_writers", 240);
    let db = fresh();
    let keys: Vec<String> = (0..300).map(|key| format!("{key:03}")).collect();
    let going = AtomicBool::new(true);
    // Each writer adds to keys one by one, each transaction to all of them.
    let add = |key: &str| db.increment(key, 1).unwrap();
    let add_to_all = || {
        let added = db.transact(buffered(), |snapshot, batch| {
            for key in &keys {
                let next = number(snapshot.get(&db, key)?) + 1;
                batch.put(&db, key, next.to_string());
            }
            Ok::<_, Error>(())
        });
        assert!(added.unwrap().1.is_some());
    };
    let singles = std::thread::scope(|scope| {
        let writers = [0usize, 1].map(|first| {
            let (going, keys, add) = (&going, &keys, &add);
            scope.spawn(move || {
                let mut added = 0u64;
                while going.load(Ordering::Relaxed) {
                    add(&keys[(first + usize::try_from(added).unwrap() * 7) % 300]);
                    added += 1;
                }
                added
            })
        });
        let transactions = [(); 2].map(|()| scope.spawn(|| (0..30).for_each(|_| add_to_all())));
        for transaction in transactions {
            transaction.join().unwrap();
        }
        going.store(false, Ordering::Relaxed);
        writers.map(|writer| writer.join().unwrap())
    });
    let sum: u64 = keys.iter().map(|key| number(db.get(key).unwrap())).sum();
    assert_eq!(sum, 60 * 300 + singles.iter().sum::<u64>());
}

/// The only writer has every pair: what its function writes would wait for it.
#[test]
fn a_function_that_writes_by_itself_is_told_so() {
    let _watchdog = Watchdog::new("a_function_that_writes_by_itself", 60);
    let db: Db = on(&MemFs::new(), alone());
    let mut calls = 0;
    let told = db.transact(buffered(), |_, batch| {
        calls += 1;
        batch.put(&db, "k", "batch");
        db.put("k", "put").map(drop)
    });
    let error = told.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("transact"), "{error}");
    assert_eq!(calls, 5);
    // Nothing is held any more.
    db.put("k", "later").unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), "later");
}
