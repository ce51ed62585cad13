//! Random histories of the whole engine: two to four clients on three keys, upkeep beside them,
//! and a crash at any step of all of them.
//!
//! R1. Everything that is random comes from one number of the scheduler's: the seed of a batch
//!     repeats its programs and their schedules. A failure tells the program.
//! R2. What everybody was told is what the checker of histories allows; in the end, too.
//! R3. What the crash left is what the rules for crashes allow: after the death of the process all
//!     that was acknowledged, after a loss of power, and without a journal, a prefix by the order
//!     of stamps with all that was synced or called durable.
//! R4. Who opens it finds the same by get, by scan and by snapshot; a write goes above all stamps.
//! R5. Who opens what a second crash left, at any step of that opening or after it, finds the same.
//!     Only where the first was the death of the process may the power still take what it may.

use super::small;
use std::collections::BTreeMap;
use std::sync::Arc;
// The standard library's: no steps.
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella::simulation::{self, Step};
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{
    Db, Decision, Entry, Error, JournalMode, Keyspace, MemtableKind, Snapshot, WriteBatch,
    WriteOptions,
};
use velella_base::{Stamp, put_in};
use velella_sync::{rng, thread};
use velella_testkit::Seed;
use velella_testkit::history::checker::{self, Before};
use velella_testkit::history::crash::Crash;
use velella_testkit::history::event::{Event, State, Version, What};

const HOT: usize = 3;
/// Longer than what stays inline, and half of an extent.
const LONG: [usize; 2] = [3_100, 2_500];
const OTHER: &str = "other";

/// What a program is run on.
#[derive(Debug, Clone, Copy)]
struct World {
    journal: JournalMode,
    memtable: MemtableKind,
    lanes: usize,
    /// The second key is in a keyspace of its own.
    is_split: bool,
    mode: CrashMode,
}

/// What the roles of a history share.
struct Stage {
    fs: MemFs,
    db: Db,
    keyspaces: [Keyspace; HOT],
    clock: AtomicU64,
    events: Mutex<Vec<Event>>,
    left: Mutex<Option<Left>>,
    world: World,
}

/// What a crash left.
#[derive(Debug, Clone)]
struct Left {
    fs: MemFs,
    crash: Crash,
    /// What was durable before.
    durable: Stamp,
    /// Somebody opened it.
    is_open: Arc<AtomicBool>,
}

/// Who does operations.
struct Client {
    number: usize,
    seed: Seed,
    written: u64,
    kept: Option<Snapshot>,
}

impl World {
    fn draw(seed: &mut Seed) -> World {
        use CrashMode::{KeepAll, Prefix, Random, Strict};
        use JournalMode::{Auto, Off, Write};
        use MemtableKind::{AppendOnly, Jellyfish, S3};
        World {
            journal: *seed.pick(&[Write, Write, Auto, Auto, Off]),
            memtable: *seed.pick(&[S3, S3, Jellyfish, AppendOnly]),
            lanes: *seed.pick(&[2, 3]),
            is_split: seed.one_in(2),
            mode: *seed.pick(&[KeepAll, KeepAll, Strict, Prefix, Random]),
        }
    }

    fn open(self, fs: &MemFs) -> Db {
        small::builder(self.lanes)
            .journal(self.journal)
            .memtable(self.memtable)
            .vfs(Arc::new(fs.clone()))
            .open("/db")
            .unwrap()
    }

    fn keyspaces(self, db: &Db) -> [Keyspace; HOT] {
        let second = match self.is_split {
            true => db.keyspace_or_create(OTHER).unwrap(),
            false => db.default_keyspace(),
        };
        [db.default_keyspace(), second, db.default_keyspace()]
    }
}

/// Draws a program and runs it once, with `fault` put in.
pub(crate) fn run(fault: Option<&'static str>) {
    put_in(None);
    let number = rng::local_u64();
    let mut seed = Seed::silent(number);
    let world = World::draw(&mut seed);
    let fs = MemFs::new();
    let db = world.open(&fs);
    let stage = Arc::new(Stage {
        keyspaces: world.keyspaces(&db),
        fs,
        db,
        clock: AtomicU64::new(1),
        events: Mutex::default(),
        left: Mutex::default(),
        world,
    });
    let clients = *seed.pick(&[2, 2, 3, 3, 4]);
    let mut before = stage.client(clients, &seed);
    for _ in 0..seed.below(3) {
        stage.operate(&mut before);
    }
    if seed.one_in(2) {
        stage.db.flush().unwrap();
    }
    put_in(fault);
    let mut roles = Vec::new();
    for client in 0..clients {
        let (stage, mut client) = (Arc::clone(&stage), stage.client(client, &seed));
        let operations = 1 + seed.below(6);
        let work = move || (0..operations).for_each(|_| stage.operate(&mut client));
        roles.push(thread::spawn("client", work).unwrap());
    }
    for role in [Stage::keep_up, Stage::lose_power] as [fn(&Stage, Seed); 2] {
        let (stage, seed) = (Arc::clone(&stage), seed.fork(10 + roles.len() as u64));
        roles.push(thread::spawn("role", move || role(&stage, seed)).unwrap());
    }
    for role in roles {
        role.join().expect("a role failed");
    }
    before.kept = None;
    (0..HOT).for_each(|key| stage.note_read(clients, key));
    stage.look(&mut before);
    let verdict = stage.judge(seed.fork(20));
    put_in(None);
    verdict.unwrap_or_else(|what| panic!("program {number} in {world:?}: {what}"));
}

impl Stage {
    fn client(&self, number: usize, seed: &Seed) -> Client {
        Client {
            number,
            seed: seed.fork(number as u64),
            written: 0,
            kept: None,
        }
    }

    fn tick(&self) -> u64 {
        // Relaxed: in a model one thread runs at a time.
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn note(&self, client: usize, begin: u64, synced: bool, what: What) {
        let event = Event {
            client,
            begin,
            end: self.tick(),
            synced,
            what,
        };
        self.events.lock().unwrap().push(event);
    }

    /// One operation, drawn.
    fn operate(&self, client: &mut Client) {
        let key = client.seed.index(HOT);
        let (keyspace, name) = (&self.keyspaces[key], name(key));
        match client.seed.below(20) {
            0..4 => self.write(client, key, false),
            4..6 => self.write(client, key, true),
            6..10 => self.update(client, key),
            10..12 => self.write_both(client),
            12..14 => self.write_unless_changed(client, key),
            14..16 => self.note_read(client.number, key),
            16 => {
                let begin = self.tick();
                let value = keyspace.get_strict(name).unwrap();
                let values = BTreeMap::from([(key, value.map(|value| value.to_vec()))]);
                self.note(client.number, begin, false, What::Strict { values });
            }
            17 => self.scan(client, key),
            _ => self.look(client),
        }
    }

    fn options(client: &mut Client) -> (bool, WriteOptions) {
        match client.seed.one_in(4) {
            true => (true, WriteOptions::sync()),
            false => (false, WriteOptions::default()),
        }
    }

    fn write(&self, client: &mut Client, key: usize, deletes: bool) {
        let value = (!deletes).then(|| client.value());
        let (synced, options) = Self::options(client);
        let (keyspace, name, begin) = (&self.keyspaces[key], name(key), self.tick());
        let stamp = match &value {
            Some(value) => keyspace.put_with(name, value, options),
            None => keyspace.delete_with(name, options),
        };
        let (stamp, changes) = (stamp.unwrap(), BTreeMap::from([(key, value)]));
        self.note(client.number, begin, synced, What::Wrote { stamp, changes });
    }

    /// A read-modify-write: puts, deletes or keeps.
    fn update(&self, client: &mut Client, key: usize) {
        let decision = match client.seed.below(8) {
            0 => Decision::Keep,
            1 => Decision::Delete,
            _ => Decision::put(client.value()),
        };
        let (synced, options) = Self::options(client);
        let begin = self.tick();
        let keyspace = &self.keyspaces[key];
        let (old, stamp) = match client.seed.one_in(2) {
            true => {
                let decide = |_: Option<&Entry>| Ok::<_, Error>(decision.clone());
                let outcome = keyspace.rmw_entry(name(key), options, decide).unwrap();
                (version(outcome.old), outcome.stamp)
            }
            false => {
                let mut old = None;
                let stamp = keyspace.update_entry::<Error>(name(key), options, |lent| {
                    old = lent.map(|lent| (lent.stamp, lent.value.to_vec()));
                    Ok(decision.clone())
                });
                (old, stamp.unwrap())
            }
        };
        let value = match decision {
            Decision::Put(value) => Some(value.into_owned()),
            _ => None,
        };
        let what = match stamp {
            Some(stamp) => What::Based {
                stamp,
                changes: BTreeMap::from([(key, value)]),
                bases: BTreeMap::from([(key, old)]),
                read_at: None,
            },
            None => What::Strict {
                values: BTreeMap::from([(key, old.map(|(_, value)| value))]),
            },
        };
        let synced = synced && stamp.is_some();
        self.note(client.number, begin, synced, what);
    }

    fn write_both(&self, client: &mut Client) {
        let (mut batch, mut changes) = (WriteBatch::new(), BTreeMap::new());
        let first = client.seed.index(HOT);
        let second = (first + 1 + client.seed.index(HOT - 1)) % HOT;
        for key in [first, second] {
            let value = (!client.seed.one_in(5)).then(|| client.value());
            match &value {
                Some(value) => batch.put(&self.keyspaces[key], name(key), value),
                None => batch.delete(&self.keyspaces[key], name(key)),
            };
            changes.insert(key, value);
        }
        let (synced, options) = Self::options(client);
        let begin = self.tick();
        let stamp = self.db.write_with(&batch, options).unwrap();
        self.note(client.number, begin, synced, What::Wrote { stamp, changes });
    }

    /// A batch that is only written if its key is as a snapshot had it.
    fn write_unless_changed(&self, client: &mut Client, key: usize) {
        let (since, value) = (self.db.snapshot(), client.value());
        let keyspace = &self.keyspaces[key];
        let base = version(since.get_entry(keyspace, name(key)).unwrap());
        let mut batch = WriteBatch::new();
        batch.put(keyspace, name(key), &value);
        let (synced, options) = Self::options(client);
        let begin = self.tick();
        let written = self.db.write_if_unchanged(&batch, &since, options);
        if let Some(stamp) = written.unwrap() {
            let what = What::Based {
                stamp,
                changes: BTreeMap::from([(key, Some(value))]),
                bases: BTreeMap::from([(key, base)]),
                read_at: Some(since.stamp()),
            };
            self.note(client.number, begin, synced, what);
        }
    }

    fn note_read(&self, client: usize, key: usize) {
        let begin = self.tick();
        let found = version(self.keyspaces[key].get_entry(name(key)).unwrap());
        let (stamp, value) = found.unzip();
        self.note(client, begin, false, What::Got { key, value, stamp });
    }

    fn scan(&self, client: &mut Client, key: usize) {
        let backwards = client.seed.one_in(2);
        let is_beside = |other: &usize| !self.world.is_split || (other % 2 == key % 2);
        let keys = (0..HOT).filter(is_beside);
        let begin = self.tick();
        let iter = self.keyspaces[key].iter().unwrap();
        let (asked, pairs): (Vec<_>, Vec<_>) = match backwards {
            true => (keys.rev().collect(), iter.rev().collect()),
            false => (keys.collect(), iter.collect()),
        };
        let pair = |pair: velella::Result<(Vec<u8>, velella::Value)>| {
            let (key, value) = pair.unwrap();
            (usize::from(key[0]), value.to_vec())
        };
        let pairs = pairs.into_iter().map(pair).collect();
        self.note(client.number, begin, false, What::Scanned { asked, pairs });
    }

    /// Takes a snapshot and reads it, or reads the last one again.
    fn look(&self, client: &mut Client) {
        let (begin, scans) = (self.tick(), client.seed.one_in(2));
        let kept = client.kept.take();
        let is_old = kept.is_some();
        let snapshot = kept.unwrap_or_else(|| self.db.snapshot());
        let state = state(&snapshot, &self.keyspaces, scans);
        let at = snapshot.stamp();
        let what = match is_old {
            true => What::SawAgain { at, state },
            false => What::Saw { at, state },
        };
        if !is_old {
            client.kept = Some(snapshot);
        }
        self.note(client.number, begin, false, what);
    }

    /// What the background and a user with upkeep in mind do.
    fn keep_up(&self, mut seed: Seed) {
        for _ in 0..1 + seed.below(4) {
            match seed.below(4) {
                0 => self.db.flush().unwrap(),
                1 => self.db.compact().unwrap(),
                2 => simulation::step(&self.db, Step::Round).unwrap(),
                _ => simulation::step(&self.db, *seed.pick(&Step::ALL)).unwrap(),
            }
        }
    }

    /// Takes a picture of what a crash would leave, after some steps of the others.
    fn lose_power(&self, mut seed: Seed) {
        give_turns(&mut seed);
        let (durable, begun) = (self.db.durable(), self.tick());
        let fs = self.fs.image(seed.below(1 << 32), self.world.mode);
        let ended = self.tick();
        *self.left.lock().unwrap() = Some(Left {
            fs,
            crash: Crash { begun, ended },
            durable,
            is_open: Arc::default(),
        });
    }

    fn judge(&self, mut seed: Seed) -> Result<(), String> {
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        checker::check(&Before::new(), &events)?;
        let left = self.left.lock().unwrap().take().expect("a role's");
        let interrupter = seed.one_in(2).then(|| {
            let (left, mode) = (left.clone(), World::draw(&mut seed).mode);
            let mut seed = seed.fork(1);
            let crash = move || {
                give_turns(&mut seed);
                let is_open = left.is_open.load(Ordering::Relaxed);
                (is_open, mode, left.fs.image(seed.below(1 << 32), mode))
            };
            thread::spawn("crash", crash).unwrap()
        });
        let found = self.reopen(&left)?;
        let explain = |what| format!("{what}; {left:?}, {events:#?}");
        let prefix = |found: &Before| left.crash.check_prefix(&events, found, left.durable.0);
        match (self.world.journal, self.world.mode) {
            (JournalMode::Auto | JournalMode::Write, CrashMode::KeepAll) => {
                left.crash.check(&events, &found).map_err(explain)?;
            }
            _ => prefix(&found).map_err(explain)?,
        }
        let Some(interrupter) = interrupter else {
            return Ok(());
        };
        let (was_open, mode, fs) = interrupter.join().expect("a crash");
        let again = self.reopen(&Left {
            fs,
            is_open: Arc::default(),
            ..left
        })?;
        let is_the_same = again == found;
        let may_fall_back =
            !was_open && self.world.mode == CrashMode::KeepAll && mode != CrashMode::KeepAll;
        match is_the_same || may_fall_back && prefix(&again).is_ok() {
            true => Ok(()),
            false => Err(explain(format!(
                "R5: {found:?}, after a second crash ({mode:?}, open: {was_open}) {again:?}"
            ))),
        }
    }

    /// Opens what a crash left; what the keys hold (R4).
    fn reopen(&self, left: &Left) -> Result<Before, String> {
        let db = self.world.open(&left.fs);
        left.is_open.store(true, Ordering::Relaxed);
        let keyspaces = self.world.keyspaces(&db);
        let mut found = Before::new();
        for (key, keyspace) in keyspaces.iter().enumerate() {
            let entry = keyspace.get_entry(name(key)).unwrap();
            found.extend(entry.map(|entry| (key, (entry.stamp.0, entry.value.to_vec()))));
        }
        let value = |(key, (_, value)): (&usize, &(u64, Vec<u8>))| (*key, value.clone());
        let values: State = found.iter().map(value).collect();
        let snapshot = db.snapshot();
        for scans in [false, true] {
            let seen = state(&snapshot, &keyspaces, scans);
            if seen != values {
                return Err(format!("R4: get finds {values:?}, another way {seen:?}"));
            }
        }
        let last = found.values().map(|(stamp, _)| *stamp).max();
        let last = last.unwrap_or(0).max(left.durable.0);
        let next = db.put("next", "1").unwrap();
        match next.0 > last {
            true => Ok(found),
            false => Err(format!("R4: stamp {next} after {last}")),
        }
    }
}

impl Client {
    /// A value nobody wrote before.
    fn value(&mut self) -> Vec<u8> {
        self.written += 1;
        let mut value = format!("{}.{}.", self.number, self.written).into_bytes();
        if self.seed.one_in(8) {
            value.resize(*self.seed.pick(&LONG), b'x');
        }
        value
    }
}

/// Lets others do some steps: mostly few, sometimes hundreds.
fn give_turns(seed: &mut Seed) {
    let turns = 1 << seed.below(9);
    for _ in 0..seed.below(turns) {
        thread::yield_now();
    }
}

fn name(key: usize) -> [u8; 1] {
    [u8::try_from(key).expect("there are few keys")]
}

fn version(entry: Option<Entry>) -> Version {
    entry.map(|entry| (entry.stamp, entry.value.to_vec()))
}

/// All keys of a snapshot, one by one or by scans.
fn state(snapshot: &Snapshot, keyspaces: &[Keyspace; HOT], scans: bool) -> State {
    let mut state = State::new();
    for (key, keyspace) in keyspaces.iter().enumerate() {
        if scans {
            for pair in snapshot.iter(keyspace).unwrap() {
                let (key, value) = pair.unwrap();
                state.insert(usize::from(key[0]), value.to_vec());
            }
        } else {
            let value = snapshot.get(keyspace, name(key)).unwrap();
            state.extend(value.map(|value| (key, value.to_vec())));
        }
    }
    // Whoever opened what a crash left added one.
    state.retain(|key, _| *key < HOT);
    state
}
