//! Clients that do random operations on few keys and write down what they were told.
//!
//! K1. Every written value is its writer's client, a number it never used before, and a filling:
//!     whoever reads it knows who wrote it.
//! K2. An event is written down after its operation returned; its beginning was taken before.
//! K3. Who swapped a key reads it again, for a swap does not tell its stamp.
//! K4. Keys have neighbours, with names that are longer: nobody judges what they hold.
//! K5. Where values expire, each client looks at the wall clock once an operation: the tick taken
//!     before it was seen short of the time, and the one after it was seen to have come, tell when
//!     that was.

use super::event::{Event, KEYS, State, Value, Version, What};
use super::expiry::{MARK, expires};
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;
use velella::simulation::{self, Step};
use velella::{Db, Decision, Durability, Entry, Error, Keyspace, Result, Snapshot};
use velella::{WriteBatch, WriteOptions};
use velella_sync::thread;
use velella_testkit::Seed;

/// The one counter, longer than keys and their neighbours.
const COUNTER: &[u8] = b"sum";

/// What the clients of a history share.
#[derive(Debug)]
pub struct Stage<'a> {
    db: &'a Db,
    keyspaces: [Keyspace; 2],
    clock: &'a AtomicU64,
    /// The tick at which a thread is woken, and that thread.
    pub alarm: Option<(u64, Thread)>,
    /// The first number a client may use in its values, so that a later part of a history does
    /// not write a value of an earlier one.
    pub first_number: u64,
    /// Whether clients also flush, compact and gather. Where none does, lists of versions live
    /// long enough to be pruned.
    pub upkeep: bool,
    /// When values expire, in milliseconds since 1970; `None`: none does.
    pub expires_at_ms: Option<u64>,
}

impl<'a> Stage<'a> {
    /// A stage on `db`, whose keys are spread over its default keyspace and one more.
    ///
    /// # Errors
    /// Those of creating the keyspace.
    pub fn new(db: &'a Db, clock: &'a AtomicU64) -> Result<Self> {
        Ok(Stage {
            db,
            keyspaces: [db.default_keyspace(), db.keyspace_or_create("other")?],
            clock,
            alarm: None,
            first_number: 0,
            upkeep: true,
            expires_at_ms: None,
        })
    }

    /// Lets `clients` do `operations` each, all at once.
    ///
    /// # Errors
    /// The first error any of them was told.
    ///
    /// # Panics
    /// If a client does.
    pub fn run(&self, clients: usize, operations: u64, seed: &Seed) -> Result<Vec<Event>> {
        let all = Mutex::new(Ok(Vec::new()));
        let barrier = Barrier::new(clients);
        let expiry = Passing::new(self.expires_at_ms);
        std::thread::scope(|scope| {
            for number in 0..clients {
                let (all, barrier, expiry) = (&all, &barrier, &expiry);
                let mut client = Client {
                    stage: self,
                    expiry,
                    number,
                    seed: seed.fork(number as u64),
                    written: self.first_number,
                    kept: Vec::new(),
                    synced: false,
                    events: Vec::new(),
                };
                scope.spawn(move || {
                    barrier.wait();
                    let ended = (0..operations).try_for_each(|_| client.operate());
                    let mut all = all.lock().expect("no client panics with the lock");
                    match (&mut *all, ended) {
                        (Ok(events), Ok(())) => events.append(&mut client.events),
                        (all @ Ok(_), Err(error)) => *all = Err(error),
                        (Err(_), _) => {}
                    }
                });
            }
        });
        let all = all.into_inner().expect("no client panics with the lock");
        expiry.look(self.tick(), || self.tick());
        all.map(|mut events| {
            events.extend(expiry.event(clients));
            events
        })
    }

    /// What all keys hold now, with the stamps of the versions.
    ///
    /// # Errors
    /// Those of reading.
    pub fn contents(&self) -> Result<BTreeMap<usize, (u64, Vec<u8>)>> {
        let mut contents = BTreeMap::new();
        for key in 0..KEYS {
            let (keyspace, name) = self.place(key);
            if let Some(entry) = keyspace.get_entry(name)? {
                contents.insert(key, (entry.stamp.0, entry.value.to_vec()));
            }
        }
        Ok(contents)
    }

    /// What the one counter is at.
    ///
    /// # Errors
    /// Those of reading.
    ///
    /// # Panics
    /// If it is no number.
    pub fn sum(&self) -> Result<i64> {
        let sum = self.keyspaces[0].get_with(COUNTER, |sum| {
            let text = std::str::from_utf8(sum).expect("increments write decimal digits");
            text.parse().expect("increments write numbers")
        })?;
        Ok(sum.unwrap_or(0))
    }

    fn place(&self, key: usize) -> (&Keyspace, [u8; 1]) {
        let name = u8::try_from(key).expect("there are few keys");
        (&self.keyspaces[key % 2], [name])
    }

    fn tick(&self) -> u64 {
        // AcqRel: of two ticks the earlier one's thread is seen to have done what it did before.
        let tick = self.clock.fetch_add(1, Ordering::AcqRel);
        if let Some((_, thread)) = self.alarm.as_ref().filter(|(at, _)| *at == tick) {
            thread.unpark();
        }
        tick
    }

    fn state(&self, snapshot: &Snapshot, how: u64) -> Result<State> {
        let mut state = State::new();
        if how == 0 {
            for key in 0..KEYS {
                let (keyspace, name) = self.place(key);
                let value = snapshot.get(keyspace, name)?;
                state.extend(value.map(|value| (key, value.to_vec())));
            }
            return Ok(state);
        }
        for keyspace in &self.keyspaces {
            let iter = snapshot.iter(keyspace)?;
            let pairs: Box<dyn Iterator<Item = _>> = match how {
                1 => Box::new(iter),
                _ => Box::new(iter.rev()),
            };
            for pair in pairs {
                let (key, value) = pair?;
                // K4.
                if let [key] = key[..] {
                    state.insert(usize::from(key), value.to_vec());
                }
            }
        }
        Ok(state)
    }
}

/// When the wall clock passes the time at which values expire (K5).
struct Passing {
    at_ms: u64,
    /// The latest tick before which somebody saw it short of that.
    short: AtomicU64,
    /// The first tick after which somebody saw that it had come.
    over: AtomicU64,
}

impl Passing {
    fn new(at_ms: Option<u64>) -> Passing {
        Passing {
            at_ms: at_ms.unwrap_or(u64::MAX),
            short: AtomicU64::new(0),
            over: AtomicU64::new(u64::MAX),
        }
    }

    /// Looks at the wall clock, `tick` having been taken.
    fn look(&self, tick: u64, next: impl FnOnce() -> u64) {
        // Relaxed: ticks order what is told.
        if self.at_ms == u64::MAX || self.over.load(Ordering::Relaxed) != u64::MAX {
            return;
        }
        if thread::wall_ms() < self.at_ms {
            self.short.fetch_max(tick, Ordering::Relaxed);
        } else {
            self.over.fetch_min(next(), Ordering::Relaxed);
        }
    }

    /// That it passed, if it did, as a client of its own may tell it.
    fn event(&self, client: usize) -> Option<Event> {
        let [begin, end] = [&self.short, &self.over].map(|tick| tick.load(Ordering::Relaxed));
        (end != u64::MAX).then_some(Event {
            client,
            begin,
            end,
            synced: false,
            what: What::Expired,
        })
    }
}

struct Client<'a> {
    stage: &'a Stage<'a>,
    expiry: &'a Passing,
    number: usize,
    seed: Seed,
    written: u64,
    kept: Vec<Snapshot>,
    /// Whether the write under way is to be durable before it returns.
    synced: bool,
    events: Vec<Event>,
}

impl Client<'_> {
    fn operate(&mut self) -> Result<()> {
        let begin = self.stage.tick();
        self.expiry.look(begin, || self.stage.tick());
        let what = match self.seed.below(100) {
            0..20 => self.write()?,
            20..34 => self.rmw()?,
            34..42 => return self.swap(),
            42..50 => self.batch()?,
            50..53 => self.batch_if_unchanged()?,
            53..56 => self.transact()?,
            56..70 => {
                let key = self.seed.index(KEYS);
                self.get(key)?.1
            }
            70..78 => self.strict()?,
            78..83 => self.multi_get()?,
            83..90 => self.scan()?,
            90..94 => self.look()?,
            94..96 => self.crowd()?,
            96..98 => self.count()?,
            _ if !self.stage.upkeep => self.write()?,
            upkeep => {
                let db = &self.stage.db;
                match (upkeep, self.seed.one_in(2)) {
                    (98, _) => db.flush()?,
                    (_, false) => db.compact()?,
                    (_, true) => simulation::step(db, Step::Gather)?,
                }
                None
            }
        };
        if let Some(what) = what {
            self.note(begin, what);
        }
        Ok(())
    }

    /// Writes down what began at `begin` and has returned.
    fn note(&mut self, begin: u64, what: What) {
        self.events.push(Event {
            client: self.number,
            begin,
            end: self.stage.tick(),
            synced: std::mem::take(&mut self.synced),
            what,
        });
    }

    /// Mostly the default; a device in memory syncs in no time.
    fn options(&mut self) -> WriteOptions {
        let durability = match self.seed.below(16) {
            0 => Some(Durability::Sync),
            1 => Some(Durability::Group(Duration::from_micros(50))),
            _ => None,
        };
        self.synced = durability.is_some();
        WriteOptions { durability }
    }

    /// As `value`; one in three expires, where any does.
    fn value_for_a_while(&mut self) -> Vec<u8> {
        let mut value = self.value();
        if self.stage.expires_at_ms.is_some() && self.seed.one_in(3) {
            value.insert(0, MARK);
        }
        value
    }

    /// When `value` expires.
    fn expiry_of(&self, value: &[u8]) -> Option<u64> {
        self.stage.expires_at_ms.filter(|_| expires(value))
    }

    /// A value nobody wrote before (K1).
    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let mut value = format!("{}.{}.", self.number, self.written).into_bytes();
        let longer = self.seed.index(300);
        value.resize(value.len() + longer, b'x');
        value
    }

    fn write(&mut self) -> Result<Option<What>> {
        let key = self.seed.index(KEYS);
        let value = (!self.seed.one_in(4)).then(|| self.value_for_a_while());
        let options = self.options();
        let (keyspace, name) = self.stage.place(key);
        let stamp = match &value {
            None => keyspace.delete_with(name, options)?,
            Some(value) => match self.expiry_of(value) {
                None => keyspace.put_with(name, value, options)?,
                Some(at) => keyspace.put_expiring(name, value, at, options)?,
            },
        };
        let changes = BTreeMap::from([(key, value)]);
        Ok(Some(What::Wrote { stamp, changes }))
    }

    /// Puts a neighbour of a key, so that a memtable's blocks fill and split (K4).
    fn crowd(&mut self) -> Result<Option<What>> {
        let (keyspace, [name]) = self.stage.place(self.seed.index(KEYS));
        let neighbour = [name, u8::try_from(self.seed.below(256)).expect("a byte")];
        keyspace.put(neighbour, [])?;
        Ok(None)
    }

    /// Increments the one counter of all clients.
    fn count(&mut self) -> Result<Option<What>> {
        let sum = self.stage.keyspaces[0].increment(COUNTER, 1)?;
        Ok(Some(What::Counted { sum }))
    }

    /// A read-modify-write, of a value that is lent or copied, that puts, deletes or keeps.
    fn rmw(&mut self) -> Result<Option<What>> {
        let key = self.seed.index(KEYS);
        let decision = match self.seed.below(8) {
            0 => Decision::Keep,
            1 => Decision::Delete,
            _ => {
                let value = self.value_for_a_while();
                match self.expiry_of(&value) {
                    None => Decision::put(value),
                    Some(at) => Decision::put_expiring(value, at),
                }
            }
        };
        let options = self.options();
        let is_lent = self.seed.one_in(2);
        let (keyspace, name) = self.stage.place(key);
        let (old, stamp) = if is_lent {
            let mut old = None;
            let stamp = keyspace.update_entry::<Error>(name, options, |lent| {
                old = lent.map(|lent| (lent.stamp, lent.value.to_vec()));
                Ok(decision.clone())
            })?;
            (old, stamp)
        } else {
            let decide = |_: Option<&Entry>| Ok::<_, Error>(decision.clone());
            let outcome = keyspace.rmw_entry(name, options, decide)?;
            (version(outcome.old), outcome.stamp)
        };
        let Some(stamp) = stamp else {
            let values = BTreeMap::from([(key, old.map(|(_, value)| value))]);
            return Ok(Some(What::Strict { values }));
        };
        let value = match decision {
            Decision::Put(value) | Decision::PutExpiring(value, _) => Some(value.into_owned()),
            Decision::Delete | Decision::Keep => None,
        };
        Ok(Some(What::Based {
            stamp,
            changes: BTreeMap::from([(key, value)]),
            bases: BTreeMap::from([(key, old)]),
            read_at: None,
        }))
    }

    /// `compare_and_swap` of what was read, or of something else, or `put_if_absent`; between
    /// two reads of the key (K3).
    fn swap(&mut self) -> Result<()> {
        let key = self.seed.index(KEYS);
        let begin = self.stage.tick();
        let (mut base, read) = self.get(key)?;
        if let Some(read) = read {
            self.note(begin, read);
        }
        let (how, value) = (self.seed.below(4), self.value());
        match how {
            0 => base = None,
            1 => base = Some((velella::Stamp::ZERO, b"nobody wrote this".to_vec())),
            _ => {}
        }
        let expected = base.as_ref().map(|(_, value)| value.clone());
        let begin = self.stage.tick();
        let (keyspace, name) = self.stage.place(key);
        let done = match how {
            0 => keyspace.put_if_absent(name, &value)?,
            _ => keyspace.compare_and_swap(name, expected.as_deref(), Some(&value))?,
        };
        if !done {
            self.note(begin, What::Refused { key, expected });
            return Ok(());
        }
        self.note(begin, What::Swapped { key, base, value });
        let begin = self.stage.tick();
        if let Some(read) = self.get(key)?.1 {
            self.note(begin, read);
        }
        Ok(())
    }

    fn changes(&mut self) -> (WriteBatch, BTreeMap<usize, Value>) {
        let (mut batch, mut changes) = (WriteBatch::new(), BTreeMap::new());
        for _ in 0..=self.seed.below(4) {
            let key = self.seed.index(KEYS);
            let value = (!self.seed.one_in(5)).then(|| self.value_for_a_while());
            self.add(&mut batch, key, value.as_deref());
            changes.insert(key, value);
        }
        (batch, changes)
    }

    fn add(&self, batch: &mut WriteBatch, key: usize, value: Option<&[u8]>) {
        let (keyspace, name) = self.stage.place(key);
        match value {
            None => batch.delete(keyspace, name),
            Some(value) => match self.expiry_of(value) {
                None => batch.put(keyspace, name, value),
                Some(at) => batch.put_expiring(keyspace, name, value, at),
            },
        };
    }

    fn batch(&mut self) -> Result<Option<What>> {
        let (batch, changes) = self.changes();
        let options = self.options();
        let stamp = self.stage.db.write_with(&batch, options)?;
        Ok(Some(What::Wrote { stamp, changes }))
    }

    fn batch_if_unchanged(&mut self) -> Result<Option<What>> {
        let since = self.stage.db.snapshot();
        let (batch, changes) = self.changes();
        let mut bases = BTreeMap::new();
        for key in changes.keys() {
            let (keyspace, name) = self.stage.place(*key);
            bases.insert(*key, version(since.get_entry(keyspace, name)?));
        }
        let options = self.options();
        let written = self.stage.db.write_if_unchanged(&batch, &since, options)?;
        self.synced &= written.is_some();
        Ok(written.map(|stamp| What::Based {
            stamp,
            changes,
            bases,
            read_at: Some(since.stamp()),
        }))
    }

    /// A batch of what was read in the same snapshot, however often it takes.
    fn transact(&mut self) -> Result<Option<What>> {
        let (_, changes) = self.changes();
        let options = self.options();
        let stage = self.stage;
        let ((bases, read_at), stamp) = stage.db.transact(options, |snapshot, batch| {
            let mut bases = BTreeMap::new();
            for (key, value) in &changes {
                let (keyspace, name) = stage.place(*key);
                bases.insert(*key, version(snapshot.get_entry(keyspace, name)?));
                self.add(batch, *key, value.as_deref());
            }
            Ok::<_, Error>((bases, Some(snapshot.stamp())))
        })?;
        let stamp = stamp.expect("the batch has keys");
        Ok(Some(What::Based {
            stamp,
            changes,
            bases,
            read_at,
        }))
    }

    fn get(&mut self, key: usize) -> Result<(Version, Option<What>)> {
        let (keyspace, name) = self.stage.place(key);
        let found = version(keyspace.get_entry(name)?);
        let (stamp, value) = found.clone().unzip();
        Ok((found, Some(What::Got { key, value, stamp })))
    }

    fn strict(&mut self) -> Result<Option<What>> {
        let key = self.seed.index(KEYS);
        let (keyspace, name) = self.stage.place(key);
        let value = keyspace.get_strict(name)?.map(|value| value.to_vec());
        let values = BTreeMap::from([(key, value)]);
        Ok(Some(What::Strict { values }))
    }

    fn multi_get(&mut self) -> Result<Option<What>> {
        let half = self.seed.index(2);
        let keys: Vec<usize> = (0..KEYS).filter(|key| key % 2 == half).collect();
        let names: Vec<[u8; 1]> = keys.iter().map(|key| self.stage.place(*key).1).collect();
        let found = self.stage.keyspaces[half].multi_get(&names)?;
        let found = found
            .into_iter()
            .map(|value| value.map(|value| value.to_vec()));
        let values = keys.into_iter().zip(found).collect();
        Ok(Some(What::Strict { values }))
    }

    /// Scans a keyspace, a range of it or a prefix, forwards or backwards.
    fn scan(&mut self) -> Result<Option<What>> {
        let half = self.seed.index(2);
        let keyspace = &self.stage.keyspaces[half];
        let name = |key: usize| self.stage.place(key).1;
        let mut asked: Vec<usize> = (0..KEYS).filter(|key| key % 2 == half).collect();
        let iter = match self.seed.below(4) {
            0 => {
                asked = vec![asked[self.seed.index(asked.len())]];
                keyspace.prefix(name(asked[0]))?
            }
            1 => {
                asked.drain(..self.seed.index(asked.len()));
                asked.truncate(2);
                keyspace.range(name(asked[0])..=name(asked[asked.len() - 1]))?
            }
            _ => keyspace.iter()?,
        };
        let all: Box<dyn Iterator<Item = _>> = if self.seed.one_in(2) {
            asked.reverse();
            Box::new(iter.rev())
        } else {
            Box::new(iter)
        };
        let mut pairs = Vec::new();
        for pair in all {
            let (key, value) = pair?;
            // K4.
            if let [key] = key[..] {
                pairs.push((usize::from(key), value.to_vec()));
            }
        }
        Ok(Some(What::Scanned { asked, pairs }))
    }

    /// Takes a snapshot and reads it, or reads an old one again.
    fn look(&mut self) -> Result<Option<What>> {
        let how = self.seed.below(3);
        if !self.kept.is_empty() && self.seed.one_in(2) {
            let place = self.seed.index(self.kept.len());
            let old = self.kept.swap_remove(place);
            let state = self.stage.state(&old, how)?;
            return Ok(Some(What::SawAgain {
                at: old.stamp(),
                state,
            }));
        }
        let snapshot = self.stage.db.snapshot();
        let state = self.stage.state(&snapshot, how)?;
        let at = snapshot.stamp();
        self.kept.push(snapshot);
        Ok(Some(What::Saw { at, state }))
    }
}

fn version(entry: Option<Entry>) -> Version {
    entry.map(|entry| (entry.stamp, entry.value.to_vec()))
}
