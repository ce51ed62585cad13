//! What was measured, for tables, pages and programs.
//!
//! R1. Everything that is printed is in the JSON, and more.
//!
//! Threads: plain data. Tests: `tests/run.rs`.

use crate::spec::Spec;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Latencies in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latencies {
    /// How many were measured.
    pub count: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// All of them: how many took at most the first number and more than that of the pair before.
    /// A bucket is an eighth of a doubling wide; empty ones are left out.
    #[serde(default)]
    pub buckets: Vec<(u64, u64)>,
}

impl Latencies {
    /// The percentiles of `histogram`.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        Latencies {
            count: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p90_ns: histogram.value_at_quantile(0.9),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
            buckets: buckets(histogram),
        }
    }
}

/// The histogram in few buckets, none of them empty.
fn buckets(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    /// Bits that tell buckets apart, after the first one.
    const BITS: u32 = 3;
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for recorded in histogram.iter_recorded() {
        let ns = recorded.value_iterated_to();
        let shift = ns.max(1).ilog2().saturating_sub(BITS);
        let longest = (((ns >> shift) + 1) << shift) - 1;
        let count = recorded.count_at_value();
        match buckets.last_mut().filter(|(last, _)| *last == longest) {
            Some((_, known)) => *known += count,
            None => buckets.push((longest, count)),
        }
    }
    buckets
}

/// One benchmark of one store, once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measurement {
    /// The benchmark's name.
    pub benchmark: String,
    /// The store's name.
    pub store: String,
    /// Threads.
    pub threads: u64,
    /// Which round, from 0.
    pub round: u64,
    /// Operations of all threads.
    pub operations: u64,
    /// From the first thread's start to the last one's end.
    pub seconds: f64,
    /// Bytes of keys and values that were put.
    pub bytes_put: u64,
    /// Keys found, of those that were asked for; with scans, pairs.
    pub found: u64,
    /// Keys asked for that were not there, where that is no mistake.
    pub missed: u64,
    /// Answers that were checked, in the run and after it.
    pub checked: u64,
    /// Of all operations.
    pub latencies: Latencies,
    /// Of each kind.
    pub latencies_by_operation: BTreeMap<String, Latencies>,
    /// What the system and the machine counted of this process meanwhile, and sizes after it.
    pub meters: BTreeMap<String, f64>,
    /// What the store counted of itself meanwhile.
    pub counters: BTreeMap<String, u64>,
    /// What this benchmark alone measures.
    pub figures: BTreeMap<String, f64>,
}

impl Measurement {
    /// Operations per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        float(self.operations) / self.seconds.max(1e-9)
    }
}

/// All of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    /// What was asked for, to be asked again.
    pub command: String,
    /// The machine, in words.
    pub machine: String,
    /// What could not be measured here.
    pub remarks: Vec<String>,
    /// The benchmarks.
    pub specs: Vec<Spec>,
    /// Stores, in the order of tables.
    pub stores: Vec<String>,
    /// Numbers of threads.
    pub threads: Vec<u64>,
    /// Everything that was measured.
    pub measurements: Vec<Measurement>,
}

/// Median, least and greatest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle one; of an even number the mean of both.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The greatest.
    pub greatest: f64,
}

impl Spread {
    /// Of some numbers, if there are any.
    #[must_use]
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut numbers: Vec<f64> = numbers.into_iter().collect();
        numbers.sort_unstable_by(f64::total_cmp);
        let (least, greatest) = (*numbers.first()?, *numbers.last()?);
        let half = numbers.len() / 2;
        let median = match numbers.len() % 2 {
            1 => numbers[half],
            _ => f64::midpoint(numbers[half - 1], numbers[half]),
        };
        Some(Spread {
            median,
            least,
            greatest,
        })
    }
}

impl Results {
    /// Those of one benchmark, store and number of threads, round by round.
    pub fn of<'a>(
        &'a self,
        benchmark: &'a str,
        store: &'a str,
        threads: u64,
    ) -> impl Iterator<Item = &'a Measurement> {
        self.measurements.iter().filter(move |one| {
            one.benchmark == benchmark && one.store == store && one.threads == threads
        })
    }

    /// Operations per second.
    #[must_use]
    pub fn rate(&self, benchmark: &str, store: &str, threads: u64) -> Option<Spread> {
        Spread::of(self.of(benchmark, store, threads).map(Measurement::rate))
    }

    /// Whether all benchmarks compare the same store with others: which.
    #[must_use]
    pub fn ours_of_all(&self) -> Option<&str> {
        let first = &self.specs.first()?.ours;
        let same = self.specs.iter().all(|spec| spec.ours == *first);
        same.then_some(first)
    }

    /// The store that others are compared with in `benchmark`.
    #[must_use]
    pub fn ours(&self, benchmark: &str) -> Option<&str> {
        let spec = self.specs.iter().find(|spec| spec.name == benchmark)?;
        Some(&spec.ours)
    }

    /// How many times the rate of `store` ours is, round by round; nothing of ours itself.
    #[must_use]
    pub fn ratio(&self, benchmark: &str, store: &str, threads: u64) -> Option<Spread> {
        let ours = self.ours(benchmark).filter(|ours| *ours != store)?;
        let ratios = self.of(benchmark, ours, threads).filter_map(|mine| {
            let mut theirs = self.of(benchmark, store, threads);
            let theirs = theirs.find(|theirs| theirs.round == mine.round)?;
            Some(mine.rate() / theirs.rate().max(1e-9))
        });
        Spread::of(ratios)
    }
}

/// A number for division and display: beyond 2^53 the last digits are lost, which nobody sees.
#[must_use]
pub fn float(n: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    {
        n as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_every_latency_once_in_few_numbers() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        for ns in (1..2_000_000).step_by(7) {
            histogram.record(ns).unwrap();
        }
        let latencies = Latencies::of(&histogram);
        let buckets = &latencies.buckets;
        assert!(buckets.len() < 160, "{}", buckets.len());
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0));
        let all: u64 = buckets.iter().map(|(_, count)| count).sum();
        assert_eq!(all, latencies.count);
        let mut below = 0;
        let median = buckets.iter().find(|(_, count)| {
            below += count;
            below * 2 >= all
        });
        let median = float(median.unwrap().0) / float(latencies.p50_ns);
        assert!((0.99..1.13).contains(&median), "{median}");
    }

    #[test]
    fn the_median_is_the_middle_of_the_rounds() {
        let spread = Spread::of([3.0, 1.0, 2.0]).unwrap();
        assert_eq!(
            (spread.least, spread.median, spread.greatest),
            (1.0, 2.0, 3.0)
        );
        assert_eq!(Spread::of([1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of([]), None);
    }
}
