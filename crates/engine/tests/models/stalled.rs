//! A thread stands still after each of its steps, one after the other, while others run: what waits
//! for it is what the table of docs/concurrency.md says, in that order, and nothing else.
//!
//! F1. The scheduler lets the stalled thread take so many steps; then each of the others alone,
//!     until it has ended or can do nothing but wait; then all by turns, until all have ended.
//! F2. A step is what shuttle counts as one: an access to an atomic, a lock or a thread, of the
//!     product's code as it is. Files are the machine's: `MemFs` has one lock for all of its own.
//! F3. Steps after which the same operations wait are one row. Rows come in the order of steps, so
//!     one that is missing, too much or elsewhere is told apart.
//! F4. Whoever waited ends once the stalled thread goes on, or shuttle says that it does not.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use velella::{Db, Decision, Error, JournalMode, MemtableKind, Snapshot, WriteBatch, WriteOptions};
use velella_base::put_in;
use velella_sync::thread;

pub(crate) type Operation = fn(&Db);

/// Operations by name, which run one after the other beside a thread that stands still.
type Company = &'static [(&'static str, Operation)];

/// Operations that wait after the same steps, by name.
pub(crate) type Row = &'static [&'static str];

/// Lanes of the journal: one for each thread that writes.
const LANES: usize = 6;
/// Steps after which a thread that has not ended waits for something. A flush, the longest of
/// all, takes some 2,000 where it waits for nobody.
const PATIENCE: usize = 1 << 14;

/// The key that the stalled thread is at.
pub(crate) const KEY: &str = "k";

/// What runs beside the thread that stands still: as the columns of the table, and some that it
/// does not have. Each company has a database of its own, since whoever waits stays where it is
/// while the next one runs: a switch draws a stamp, and without a journal a sync is one.
const COMPANIES: [Company; 3] = [
    &[
        ("get", |db| {
            db.get(KEY).unwrap();
        }),
        ("strict get", |db| {
            db.get_strict(KEY).unwrap();
        }),
        ("snapshot", |db| look(db, KEY)),
        ("snapshot elsewhere", |db| look(db, "n")),
        ("scan", |db| {
            assert!(db.iter().unwrap().all(|pair| pair.is_ok()));
        }),
        ("put", |db| put(db, KEY)),
        ("update", |db| {
            db.rmw(KEY, |_| Decision::Delete).unwrap();
        }),
        ("batch", |db| put_both(db, "a", KEY)),
        ("put elsewhere", |db| put(db, "n")),
        ("insert elsewhere", |db| put(db, "kk")),
        ("later snapshot", |db| look(db, KEY)),
    ],
    &[
        ("sync", sync),
        ("put between", |db| put(db, "n")),
        ("later sync", sync),
    ],
    &[("switch", |db| db.flush().unwrap())],
];

pub(crate) fn put(db: &Db, key: &str) {
    db.put(key, "2").unwrap();
}

pub(crate) fn put_both(db: &Db, one: &str, other: &str) {
    let mut batch = WriteBatch::new();
    batch.put(db, one, "2").put(db, other, "2");
    db.write(&batch).unwrap();
}

/// A transaction that loses its first attempt; to its own thread, which a model does not refuse.
pub(crate) fn write_alone(db: &Db) {
    let mut calls = 0;
    let decide = |_: &Snapshot, batch: &mut WriteBatch| {
        calls += 1;
        if calls == 1 {
            put(db, KEY);
        }
        batch.put(db, KEY, "3");
        Ok::<_, Error>(())
    };
    assert!(db.transact(WriteOptions::default(), decide).is_ok());
}

pub(crate) fn sync(db: &Db) {
    db.persist().unwrap();
}

pub(crate) fn look(db: &Db, key: &str) {
    db.snapshot().get(db, key).unwrap();
}

/// A thread that will stand still, and its database.
#[derive(Clone, Copy)]
pub(crate) struct Stalled {
    pub(crate) name: &'static str,
    pub(crate) operation: Operation,
    pub(crate) journal: JournalMode,
    pub(crate) memtable: MemtableKind,
}

impl Stalled {
    pub(crate) const fn new(name: &'static str, operation: Operation) -> Stalled {
        Stalled {
            name,
            operation,
            journal: JournalMode::Mapped,
            memtable: MemtableKind::S3,
        }
    }

    /// Just what is in `rows` waits, in this order.
    pub(crate) fn stops(self, rows: &[Row]) {
        let start = Instant::now();
        let (found, executions) = self.rows(&COMPANIES, None);
        self.say("", executions, start, "holds");
        assert_eq!(found, rows, "stalled {}: what waits for it", self.name);
    }

    /// Nothing but `these` ever waits.
    pub(crate) fn stops_only(self, these: Row) {
        let start = Instant::now();
        let (found, executions) = self.rows(&COMPANIES, None);
        self.say("", executions, start, "holds");
        let other = found.iter().flatten().find(|name| !these.contains(name));
        assert_eq!(
            other, None,
            "stalled {}: waits for it in {found:?}",
            self.name
        );
    }

    /// Of what is in `columns`, all of the first company, just what is in `rows` waits, in this
    /// order.
    pub(crate) fn stops_of(self, columns: Row, rows: &[Row]) {
        let start = Instant::now();
        let (mut found, executions) = self.rows(&COMPANIES[..1], None);
        self.say("", executions, start, "holds");
        for row in &mut found {
            row.retain(|name| columns.contains(name));
        }
        found.dedup();
        assert_eq!(found, rows, "stalled {}: what waits for it", self.name);
    }

    /// With `fault` put in, just what is in `rows` waits.
    pub(crate) fn stops_with(self, fault: &'static str, rows: &[Row]) {
        let start = Instant::now();
        let (found, executions) = self.rows(&COMPANIES, Some(fault));
        self.say(fault, executions, start, "control fails, as it must");
        assert_eq!(found, rows, "stalled {} with {fault}", self.name);
    }

    /// The line of a model, as `velella_sync::model` prints them.
    fn say(self, fault: &str, executions: usize, start: Instant, verdict: &str) {
        println!(
            "model: engine/stalled, {}, {:?}, {:?}{}{fault} | every step, shuttle | {executions} \
             | {:.2} | {verdict}",
            self.name,
            self.memtable,
            self.journal,
            if fault.is_empty() { "" } else { ", " },
            start.elapsed().as_secs_f64(),
        );
    }

    /// F3, and the number of executions that it took.
    fn rows(
        self,
        companies: &[Company],
        fault: Option<&'static str>,
    ) -> (Vec<Vec<&'static str>>, usize) {
        let waits = companies.iter().map(|others| self.waits(others, fault));
        let waits: Vec<_> = waits.collect();
        let steps = waits[0].len();
        assert!(waits.iter().all(|each| each.len() == steps), "steps repeat");
        let mut rows: Vec<Vec<&str>> = (0..steps)
            .map(|step| waits.iter().flat_map(|each| each[step].clone()).collect())
            .collect();
        rows.dedup();
        (rows, steps * companies.len())
    }

    /// Which of `others` wait, for each number of steps after which the stalled thread stands
    /// still.
    fn waits(self, others: Company, fault: Option<&'static str>) -> Vec<Vec<&'static str>> {
        let stage = Arc::new(Stage::new(others.len()));
        let mut config = Config::new();
        config.stack_size = 256 << 10;
        config.failure_persistence = FailurePersistence::None;
        config.max_steps = MaxSteps::FailAfter(1 << 19);
        config.silence_warnings = true;
        let scheduler = Director::new(Arc::clone(&stage));
        let for_body = Arc::clone(&stage);
        Runner::new(scheduler, config).run(move || self.run(&for_body, others, fault));
        let mut waits = std::mem::take(&mut *stage.waits.lock().unwrap());
        let after_its_end = waits.pop().expect("there is an execution");
        assert!(!after_its_end.contains(&true), "someone waits for nobody");
        let names = |waits: Vec<bool>| {
            let waiting = others.iter().zip(waits).filter(|(_, waits)| *waits);
            waiting.map(|((name, _), _)| *name).collect()
        };
        waits.into_iter().map(names).collect()
    }

    fn run(self, stage: &Arc<Stage>, others: Company, fault: Option<&'static str>) {
        put_in(None);
        // In memory where that can be, since nobody here is to wait for a device.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let dir = dir.unwrap();
        let db = super::small::builder(LANES)
            .journal(self.journal)
            .memtable(self.memtable)
            .open(dir.path())
            .unwrap();
        let other = db.create_keyspace("other", Default::default()).unwrap();
        other.put("k", "0").unwrap();
        warm_up(&db);
        put_in(fault);
        let operations = std::iter::once(self.operation).chain(others.iter().map(|other| other.1));
        let threads: Vec<_> = operations
            .enumerate()
            .map(|(number, operation)| {
                let (stage, db) = (Arc::clone(stage), db.clone());
                let body = move || {
                    operation(&db);
                    drop(db);
                    stage.ended[number].set();
                };
                thread::spawn("role", body).unwrap()
            })
            .collect();
        stage.is_set.set();
        for thread in threads {
            thread.join().expect("a thread failed");
        }
        put_in(None);
    }
}

/// Writes through every lane, so that each has a segment, and each memtable memory: what a write
/// does once in a thousand times is not what the table is about.
fn warm_up(db: &Db) {
    db.put_with(KEY, "1", WriteOptions::sync()).unwrap();
    let writers: Vec<_> = ["a", KEY, "n", "a", KEY, "n"][..LANES]
        .iter()
        .map(|key| {
            let db = db.clone();
            let body = move || (0..4).for_each(|_| put(&db, key));
            thread::spawn("role", body).unwrap()
        })
        .collect();
    for writer in writers {
        writer.join().expect("a writer failed");
    }
}

/// A flag between threads of a model and its scheduler, which all are one of the machine's, so
/// that it needs no ordering; the standard library's, for it is no step.
#[derive(Default)]
struct Flag(AtomicBool);

impl Flag {
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the scheduler and the threads tell each other.
struct Stage {
    /// All threads are there.
    is_set: Flag,
    /// Whether the stalled thread has ended, and each of the others.
    ended: Vec<Flag>,
    /// Which of the others waited, in each execution.
    waits: Mutex<Vec<Vec<bool>>>,
}

impl Stage {
    fn new(others: usize) -> Self {
        Stage {
            is_set: Flag::default(),
            ended: (0..=others).map(|_| Flag::default()).collect(),
            waits: Mutex::default(),
        }
    }
}

#[derive(Clone, Copy)]
enum Phase {
    /// The database is opened, the threads are started.
    Setting,
    /// The stalled thread has so many steps left.
    Walking {
        left: usize,
    },
    /// The other thread of this number has taken so many.
    Alone {
        number: usize,
        taken: usize,
    },
    Together,
}

/// F1.
struct Director {
    stage: Arc<Stage>,
    phase: Phase,
    /// Steps of the stalled thread in the next execution.
    steps: usize,
    /// The stalled thread ended before it stood still.
    is_through: bool,
    /// The stalled thread and the others. Threads which those start have later numbers.
    threads: Vec<TaskId>,
    /// The last thread that was there when the one that runs began to.
    last: Option<TaskId>,
    draws: u64,
}

impl Director {
    fn new(stage: Arc<Stage>) -> Self {
        Director {
            stage,
            phase: Phase::Setting,
            steps: 0,
            is_through: false,
            threads: Vec::new(),
            last: None,
            draws: 0,
        }
    }

    /// Who of `runnable` is the thread of this number, or started by it.
    fn of(&self, number: usize, runnable: &[TaskId]) -> Option<TaskId> {
        let mut ids = runnable.iter().copied();
        ids.find(|id| *id == self.threads[number] || Some(*id) > self.last)
    }

    /// Lets the other thread of this number run alone from now on, if there is one.
    fn turn_to(&mut self, number: usize, runnable: &[TaskId]) {
        self.last = self.last.max(runnable.last().copied());
        self.phase = match self.threads.get(number) {
            Some(_) => Phase::Alone { number, taken: 0 },
            None => Phase::Together,
        };
    }
}

impl Scheduler for Director {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.is_through {
            return None;
        }
        self.stage.is_set.clear();
        self.stage.ended.iter().for_each(Flag::clear);
        self.stage.waits.lock().unwrap().push(Vec::new());
        self.phase = Phase::Setting;
        self.last = None;
        self.draws = 0;
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        _is_yielding: bool,
    ) -> Option<TaskId> {
        let runnable: Vec<TaskId> = runnable.iter().map(|task| task.id()).collect();
        let by_turns = || {
            let later = runnable.iter().find(|id| current < Some(**id));
            later.or(runnable.first()).copied()
        };
        loop {
            match self.phase {
                // The first thread goes on until it joins those that it started.
                Phase::Setting if usize::from(runnable[0]) == 0 => return Some(runnable[0]),
                Phase::Setting if !self.stage.is_set.is_set() => return by_turns(),
                Phase::Setting => {
                    self.threads.clone_from(&runnable);
                    assert_eq!(runnable.len(), self.stage.ended.len(), "other threads");
                    self.last = runnable.last().copied();
                    self.phase = Phase::Walking { left: self.steps };
                }
                Phase::Walking { left } => match self.of(0, &runnable) {
                    Some(stalled) if left > 0 => {
                        self.phase = Phase::Walking { left: left - 1 };
                        return Some(stalled);
                    }
                    _ => {
                        self.steps += 1;
                        self.is_through = self.stage.ended[0].is_set();
                        assert!(left == 0 || self.is_through, "it waits by itself");
                        assert!(self.steps < PATIENCE, "it does not end by itself");
                        self.turn_to(1, &runnable);
                    }
                },
                Phase::Alone { number, taken } => {
                    let has_ended = self.stage.ended[number].is_set();
                    let it = self.of(number, &runnable);
                    if let Some(it) = it.filter(|_| !has_ended && taken < PATIENCE) {
                        let taken = taken + 1;
                        self.phase = Phase::Alone { number, taken };
                        return Some(it);
                    }
                    let mut waits = self.stage.waits.lock().unwrap();
                    waits.last_mut().expect("an execution").push(!has_ended);
                    drop(waits);
                    self.turn_to(number + 1, &runnable);
                }
                Phase::Together => return by_turns(),
            }
        }
    }

    fn next_u64(&mut self) -> u64 {
        self.draws = self.draws.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.draws ^ (self.draws >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 27)
    }
}
