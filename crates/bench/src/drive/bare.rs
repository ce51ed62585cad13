//! An open loop that has no store: what the machine makes of one.
//!
//! Source: ours. An open loop at 70 % works off a wait in two and a third times its length,
//! whoever was the cause: the store, or the machine, which gives a processor to another thread,
//! or to another machine on the same host, or runs it slower for a while. This loop has nothing
//! of its own to wait for, so what it is late by is the machine's.
//!
//! A1. An operation adds up 8 KiB four times, which any processor's first cache holds, and takes
//!     about as long as a put: it waits for no memory, allocates nothing, calls nobody.
//! A2. Rate, waiting and measuring are as around a store: the benchmark's share of what a closed
//!     loop did right before, two looks at the clock for each operation in both loops, latencies
//!     from the intended times, the idle timer beside. But it is one thread, however many clients
//!     there are, and keeps its share where a rate is given for the store.
//!
//! Threads: the caller's, and the idle one. Tests: below; `task`.

use super::idle::idle;
use crate::client::wait_until;
use crate::done::{histogram, record};
use crate::progress::Progress;
use crate::result::float;
use crate::spec::{Pace, Spec};
use crate::speed::add_up;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The part of a benchmark's own time that this loop takes, before the store is opened.
const PART: f64 = 0.2;
/// Words of eight bytes that an operation adds up.
const WORDS: usize = 1 << 10;
/// How often it does.
const TIMES: usize = 4;
/// Operations between two reports of progress.
const REPORT_EVERY: u64 = 1 << 16;

type Words = [u64; WORDS];

/// Its figures, `bare_*`, where `spec` is an open loop; else none.
pub(crate) fn figures(spec: &Spec, progress: &Progress) -> BTreeMap<String, f64> {
    let Pace::Open {
        share,
        measure_seconds,
        seconds,
        ..
    } = spec.pace
    else {
        return BTreeMap::new();
    };
    let part = |seconds: f64| Duration::try_from_secs_f64(seconds * PART).unwrap_or_default();
    let saturation = saturation(part(measure_seconds.min(seconds)));
    let rate = saturation * share;
    let (late, idle) = open(rate, part(seconds), progress);
    let p999 = |late: &Histogram<u64>| float(late.value_at_quantile(0.999));
    let figures = [
        ("bare_saturation_per_second", saturation),
        ("bare_intended_per_second", rate),
        ("bare_idle_p999_ns", p999(&idle)),
        ("bare_p999_ns", p999(&late)),
        ("bare_max_ns", float(late.max())),
    ];
    figures.map(|(name, value)| (name.to_owned(), value)).into()
}

/// An operation (A1).
fn compute(words: &Words) {
    for _ in 0..TIMES {
        add_up(words);
    }
}

/// How many operations a second a closed loop does.
fn saturation(time: Duration) -> f64 {
    let (mut took, words, mut done) = (histogram(), [3; WORDS], 0);
    let start = Instant::now();
    let mut begun = start;
    while begun - start < time {
        compute(&words);
        record(&mut took, begun);
        done += 1;
        begun = Instant::now();
    }
    float(done) / (begun - start).as_secs_f64().max(1e-9)
}

/// The latencies of so many operations a second, and how late the idle thread woke beside them.
fn open(rate: f64, time: Duration, progress: &Progress) -> (Histogram<u64>, Histogram<u64>) {
    let every = 1.0 / rate.max(1e-3);
    let (mut late, words) = (histogram(), [3; WORDS]);
    let stop = &AtomicBool::new(false);
    let idle = std::thread::scope(|scope| {
        let idler = scope.spawn(|| idle(stop));
        let start = Instant::now();
        for n in 0..u64::MAX {
            let offset = Duration::from_secs_f64(every * float(n));
            if offset >= time {
                break;
            }
            let intended = start + offset;
            wait_until(intended);
            compute(&words);
            record(&mut late, intended);
            if n % REPORT_EVERY == 0 {
                // Relaxed: for people.
                progress.done.store(n, Ordering::Relaxed);
            }
        }
        // Relaxed: it stops within a wait.
        stop.store(true, Ordering::Relaxed);
        idler.join().unwrap_or_else(|_| histogram())
    });
    (late, idle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, Changes};

    #[test]
    fn each_operation_is_begun_at_its_time_and_its_latency_counts_from_there() {
        let open = |rate, time| open(rate, time, &Progress::default()).0;
        let begun = Instant::now();
        let late = open(1000.0, Duration::from_millis(50));
        assert_eq!(late.len(), 50);
        // Done before its time it would be late by nothing.
        assert!(late.min() > 1 && begun.elapsed() >= Duration::from_millis(49));
        let overloaded = open(1e9, Duration::from_micros(20));
        assert_eq!(overloaded.len(), 20_000);
        let fastest = (0..1000).map(|_| {
            let begun = Instant::now();
            compute(&[3; WORDS]);
            begun.elapsed()
        });
        // Half of them are behind by ten thousand others, whatever one takes.
        let (half, fastest) = (overloaded.value_at_quantile(0.5), fastest.min().unwrap());
        let half = Duration::from_nanos(half);
        assert!(half > 1000 * fastest, "{half:?} {fastest:?}");
    }

    #[test]
    fn only_an_open_loop_has_these_figures() {
        let of = |name: &str, changes: &Changes| {
            let spec = catalogue::named(name).unwrap()[0].with(changes, 1);
            figures(&spec, &Progress::default())
        };
        assert!(of("ycsb.a", &Changes::default()).is_empty());
        let changes = Changes {
            seconds: Some(0.2),
            ..Changes::default()
        };
        let tail = of("tail", &changes);
        let rates = (
            tail["bare_intended_per_second"],
            tail["bare_saturation_per_second"],
        );
        assert!(rates.0 > 100.0 && rates.0 < rates.1, "{tail:?}");
        assert!(tail["bare_p999_ns"] > 1.0, "{tail:?}");
        assert!(tail["bare_idle_p999_ns"] > 1.0, "{tail:?}");
    }
}
