//! An open loop that has no store: what the machine makes of one.
//!
//! Source: ours. An open loop at 70 % works off a wait in two and a third times its length,
//! whoever was the cause: the store, or the machine, which gives a processor to another thread,
//! or to another machine on the same host, or runs it slower for a while. This loop has nothing
//! of its own to wait for, so what it is late by is the machine's.
//!
//! A1. An operation adds up a few KiB that no cache of the processor's is too small for, about as
//!     long as a put takes: it waits for no memory, allocates nothing, calls nobody. It is no
//!     chain of steps that wait for each other, which takes as long on a core that others use too.
//! A2. Everything else is as around a store: the share of what a closed loop did right before,
//!     latencies from the intended times and taken in both loops, the idle timer beside.
//!
//! Threads: the caller's, and the idle one. Tests: below.

use super::idle::idle;
use crate::client::{histogram, record_time, wait_until};
use crate::result::float;
use crate::spec::{Pace, Spec};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The part of a benchmark's own time that this loop gets before.
const PART: f64 = 0.2;
/// What an operation adds up, so many times: a microsecond, or nearly.
const WORDS: usize = 1 << 10;
const TIMES: usize = 4;

type Words = [u64; WORDS];

/// Its figures, `bare_*`, for `spec`; none if that is a closed loop.
pub(crate) fn figures(spec: &Spec) -> BTreeMap<String, f64> {
    let Pace::Open {
        share,
        measure_seconds,
        seconds,
        ..
    } = spec.pace
    else {
        return BTreeMap::new();
    };
    let part = |seconds: f64| Duration::from_secs_f64(seconds * PART);
    let rate = saturation(part(measure_seconds.min(seconds))) * share;
    let late = open(rate, part(seconds));
    BTreeMap::from([
        ("bare_per_second".to_owned(), rate),
        (
            "bare_p999_ns".to_owned(),
            float(late.value_at_quantile(0.999)),
        ),
        ("bare_max_ns".to_owned(), float(late.max())),
    ])
}

/// An operation (A1).
fn compute(words: &Words) {
    for _ in 0..TIMES {
        let sum = |sum: u64, word: &u64| sum.wrapping_add(word.rotate_left(5));
        black_box(black_box(words).iter().fold(0, sum));
    }
}

/// How many operations a second a closed loop does.
fn saturation(time: Duration) -> f64 {
    let (mut late, words, mut done) = (histogram(), [3; WORDS], 0);
    let start = Instant::now();
    let mut begun = start;
    while begun - start < time {
        compute(&words);
        let end = Instant::now();
        record_time(&mut late, end - begun);
        begun = end;
        done += 1;
    }
    float(done) / (begun - start).as_secs_f64().max(1e-9)
}

/// The latencies of so many operations a second.
fn open(rate: f64, time: Duration) -> Histogram<u64> {
    let every = 1.0 / rate.max(1e-3);
    let (mut late, words) = (histogram(), [3; WORDS]);
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| idle(stop));
        let start = Instant::now();
        for n in 0..u64::MAX {
            let offset = Duration::from_secs_f64(every * float(n));
            if offset >= time {
                break;
            }
            let intended = start + offset;
            wait_until(intended);
            compute(&words);
            record_time(&mut late, intended.elapsed());
        }
        // Relaxed: it stops within a wait.
        stop.store(true, Ordering::Relaxed);
    });
    late
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, Changes};

    #[test]
    fn each_operation_is_begun_at_its_time_and_its_latency_counts_from_there() {
        let late = open(1000.0, Duration::from_millis(50));
        assert_eq!(late.len(), 50);
        let overloaded = open(1e9, Duration::from_micros(20));
        assert_eq!(overloaded.len(), 20_000);
        // Each is behind by all before it: half of them by ten thousand, whatever one takes.
        let half = overloaded.value_at_quantile(0.5);
        assert!(half > 100 * overloaded.min(), "{half} {}", overloaded.min());
    }

    #[test]
    fn only_an_open_loop_has_these_figures() {
        let of = |name: &str, changes: &Changes| {
            let spec = catalogue::named(name).unwrap()[0].with(changes, 1);
            figures(&spec)
        };
        assert!(of("ycsb.a", &Changes::default()).is_empty());
        let changes = Changes {
            seconds: Some(0.2),
            ..Changes::default()
        };
        let tail = of("tail", &changes);
        assert!(tail["bare_p999_ns"] <= tail["bare_max_ns"], "{tail:?}");
        assert!(tail["bare_per_second"] > 1000.0, "{tail:?}");
    }
}
