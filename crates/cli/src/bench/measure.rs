//! Runs one benchmark: starts its threads together, counts, takes latencies, joins them.
//!
//! Source: the loops of RocksDB's `db_bench_tool.cc` (`DoWrite`, `ReadRandom`, `SeekRandom`, …).
//!
//! M1. The time is from the first thread's start to the last thread's end.
//! M2. What is not measured is not in the loop: no clock is read for an operation whose latency is
//!     not taken.
//! M3. All threads run, or none: one that cannot be started is the result, and no other waits.
//!
//! Threads: one for each client; the first error ends its own thread, and is the result.
//! Tests: below.

use super::Load;
use super::benchmark::Benchmark;
use super::result::{Latencies, Row};
use super::workload::Workload;
use crate::failure::Failure;
use crate::line::{Line, Runner};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Instant;
use velella::{Db, Decision, Durability, Error, ErrorKind, Result, WriteOptions};

/// Longest latency the histogram tells from a longer one: a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// What one thread did.
struct Done {
    operations: u64,
    /// Keys that existed, of those that were asked for.
    found: u64,
    bytes: u64,
    start: Instant,
    end: Instant,
    latencies: Histogram<u64>,
}

/// Runs `benchmark` with `threads` threads, of which the first draws as thread `first` of the run.
pub(super) fn measure(
    db: &Db,
    benchmark: Benchmark,
    threads: u64,
    first: u64,
    load: &Load,
) -> Result<Row, Failure> {
    let before = counts(db);
    let line = Line::new(threads);
    let done: Vec<Result<Done>> = std::thread::scope(|scope| {
        let line = &line;
        let clients: Vec<_> = (0..threads)
            .map(|thread| {
                let workload = load.workload(first + thread);
                let client = move || {
                    let runner = line.runner();
                    Client::new(db, load, workload).run(benchmark, runner)
                };
                let started = std::thread::Builder::new().spawn_scoped(scope, client);
                started.map_err(|error| {
                    line.call_off();
                    Error::new(ErrorKind::Io, "start a thread", error.to_string())
                })
            })
            .collect();
        clients
            .into_iter()
            .filter_map(|client| match client {
                Ok(client) => client.join().unwrap_or_else(|_| Err(died())).transpose(),
                Err(error) => Some(Err(error)),
            })
            .collect()
    });
    let after = counts(db);
    let done: Vec<Done> = done.into_iter().collect::<Result<_>>()?;
    Ok(row(benchmark, threads, &done, &before, &after))
}

fn died() -> Error {
    let found = "a thread ended in a panic, which is a bug";
    Error::new(ErrorKind::Io, "measure", found)
}

fn row(
    benchmark: Benchmark,
    threads: u64,
    done: &[Done],
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> Row {
    let mut latencies = empty();
    for done in done {
        // Both have the same bounds, so nothing falls outside.
        let _ = latencies.add(&done.latencies);
    }
    let start = done.iter().map(|done| done.start).min();
    let end = done.iter().map(|done| done.end).max();
    let seconds = end
        .zip(start)
        .map_or(0.0, |(end, start)| (end - start).as_secs_f64());
    let sum = |field: fn(&Done) -> u64| done.iter().map(field).sum();
    let operations = sum(|done| done.operations);
    let asks = !matches!(
        benchmark,
        Benchmark::FillSeq
            | Benchmark::FillRandom
            | Benchmark::Overwrite
            | Benchmark::DeleteRandom
            | Benchmark::ReadSeq
            | Benchmark::ReadReverse
    );
    let counters = after
        .iter()
        .map(|(name, after)| {
            let grown = after.saturating_sub(before.get(name).copied().unwrap_or(0));
            (name.clone(), ratio(grown, operations))
        })
        .filter(|(_, per_operation)| *per_operation > 0.0)
        .collect();
    Row {
        benchmark,
        threads,
        operations,
        found: asks.then(|| sum(|done| done.found)),
        bytes: sum(|done| done.bytes),
        seconds,
        latencies: Latencies::of(&latencies),
        counters,
    }
}

fn ratio(a: u64, b: u64) -> f64 {
    crate::human::float(a) / crate::human::float(b.max(1))
}

/// Everything the engine counts.
fn counts(db: &Db) -> BTreeMap<String, u64> {
    let stats = db.stats();
    let mut counts = stats.counters;
    counts.insert("journal records".to_owned(), stats.journal.records);
    counts.insert("journal bytes".to_owned(), stats.journal.bytes);
    counts.insert("journal syncs".to_owned(), stats.journal.syncs);
    counts.insert("cache hits".to_owned(), stats.cache.hits);
    counts.insert("cache misses".to_owned(), stats.cache.misses);
    for stall in stats.stalls {
        counts.insert(format!("stall us ({})", stall.cause), stall.total_us);
    }
    counts
}

fn empty() -> Histogram<u64> {
    // Constant bounds, which the histogram accepts.
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("1 to a minute is a range")
}

/// One thread's part.
struct Client<'a> {
    db: &'a Db,
    load: &'a Load,
    options: WriteOptions,
    workload: Workload,
    found: u64,
    bytes: u64,
    latencies: Histogram<u64>,
}

impl<'a> Client<'a> {
    fn new(db: &'a Db, load: &'a Load, workload: Workload) -> Self {
        let options = WriteOptions {
            durability: load.sync.then_some(Durability::Sync),
        };
        Client {
            db,
            load,
            options,
            workload,
            found: 0,
            bytes: 0,
            latencies: empty(),
        }
    }

    /// Its part, when all are there; `None`: another could not be started (M3).
    fn run(mut self, benchmark: Benchmark, runner: Runner<'_>) -> Result<Option<Done>> {
        if !runner.wait() {
            return Ok(None);
        }
        let start = Instant::now();
        let operations = match benchmark {
            Benchmark::FillSeq => self.write(|_, n| n),
            Benchmark::FillRandom | Benchmark::Overwrite => {
                self.write(|workload, _| workload.draw())
            }
            Benchmark::ReadRandom => self.read_random(),
            Benchmark::ReadSeq => self.read_all(false),
            Benchmark::ReadReverse => self.read_all(true),
            Benchmark::SeekRandom => self.seek_random(),
            Benchmark::DeleteRandom => self.delete_random(),
            Benchmark::UpdateRandom => self.update_random(),
        }?;
        let Client {
            found,
            bytes,
            latencies,
            ..
        } = self;
        Ok(Some(Done {
            operations,
            found,
            bytes,
            start,
            end: Instant::now(),
            latencies,
        }))
    }

    /// Repeats `operation`, until it says that there is no more; how often it did something.
    fn repeat(&mut self, mut operation: impl FnMut(&mut Self, u64) -> Result<bool>) -> Result<u64> {
        let every = self.load.latency_every;
        let mut until_measured = every;
        for n in 0..self.load.num {
            let go_on = if until_measured == 1 {
                until_measured = every;
                let start = Instant::now();
                let go_on = operation(self, n)?;
                let ns = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
                self.latencies.saturating_record(ns.min(LATENCY_NS_MAX));
                go_on
            } else {
                until_measured = until_measured.wrapping_sub(1);
                operation(self, n)?
            };
            if !go_on {
                return Ok(n);
            }
        }
        Ok(self.load.num)
    }

    fn write(&mut self, number: impl Fn(&mut Workload, u64) -> u64) -> Result<u64> {
        self.repeat(|client, n| {
            let number = number(&mut client.workload, n);
            let (key, value) = client.workload.pair(number);
            client.bytes += (key.len() + value.len()) as u64;
            client.db.put_with(key, value, client.options).map(|_| true)
        })
    }

    fn read_random(&mut self) -> Result<u64> {
        self.repeat(|client, _| {
            let number = client.workload.draw();
            let key = client.workload.key(number);
            if let Some(bytes) = client.db.get_with(key, |value| key.len() + value.len())? {
                client.found += 1;
                client.bytes += bytes as u64;
            }
            Ok(true)
        })
    }

    fn read_all(&mut self, reverse: bool) -> Result<u64> {
        let mut iter = self.db.iter()?;
        self.repeat(|client, _| {
            let found = if reverse {
                iter.step_back()?
            } else {
                iter.step()?
            };
            if found {
                let (key, value) = iter.pair()?.unwrap_or_default();
                client.bytes += (key.len() + value.len()) as u64;
            }
            Ok(found)
        })
    }

    fn seek_random(&mut self) -> Result<u64> {
        let mut copy = Vec::new();
        let nexts = self.load.seek_nexts;
        self.repeat(|client, _| {
            // A new one for each seek, as db_bench does: it sees what was written until now.
            let mut iter = client.db.iter()?;
            let number = client.workload.draw();
            let key = client.workload.key(number);
            let mut there = iter.seek(key)?;
            client.found += u64::from(iter.key() == Some(key));
            for _ in 0..nexts {
                if !there {
                    break;
                }
                let (key, value) = iter.pair()?.unwrap_or_default();
                // Copied out, as db_bench does, to be sure that it was read.
                copy.clear();
                copy.extend_from_slice(value);
                client.bytes += (key.len() + copy.len()) as u64;
                there = iter.step()?;
            }
            Ok(true)
        })
    }

    fn delete_random(&mut self) -> Result<u64> {
        self.repeat(|client, _| {
            let number = client.workload.draw();
            let key = client.workload.key(number);
            client.db.delete_with(key, client.options).map(|_| true)
        })
    }

    fn update_random(&mut self) -> Result<u64> {
        self.repeat(|client, _| {
            let number = client.workload.draw();
            let (key, value) = client.workload.pair(number);
            client.bytes += (key.len() + value.len()) as u64;
            let outcome = client.db.rmw_entry(key, client.options, |_| {
                Ok::<_, Error>(Decision::put(value))
            })?;
            client.found += u64::from(outcome.old.is_some());
            Ok(true)
        })
    }
}
