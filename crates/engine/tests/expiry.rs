//! Expiry: from its time on a key is absent, and nothing older comes back.
//!
//! Claims: docs/consistency.md, "Expiry"; an expired version is a tombstone.

use crate::common::{alone, contents, fresh, on, tiny, until, wall_ms};
use std::time::Duration;
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{Db, Decision, ErrorKind, Snapshot, Value, WriteBatch, WriteOptions};
use velella_sync::simulation::Simulation;
use velella_testkit::Watchdog;

const PAST: u64 = 1;

fn expire(db: &Db, key: &str, at: u64) {
    db.put_expiring(key, "short-lived", at, WriteOptions::default())
        .unwrap();
}

fn assert_absent(db: &Db, key: &str) {
    assert_eq!(db.get(key).unwrap(), None);
    assert_eq!(db.get_strict(key).unwrap(), None);
    assert!(!db.contains(key).unwrap());
    assert!(!contents(db).contains_key(key.as_bytes()));
    assert_eq!(db.iter().unwrap().rev().count(), db.iter().unwrap().count());
    assert_eq!(
        db.rmw(key, |old| {
            assert_eq!(old, None);
            Decision::Keep
        })
        .unwrap()
        .stamp,
        None
    );
}

#[test]
fn an_expired_value_hides_older_ones_wherever_they_are() {
    let db = fresh();
    db.put("k", "old").unwrap();
    db.flush().unwrap();
    expire(&db, "k", PAST);
    assert_absent(&db, "k");
    db.flush().unwrap();
    assert_absent(&db, "k");
    db.compact().unwrap();
    assert_absent(&db, "k");
    assert_eq!(
        db.verify().unwrap().entries,
        0,
        "the expired version took the old one with it"
    );
}

#[test]
fn the_old_value_does_not_come_back_when_upper_levels_alone_are_compacted() {
    // The old value goes to the last level, the expired one into several tables above it.
    let db = fresh();
    db.put("k", "old").unwrap();
    db.compact().unwrap();
    for round in 0..12u32 {
        expire(&db, "k", PAST);
        db.put(round.to_le_bytes(), "x").unwrap();
        db.flush().unwrap();
        assert_absent(&db, "k");
    }
    db.compact().unwrap();
    assert_absent(&db, "k");
}

#[test]
fn a_future_expiry_is_told_and_kept_by_tables_and_crashes() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let at = wall_ms() + 1_000_000;
    expire(&db, "k", at);
    let told = |db: &Db| {
        let mut iter = db.iter().unwrap();
        assert!(iter.step().unwrap());
        assert_eq!(iter.expires_at_ms(), Some(at));
        let entry = db.get_entry("k").unwrap().unwrap();
        assert_eq!(
            (entry.value, entry.expires_at_ms),
            (Value::from(b"short-lived".to_vec()), Some(at))
        );
    };
    told(&db);
    let db = on(&fs.crash(1, CrashMode::KeepAll), tiny());
    told(&db);
    db.compact().unwrap();
    told(&db);
    db.put("k", "for ever").unwrap();
    assert_eq!(db.get_entry("k").unwrap().unwrap().expires_at_ms, None);
}

#[test]
fn what_is_put_for_a_while_expires_when_that_is_over_and_not_before() {
    let db = fresh();
    let put = |lifetime: Duration| {
        let before = db.now_ms();
        db.put_for("k", "v", lifetime, WriteOptions::default())
            .unwrap();
        before..=db.now_ms()
    };
    let hour = 3_600_000;
    for (lifetime, ms) in [
        (Duration::from_millis(hour), hour),
        (
            Duration::from_millis(hour) + Duration::from_nanos(1),
            hour + 1,
        ),
        (Duration::from_micros(hour * 1_000 + 999), hour + 1),
    ] {
        let at = put(lifetime);
        let expiry = db.get_entry("k").unwrap().unwrap().expires_at_ms;
        assert!(at.contains(&(expiry.unwrap() - ms)), "{lifetime:?}");
    }
    put(Duration::MAX);
    let expiry = db.get_entry("k").unwrap().unwrap().expires_at_ms;
    assert_eq!(expiry, Some(u64::MAX));
    put(Duration::ZERO);
    assert_eq!(db.get("k").unwrap(), None, "it was over at once");
}

/// A lock that its holder forgot is free for the next one.
#[test]
fn what_has_expired_is_absent_to_conditional_writes() {
    let db = fresh();
    expire(&db, "lock", PAST);
    let until = wall_ms() + 1_000_000;
    let options = WriteOptions::default();
    let forgotten = Some(&b"short-lived"[..]);
    assert!(!db.compare_and_swap("lock", forgotten, Some(b"me")).unwrap());
    let taken = db.put_if_absent_with("lock", "me", Some(until), options);
    assert!(taken.unwrap());
    let taken = db.put_if_absent_with("lock", "you", Some(until), options);
    assert!(!taken.unwrap());
    expire(&db, "lock", PAST);
    let mine = Decision::put_expiring("me", until);
    let swapped = db.compare_and_swap_with("lock", None, &mine, options);
    assert!(swapped.unwrap());
}

#[test]
fn an_expiry_of_zero_is_refused_everywhere() {
    let db = fresh();
    let refused = db
        .put_expiring("k", "v", 0, WriteOptions::default())
        .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    let mut batch = WriteBatch::new();
    batch.put_expiring(&db, "k", "v", 0);
    assert_eq!(
        db.write(&batch).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let refused = db.rmw("k", |_| Decision::put_expiring("v", 0)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[test]
fn batches_and_large_values_expire_too() {
    let db = fresh();
    let mut batch = WriteBatch::new();
    batch
        .put_expiring(&db, "a", "v", PAST)
        .put_expiring(&db, "b", "v", wall_ms() + 1_000_000);
    db.write(&batch).unwrap();
    db.put_expiring("large", vec![1; 2 << 20], PAST, WriteOptions::default())
        .unwrap();
    let later = wall_ms() + 1_000_000;
    db.put_expiring("later", vec![1; 2 << 20], later, WriteOptions::default())
        .unwrap();
    for _ in 0..3 {
        assert_absent(&db, "a");
        assert_absent(&db, "large");
        assert_eq!(
            db.get_entry("later").unwrap().unwrap().expires_at_ms,
            Some(later)
        );
        assert_eq!(
            contents(&db).into_keys().collect::<Vec<_>>(),
            [&b"b"[..], b"later"]
        );
        db.compact().unwrap();
    }
    // As soon as no sync round reads at a stamp before the deletion.
    until(|| {
        db.compact().unwrap();
        db.stats().external_bytes == 2 << 20
    });
}

#[test]
fn a_snapshot_keeps_its_time() {
    let _watchdog = Watchdog::new("a_snapshot_keeps_its_time", 120);
    let db = fresh();
    // A slow machine may let the key expire before the snapshot: then once more, with more time.
    let snapshot: Snapshot = (1..)
        .find_map(|attempt| {
            expire(&db, "k", wall_ms() + 200 * attempt);
            let snapshot = db.snapshot();
            snapshot.get(&db, "k").unwrap().map(|_| snapshot)
        })
        .unwrap();
    until(|| db.get("k").unwrap().is_none());
    for _ in 0..3 {
        assert_eq!(snapshot.get(&db, "k").unwrap().unwrap(), "short-lived");
        assert_eq!(snapshot.iter(&db).unwrap().count(), 1);
        assert_absent(&db, "k");
        db.compact().unwrap();
    }
    drop(snapshot);
    db.put("other", "x").unwrap();
    // A sync round under way is a reader too, at the stamp that was durable before it: while one
    // is, the deleted key stays.
    until(|| {
        db.compact().unwrap();
        db.verify().unwrap().entries == 1
    });
}

#[test]
fn a_clock_that_was_set_back_is_told_when_the_database_opens() {
    let fs = MemFs::new();
    let ahead = Simulation::begin(wall_ms() + 3_600_000);
    let db = on(&fs, alone());
    db.put("k", "v").unwrap();
    db.close().unwrap();
    drop(ahead);
    let db = on(&fs, alone());
    let notes = db.recovery().notes.join("; ");
    let (_, rest) = notes.split_once("clock is ").expect(&notes);
    let seconds: u64 = rest.split(' ').next().unwrap().parse().unwrap();
    assert!((3_500..=3_600).contains(&seconds), "{notes}");
    expire(&db, "k", wall_ms() + 60_000);
    assert_eq!(db.get("k").unwrap(), None, "as it says");
}

/// Their tables are compacted at different times, and the process dies in between.
#[test]
fn what_expired_together_stays_expired_wherever_the_clock_is_set() {
    let fs = MemFs::new();
    let began = wall_ms();
    let time = Simulation::begin(began);
    let db = on(&fs, alone());
    let first = db.create_keyspace("first", Default::default()).unwrap();
    let at = began + 1_000;
    for keyspace in [&first, &db] {
        keyspace
            .put_expiring("k", "short-lived", at, WriteOptions::default())
            .unwrap();
        keyspace.flush().unwrap();
    }
    time.pass(2_000);
    first.compact().unwrap();
    assert_eq!(db.verify().unwrap().entries, 1, "that of `first` is gone");
    let _set_back = Simulation::begin(began);
    let db = on(&fs.crash(1, CrashMode::Strict), alone());
    let first = db.keyspace("first").unwrap();
    assert_eq!(
        (first.get("k").unwrap(), db.get("k").unwrap()),
        (None, None)
    );
}

/// What the clock says when `fs` is opened at `wall_ms`.
fn told_when_opened_at(fs: &MemFs, wall_ms: u64) -> u64 {
    let _time = Simulation::begin(wall_ms);
    on(fs, alone()).now_ms()
}

#[test]
fn time_does_not_go_back_behind_an_opening() {
    let (fs, began) = (MemFs::new(), wall_ms());
    let ahead = Simulation::begin(began + 3_600_000);
    let db = on(&fs, alone());
    drop(ahead);
    let crashed = fs.crash(1, CrashMode::KeepAll);
    assert_eq!(told_when_opened_at(&crashed, began), began + 3_600_000);
    drop(db);
}

#[test]
fn time_does_not_go_back_behind_a_flush() {
    let (fs, began) = (MemFs::new(), wall_ms());
    let time = Simulation::begin(began);
    let db = on(&fs, alone());
    db.put("k", "v").unwrap();
    time.pass(2_000);
    db.flush().unwrap();
    let crashed = fs.crash(1, CrashMode::Strict);
    assert_eq!(told_when_opened_at(&crashed, began), began + 2_000);
}

#[test]
fn time_does_not_go_back_behind_a_close() {
    let (fs, began) = (MemFs::new(), wall_ms());
    let time = Simulation::begin(began);
    let db = on(&fs, alone());
    time.pass(2_000);
    db.close().unwrap();
    assert_eq!(told_when_opened_at(&fs, began), began + 2_000);
}
