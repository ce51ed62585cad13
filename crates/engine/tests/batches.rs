//! Batches: whole or not at all, over any keyspaces; and their conditional form.
//!
//! Claims: `batch.rs` B1-B4, B6.

use crate::common::{contents, counter, fresh, on, tiny};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{ErrorKind, WriteBatch, WriteOptions};
use velella_testkit::Watchdog;

#[test]
fn of_several_writes_to_a_key_the_last_counts_and_one_stamp_covers_all() {
    let db = fresh();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    db.put("gone", "1").unwrap();
    let mut batch = WriteBatch::new();
    batch
        .put(&db, "a", "1")
        .delete(&db, "a")
        .put(&db, "a", "2")
        .put(&db, "gone", "2");
    batch.delete(&db, "gone").put(&other, "a", "3");
    assert_eq!((batch.len(), batch.is_empty()), (6, false));
    let stamp = db.write(&batch).unwrap();
    assert_eq!(db.get_entry("a").unwrap().unwrap().stamp, stamp);
    assert_eq!(other.get_entry("a").unwrap().unwrap().stamp, stamp);
    assert_eq!(db.get("a").unwrap().unwrap(), "2");
    assert_eq!(db.get("gone").unwrap(), None);
    batch.clear();
    assert!(batch.is_empty());
    db.write(&batch).unwrap();
    assert_eq!(contents(&db).len(), 1);
}

#[test]
fn a_batch_over_its_limits_is_refused_whole() {
    let db = fresh();
    let mut many = WriteBatch::new();
    for number in 0..=velella::limits::BATCH_OPERATIONS_MAX {
        many.put(&db, number.to_le_bytes(), "");
    }
    assert_eq!(db.write(&many).unwrap_err().kind(), ErrorKind::InvalidInput);
    let mut large = WriteBatch::new();
    for number in 0..18u8 {
        large.put(&db, [number], vec![0; 1 << 20]);
    }
    assert_eq!(
        db.write(&large).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let mut key = WriteBatch::new();
    key.put(&db, "fine", "")
        .put(&db, vec![0; velella::limits::KEY_BYTES_MAX + 1], "");
    assert_eq!(db.write(&key).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(contents(&db).is_empty());
    db.put("fine", "").unwrap();
}

/// What a batch says of itself is what the border is drawn by, to the byte.
#[test]
fn a_batch_tells_what_counts_against_its_limit() {
    use velella::limits::{BATCH_BYTES_MAX, INLINE_VALUE_BYTES_MAX};
    let db = fresh();
    let mut batch = WriteBatch::new();
    let soon = db.now_ms() + 3_600_000;
    let large = vec![7; INLINE_VALUE_BYTES_MAX];
    batch.delete(&db, "gone").put(&db, "plain", "value");
    assert_eq!(batch.bytes(), 4 + 10);
    batch.put_expiring(&db, "until", "value", soon);
    assert_eq!(batch.bytes(), 14 + 18);
    batch.put(&db, "file", [&large[..], b"+"].concat());
    let reference = batch.bytes() - 32 - 4;
    assert!((16..64).contains(&reference), "{reference}");
    batch.put_expiring(&db, "file until", [&large[..], b"+"].concat(), soon);
    assert_eq!(batch.bytes(), 36 + 2 * reference + 10);
    for key in 0u8.. {
        let left = BATCH_BYTES_MAX - batch.bytes();
        let len = large.len().min(left - 1);
        batch.put(&db, [key], &large[..len]);
        if len < large.len() {
            break;
        }
    }
    assert_eq!(batch.bytes(), BATCH_BYTES_MAX);
    let mut over = batch.clone();
    over.delete(&db, "x");
    assert_eq!(over.bytes(), BATCH_BYTES_MAX + 1);
    assert_eq!(db.write(&over).unwrap_err().kind(), ErrorKind::InvalidInput);
    // Of two writes to a key one counts there, both here.
    batch.put(&db, "plain", "VALUE");
    assert_eq!(batch.bytes(), BATCH_BYTES_MAX + 10);
    db.write(&batch).unwrap();
    batch.clear();
    assert_eq!(batch.bytes(), 0);
}

#[test]
fn a_batch_over_keyspaces_of_another_opening_is_refused_and_writes_nothing() {
    let fs = MemFs::new();
    let (earlier, stranger) = (on(&fs, tiny()), fresh());
    let mine = |db: &velella::Db| db.keyspace_or_create("own").unwrap();
    let old = mine(&earlier);
    earlier.close().unwrap();
    let db = on(&fs, tiny());
    let own = mine(&db);
    for foreign in [mine(&stranger), old, stranger.default_keyspace()] {
        let mut batch = WriteBatch::new();
        batch.put(&own, "a", "1").put(&foreign, "b", "2");
        let stamp = db.snapshot().stamp();
        let options = WriteOptions::default();
        let snapshot = db.snapshot();
        for refused in [
            db.write(&batch).map(Some),
            db.write_with(&batch, WriteOptions::sync()).map(Some),
            db.write_if_unchanged(&batch, &snapshot, options),
        ] {
            let error = refused.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains(foreign.name()), "{error}");
        }
        assert!(contents(&own).is_empty() && contents(&stranger).is_empty());
        assert_eq!(db.snapshot().stamp(), stamp, "no stamp was drawn");
    }
    let db = on(&fs.image(1, CrashMode::KeepAll), tiny());
    assert!(contents(&mine(&db)).is_empty());
}

#[test]
fn a_batch_of_the_largest_size_is_written_whole() {
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let mut batch = WriteBatch::new();
    for number in 0..20_000u32 {
        batch.put(&db, number.to_be_bytes(), vec![1; 700]);
    }
    db.write_with(&batch, WriteOptions::sync()).unwrap();
    let db = on(&fs.crash(1, CrashMode::Strict), tiny());
    assert_eq!(contents(&db).len(), 20_000);
}

/// It fills the memtable by itself, so the next write of anybody switches it, and takes from the
/// batch what it has installed.
#[test]
fn a_batch_larger_than_the_write_buffer_ends_beside_other_writers() {
    let db = on(&MemFs::new(), tiny().memory(64 << 20));
    let mut batch = WriteBatch::new();
    for number in 0..15_000u32 {
        batch.put(&db, number.to_be_bytes(), [1; 200]);
    }
    let others_write = AtomicBool::new(true);
    let writer = |name: &str| {
        for number in 0u64.. {
            if !others_write.load(Ordering::Relaxed) {
                break;
            }
            db.put(format!("{name}{}", number % 1000), [7; 20]).unwrap();
            // Fast enough to switch whatever is full, too slow to be held back for memory.
            if number % 64 == 0 {
                std::thread::sleep(Duration::from_micros(500));
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| writer("a"));
        scope.spawn(|| writer("b"));
        let batches = scope.spawn(|| {
            for _ in 0..20 {
                db.write(&batch).unwrap();
            }
        });
        // Without an end of its own it has one with the other writers'.
        for _ in 0..3_000 {
            if batches.is_finished() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        others_write.store(false, Ordering::Relaxed);
    });
    let aborts = counter(&db, "switch_aborts");
    assert!(aborts <= 2 * 20, "{aborts} times 20 batches began anew");
    assert_eq!(contents(&db).range(vec![0]..vec![1]).count(), 15_000);
}

#[test]
fn batches_in_opposite_order_do_not_wait_for_each_other_for_ever() {
    let _watchdog = Watchdog::new("batches_in_opposite_order", 120);
    let db = fresh();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (db, other) = (&db, &other);
            scope.spawn(move || {
                for round in 0..1_500u32 {
                    let value = [&[thread][..], &round.to_le_bytes()].concat();
                    let mut keys = vec![
                        (db.default_keyspace(), "a"),
                        (other.clone(), "b"),
                        (db.default_keyspace(), "c"),
                    ];
                    if thread % 2 == 0 {
                        keys.reverse();
                    }
                    let mut batch = WriteBatch::new();
                    for (keyspace, key) in &keys {
                        batch.put(keyspace, key, &value);
                    }
                    db.write(&batch).unwrap();
                }
            });
        }
    });
    let value = db.get("a").unwrap().unwrap();
    assert_eq!(other.get("b").unwrap().unwrap(), value);
    assert_eq!(db.get("c").unwrap().unwrap(), value);
}

#[test]
fn readers_see_all_of_a_batch_or_nothing_across_switches() {
    let _watchdog = Watchdog::new("readers_see_all_of_a_batch", 300);
    let db = fresh();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    let write = |round: u32| {
        let mut batch = WriteBatch::new();
        let value = [round.to_le_bytes().as_slice(), &[0; 300]].concat();
        batch
            .put(&db, "a", &value)
            .put(&other, "b", &value)
            .put(&db, "z", &value);
        db.write(&batch).unwrap();
    };
    write(0);
    let round = |value: &[u8]| u32::from_le_bytes(value[..4].try_into().unwrap());
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..8_000).for_each(write));
        let db = &db;
        let flusher = scope.spawn(move || {
            while !writer.is_finished() {
                db.flush().unwrap();
            }
        });
        while !flusher.is_finished() {
            // Gets one after the other: a later one is never older.
            let a = db.get_with("a", round).unwrap().unwrap();
            let b = other.get_with("b", round).unwrap().unwrap();
            let z = db.get_with("z", round).unwrap().unwrap();
            assert!(a <= b && b <= z, "{a} {b} {z}");
            let snapshot = db.snapshot();
            let both = [
                snapshot.get(db, "z").unwrap().unwrap(),
                snapshot.get(&other, "b").unwrap().unwrap(),
            ];
            assert_eq!(round(&both[0]), round(&both[1]));
        }
    });
}

#[test]
fn a_conditional_batch_is_refused_if_one_of_its_keys_was_written_since() {
    let db = fresh();
    db.put("a", "1").unwrap();
    db.put("b", "1").unwrap();
    for place in 0..3 {
        let snapshot = db.snapshot();
        let mut batch = WriteBatch::new();
        batch.put(&db, "a", "2").delete(&db, "b");
        db.put("c", "unrelated").unwrap();
        let write = || {
            db.write_if_unchanged(&batch, &snapshot, WriteOptions::default())
                .unwrap()
        };
        assert!(write().is_some(), "nothing of it was written since");
        assert!(write().is_none(), "it wrote itself since");
        db.put("a", "1").unwrap();
        db.put("b", "1").unwrap();
        if place == 1 {
            db.flush().unwrap();
        } else if place == 2 {
            db.compact().unwrap();
        }
        assert!(write().is_none());
        let newer = db.snapshot();
        db.delete("b").unwrap();
        db.compact().unwrap();
        let refused = db
            .write_if_unchanged(&batch, &newer, WriteOptions::default())
            .unwrap();
        assert!(refused.is_none(), "a deletion is a write too");
        db.put("b", "1").unwrap();
        assert_eq!(db.get("a").unwrap().unwrap(), "1");
    }
}

#[test]
fn conditional_batches_lose_no_update() {
    let _watchdog = Watchdog::new("conditional_batches", 300);
    let db = fresh();
    db.put("a", 0u32.to_le_bytes()).unwrap();
    db.put("b", 0u32.to_le_bytes()).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..700 {
                    loop {
                        let snapshot = db.snapshot();
                        let read = |key: &str| {
                            let value = snapshot.get(&db, key).unwrap().unwrap();
                            u32::from_le_bytes(value[..4].try_into().unwrap())
                        };
                        let (a, b) = (read("a"), read("b"));
                        assert_eq!(a, b);
                        let mut batch = WriteBatch::new();
                        batch.put(&db, "a", (a + 1).to_le_bytes()).put(
                            &db,
                            "b",
                            (b + 1).to_le_bytes(),
                        );
                        batch.put(&db, "pad", vec![0; 300]);
                        if db
                            .write_if_unchanged(&batch, &snapshot, WriteOptions::default())
                            .unwrap()
                            .is_some()
                        {
                            break;
                        }
                    }
                }
            });
        }
    });
    assert_eq!(db.get("a").unwrap().unwrap(), 2_100u32.to_le_bytes());
}

#[test]
fn a_key_that_only_batches_write_is_pruned() {
    let db = on(&MemFs::new(), tiny().memory(1 << 30).write_buffer(64 << 20));
    let write = |turn: u32| {
        let mut batch = WriteBatch::new();
        batch
            .put(&db, "hot", turn.to_le_bytes())
            .put(&db, "hotter", turn.to_le_bytes());
        db.write(&batch).unwrap();
    };
    (0..100).for_each(write);
    let snapshot = db.snapshot();
    (100..10_000).for_each(write);
    let dropped = counter(&db, "memtable_versions_pruned");
    assert!(
        dropped > 19_000,
        "{dropped} of 20,000 versions were dropped"
    );
    let old = snapshot.get(&db, "hot").unwrap().unwrap();
    assert_eq!(old, 99u32.to_le_bytes(), "what is still read stays");
    assert_eq!(db.get("hotter").unwrap().unwrap(), 9_999u32.to_le_bytes());
}
