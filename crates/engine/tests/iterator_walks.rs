//! Random walks of an iterator beside one over a map, under random settings and orders.
//!
//! Claims: `iterator.rs` I1-I3 and I6 in every direction, bound and spelling; `iterators.rs` has
//! examples.

use crate::common::{KINDS, on, tiny};
use std::collections::BTreeMap;
use std::ops::Bound;
use velella::vfs::MemFs;
use velella::{Iter, IterOptions, Keyspace, KeyspaceOptions, Order, Snapshot, WriteOptions};
use velella_testkit::{Seed, Watchdog, seeds};

/// A map of the same pairs in the keyspace's order.
type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Where a model cursor stands.
struct Walk<'a> {
    keys: Vec<&'a Vec<u8>>,
    at: Option<usize>,
    /// Standing on nothing, it ran over the last key (true) or the first (false).
    beyond: Option<bool>,
    /// Keys that differ in case only are one, which the model knows in lower case.
    folds: bool,
}

/// A key of few, in any of its spellings where `folds`.
fn spelled(seed: &mut Seed, folds: bool) -> Vec<u8> {
    let mut key = seed.key(40);
    for byte in key.iter_mut().filter(|_| folds) {
        if seed.one_in(2) {
            byte.make_ascii_uppercase();
        }
    }
    key
}

impl Walk<'_> {
    fn check(&self, iter: &mut Iter, map: &Map, what: &str) {
        let expected = self.at.map(|at| self.keys[at].as_slice());
        let spelled = |key: &[u8]| self.folds.then(|| key.to_ascii_lowercase());
        let key = iter.key().map(|key| spelled(key).unwrap_or(key.to_vec()));
        assert_eq!(key.as_deref(), expected, "{what}");
        if let Some(key) = expected {
            assert_eq!(iter.value().unwrap(), map[key], "{what}");
        }
    }

    /// First key for which `wanted`, in the keys' order.
    fn first(&mut self, wanted: impl Fn(&Vec<u8>) -> bool) {
        self.at = self.keys.iter().position(|key| wanted(key));
    }

    fn last(&mut self, wanted: impl Fn(&Vec<u8>) -> bool) {
        self.at = self.keys.iter().rposition(|key| wanted(key));
    }
}

/// Moves an iterator and a model at random and compares after each move.
fn walk(
    seed: &mut Seed,
    keyspace: &Keyspace,
    snapshot: &Snapshot,
    map: &Map,
    order: &Order,
    moves: u32,
) {
    let folds = order.name() == "folded";
    let bound = |seed: &mut Seed| match seed.below(3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(spelled(seed, folds)),
        _ => Bound::Excluded(spelled(seed, folds)),
    };
    let (lower, upper) = (bound(seed), bound(seed));
    let inside = |key: &&Vec<u8>| {
        let to = |bound: &Vec<u8>| order.compare(key, bound);
        let above = match &lower {
            Bound::Unbounded => true,
            Bound::Included(bound) => to(bound).is_ge(),
            Bound::Excluded(bound) => to(bound).is_gt(),
        };
        above
            && match &upper {
                Bound::Unbounded => true,
                Bound::Included(bound) => to(bound).is_le(),
                Bound::Excluded(bound) => to(bound).is_lt(),
            }
    };
    let mut keys: Vec<&Vec<u8>> = map.keys().filter(inside).collect();
    keys.sort_by(|a, b| order.compare(a, b));
    let mut model = Walk {
        keys,
        at: None,
        beyond: None,
        folds,
    };
    let snapshot = Some(snapshot.clone());
    let options = IterOptions {
        lower: lower.clone(),
        upper: upper.clone(),
        snapshot,
        ..Default::default()
    };
    let mut iter = keyspace.iter_with(options).unwrap();
    for _ in 0..moves {
        let target = spelled(seed, folds);
        let (what, found) = match seed.below(10) {
            0 => {
                model.first(|_| true);
                ("first", iter.seek_first().unwrap())
            }
            1 => {
                model.last(|_| true);
                ("last", iter.seek_last().unwrap())
            }
            2 => {
                model.first(|key| order.compare(key, &target).is_ge());
                ("seek", iter.seek(&target).unwrap())
            }
            3 => {
                model.last(|key| order.compare(key, &target).is_lt());
                ("seek_before", iter.seek_before(&target).unwrap())
            }
            4..7 => {
                match model.at {
                    None if model.beyond == Some(true) => {}
                    None => model.first(|_| true),
                    Some(at) => model.at = Some(at + 1).filter(|at| *at < model.keys.len()),
                }
                ("step", iter.step().unwrap())
            }
            7..9 => {
                match model.at {
                    None if model.beyond == Some(false) => {}
                    None => model.last(|_| true),
                    Some(at) => model.at = at.checked_sub(1),
                }
                ("step_back", iter.step_back().unwrap())
            }
            _ => {
                iter.refresh().unwrap();
                ("refresh", iter.key().is_some())
            }
        };
        assert_eq!(
            found,
            model.at.is_some(),
            "{what} {target:?} within {lower:?} {upper:?}"
        );
        model.check(&mut iter, map, what);
        if what != "refresh" || model.at.is_some() {
            let forward = matches!(what, "first" | "seek" | "step");
            model.beyond = model.at.is_none().then_some(forward);
        }
    }
}

#[test]
fn random_walks_agree_with_a_map_under_random_settings() {
    let _watchdog = Watchdog::new("random_walks", 400);
    for number in seeds(12) {
        let mut seed = Seed::new("random_walks", number);
        let folded = |key: &[u8]| key.to_ascii_lowercase();
        let order = match seed.below(4) {
            0 => Order::custom("reversed", |a, b| b.cmp(a)),
            1 => Order::custom("folded", move |a, b| folded(a).cmp(&folded(b))),
            _ => Order::Bytewise,
        };
        let folds = order.name() == "folded";
        let builder = tiny()
            .memtable(*seed.pick(&KINDS))
            .block_bytes(*seed.pick(&[256, 512, 4096]))
            .write_buffer(*seed.pick(&[80 << 10, 192 << 10, 512 << 10]));
        let db = on(&MemFs::new(), builder);
        let own = KeyspaceOptions {
            order: Some(order.clone()),
            ..Default::default()
        };
        let keyspace = db.create_keyspace("walks", own).unwrap();
        let mut map = Map::new();
        let mut old = Vec::new();
        for _ in 0..400 {
            for _ in 0..seed.below(12) {
                let key = spelled(&mut seed, folds);
                let known = if folds { folded(&key) } else { key.clone() };
                if seed.one_in(4) {
                    keyspace.delete(&key).unwrap();
                    map.remove(&known);
                } else {
                    let value = seed.value(400);
                    keyspace.put(&key, &value).unwrap();
                    map.insert(known, value);
                }
            }
            match seed.below(20) {
                0 => keyspace.flush().unwrap(),
                1 => keyspace.compact().unwrap(),
                2 => old.push((db.snapshot(), map.clone())),
                3 if !old.is_empty() => drop(old.remove(seed.index(old.len()))),
                _ => {}
            }
            let now = (db.snapshot(), map.clone());
            let (snapshot, map) = if old.is_empty() || seed.one_in(2) {
                &now
            } else {
                seed.pick(&old)
            };
            walk(&mut seed, &keyspace, snapshot, map, &order, 12);
        }
    }
}

/// Pairs of one level, above which a few keys have something newer, in a table or in memory.
fn layered(seed: &mut Seed, keyspace: &Keyspace) -> Map {
    // Keys whose first words differ, and keys that share theirs.
    let prefix = *seed.pick(&["", "key", "a-long-prefix-"]);
    let key = |n: usize| format!("{prefix}{n:04}").into_bytes();
    let mut map = Map::new();
    let put = |seed: &mut Seed, map: &mut Map, n| {
        let value = match seed.below(60) {
            // Of a file of its own.
            0 => vec![7; velella_base::limits::INLINE_VALUE_BYTES_MAX + 1],
            _ => seed.value(60),
        };
        let never = u64::MAX / 2;
        match seed.one_in(20) {
            true => keyspace.put_expiring(key(n), &value, never, WriteOptions::default()),
            false => keyspace.put(key(n), &value),
        }
        .unwrap();
        map.insert(key(n), value);
    };
    (0..500).for_each(|n| put(seed, &mut map, n));
    keyspace.compact().unwrap();
    for flushes in [true, false] {
        let every = 1 + seed.below(30);
        for n in 0..500 {
            match seed.below(3 * every) {
                0 | 1 => put(seed, &mut map, n),
                2 => {
                    keyspace.delete(key(n)).unwrap();
                    map.remove(&key(n));
                }
                _ => {}
            }
        }
        if flushes {
            keyspace.flush().unwrap();
        }
    }
    map
}

#[test]
fn a_long_scan_of_many_places_shows_every_pair_once() {
    let _watchdog = Watchdog::new("long_scans", 400);
    for number in seeds(60) {
        let mut seed = Seed::new("long_scans", number);
        let builder = tiny()
            .memtable(*seed.pick(&KINDS))
            .block_bytes(*seed.pick(&[256, 1024, 4096]));
        let db = on(&MemFs::new(), builder);
        let keyspace = db.default_keyspace();
        let map = layered(&mut seed, &keyspace);
        let snapshot = Some(db.snapshot());
        let options = IterOptions {
            snapshot,
            ..Default::default()
        };
        let pairs: Vec<_> = map.iter().collect();
        let mut iter = keyspace.iter_with(options).unwrap();
        let mut at = 0;
        assert!(iter.seek_first().unwrap());
        loop {
            // By either way, or both, or not looked at at all.
            let (key, value) = pairs[at];
            if seed.one_in(2) {
                assert_eq!(iter.key(), Some(&key[..]), "{seed:?}");
            }
            if !seed.one_in(4) {
                assert_eq!(
                    iter.pair().unwrap(),
                    Some((&key[..], &value[..])),
                    "{seed:?}"
                );
            }
            assert!(iter.expires_at_ms().is_none_or(|at| at == u64::MAX / 2));
            match seed.below(60) {
                0 => iter.refresh().unwrap(),
                1 => drop(keyspace.put(key, "not seen").unwrap()),
                2 => keyspace.flush().unwrap(),
                3 => assert!(iter.seek(key).unwrap(), "{seed:?}"),
                4..8 => {
                    assert_eq!(iter.step_back().unwrap(), at > 0, "{seed:?}");
                    if at > 0 {
                        assert_eq!(iter.key(), Some(&pairs[at - 1].0[..]), "{seed:?}");
                    }
                    assert!(iter.step().unwrap(), "{seed:?}");
                    assert_eq!(iter.key(), Some(&key[..]), "{seed:?}");
                }
                _ => {}
            }
            at += 1;
            assert_eq!(iter.step().unwrap(), at < pairs.len(), "{seed:?}: {at}");
            if at == pairs.len() {
                break;
            }
        }
        assert!(iter.key().is_none() && iter.pair().unwrap().is_none());
    }
}
