//! Snapshots: exactly the writes with stamps at or below theirs, for as long as one likes.
//!
//! Claims: `snapshot.rs` N1, N2.

use crate::common::{KINDS, contents, fresh, on, tiny, until};
use std::collections::BTreeMap;
use velella::vfs::MemFs;
use velella::{ErrorKind, IterOptions, Keyspace, Snapshot, WriteBatch};
use velella_testkit::{Model, Seed, Watchdog, seeds};

fn view(snapshot: &Snapshot, keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pairs = snapshot.iter(keyspace).unwrap().map(|pair| pair.unwrap());
    pairs.map(|(key, value)| (key, value.to_vec())).collect()
}

#[test]
fn snapshots_of_every_age_equal_the_replay_of_their_prefix() {
    for kind in KINDS {
        for number in seeds(3) {
            let mut seed = Seed::new("snapshots_of_every_age", number);
            let db = on(&MemFs::new(), tiny().memtable(kind));
            let mut model = Model::new();
            let mut snapshots = Vec::new();
            for _ in 0..1_500 {
                let key = seed.key(12);
                let value = (!seed.one_in(5)).then(|| seed.value(200));
                let stamp = match &value {
                    Some(value) => db.put(&key, value),
                    None => db.delete(&key),
                };
                model.write(key, stamp.unwrap().0, value);
                match seed.below(200) {
                    0..4 => snapshots.push(db.snapshot()),
                    4 if !snapshots.is_empty() => {
                        drop(snapshots.remove(seed.index(snapshots.len())))
                    }
                    5 => db.flush().unwrap(),
                    6 => db.compact().unwrap(),
                    _ => {}
                }
            }
            for _ in 0..2 {
                for snapshot in &snapshots {
                    let expected = model.at(snapshot.stamp().0);
                    assert_eq!(view(snapshot, &db), expected, "{snapshot:?}");
                    let keys: Vec<_> = model.keys().collect();
                    let values = snapshot.multi_get(&db, &keys).unwrap();
                    let values = values.into_iter().map(|value| value.map(|v| v.to_vec()));
                    let wanted = keys.iter().map(|key| expected.get(*key).cloned());
                    assert_eq!(values.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
                    for key in model.keys() {
                        let first = &key[..key.len().min(1)];
                        let with = |(found, _): &(Vec<u8>, Vec<u8>)| found.starts_with(first);
                        let pairs = snapshot.prefix(&db, first).unwrap();
                        let pairs = pairs.map(|pair| pair.unwrap());
                        let found = pairs.map(|(key, value)| (key, value.to_vec()));
                        let all = expected.clone().into_iter().filter(with);
                        assert_eq!(found.collect::<Vec<_>>(), all.collect::<Vec<_>>());
                        let value = snapshot.get(&db, key).unwrap().map(|value| value.to_vec());
                        assert_eq!(value.as_ref(), expected.get(key), "{snapshot:?} {key:?}");
                        assert_eq!(snapshot.contains(&db, key).unwrap(), value.is_some());
                    }
                }
                db.compact().unwrap();
            }
        }
    }
}

#[test]
fn versions_go_when_the_last_snapshot_that_sees_them_does() {
    let db = fresh();
    db.put("k", "old").unwrap();
    let first = db.snapshot();
    let second = first.clone();
    db.put("k", "new").unwrap();
    db.compact().unwrap();
    assert_eq!(db.verify().unwrap().entries, 2);
    drop(first);
    db.compact().unwrap();
    assert_eq!(second.get(&db, "k").unwrap().unwrap(), "old");
    drop(second);
    // A sync round under way reads too; while one is, more may stay.
    until(|| {
        db.compact().unwrap();
        db.verify().unwrap().entries == 1
    });
    assert_eq!(contents(&db).len(), 1);
}

#[test]
fn a_snapshot_spans_keyspaces() {
    let db = fresh();
    let other = db.create_keyspace("other", Default::default()).unwrap();
    let write = |value: &str| {
        let mut batch = WriteBatch::new();
        batch.put(&db, "a", value).put(&other, "a", value);
        db.write(&batch).unwrap();
    };
    write("1");
    let snapshot = db.snapshot();
    write("2");
    db.compact().unwrap();
    for keyspace in [&db.default_keyspace(), &other] {
        assert_eq!(snapshot.get(keyspace, "a").unwrap().unwrap(), "1");
        assert_eq!(keyspace.get("a").unwrap().unwrap(), "2");
    }
}

#[test]
fn a_snapshot_of_another_database_is_refused() {
    let (one, two) = (fresh(), fresh());
    let snapshot = one.snapshot();
    assert_eq!(
        snapshot.get(&two, "a").unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    assert_eq!(
        snapshot.iter(&two).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
    let batch = WriteBatch::new();
    let error = two
        .write_if_unchanged(&batch, &snapshot, Default::default())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn a_snapshot_never_changes_while_threads_write() {
    let _watchdog = Watchdog::new("a_snapshot_never_changes", 300);
    let db = fresh();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u8)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    for round in 0..4_000u32 {
                        let key = [u8::try_from(round % 7).unwrap()];
                        db.put(
                            key,
                            [&[thread][..], &round.to_le_bytes(), &[0; 100]].concat(),
                        )
                        .unwrap();
                    }
                })
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            let snapshot = db.snapshot();
            let first = view(&snapshot, &db);
            for (key, value) in &first {
                assert_eq!(snapshot.get(&db, key).unwrap().unwrap(), value);
            }
            assert_eq!(view(&snapshot, &db), first);
        }
    });
}

#[test]
fn what_was_acknowledged_before_is_in_the_snapshot() {
    let _watchdog = Watchdog::new("what_was_acknowledged_before", 120);
    let db = fresh();
    std::thread::scope(|scope| {
        for thread in 0..3u8 {
            let db = &db;
            scope.spawn(move || {
                for round in 0..3_000u32 {
                    let stamp = db.put([thread], round.to_le_bytes()).unwrap();
                    let snapshot = db.snapshot();
                    assert!(snapshot.stamp() >= stamp);
                    assert_eq!(
                        snapshot.get(db, [thread]).unwrap().unwrap(),
                        round.to_le_bytes()
                    );
                }
            });
        }
    });
}

#[test]
fn every_way_to_read_at_a_snapshot_says_what_was_there_then() {
    let (db, other) = (fresh(), fresh());
    let then = db.now_ms();
    let long = vec![7; 500];
    db.put("a", &long).unwrap();
    let expiry = then + 3_600_000;
    let stamp = db
        .put_expiring("b", "old", expiry, Default::default())
        .unwrap();
    let snapshot = db.snapshot();
    assert!((then..=db.now_ms()).contains(&snapshot.now_ms()));
    db.put("b", "new").unwrap();
    db.delete("a").unwrap();
    db.put("c", "later").unwrap();
    for _ in 0..2 {
        let length = snapshot.get_with(&db, "a", <[u8]>::len).unwrap();
        assert_eq!(length, Some(500));
        let mut buffer = b"before".to_vec();
        assert!(snapshot.get_into(&db, "b", &mut buffer).unwrap());
        assert_eq!(buffer, b"old");
        assert!(!snapshot.get_into(&db, "c", &mut buffer).unwrap());
        assert!(buffer.is_empty());
        let info = snapshot.entry_info(&db, "b").unwrap().unwrap();
        assert_eq!((info.value_bytes, info.stamp), (3, stamp));
        assert_eq!(info.expires_at_ms, Some(expiry));
        assert_eq!(snapshot.entry_info(&db, "c").unwrap(), None);
        // Its own view, whatever the options bring.
        let options = IterOptions {
            keys_only: true,
            snapshot: Some(db.snapshot()),
            ..IterOptions::default()
        };
        let pairs = snapshot.iter_with(&db, options).unwrap();
        let pairs: Vec<_> = pairs.map(|pair| pair.unwrap()).collect();
        let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| &key[..]).collect();
        assert_eq!(keys, [b"a", b"b"]);
        assert!(pairs.iter().all(|(_, value)| value.is_empty()));
        db.compact().unwrap();
    }
    let mut buffer = Vec::new();
    for refused in [
        snapshot.get_with(&other, "a", <[u8]>::len).unwrap_err(),
        snapshot.get_into(&other, "a", &mut buffer).unwrap_err(),
        snapshot.entry_info(&other, "a").unwrap_err(),
        snapshot
            .iter_with(&other, IterOptions::default())
            .unwrap_err(),
        snapshot.first(&other).unwrap_err(),
    ] {
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    }
}
