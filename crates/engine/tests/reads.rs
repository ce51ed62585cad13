//! Point reads: every way to read a key, wherever its newest version is.
//!
//! Claims: `Keyspace`'s reads; `read.rs` G1-G3. Both memtables, tiny buffers.

use crate::common::{KINDS, contents, fresh, on, tiny};
use velella::vfs::MemFs;
use velella::{Keyspace, Value};
use velella_testkit::{Model, Seed, Watchdog, seeds};

/// Every way to read says the same.
fn assert_reads(keyspace: &Keyspace, key: &[u8], expected: Option<&[u8]>) {
    let owned = |value: Option<Value>| value.map(|value| value.to_vec());
    let expected = expected.map(<[u8]>::to_vec);
    assert_eq!(
        owned(keyspace.get(key).unwrap()),
        expected,
        "get of {key:?}"
    );
    assert_eq!(
        owned(keyspace.get_strict(key).unwrap()),
        expected,
        "get_strict of {key:?}"
    );
    let entry = keyspace.get_entry(key).unwrap();
    assert_eq!(
        entry.map(|entry| entry.value.to_vec()),
        expected,
        "get_entry of {key:?}"
    );
    assert_eq!(
        keyspace.get_with(key, <[u8]>::to_vec).unwrap(),
        expected,
        "get_with of {key:?}"
    );
    assert_eq!(
        keyspace.contains(key).unwrap(),
        expected.is_some(),
        "contains {key:?}"
    );
    let mut buffer = b"old".to_vec();
    let there = keyspace.get_into(key, &mut buffer).unwrap();
    assert_eq!(there.then_some(buffer), expected, "get_into of {key:?}");
    let many = keyspace.multi_get(&[key, b"nobody", key]).unwrap();
    assert_eq!(owned(many[0].clone()), expected, "multi_get of {key:?}");
    assert_eq!((many[1].clone(), many.len()), (None, 3));
}

#[test]
fn every_way_to_read_finds_the_newest_version_in_memory_and_in_tables() {
    let db = fresh();
    for (round, value) in ["one", "two", "three", ""].into_iter().enumerate() {
        db.put("key", value).unwrap();
        assert_reads(&db, b"key", Some(value.as_bytes()));
        if round > 0 {
            db.flush().unwrap();
            assert_reads(&db, b"key", Some(value.as_bytes()));
        }
    }
    db.compact().unwrap();
    assert_reads(&db, b"key", Some(b""));
    db.delete("key").unwrap();
    assert_reads(&db, b"key", None);
    db.flush().unwrap();
    assert_reads(&db, b"key", None);
    db.compact().unwrap();
    assert_reads(&db, b"key", None);
    assert_reads(&db, b"kex", None);
    assert_reads(&db, b"", None);
}

#[test]
fn a_newer_version_in_memory_hides_one_in_tables_and_an_entry_says_when() {
    let db = fresh();
    let first = db.put("k", "old").unwrap();
    assert_eq!(db.get_entry("k").unwrap().unwrap().stamp, first);
    db.compact().unwrap();
    assert_eq!(db.get_entry("k").unwrap().unwrap().stamp, first);
    let second = db.put("k", "new").unwrap();
    let entry = db.get_entry("k").unwrap().unwrap();
    assert_eq!((entry.stamp, entry.expires_at_ms), (second, None));
    assert!(second > first);
}

#[test]
fn random_reads_agree_with_a_map_under_both_memtables() {
    for kind in KINDS {
        for number in seeds(3) {
            let mut seed = Seed::new("random_reads", number);
            let db = on(&MemFs::new(), tiny().memtable(kind));
            let mut model = Model::new();
            for _ in 0..2_000 {
                let key = seed.key(40);
                match seed.below(10) {
                    0 => {
                        let stamp = db.delete(&key).unwrap();
                        model.write(key, stamp.0, None);
                    }
                    1..5 => {
                        let value = seed.value(300);
                        let stamp = db.put(&key, &value).unwrap();
                        model.write(key, stamp.0, Some(value));
                    }
                    _ => assert_reads(&db, &key, model.get(&key, u64::MAX).map(Vec::as_slice)),
                }
                if seed.one_in(300) {
                    if seed.one_in(2) {
                        db.flush().unwrap()
                    } else {
                        db.compact().unwrap()
                    }
                }
            }
            assert_eq!(contents(&db), model.at(u64::MAX), "{kind:?}");
        }
    }
}

#[test]
fn a_value_outlives_the_memtable_and_the_table_it_came_from() {
    let db = fresh();
    let long = vec![7u8; 3_000];
    db.put("short", "inline").unwrap();
    db.put("long", &long).unwrap();
    let from_memory = (
        db.get("short").unwrap().unwrap(),
        db.get("long").unwrap().unwrap(),
    );
    db.flush().unwrap();
    let from_table = (
        db.get("short").unwrap().unwrap(),
        db.get("long").unwrap().unwrap(),
    );
    for round in 0..3_000u32 {
        db.put("short", round.to_le_bytes()).unwrap();
        db.put("long", vec![8u8; 500]).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    drop(db);
    for (short, long_value) in [from_memory, from_table] {
        assert_eq!(
            (short, long_value),
            (b"inline".to_vec().into(), long.clone().into())
        );
    }
}

#[test]
fn multi_get_sees_one_moment_while_a_batch_moves_both_keys() {
    let _watchdog = Watchdog::new("multi_get_sees_one_moment", 120);
    let db = fresh();
    let write = |number: u32| {
        let mut batch = velella::WriteBatch::new();
        batch
            .put(&db, "a", number.to_le_bytes())
            .put(&db, "b", number.to_le_bytes());
        db.write(&batch).unwrap();
    };
    write(0);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..20_000).for_each(write));
        while !writer.is_finished() {
            let both = db.multi_get(&["a", "b"]).unwrap();
            assert!(both[0] == both[1] && both[0].is_some());
        }
    });
}
