//! What a client did, and how long it took; and all of them together.
//!
//! Threads: plain data, of the client that fills it, then of who adds it up. Tests: `drive`.

use crate::ledger::Notes;
use crate::spec::Spec;
use crate::witness::{Kept, Scan};
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// Longest latency the histogram tells from a longer one: a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;
/// An operation of an open loop that takes longer waits for something that has a name.
pub(crate) const SLOW: Duration = Duration::from_millis(20);

/// What a thread did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) operations: u64,
    pub(crate) bytes_put: u64,
    pub(crate) found: u64,
    pub(crate) missed: u64,
    pub(crate) checked: u64,
    pub(crate) latencies: Vec<Histogram<u64>>,
    /// The longest that an operation of an open loop took from when it began.
    pub(crate) took_max: Duration,
    /// When those began and ended that took longer than [`SLOW`].
    pub(crate) slow: Vec<(Instant, Instant)>,
    /// How long looks at the processor took, where saturation was measured (`speed`).
    pub(crate) looks: Vec<Duration>,
    /// Latencies of operations of an open loop that belong to stretches (`speed`).
    pub(crate) in_stretches: Histogram<u64>,
    /// The processor time that this thread took, if it did all by itself and the system tells.
    pub(crate) processor: Option<Duration>,
    pub(crate) notes: Notes,
    /// Some of its scans.
    pub(crate) kept: Kept,
}

impl Done {
    /// Nothing yet, of a thread that is to do what `spec` says.
    pub(crate) fn new(spec: &Spec) -> Self {
        let now = Instant::now();
        Done {
            start: now,
            end: now,
            operations: 0,
            bytes_put: 0,
            found: 0,
            missed: 0,
            checked: 0,
            latencies: spec.mix().iter().map(|_| histogram()).collect(),
            took_max: Duration::ZERO,
            slow: Vec::new(),
            looks: Vec::new(),
            in_stretches: histogram(),
            processor: None,
            notes: Notes::default(),
            kept: Kept::default(),
        }
    }
}

/// All threads' work together.
pub(crate) struct All {
    pub(crate) seconds: f64,
    pub(crate) operations: u64,
    pub(crate) bytes_put: u64,
    pub(crate) found: u64,
    pub(crate) missed: u64,
    pub(crate) checked: u64,
    pub(crate) latencies: Vec<Histogram<u64>>,
    /// As in `Done`, of all.
    pub(crate) took_max: Duration,
    pub(crate) slow: Vec<(Instant, Instant)>,
    pub(crate) looks: Vec<Duration>,
    pub(crate) in_stretches: Histogram<u64>,
    /// The processor time of the whole process meanwhile, if the system tells.
    pub(crate) process: Option<Duration>,
    /// The processor time of the clients, if it is known of each.
    pub(crate) processor: Option<Duration>,
    /// What the thread beside them did, and in how many seconds.
    pub(crate) beside: Option<(u64, f64)>,
    pub(crate) notes: Vec<Notes>,
    /// Scans that were kept.
    pub(crate) scans: Vec<Scan>,
}

impl All {
    /// What the clients did, and the thread beside them, if there was one.
    pub(crate) fn of(spec: &Spec, done: Vec<Done>, beside: Option<Done>) -> Self {
        let start = done.iter().map(|done| done.start).min();
        let end = done.iter().map(|done| done.end).max();
        let mut all = All {
            seconds: end
                .zip(start)
                .map_or(0.0, |(end, start)| (end - start).as_secs_f64()),
            operations: 0,
            bytes_put: 0,
            found: 0,
            missed: 0,
            checked: 0,
            latencies: spec.mix().iter().map(|_| histogram()).collect(),
            took_max: Duration::ZERO,
            slow: Vec::new(),
            looks: Vec::new(),
            in_stretches: histogram(),
            process: None,
            processor: Some(Duration::ZERO),
            beside: beside.as_ref().map(|beside| {
                let took = beside.end - beside.start;
                (beside.operations, took.as_secs_f64())
            }),
            notes: Vec::new(),
            scans: Vec::new(),
        };
        if let Some(beside) = beside {
            // It is no client, nor is it the store.
            all.processor = None;
            all.bytes_put += beside.bytes_put;
            all.notes.push(beside.notes);
        }
        for done in done {
            all.operations += done.operations;
            all.bytes_put += done.bytes_put;
            all.found += done.found;
            all.missed += done.missed;
            all.checked += done.checked;
            all.took_max = all.took_max.max(done.took_max);
            all.slow.extend(done.slow);
            all.looks.extend(done.looks);
            // All have the same bounds, so nothing falls outside.
            let _ = all.in_stretches.add(&done.in_stretches);
            let both = all.processor.zip(done.processor);
            all.processor = both.map(|(sum, one)| sum + one);
            for (sum, one) in all.latencies.iter_mut().zip(&done.latencies) {
                // All have the same bounds, so nothing falls outside.
                let _ = sum.add(one);
            }
            all.notes.push(done.notes);
            all.scans.extend(done.kept.into_scans());
        }
        all
    }
}

/// An empty histogram of latencies.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("1 to a minute is a range")
}

/// Records how long it is from `from` to now.
pub(crate) fn record(histogram: &mut Histogram<u64>, from: Instant) {
    record_time(histogram, from.elapsed());
}

/// Records a latency.
pub(crate) fn record_time(histogram: &mut Histogram<u64>, time: Duration) {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    histogram.saturating_record(ns.clamp(1, LATENCY_NS_MAX));
}
