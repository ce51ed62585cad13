//! Reading, deciding and writing as one step, over any keys, and that it ends.
//!
//! Claims: `transact.rs` T1-T3.

use crate::common::{alone, contents, counter, fresh, on, tiny};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella::vfs::MemFs;
use velella::{Db, Error, ErrorKind, JournalMode, Snapshot, WriteBatch, WriteOptions};
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

/// Has `last` decide as the only writer: the attempts before lose, each to a put of its own.
fn alone_with<R>(
    db: &Db,
    mut last: impl FnMut(&Snapshot, &mut WriteBatch) -> velella::Result<R>,
) -> velella::Result<(Option<R>, Option<velella::Stamp>)> {
    let mut calls = 0;
    db.transact(buffered(), |snapshot, batch| {
        calls += 1;
        batch.put(db, "contended", "mine");
        if calls == 5 {
            return last(snapshot, batch).map(Some);
        }
        db.put("contended", "other")?;
        Ok(None)
    })
}

#[test]
fn two_only_writers_take_turns() {
    let _watchdog = Watchdog::new("two_only_writers_take_turns", 60);
    let db = fresh();
    let inside = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let added = alone_with(&db, |snapshot, batch| {
                        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two at once");
                        let next = number(snapshot.get(&db, "sum")?) + 1;
                        batch.put(&db, "sum", next.to_string());
                        inside.fetch_sub(1, Ordering::Relaxed);
                        Ok(())
                    });
                    assert!(added.unwrap().1.is_some());
                }
            });
        }
    });
    assert_eq!(db.get("sum").unwrap().unwrap(), "80");
    assert_eq!(counter(&db, "written_alone"), 80);
}

/// In every journal mode: somebody flushes while the batch, larger than a memtable, is installed.
#[test]
fn the_only_writer_goes_on_over_switches() {
    let _watchdog = Watchdog::new("the_only_writer_goes_on_over_switches", 120);
    for journal in [JournalMode::Mapped, JournalMode::Write, JournalMode::Off] {
        let mem = MemFs::new();
        let db = on(&mem, tiny().journal(journal));
        let large = vec![7; 400];
        let write = |round: u8| {
            alone_with(&db, |_, batch| {
                for key in 0..2_000u16 {
                    batch.put(&db, key.to_be_bytes(), [&large[..], &[round]].concat());
                }
                // Reads, flushes and syncs wait for no writer.
                db.flush()?;
                db.compact()?;
                db.persist()?;
                assert!(db.get("contended")?.is_some());
                Ok(())
            })
        };
        let going = AtomicBool::new(true);
        let written: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(|| {
                while going.load(Ordering::Relaxed) {
                    db.flush().unwrap();
                }
            });
            let written = (0..4).map(write).collect();
            going.store(false, Ordering::Relaxed);
            written
        });
        for written in written {
            assert!(written.unwrap().1.is_some(), "{journal:?}");
        }
        db.close().unwrap();
        drop(db);
        let db = on(&mem, tiny().journal(journal));
        let last = (0..2_000u16).map(|key| db.get(key.to_be_bytes()).unwrap().unwrap()[400]);
        assert!(last.into_iter().all(|round| round == 3), "{journal:?}");
    }
}

#[test]
fn keyspaces_are_made_and_dropped_beside_the_only_writer() {
    let _watchdog = Watchdog::new("keyspaces_beside_the_only_writer", 60);
    let db = fresh();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    let written = alone_with(&db, |_, batch| {
        batch.put(&other, "k", "v");
        db.create_keyspace("third", Default::default())?;
        db.drop_keyspace("third")
    });
    assert!(written.unwrap().1.is_some());
    // One that its batch writes to: nothing of the batch is written.
    let refused = alone_with(&db, |_, batch| {
        batch.put(&other, "k", "v").put(&db, "beside", "v");
        db.drop_keyspace("other")
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.get("beside").unwrap(), None);
    db.put("later", "v").unwrap();
}

#[test]
fn a_close_waits_for_the_only_writer_and_keeps_what_it_wrote() {
    let _watchdog = Watchdog::new("a_close_waits_for_the_only_writer", 60);
    let mem = MemFs::new();
    let db = on(&mem, tiny());
    std::thread::scope(|scope| {
        let (inside, is_inside) = std::sync::mpsc::channel();
        let closer = scope.spawn({
            let db = db.clone();
            move || {
                is_inside.recv().unwrap();
                db.close()
            }
        });
        let written = alone_with(&db, |_, batch| {
            batch.put(&db, "k", "written");
            // Its own close would wait for it.
            let error = db.close().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            inside.send(()).unwrap();
            // Until the door is shut.
            while db.get("k").is_ok() {
                std::thread::yield_now();
            }
            Ok(())
        });
        assert!(written.unwrap().1.is_some());
        closer.join().unwrap().unwrap();
        let late = alone_with(&db, |_, _| Ok(()));
        assert_eq!(late.unwrap_err().kind(), ErrorKind::Closed);
    });
    drop(db);
    let db = on(&mem, tiny());
    assert_eq!(db.get("k").unwrap().unwrap(), "written");
}

#[test]
fn a_panic_of_the_only_writer_lets_the_others_go_on() {
    let _watchdog = Watchdog::new("a_panic_of_the_only_writer", 60);
    let db = fresh();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        alone_with(&db, |_, batch| -> velella::Result<()> {
            batch.put(&db, "k", "half");
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    std::thread::scope(|scope| scope.spawn(|| db.put("k", "whole").unwrap()).join()).unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), "whole");
    assert!(alone_with(&db, |_, _| Ok(())).unwrap().1.is_some());
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
