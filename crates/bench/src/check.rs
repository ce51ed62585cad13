//! Regressions that no clock sees: counts of fixed small workloads against committed ones.
//!
//! Where times wander by a third, comparisons, bytes and blocks for each operation do not move:
//! one thread does drawn operations, nothing is flushed while it does, and what is written out is
//! written before and after, in one go. Every count is compared with a line of the baseline.
//!
//! ```text
//! workload        counter                 per operation
//! memory/get      memtable_comparisons    23.1040
//! ```
//! K1. A count that grew fails the check; one that fell is told, so that the baseline can be
//!     renewed; and so is one that is new.
//! K2. A count that is not the same in all rounds is in no baseline, and fails the check if it
//!     once was; so does one that is not counted any more.
//! K3. Counts that say how long somebody waited, or of which more is better, are not compared.
//! K4. Instructions are those of the client's thread, counted by callgrind in runs of their own
//!     over fewer records. Where that is not possible it is said loudly, and the rest compared.
//!
//! Threads: one; the workloads' processes have their own. Tests: below; `tests/check.rs`.

use crate::callgrind;
use crate::catalogue::{self, Changes};
use crate::failure::{Failure, Outcome};
use crate::result::{Measurement, Results, Spread, float};
use crate::session::{Session, Watch};
use crate::store::Durability;
use std::collections::BTreeMap;
use std::path::Path;

/// A workload's name and a counter's.
type Name = (String, String);

/// A committed baseline: counts for each operation.
#[derive(Debug, Default, PartialEq)]
pub struct Baseline(BTreeMap<Name, f64>);

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
    /// Those that grew.
    pub grown: Vec<String>,
    /// Those that fell.
    pub fallen: Vec<String>,
    /// Those that differ from round to round.
    pub unsteady: Vec<String>,
    /// Lines of the baseline that were not counted.
    pub missing: Vec<String>,
    /// Lines of the baseline that this machine cannot count.
    pub beyond: Vec<String>,
    /// Counts that the baseline does not have.
    pub new: Vec<String>,
}

impl Verdict {
    /// Whether all is as it was, or better (K1, K2).
    #[must_use]
    pub fn passed(&self) -> bool {
        self.grown.is_empty() && self.unsteady.is_empty() && self.missing.is_empty()
    }
}

const MIB: u64 = 1 << 20;
/// Far more than the workloads write: no memtable is flushed on its own account.
const MEMORY: u64 = 512 * MIB;
const WRITE_BUFFER: u64 = 64 * MIB;
const RECORDS: u64 = 50_000;
/// Where callgrind counts.
const RECORDS_SLOW: u64 = 10_000;

/// Workloads that have the state they find in common.
struct Kind {
    name: &'static str,
    durability: Durability,
    /// Everything is in tables when a benchmark begins, and again when it ends.
    in_tables: bool,
    /// Counters whose names begin so are compared.
    counters: &'static str,
    benchmarks: &'static [&'static str],
}

/// Only what is about the journal runs with one: how far its rounds are decides what writes may
/// prune. Reads among tables and memtables may ask for a compaction, which comes when it comes:
/// so `ycsb.e` and `ycsb.f` are not run in tables.
const KINDS: [Kind; 3] = [
    Kind {
        name: "memory",
        durability: Durability::None,
        in_tables: false,
        counters: "",
        benchmarks: &[
            "ycsb.load",
            "overwrite.uniform",
            "overwrite.zipf",
            "get",
            "get.missing",
            "seek10",
            "ycsb.e",
            "ycsb.f",
            "readreverse",
        ],
    },
    Kind {
        name: "tables",
        durability: Durability::None,
        in_tables: true,
        counters: "",
        benchmarks: &[
            "ycsb.load",
            "overwrite.uniform",
            "overwrite.zipf",
            "get",
            "get.missing",
            "seek10",
            "readreverse",
        ],
    },
    Kind {
        name: "journal",
        durability: Durability::Process,
        in_tables: false,
        counters: "journal_",
        benchmarks: &["ycsb.load", "overwrite.uniform"],
    },
];
/// Counts below so many for each operation are not worth a line.
const COUNT_MIN: f64 = 0.001;
/// Less than this is rounding.
const TOLERANCE: f64 = 0.001;
/// K3.
const NOT_COMPARED: [&str; 4] = ["cache_hits", "table_filter_negatives", "stall_us", "prunes"];
/// The meter that is compared beside the store's own counters (K4).
const INSTRUCTIONS: &str = "instructions";
/// Counts in which something else has a small part, and how small: the journal's rounds; where
/// waiting loops end, and which of its functions a C library takes for the processor.
const WANDERING: [(&str, f64); 2] = [(INSTRUCTIONS, 0.02), ("journal_bytes", 0.05)];

fn tolerance(counter: &str) -> f64 {
    let mut known = WANDERING.iter();
    let known = known.find(|(name, _)| *name == counter);
    known.map_or(TOLERANCE, |(_, part)| *part)
}

/// Runs the workloads on `store`.
///
/// # Errors
/// As of any run; the first failure of the store.
pub fn count(dir: &Path, store: &str, rounds: u64, watch: &dyn Watch) -> Outcome<Counted> {
    let mut counted = Counted::default();
    let callgrind = callgrind::missing();
    for kind in &KINDS {
        let mut session = kind.session(dir, store, rounds)?;
        counted.add(kind, store, &run(&session, watch)?);
        if callgrind.is_none() {
            session.instructions = true;
            session.changes.records = Some(RECORDS_SLOW);
            counted.add_instructions(kind, store, &run(&session, watch)?);
        }
    }
    counted.remarks.extend(callgrind);
    Ok(counted)
}

fn run(session: &Session, watch: &dyn Watch) -> Outcome<Results> {
    let (results, failures) = session.run(watch)?;
    failures.into_iter().next().map_or(Ok(results), Err)
}

impl Kind {
    fn session(&self, dir: &Path, store: &str, rounds: u64) -> Outcome<Session> {
        let mut benchmarks = Vec::new();
        for name in self.benchmarks {
            benchmarks.extend(catalogue::named(name)?);
        }
        Ok(Session {
            benchmarks,
            peers: Some(vec![store.to_owned()]),
            threads: vec![1],
            rounds,
            dir: dir.to_owned(),
            changes: Changes {
                records: Some(RECORDS),
                memory: Some(MEMORY),
                write_buffer: Some(WRITE_BUFFER),
                latency_every: Some(0),
                durability: Some(self.durability),
                settled: self.in_tables,
                drained: self.in_tables,
                ..Changes::default()
            },
            instructions: false,
            command: String::new(),
        })
    }
}

impl Counted {
    fn add(&mut self, kind: &Kind, store: &str, results: &Results) {
        for one in results.measurements.iter().filter(|one| one.store == store) {
            for (counter, count) in &one.counters {
                let not = NOT_COMPARED.iter().any(|not| counter.starts_with(not));
                if !not && counter.starts_with(kind.counters) {
                    self.enter(kind, one, counter, float(*count));
                }
            }
        }
    }

    fn add_instructions(&mut self, kind: &Kind, store: &str, results: &Results) {
        for one in results.measurements.iter().filter(|one| one.store == store) {
            if let Some(count) = one.meters.get(INSTRUCTIONS) {
                self.enter(kind, one, INSTRUCTIONS, *count);
            }
        }
    }

    fn enter(&mut self, kind: &Kind, one: &Measurement, counter: &str, count: f64) {
        let name = format!("{}/{}", kind.name, one.benchmark);
        let rounds = self.rounds.entry((name, counter.to_owned())).or_default();
        rounds.push(count / float(one.operations.max(1)));
    }

    /// Whether none could be counted (K4).
    fn lacks_instructions(&self) -> bool {
        self.rounds
            .keys()
            .all(|(_, counter)| counter != INSTRUCTIONS)
    }

    /// What is worth a line, with whether it was the same in all rounds.
    fn lines(&self) -> impl Iterator<Item = (&Name, Spread, bool)> {
        self.rounds.iter().filter_map(|(name, rounds)| {
            let spread = Spread::of(rounds.iter().copied())?;
            let steady = spread.greatest <= spread.least * (1.0 + tolerance(&name.1));
            (spread.greatest >= COUNT_MIN).then_some((name, spread, steady))
        })
    }

    /// A baseline of it.
    #[must_use]
    pub fn baseline(&self) -> Baseline {
        let steady = self.lines().filter(|(.., steady)| *steady);
        let lines = steady.map(|(name, spread, _)| (name.clone(), spread.median));
        Baseline(lines.collect())
    }

    /// Counts that differ from round to round, and so are in no baseline (K2).
    #[must_use]
    pub fn unsteady(&self) -> Vec<String> {
        let unsteady = self.lines().filter(|(.., steady)| !steady);
        unsteady
            .map(|(name, spread, _)| told_unsteady(name, spread))
            .collect()
    }
}

fn told_unsteady((workload, counter): &Name, spread: Spread) -> String {
    let (least, greatest) = (spread.least, spread.greatest);
    format!("{workload} {counter}: from {least:.4} to {greatest:.4} per operation")
}

const HEAD: &str = "workload\tcounter\tper operation\n";

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
            let [workload, counter, each] = fields[..] else {
                return Err(wrong());
            };
            let each = each.parse().map_err(|_| wrong())?;
            lines.insert((workload.to_owned(), counter.to_owned()), each);
        }
        Ok(Baseline(lines))
    }

    /// As `parse` reads it.
    #[must_use]
    pub fn text(&self) -> String {
        let line = |((workload, counter), each): (&Name, &f64)| {
            format!("{workload}\t{counter}\t{each:.4}\n")
        };
        HEAD.to_owned() + &self.0.iter().map(line).collect::<String>()
    }

    /// Compares (K1, K2).
    #[must_use]
    pub fn compare(&self, counted: &Counted) -> Verdict {
        let mut verdict = Verdict::default();
        for (name, expected) in &self.0 {
            let told = format!("{} {}", name.0, name.1);
            let rounds = counted.rounds.get(name);
            let Some(spread) = rounds.and_then(|all| Spread::of(all.iter().copied())) else {
                match name.1 == INSTRUCTIONS && counted.lacks_instructions() {
                    true => verdict.beyond.push(told),
                    false => verdict.missing.push(told),
                }
                continue;
            };
            let tolerated = tolerance(&name.1);
            if spread.greatest > spread.least * (1.0 + tolerated) {
                verdict.unsteady.push(told_unsteady(name, spread));
                continue;
            }
            verdict.compared += 1;
            let found = spread.median;
            let ratio = found / expected.max(1e-9);
            let percent = (ratio - 1.0) * 100.0;
            let told = format!(
                "{told}: {found:.4} per operation, the baseline has {expected:.4} ({percent:+.1} %)"
            );
            if ratio > 1.0 + tolerated && found - expected > ROUNDING {
                verdict.grown.push(told);
            } else if ratio < 1.0 - tolerated && expected - found > ROUNDING {
                verdict.fallen.push(told);
            }
        }
        let steady = counted.lines().filter(|(.., steady)| *steady);
        let new = steady.filter(|(name, ..)| !self.0.contains_key(*name));
        verdict.new = new
            .map(|(name, ..)| format!("{} {}", name.0, name.1))
            .collect();
        verdict
    }
}

/// Half of the last digit that a baseline has, and a little.
const ROUNDING: f64 = 0.000_06;

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(rounds: [f64; 3]) -> Counted {
        let name = ("memory/get".to_owned(), "memtable_comparisons".to_owned());
        Counted {
            rounds: BTreeMap::from([(name, rounds.to_vec())]),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn a_count_that_grew_fails_and_one_that_fell_is_told() {
        let baseline = counted([20.0; 3]).baseline();
        let verdict = |each| baseline.compare(&counted([each; 3]));
        let same = verdict(20.0001);
        let expected = Verdict {
            compared: 1,
            ..Verdict::default()
        };
        assert_eq!(same, expected);
        assert!(same.passed());
        assert_eq!(verdict(20.1).grown.len(), 1);
        assert!(!verdict(20.1).passed());
        assert_eq!(verdict(15.0).fallen.len(), 1);
        assert!(verdict(15.0).passed());
    }

    #[test]
    fn what_is_not_counted_any_more_fails_and_what_is_new_is_told() {
        let baseline = counted([20.0; 3]).baseline();
        let verdict = baseline.compare(&Counted::default());
        assert_eq!(verdict.missing.len(), 1);
        assert!(!verdict.passed());
        let verdict = Baseline::default().compare(&counted([20.0; 3]));
        assert_eq!(verdict.new.len(), 1);
        assert!(verdict.passed());
    }

    #[test]
    fn a_count_that_wanders_is_in_no_baseline_and_fails_one_that_has_it() {
        let wandering = counted([20.0, 20.1, 20.0]);
        assert!(wandering.baseline().0.is_empty());
        assert_eq!(wandering.unsteady().len(), 1);
        let verdict = counted([20.0; 3]).baseline().compare(&wandering);
        assert_eq!((verdict.unsteady.len(), verdict.compared), (1, 0));
        assert!(!verdict.passed());
    }

    #[test]
    fn instructions_may_wander_and_be_beyond_the_machine() {
        let name = ("memory/get".to_owned(), "instructions".to_owned());
        let counted = |each: f64| Counted {
            rounds: BTreeMap::from([(name.clone(), vec![each, each * 1.01])]),
            remarks: Vec::new(),
        };
        let baseline = counted(700.0).baseline();
        assert!(baseline.compare(&counted(707.0)).passed());
        assert!(!baseline.compare(&counted(721.0)).passed());
        let verdict = baseline.compare(&Counted::default());
        assert_eq!(verdict.beyond.len(), 1);
        assert!(verdict.passed());
        // But where others were counted, this one is gone.
        let other = ("memory/seek10".to_owned(), "instructions".to_owned());
        let verdict = baseline.compare(&Counted {
            rounds: BTreeMap::from([(other, vec![9.0])]),
            remarks: Vec::new(),
        });
        assert_eq!((verdict.beyond.len(), verdict.missing.len()), (0, 1));
        assert!(!verdict.passed());
    }

    #[test]
    fn a_baseline_is_read_as_it_was_written() {
        let baseline = counted([20.0; 3]).baseline();
        let text = baseline.text();
        assert!(
            text.contains("memory/get\tmemtable_comparisons\t20.0000\n"),
            "{text}"
        );
        assert_eq!(Baseline::parse(&text).unwrap().text(), text);
        assert!(Baseline::parse("head\nmemory/get\tx\ty\n").is_err());
        assert!(Baseline::parse("head\nmemory/get\n").is_err());
    }

    #[test]
    fn what_is_rare_is_not_in_a_baseline() {
        assert!(counted([0.0001; 3]).baseline().0.is_empty());
    }
}
