//! What every store that was built in must do, or no figure of it means anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::channel;
use std::time::Duration;
use velella_bench::failure::Failure;
use velella_bench::store::{Change, Durability, Peer, Settings, Store};
use velella_bench::stores;

fn settings(durability: Durability) -> Settings {
    Settings {
        durability,
        memory: 64 << 20,
        write_buffer: 1 << 20,
        bloom_bits: 10,
        data_bytes_max: 16 << 20,
        counters: true,
    }
}

fn get(store: &dyn Store, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = None;
    let found = store
        .get(key, &mut |bytes| value = Some(bytes.to_vec()))
        .unwrap();
    assert_eq!(found, value.is_some());
    value
}

fn scan(store: &dyn Store, from: &[u8], count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut pairs = Vec::new();
    let seen = store
        .scan(from, count, &mut |key, value| {
            pairs.push((key.to_vec(), value.to_vec()))
        })
        .unwrap();
    assert_eq!(seen, pairs.len());
    pairs
}

/// The contract of `Store`, with one thread.
fn contract(store: &dyn Store, name: &str) {
    let key = |n: u32| format!("key{:05}", n * 7919 % 5000).into_bytes();
    let mut model = BTreeMap::new();
    for n in 0..5000_u32 {
        store.put(&key(n), &n.to_le_bytes()).unwrap();
        model.insert(key(n), n.to_le_bytes().to_vec());
    }
    for n in (0..5000).step_by(3) {
        store.delete(&key(n)).unwrap();
        model.remove(&key(n));
    }
    let (new, gone) = (key(0), key(1));
    let batch = [
        Change {
            key: &new,
            value: Some(b"again"),
        },
        Change {
            key: &gone,
            value: None,
        },
    ];
    store.write(&batch).unwrap();
    model.insert(new.clone(), b"again".to_vec());
    model.remove(&gone);
    assert!(!store.put_if_absent(&new, b"never").unwrap(), "{name}");
    assert!(store.put_if_absent(&gone, b"back").unwrap(), "{name}");
    model.insert(gone, b"back".to_vec());
    let mut old = Vec::new();
    let replaced = store.replace(&new, b"newer", &mut |value| old = value.to_vec());
    if let Some(was_there) = replaced.unwrap() {
        assert!(was_there && old == b"again", "{name}: {old:?}");
        let replaced = store.replace(b"key0new", b"1", &mut |_| panic!("{name}"));
        assert_eq!(replaced.unwrap(), Some(false), "{name}");
        model.insert(new, b"newer".to_vec());
        model.insert(b"key0new".to_vec(), b"1".to_vec());
    }
    for n in 0..5000 {
        assert_eq!(
            get(store, &key(n)),
            model.get(&key(n)).cloned(),
            "{name} {n}"
        );
    }
    assert_eq!(get(store, b"absent"), None, "{name}");
    for from in [&b"key02500"[..], b"", b"key04999", b"zzz"] {
        let expected = model.range(from.to_vec()..).take(10);
        let expected: Vec<_> = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(scan(store, from, 10), expected, "{name}");
    }
}

/// Backwards there is the same as forwards.
fn backwards(store: &dyn Store, name: &str) {
    let mut expected = scan(store, b"", usize::MAX);
    expected.reverse();
    for count in [0, 1, 10, usize::MAX] {
        let mut pairs = Vec::new();
        let seen = store
            .scan_back(count, &mut |key, value| {
                pairs.push((key.to_vec(), value.to_vec()))
            })
            .unwrap();
        assert_eq!(seen, pairs.len(), "{name}");
        assert_eq!(pairs, expected[..count.min(expected.len())], "{name}");
    }
}

/// What a view shows does not change.
fn views(store: &dyn Store, name: &str) {
    let before = scan(store, b"", usize::MAX);
    let view = match store.view() {
        Ok(view) => view,
        Err(Failure::Unfit { .. }) => return,
        Err(other) => panic!("{name}: {other}"),
    };
    store.put(b"key02222", b"changed").unwrap();
    store.put(b"a new one", b"too").unwrap();
    let mut seen = Vec::new();
    view.scan(b"", usize::MAX, &mut |key, value| {
        seen.push((key.to_vec(), value.to_vec()))
    })
    .unwrap();
    assert_eq!(seen, before, "{name}");
}

fn each(mut test: impl FnMut(&dyn Peer)) {
    for peer in stores::built() {
        eprintln!("{}", peer.name());
        test(peer);
    }
}

#[test]
fn every_store_keeps_the_contract_at_every_durability_it_offers() {
    each(|peer| {
        for durability in peer.offers() {
            // Thousands of writes that each wait for the device take too long for a test.
            if *durability == Durability::Device {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let store = peer.open(dir.path(), &settings(*durability)).unwrap();
            contract(store.as_ref(), peer.name());
            backwards(store.as_ref(), peer.name());
            views(store.as_ref(), peer.name());
            store.close().unwrap();
        }
    });
}

#[test]
fn what_was_written_durably_is_there_after_opening_again() {
    each(|peer| {
        for durability in [Durability::Process, Durability::Device] {
            if peer.check(durability).is_err() {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let store = peer.open(dir.path(), &settings(durability)).unwrap();
            for n in 0..20_u32 {
                store.put(&n.to_be_bytes(), b"value").unwrap();
            }
            store.close().unwrap();
            let store = peer.open(dir.path(), &settings(durability)).unwrap();
            assert_eq!(scan(store.as_ref(), b"", 100).len(), 20, "{}", peer.name());
            store.close().unwrap();
        }
    });
}

#[test]
fn threads_that_replace_a_value_each_see_another_one() {
    let mut with_it = Vec::new();
    each(|peer| {
        let durability = peer.offers()[0];
        let dir = tempfile::tempdir().unwrap();
        let store = peer.open(dir.path(), &settings(durability)).unwrap();
        store.put(b"key", &u64::MAX.to_le_bytes()).unwrap();
        let replace = |value: u64| {
            let mut old = Vec::new();
            let mut see = |shown: &[u8]| old = shown.to_vec();
            let found = store.replace(b"key", &value.to_le_bytes(), &mut see);
            found.unwrap().map(|found| (found, old))
        };
        if replace(u64::MAX - 1).is_some() {
            with_it.push(peer.name());
            let seen: Vec<(bool, Vec<u8>)> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4_u64)
                    .map(|thread| {
                        let values = thread * 500..(thread + 1) * 500;
                        scope.spawn(|| values.filter_map(replace).collect::<Vec<_>>())
                    })
                    .collect();
                let seen = threads.into_iter().map(|thread| thread.join().unwrap());
                seen.flatten().collect()
            });
            assert!(seen.iter().all(|(found, _)| *found), "{}", peer.name());
            let others: BTreeSet<&Vec<u8>> = seen.iter().map(|(_, old)| old).collect();
            assert_eq!(
                others.len(),
                2000,
                "{}: a value was seen twice",
                peer.name()
            );
        }
        store.close().unwrap();
    });
    for name in [
        "velella",
        "lock-striped-rmw",
        "rwlock-writers",
        "journal-one-lock",
    ] {
        assert!(with_it.contains(&name), "{name} has no such step");
    }
}

#[test]
fn a_write_on_the_device_is_a_sync_that_is_counted_if_it_was_asked_for() {
    for name in ["velella", "journal-one-lock", "rocksdb"] {
        let Ok(peer) = stores::named(name) else {
            continue;
        };
        for counters in [true, false] {
            let dir = tempfile::tempdir().unwrap();
            let asked = Settings {
                counters,
                ..settings(Durability::Device)
            };
            let store = peer.open(dir.path(), &asked).unwrap();
            let syncs = || store.counters().get("journal_syncs").copied();
            let before = syncs();
            for n in 0..20_u32 {
                store.put(&n.to_be_bytes(), b"value").unwrap();
            }
            match syncs().zip(before) {
                Some((after, before)) => assert!(after - before >= 20, "{name}"),
                None => assert!(name == "rocksdb" && !counters, "{name}"),
            }
            store.close().unwrap();
        }
    }
}

/// Whether `other` ends while a read-modify-write of `a` is within its lock, if it has one.
fn ends_beside_a_step(store: &dyn Store, other: impl FnOnce(&dyn Store) + Send) -> bool {
    std::thread::scope(|scope| {
        let (ended, has_ended) = channel();
        let mut other = Some(other);
        let mut beside = true;
        let mut see = |_: &[u8]| {
            // It may be called again where `other` has written the same key.
            if let Some(other) = other.take() {
                let ended = ended.clone();
                scope.spawn(move || {
                    other(store);
                    let _ = ended.send(());
                });
                // Who is let in needs microseconds.
                beside = has_ended.recv_timeout(Duration::from_millis(300)).is_ok();
            }
        };
        store.replace(b"a", b"by the step", &mut see).unwrap();
        beside
    })
}

#[test]
fn baselines_let_in_beside_a_read_modify_write_what_their_locks_say() {
    // A put of another key, a put of the same, a batch with it, a scan, a get.
    for (name, expected) in [
        ("velella", [true, true, true, true, true]),
        ("rwlock-writers", [true, true, false, true, true]),
        ("lock-striped-rmw", [true, false, false, true, true]),
        ("journal-one-lock", [false, false, false, true, true]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let peer = stores::named(name).unwrap();
        let store = peer
            .open(dir.path(), &settings(Durability::Process))
            .unwrap();
        store.put(b"a", b"first").unwrap();
        let batch = |store: &dyn Store| {
            let value = Some(&b"of a batch"[..]);
            store.write(&[Change { key: b"a", value }]).unwrap();
        };
        let found = [
            ends_beside_a_step(store.as_ref(), |store| store.put(b"b", b"put").unwrap()),
            ends_beside_a_step(store.as_ref(), |store| store.put(b"a", b"put").unwrap()),
            ends_beside_a_step(store.as_ref(), batch),
            ends_beside_a_step(store.as_ref(), |store| {
                store.scan(b"", 10, &mut |_, _| ()).unwrap();
            }),
            ends_beside_a_step(store.as_ref(), |store| {
                store.get(b"a", &mut |_| ()).unwrap();
            }),
        ];
        assert_eq!(found, expected, "{name}");
        store.close().unwrap();
    }
}

#[test]
fn threads_that_put_if_absent_store_each_key_once() {
    each(|peer| {
        let durability = peer.offers()[0];
        let dir = tempfile::tempdir().unwrap();
        let store = peer.open(dir.path(), &settings(durability)).unwrap();
        let stored: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|_| {
                    scope.spawn(|| {
                        let put = |n: &u64| store.put_if_absent(&n.to_be_bytes(), b"x").unwrap();
                        (0..500_u64).filter(put).count() as u64
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(stored, 500, "{}", peer.name());
        store.close().unwrap();
    });
}
