//! One campaign and the runner around it.
//!
//! R1. A plan of `runs` seeds from `first` runs each exactly once; with a time limit it stops
//!     between two runs.
//! R2. The first failure stops the hand-out of seeds; the failure reported is the one with the
//!     smallest seed, with the command that repeats it.
//! R3. A panic in a run is a failure of that run, with its message.
//! R4. A run that does not end within its limit is a failure with its seed, and is not waited for:
//!     its thread stays behind until the process ends. Time in which the whole process was stopped
//!     from outside does not count.
//!
//! Threads: seeds are handed out by one counter; each run stays on its thread, and tells the one
//! that waits when it began and how it ended.
//! Tests: below.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How often to look for runs that hang.
const LOOK: Duration = Duration::from_millis(100);

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
pub trait Campaign: Send + Sync {
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
    /// A run that takes longer hangs (R4).
    pub run_limit: Duration,
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

/// The time that a process has been awake, as far as one that looks around every `LOOK` can tell.
#[derive(Debug, Default)]
struct Awake {
    time: Duration,
}

impl Awake {
    /// A look around, so long after the last. What is far longer than a nap was a stop.
    fn look(&mut self, since_the_last: Duration) {
        self.time += since_the_last.min(2 * LOOK);
    }
}

/// What a thread tells whoever waits.
enum News {
    Began(usize, u64),
    Ended(usize, u64, Result<Tally, String>),
    Left,
}

/// Carries out `plan`; `progress` is called after every run with the runs done so far.
pub fn run(campaign: &Arc<dyn Campaign>, plan: &Plan, progress: &dyn Fn(u64)) -> Outcome {
    let started = Instant::now();
    let (tell, news) = std::sync::mpsc::channel();
    let stop = Arc::new(AtomicBool::new(false));
    let next = Arc::new(AtomicU64::new(0));
    for worker in 0..plan.threads.max(1) {
        let (campaign, plan, tell) = (Arc::clone(campaign), plan.clone(), tell.clone());
        let (stop, next) = (Arc::clone(&stop), Arc::clone(&next));
        std::thread::spawn(move || {
            work(
                worker,
                campaign.as_ref(),
                &plan,
                started,
                &next,
                &stop,
                &tell,
            );
            // Nobody listens any more where a run hung.
            let _ = tell.send(News::Left);
        });
    }
    let mut outcome = Outcome {
        runs: 0,
        tally: Tally::new(),
        failure: None,
        seconds: 0.0,
    };
    let mut under_way = BTreeMap::new();
    let mut here = plan.threads.max(1);
    let (mut awake, mut looked) = (Awake::default(), started);
    while here > 0 {
        let word = news.recv_timeout(LOOK);
        awake.look(looked.elapsed());
        looked = Instant::now();
        match word {
            Ok(News::Began(worker, seed)) => {
                under_way.insert(worker, (seed, awake.time));
            }
            Ok(News::Ended(worker, seed, result)) => {
                under_way.remove(&worker);
                outcome.runs += 1;
                match result {
                    Ok(tally) => outcome.tally.merge(&tally),
                    Err(what) => outcome.fail(seed, what, &stop),
                }
                progress(outcome.runs);
            }
            Ok(News::Left) => here -= 1,
            Err(_) => {}
        }
        let overdue =
            |(_, (_, since)): &(&usize, &(u64, Duration))| awake.time - *since > plan.run_limit;
        if let Some((_, (seed, since))) = under_way.iter().find(overdue) {
            let seconds = (awake.time - *since).as_secs();
            outcome.fail(*seed, format!("it hangs: no end after {seconds} s"), &stop);
            break;
        }
    }
    outcome.seconds = started.elapsed().as_secs_f64();
    outcome
}

impl Outcome {
    /// R2.
    fn fail(&mut self, seed: u64, what: String, stop: &AtomicBool) {
        stop.store(true, Ordering::Relaxed);
        if self.failure.as_ref().is_none_or(|known| seed < known.seed) {
            self.failure = Some(Failure { seed, what });
        }
    }
}

/// Runs seeds until there are none left.
fn work(
    worker: usize,
    campaign: &dyn Campaign,
    plan: &Plan,
    started: Instant,
    next: &AtomicU64,
    stop: &AtomicBool,
    tell: &Sender<News>,
) {
    while !stop.load(Ordering::Relaxed) && plan.limit.is_none_or(|limit| started.elapsed() < limit)
    {
        let place = next.fetch_add(1, Ordering::Relaxed);
        if place >= plan.runs {
            break;
        }
        let seed = plan.first + place;
        let _ = tell.send(News::Began(worker, seed));
        let _ = tell.send(News::Ended(worker, seed, guarded(campaign, seed)));
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

    fn odd() -> Arc<dyn Campaign> {
        Arc::new(Odd)
    }

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
            if seed >= 1_000 {
                loop {
                    std::thread::park();
                }
            }
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
            run_limit: Duration::from_secs(60),
            threads,
        }
    }

    #[test]
    fn each_seed_runs_once_and_counts_add_up() {
        let outcome = run(&odd(), &plan(1, 80, 3), &|_| {});
        assert_eq!((outcome.runs, outcome.tally.of("numbers")), (80, 80));
        assert_eq!(outcome.tally.of("sum"), (1..=80).sum::<u64>());
        assert_eq!(outcome.failure, None);
    }

    #[test]
    fn the_failure_with_the_smallest_seed_is_reported() {
        let failure = run(&odd(), &plan(80, 100, 1), &|_| {}).failure.unwrap();
        assert_eq!((failure.seed, failure.what.as_str()), (90, "too large"));
    }

    #[test]
    fn a_panic_is_a_failure_with_its_message() {
        let failure = run(&odd(), &plan(95, 1, 1), &|_| {}).failure.unwrap();
        assert_eq!(failure.what, "panic: 95 is far too large");
    }

    #[test]
    fn a_time_limit_of_nothing_runs_nothing() {
        let mut plan = plan(1, 80, 2);
        plan.limit = Some(Duration::ZERO);
        assert_eq!(run(&odd(), &plan, &|_| {}).runs, 0);
    }

    #[test]
    fn a_process_that_was_stopped_was_not_awake() {
        let mut awake = Awake::default();
        for since_the_last in [LOOK, LOOK / 2, Duration::from_secs(400), LOOK] {
            awake.look(since_the_last);
        }
        assert!(awake.time < 5 * LOOK, "{awake:?}");
        assert!(awake.time > 2 * LOOK, "{awake:?}");
    }

    #[test]
    fn a_run_that_hangs_is_reported_with_its_seed_and_not_waited_for() {
        let plan = Plan {
            run_limit: Duration::from_millis(200),
            ..plan(1_000, 5, 2)
        };
        let failure = run(&odd(), &plan, &|_| {}).failure.unwrap();
        assert!((1_000..1_002).contains(&failure.seed));
        assert!(failure.what.starts_with("it hangs"), "{}", failure.what);
    }
}
