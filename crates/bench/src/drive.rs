//! Runs one mix of operations against an open store: threads, schedules, checks, counts.
//!
//! D1. The time is from the first thread's start to the last thread's end; and on until all is
//!     compacted, where a benchmark is about that.
//! D2. Nothing is counted that happened outside of that time, but for background work of the store
//!     that an earlier benchmark caused.
//! D3. Afterwards the store is audited; a wrong answer fails the run.
//!
//! Threads: starts the clients and joins them. Tests: `drive/tests.rs`.

mod idle;
pub(crate) mod bare;
mod open_loop;
#[cfg(test)]
mod tests;

use crate::audit::{Known, audit};
use crate::chains;
use crate::choice::{Choice, Chooser};
use crate::client::{Client, Schedule, Shared};
use crate::done::{All, Done, histogram};
use crate::due::Due;
use crate::failure::{Failure, Outcome};
use crate::ledger::{Notes, Sample};
use crate::meters::{Meters, grown, processor_time, resident};
use crate::present::{Marks, Present};
use crate::progress::Progress;
use crate::result::{Latencies, Measurement, float};
use crate::spec::{Body, Operation, Pace, Spec};
use crate::speed;
use crate::store::Store;
use crate::values::Values;
use crate::witness;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};
use velella_cli::line::Line;

/// A store at work.
pub(crate) struct Bench<'a> {
    pub(crate) store: &'a dyn Store,
    pub(crate) name: &'a str,
    pub(crate) threads: u64,
    pub(crate) known: &'a mut Known,
    pub(crate) meters: &'a mut Meters,
    pub(crate) part: &'a mut u64,
    pub(crate) progress: &'a Progress,
}

/// What an open loop is to do.
#[derive(Debug, Clone, Copy)]
struct Aim {
    /// Operations a second.
    rate: f64,
    seconds: f64,
    /// How long a look at the processor took when saturation was measured, if it was (`speed`).
    usual: Option<Duration>,
}

impl Bench<'_> {
    /// Puts every record once, unmeasured, with what `spec` says of keys and values.
    pub(crate) fn load(&mut self, spec: &Spec) -> Outcome<()> {
        let mut load = spec.clone();
        load.body = Body::Mix(vec![(Operation::Insert, 1.0)]);
        load.latency_every = 0;
        load.beside = None;
        load.reconnect_every = 0;
        let records = spec.records;
        let all = self.threads_run(&load, |threads, thread| {
            Schedule::Count(portion(records, threads, thread))
        })?;
        debug_assert_eq!(all.operations, records);
        Ok(())
    }

    /// Runs `spec`, whose body is a mix.
    pub(crate) fn mix(&mut self, spec: &Spec, round: u64) -> Outcome<Measurement> {
        if !spec.before.is_empty() {
            let mut before = spec.clone();
            before.body = Body::Mix(spec.before.clone());
            before.latency_every = 0;
            before.beside = None;
            before.reconnect_every = 0;
            self.threads_run(&before, |threads, thread| {
                Schedule::Count(portion(spec.records, threads, thread))
            })?;
        }
        if spec.warm_up > 0 {
            self.threads_run(spec, |threads, thread| {
                Schedule::Count(portion(spec.warm_up, threads, thread))
            })?;
        }
        let mut figures = BTreeMap::new();
        let aim = self.aim(spec, &mut figures)?;
        // Not before the rate was found: what that counted is of no operation that is measured.
        let (before, counted) = (self.meters.read(), self.store.counters());
        let mut all = match aim {
            Some(aim) => self.open_loop(spec, aim, &mut figures)?,
            None => self.threads_run(spec, |threads, thread| {
                Schedule::Count(portion(spec.operations, threads, thread))
            })?,
        };
        if let Some((beside, seconds)) = all.beside {
            let rate = float(beside) / seconds.max(1e-9);
            figures.insert("beside_per_second".to_owned(), rate);
        }
        if spec.drained {
            let (started, before) = (Instant::now(), processor_time("self"));
            self.store.settle()?;
            let settling = processor_time("self").zip(before);
            let both = all.process.zip(settling);
            all.process =
                both.map(|(process, (after, before))| process + after.saturating_sub(before));
            if spec.drain_timed {
                let seconds = started.elapsed().as_secs_f64();
                figures.insert("before_compaction_seconds".to_owned(), all.seconds);
                figures.insert("compaction_seconds".to_owned(), seconds);
                all.seconds += seconds;
            }
        }
        let mut meters = grown(&before, &self.meters.read());
        let (now, most) = resident();
        if let Some((process, clients)) = all.process.zip(all.processor) {
            let others = process.saturating_sub(clients);
            for (name, time) in [("clients", clients), ("others", others)] {
                let name = format!("processor_ns_of_{name}");
                meters.insert(name, time.as_secs_f64() * 1e9);
            }
        }
        meters.insert("resident_bytes".to_owned(), float(now));
        meters.insert("resident_bytes_max".to_owned(), float(most));
        let counters = self.counters_since(&counted);
        let values = Values::new(usize::try_from(spec.value_bytes).unwrap_or(0), spec.seed);
        figures.extend(self.shape(spec, all.operations)?);
        let audited = audit(self.store, self.name, spec, &values, self.known)?;
        let (whole, by_operation) = together(spec, &all.latencies);
        Ok(Measurement {
            benchmark: spec.name.clone(),
            store: self.name.to_owned(),
            threads: self.threads,
            round,
            operations: all.operations,
            seconds: all.seconds,
            bytes_put: all.bytes_put,
            found: all.found,
            missed: all.missed,
            checked: all.checked + audited,
            latencies: Latencies::of(&whole),
            latencies_by_operation: by_operation,
            meters,
            counters,
            figures,
        })
    }

    /// What an open loop is to do: operations a second as given, or its share of what a closed one
    /// does.
    fn aim(&mut self, spec: &Spec, figures: &mut BTreeMap<String, f64>) -> Outcome<Option<Aim>> {
        let Pace::Open {
            rate,
            share,
            measure_seconds,
            seconds,
        } = spec.pace
        else {
            return Ok(None);
        };
        let (rate, usual) = match rate {
            Some(given) => (float(given), None),
            None => {
                let time = Duration::from_secs_f64(measure_seconds.min(seconds));
                let closed = self.threads_run(spec, |_, _| Schedule::Time(time))?;
                let saturated = float(closed.operations) / closed.seconds.max(1e-9);
                figures.insert("saturation_per_second".to_owned(), saturated);
                (saturated * share, speed::median(closed.looks))
            }
        };
        figures.insert("intended_per_second".to_owned(), rate);
        Ok(Some(Aim {
            rate,
            seconds,
            usual,
        }))
    }

    /// How skewed the draws were, and what that made of a memtable.
    fn shape(&self, spec: &Spec, draws: u64) -> Outcome<Vec<(String, f64)>> {
        let mut figures = skew(spec, draws);
        if spec.settings.counters {
            figures.extend(chains::figures(self.store)?);
        }
        Ok(figures)
    }

    pub(crate) fn counters_since(&self, before: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut counters = self.store.counters();
        for (name, count) in &mut counters {
            *count = count.saturating_sub(before.get(name).copied().unwrap_or(0));
        }
        counters
    }

    /// Runs one client for each thread, as `schedule` says for it, and enters what they did.
    fn threads_run(
        &mut self,
        spec: &Spec,
        schedule: impl Fn(u64, u64) -> Schedule + Sync,
    ) -> Outcome<All> {
        let has = |wanted| spec.mix().iter().any(|(one, _)| *one == wanted);
        let (inserts, deletes) = (has(Operation::Insert), has(Operation::Delete));
        let bounded = !matches!(spec.choice, Choice::ZipfUnbounded(_));
        let before = std::mem::take(&mut self.known.present);
        let known = &*self.known;
        let all = inserts || known.inserted >= spec.records;
        let whole = known.whole && bounded && !deletes && all;
        let values = Values::new(usize::try_from(spec.value_bytes).unwrap_or(0), spec.seed);
        let bound = spec.records.max(known.inserted) / spec.keys.tables();
        let chooser = Chooser::new(spec.choice, bound, spec.seed);
        let marks = match whole {
            true => Marks::default(),
            false => Marks::new(spec.records.max(known.inserted), deletes),
        };
        let due = Due::new(spec, &before);
        let inserted: Vec<AtomicU64> = (0..self.threads).map(|_| AtomicU64::new(0)).collect();
        let failed = AtomicBool::new(false);
        *self.part += 1;
        // Relaxed: for people.
        self.progress.done.store(0, Ordering::Relaxed);
        self.progress.of.store(spec.operations, Ordering::Relaxed);
        let shared = Shared {
            store: self.store,
            name: self.name,
            spec,
            chooser: &chooser,
            values: &values,
            sample: Sample::new(spec.records),
            part: *self.part,
            threads: self.threads,
            base: known.inserted,
            whole,
            before: &before,
            marks: &marks,
            due: &due,
            inserted: &inserted,
            progress: self.progress,
            failed: &failed,
        };
        let taken = processor_time("self");
        let (done, beside) = clients_run(&shared, &schedule);
        let process = processor_time("self").zip(taken);
        let done = done.into_iter().collect::<Outcome<Vec<Done>>>()?;
        let beside = beside.transpose()?;
        let inserted = inserted.into_iter().map(AtomicU64::into_inner).collect();
        let mut all = self.enter(spec, whole, inserted, (done, beside), &values)?;
        all.process = process.map(|(after, before)| after.saturating_sub(before));
        self.enter_present(spec, &before, &marks, all)
    }

    /// Makes known which keys there are now, and judges the scans that clients kept.
    fn enter_present(
        &mut self,
        spec: &Spec,
        before: &Present,
        marks: &Marks,
        mut all: All,
    ) -> Outcome<All> {
        let mut after = before.after(marks, &all.notes);
        after.put_below(self.known.inserted);
        let always = |n: u64| before.surely(n) && !marks.may_have_deleted(n);
        let numbers = after.numbers().map(|n| (n, always(n)));
        let scans = std::mem::take(&mut all.scans);
        if let Some(found) = witness::judge(scans, &mut spec.key_maker(), numbers) {
            return Err(Failure::WrongAnswer {
                store: self.name.to_owned(),
                found,
            });
        }
        self.known.present = after;
        Ok(all)
    }

    /// Adds up what the clients did, and makes it known.
    fn enter(
        &mut self,
        spec: &Spec,
        whole: bool,
        inserted: Vec<u64>,
        (done, beside): (Vec<Done>, Option<Done>),
        values: &Values,
    ) -> Outcome<All> {
        let all = All::of(spec, done, beside);
        self.known.bytes_put += all.bytes_put;
        let several = self.known.ledger.enter(&all.notes);
        let only_if_absent = matches!(spec.mix(), [(Operation::PutIfAbsent, _)]);
        if let Some(n) = several.first().filter(|_| only_if_absent) {
            return Err(Failure::WrongAnswer {
                store: self.name.to_owned(),
                found: format!("two threads were told that key number {n} was absent"),
            });
        }
        self.fill_gaps(spec, &inserted, values)?;
        let writes_elsewhere = |operation: &Operation| match operation {
            Operation::Update
            | Operation::UpdateInOrder { .. }
            | Operation::ReadThenWrite
            | Operation::PutIfAbsent
            | Operation::Replace => !whole,
            Operation::Delete => true,
            _ => false,
        };
        self.known.whole &= !spec.mix().iter().any(|(one, _)| writes_elsewhere(one));
        Ok(all)
    }

    /// Threads insert every so many-th number each; where one was faster, the others' are missing.
    fn fill_gaps(&mut self, spec: &Spec, inserted: &[u64], values: &Values) -> Outcome<()> {
        let most = inserted.iter().copied().max().unwrap_or(0);
        let mut keys = spec.key_maker();
        let mut value = Vec::new();
        let mut notes = Notes::default();
        let sample = Sample::new(spec.records);
        *self.part += 1;
        for (thread, own) in (0..).zip(inserted) {
            for at in *own..most {
                let n = self.known.inserted + at * self.threads + thread;
                let version = (*self.part << 52) | (thread << 40) | at;
                let key = keys.key(n);
                values.fill(key, version, &mut value);
                self.store.put(key, &value)?;
                self.known.bytes_put += (key.len() + value.len()) as u64;
                if sample.follows(n) {
                    notes.note(n, Some(version));
                }
            }
        }
        self.known.ledger.enter(&[notes]);
        self.known.inserted += most * self.threads;
        Ok(())
    }
}

/// Latencies of all operations, and of each kind.
fn together(spec: &Spec, all: &[Histogram<u64>]) -> (Histogram<u64>, BTreeMap<String, Latencies>) {
    let mut whole = histogram();
    let mut by_operation = BTreeMap::new();
    for ((operation, _), latencies) in spec.mix().iter().zip(all) {
        // All have the same bounds, so nothing falls outside.
        let _ = whole.add(latencies);
        by_operation.insert(operation.name().to_owned(), Latencies::of(latencies));
    }
    (whole, by_operation)
}

/// Runs all clients, and one beside them for as long as they work, if there is one.
fn clients_run(
    shared: &Shared<'_>,
    schedule: &(impl Fn(u64, u64) -> Schedule + Sync),
) -> (Vec<Outcome<Done>>, Option<Outcome<Done>>) {
    let threads = shared.threads;
    let over = AtomicBool::new(false);
    let spec = shared.spec.beside.map(|operation| Spec {
        body: Body::Mix(vec![(operation, 1.0)]),
        latency_every: 0,
        reconnect_every: 0,
        ..shared.spec.clone()
    });
    let beside = spec.as_ref().map(|spec| Shared {
        spec,
        failed: &over,
        ..*shared
    });
    let line = &Line::new(threads);
    // Nothing of who was sent home: another tells why.
    let joined = |client: Outcome<ScopedJoinHandle<'_, Outcome<Option<Done>>>>| {
        let died = || Failure::system("measure", "a thread ended in a panic");
        let done = client.and_then(|client| client.join().unwrap_or_else(|_| Err(died())));
        done.transpose()
    };
    let not_started = |error: std::io::Error| {
        line.call_off();
        Failure::system("start a thread", error)
    };
    std::thread::scope(|scope| {
        let beside = beside.as_ref().map(|shared| {
            let run = move || {
                let client = Client::new(shared, threads);
                client.run(Schedule::Count(u64::MAX)).map(Some)
            };
            let started = std::thread::Builder::new().spawn_scoped(scope, run);
            started.map_err(not_started)
        });
        let clients: Vec<_> = (0..threads)
            .map(|thread| {
                let run = move || {
                    let runner = line.runner();
                    let client = Client::new(shared, thread);
                    if !runner.wait() {
                        return Ok(None);
                    }
                    client.run(schedule(threads, thread)).map(Some)
                };
                let started = std::thread::Builder::new().spawn_scoped(scope, run);
                started.map_err(not_started)
            })
            .collect();
        let done = clients.into_iter().filter_map(joined).collect();
        // Relaxed: it stops within a few hundred operations.
        over.store(true, Ordering::Relaxed);
        (done, beside.and_then(joined))
    })
}

/// How skewed a choice is that has no bound, since its exponent does not say: of as many draws the
/// share that were of a key not drawn before, and the share of the most popular key, in percent.
fn skew(spec: &Spec, draws: u64) -> Vec<(String, f64)> {
    if !matches!(spec.choice, Choice::ZipfUnbounded(_)) || draws == 0 {
        return Vec::new();
    }
    let counts = Chooser::new(spec.choice, spec.records, spec.seed).popularity(draws);
    let percent = |n: u64| float(n) * 100.0 / float(draws);
    let hottest = counts.first().copied().unwrap_or(0);
    vec![
        (
            "drawn_distinct_percent".to_owned(),
            percent(counts.len() as u64),
        ),
        ("drawn_hottest_percent".to_owned(), percent(hottest)),
    ]
}

/// How many of `all` are for this thread.
fn portion(all: u64, threads: u64, thread: u64) -> u64 {
    all / threads + u64::from(thread < all % threads)
}
