//! One campaign and the runner around it.
//!
//! R1. A plan of `runs` seeds from `first` runs each exactly once; with a time limit it stops
//!     between two runs.
//! R2. The first failure stops the hand-out of seeds; the failure reported is the one with the
//!     smallest seed, with the command that repeats it.
//! R3. A panic in a run is a failure of that run, with its message.
//!
//! Threads: seeds are handed out by one counter; each run stays on its thread.
//! Tests: below.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What one run, or all of them, counted: for instance `crash images` or `writes checked`.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// Nothing counted yet.
    #[must_use]
    pub fn new() -> Self {
        Tally::default()
    }

    /// Counts `more` of `what`.
    pub fn add(&mut self, what: &'static str, more: u64) {
        *self.0.entry(what).or_insert(0) += more;
    }

    /// How many of `what` were counted.
    #[must_use]
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// All counts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(name, count)| (*name, *count))
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Tally) {
        for (what, more) in other.iter() {
            self.add(what, more);
        }
    }
}

/// An attack that follows from a seed.
pub trait Campaign: Sync {
    /// Its name on the command line, for instance `power-loss`.
    fn name(&self) -> &'static str;

    /// The goals of RELIABILITY.md it counts for, for instance `G2`.
    fn goal(&self) -> &'static str;

    /// What it attacks and how, in one line for `--help`.
    fn about(&self) -> &'static str;

    /// Which count of the tally is the campaign's figure, for instance `crash images`.
    fn unit(&self) -> &'static str;

    /// The runs of one session when nothing else is asked.
    fn usual_runs(&self) -> u64;

    /// Attacks once.
    ///
    /// # Errors
    /// What was lost, mixed up or refused: one line that names the place.
    fn run(&self, seed: u64) -> Result<Tally, String>;
}

/// How long and how wide to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The first seed.
    pub first: u64,
    /// How many seeds.
    pub runs: u64,
    /// Stop handing out seeds after this long.
    pub limit: Option<Duration>,
    /// Threads.
    pub threads: usize,
}

/// A run that failed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What went wrong.
    pub what: String,
}

/// What came of a plan.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Outcome {
    /// Runs that were completed.
    pub runs: u64,
    /// All their counts.
    pub tally: Tally,
    /// The failure with the smallest seed, if any run failed.
    pub failure: Option<Failure>,
    /// Seconds it took.
    pub seconds: f64,
}

/// Carries out `plan`; `progress` is called after every run with the runs done so far.
pub fn run(campaign: &dyn Campaign, plan: &Plan, progress: &(dyn Fn(u64) + Sync)) -> Outcome {
    let started = Instant::now();
    let (next, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let total = Mutex::new((Tally::new(), None::<Failure>));
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed)
                    && plan.limit.is_none_or(|limit| started.elapsed() < limit)
                {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    if place >= plan.runs {
                        break;
                    }
                    let seed = plan.first + place;
                    let result = guarded(campaign, seed);
                    let mut total = total.lock().unwrap_or_else(|broken| broken.into_inner());
                    match result {
                        Ok(tally) => total.0.merge(&tally),
                        Err(what) => {
                            stop.store(true, Ordering::Relaxed);
                            if total.1.as_ref().is_none_or(|known| seed < known.seed) {
                                total.1 = Some(Failure { seed, what });
                            }
                        }
                    }
                    drop(total);
                    progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                }
            });
        }
    });
    let (tally, failure) = total
        .into_inner()
        .unwrap_or_else(|broken| broken.into_inner());
    Outcome {
        runs: done.into_inner(),
        tally,
        failure,
        seconds: started.elapsed().as_secs_f64(),
    }
}

/// One run whose panic is its failure (R3).
fn guarded(campaign: &dyn Campaign, seed: u64) -> Result<Tally, String> {
    std::panic::catch_unwind(AssertUnwindSafe(|| campaign.run(seed))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Odd;

    impl Campaign for Odd {
        fn name(&self) -> &'static str {
            "odd"
        }
        fn goal(&self) -> &'static str {
            "G0"
        }
        fn about(&self) -> &'static str {
            "fails from 90 on"
        }
        fn unit(&self) -> &'static str {
            "numbers"
        }
        fn usual_runs(&self) -> u64 {
            1
        }
        fn run(&self, seed: u64) -> Result<Tally, String> {
            assert!(seed < 95, "{seed} is far too large");
            let mut tally = Tally::new();
            tally.add("numbers", 1);
            tally.add("sum", seed);
            (seed < 90).then_some(tally).ok_or("too large".to_owned())
        }
    }

    fn plan(first: u64, runs: u64, threads: usize) -> Plan {
        Plan {
            first,
            runs,
            limit: None,
            threads,
        }
    }

    #[test]
    fn each_seed_runs_once_and_counts_add_up() {
        let outcome = run(&Odd, &plan(1, 80, 3), &|_| {});
        assert_eq!((outcome.runs, outcome.tally.of("numbers")), (80, 80));
        assert_eq!(outcome.tally.of("sum"), (1..=80).sum::<u64>());
        assert_eq!(outcome.failure, None);
    }

    #[test]
    fn the_failure_with_the_smallest_seed_is_reported() {
        let failure = run(&Odd, &plan(80, 100, 1), &|_| {}).failure.unwrap();
        assert_eq!((failure.seed, failure.what.as_str()), (90, "too large"));
    }

    #[test]
    fn a_panic_is_a_failure_with_its_message() {
        let failure = run(&Odd, &plan(95, 1, 1), &|_| {}).failure.unwrap();
        assert_eq!(failure.what, "panic: 95 is far too large");
    }

    #[test]
    fn a_time_limit_of_nothing_runs_nothing() {
        let mut plan = plan(1, 80, 2);
        plan.limit = Some(Duration::ZERO);
        assert_eq!(run(&Odd, &plan, &|_| {}).runs, 0);
    }
}
