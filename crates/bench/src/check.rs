//! Regressions that no clock sees: counts of fixed small workloads against committed ones.
//!
//! Where times wander by a third, comparisons, bytes and (where the machine counts them)
//! instructions for each operation hardly move. Each workload runs a few times with one thread;
//! the median is compared with a line of the baseline, which has the tolerance beside it.
//!
//! ```text
//! workload        counter                 per operation   tolerance
//! memory/get      memtable_comparisons    23.104          0.05
//! ```
//! K1. A count that grew by more than its tolerance fails the check; one that fell by more is told,
//!     so that the baseline can be renewed.
//! K2. Counts that say how long somebody waited, or of which more is better, are not compared.
//! K3. Where the machine does not count instructions, that is said loudly, and the rest compared.
//!
//! Threads: one; the workloads' processes have their own. Tests: below.

use crate::catalogue::{self, Changes};
use crate::failure::{Failure, Outcome};
use crate::result::{Results, Spread, float};
use crate::session::{Session, Watch};
use std::collections::BTreeMap;
use std::path::Path;

/// A workload's name and a counter's.
type Name = (String, String);

/// One line of a baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Expected {
    per_operation: f64,
    tolerance: f64,
}

/// A committed baseline.
#[derive(Debug, Default, PartialEq)]
pub struct Baseline(BTreeMap<Name, Expected>);

/// What was counted for each operation, in each round.
#[derive(Debug, Default)]
pub struct Counted {
    rounds: BTreeMap<Name, Vec<f64>>,
    /// What could not be counted here.
    pub remarks: Vec<String>,
}

/// How the counts differ from the baseline.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    /// Lines compared.
    pub compared: usize,
    /// Those that grew too much: the check has failed if there are any.
    pub grown: Vec<String>,
    /// Those that fell by more than their tolerance.
    pub fallen: Vec<String>,
    /// Lines of the baseline that this machine could not count.
    pub missing: Vec<String>,
}

const MIB: u64 = 1 << 20;
/// Everything in the memtable, and nearly everything in tables.
const SETTINGS: [(&str, u64, u64); 2] =
    [("memory", 512 * MIB, 64 * MIB), ("tables", 64 * MIB, MIB)];
/// Of these, the one in which nothing is in the memtable when a benchmark begins.
const SETTLED: &str = "tables";
const RECORDS: u64 = 50_000;
const NAMES: [&str; 8] = [
    "ycsb.load",
    "overwrite.uniform",
    "overwrite.zipf",
    "get",
    "get.missing",
    "seek10",
    "ycsb.e",
    "ycsb.f",
];
/// Counts below so many for each operation are noise.
const COUNT_MIN: f64 = 0.01;
const TOLERANCE_MIN: f64 = 0.05;
/// Counts that would need more depend on when background work runs, and tell nothing.
const TOLERANCE_MAX: f64 = 0.5;
/// Of what the rounds differed by when the baseline was made, so much is tolerated.
const SPREADS: f64 = 3.0;
/// K2.
const NOT_COMPARED: [&str; 4] = ["cache_hits", "table_filter_negatives", "stall_us", "prunes"];
/// Meters that are compared beside the store's own counters.
const METERS: [&str; 1] = ["instructions"];

/// Runs the workloads.
///
/// # Errors
/// As of any run; the first failure of Velella.
pub fn count(dir: &Path, rounds: u64, watch: &dyn Watch) -> Outcome<Counted> {
    let mut counted = Counted::default();
    for (kind, memory, write_buffer) in SETTINGS {
        let mut benchmarks = Vec::new();
        for name in NAMES {
            benchmarks.extend(catalogue::named(name)?);
        }
        let session = Session {
            benchmarks,
            peers: Some(Vec::new()),
            threads: vec![1],
            rounds,
            dir: dir.to_owned(),
            changes: Changes {
                records: Some(RECORDS),
                memory: Some(memory),
                write_buffer: Some(write_buffer),
                latency_every: Some(0),
                settled: kind == SETTLED,
                ..Changes::default()
            },
            command: String::new(),
        };
        let (results, failures) = session.run(watch)?;
        if let Some(failure) = failures.into_iter().next() {
            return Err(failure);
        }
        counted.add(kind, &results);
    }
    Ok(counted)
}

impl Counted {
    fn add(&mut self, kind: &str, results: &Results) {
        for one in &results.measurements {
            let each = float(one.operations.max(1));
            let meters = one
                .meters
                .iter()
                .filter(|(name, _)| METERS.contains(&name.as_str()));
            let meters = meters.map(|(name, count)| (name, *count));
            let counters = one
                .counters
                .iter()
                .map(|(name, count)| (name, float(*count)));
            for (counter, count) in counters.chain(meters) {
                if NOT_COMPARED.iter().any(|not| counter.starts_with(not)) {
                    continue;
                }
                let name = (format!("{kind}/{}", one.benchmark), counter.clone());
                self.rounds.entry(name).or_default().push(count / each);
            }
        }
        for remark in &results.remarks {
            if !self.remarks.contains(remark) {
                self.remarks.push(remark.clone());
            }
        }
    }

    /// A baseline of it: tolerances follow from how much the rounds differed.
    #[must_use]
    pub fn baseline(&self) -> Baseline {
        let lines = self.rounds.iter().filter_map(|(name, rounds)| {
            let spread = Spread::of(rounds.iter().copied())?;
            let wander = (spread.greatest - spread.least) / spread.median.max(1e-9);
            let expected = Expected {
                per_operation: spread.median,
                tolerance: (SPREADS * wander).max(TOLERANCE_MIN),
            };
            let tells = spread.median >= COUNT_MIN && expected.tolerance <= TOLERANCE_MAX;
            tells.then(|| (name.clone(), expected))
        });
        Baseline(lines.collect())
    }
}

const HEAD: &str = "workload\tcounter\tper operation\ttolerance\n";

impl Baseline {
    /// Reads one.
    ///
    /// # Errors
    /// `System`, naming the line that is not one.
    pub fn parse(text: &str) -> Outcome<Baseline> {
        let mut lines = BTreeMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            if number == 1 || line.trim().is_empty() {
                continue;
            }
            let fields: Vec<&str> = line.split('\t').collect();
            let wrong = || Failure::system(&format!("read line {number} of the baseline"), line);
            let [workload, counter, each, tolerance] = fields[..] else {
                return Err(wrong());
            };
            let expected = Expected {
                per_operation: each.parse().map_err(|_| wrong())?,
                tolerance: tolerance.parse().map_err(|_| wrong())?,
            };
            lines.insert((workload.to_owned(), counter.to_owned()), expected);
        }
        Ok(Baseline(lines))
    }

    /// As `parse` reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let line = |((workload, counter), expected): (&Name, &Expected)| {
            format!(
                "{workload}\t{counter}\t{:.4}\t{:.3}\n",
                expected.per_operation, expected.tolerance
            )
        };
        HEAD.to_owned() + &self.0.iter().map(line).collect::<String>()
    }

    /// Compares (K1).
    #[must_use]
    pub fn compare(&self, counted: &Counted) -> Verdict {
        let mut verdict = Verdict::default();
        for (name, expected) in &self.0 {
            let told = format!("{} {}", name.0, name.1);
            let rounds = counted.rounds.get(name);
            let Some(spread) = rounds.and_then(|all| Spread::of(all.iter().copied())) else {
                verdict.missing.push(told);
                continue;
            };
            verdict.compared += 1;
            let ratio = spread.median / expected.per_operation.max(1e-9);
            let told = format!(
                "{told}: {:.4} per operation, the baseline has {:.4} ({:+.1} %, tolerated {:.1} %)",
                spread.median,
                expected.per_operation,
                (ratio - 1.0) * 100.0,
                expected.tolerance * 100.0
            );
            if ratio > 1.0 + expected.tolerance {
                verdict.grown.push(told);
            } else if ratio < 1.0 - expected.tolerance {
                verdict.fallen.push(told);
            }
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(each: f64) -> Counted {
        let name = ("memory/get".to_owned(), "memtable_comparisons".to_owned());
        Counted {
            rounds: BTreeMap::from([(name, vec![each, each * 1.01, each * 0.99])]),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn a_count_that_grew_fails_and_one_that_fell_is_told() {
        let baseline = counted(20.0).baseline();
        let verdict = |each| baseline.compare(&counted(each));
        assert_eq!(
            verdict(20.5),
            Verdict {
                compared: 1,
                ..Verdict::default()
            }
        );
        assert_eq!(verdict(23.0).grown.len(), 1);
        assert_eq!(verdict(15.0).fallen.len(), 1);
        assert_eq!(baseline.compare(&Counted::default()).missing.len(), 1);
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written() {
        let baseline = counted(20.0).baseline();
        let text = baseline.text();
        assert!(
            text.contains("memory/get\tmemtable_comparisons\t20.0000\t0.060"),
            "{text}"
        );
        assert_eq!(Baseline::parse(&text).unwrap().text(), text);
        assert!(Baseline::parse("head\nmemory/get\tx\ty\tz\n").is_err());
        assert!(Baseline::parse("head\nmemory/get\n").is_err());
    }

    #[test]
    fn what_is_rare_is_not_in_a_baseline() {
        assert!(counted(0.001).baseline().0.is_empty());
    }
}
