//! A user's order that panics, at any of its calls: the panic reaches its caller, and nothing
//! hangs, neither for the panicking thread nor for anybody else.
//!
//! Claims: `commit.rs` C3; `catalogue.rs` C4; `flush.rs` F4; `jobs.rs` J1; S3 of the leveled tree;
//! docs/concurrency.md, "A write, step by step".

use crate::common::{DIR, alone, contents, tiny, until};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use velella::simulation::{self, Step};
use velella::vfs::MemFs;
use velella::{
    Builder, Db, ErrorKind, JournalMode, Keyspace, KeyspaceOptions, Order, WriteBatch, WriteOptions,
};
use velella_sync::epoch;
use velella_testkit::Watchdog;

thread_local! {
    /// Comparisons until one panics; 0: none does. Of this thread's alone: a background thread
    /// compares whenever it looks for work, and its panic would be another's.
    static FUSE: Cell<u64> = const { Cell::new(0) };
}

/// An order that panics where this thread's fuse has burned down.
fn fused() -> Order {
    Order::custom("fused", |a, b| {
        let left = FUSE.get();
        FUSE.set(left.saturating_sub(1));
        if left == 1 {
            resume_unwind(Box::new("a user's mistake"));
        }
        a.cmp(b)
    })
}

/// The database on `fs`, which knows `order`.
fn open(builder: Builder, fs: &Arc<MemFs>, order: &Order) -> Db {
    let builder = builder.vfs(Arc::clone(fs) as _).order(order.clone());
    builder.open(DIR).unwrap()
}

fn keyspace(db: &Db, order: Order) -> Keyspace {
    let options = KeyspaceOptions {
        order: Some(order),
        ..KeyspaceOptions::default()
    };
    db.create_keyspace("fused", options).unwrap()
}

#[test]
fn a_panicking_order_blocks_no_key_and_nobody_else() {
    let order = fused();
    let db = open(tiny(), &Arc::new(MemFs::new()), &order);
    let keyspace = keyspace(&db, order);
    for number in 0..40u64 {
        keyspace
            .put([&[9][..], &number.to_be_bytes()].concat(), "2")
            .unwrap();
    }
    type Write = fn(&Db, &Keyspace, &[u8]);
    let writes: [Write; 3] = [
        |_, keyspace, key| drop(keyspace.put(key, "1")),
        |_, keyspace, key| drop(keyspace.increment(key, 1)),
        |db, keyspace, key| {
            let mut batch = WriteBatch::new();
            batch.put(keyspace, [key, b"-a"].concat(), "1");
            batch.put(db, "other", "1").put(keyspace, key, "1");
            drop(db.write(&batch));
        },
    ];
    for (number, write) in (0u8..).zip(writes) {
        let mut panics = 0u32;
        for nth in 1u64.. {
            let key = [&[number][..], &(nth * 37 % 101).to_be_bytes()].concat();
            FUSE.set(nth);
            let outcome = catch_unwind(AssertUnwindSafe(|| write(&db, &keyspace, &key)));
            if FUSE.replace(0) > 0 {
                break;
            }
            assert!(outcome.is_err());
            panics += 1;
            // Reads of every kind, writes, and what waits for all windows: none of them waits.
            drop(keyspace.get_strict(&key).unwrap());
            drop(db.snapshot().get(&keyspace, &key).unwrap());
            keyspace.put(&key, "2").unwrap();
            keyspace.put([&key[..], b"-a"].concat(), "2").unwrap();
            db.put_with("other", "2", WriteOptions::sync()).unwrap();
            assert_eq!(keyspace.get_strict(&key).unwrap().unwrap(), "2");
        }
        assert!(panics > 1, "{panics} panics in write {number}");
        db.flush().unwrap();
    }
    assert!(
        contents(&keyspace)
            .values()
            .all(|value| value == b"2" || value == b"1")
    );
    db.verify().unwrap();
    db.close().unwrap();
}

#[test]
fn a_panicking_background_thread_ends_writing_and_says_so() {
    let _watchdog = Watchdog::new("a panicking background thread", 100);
    let mine = std::thread::current().id();
    let is_lit = Arc::new(AtomicBool::new(false));
    let burns = Arc::clone(&is_lit);
    let order = Order::custom("elsewhere", move |a, b| {
        // Relaxed: sooner or later a background thread sees it.
        if burns.load(Ordering::Relaxed) && std::thread::current().id() != mine {
            resume_unwind(Box::new("a user's mistake"));
        }
        a.cmp(b)
    });
    let fs = Arc::new(MemFs::new());
    let db = open(tiny(), &fs, &order);
    let fused = keyspace(&db, order.clone());
    is_lit.store(true, Ordering::Relaxed);
    // Whoever looks for tables to merge compares their keys.
    let mut written = 0u32;
    let mut refused = None;
    until(|| {
        match fused.put(written.to_be_bytes(), vec![7; 4_000]) {
            Ok(_) => written += 1,
            Err(error) => refused = Some(error),
        }
        refused.is_some()
    });
    let refused = refused.unwrap();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
    assert!(refused.to_string().contains("it panicked"), "{refused}");
    assert_eq!(contents(&fused).len(), written as usize);
    is_lit.store(false, Ordering::Relaxed);
    // Whether there was something left to write is not its concern.
    drop(db.close());
    let again = open(tiny(), &fs, &order);
    assert_eq!(
        contents(&again.keyspace("fused").unwrap()).len(),
        written as usize
    );
    again.close().unwrap();
}

/// Something that changes the tables of a keyspace.
type Change = fn(&Db, &Keyspace);

/// Flushes, and compacts what was flushed last.
fn settle(db: &Db, keyspace: &Keyspace) {
    db.flush().unwrap();
    keyspace.compact().unwrap();
}

/// Three disjoint tables in level 1, and one in a memtable that meets the second.
fn three_tables(db: &Db, keyspace: &Keyspace) {
    for from in [b'a', b'h', b'x'] {
        for key in from..from + 3 {
            keyspace.put([key], "old").unwrap();
        }
        db.flush().unwrap();
        // It meets nothing, and moves down.
        simulation::step(db, Step::Compact).unwrap();
    }
    let levels = &db.stats().keyspaces[1].levels;
    assert_eq!(
        levels.iter().map(|level| level.tables).collect::<Vec<_>>(),
        [0, 3]
    );
    keyspace.put("i", "new").unwrap();
    keyspace.put("m", "new").unwrap();
    // A keyspace whose tables are finished when the other's order panics.
    db.put("default", "new").unwrap();
}

/// Files of tables.
fn on_disk(fs: &MemFs) -> u64 {
    let is_table = |path: &&PathBuf| path.extension().is_some_and(|end| end == "sst");
    fs.files().iter().filter(is_table).map(|_| 1).sum()
}

/// Tables that reads look into.
fn in_force(db: &Db) -> u64 {
    let keyspaces = db.stats().keyspaces;
    let levels = keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
    levels.map(|level| level.tables).sum()
}

#[test]
fn a_panicking_order_leaves_the_tables_in_memory_those_that_the_manifest_names() {
    let changes: [Change; 2] = [
        |db, _| drop(db.flush()),
        |db, keyspace| {
            db.flush().unwrap();
            // Its cursors rest in the tables that change next, and must not keep their files.
            contents(keyspace);
            drop(keyspace.compact());
        },
    ];
    for change in changes {
        let _watchdog = Watchdog::new("a panicking order leaves files", 100);
        let mut panics = 0u32;
        for nth in 1u64.. {
            let order = fused();
            let fs = Arc::new(MemFs::new());
            let db = open(alone(), &fs, &order);
            let fused = keyspace(&db, order.clone());
            three_tables(&db, &fused);
            FUSE.set(nth);
            // As another test of this process does that reads, of whatever database.
            let reads = nth.is_multiple_of(2).then(epoch::pin);
            let outcome = catch_unwind(AssertUnwindSafe(|| change(&db, &fused)));
            drop(reads);
            let is_over = FUSE.replace(0) > 0;
            assert_eq!(outcome.is_ok(), is_over);
            panics += u32::from(!is_over);
            until(|| {
                simulation::step(&db, Step::Reclaim).unwrap();
                if on_disk(&fs) == in_force(&db) {
                    return true;
                }
                // What went late, since somebody was reading, is removed by who looks for work.
                simulation::step(&db, Step::Compact).unwrap();
                false
            });
            // What the manifest has and memory has not, no later compaction would meet.
            fused.delete("m").unwrap();
            fused.delete("b").unwrap();
            settle(&db, &fused);
            settle(&db, &fused);
            let expected = contents(&fused);
            assert!(!expected.contains_key(&b"m"[..]), "comparison {nth}");
            drop(fused);
            db.close().unwrap();
            let db = open(alone(), &fs, &order);
            let fused = db.keyspace("fused").unwrap();
            assert_eq!(contents(&fused), expected, "comparison {nth}");
            db.verify().unwrap();
            db.close().unwrap();
            if is_over {
                break;
            }
        }
        assert!(panics > 1, "{panics} panics");
    }
}

#[test]
fn a_drop_that_panics_has_not_happened() {
    let order = fused();
    let builder = alone().vfs(Arc::new(MemFs::new())).order(order.clone());
    // It flushes everything first, in the keyspace's order.
    let db = builder.journal(JournalMode::Off).open(DIR).unwrap();
    let keyspace = keyspace(&db, order);
    keyspace.put("a", "1").unwrap();
    keyspace.put("b", "1").unwrap();
    FUSE.set(1);
    let outcome = catch_unwind(AssertUnwindSafe(|| db.drop_keyspace("fused")));
    assert!(outcome.is_err());
    keyspace.put("b", "2").unwrap();
    assert_eq!(keyspace.get("b").unwrap().unwrap(), "2");
    db.drop_keyspace("fused").unwrap();
    assert!(db.keyspace("fused").is_err());
    db.close().unwrap();
}

#[test]
fn a_close_that_panics_gives_up_the_lock() {
    let order = fused();
    let fs = Arc::new(MemFs::new());
    let builder = || alone().journal(JournalMode::Off);
    let db = open(builder(), &fs, &order);
    let fused = keyspace(&db, order.clone());
    fused.put("a", "1").unwrap();
    fused.put("b", "1").unwrap();
    FUSE.set(1);
    let outcome = catch_unwind(AssertUnwindSafe(|| db.close()));
    assert!(outcome.is_err());
    assert_eq!(fused.put("c", "1").unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Closed);
    let again = open(builder(), &fs, &order);
    // What was only in memory is gone, as after any end of a database without a journal.
    assert_eq!(contents(&again.keyspace("fused").unwrap()).len(), 0);
    again.close().unwrap();
}
