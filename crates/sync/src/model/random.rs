//! shuttle: many schedules, drawn by two schedulers in turn: evenly at random, and by PCT
//! (Burckhardt et al., ASPLOS '10), which finds a bug of depth d with a known probability.

use super::{Explored, budget, explored, number, report};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Schedules of a batch, which share a seed.
const BATCH: usize = 500;
/// Ordering constraints of the bugs that PCT looks for: of the first, the second, the third batch,
/// and so on in turns.
const DEPTHS: [usize; 3] = [3, 4, 5];

#[derive(Debug, Clone, Copy)]
enum Scheduler {
    Random,
    Pct,
}

/// `model` holds in `schedules` schedules of either scheduler.
///
/// # Panics
/// If it does not.
pub fn holds(name: &str, schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    let model = Arc::new(model);
    for scheduler in [Scheduler::Random, Scheduler::Pct] {
        let explored = explore(&[scheduler], schedules, budget(), &model);
        report(name, how(scheduler), true, &explored);
    }
}

/// Within `schedules` schedules of each scheduler, batch by batch in turns, `model` fails: which of
/// the two meets a fault early, nobody knows beforehand.
///
/// # Panics
/// If it does not.
pub fn fails(name: &str, schedules: usize, model: impl Fn() + Send + Sync + 'static) {
    let both = [Scheduler::Random, Scheduler::Pct];
    let explored = explore(&both, schedules, None, &Arc::new(model));
    report(name, "shuttle, random and PCT", false, &explored);
}

fn how(scheduler: Scheduler) -> &'static str {
    match scheduler {
        Scheduler::Random => "shuttle, random",
        Scheduler::Pct => "shuttle, PCT depth 3-5",
    }
}

fn explore(
    schedulers: &[Scheduler],
    schedules: usize,
    budget: Option<Duration>,
    model: &Arc<impl Fn() + Send + Sync + 'static>,
) -> Explored {
    let count = Arc::new(AtomicU64::new(0));
    let batches = match number("VELELLA_SEED") {
        Some(_) => 1,
        None => schedules.div_ceil(BATCH) as u64 * number("VELELLA_SCALE").unwrap_or(1),
    };
    let base = number("VELELLA_SEED").unwrap_or_else(|| match budget {
        // What the fixed number of schedules covers has been covered.
        Some(_) => number("VELELLA_MODEL_SEED").unwrap_or_else(new_seed),
        None => 1,
    });
    let mut result = explored(|| {
        let start = Instant::now();
        let mut batch = 0;
        loop {
            for &scheduler in schedulers {
                run(scheduler, base + batch, model, &count);
            }
            batch += 1;
            let is_over = match budget {
                Some(budget) if number("VELELLA_SEED").is_none() => start.elapsed() >= budget,
                _ => batch >= batches,
            };
            if is_over {
                break;
            }
        }
    });
    // Relaxed: the thread was joined.
    result.executions = count.load(Ordering::Relaxed);
    let runs = result.executions.saturating_sub(1) / BATCH as u64;
    let seed = base + runs / schedulers.len() as u64;
    if let Some(failure) = &mut result.failure {
        *failure = format!("{failure}\nrepeat it with VELELLA_SEED={seed}");
    }
    result
}

/// Another one at every call.
fn new_seed() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(1, |since| {
        since.as_secs() << 20 | u64::from(since.subsec_micros())
    })
}

fn run(
    scheduler: Scheduler,
    seed: u64,
    model: &Arc<impl Fn() + Send + Sync + 'static>,
    count: &Arc<AtomicU64>,
) {
    let mut config = Config::new();
    config.stack_size = 256 << 10;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(1 << 17);
    config.silence_warnings = true;
    let (model, count) = (Arc::clone(model), Arc::clone(count));
    let body = move || {
        // Relaxed: read after the thread was joined.
        count.fetch_add(1, Ordering::Relaxed);
        model();
    };
    match scheduler {
        Scheduler::Random => {
            Runner::new(RandomScheduler::new_from_seed(seed, BATCH), config).run(body)
        }
        Scheduler::Pct => {
            let depth = DEPTHS[usize::try_from(seed.wrapping_sub(1) % 3).expect("below 3")];
            Runner::new(PctScheduler::new_from_seed(seed, depth, BATCH), config).run(body)
        }
    };
}
