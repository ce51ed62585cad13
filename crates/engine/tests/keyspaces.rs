//! Keyspaces: created, opened, dropped, and with an order of their own.
//!
//! Claims: `catalogue.rs` C1-C3, C8.

use crate::common::{alone, contents, counter, fresh, on, tiny, try_on, until};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation};
use velella::{
    Db, ErrorKind, JournalMode, KeyspaceOptions, Order, RecoveryMode, WriteBatch, WriteOptions,
};
use velella_testkit::{Watchdog, patience};

#[test]
fn keyspaces_are_created_found_listed_and_dropped() {
    let db = fresh();
    let one = db
        .create_keyspace("one", KeyspaceOptions::default())
        .unwrap();
    assert_eq!(one.name(), "one");
    let again = db
        .create_keyspace("one", KeyspaceOptions::default())
        .unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    db.keyspace_or_create("two").unwrap().put("k", "2").unwrap();
    assert_eq!(
        db.keyspace_or_create("two")
            .unwrap()
            .get("k")
            .unwrap()
            .unwrap(),
        "2"
    );
    assert_eq!(db.keyspaces(), ["default", "one", "two"]);
    db.drop_keyspace("one").unwrap();
    assert_eq!(db.keyspaces(), ["default", "two"]);
    let missing = db.keyspace("one").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(
        missing.to_string().contains("`two`"),
        "it names those that exist: {missing}"
    );
    assert_eq!(
        db.drop_keyspace("one").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        db.drop_keyspace("default").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn names_are_checked() {
    let db = fresh();
    for name in ["", "a\nb", "a\0b", &"x".repeat(256)] {
        let error = db
            .create_keyspace(name, KeyspaceOptions::default())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(!error.to_string().contains('\0'), "it is printed safely");
    }
    db.create_keyspace(&"x".repeat(255), KeyspaceOptions::default())
        .unwrap();
    db.create_keyspace("mit Umlaut ä / ..", KeyspaceOptions::default())
        .unwrap();
}

#[test]
fn a_dropped_keyspace_is_gone_for_its_handles_and_after_every_sort_of_opening() {
    for mode in [CrashMode::KeepAll, CrashMode::Strict] {
        let fs = MemFs::new();
        let db = on(&fs, tiny());
        let dropped = db
            .create_keyspace("dropped", KeyspaceOptions::default())
            .unwrap();
        dropped.put("in a table", "1").unwrap();
        dropped.flush().unwrap();
        dropped.put("in memory", "1").unwrap();
        db.put("kept", "1").unwrap();
        db.drop_keyspace("dropped").unwrap();
        assert_eq!(
            dropped.put("late", "1").unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(
            dropped.increment("late", 1).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        assert_eq!(dropped.flush().unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(dropped.compact().unwrap_err().kind(), ErrorKind::NotFound);
        let mut batch = WriteBatch::new();
        batch.put(&db, "torn", "1").put(&dropped, "torn", "1");
        assert_eq!(db.write(&batch).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(db.get("torn").unwrap(), None);
        // A new one of the same name is another one.
        let renewed = db
            .create_keyspace("dropped", KeyspaceOptions::default())
            .unwrap();
        assert!(contents(&renewed).is_empty());
        renewed.put_with("new", "2", WriteOptions::sync()).unwrap();
        let db = on(&fs.crash(1, mode), tiny());
        let renewed = db.keyspace("dropped").unwrap();
        assert_eq!(
            contents(&renewed).into_keys().collect::<Vec<_>>(),
            [b"new"],
            "{mode:?}"
        );
        assert_eq!(db.get("kept").unwrap().unwrap(), "1");
        db.verify().unwrap();
    }
}

#[test]
fn a_creation_and_a_drop_are_no_more_durable_than_the_writes_before_them() {
    for journal in [JournalMode::Mapped, JournalMode::Write, JournalMode::Off] {
        for mode in [CrashMode::KeepAll, CrashMode::Strict, CrashMode::Random] {
            let fs = MemFs::new();
            let db = on(&fs, tiny().journal(journal));
            db.put("before the creation", "1").unwrap();
            let short = db.create_keyspace("short", KeyspaceOptions::default());
            let reopened = on(&fs.image(1, mode), tiny().journal(journal));
            assert_eq!(reopened.keyspaces(), ["default", "short"]);
            assert!(
                reopened.contains("before the creation").unwrap(),
                "{mode:?} {journal:?}"
            );
            short.unwrap().put("before the drop", "1").unwrap();
            db.put("before the drop", "1").unwrap();
            db.drop_keyspace("short").unwrap();
            let reopened = on(&fs.image(2, mode), tiny().journal(journal));
            assert_eq!(reopened.keyspaces(), ["default"]);
            assert_eq!(contents(&reopened).len(), 2, "{mode:?} {journal:?}");
        }
    }
}

#[test]
fn dropping_under_writers_flushes_and_compactions_harms_nobody_else() {
    let _watchdog = Watchdog::new("dropping_under_writers", 300);
    let db = fresh();
    for round in 0..30u32 {
        let name = format!("keyspace{}", round % 3);
        let keyspace = db
            .create_keyspace(&name, KeyspaceOptions::default())
            .unwrap();
        std::thread::scope(|scope| {
            for thread in 0..2u8 {
                let (db, keyspace) = (&db, &keyspace);
                scope.spawn(move || {
                    for number in 0..u32::MAX {
                        db.put([thread, 1], number.to_le_bytes()).unwrap();
                        match keyspace.put(number.to_be_bytes(), [thread; 700]) {
                            Ok(_) => {}
                            Err(error) if error.kind() == ErrorKind::NotFound => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
            if round % 2 == 0 {
                keyspace.flush().unwrap();
            } else {
                until(|| counter(&db, "flushes") > u64::from(round));
            }
            db.drop_keyspace(&name).unwrap();
        });
        db.put("after", round.to_le_bytes()).unwrap();
        db.compact().unwrap();
    }
    db.verify().unwrap();
    assert_eq!(db.keyspaces(), ["default"]);
}

#[test]
fn a_keyspace_dropped_in_the_middle_of_its_flush_does_not_stop_the_database() {
    let _watchdog = Watchdog::new("dropped_in_the_middle_of_its_flush", 60);
    let slow = FaultFs::over_mem(&MemFs::new());
    let db = try_on(Arc::new(slow.clone()), tiny()).unwrap();
    let keyspace = db
        .create_keyspace("short", KeyspaceOptions::default())
        .unwrap();
    keyspace.put("k", "v").unwrap();
    slow.reset();
    slow.inject(Rule::every(Fault::Delay(Duration::from_millis(100))).on(".sst"));
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| keyspace.flush());
        until(|| slow.fired() > 0);
        db.drop_keyspace("short").unwrap();
        flush.join().unwrap().unwrap();
    });
    slow.heal();
    db.put("after", "1").unwrap();
    db.compact().unwrap();
    assert_eq!(db.get("after").unwrap().unwrap(), "1");
}

#[test]
fn two_droppers_and_a_creator_do_not_take_each_others_keyspace() {
    let _watchdog = Watchdog::new("two_droppers", 120);
    let db = fresh();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..200 {
                    match db.drop_keyspace("contested") {
                        Ok(()) => {}
                        Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..100 {
                match db.create_keyspace("contested", KeyspaceOptions::default()) {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
                }
            }
        });
    });
    db.put("alive", "1").unwrap();
    db.keyspace_or_create("contested")
        .unwrap()
        .put("k", "1")
        .unwrap();
    db.compact().unwrap();
}

#[test]
fn a_change_whose_sync_fails_has_an_unknown_outcome() {
    type Attempt = fn(&Db) -> velella::Result<()>;
    let create: Attempt = |db| db.create_keyspace("new", Default::default()).map(drop);
    let settle: Attempt = |db| {
        let options = KeyspaceOptions {
            bloom_bits: Some(5),
            ..KeyspaceOptions::default()
        };
        db.open_keyspace("old", options).map(drop)
    };
    let remove: Attempt = |db| db.drop_keyspace("old");
    for attempt in [create, settle, remove] {
        let faulty = FaultFs::over_mem(&MemFs::new());
        let db = try_on(Arc::new(faulty.clone()), alone()).unwrap();
        db.create_keyspace("old", Default::default()).unwrap();
        let sync = Rule::every(Fault::Io).of(Operation::SyncData);
        faulty.inject(sync.on("MANIFEST").times(1));
        let error = attempt(&db).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        let error = attempt(&db).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnly, "refused: {error}");
    }
}

#[test]
fn a_missing_keyspace_is_told_with_some_of_those_that_are_there() {
    let db = fresh();
    let told = |db: &Db| db.keyspace("none").unwrap_err().to_string();
    for number in 0..7 {
        let name = format!("k{number}");
        db.keyspace_or_create(&name).unwrap();
    }
    assert!(told(&db).ends_with("`k5`, `k6`"), "{}", told(&db));
    for number in 7..10 {
        let name = format!("k{number}");
        db.keyspace_or_create(&name).unwrap();
    }
    assert!(
        told(&db).ends_with("`k5`, `k6` and 3 more"),
        "{}",
        told(&db)
    );
}

#[test]
fn a_keyspace_alone_knows_its_database_and_its_clock() {
    let db = fresh();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    db.put("k", "default's").unwrap();
    drop(db);
    let before = other.now_ms();
    let db = other.db();
    assert!(db.now_ms() >= before && before > 0);
    assert_eq!(db.get("k").unwrap().unwrap(), "default's");
    assert_eq!(db.keyspaces(), ["default", "other"]);
    let mut batch = velella::WriteBatch::new();
    batch.put(&other, "a", "1").put(&db, "a", "2");
    db.write(&batch).unwrap();
    db.drop_keyspace("other").unwrap();
    assert_eq!(other.db().get("a").unwrap().unwrap(), "2");
    db.close().unwrap();
    let closed = other.db().get("a").unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Closed);
}

fn reversed() -> Order {
    Order::custom("test.reversed", |a, b| b.cmp(a))
}

#[test]
fn an_order_of_its_own_holds_in_memory_in_tables_and_must_be_given_again() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let own = KeyspaceOptions {
        order: Some(reversed()),
        ..Default::default()
    };
    let keyspace = db.create_keyspace("down", own).unwrap();
    let keys = |keyspace: &velella::Keyspace| {
        keyspace
            .iter()
            .unwrap()
            .map(|pair| pair.unwrap().0)
            .collect::<Vec<_>>()
    };
    for number in [5u8, 1, 9, 3] {
        keyspace.put([number], [number]).unwrap();
    }
    assert_eq!(keys(&keyspace), [[9], [5], [3], [1]]);
    keyspace.flush().unwrap();
    keyspace.put([4], [4]).unwrap();
    assert_eq!(keys(&keyspace), [[9], [5], [4], [3], [1]]);
    db.close().unwrap();
    drop((db, keyspace));
    let refused = try_on(Arc::new(fs.clone()), tiny()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("test.reversed"), "{refused}");
    let db: Db = on(&fs, tiny().order(reversed()));
    let keyspace = db.keyspace("down").unwrap();
    db.compact().unwrap();
    assert_eq!(keys(&keyspace), [[9], [5], [4], [3], [1]]);
    assert_eq!(keyspace.get([4]).unwrap().unwrap(), [4]);
}

fn files_of(fs: &MemFs, extension: &str) -> usize {
    let is_one = |path: &PathBuf| path.extension().is_some_and(|found| found == extension);
    fs.files().iter().filter(|path| is_one(path)).count()
}

/// Works in another keyspace until `is_gone`: background work is what removes files.
fn work_until(db: &Db, is_gone: impl Fn() -> bool) {
    while !is_gone() {
        db.put("k", "v").unwrap();
        db.compact().unwrap();
    }
}

#[test]
fn tables_of_a_dropped_keyspace_go_with_their_last_reader_though_there_is_a_handle() {
    let _watchdog = Watchdog::new("tables_of_a_dropped_keyspace", 60);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let dropped = db.create_keyspace("dropped", Default::default()).unwrap();
    for key in 0..3u8 {
        dropped.put([key], "v").unwrap();
        dropped.flush().unwrap();
    }
    let mut iterator = dropped.iter().unwrap();
    assert!(iterator.step().unwrap());
    db.drop_keyspace("dropped").unwrap();
    db.put("k", "v").unwrap();
    db.compact().unwrap();
    assert!(files_of(&fs, "sst") > 1, "what is read stays");
    drop(iterator);
    work_until(&db, || files_of(&fs, "sst") == 1);
    drop(dropped);
}

#[test]
fn large_values_of_a_dropped_keyspace_go_from_memory_though_there_is_a_handle() {
    let _watchdog = Watchdog::new("large_values_of_a_dropped_keyspace", 60);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let dropped = db.create_keyspace("dropped", Default::default()).unwrap();
    dropped.put("large", vec![7; (1 << 20) + 1]).unwrap();
    db.drop_keyspace("dropped").unwrap();
    work_until(&db, || files_of(&fs, "ext") == 0);
    drop(dropped);
}

/// Stops the first write of the manifest, once it is armed, until the journal was closed or time is
/// up.
#[derive(Debug, Default)]
struct Slow {
    is_armed: AtomicBool,
    is_at_it: AtomicBool,
    is_closed: AtomicBool,
}

impl Interceptor for Slow {
    fn before(&self, call: &Call<'_>) -> Verdict {
        let path = call.path.to_string_lossy();
        let is_write = matches!(call.operation, Operation::Write | Operation::Append);
        if !is_write || !path.contains("MANIFEST") {
            return Verdict::Pass;
        }
        // Relaxed, all: what they tell matters by itself.
        if self.is_armed.swap(false, Ordering::Relaxed) {
            self.is_at_it.store(true, Ordering::Relaxed);
            let (started, limit) = (Instant::now(), patience(Duration::from_millis(300)));
            while !self.is_closed.load(Ordering::Relaxed) && started.elapsed() < limit {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Verdict::Pass
    }

    fn after(&self, call: &Call<'_>, _failed: bool) {
        let path = call.path.to_string_lossy();
        let is_sync = matches!(call.operation, Operation::SyncData | Operation::SyncAll);
        if is_sync && path.contains(".seal") && self.is_at_it.load(Ordering::Relaxed) {
            self.is_closed.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn what_was_written_while_a_keyspace_is_created_survives_a_close_beside_it() {
    let _watchdog = Watchdog::new("a close beside a creation", 100);
    for recovery in [
        RecoveryMode::Normal,
        RecoveryMode::AssumePowerLoss,
        RecoveryMode::AcceptLoss,
    ] {
        let fs = MemFs::new();
        let by = Arc::new(Slow::default());
        let device = Intercepted::standing(Arc::clone(&by), Arc::new(fs.clone()));
        let db = try_on(Arc::new(device), alone()).unwrap();
        by.is_armed.store(true, Ordering::Relaxed);
        let creating = std::thread::spawn({
            let db = db.clone();
            move || {
                db.create_keyspace("new", KeyspaceOptions::default())
                    .map(drop)
            }
        });
        until(|| by.is_at_it.load(Ordering::Relaxed));
        db.put("k", "v").unwrap();
        db.close().unwrap();
        creating.join().unwrap().unwrap();
        let fs = fs.image(1, CrashMode::Strict);
        let db = on(&fs, alone().recovery(recovery));
        assert!(db.contains("k").unwrap(), "{recovery:?}");
        assert_eq!(db.keyspaces(), ["default", "new"]);
    }
}
