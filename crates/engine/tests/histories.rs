//! Concurrent histories over few hot keys, while memtables switch, flush and compact all the time.
//!
//! Stamps are the order the engine claims; the checker replays it afterwards:
//! H1. per key, no read is older than what anybody was told before it began (linearizable);
//! H2. `get_strict`: what it returned was the newest at some stamp between its begin and end;
//! H3. a snapshot, and an iterator over it, is exactly the replay up to its stamp, and stays so;
//! H4. a read-modify-write saw exactly the version below its own; no two writes share a stamp;
//! H5. batches are whole: they are one stamp of the replay, so H3 says it.
//!
//! Claims: docs/consistency.md. Replay with `VELELLA_SEED=n`.

mod common;

use common::{KINDS, on, tiny};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use velella::vfs::MemFs;
use velella::{Decision, JournalMode, Keyspace, Snapshot, Stamp, WriteBatch, WriteOptions};
use velella_testkit::{Model, Seed, Watchdog, seeds};

const KEYS: usize = 6;

type Value = Option<Vec<u8>>;

/// What happened, to be judged afterwards.
enum Event {
    Wrote {
        stamp: Stamp,
        key: usize,
        value: Value,
    },
    /// A read-modify-write: what it read.
    Based {
        stamp: Stamp,
        key: usize,
        old: Value,
    },
    /// A read of `key` that returned `value`; the version's stamp lies within the bounds.
    Read {
        key: usize,
        value: Value,
        stamp: Option<Stamp>,
        least: u64,
        most: u64,
    },
    /// As `Read`, by `get_strict`.
    Strict {
        key: usize,
        value: Value,
        least: u64,
        most: u64,
    },
    Seen {
        at: Stamp,
        state: BTreeMap<usize, Vec<u8>>,
    },
}

struct Arena<'a> {
    keyspaces: [&'a Keyspace; 2],
    db: &'a velella::Db,
    /// Per key the newest stamp that any finished operation was told.
    told: [AtomicU64; KEYS],
}

impl Arena<'_> {
    /// Keys are spread over two keyspaces.
    fn place(&self, key: usize) -> (&Keyspace, [u8; 1]) {
        (self.keyspaces[key % 2], [u8::try_from(key).unwrap()])
    }

    fn tell(&self, key: usize, stamp: Stamp) {
        self.told[key].fetch_max(stamp.0, Ordering::AcqRel);
    }

    fn now(&self) -> u64 {
        self.db.snapshot().stamp().0
    }

    fn state(&self, snapshot: &Snapshot, scan: bool) -> BTreeMap<usize, Vec<u8>> {
        if scan {
            let of = |keyspace: &&Keyspace| {
                let pairs = snapshot.iter(keyspace).unwrap().map(|pair| pair.unwrap());
                pairs
                    .map(|(key, value)| (usize::from(key[0]), value.to_vec()))
                    .collect::<Vec<_>>()
            };
            return self.keyspaces.iter().flat_map(of).collect();
        }
        let get = |key: usize| {
            let (keyspace, name) = self.place(key);
            Some((key, snapshot.get(keyspace, name).unwrap()?.to_vec()))
        };
        (0..KEYS).filter_map(get).collect()
    }

    fn write(&self, seed: &mut Seed, events: &mut Vec<Event>) {
        let key = seed.index(KEYS);
        let (keyspace, name) = self.place(key);
        let value = (!seed.one_in(5)).then(|| seed.value(600));
        if seed.one_in(60) {
            // Few keys fill no write buffer: their versions are pruned.
            keyspace.flush().unwrap();
        }
        let stamp = match &value {
            Some(value) => keyspace.put(name, value).unwrap(),
            None => keyspace.delete(name).unwrap(),
        };
        self.tell(key, stamp);
        events.push(Event::Wrote { stamp, key, value });
    }

    fn rmw(&self, seed: &mut Seed, events: &mut Vec<Event>) {
        let key = seed.index(KEYS);
        let (keyspace, name) = self.place(key);
        let value = seed.value(20);
        let outcome = keyspace
            .rmw(name, |_| Decision::Put(value.clone()))
            .unwrap();
        let stamp = outcome.stamp.unwrap();
        self.tell(key, stamp);
        let old = outcome.old.map(|old| old.value.to_vec());
        events.push(Event::Based { stamp, key, old });
        events.push(Event::Wrote {
            stamp,
            key,
            value: Some(value),
        });
    }

    fn batch(&self, seed: &mut Seed, events: &mut Vec<Event>, conditional: bool) {
        let snapshot = conditional.then(|| self.db.snapshot());
        let mut batch = WriteBatch::new();
        let mut changes = BTreeMap::new();
        for _ in 0..=seed.below(4) {
            let key = seed.index(KEYS);
            let (keyspace, name) = self.place(key);
            let value = seed.value(200);
            batch.put(keyspace, name, &value);
            changes.insert(key, value);
        }
        let options = WriteOptions::default();
        let stamp = match &snapshot {
            None => Some(self.db.write(&batch).unwrap()),
            Some(since) => self.db.write_if_unchanged(&batch, since, options).unwrap(),
        };
        let Some(stamp) = stamp else { return };
        for (key, value) in changes {
            self.tell(key, stamp);
            if let Some(since) = &snapshot {
                // First committer wins: what is below it is what the snapshot saw.
                let (keyspace, name) = self.place(key);
                let old = since.get(keyspace, name).unwrap().map(|old| old.to_vec());
                events.push(Event::Based { stamp, key, old });
            }
            events.push(Event::Wrote {
                stamp,
                key,
                value: Some(value),
            });
        }
    }

    fn read(&self, seed: &mut Seed, events: &mut Vec<Event>) {
        let key = seed.index(KEYS);
        let (keyspace, name) = self.place(key);
        if seed.one_in(2) {
            let least = self.now();
            let value = keyspace
                .get_strict(name)
                .unwrap()
                .map(|value| value.to_vec());
            events.push(Event::Strict {
                key,
                value,
                least,
                most: self.now(),
            });
            return;
        }
        let least = self.told[key].load(Ordering::Acquire);
        let entry = keyspace.get_entry(name).unwrap();
        let most = self.now();
        let stamp = entry.as_ref().map(|entry| entry.stamp);
        if let Some(stamp) = stamp {
            self.tell(key, stamp);
        }
        let value = entry.map(|entry| entry.value.to_vec());
        events.push(Event::Read {
            key,
            value,
            stamp,
            least,
            most,
        });
    }

    fn look(&self, seed: &mut Seed, kept: &mut Vec<Snapshot>, events: &mut Vec<Event>) {
        let snapshot = self.db.snapshot();
        let scan = seed.one_in(2);
        let state = self.state(&snapshot, scan);
        events.push(Event::Seen {
            at: snapshot.stamp(),
            state,
        });
        if kept.len() < 4 {
            kept.push(snapshot);
        } else {
            let old = kept.remove(seed.index(kept.len()));
            let state = self.state(&old, !scan);
            events.push(Event::Seen {
                at: old.stamp(),
                state,
            });
        }
    }
}

fn run(arena: &Arena<'_>, seed: &mut Seed, rounds: u32) -> Vec<Event> {
    let (mut events, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        match seed.below(20) {
            0..6 => arena.write(seed, &mut events),
            6..9 => arena.rmw(seed, &mut events),
            9..11 => arena.batch(seed, &mut events, false),
            11 => arena.batch(seed, &mut events, true),
            12..18 => arena.read(seed, &mut events),
            _ => arena.look(seed, &mut kept, &mut events),
        }
        if seed.one_in(400) {
            arena.db.compact().unwrap();
        }
    }
    events
}

fn model_of(events: &[Event]) -> Model<usize> {
    let mut model = Model::new();
    let mut owners = BTreeMap::new();
    for event in events {
        if let Event::Wrote { stamp, key, value } = event {
            assert!(
                owners.insert((*key, *stamp), ()).is_none(),
                "H4: two writes to {key} at {stamp}"
            );
            model.write(*key, stamp.0, value.clone());
        }
    }
    model
}

fn check(events: &[Event]) {
    let model = model_of(events);
    // Whether `value` was the newest of `key` at some stamp within the bounds.
    let was = |key: usize, value: &Value, least: u64, most: u64| {
        let mut moments = vec![least];
        moments.extend(
            model
                .stamps()
                .into_iter()
                .filter(|at| *at > least && *at <= most),
        );
        moments
            .iter()
            .any(|at| model.get(&key, *at) == value.as_ref())
    };
    for event in events {
        match event {
            Event::Wrote { .. } => {}
            Event::Based { stamp, key, old } => {
                assert_eq!(
                    model.get(key, stamp.0 - 1),
                    old.as_ref(),
                    "H4: base of {stamp} on {key}"
                );
            }
            Event::Read {
                key,
                value,
                stamp,
                least,
                most,
            } => {
                assert!(
                    was(*key, value, *least, *most),
                    "H1: {key} in [{least}, {most}]"
                );
                if let Some(stamp) = stamp {
                    assert!(
                        (*least..=*most).contains(&stamp.0),
                        "H1: {stamp} in [{least}, {most}]"
                    );
                    assert_eq!(
                        model.get(key, stamp.0),
                        value.as_ref(),
                        "H1: {key} at {stamp}"
                    );
                }
            }
            Event::Strict {
                key,
                value,
                least,
                most,
            } => {
                assert!(
                    was(*key, value, *least, *most),
                    "H2: {key} in [{least}, {most}]"
                );
            }
            Event::Seen { at, state } => assert_eq!(model.at(at.0), *state, "H3: at {at}"),
        }
    }
}

#[test]
fn random_histories_are_what_their_stamps_say() {
    let _watchdog = Watchdog::new("random_histories", 500);
    for number in seeds(8) {
        let mut seed = Seed::new("random_histories", number);
        let journal = *seed.pick(&[
            JournalMode::Auto,
            JournalMode::Auto,
            JournalMode::Write,
            JournalMode::Off,
        ]);
        let builder = tiny()
            .memtable(*seed.pick(&KINDS))
            .write_buffer(256 << 10)
            .journal(journal);
        let db = on(&MemFs::new(), builder);
        let other = db.create_keyspace("other", Default::default()).unwrap();
        let arena = Arena {
            keyspaces: [&db.default_keyspace(), &other],
            db: &db,
            told: [const { AtomicU64::new(0) }; KEYS],
        };
        let all = Mutex::new(Vec::new());
        let barrier = Barrier::new(4);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (arena, all, barrier) = (&arena, &all, &barrier);
                let mut seed = seed.fork(thread);
                scope.spawn(move || {
                    barrier.wait();
                    let events = run(arena, &mut seed, 700);
                    all.lock().unwrap().extend(events);
                });
            }
        });
        check(&all.into_inner().unwrap());
        assert!(common::counter(&db, "flushes") > 2);
        db.verify().unwrap();
    }
}
