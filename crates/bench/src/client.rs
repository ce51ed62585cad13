//! One thread of a benchmark: draws operations, does them, notes what it wrote, measures.
//!
//! C1. Whatever is drawn follows from the specification, the thread's number and how far inserts
//!     of the others are; so with one thread, from the specification alone.
//! C2. Every value read is copied out; every 32nd answer is checked whole; a key that must be there
//!     and is not, and a scan that shows fewer pairs than are due, end the run at once.
//! C3. In an open loop latency counts from the intended time, so a stall delays, in the figures,
//!     all that it delayed (no coordinated omission). Those of stretches in which the processor
//!     was slow or taken away are kept apart as well (`speed`); it is looked at between
//!     operations, whose latencies have that in them as they have the drawing of keys.
//!
//! Threads: one each. Tests: `drive`.

use crate::choice::Chooser;
use crate::done::{Done, SLOW, record, record_time};
use crate::due::Due;
use crate::failure::{Failure, Outcome};
use crate::keys::Keys;
use crate::ledger::Sample;
use crate::meters::own_processor_time;
use crate::present::{Marks, Present};
use crate::progress::Progress;
use crate::random::Random;
use crate::spec::{Operation, Pace, Spec};
use crate::speed::{Gauge, Times};
use crate::stolen;
use crate::store::Store;
use crate::values::Values;
use crate::witness::Scan;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Answers between two that are checked whole.
const CHECK_EVERY: u64 = 32;
/// Operations between two reports of progress, and between two looks at the clock.
const REPORT_EVERY: u64 = 256;
/// Sleeps are shorter by this than what is left to wait, and waits below twice as much are spent
/// looking at the clock: a sleep overshoots by nearly that, which would be booked as latency.
const OVERSHOT: Duration = Duration::from_micros(60);

/// What the threads of one benchmark share.
pub(crate) struct Shared<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) name: &'a str,
    pub(crate) spec: &'a Spec,
    pub(crate) chooser: &'a Chooser,
    pub(crate) values: &'a Values,
    pub(crate) sample: Sample,
    /// Which part of the process's work it is: no two parts write the same versions.
    pub(crate) part: u64,
    pub(crate) threads: u64,
    /// Keys of numbers below this were there at the beginning.
    pub(crate) base: u64,
    /// Whether every number below the bound has a key in the store.
    pub(crate) whole: bool,
    /// What was there at the beginning.
    pub(crate) before: &'a Present,
    /// What is put and deleted meanwhile, where the store is not whole.
    pub(crate) marks: &'a Marks,
    /// How many pairs scans must show.
    pub(crate) due: &'a Due,
    /// Per thread, how many keys it has inserted.
    pub(crate) inserted: &'a [AtomicU64],
    pub(crate) progress: &'a Progress,
    /// Somebody failed: stop.
    pub(crate) failed: &'a AtomicBool,
}

/// When a thread stops, and when its operations begin.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Schedule {
    /// So many, each after the one before.
    Count(u64),
    /// Each after the one before, until this much time is over.
    Time(Duration),
    /// One every `every`, so many. A look at the processor takes `usual`, if that is known
    /// (`speed`).
    Timed {
        every: Duration,
        count: u64,
        usual: Option<Duration>,
    },
}

/// Waits until `then`; what time it is. A client that has a microsecond to wait must not yield:
/// where another thread can run, that costs it a turn of milliseconds, and its next operations
/// would be blamed for them.
pub(crate) fn wait_until(then: Instant) -> Instant {
    loop {
        let now = Instant::now();
        let left = then.saturating_duration_since(now);
        if left.is_zero() {
            return now;
        }
        if left >= 2 * OVERSHOT {
            std::thread::sleep(left.saturating_sub(OVERSHOT));
        } else {
            std::hint::spin_loop();
        }
    }
}

/// One thread.
pub(crate) struct Client<'a> {
    shared: &'a Shared<'a>,
    thread: u64,
    random: Random,
    keys: Keys,
    value: Vec<u8>,
    out: Vec<u8>,
    versions: u64,
    in_order: u64,
    answers: u64,
    /// Operations that the last report of progress knew of.
    reported: u64,
    /// Where an open loop is prepared or run.
    gauge: Option<Gauge>,
    done: Done,
}

impl<'a> Client<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>, thread: u64) -> Self {
        let seed = shared.spec.seed ^ (shared.part << 32) ^ (thread << 16);
        Client {
            shared,
            thread,
            random: Random::new(seed),
            keys: shared.spec.key_maker(),
            value: Vec::new(),
            out: Vec::new(),
            versions: 0,
            in_order: 0,
            answers: 0,
            reported: 0,
            gauge: matches!(shared.spec.pace, Pace::Open { .. }).then(|| Gauge::new(None)),
            done: Done::new(shared.spec),
        }
    }

    /// Works `schedule` off.
    pub(crate) fn run(mut self, schedule: Schedule) -> Outcome<Done> {
        let before = own_processor_time();
        self.work_off(schedule)?;
        let own = self.shared.spec.reconnect_every == 0;
        let both = own_processor_time().zip(before).filter(|_| own);
        self.done.processor = both.map(|(after, before)| after.saturating_sub(before));
        Ok(self.done)
    }

    /// Not inlined, as its end: who counts instructions knows both by name (`callgrind`).
    #[inline(never)]
    fn work_off(&mut self, schedule: Schedule) -> Outcome<()> {
        self.done.start = Instant::now();
        let outcome = match schedule {
            Schedule::Count(count) => self.count(count),
            Schedule::Time(time) => self.closed(u64::MAX, Some(time)),
            Schedule::Timed {
                every,
                count,
                usual,
            } => {
                self.gauge = usual.map(|usual| Gauge::new(Some(usual)));
                self.open(every, count)
            }
        };
        self.end(outcome)
    }

    #[inline(never)]
    fn end(&mut self, outcome: Outcome<()>) -> Outcome<()> {
        self.done.end = Instant::now();
        // Relaxed: others only stop sooner for it.
        outcome.inspect_err(|_| self.shared.failed.store(true, Ordering::Relaxed))
    }

    /// Does `count` operations, as often as asked for on another thread.
    fn count(&mut self, count: u64) -> Outcome<()> {
        let every = self.shared.spec.reconnect_every;
        if every == 0 {
            return self.closed(count, None);
        }
        let mut left = count;
        // Relaxed: to stop sooner.
        while left > 0 && !self.shared.failed.load(Ordering::Relaxed) {
            let now = left.min(every);
            let ended = std::thread::scope(|scope| scope.spawn(|| self.closed(now, None)).join());
            let died = || Failure::system("measure", "a thread ended in a panic");
            ended.unwrap_or_else(|_| Err(died()))?;
            left -= now;
        }
        Ok(())
    }

    fn closed(&mut self, count: u64, time: Option<Duration>) -> Outcome<()> {
        let every = self.shared.spec.latency_every;
        // The first operation of a connection is the one that reconnecting is about.
        let mut until_measured = match self.shared.spec.reconnect_every {
            0 => every,
            _ => every.min(1),
        };
        let mut left = count;
        while left > 0 {
            if self.is_report_due() && self.report(time) {
                return Ok(());
            }
            let (index, operation) = self.draw_operation();
            if let Operation::ReadInOrder { backwards } = operation {
                let read = self.read_in_order(backwards, left)?;
                self.done.operations += read;
                left -= read;
                continue;
            }
            if until_measured == 1 {
                until_measured = every;
                let start = Instant::now();
                self.perform(operation)?;
                record(&mut self.done.latencies[index], start);
            } else {
                until_measured = until_measured.wrapping_sub(1);
                self.perform(operation)?;
            }
            self.done.operations += 1;
            left -= 1;
        }
        Ok(())
    }

    fn open(&mut self, every: Duration, count: u64) -> Outcome<()> {
        let start = Instant::now();
        for n in 0..count {
            if self.is_report_due() && self.report(None) {
                return Ok(());
            }
            let (index, operation) = self.draw_operation();
            let offset = every.as_secs_f64() * crate::result::float(n);
            let intended = start + Duration::from_secs_f64(offset);
            let begun = wait_until(intended);
            self.perform(operation)?;
            let end = Instant::now();
            record_time(&mut self.done.latencies[index], end - intended);
            if let Some(gauge) = &mut self.gauge {
                let times = Times {
                    intended,
                    begun,
                    end,
                };
                if gauge.is_in_stretch(times, stolen::has_grown_since) {
                    record_time(&mut self.done.in_stretches, end - intended);
                }
            }
            self.done.took_max = self.done.took_max.max(end - begun);
            if end - begun > SLOW {
                self.done.slow.push((begun, end));
            }
            self.done.operations += 1;
        }
        Ok(())
    }

    #[inline]
    fn is_report_due(&self) -> bool {
        self.done.operations - self.reported >= REPORT_EVERY
    }

    /// Tells how far all are; whether it is time to stop.
    fn report(&mut self, time: Option<Duration>) -> bool {
        // Relaxed: for people, and to stop sooner.
        let progress = self.shared.progress;
        let more =
            self.done.operations - std::mem::replace(&mut self.reported, self.done.operations);
        progress.done.fetch_add(more, Ordering::Relaxed);
        progress.inserted.fetch_max(self.bound(), Ordering::Relaxed);
        if let Some(gauge) = &mut self.gauge {
            let look = gauge.look();
            // To be known of what saturation is measured by.
            if time.is_some() {
                self.done.looks.push(look);
            }
        }
        let over = time.is_some_and(|time| self.done.start.elapsed() >= time);
        over || self.shared.failed.load(Ordering::Relaxed)
    }

    #[inline]
    fn draw_operation(&mut self) -> (usize, Operation) {
        let mix = self.shared.spec.mix();
        if mix.len() > 1 {
            let mut left = self.random.unit();
            for (index, (operation, share)) in mix.iter().enumerate() {
                if left < *share {
                    return (index, *operation);
                }
                left -= share;
            }
        }
        (0, mix[0].0)
    }

    /// Keys of numbers below this are there, or may be.
    #[inline]
    fn bound(&self) -> u64 {
        let shared = self.shared;
        // Acquire, partner: the Release in `insert`. Who counts a key finds it.
        let inserted = shared.inserted.iter().map(|n| n.load(Ordering::Acquire));
        let all = shared.base + inserted.min().unwrap_or(0) * shared.threads;
        if shared.whole {
            all
        } else {
            shared.spec.records
        }
    }

    #[inline]
    fn draw(&mut self) -> u64 {
        let bound = self.bound().max(1);
        let tables = self.shared.spec.keys.tables();
        if tables == 1 {
            return self.shared.chooser.draw(&mut self.random, bound);
        }
        let table = self.draw_table(tables);
        // A table has a number if the one before its multiple is there.
        let bound = (bound / tables).max(1);
        self.shared.chooser.draw(&mut self.random, bound) * tables + table
    }

    /// Draws a table: of all, or of this thread's where each table has its store and its threads.
    fn draw_table(&mut self, tables: u64) -> u64 {
        let shared = self.shared;
        if !shared.spec.store_for_each {
            return self.random.below(tables);
        }
        let first = self.thread % tables;
        let own = (tables - first).div_ceil(shared.threads).max(1);
        first + shared.threads * self.random.below(own)
    }

    fn perform(&mut self, operation: Operation) -> Outcome<()> {
        match operation {
            Operation::Insert => self.insert(),
            Operation::Update => {
                let n = self.draw();
                self.put(n)
            }
            Operation::UpdateInOrder { disjoint } => {
                let n = self.next_in_order(disjoint);
                self.put(n)
            }
            Operation::Get => {
                let n = self.draw();
                self.get(n, self.shared.whole)
            }
            Operation::GetMissing => self.get_missing(),
            Operation::Scan { from, to } => {
                let count = from + self.random.below((to - from + 1).max(1));
                self.scan(count, Keys::key)
            }
            Operation::ScanPrefix { pairs } => self.scan(pairs, Keys::prefix),
            Operation::ReadInOrder { backwards } => self.read_in_order(backwards, 1).map(|_| ()),
            Operation::ReadThenWrite => {
                let n = self.draw();
                self.get(n, self.shared.whole)?;
                self.put(n)
            }
            Operation::PutIfAbsent => self.put_if_absent(),
            Operation::Replace => self.replace(),
            Operation::Delete => self.delete(),
        }
    }

    fn insert(&mut self) -> Outcome<()> {
        let shared = self.shared;
        let own = &shared.inserted[usize::try_from(self.thread).unwrap_or(0)];
        // Relaxed: only this thread writes it.
        let before = own.load(Ordering::Relaxed);
        let n = shared.base + before * shared.threads + self.thread;
        self.store(n)?;
        // Release, partner: the Acquire in `bound`.
        own.store(before + 1, Ordering::Release);
        Ok(())
    }

    fn next_in_order(&mut self, disjoint: bool) -> u64 {
        let shared = self.shared;
        let n = self.in_order;
        self.in_order += 1;
        if disjoint {
            let range = (shared.spec.records / shared.threads).max(1);
            self.thread * range + n % range
        } else {
            n % shared.spec.records
        }
    }

    fn next_version(&mut self) -> u64 {
        self.versions += 1;
        (self.shared.part << 52) | (self.thread << 40) | self.versions
    }

    /// Puts a drawn key.
    fn put(&mut self, n: u64) -> Outcome<()> {
        self.store(n)?;
        self.mark(n);
        Ok(())
    }

    /// Makes known that key number `n` is there.
    #[inline]
    fn mark(&mut self, n: u64) {
        if !self.shared.whole {
            self.shared.marks.put(n, &mut self.done.notes);
        }
    }

    fn store(&mut self, n: u64) -> Outcome<()> {
        let version = self.next_version();
        let key = self.keys.key(n);
        self.shared.values.fill(key, version, &mut self.value);
        self.shared.store.put(key, &self.value)?;
        self.done.bytes_put += (key.len() + self.value.len()) as u64;
        if self.shared.sample.follows(n) {
            self.done.notes.note(n, Some(version));
        }
        Ok(())
    }

    fn put_if_absent(&mut self) -> Outcome<()> {
        let n = self.draw();
        let version = self.next_version();
        let key = self.keys.key(n);
        self.shared.values.fill(key, version, &mut self.value);
        if self.shared.store.put_if_absent(key, &self.value)? {
            self.done.bytes_put += (key.len() + self.value.len()) as u64;
            if self.shared.sample.follows(n) {
                self.done.notes.note(n, Some(version));
            }
            self.done.missed += 1;
        } else {
            self.done.found += 1;
        }
        self.mark(n);
        Ok(())
    }

    fn replace(&mut self) -> Outcome<()> {
        let shared = self.shared;
        let n = self.draw();
        let version = self.next_version();
        let out = &mut self.out;
        let key = self.keys.key(n);
        shared.values.fill(key, version, &mut self.value);
        let replaced = shared.store.replace(key, &self.value, &mut |old| {
            out.clear();
            out.extend_from_slice(old);
        })?;
        let Some(found) = replaced else {
            return Err(Failure::Unfit {
                store: shared.name.to_owned(),
                lacks: "read-modify-write".to_owned(),
            });
        };
        self.done.bytes_put += (key.len() + self.value.len()) as u64;
        if shared.sample.follows(n) {
            self.done.notes.note(n, Some(version));
        }
        self.mark(n);
        self.judge(n, found, shared.whole)
    }

    fn delete(&mut self) -> Outcome<()> {
        let n = self.draw();
        // Before it is gone: who misses it must know why.
        self.shared.marks.delete(n, &mut self.done.notes);
        self.shared.store.delete(self.keys.key(n))?;
        if self.shared.sample.follows(n) {
            self.done.notes.note(n, None);
        }
        Ok(())
    }

    fn get(&mut self, n: u64, must_be_there: bool) -> Outcome<()> {
        let out = &mut self.out;
        let key = self.keys.key(n);
        let found = self.shared.store.get(key, &mut |value| {
            out.clear();
            out.extend_from_slice(value);
        })?;
        self.judge(n, found, must_be_there)
    }

    /// Judges what was said of key number `n`; its value, if it was `found`, is in `out`.
    fn judge(&mut self, n: u64, found: bool, must_be_there: bool) -> Outcome<()> {
        self.answers += 1;
        if !found {
            self.done.missed += 1;
            let shared = self.shared;
            let was_there = || shared.before.surely(n) && !shared.marks.may_have_deleted(n);
            if must_be_there || was_there() {
                return Err(self.wrong(format!("key number {n} is not there, but was put")));
            }
            return Ok(());
        }
        self.done.found += 1;
        if self.answers.is_multiple_of(CHECK_EVERY) {
            self.done.checked += 1;
            let key = self.keys.key(n);
            if self.shared.values.check(key, &self.out).is_none() {
                let found = format!("the value of key number {n} was never put under it");
                return Err(self.wrong(found));
            }
        }
        Ok(())
    }

    fn get_missing(&mut self) -> Outcome<()> {
        let n = self.random.below(self.shared.spec.records.max(1));
        let n = self.keys.missing(n);
        let key = self.keys.key(n);
        if self.shared.store.get(key, &mut |_| ())? {
            return Err(self.wrong(format!("key number {n} has a value, but was never put")));
        }
        self.done.missed += 1;
        self.done.checked += 1;
        Ok(())
    }

    /// Scans `count` pairs from what `begin` makes of a drawn number on.
    fn scan(&mut self, count: u64, begin: fn(&mut Keys, u64) -> &[u8]) -> Outcome<()> {
        let n = self.draw();
        let values = self.shared.values;
        self.answers += 1;
        let checked = self.answers.is_multiple_of(CHECK_EVERY);
        let first = begin(&mut self.keys, n);
        let mut shown = Vec::new();
        let mut wrong = None;
        let out = &mut self.out;
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let mut seen = 0;
        let told = self.shared.store.scan(first, most, &mut |key, value| {
            seen += 1;
            out.clear();
            out.extend_from_slice(key);
            out.extend_from_slice(value);
            if checked {
                if values.check(key, value).is_none() {
                    wrong = Some("a scan showed a value that was never put under its key");
                }
                shown.push(key.to_vec());
            }
        })?;
        if told != seen || seen < self.shared.due.pairs(first, most) || seen > most {
            wrong = Some("a scan showed fewer or more pairs than there were");
        }
        if checked {
            let scan = Scan {
                from: first.to_vec(),
                count,
                shown,
            };
            if !scan.is_in_order() {
                wrong = Some("a scan went backwards");
            }
            self.done.kept.keep(scan);
        }
        self.done.found += seen as u64;
        self.done.checked += u64::from(checked);
        match wrong {
            Some(found) => Err(self.wrong(format!("{found}, from key number {n} on"))),
            None => Ok(()),
        }
    }

    /// Reads up to `most` pairs from the first on, or from the last backwards, in one scan; how
    /// many there were.
    fn read_in_order(&mut self, backwards: bool, most: u64) -> Outcome<u64> {
        let values = self.shared.values;
        let (mut seen, mut checked, mut wrong) = (0_u64, 0, None);
        let (out, before) = (&mut self.out, &mut self.value);
        let mut visit = |key: &[u8], value: &[u8]| {
            out.clear();
            out.extend_from_slice(key);
            out.extend_from_slice(value);
            let in_order = seen == 0 || (key < before.as_slice()) == backwards && key != *before;
            if !in_order {
                wrong = Some("pairs came out of order");
            }
            before.clear();
            before.extend_from_slice(key);
            seen += 1;
            if seen.is_multiple_of(CHECK_EVERY) {
                checked += 1;
                if values.check(key, value).is_none() {
                    wrong = Some("a value was never put under its key");
                }
            }
        };
        let count = usize::try_from(most).unwrap_or(usize::MAX);
        let told = match backwards {
            false => self.shared.store.scan(&[], count, &mut visit)?,
            true => self.shared.store.scan_back(count, &mut visit)?,
        };
        if told as u64 != seen || self.shared.whole && seen != most.min(self.bound()) {
            wrong = Some("there were more or fewer pairs than were put");
        }
        if seen == 0 {
            wrong = Some("there was nothing to read");
        }
        self.done.found += seen;
        self.done.checked += checked;
        match wrong {
            Some(found) => Err(self.wrong(format!("{found}, reading in order"))),
            None => Ok(seen),
        }
    }

    fn wrong(&self, found: String) -> Failure {
        Failure::WrongAnswer {
            store: self.shared.name.to_owned(),
            found,
        }
    }
}
