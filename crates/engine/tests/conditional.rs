//! Conditional writes: compare-and-swap, updates and conditional batches against a map, under
//! orders in which a key has several spellings, wherever the base lies.
//!
//! Claims: `rmw.rs` R1, R4; `batch.rs` B4; docs/consistency.md, "Reads and writes".

use crate::common::{KINDS, counter, fresh, on, tiny, until, wall_ms};
use std::collections::BTreeMap;
use velella::vfs::MemFs;
use velella::{Db, Decision, ErrorKind, Keyspace, KeyspaceOptions, Order, WriteBatch};
use velella::{Error, Result, WriteOptions};
use velella_testkit::{Seed, Watchdog, seeds};

/// `a` and `A` are one key.
fn caseless() -> Order {
    Order::custom("test.caseless", |a, b| {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    })
}

/// The one spelling of a key that a map knows it by.
type Folded = fn(&[u8]) -> Vec<u8>;

/// What a key holds: its value and when it expires.
type Map = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

fn check(keyspace: &Keyspace, map: &Map, folded: Folded) {
    let pairs = keyspace.iter().unwrap().map(|pair| pair.unwrap());
    let found: BTreeMap<_, _> = pairs
        .map(|(key, value)| (folded(&key), value.to_vec()))
        .collect();
    let expected: BTreeMap<_, _> = map
        .iter()
        .map(|(key, (value, _))| (key.clone(), value.clone()))
        .collect();
    assert_eq!(found, expected);
}

/// One conditional write and what a map says of it.
fn step(seed: &mut Seed, keyspace: &Keyspace, map: &mut Map, folded: Folded) {
    let mut key = seed.key(12);
    if seed.one_in(2) {
        key.make_ascii_uppercase();
    }
    let place = folded(&key);
    let old = map.get(&place).cloned();
    let later = wall_ms() + 3_600_000;
    match seed.below(6) {
        0 => {
            let value = seed.value(50);
            let done = keyspace.put_if_absent(&key, &value).unwrap();
            assert_eq!(done, old.is_none(), "{key:?}");
            map.entry(place).or_insert((value, None));
        }
        1 | 2 => {
            let value = seed.value(50);
            let expected = match seed.below(3) {
                0 => None,
                1 => Some(value.clone()),
                _ => old.as_ref().map(|(value, _)| value.clone()),
            };
            let new = (!seed.one_in(3)).then_some(value);
            let done = keyspace
                .compare_and_swap(&key, expected.as_deref(), new.as_deref())
                .unwrap();
            assert_eq!(done, expected == old.map(|(value, _)| value), "{key:?}");
            match new {
                _ if !done => {}
                Some(new) => drop(map.insert(place, (new, None))),
                None => drop(map.remove(&place)),
            }
        }
        3 => {
            let is_number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
            let before = old.as_ref().map_or(Some(0), |(value, _)| is_number(value));
            match (keyspace.increment(&key, 7), before) {
                (Ok(sum), Some(before)) => {
                    assert_eq!(sum, before + 7);
                    let expiry = old.and_then(|(_, expiry)| expiry);
                    map.insert(place, (sum.to_string().into_bytes(), expiry));
                }
                (Err(error), None) => assert_eq!(error.kind(), ErrorKind::InvalidInput),
                (got, before) => panic!("{got:?} of {before:?}"),
            }
        }
        4 => {
            let decision = match seed.below(4) {
                0 => Decision::Keep,
                1 => Decision::Delete,
                2 => Decision::put(b"41"),
                _ => Decision::put_expiring(b"42", later),
            };
            let outcome = keyspace.rmw_entry(&key, WriteOptions::default(), |seen| {
                let seen = seen.map(|entry| (entry.value.to_vec(), entry.expires_at_ms));
                assert_eq!(seen, old);
                Ok::<_, Error>(decision.clone())
            });
            let stamp = outcome.unwrap().stamp;
            assert_eq!(stamp.is_some(), decision != Decision::Keep);
            match decision {
                Decision::Keep => {}
                Decision::Delete => drop(map.remove(&place)),
                Decision::Put(value) => drop(map.insert(place, (value.into_owned(), None))),
                Decision::PutExpiring(value, at) => {
                    drop(map.insert(place, (value.into_owned(), Some(at))))
                }
            }
        }
        _ => {
            let options = WriteOptions::default();
            keyspace.put_expiring(&key, "43", later, options).unwrap();
            map.insert(place, (b"43".to_vec(), Some(later)));
        }
    }
}

#[test]
fn conditional_writes_equal_those_of_a_map_under_every_order_and_memtable() {
    let _watchdog = Watchdog::new("conditional_writes_equal_a_map", 240);
    let orders: [(Order, Folded); 2] = [
        (Order::Bytewise, <[u8]>::to_vec),
        (caseless(), <[u8]>::to_ascii_lowercase),
    ];
    for number in seeds(3) {
        for (order, folded) in &orders {
            for kind in KINDS {
                let mut seed = Seed::new("conditional_writes", number);
                let fs = MemFs::new();
                let builder = || tiny().memtable(kind).order(order.clone());
                let mut db = on(&fs, builder());
                let own = KeyspaceOptions {
                    order: Some(order.clone()),
                    ..Default::default()
                };
                let mut keyspace = db.create_keyspace("own", own).unwrap();
                let mut map = Map::new();
                for _ in 0..600 {
                    step(&mut seed, &keyspace, &mut map, *folded);
                    match seed.below(60) {
                        0 => keyspace.flush().unwrap(),
                        1 => keyspace.compact().unwrap(),
                        2 => {
                            db.close().unwrap();
                            db = on(&fs, builder());
                            keyspace = db.keyspace("own").unwrap();
                        }
                        _ => {}
                    }
                }
                check(&keyspace, &map, *folded);
            }
        }
    }
}

/// What may happen between a snapshot and the batch that relies on it.
struct Between {
    what: &'static str,
    act: fn(&Db, &Keyspace) -> Result<()>,
    /// Whether key `k` of the keyspace was written by it.
    is_write: bool,
}

const BETWEEN: [Between; 15] = [
    Between {
        what: "nothing",
        act: |_, _| Ok(()),
        is_write: false,
    },
    Between {
        what: "a put",
        act: |_, own| own.put("k", "2").map(drop),
        is_write: true,
    },
    Between {
        what: "the same value again",
        act: |_, own| own.put("k", "1").map(drop),
        is_write: true,
    },
    Between {
        what: "a deletion",
        act: |_, own| own.delete("k").map(drop),
        is_write: true,
    },
    Between {
        what: "a put and a deletion of it",
        act: |_, own| own.put("k", "2").and_then(|_| own.delete("k")).map(drop),
        is_write: true,
    },
    Between {
        what: "a value that has expired already",
        act: |_, own| {
            own.put_expiring("k", "2", 1, WriteOptions::default())
                .map(drop)
        },
        is_write: true,
    },
    Between {
        what: "a large value",
        act: |_, own| own.put("k", vec![7; (1 << 20) + 1]).map(drop),
        is_write: true,
    },
    Between {
        what: "an addition",
        act: |_, own| own.increment("k", 0).map(drop),
        is_write: true,
    },
    Between {
        what: "a batch",
        act: |db, own| {
            db.write(WriteBatch::new().put(own, "x", "1").put(own, "k", "2"))
                .map(drop)
        },
        is_write: true,
    },
    Between {
        what: "an update that keeps",
        act: |_, own| own.rmw("k", |_| Decision::Keep).map(drop),
        is_write: false,
    },
    Between {
        what: "a swap that is refused",
        act: |_, own| own.compare_and_swap("k", Some(b"?"), None).map(drop),
        is_write: false,
    },
    Between {
        what: "a refused batch",
        act: |db, own| {
            let old = db.snapshot();
            own.put("j", "9")?;
            let mut batch = WriteBatch::new();
            batch.put(own, "k", "3").put(own, "j", "3");
            let refused = db.write_if_unchanged(&batch, &old, WriteOptions::default())?;
            assert_eq!(refused, None);
            Ok(())
        },
        is_write: false,
    },
    Between {
        what: "a write to its neighbours",
        act: |_, own| {
            own.put("j", "2")?;
            own.put("k\0", "2").map(drop)
        },
        is_write: false,
    },
    Between {
        what: "a write of that key elsewhere",
        act: |db, _| db.put("k", "2").map(drop),
        is_write: false,
    },
    Between {
        what: "a flush and a compaction",
        act: |db, own| own.flush().and_then(|()| db.compact()),
        is_write: false,
    },
];

#[test]
fn a_conditional_batch_is_refused_for_a_write_of_its_keys_and_for_nothing_else() {
    for kind in KINDS {
        for Between {
            what,
            act,
            is_write,
        } in BETWEEN
        {
            for settle in [
                |_: &Db| {},
                |db: &Db| db.flush().unwrap(),
                |db: &Db| db.compact().unwrap(),
            ] {
                let db = on(&MemFs::new(), tiny().memtable(kind));
                let own = db.create_keyspace("own", Default::default()).unwrap();
                own.put("k", "1").unwrap();
                settle(&db);
                let snapshot = db.snapshot();
                act(&db, &own).unwrap();
                settle(&db);
                let before = own.get_entry("k").unwrap();
                let mut batch = WriteBatch::new();
                batch
                    .put(&db, "other", "new")
                    .put(&own, "k", "new")
                    .delete(&own, "absent");
                let stamp = db
                    .write_if_unchanged(&batch, &snapshot, WriteOptions::default())
                    .unwrap();
                assert_eq!(stamp.is_none(), is_write, "{kind:?} {what}");
                match stamp {
                    Some(stamp) => {
                        assert_eq!(own.get_entry("k").unwrap().unwrap().stamp, stamp, "{what}");
                        assert_eq!(db.get("other").unwrap().unwrap(), "new", "{what}");
                        // It counts as a write of its keys itself.
                        let again =
                            db.write_if_unchanged(&batch, &snapshot, WriteOptions::default());
                        assert_eq!(again.unwrap(), None, "{what}");
                    }
                    None => {
                        assert_eq!(own.get_entry("k").unwrap(), before, "{what}");
                        assert_eq!(db.get("other").unwrap(), None, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_refused_batch_leaves_no_file_and_no_record() {
    let _watchdog = Watchdog::new("a_refused_batch_leaves_no_file", 60);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    let large = vec![5; (1 << 20) + 1];
    let snapshot = db.snapshot();
    db.put("k", "1").unwrap();
    let records = db.stats().journal.records;
    let mut batch = WriteBatch::new();
    batch.put(&db, "large", &large).put(&db, "k", "2");
    for _ in 0..3 {
        let written = db.write_if_unchanged(&batch, &snapshot, WriteOptions::default());
        assert_eq!(written.unwrap(), None);
    }
    assert_eq!(db.stats().journal.records, records);
    db.flush().unwrap();
    let externals = || {
        let files = fs.files().into_iter();
        files
            .filter(|path| path.extension().is_some_and(|ext| ext == "ext"))
            .count()
    };
    until(|| {
        db.put("step", "").unwrap();
        db.flush().unwrap();
        externals() == 0
    });
    assert_eq!(db.stats().external_bytes, 0);
    let written = db.write_if_unchanged(&batch, &db.snapshot(), WriteOptions::default());
    assert!(written.unwrap().is_some());
    assert_eq!(db.get("large").unwrap().unwrap(), large);
    assert_eq!(
        (externals(), db.stats().external_bytes),
        (1, large.len() as u64)
    );
}

#[test]
fn a_transaction_of_snapshot_reads_and_a_conditional_batch_moves_money_without_loss() {
    let _watchdog = Watchdog::new("a_transaction_moves_money", 120);
    let db = fresh();
    let accounts: Vec<Keyspace> = (0..3)
        .map(|name| {
            db.create_keyspace(&format!("bank{name}"), Default::default())
                .unwrap()
        })
        .collect();
    for account in &accounts {
        account.put("balance", "1000").unwrap();
    }
    let read = |snapshot: &velella::Snapshot, account: &Keyspace| -> i64 {
        let value = snapshot.get(account, "balance").unwrap().unwrap();
        std::str::from_utf8(&value).unwrap().parse().unwrap()
    };
    let refused = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (db, accounts, refused, read) = (&db, &accounts, &refused, &read);
            scope.spawn(move || {
                let mut seed = Seed::silent(thread);
                for round in 0..150 {
                    let from = seed.index(3);
                    let to = (from + 1 + seed.index(2)) % 3;
                    let amount = i64::try_from(seed.below(50)).unwrap();
                    loop {
                        let snapshot = db.snapshot();
                        let sum: i64 = accounts
                            .iter()
                            .map(|account| read(&snapshot, account))
                            .sum();
                        assert_eq!(sum, 3_000, "a view with half a transfer");
                        let less = read(&snapshot, &accounts[from]) - amount;
                        let more = read(&snapshot, &accounts[to]) + amount;
                        let mut batch = WriteBatch::new();
                        batch.put(&accounts[from], "balance", less.to_string()).put(
                            &accounts[to],
                            "balance",
                            more.to_string(),
                        );
                        let options = WriteOptions::default();
                        if db
                            .write_if_unchanged(&batch, &snapshot, options)
                            .unwrap()
                            .is_some()
                        {
                            break;
                        }
                        refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                    if round % 50 == 0 {
                        db.flush().unwrap();
                    }
                }
            });
        }
    });
    let snapshot = db.snapshot();
    let sum: i64 = accounts
        .iter()
        .map(|account| read(&snapshot, account))
        .sum();
    assert_eq!(sum, 3_000);
    let batches = counter(&db, "batches");
    assert_eq!(batches, 600 + refused.into_inner(), "every try is counted");
}
