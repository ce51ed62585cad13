//! What a read-modify-write holds while the user's function runs, and on what it decides.

use crate::budget::LANES;
use crate::core::Engine;
use crate::db::Db;
use crate::entry::Decision;
use crate::fixture::{fresh, open, tiny, until};
use crate::options::{JournalMode, WriteOptions};
use std::sync::Arc;
use velella_base::{Error, ErrorKind, ValueKind};
use velella_memtable::{Install, Intent, Owner};
use velella_sync::epoch;
use velella_testkit::Watchdog;
use velella_vfs::MemFs;

#[test]
fn memory_is_reclaimed_while_the_decision_runs() {
    let _watchdog = Watchdog::new("memory_is_reclaimed", 60);
    let (db, _engine) = fresh();
    db.put("in memory", "1").unwrap();
    db.put("in a table", "1").unwrap();
    db.compact().unwrap();
    db.put("in memory", "1").unwrap();
    for key in ["in memory", "in a table", "absent"] {
        let outcome = db.rmw(key, |_| {
            db.put("filler", "x").unwrap();
            let memtable = Arc::downgrade(&db.core.view.load(&epoch::pin()).cur);
            db.flush().unwrap();
            // Pinned, this thread would keep what it sees, whoever reclaims.
            until(|| {
                epoch::flush();
                memtable.strong_count() == 0
            });
            Decision::put(b"2")
        });
        assert!(outcome.unwrap().stamp.is_some());
        assert_eq!(db.get(key).unwrap().unwrap(), "2");
    }
}

#[test]
fn a_write_to_the_key_during_the_decision_is_decided_on() {
    let (db, _engine) = fresh();
    for flushed in [false, true] {
        for other in ["put", "delete", "nothing"] {
            db.put("k", "old").unwrap();
            let mut seen = Vec::new();
            let outcome = db.rmw("k", |old| {
                seen.push(old.map(<[u8]>::to_vec));
                if seen.len() == 1 {
                    match other {
                        "put" => drop(db.put("k", "new").unwrap()),
                        "delete" => drop(db.delete("k").unwrap()),
                        _ => {}
                    }
                    if flushed {
                        db.flush().unwrap();
                    }
                }
                Decision::put(b"mine")
            });
            let last = match other {
                "put" => Some(b"new".to_vec()),
                "delete" => None,
                _ => Some(b"old".to_vec()),
            };
            assert_eq!(seen.last().unwrap(), &last, "{other}, flushed {flushed}");
            assert_eq!(seen.len(), if other == "nothing" { 1 } else { 2 });
            let old = outcome.unwrap().old.map(|old| old.value.to_vec());
            assert_eq!(old, last);
            assert_eq!(db.get("k").unwrap().unwrap(), "mine");
        }
    }
}

#[test]
fn a_first_write_to_the_memtable_during_the_decision_is_decided_on() {
    // What was decided on is below the memtable that takes the writes, or nowhere.
    for there in [true, false] {
        for other in ["put", "delete", "both", "nothing"] {
            let (db, engine) = fresh();
            if there {
                db.put("k", "old").unwrap();
                db.compact().unwrap();
            }
            let mut seen = Vec::new();
            let outcome = db.rmw("k", |old| {
                seen.push(old.map(<[u8]>::to_vec));
                if seen.len() == 1 && ["put", "both"].contains(&other) {
                    db.put("k", "new").unwrap();
                }
                if seen.len() == 1 && ["delete", "both"].contains(&other) {
                    db.delete("k").unwrap();
                }
                Decision::put(b"mine")
            });
            let old = there.then(|| b"old".to_vec());
            let last = match other {
                "put" => Some(b"new".to_vec()),
                "nothing" => old.clone(),
                _ => None,
            };
            let expected = if other == "nothing" {
                vec![old]
            } else {
                vec![old, last.clone()]
            };
            assert_eq!(seen, expected, "{other}, there {there}");
            let retries = engine.counters.rmw_retries.sum();
            assert_eq!(retries, expected.len() as u64 - 1, "{other}, there {there}");
            assert_eq!(outcome.unwrap().old.map(|old| old.value.to_vec()), last);
            assert_eq!(db.get("k").unwrap().unwrap(), "mine");
        }
    }
}

#[test]
fn an_update_decides_anew_on_what_was_written_during_its_decision() {
    for there in ["nowhere", "in a table", "in memory"] {
        for other in ["put", "delete", "both", "nothing"] {
            for flushed in [false, true] {
                let case = format!("{there}, {other}, flushed: {flushed}");
                let (db, engine) = fresh();
                if there != "nowhere" {
                    db.put("k", "old").unwrap();
                }
                if there == "in a table" {
                    db.compact().unwrap();
                }
                let mut seen = Vec::new();
                let stamp = db.update("k", |old| {
                    seen.push(old.map(<[u8]>::to_vec));
                    if seen.len() == 1 && ["put", "both"].contains(&other) {
                        db.put("k", "new").unwrap();
                    }
                    if seen.len() == 1 && ["delete", "both"].contains(&other) {
                        db.delete("k").unwrap();
                    }
                    if seen.len() == 1 && flushed {
                        // Something to switch, whatever there is of the key.
                        db.put("filler", "x").unwrap();
                        db.flush().unwrap();
                    }
                    Decision::put(b"mine")
                });
                let old = (there != "nowhere").then(|| b"old".to_vec());
                let last = match other {
                    "put" => Some(b"new".to_vec()),
                    "nothing" => old.clone(),
                    _ => None,
                };
                let expected = match other {
                    "nothing" => vec![old],
                    _ => vec![old, last],
                };
                assert_eq!(seen, expected, "{case}");
                let retries = engine.counters.rmw_retries.sum();
                assert_eq!(retries, seen.len() as u64 - 1, "{case}");
                let entry = db.get_entry("k").unwrap().unwrap();
                assert_eq!(entry.value, "mine", "{case}");
                assert_eq!(stamp.unwrap(), Some(entry.stamp), "{case}");
            }
        }
    }
}

#[test]
fn a_large_value_of_an_update_that_decides_anew_leaves_no_file() {
    let _watchdog = Watchdog::new("a_large_value_of_an_update", 60);
    let (db, engine) = fresh();
    let bytes = engine.sizes.inline_value_bytes + 1;
    for expires in [None, Some(u64::MAX)] {
        let mut turns = 0;
        let stamp = db.update("k", |_| {
            turns += 1;
            if turns == 1 {
                db.put("k", "between").unwrap();
            }
            let value = vec![turns; bytes];
            match expires {
                None => Decision::put(value),
                Some(at) => Decision::put_expiring(value, at),
            }
        });
        assert!(stamp.unwrap().is_some());
        assert_eq!(turns, 2);
        db.compact().unwrap();
        assert_eq!(db.get("k").unwrap().unwrap(), vec![2; bytes]);
        // One file is left, once no reader of another test holds the others back.
        until(|| {
            db.core.tree.clean();
            db.stats().external_bytes == bytes as u64
        });
    }
}

/// A write of `k` that has come to nothing.
fn abort_a_write(db: &Db) {
    let guard = epoch::pin();
    let view = db.core.view.load(&guard);
    let intent = Intent {
        key: b"k",
        kind: ValueKind::Put,
        payload: [b"never", b""],
    };
    let (table, owner) = (&view.cur.table, Owner::Slot(LANES - 1));
    match table.install(&intent, owner, None, &guard) {
        Install::Installed(pending) => pending.abort(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_aborted_first_version_of_the_key_is_not_in_the_way() {
    let _watchdog = Watchdog::new("an_aborted_first_version", 60);
    let (db, _engine) = fresh();
    let mut calls = 0;
    let outcome = db.rmw("k", |_| {
        calls += 1;
        abort_a_write(&db);
        Decision::put(b"mine")
    });
    assert!(outcome.unwrap().old.is_none());
    assert_eq!(calls, 1, "nothing that was decided on has changed");
    assert_eq!(db.get("k").unwrap().unwrap(), "mine");
}

#[test]
fn an_update_goes_above_an_aborted_version() {
    let _watchdog = Watchdog::new("an_update_goes_above", 60);
    let (db, _engine) = fresh();
    // Before it looks, and while it decides: then its key has a head that it did not see.
    for before in [true, false] {
        db.delete("k").unwrap();
        if before {
            abort_a_write(&db);
        }
        let mut calls = 0;
        let stamp = db.update("k", |old| {
            calls += 1;
            assert_eq!(old, None);
            if calls == 1 && !before {
                abort_a_write(&db);
            }
            Decision::put(b"mine")
        });
        assert!(stamp.unwrap().is_some());
        assert_eq!(calls, if before { 1 } else { 2 });
        assert_eq!(db.get("k").unwrap().unwrap(), "mine");
    }
}

#[test]
fn an_update_that_cannot_write_at_once_waits_with_nothing_held() {
    let _watchdog = Watchdog::new("an_update_that_cannot_write_at_once", 60);
    for key in ["in memory", "in a table", "absent"] {
        let (db, engine) = fresh();
        db.put("in a table", "1").unwrap();
        db.compact().unwrap();
        db.put("in memory", "1").unwrap();
        let pairs = engine.all_pairs();
        let (decided, wait) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let db = &db;
            let writer = scope.spawn(move || {
                let mut calls = 0;
                let stamp = db.update(key, |_| {
                    calls += 1;
                    decided.send(()).unwrap();
                    Decision::put(b"2")
                });
                (stamp.unwrap(), calls)
            });
            wait.recv().unwrap();
            // While it waits for a pair, what it saw goes: it neither pins nor holds it.
            let memtable = Arc::downgrade(&db.core.view.load(&epoch::pin()).cur);
            engine.flush_all(std::slice::from_ref(&db.core)).unwrap();
            until(|| {
                epoch::flush();
                memtable.strong_count() == 0
            });
            assert!(!writer.is_finished());
            drop(pairs);
            let (stamp, calls) = writer.join().unwrap();
            assert!(stamp.is_some());
            assert_eq!(calls, 1, "{key}: nothing that was decided on has changed");
        });
        assert_eq!(engine.counters.rmw_retries.sum(), 0);
        assert_eq!(db.get(key).unwrap().unwrap(), "2");
    }
}

/// A database in which `k`, "5", expires when its clock is moved to the time given.
fn about_to_expire(in_table: bool) -> (Db, Arc<Engine>, u64) {
    let (db, engine) = fresh();
    let expiry = engine.wall.now_ms() + 3_600_000;
    db.put_expiring("k", "5", expiry, WriteOptions::default())
        .unwrap();
    if in_table {
        db.compact().unwrap();
    }
    (db, engine, expiry)
}

#[test]
fn a_base_that_expires_before_the_write_is_decided_on_anew() {
    for in_table in [false, true] {
        let (db, engine, expiry) = about_to_expire(in_table);
        let mut seen = Vec::new();
        let outcome = db.rmw_entry::<Error>("k", WriteOptions::default(), |old| {
            seen.push(old.map(|old| old.value.to_vec()));
            engine.wall.advance_to(expiry);
            // As INCR does, it keeps the expiry of what it saw.
            let base = old.map_or(0, |old| old.value[0] - b'0');
            Ok(Decision::put(vec![b'0' + base + 1]))
        });
        assert_eq!(seen, [Some(b"5".to_vec()), None], "in a table: {in_table}");
        assert!(outcome.unwrap().old.is_none());
        assert_eq!(db.get("k").unwrap().unwrap(), "1");
    }
}

#[test]
fn an_update_whose_base_expires_before_the_write_decides_anew() {
    for in_table in [false, true] {
        let (db, engine, expiry) = about_to_expire(in_table);
        let mut seen = Vec::new();
        let updated = db.update_entry::<Error>("k", WriteOptions::default(), |old| {
            seen.push(old.map(|old| (old.value.to_vec(), old.expires_at_ms)));
            engine.wall.advance_to(expiry);
            Ok(Decision::put(b"mine"))
        });
        assert!(updated.unwrap().is_some());
        let alive = Some((b"5".to_vec(), Some(expiry)));
        assert_eq!(seen, [alive, None], "in a table: {in_table}");
        assert_eq!(db.get("k").unwrap().unwrap(), "mine");
    }
}

#[test]
fn a_base_that_expires_between_decision_and_stamp_is_decided_on_anew() {
    let (db, engine) = fresh();
    let expiry = engine.wall.now_ms() + 3_600_000;
    db.put_expiring("k", "5", expiry, WriteOptions::default())
        .unwrap();
    let view = db.core.view.load_full(&epoch::pin());
    let mut calls = 0;
    std::thread::scope(|scope| {
        // The write needs this lock after its decision, before its window.
        let externals = view.cur.externals.lock();
        let (decided, wait) = std::sync::mpsc::channel();
        let (db, calls) = (&db, &mut calls);
        let writer = scope.spawn(move || {
            db.rmw("k", |_| {
                *calls += 1;
                decided.send(()).unwrap();
                Decision::put(vec![7; velella_base::limits::INLINE_VALUE_BYTES_MAX + 1])
            })
        });
        wait.recv().unwrap();
        until(|| format!("{:?}", engine.env.externals).contains("holds: 1"));
        engine.wall.advance_to(expiry);
        drop(externals);
        assert!(writer.join().unwrap().unwrap().old.is_none());
    });
    assert_eq!(calls, 2);
}

#[test]
fn only_what_was_written_is_counted_as_a_write() {
    let (db, engine) = fresh();
    let writes = || engine.counters.writes.sum();
    db.put("k", "0").unwrap();
    let before = writes();
    let mut turns = 0;
    db.rmw("k", |_| {
        turns += 1;
        if turns == 1 {
            db.put("k", "1").unwrap();
        }
        Decision::put(b"2")
    })
    .unwrap();
    assert_eq!((turns, writes() - before), (2, 2));
    db.rmw("k", |_| Decision::Keep).unwrap();
    db.update("k", |_| Decision::Keep).unwrap();
    assert_eq!(writes() - before, 2);
    db.update("k", |_| Decision::Delete).unwrap();
    assert_eq!(writes() - before, 3);
    db.update("k", |_| {
        // So that it does not write at once.
        db.put("filler", "x").unwrap();
        db.flush().unwrap();
        Decision::put(b"3")
    })
    .unwrap();
    assert_eq!(writes() - before, 5);
}

/// Without a journal nothing refuses it later: a lane would.
#[test]
fn a_database_that_is_closed_during_the_decision_takes_no_write() {
    let _watchdog = Watchdog::new("closed_during_the_decision", 60);
    for at_once in [true, false] {
        let (db, _) = open(Arc::new(MemFs::new()), tiny().journal(JournalMode::Off));
        let close = || std::thread::scope(|scope| scope.spawn(|| db.close()).join().unwrap());
        let decide = || {
            close().unwrap();
            Decision::put(b"x")
        };
        let refused = match at_once {
            true => db.update("k", |_| decide()).unwrap_err(),
            false => db.rmw("k", |_| decide()).unwrap_err(),
        };
        assert_eq!(refused.kind(), ErrorKind::Closed, "at once: {at_once}");
        assert!(db.core.view.load(&epoch::pin()).cur.table.is_empty());
    }
}
