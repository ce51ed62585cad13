//! The findings of the design review, each as a test on the whole engine.
//!
//! Every name begins with the finding: `jf` JellyFish (Middleware '20), `cl` cLSM (EuroSys '15),
//! `x` their combination. docs/testing.md says how each was seen red.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::{counter, fresh, number, on, race, tiny, try_on, until, while_writing};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation};
use velella::{Db, Decision, Keyspace, Stamp, WriteBatch, WriteOptions};
use velella_testkit::Watchdog;

#[test]
fn jf1_shadowed_version() {
    // A put with a lower stamp must not shadow one with a higher: the last in stamp order is read.
    let _watchdog = Watchdog::new("jf1_shadowed_version", 200);
    let db = fresh();
    for round in 0..300u32 {
        let key = round.to_le_bytes();
        let newest = AtomicU64::new(0);
        race(3, |thread| {
            for turn in 0..3u32 {
                let stamp = db
                    .put(key, [thread, turn].map(u32::to_le_bytes).concat())
                    .unwrap();
                newest.fetch_max(stamp.0, Ordering::AcqRel);
            }
        });
        let entry = db.get_entry(key).unwrap().unwrap();
        assert_eq!(entry.stamp.0, newest.into_inner());
    }
}

#[test]
fn jf2_drop_under_rmw() {
    // No put is dropped beneath a read-modify-write: each one's base is the write before it.
    let _watchdog = Watchdog::new("jf2_drop_under_rmw", 200);
    let db = fresh();
    let log = std::sync::Mutex::new(Vec::new());
    race(3, |thread| {
        for turn in 0..1_500u64 {
            let value = (u64::from(thread) << 32 | turn).to_le_bytes();
            let event = if turn % 2 == 0 {
                (db.put("k", value).unwrap(), value, None)
            } else {
                let outcome = db.rmw("k", |_| Decision::put(&value)).unwrap();
                let old = outcome.old.map(|old| number(&old.value));
                (outcome.stamp.unwrap(), value, Some(old))
            };
            log.lock().unwrap().push(event);
        }
    });
    let mut log = log.into_inner().unwrap();
    log.sort_by_key(|(stamp, ..)| *stamp);
    for pair in log.windows(2) {
        if let (_, before, (_, _, Some(base))) = (pair[0].0, pair[0].1, &pair[1]) {
            assert_eq!(
                *base,
                Some(number(&before)),
                "the write at {} was lost",
                pair[0].0
            );
        }
    }
}

#[test]
fn jf2_drop_in_batch() {
    // No member of a batch is dropped because a put of its key came later.
    let _watchdog = Watchdog::new("jf2_drop_in_batch", 200);
    let db = fresh();
    let write = |turn: u64| {
        let mut batch = WriteBatch::new();
        batch
            .put(&db, "a", turn.to_le_bytes())
            .put(&db, "b", turn.to_le_bytes());
        let stamp = db.write(&batch).unwrap();
        let snapshot = db.snapshot();
        let at = |key: &str| snapshot.get_entry(&db, key).unwrap().unwrap().stamp;
        assert!(at("a") >= stamp && at("b") >= stamp);
    };
    write(0);
    while_writing(3_000, write, || {
        db.put("b", u64::MAX.to_le_bytes()).unwrap();
        let snapshot = db.snapshot();
        let at = |key: &str| snapshot.get_entry(&db, key).unwrap().unwrap();
        let (a, b) = (at("a"), at("b"));
        assert!(b.stamp >= a.stamp, "half of the batch at {}", a.stamp);
        if number(&b.value) != u64::MAX {
            assert_eq!((number(&a.value), a.stamp), (number(&b.value), b.stamp));
        }
    });
}

#[test]
fn jf3_first_version_fallback() {
    // A snapshot older than every later version falls back to the first one.
    let db = fresh();
    db.put("k", "first").unwrap();
    let snapshot = db.snapshot();
    for turn in 0..50u32 {
        db.put("k", turn.to_le_bytes()).unwrap();
        assert_eq!(snapshot.get(&db, "k").unwrap().unwrap(), "first");
        assert_eq!(
            snapshot.iter(&db).unwrap().next().unwrap().unwrap().1,
            "first"
        );
    }
}

#[test]
fn jf7_same_key_race() {
    // Two threads that insert the same new key end with one node: both versions are of one list.
    let _watchdog = Watchdog::new("jf7_same_key_race", 200);
    let db = on(&MemFs::new(), tiny().memory(1 << 30).write_buffer(64 << 20));
    for turn in 0..2_000u32 {
        race(2, |_| {
            assert!(db.increment(turn.to_be_bytes(), 1).unwrap() > 0)
        });
    }
    assert_eq!(db.iter().unwrap().count(), 2_000, "a key is met once");
    assert!(db.iter().unwrap().all(|pair| pair.unwrap().1 == "2"));
    assert_eq!(counter(&db, "rmws"), 4_000);
}

#[test]
fn jf12_snapshot_survives_flush() {
    // Flush and scan keep every version a live snapshot sees.
    let db = fresh();
    let snapshots: Vec<_> = (0..20u64)
        .map(|turn| {
            for key in ["a", "b", "c"] {
                db.put(key, turn.to_le_bytes()).unwrap();
            }
            db.snapshot()
        })
        .collect();
    for _ in 0..2 {
        for (turn, snapshot) in (0u64..).zip(&snapshots) {
            let pairs: Vec<_> = snapshot
                .iter(&db)
                .unwrap()
                .map(|pair| pair.unwrap())
                .collect();
            assert_eq!(pairs.len(), 3);
            assert!(pairs.iter().all(|(_, value)| number(value) == turn));
            assert_eq!(number(&snapshot.get(&db, "b").unwrap().unwrap()), turn);
        }
        db.flush().unwrap();
    }
}

#[test]
fn jf12_three_late_writers() {
    // Writers that come late among three versions neither loop nor lose one.
    let _watchdog = Watchdog::new("jf12_three_late_writers", 200);
    let db = fresh();
    let told = [const { AtomicU64::new(0) }; 2];
    race(4, |thread| {
        for turn in 0..1_500u32 {
            let key = usize::from(turn % 2 == 0);
            let name = [u8::from(key == 1)];
            let stamp = db
                .put(name, [thread, turn].map(u32::to_le_bytes).concat())
                .unwrap();
            told[key].fetch_max(stamp.0, Ordering::AcqRel);
            let least = told[key].load(Ordering::Acquire);
            assert!(db.get_entry(name).unwrap().unwrap().stamp.0 >= least);
        }
    });
}

#[test]
fn cl1_put_under_rmw() {
    // A put with a lower stamp than a read-modify-write is what that read: counters lose nothing.
    let _watchdog = Watchdog::new("cl1_put_under_rmw", 200);
    let db = fresh();
    race(3, |thread| {
        for turn in 0..1_000u64 {
            if thread == 0 {
                // Absent or 0: whoever put it first, a later `put_if_absent` must see it.
                let key = turn.to_be_bytes();
                db.put(key, "put").unwrap();
            } else {
                let key = turn.to_be_bytes();
                let won = db.put_if_absent(key, "absent").unwrap();
                let now = db.get(key).unwrap().unwrap();
                assert!(won || now == "put" || now == "absent");
            }
        }
    });
    // The puts are unconditional, so they are what remains, unless put_if_absent wrote over one.
    for turn in 0..1_000u64 {
        assert_eq!(db.get(turn.to_be_bytes()).unwrap().unwrap(), "put");
    }
}

#[test]
fn cl2_boundary_snapshot() {
    // A write whose stamp is exactly the snapshot's is in it from the first look on.
    let _watchdog = Watchdog::new("cl2_boundary_snapshot", 200);
    let db = fresh();
    db.put("k", 0u64.to_le_bytes()).unwrap();
    let write = |turn: u64| {
        db.put("k", turn.to_le_bytes()).unwrap();
    };
    while_writing(20_000, write, || {
        let snapshot = db.snapshot();
        let first = snapshot.get_entry(&db, "k").unwrap().unwrap();
        assert!(first.stamp <= snapshot.stamp());
        for _ in 0..5 {
            assert_eq!(snapshot.get_entry(&db, "k").unwrap().unwrap(), first);
        }
    });
}

#[test]
fn cl3_two_snapshots() {
    // Snapshots taken by two threads at once are each complete: what one saw at a lower stamp,
    // the other sees too.
    let _watchdog = Watchdog::new("cl3_two_snapshots", 200);
    let db = fresh();
    db.put("k", 0u64.to_le_bytes()).unwrap();
    let best = AtomicU64::new(0);
    race(3, |thread| {
        for turn in 0..6_000u64 {
            if thread == 0 {
                let stamp = db.put("k", turn.to_le_bytes()).unwrap();
                best.fetch_max(stamp.0, Ordering::AcqRel);
            } else {
                let least = best.load(Ordering::Acquire);
                let snapshot = db.snapshot();
                let seen = snapshot.get_entry(&db, "k").unwrap().unwrap().stamp;
                assert!(seen.0 >= least && seen <= snapshot.stamp());
                let again = snapshot.get_entry(&db, "k").unwrap().unwrap().stamp;
                assert_eq!(again, seen);
            }
        }
    });
}

#[test]
fn cl6_torn_batch() {
    // A get that follows a get never sees an older batch than the first saw.
    let _watchdog = Watchdog::new("cl6_torn_batch", 200);
    let db = fresh();
    let write = |turn: u64| {
        let mut batch = WriteBatch::new();
        batch
            .put(&db, "a", turn.to_le_bytes())
            .put(&db, "b", turn.to_le_bytes());
        db.write(&batch).unwrap();
    };
    write(0);
    let get = |key: &str| db.get_with(key, number).unwrap().unwrap();
    while_writing(20_000, write, || {
        let (a, b) = (get("a"), get("b"));
        assert!(b >= a, "a of batch {a}, then b of batch {b}");
        let (b, a) = (get("b"), get("a"));
        assert!(a >= b, "b of batch {b}, then a of batch {a}");
    });
}

#[test]
fn cl10_switch_inversion() {
    // Across switches no older value comes back: a larger stamp is never in the older memtable.
    let _watchdog = Watchdog::new("cl10_switch_inversion", 200);
    let db = fresh();
    // A busy machine may let the writers run long before the first flush.
    let has_switched = AtomicBool::new(false);
    let write = || {
        let mut seen = Stamp::ZERO;
        for turn in 0u64.. {
            // Relaxed: it only says how long to go on.
            if turn >= 10_000 && has_switched.load(Ordering::Relaxed) {
                break;
            }
            let stamp = db.put("hot", turn.to_le_bytes()).unwrap();
            let entry = db.get_entry("hot").unwrap().unwrap();
            assert!(
                entry.stamp >= stamp && entry.stamp >= seen,
                "{} after {seen}",
                entry.stamp
            );
            seen = entry.stamp;
        }
    };
    std::thread::scope(|scope| {
        let writers = [scope.spawn(write), scope.spawn(write), scope.spawn(write)];
        while writers.iter().any(|writer| !writer.is_finished()) {
            let flushed = db.flush();
            // Not only then: nobody waits for a flush that failed.
            let is_over = flushed.is_err() || counter(&db, "flushes") > 2;
            has_switched.store(is_over, Ordering::Relaxed);
            flushed.unwrap();
        }
    });
}

#[test]
fn cl11_snapshot_vs_flush() {
    // A flush that begins while a snapshot is being taken keeps what that will read.
    let _watchdog = Watchdog::new("cl11_snapshot_vs_flush", 200);
    let db = fresh();
    let write = |turn: u64| {
        db.put("k", turn.to_le_bytes()).unwrap();
        if turn.is_multiple_of(3) {
            db.flush().unwrap();
        }
        if turn.is_multiple_of(50) {
            db.compact().unwrap();
        }
    };
    write(0);
    while_writing(1_500, write, || {
        let snapshot = db.snapshot();
        let first = snapshot
            .get_entry(&db, "k")
            .unwrap()
            .expect("a version at or below it is kept");
        for _ in 0..20 {
            std::thread::yield_now();
            assert_eq!(snapshot.get_entry(&db, "k").unwrap().as_ref(), Some(&first));
        }
    });
}

#[test]
fn cl14_double_crash() {
    // Stamps lost in one crash are not used again, so a second crash merges no two histories.
    let mut fs = MemFs::new();
    let mut last = Stamp::ZERO;
    for (round, mode) in (0u64..).zip([
        CrashMode::Strict,
        CrashMode::KeepAll,
        CrashMode::Strict,
        CrashMode::Prefix,
    ]) {
        let db = on(&fs, tiny());
        let durable = db
            .put_with("k", format!("durable{round}"), WriteOptions::sync())
            .unwrap();
        assert!(
            durable > last,
            "round {round}: {durable} was given out before, the last was {last}"
        );
        for turn in 0..20u32 {
            last = db.put("lost", turn.to_le_bytes()).unwrap();
        }
        fs = fs.crash(round, mode);
        let found = on(&fs, tiny());
        assert_eq!(
            found.get("k").unwrap().unwrap(),
            format!("durable{round}").as_bytes()
        );
        // A crash right after the opening changes nothing.
        fs = fs.crash(round + 100, CrashMode::Strict);
    }
}

/// A database on a device whose syncs take their time once `slow` is asked for.
fn slow_device() -> (MemFs, FaultFs, Db) {
    let mem = MemFs::new();
    let slow = FaultFs::over_mem(&mem);
    let db = try_on(Arc::new(slow.clone()), tiny()).unwrap();
    (mem, slow, db)
}

#[test]
fn x2_sst_ahead() {
    // A table never holds a write that the journal could still lose while an older one is lost.
    let _watchdog = Watchdog::new("x2_sst_ahead", 200);
    let (mem, slow, db) = slow_device();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    for round in 0..10u64 {
        // In `db` first, only in the journal; then in `other`, flushed.
        db.put("cause", round.to_le_bytes()).unwrap();
        other.put("effect", round.to_le_bytes()).unwrap();
        slow.inject(Rule::every(Fault::Delay(Duration::from_millis(5))).of(Operation::SyncMap));
        std::thread::scope(|scope| {
            let flush = scope.spawn(|| other.flush().unwrap());
            while !flush.is_finished() {
                let after = on(&mem.image(round, CrashMode::Strict), tiny());
                let read = |keyspace: &Keyspace, key: &str| keyspace.get_with(key, number).unwrap();
                let effect = after
                    .keyspace("other")
                    .ok()
                    .and_then(|other| read(&other, "effect"));
                assert!(
                    read(&after, "cause") >= effect,
                    "round {round}: {effect:?} without its cause"
                );
            }
        });
        slow.heal();
    }
}

#[test]
fn x3_journal_kept_for_other_keyspace() {
    // Flushing one keyspace gives up no journal that another still needs.
    let fs = MemFs::new();
    // Large buffers, or the journal's bound would have the quiet keyspace flushed.
    let db = on(&fs, tiny().write_buffer(2 << 20));
    let quiet = db.create_keyspace("quiet", Default::default()).unwrap();
    quiet.put("only in the journal", "1").unwrap();
    for round in 0..60u32 {
        for turn in 0..20u32 {
            db.put([round, turn].map(u32::to_be_bytes).concat(), vec![1; 3_000])
                .unwrap();
        }
        // Of this keyspace only: `Db::flush` would flush the quiet one too.
        db.default_keyspace().flush().unwrap();
        db.persist().unwrap();
    }
    for mode in [CrashMode::KeepAll, CrashMode::Strict] {
        let after = on(&fs.image(1, mode), tiny());
        let value = after
            .keyspace("quiet")
            .unwrap()
            .get("only in the journal")
            .unwrap();
        assert_eq!(value.unwrap(), "1", "{mode:?}");
        assert_eq!(after.iter().unwrap().count(), 1_200);
    }
}

#[test]
fn x4_stalled_writer() {
    // A writer that stands still before its window (in a user's function) stops nobody: not gets,
    // snapshots, other writers of the same key, switches, or syncs.
    let _watchdog = Watchdog::new("x4_stalled_writer", 60);
    let db = fresh();
    db.put("k", "0").unwrap();
    let (inside, go) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let stalled = scope.spawn(|| {
            db.rmw("k", |old| {
                inside.store(true, Ordering::Release);
                until(|| go.load(Ordering::Acquire));
                Decision::put([old.unwrap(), b"+"].concat())
            })
        });
        until(|| inside.load(Ordering::Acquire));
        let stamp = db.put_with("k", "1", WriteOptions::sync()).unwrap();
        assert!(db.durable() >= stamp);
        let snapshot = db.snapshot();
        assert_eq!(snapshot.get(&db, "k").unwrap().unwrap(), "1");
        db.flush().unwrap();
        db.compact().unwrap();
        assert_eq!(db.get_strict("k").unwrap().unwrap(), "1");
        go.store(true, Ordering::Release);
        assert_eq!(
            stalled.join().unwrap().unwrap().old.unwrap().value,
            "1",
            "it saw the put"
        );
    });
    assert_eq!(db.get("k").unwrap().unwrap(), "1+");
}
