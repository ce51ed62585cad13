//! Reading, deciding and writing as one step, over any keys, and that it ends.
//!
//! Claims: `transact.rs` T1-T3.

use crate::common::{alone, contents, counter, fresh, on, tiny};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella::vfs::MemFs;
use velella::{
    Db, Decision, Durability, Error, ErrorKind, JournalMode, Snapshot, WriteBatch, WriteOptions,
};
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

/// A put by another thread: one of its own is refused to the function of a transaction.
fn put_elsewhere(db: &Db, key: &str, value: &str) -> velella::Result<()> {
    let put = || db.put(key, value).map(drop);
    std::thread::scope(|scope| scope.spawn(put).join().unwrap())
}

/// Has `last` decide as the only writer: the attempts before lose, each to a put beside it.
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
        put_elsewhere(db, "contended", "other")?;
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

/// Has `ask` called by the function of a transaction, whose first attempt has to refuse it.
fn refused_within(db: &Db, ask: impl Fn() -> velella::Result<()>) {
    let mut calls = 0;
    let told = db.transact(buffered(), |_, batch| {
        calls += 1;
        batch.put(db, "k", "batch");
        ask()
    });
    let error = told.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("transact"), "{error}");
    assert_eq!(calls, 1, "{error}");
}

#[test]
fn a_function_that_writes_by_itself_is_told_so_at_once() {
    let _watchdog = Watchdog::new("a_function_that_writes_by_itself", 60);
    for builder in [alone(), tiny().durability(Durability::Sync)] {
        let db: Db = on(&MemFs::new(), builder);
        let other = db.create_keyspace("other", Default::default()).unwrap();
        let mut batch = WriteBatch::new();
        batch.put(&db, "k", "batch of its own");
        let put = |_: Option<&[u8]>| Decision::put("decided");
        refused_within(&db, || db.put("k", "put").map(drop));
        refused_within(&db, || db.put("large", vec![7; 2 << 20]).map(drop));
        refused_within(&db, || other.put("k", "put").map(drop));
        refused_within(&db, || db.delete("k").map(drop));
        refused_within(&db, || db.write(&batch).map(drop));
        refused_within(&db, || {
            db.write_if_unchanged(&batch, &db.snapshot(), buffered())
                .map(drop)
        });
        refused_within(&db, || db.rmw("k", put).map(drop));
        refused_within(&db, || db.update("k", put).map(drop));
        refused_within(&db, || db.put_if_absent("k", "put").map(drop));
        refused_within(&db, || db.clone().close());
        refused_within(&db, || {
            let nested = |_: &Snapshot, batch: &mut WriteBatch| {
                batch.put(&db, "k", "nested");
                Ok::<_, Error>(())
            };
            db.transact(buffered(), nested).map(drop)
        });
        // Nothing was written, nothing is held, and all may be asked for again.
        assert_eq!(contents(&db).len() + contents(&other).len(), 0);
        assert_eq!(db.stats().external_bytes, 0);
        db.put("k", "later").unwrap();
        assert_eq!(db.get("k").unwrap().unwrap(), "later");
        db.close().unwrap();
    }
}

#[test]
fn a_function_may_read_and_others_may_write_while_it_runs() {
    let _watchdog = Watchdog::new("a_function_may_read", 60);
    let db = fresh();
    db.put("k", "before").unwrap();
    let keep = |_: Option<&[u8]>| Decision::Keep;
    let written = db.transact(buffered(), |snapshot, batch| {
        put_elsewhere(&db, "beside", "v")?;
        assert_eq!(db.get("beside")?.unwrap(), "v");
        assert_eq!(snapshot.get(&db, "beside")?, None);
        assert_eq!(db.get_strict("k")?.unwrap(), "before");
        assert_eq!(db.iter()?.count(), 2);
        db.update("k", keep)?;
        db.flush()?;
        db.persist()?;
        let nested = db.transact(buffered(), |nested, _| nested.get(&db, "k"))?;
        assert_eq!(nested.1, None);
        batch.put(&db, "k", "after");
        Ok::<_, Error>(())
    });
    assert!(written.unwrap().1.is_some());
    assert_eq!(db.get("k").unwrap().unwrap(), "after");
}

#[test]
fn within_a_function_another_database_is_written_and_none_whose_function_runs() {
    let _watchdog = Watchdog::new("within_a_function_another_database", 60);
    let (outer, inner) = (fresh(), fresh());
    let written = outer.transact(buffered(), |_, batch| {
        batch.put(&outer, "k", "outer");
        inner.put("alone", "v")?;
        let nested = inner.transact(buffered(), |_, batch| {
            batch.put(&inner, "k", "inner");
            // Neither the one that decides, nor the one that waits for it to.
            for db in [&inner, &outer] {
                let refused = db.put("k", "by itself").unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidInput);
            }
            Ok::<_, Error>(())
        });
        assert!(nested?.1.is_some());
        inner.put("k", "again")?;
        let refused = outer.put("k", "by itself").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        Ok::<_, Error>(())
    });
    assert!(written.unwrap().1.is_some());
    assert_eq!(outer.get("k").unwrap().unwrap(), "outer");
    assert_eq!(inner.get("k").unwrap().unwrap(), "again");
}

#[test]
fn after_a_panic_of_its_function_the_thread_writes_again() {
    let db = fresh();
    for nested in [false, true] {
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            db.transact(buffered(), |_, _| -> Result<(), Error> {
                if nested {
                    let other = fresh();
                    let _ = other.transact(buffered(), |_, _| -> Result<(), Error> {
                        panic!("on purpose")
                    });
                }
                panic!("on purpose")
            })
        }));
        assert!(panicked.is_err());
        db.put("k", "v").unwrap();
    }
}
