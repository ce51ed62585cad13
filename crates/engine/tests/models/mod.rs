//! Small worlds of the whole engine: a database in memory without threads of its own, and two to
//! four roles, each what one thread of a user or of the background does.
//!
//! M1. Everything is the product's code, from the public interface down to the file system in
//!     memory; background work is a role's (`velella::simulation`).
//! M2. After the roles have ended, what all were told must be there, by get, by scan and after a
//!     crash of the machine, and memory must be given back.

pub(crate) mod history;
mod small;
pub(crate) mod stalled;
pub(crate) mod unjournaled;

use std::sync::{Arc, Mutex};
use velella::simulation::{self, Step};
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{Builder, Db, Decision, Error, JournalMode, WriteBatch, WriteOptions};
use velella_base::{Stamp, put_in};
use velella_sync::thread;
use velella_tree::Manifest;

/// A database and what its roles were told.
pub(crate) struct Scene {
    fs: MemFs,
    db: Db,
    /// What a memtable takes that nothing was written to.
    empty_bytes: u64,
    /// Keys that were put, and what; told in any order. The standard library's mutex: no step.
    told: Mutex<Vec<(&'static str, u64)>>,
    /// When a put was written that a reader saw without the batch beside it.
    alone: Mutex<Option<Stamp>>,
}

pub(crate) type Role = fn(&Scene);

/// What was before, the roles, and what must hold afterwards.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    journal: JournalMode,
    before: Role,
    roles: &'static [Role],
    after: Role,
}

fn builder(journal: JournalMode) -> Builder {
    small::builder(3).journal(journal)
}

fn open(fs: &MemFs, journal: JournalMode) -> Db {
    builder(journal)
        .vfs(Arc::new(fs.clone()))
        .open("/db")
        .unwrap()
}

impl Model {
    /// Runs it once, with `fault` put in.
    pub(crate) fn run(self, fault: Option<&'static str>) {
        put_in(None);
        let fs = MemFs::new();
        let db = open(&fs, self.journal);
        let scene = Arc::new(Scene {
            empty_bytes: db.stats().memory.memtables,
            db,
            fs,
            told: Mutex::default(),
            alone: Mutex::default(),
        });
        (self.before)(&scene);
        put_in(fault);
        let role = |role: &Role| {
            let (scene, role) = (Arc::clone(&scene), *role);
            thread::spawn("role", move || role(&scene)).unwrap()
        };
        let roles: Vec<_> = self.roles.iter().map(role).collect();
        for role in roles {
            role.join().expect("a role failed");
        }
        put_in(None);
        (self.after)(&scene);
        scene.judge(self.journal);
    }
}

impl Scene {
    fn put(&self, key: &'static str, value: u64) {
        self.db.put(key, value.to_string()).unwrap();
        self.told.lock().unwrap().push((key, value));
    }

    fn get(&self, key: &str) -> Option<u64> {
        self.db.get(key).unwrap().map(|value| number(&value))
    }

    fn scan(&self) -> Vec<(Vec<u8>, u64)> {
        let pair = |pair: velella::Result<_>| {
            pair.map(|(key, value): (_, velella::Value)| (key, number(&value)))
        };
        self.db
            .iter()
            .unwrap()
            .map(|one| pair(one).unwrap())
            .collect()
    }

    /// M2. The last value told of a key is one that is there: roles have keys of their own.
    fn judge(&self, journal: JournalMode) {
        let told = std::mem::take(&mut *self.told.lock().unwrap());
        let mut last = std::collections::BTreeMap::new();
        last.extend(told);
        let scanned = self.scan();
        for (key, value) in &last {
            assert_eq!(self.get(key), Some(*value), "{key}");
            let entry = (key.as_bytes().to_vec(), *value);
            assert!(scanned.contains(&entry), "{key} is missing in {scanned:?}");
        }
        if journal != JournalMode::Off {
            self.db.persist().unwrap();
            let lost = self.fs.image(1, CrashMode::Strict);
            let after = open(&lost, journal);
            let found: Vec<_> = after
                .iter()
                .unwrap()
                .map(|pair| pair.unwrap())
                .map(|(key, value)| (key, number(&value)))
                .collect();
            assert_eq!(found, scanned, "after a loss of power");
        }
    }
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}

fn add(scene: &Scene) {
    scene.db.increment("sum", 1).unwrap();
}

/// As `add`, with nothing held while it decides.
fn add_unpinned(scene: &Scene) {
    let outcome = scene.db.rmw("sum", |old| {
        let sum = old.map_or(0, number) + 1;
        Decision::put(sum.to_string().into_bytes())
    });
    assert!(outcome.unwrap().stamp.is_some());
}

/// A batch of a and b.
fn write_both(scene: &Scene) {
    let mut batch = WriteBatch::new();
    batch.put(&scene.db, "a", "1").put(&scene.db, "b", "1");
    scene.db.write(&batch).unwrap();
}

fn overwrite_a(scene: &Scene) {
    scene.db.put("a", "2").unwrap();
}

fn flush(scene: &Scene) {
    scene.db.flush().unwrap();
}

/// M2: the memtables that left their views are gone.
fn memory_is_back(scene: &Scene) {
    flush(scene);
    simulation::step(&scene.db, Step::Reclaim).unwrap();
    for keyspace in scene.db.stats().keyspaces {
        let has = (keyspace.immutable_memtables, keyspace.memtable_bytes);
        assert_eq!(has, (0, scene.empty_bytes), "{}", keyspace.name);
    }
}

const fn model(name: &'static str, before: Role, roles: &'static [Role], after: Role) -> Model {
    Model {
        name,
        journal: JournalMode::Mapped,
        before,
        roles,
        after,
    }
}

/// Writers of their own keys and of one counter while memtables are switched twice and flushed.
pub(crate) const SWITCH: Model = model(
    "switch",
    |scene| scene.put("a", 0),
    &[
        |scene| {
            scene.put("a", 1);
            add(scene);
        },
        |scene| {
            add_unpinned(scene);
            scene.put("b", 1);
        },
        |scene| {
            flush(scene);
            flush(scene);
        },
    ],
    |scene| {
        assert_eq!(scene.get("sum"), Some(2), "an update is lost");
        memory_is_back(scene);
    },
);

/// A flush's tables hold stamps below the one that it says is in them, and so no write that the
/// journal may still lose.
fn flush_and_look(scene: &Scene) {
    flush(scene);
    let (_, state) = Manifest::read(&scene.fs, "/db".as_ref()).unwrap();
    for keyspace in &state.keyspaces {
        let below = keyspace.flushed_below;
        let tables = keyspace.levels.iter().flatten();
        assert!(tables.map(|table| table.max_stamp).all(|last| last < below));
    }
}

/// Writers beside a switch, each on one side of it by its stamp.
pub(crate) const SPLIT: Model = model(
    "split",
    |scene| scene.put("a", 0),
    &[
        |scene| {
            scene.put("a", 1);
            scene.put("b", 1);
        },
        flush_and_look,
    ],
    memory_is_back,
);

/// The same where a record is one call.
pub(crate) const SWITCH_WRITTEN: Model = Model {
    name: "switch, journal written",
    journal: JournalMode::Write,
    ..SWITCH
};

/// The same where one switch is of all keyspaces, and nothing but tables is durable.
pub(crate) const SWITCH_WITHOUT_JOURNAL: Model = Model {
    name: "switch without a journal",
    journal: JournalMode::Off,
    ..SWITCH
};

/// Adds one to a, b and the sum, which a and b have a part in.
fn add_to_all(scene: &Scene) {
    let (_, stamp) = scene
        .db
        .transact(WriteOptions::default(), |snapshot, batch| {
            let mut next = |key| {
                let value = snapshot.get(&scene.db, key)?;
                let next = value.map_or(0, |value| number(&value)) + 1;
                batch.put(&scene.db, key, next.to_string());
                Ok::<_, Error>(next)
            };
            let (a, b) = (next("a")?, next("b")?);
            assert_eq!(a, b, "half of another is seen");
            next("sum")
        })
        .unwrap();
    assert!(stamp.is_some());
}

/// Transactions of the same keys, of which most end as the only writer, beside an update of one of
/// them and a switch.
pub(crate) const TRANSACTIONS: Model = model(
    "transactions",
    |_| {},
    &[add_to_all, add_to_all, add, flush],
    |scene| {
        let all = ["a", "b", "sum"].map(|key| scene.get(key));
        assert_eq!(all, [Some(2), Some(2), Some(3)], "something is lost");
        memory_is_back(scene);
    },
);

/// The same where one switch is of all keyspaces.
pub(crate) const TRANSACTIONS_WITHOUT_JOURNAL: Model = Model {
    name: "transactions without a journal",
    journal: JournalMode::Off,
    ..TRANSACTIONS
};

/// A snapshot is read before, while and after what it sees is overwritten, flushed and compacted.
pub(crate) const SNAPSHOT: Model = model(
    "snapshot",
    |scene| {
        scene.put("a", 0);
        scene.put("b", 0);
        flush(scene);
    },
    &[
        |scene| {
            // One after the other, so who sees b sees a.
            scene.put("a", 1);
            scene.put("b", 1);
            scene.put("a", 2);
        },
        |scene| {
            flush(scene);
            scene.db.compact().unwrap();
        },
        |scene| {
            let snapshot = scene.db.snapshot();
            let look = |key| {
                snapshot
                    .get(&scene.db, key)
                    .unwrap()
                    .map(|value| number(&value))
            };
            let first = (look("a"), look("b"));
            assert!(first.0 >= first.1, "b without a: {first:?}");
            assert!(first.0.is_some() && first.1.is_some(), "{first:?}");
            thread::yield_now();
            let again = (look("a"), look("b"));
            assert_eq!(first, again, "the snapshot at {} moved", snapshot.stamp());
        },
    ],
    memory_is_back,
);

/// Gets while what they look for moves from the memtable to a table, and from table to table.
pub(crate) const READERS: Model = model(
    "readers",
    |scene| {
        scene.put("a", 1);
        scene.put("b", 1);
    },
    &[
        flush,
        |scene| scene.db.compact().unwrap(),
        |scene| {
            for _ in 0..8 {
                assert_eq!(scene.get("a"), Some(1), "a is on its way down");
            }
        },
        |scene| scene.put("b", 2),
    ],
    memory_is_back,
);

/// An iterator stands on a key while memtables are switched and its files are compacted away.
pub(crate) const ITERATOR: Model = model(
    "iterator",
    |scene| {
        scene.put("a", 1);
        flush(scene);
        scene.put("b", 1);
        scene.put("c", 1);
    },
    &[
        |scene| {
            scene.put("d", 1);
            flush(scene);
            scene.put("e", 1);
            flush(scene);
        },
        |scene| scene.db.compact().unwrap(),
        |scene| {
            let mut iter = scene.db.iter().unwrap();
            let mut keys = Vec::new();
            while iter.step().unwrap() {
                keys.push(iter.key().unwrap().to_vec());
                thread::yield_now();
            }
            let mut back = Vec::new();
            while iter.step_back().unwrap() {
                back.insert(0, iter.key().unwrap().to_vec());
            }
            assert_eq!(keys, back, "the two ways differ");
            assert!(
                keys.starts_with(&[b"a".to_vec(), b"b".to_vec(), b"c".to_vec()]),
                "{keys:?}"
            );
        },
    ],
    memory_is_back,
);

/// An iterator is positioned again and again while one flush moves what it looks for down.
pub(crate) const ITERATOR_FLUSH: Model = model(
    "iterator, flush",
    |scene| scene.put("a", 1),
    &[flush, |scene| {
        let mut iter = scene.db.iter().unwrap();
        for _ in 0..4 {
            assert!(iter.seek_first().unwrap(), "a is on its way down");
        }
    }],
    memory_is_back,
);

/// One iterator after another, of which each goes on with the cursors of the one before, while what
/// they look for moves down.
pub(crate) const ITERATORS: Model = model(
    "iterators",
    |scene| {
        scene.put("a", 1);
        flush(scene);
        scene.put("b", 1);
    },
    &[
        flush,
        |scene| scene.db.compact().unwrap(),
        |scene| {
            for _ in 0..4 {
                let mut iter = scene.db.iter().unwrap();
                assert!(iter.step().unwrap(), "a is there");
                assert!(iter.step().unwrap(), "b is on its way down");
            }
        },
    ],
    memory_is_back,
);

/// Keyspaces are created and dropped beside a write that waits for the device, and a flush: nobody
/// waits for ever, and a drop takes what came before it along to the device.
pub(crate) const KEYSPACES: Model = model(
    "keyspaces",
    |scene| {
        let old = scene.db.create_keyspace("old", Default::default()).unwrap();
        old.put("k", "1").unwrap();
        scene.put("a", 0);
    },
    &[
        |scene| {
            scene.db.create_keyspace("new", Default::default()).unwrap();
        },
        |scene| {
            scene.put("d", 1);
            scene.db.drop_keyspace("old").unwrap();
            let lost = scene.fs.image(1, CrashMode::Strict);
            let after = open(&lost, JournalMode::Write);
            assert!(!after.keyspaces().contains(&"old".to_owned()));
            assert!(after.contains("d").unwrap(), "a drop without its past");
        },
        |scene| {
            let options = WriteOptions::sync();
            scene.db.put_with("s", "1", options).unwrap();
        },
        flush,
    ],
    |scene| {
        let names = scene.db.keyspaces();
        assert!(names.contains(&"new".to_owned()) && !names.contains(&"old".to_owned()));
        memory_is_back(scene);
    },
);

/// Batches of two keys against a put of one of them, while memtables are switched.
pub(crate) const BATCHES: Model = model(
    "batches",
    |_| {},
    &[write_both, overwrite_a, flush, |scene| {
        let snapshot = scene.db.snapshot();
        let look = |key| {
            snapshot
                .get(&scene.db, key)
                .unwrap()
                .map(|value| number(&value))
        };
        let (a, b) = (look("a"), look("b"));
        assert!(b.is_none() || a.is_some(), "half a batch: {a:?}, {b:?}");
        assert!(a != Some(1) || b == Some(1), "half a batch: {a:?}, {b:?}");
    }],
    |scene| {
        let newest = |key| scene.db.get_entry(key).unwrap().unwrap();
        let (a, b) = (newest("a"), newest("b"));
        match number(&a.value) {
            1 => assert_eq!(a.stamp, b.stamp, "two halves"),
            _ => assert_ne!(a.stamp, b.stamp),
        }
        memory_is_back(scene);
    },
);

/// The same where a record is one call.
pub(crate) const BATCHES_WRITTEN: Model = Model {
    name: "batches, journal written",
    journal: JournalMode::Write,
    ..BATCHES
};

/// As `BATCHES`, but who reads passes over what is undecided: having seen the put, he sees all of
/// a batch that was before it.
pub(crate) const BATCHES_BY_GETS: Model = model(
    "batches, by gets",
    |_| {},
    &[write_both, overwrite_a, flush, |scene| {
        let a = scene.db.get_entry("a").unwrap();
        let b = scene.get("b");
        let alone = a.filter(|a| number(&a.value) == 2 && b.is_none());
        *scene.alone.lock().unwrap() = alone.map(|a| a.stamp);
    }],
    |scene| {
        let b = scene.db.get_entry("b").unwrap().unwrap();
        let alone = *scene.alone.lock().unwrap();
        assert!(
            alone.is_none_or(|put| put < b.stamp),
            "{alone:?} before {b:?}"
        );
        memory_is_back(scene);
    },
);

/// Two batches over the same keys of two keyspaces, each given in another order, while memtables
/// are switched: neither waits for the other for ever, and one of them is the last.
pub(crate) const CROSSED_BATCHES: Model = model(
    "crossed batches",
    |scene| drop(scene.db.create_keyspace("other", Default::default())),
    &[
        |scene| {
            let other = scene.db.keyspace("other").unwrap();
            let mut batch = WriteBatch::new();
            batch.put(&scene.db, "a", "1").put(&scene.db, "b", "1");
            batch.put(&other, "a", "1");
            scene.db.write(&batch).unwrap();
        },
        |scene| {
            let other = scene.db.keyspace("other").unwrap();
            let mut batch = WriteBatch::new();
            batch.put(&other, "a", "2").put(&scene.db, "b", "2");
            batch.put(&scene.db, "a", "2");
            scene.db.write(&batch).unwrap();
        },
        flush,
    ],
    |scene| {
        let other = scene.db.keyspace("other").unwrap();
        let newest = [
            scene.db.get_entry("a").unwrap().unwrap(),
            scene.db.get_entry("b").unwrap().unwrap(),
            other.get_entry("a").unwrap().unwrap(),
        ];
        let of = |entry: &velella::Entry| (entry.stamp, number(&entry.value));
        assert!(newest.iter().all(|entry| of(entry) == of(&newest[0])));
        memory_is_back(scene);
    },
);
