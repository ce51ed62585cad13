//! Read-modify-writes: as one step, without a lock, wherever the base is.
//!
//! Claims: `rmw.rs` R1-R3, `rmw/update.rs` U1 and U2.

use crate::common::{KINDS, counter, fresh, on, tiny, wall_ms};
use velella::vfs::{MemFs, Vfs};
use velella::{Decision, Error, ErrorKind, WriteOptions};
use velella_testkit::Watchdog;

#[test]
fn rmw_returns_old_and_new_wherever_the_base_is() {
    let db = fresh();
    let append = |old: Option<&[u8]>| {
        let mut value = old.unwrap_or_default().to_vec();
        value.push(b'x');
        Decision::put(value)
    };
    let outcome = db.rmw("k", append).unwrap();
    assert_eq!(
        (outcome.old.as_ref(), outcome.new_value()),
        (None, Some(&b"x"[..]))
    );
    let outcome = db.rmw("k", append).unwrap();
    assert_eq!(outcome.old.unwrap().value, "x");
    db.flush().unwrap();
    let outcome = db.rmw("k", append).unwrap();
    assert_eq!(outcome.old.unwrap().value, "xx");
    db.compact().unwrap();
    let outcome = db.rmw("k", append).unwrap();
    assert_eq!(
        (
            outcome.old.as_ref().unwrap().value.to_vec(),
            outcome.new_value()
        ),
        (b"xxx".to_vec(), Some(&b"xxxx"[..]))
    );
    let outcome = db.rmw("k", |_| Decision::Delete).unwrap();
    assert!(outcome.stamp.is_some() && outcome.new_value().is_none());
    db.flush().unwrap();
    let outcome = db.rmw("k", |old| {
        assert_eq!(old, None, "a tombstone in a table is absence");
        Decision::Keep
    });
    assert_eq!(outcome.unwrap().stamp, None);
}

#[test]
fn an_update_is_lent_what_is_there_wherever_it_is() {
    let db = fresh();
    let expiry = wall_ms() + 1_000_000;
    let large = vec![7; 2 << 20];
    for (key, value) in [("short", &b"v"[..]), ("large", &large)] {
        let written = db.put_expiring(key, value, expiry, WriteOptions::default());
        let stamp = written.unwrap();
        for upkeep in ["none", "flushed", "compacted"] {
            match upkeep {
                "none" => {}
                "flushed" => db.flush().unwrap(),
                _ => db.compact().unwrap(),
            }
            let mut seen = 0;
            let kept = db.update_entry::<Error>(key, WriteOptions::default(), |old| {
                let old = old.unwrap();
                assert_eq!((old.value, old.stamp), (value, stamp), "{key}, {upkeep}");
                assert_eq!(old.expires_at_ms, Some(expiry), "{key}, {upkeep}");
                seen += 1;
                Ok(Decision::Keep)
            });
            assert_eq!((kept.unwrap(), seen), (None, 1), "{key}, {upkeep}");
        }
        let grown = |old: Option<&[u8]>| Decision::put([old.unwrap(), b"x"].concat());
        let stamp = db.update(key, grown).unwrap();
        let entry = db.get_entry(key).unwrap().unwrap();
        assert_eq!(entry.value, [value, b"x"].concat());
        assert_eq!((Some(entry.stamp), entry.expires_at_ms), (stamp, None));
        assert!(db.update(key, |_| Decision::Delete).unwrap().is_some());
        assert_eq!(db.get(key).unwrap(), None);
        let absent = |old: Option<&[u8]>| {
            assert_eq!(old, None, "a tombstone is absence");
            Decision::Keep
        };
        assert_eq!(db.update(key, absent).unwrap(), None);
        db.flush().unwrap();
        assert_eq!(db.update(key, absent).unwrap(), None);
    }
}

/// What is only told of need not be whole: who deletes or replaces it gets rid of the damage.
#[test]
fn a_large_value_is_told_of_deleted_and_replaced_without_being_read() {
    let (fs, expiry) = (MemFs::new(), wall_ms() + 1_000_000);
    let db = on(&fs, tiny());
    let told = |key: &str| {
        let info = db.entry_info(key).unwrap();
        info.map(|info| (info.value_bytes, info.expires_at_ms, info.stamp))
    };
    let unread = |key: &str, decision: Decision<'static>| {
        db.update_unread(key, WriteOptions::default(), |old| {
            assert_eq!(
                old.map(|old| (old.value_bytes, old.expires_at_ms, old.stamp)),
                told(key)
            );
            Ok::<_, Error>(decision.clone())
        })
    };
    for bytes in [5, 2 << 20] {
        for flushed in [false, true] {
            let large = vec![7; bytes];
            let plain = db.put("plain", &large).unwrap();
            let expiring = db.put_expiring("expiring", &large, expiry, WriteOptions::default());
            if flushed {
                db.flush().unwrap();
            }
            assert_eq!(told("plain"), Some((bytes as u64, None, plain)));
            let expected = Some((bytes as u64, Some(expiry), expiring.unwrap()));
            assert_eq!(told("expiring"), expected);
            for path in fs.files() {
                if path.extension().is_some_and(|end| end == "ext") {
                    fs.remove(&path).unwrap();
                    assert!(db.get("plain").is_err() || db.get("expiring").is_err());
                }
            }
            assert!(!db.put_if_absent("plain", "new").unwrap());
            assert_eq!(unread("plain", Decision::Keep).unwrap(), None);
            assert!(unread("plain", Decision::put(b"new")).unwrap().is_some());
            assert_eq!(db.get("plain").unwrap().unwrap(), "new");
            assert!(unread("expiring", Decision::Delete).unwrap().is_some());
            assert_eq!(told("expiring"), None);
            assert_eq!(unread("expiring", Decision::Keep).unwrap(), None);
        }
    }
}

#[test]
fn an_update_waits_until_it_is_as_durable_as_asked() {
    let db = fresh();
    for turn in 0..50u32 {
        let value = turn.to_string().into_bytes();
        let stamp =
            db.update_entry::<Error>("k", WriteOptions::sync(), |_| Ok(Decision::put(&value)));
        assert!(db.durable() >= stamp.unwrap().unwrap(), "{turn}");
    }
}

#[test]
fn an_update_of_a_dropped_keyspace_fails_even_if_it_would_keep() {
    let db = fresh();
    let keyspace = db.keyspace_or_create("other").unwrap();
    keyspace.put("k", "v").unwrap();
    db.drop_keyspace("other").unwrap();
    for key in ["k", "absent"] {
        let kept = keyspace.update(key, |_| Decision::Keep);
        assert_eq!(kept.unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn the_decision_of_an_update_may_write_many_memtables_full() {
    let _watchdog = Watchdog::new("an_update_that_writes", 120);
    let db = on(&MemFs::new(), tiny());
    db.put("k", "old").unwrap();
    let mut turns = 0;
    let updated = db.update("k", |old| {
        assert_eq!(old.unwrap(), b"old");
        turns += 1;
        // More than memtables may take together, and writers have to wait.
        for number in 0..50_000u32 {
            db.put(number.to_be_bytes(), vec![0; 400]).unwrap();
        }
        Decision::put(b"new")
    });
    assert!(updated.unwrap().is_some());
    assert_eq!(turns, 1, "nothing that was decided on has changed");
    assert_eq!(db.get("k").unwrap().unwrap(), "new");
    assert!(counter(&db, "flushes") > 3);
}

/// Adds one to a decimal number.
fn add_one(old: Option<&[u8]>) -> Decision<'static> {
    let before: i64 = old.map_or(0, |old| str::from_utf8(old).unwrap().parse().unwrap());
    Decision::put((before + 1).to_string().into_bytes())
}

#[test]
fn rmw_loses_no_update_across_switches() {
    let _watchdog = Watchdog::new("rmw_loses_no_update", 300);
    for kind in KINDS {
        let db = on(&MemFs::new(), tiny().memtable(kind));
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let db = &db;
                scope.spawn(move || {
                    for round in 0..2_000u64 {
                        let key = format!("counter{}", (thread + round) % 3);
                        match round % 2 {
                            0 => drop(db.increment(&key, 1).unwrap()),
                            _ => drop(db.rmw(&key, add_one).unwrap()),
                        }
                        // So that memtables fill and switch under the counters.
                        db.put(format!("fill{thread}-{}", round % 50), vec![0; 400])
                            .unwrap();
                    }
                });
            }
        });
        let sum: i64 = (0..3)
            .map(|key| db.increment(format!("counter{key}"), 0).unwrap())
            .sum();
        assert_eq!(sum, 8_000, "{kind:?}");
        let flushes = counter(&db, "flushes");
        assert!(flushes > 3, "switches happened: {flushes}");
    }
}

#[test]
fn put_if_absent_has_one_winner() {
    let _watchdog = Watchdog::new("put_if_absent", 120);
    let db = fresh();
    for round in 0..200u32 {
        let winners: usize = std::thread::scope(|scope| {
            let race = |thread: u8| {
                let db = &db;
                scope.spawn(move || {
                    usize::from(db.put_if_absent(round.to_le_bytes(), [thread]).unwrap())
                })
            };
            let threads: Vec<_> = (0..3).map(race).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(winners, 1);
    }
}

#[test]
fn compare_and_swap_compares() {
    let db = fresh();
    assert!(!db.compare_and_swap("k", Some(b"a"), Some(b"b")).unwrap());
    assert!(db.compare_and_swap("k", None, Some(b"a")).unwrap());
    assert!(!db.compare_and_swap("k", None, Some(b"b")).unwrap());
    db.flush().unwrap();
    assert!(db.compare_and_swap("k", Some(b"a"), Some(b"b")).unwrap());
    assert!(db.compare_and_swap("k", Some(b"b"), None).unwrap());
    assert_eq!(db.get("k").unwrap(), None);
    assert!(db.compare_and_swap("k", None, None).unwrap());
}

#[test]
fn conditional_writes_take_an_expiry_and_options() {
    let db = fresh();
    let (until, sync) = (wall_ms() + 1_000_000, WriteOptions::sync());
    let expiry = || db.get_entry("k").unwrap().unwrap().expires_at_ms;
    let newest_is_durable = || db.durable() >= db.get_entry("k").unwrap().unwrap().stamp;
    let put = |until| db.put_if_absent_with("k", "a", until, sync);
    assert!(put(Some(until)).unwrap());
    assert!(newest_is_durable());
    assert_eq!(expiry(), Some(until));
    assert!(!put(Some(until + 1)).unwrap() && !put(None).unwrap());
    assert_eq!(expiry(), Some(until), "nothing was written");
    let swap = |expected, decision| db.compare_and_swap_with("k", expected, &decision, sync);
    let longer = Decision::put_expiring("b", until + 1);
    assert!(!swap(Some(b"b"), longer.clone()).unwrap());
    assert!(!swap(None, longer.clone()).unwrap());
    assert!(swap(Some(b"a"), longer).unwrap());
    assert!(newest_is_durable());
    assert_eq!(expiry(), Some(until + 1));
    assert!(swap(Some(b"b"), Decision::Keep).unwrap());
    assert_eq!(expiry(), Some(until + 1), "it keeps that, too");
    assert!(db.compare_and_swap("k", Some(b"b"), Some(b"c")).unwrap());
    assert_eq!(expiry(), None, "without options there is none");
    assert!(swap(Some(b"c"), Decision::Delete).unwrap());
    assert!(put(None).unwrap());
    assert_eq!(expiry(), None);
    for _ in ["present", "absent"] {
        for refused in [put(Some(0)), swap(None, Decision::put_expiring("v", 0))] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        db.delete("k").unwrap();
    }
}

#[test]
fn increment_refuses_what_is_no_integer_and_keeps_the_expiry() {
    let db = fresh();
    db.put("text", "ten").unwrap();
    let refused = db.increment("text", 7).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    for told in ["add 7", "\"text\"", "keyspace `default`"] {
        assert!(refused.to_string().contains(told), "{told}: {refused}");
    }
    db.put("max", i64::MAX.to_string()).unwrap();
    assert_eq!(
        db.increment("max", 1).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(db.increment("max", -1).unwrap(), i64::MAX - 1);
    let expiry = wall_ms() + 1_000_000;
    db.put_expiring("short", "5", expiry, WriteOptions::default())
        .unwrap();
    assert_eq!(db.increment("short", 2).unwrap(), 7);
    assert_eq!(
        db.get_entry("short").unwrap().unwrap().expires_at_ms,
        Some(expiry)
    );
}

#[test]
fn an_error_of_the_decision_writes_nothing() {
    let db = fresh();
    db.put("k", "v").unwrap();
    let refused = db.rmw_entry("k", WriteOptions::default(), |_| {
        Err::<Decision, Error>(Error::invalid("decide", "no"))
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    let refused = db.update_entry("k", WriteOptions::default(), |_| {
        Err::<Decision, Error>(Error::invalid("decide", "no"))
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(db.get("k").unwrap().unwrap(), "v");
    // Nor does it leave anything behind that others would wait for.
    db.put("k", "w").unwrap();
    assert_eq!(db.increment("n", 1).unwrap(), 1);
}

#[test]
fn a_panic_of_the_decision_harms_nobody() {
    let db = fresh();
    db.put("k", "v").unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.rmw("k", |_| panic!("a user's mistake"))
    }));
    assert!(panicked.is_err());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.update("k", |_| panic!("a user's mistake"))
    }));
    assert!(panicked.is_err());
    db.put("k", "w").unwrap();
    db.put_with("k", "x", WriteOptions::sync()).unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), "x");
}

#[test]
fn a_large_value_may_be_the_base_and_the_result() {
    let db = fresh();
    db.put("k", vec![1; 2 << 20]).unwrap();
    let outcome = db
        .rmw("k", |old| Decision::put(vec![2; old.unwrap().len() + 1]))
        .unwrap();
    assert_eq!(outcome.new_value().unwrap().len(), (2 << 20) + 1);
    db.flush().unwrap();
    assert_eq!(db.get("k").unwrap().unwrap(), vec![2u8; (2 << 20) + 1]);
}
