//! Views of what goes away under them: snapshots and iterators over flushes, compactions,
//! switches, drops of keyspaces and the closing of the database.
//!
//! Claims: `snapshot.rs` N1, `iterator.rs` I1 and I2, `catalogue.rs` C6, `db.rs` H1.

use crate::common::{KINDS, contents, counter, fresh, on, tiny, try_on, until};
use std::collections::BTreeMap;
use velella::vfs::MemFs;
use velella::{Db, ErrorKind, Iter, IterOptions, JournalMode, Keyspace, Result, Snapshot};
use velella::{WriteBatch, WriteOptions};
use velella_testkit::{Model, Seed, Watchdog, seeds};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn collected(iter: Iter) -> Result<Pairs> {
    iter.map(|pair| pair.map(|(key, value)| (key, value.to_vec())))
        .collect()
}

fn seen(snapshot: &Snapshot, keyspace: &Keyspace) -> Pairs {
    collected(snapshot.iter(keyspace).unwrap()).unwrap()
}

type Upheaval = fn(&Db, &Keyspace);

/// What may happen to the memtables and tables below a view.
const UPHEAVALS: [(&str, Upheaval); 6] = [
    ("nothing", |_, _| {}),
    ("a flush of its keyspace", |_, keyspace| {
        keyspace.flush().unwrap();
    }),
    ("a flush of everything", |db, _| db.flush().unwrap()),
    ("a full compaction", |db, _| db.compact().unwrap()),
    ("two compactions with writes between", |db, keyspace| {
        keyspace.compact().unwrap();
        keyspace.put("k03", "later still").unwrap();
        db.compact().unwrap();
    }),
    ("switches by full memtables", |db, keyspace| {
        let before = counter(db, "flushes");
        let mut number = 0u32;
        until(|| {
            number += 1;
            let key = format!("k{:02}", number % 40);
            keyspace.put(key, vec![7; 4_000]).unwrap();
            counter(db, "flushes") > before + 2
        });
    }),
];

/// Forty keys in all sorts of places, some of them deleted.
fn scatter(keyspace: &Keyspace) {
    for round in 0..3u32 {
        for key in (round..40).step_by(usize::try_from(round).unwrap() + 1) {
            keyspace
                .put(format!("k{key:02}"), format!("{round}"))
                .unwrap();
        }
        keyspace.delete(format!("k{:02}", 5 * round)).unwrap();
        match round {
            0 => keyspace.compact().unwrap(),
            1 => keyspace.flush().unwrap(),
            _ => {}
        }
    }
}

#[test]
fn a_view_stays_whatever_happens_below_it() {
    let _watchdog = Watchdog::new("a_view_stays", 120);
    for kind in KINDS {
        for journal in [JournalMode::Auto, JournalMode::Off] {
            for (what, upheaval) in UPHEAVALS {
                let db = on(&MemFs::new(), tiny().memtable(kind).journal(journal));
                let keyspace = db.create_keyspace("own", Default::default()).unwrap();
                scatter(&keyspace);
                let expected = contents(&keyspace);
                let (snapshot, mut iter) = (db.snapshot(), keyspace.iter().unwrap());
                let mut back = keyspace.iter().unwrap();
                assert!(iter.seek("k20").unwrap() && back.seek_last().unwrap());
                let mut batch = WriteBatch::new();
                for key in expected.keys() {
                    batch.put(&keyspace, key, "later");
                }
                batch.delete(&keyspace, "k20");
                db.write(&batch).unwrap();
                upheaval(&db, &keyspace);
                let context = format!("{kind:?} {journal:?} {what}");
                assert_eq!(seen(&snapshot, &keyspace), expected, "{context}");
                let upper = expected.clone().split_off(&b"k20"[..]);
                assert_eq!(walked(&mut iter, Iter::step), upper, "forward: {context}");
                assert_eq!(walked(&mut back, Iter::step_back), expected, "{context}");
            }
        }
    }
}

/// The pairs from where `iter` stands to where `step` ends.
fn walked(iter: &mut Iter, step: fn(&mut Iter) -> Result<bool>) -> Pairs {
    let mut met = Pairs::new();
    while let Some(key) = iter.key().map(<[u8]>::to_vec) {
        met.insert(key, iter.value().unwrap().to_vec());
        step(iter).unwrap();
    }
    met
}

/// Every way to read a keyspace through what was opened before.
fn readings(
    keyspace: &Keyspace,
    snapshot: &Snapshot,
    iter: &mut Iter,
) -> Vec<(&'static str, Result<Pairs>)> {
    let key = b"k03".to_vec();
    let pair = |value: Option<velella::Value>| -> Pairs {
        value
            .map(|value| (key.clone(), value.to_vec()))
            .into_iter()
            .collect()
    };
    let values = |values: Vec<Option<velella::Value>>| pair(values.into_iter().flatten().next());
    let kept = |outcome: velella::RmwOutcome| pair(outcome.old.map(|old| old.value));
    let at = |iter: &Iter| {
        iter.key()
            .map(|key| (key.to_vec(), Vec::new()))
            .into_iter()
            .collect()
    };
    vec![
        ("get", keyspace.get(&key).map(pair)),
        ("get_strict", keyspace.get_strict(&key).map(pair)),
        (
            "get_entry",
            keyspace
                .get_entry(&key)
                .map(|entry| pair(entry.map(|e| e.value))),
        ),
        ("multi_get", keyspace.multi_get(&[&key]).map(values)),
        ("contains", keyspace.contains(&key).map(|_| Pairs::new())),
        ("absent key", keyspace.get("nowhere").map(pair)),
        (
            "rmw",
            keyspace.rmw(&key, |_| velella::Decision::Keep).map(kept),
        ),
        (
            "compare_and_swap",
            keyspace
                .compare_and_swap(&key, Some(b"?"), None)
                .map(|_| Pairs::new()),
        ),
        ("snapshot get", snapshot.get(keyspace, &key).map(pair)),
        (
            "snapshot entry",
            snapshot
                .get_entry(keyspace, &key)
                .map(|entry| pair(entry.map(|e| e.value))),
        ),
        ("snapshot iter", snapshot.iter(keyspace).and_then(collected)),
        (
            "snapshot range",
            snapshot.range(keyspace, "k0".."k9").and_then(collected),
        ),
        ("iter", keyspace.iter().and_then(collected)),
        (
            "reverse iter",
            keyspace.iter().and_then(|iter| {
                iter.rev()
                    .map(|pair| pair.map(|(key, value)| (key, value.to_vec())))
                    .collect()
            }),
        ),
        ("prefix", keyspace.prefix("k").and_then(collected)),
        ("step", iter.step().map(|_| at(iter))),
        ("step back", iter.step_back().map(|_| at(iter))),
        ("seek", iter.seek("k20").map(|_| at(iter))),
        ("seek before", iter.seek_before("k20").map(|_| at(iter))),
        ("seek first", iter.seek_first().map(|_| at(iter))),
        ("seek last", iter.seek_last().map(|_| at(iter))),
        ("refresh", iter.refresh().map(|()| at(iter))),
        ("refresh to now", iter.refresh_to_now().map(|()| at(iter))),
    ]
}

#[test]
fn a_dropped_keyspace_tells_its_readers_and_shows_no_part_of_what_was_there() {
    for kind in KINDS {
        for journal in [JournalMode::Auto, JournalMode::Off] {
            let db = on(&MemFs::new(), tiny().memtable(kind).journal(journal));
            let keyspace = db.create_keyspace("own", Default::default()).unwrap();
            scatter(&keyspace);
            let (snapshot, mut iter) = (db.snapshot(), keyspace.iter().unwrap());
            assert!(iter.seek("k10").unwrap());
            for (way, outcome) in readings(&keyspace, &snapshot, &mut iter) {
                outcome.unwrap_or_else(|error| panic!("{way} before the drop: {error}"));
            }
            assert!(iter.seek("k10").unwrap());
            db.drop_keyspace("own").unwrap();
            for (way, outcome) in readings(&keyspace, &snapshot, &mut iter) {
                match outcome {
                    Ok(found) => panic!("{kind:?} {journal:?} {way} found {found:?}"),
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::NotFound, "{way}: {error}");
                        assert!(error.to_string().contains("`own`"), "{way}: {error}");
                    }
                }
            }
            assert_eq!(iter.key(), None);
            assert_eq!(iter.value().unwrap(), b"");
            // The snapshot is as good as ever for the others, and for a new one of that name it is
            // a time before its first write.
            assert_eq!(seen(&snapshot, &db), Pairs::new());
            let renewed = db.create_keyspace("own", Default::default()).unwrap();
            renewed.put("k03", "new").unwrap();
            assert_eq!(seen(&snapshot, &renewed), Pairs::new());
            keyspace.get("k03").unwrap_err();
            assert_eq!(renewed.get("k03").unwrap().unwrap(), "new");
        }
    }
}

#[test]
fn readers_of_a_keyspace_under_its_drop_see_all_of_it_or_are_told() {
    let _watchdog = Watchdog::new("readers_under_a_drop", 120);
    for round in 0..20u32 {
        let db = fresh();
        let keyspace = db.create_keyspace("own", Default::default()).unwrap();
        scatter(&keyspace);
        let snapshot = db.snapshot();
        let expected = seen(&snapshot, &keyspace);
        let told = |outcome: Result<bool>| match outcome {
            Ok(whole) => assert!(whole, "round {round}: a part of it"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::NotFound, "{error}"),
        };
        std::thread::scope(|scope| {
            let dropper = scope.spawn(|| db.drop_keyspace("own").unwrap());
            scope.spawn(|| {
                while keyspace.contains("k03").is_ok() {
                    let all = snapshot.iter(&keyspace).and_then(collected);
                    told(all.map(|all| all == expected));
                }
            });
            for (key, value) in expected.iter().cycle() {
                let found = keyspace.get(key);
                let over = found.is_err() && dropper.is_finished();
                told(found.map(|found| found.is_some_and(|found| found == value)));
                if over {
                    break;
                }
            }
        });
    }
}

#[test]
fn a_failed_drop_leaves_the_keyspace_readable() {
    use velella::vfs::fault::{Fault, Rule};
    use velella::vfs::{FaultFs, Operation};
    let faulty = FaultFs::over_mem(&MemFs::new());
    let db = try_on(std::sync::Arc::new(faulty.clone()), tiny()).unwrap();
    let keyspace = db.create_keyspace("own", Default::default()).unwrap();
    scatter(&keyspace);
    let expected = contents(&keyspace);
    let (snapshot, mut iter) = (db.snapshot(), keyspace.iter().unwrap());
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncData));
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncMap));
    let error = db.drop_keyspace("own").unwrap_err();
    assert_ne!(error.kind(), ErrorKind::NotFound, "{error}");
    faulty.heal();
    for (way, outcome) in readings(&keyspace, &snapshot, &mut iter) {
        // Those that might write are refused as writes are.
        if !["rmw", "compare_and_swap"].contains(&way) {
            outcome.unwrap_or_else(|error| panic!("{way}: {error}"));
        }
    }
    assert_eq!(seen(&snapshot, &keyspace), expected);
    assert_eq!(db.keyspaces(), ["default", "own"]);
}

#[test]
fn after_the_close_every_reading_says_so_and_a_value_in_hand_stays() {
    for journal in [JournalMode::Auto, JournalMode::Off] {
        let db = on(&MemFs::new(), tiny().journal(journal));
        let keyspace = db.create_keyspace("own", Default::default()).unwrap();
        scatter(&keyspace);
        let (snapshot, mut iter) = (db.snapshot(), keyspace.iter().unwrap());
        let values: Vec<_> = contents(&keyspace).into_keys().collect();
        let held: Vec<_> = values
            .iter()
            .map(|key| keyspace.get(key).unwrap())
            .collect();
        let copies: Vec<_> = held.iter().flatten().map(|value| value.to_vec()).collect();
        let mut resting = keyspace.iter().unwrap();
        assert!(resting.seek_first().unwrap());
        db.close().unwrap();
        for (way, outcome) in readings(&keyspace, &snapshot, &mut iter) {
            let error = outcome.expect_err(way);
            assert_eq!(error.kind(), ErrorKind::Closed, "{way}: {error}");
            assert!(
                error.to_string().contains("open it again"),
                "{way}: {error}"
            );
        }
        assert!(resting.refresh().is_err());
        assert_eq!(resting.key(), None, "it stands on nothing then");
        let still: Vec<_> = held.iter().flatten().map(|value| value.to_vec()).collect();
        assert_eq!((still, held.len()), (copies, values.len()));
    }
}

/// Keyspaces that come and go, batches over them, and snapshots of every age.
#[test]
fn snapshots_over_keyspaces_equal_the_replay_of_their_prefix() {
    for number in seeds(6) {
        let mut seed = Seed::new("snapshots_over_keyspaces", number);
        let journal = *seed.pick(&[JournalMode::Auto, JournalMode::Write, JournalMode::Off]);
        let db = on(&MemFs::new(), tiny().journal(journal));
        let open = |id: u32| {
            db.create_keyspace(&format!("k{id}"), Default::default())
                .unwrap()
        };
        let mut keyspaces: Vec<(u32, Keyspace)> = (0..3).map(|id| (id, open(id))).collect();
        let mut model: Model<(u32, Vec<u8>)> = Model::new();
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for step in 0..400u32 {
            let mut batch = WriteBatch::new();
            let mut written = Vec::new();
            for _ in 0..=seed.below(4) {
                let (id, keyspace) = seed.pick(&keyspaces).clone();
                let (key, value) = (seed.key(9), seed.value(300));
                let value = (!seed.one_in(4)).then_some(value);
                match &value {
                    None => batch.delete(&keyspace, &key),
                    Some(value) => batch.put(&keyspace, &key, value),
                };
                written.push(((id, key), value));
            }
            let stamp = db.write_with(&batch, WriteOptions::default()).unwrap();
            for (key, value) in written {
                model.write(key, stamp.0, value);
            }
            match seed.below(40) {
                0..4 => snapshots.push(db.snapshot()),
                4 if !snapshots.is_empty() => drop(snapshots.swap_remove(0)),
                5 => seed.pick(&keyspaces).1.flush().unwrap(),
                6 => db.compact().unwrap(),
                7 => {
                    let at = seed.index(keyspaces.len());
                    db.drop_keyspace(keyspaces[at].1.name()).unwrap();
                    keyspaces[at] = (100 + step, open(100 + step));
                }
                _ => {}
            }
        }
        for snapshot in &snapshots {
            let state = model.at(snapshot.stamp().0);
            for (id, keyspace) in &keyspaces {
                let own = state.iter().filter(|((of, _), _)| of == id);
                let expected: Pairs = own
                    .map(|((_, key), value)| (key.clone(), value.clone()))
                    .collect();
                assert_eq!(seen(snapshot, keyspace), expected, "{snapshot:?} of {id}");
                let options = IterOptions {
                    snapshot: Some(snapshot.clone()),
                    keys_only: true,
                    ..IterOptions::default()
                };
                let back = keyspace.iter_with(options).unwrap().rev();
                let keys: Vec<_> = back.map(|pair| pair.unwrap().0).collect();
                assert!(
                    keys.iter().rev().eq(expected.keys()),
                    "{snapshot:?} of {id}"
                );
            }
        }
    }
}
