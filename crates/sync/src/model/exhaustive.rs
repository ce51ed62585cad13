//! loom: every interleaving and every reordering, up to a bound of preemptions.
//!
//! loom keeps only the last access per atomic for backtracking, so that a thread which loads and
//! then changes a word hides another thread's earlier load: place each role in the main thread, in
//! a spawned one, and all in spawned ones, and keep a control that fails.

use super::{Explored, budget, explored, number, report};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// `model` holds in every execution with at most `bound` preemptions.
///
/// # Panics
/// If it does not.
pub fn holds(name: &str, bound: usize, model: impl Fn() + Send + Sync + 'static) {
    holds_all(name, bound, vec![Box::new(model)]);
}

/// As [`holds`], for several placements of a model's roles, which are counted together.
///
/// # Panics
/// If one of them does not hold, or there is none.
pub fn holds_all(name: &str, bound: usize, models: Vec<Placement>) {
    let bound = bound + number("VELELLA_MODEL_DEEPER").unwrap_or(0) as usize;
    let each = budget().map(|all| all / models.len().max(1) as u32);
    report(name, &how(bound), true, &explore_all(bound, each, models));
}

/// A model with its roles placed on threads in some way.
pub type Placement = Box<dyn Fn() + Send + Sync>;

/// Some execution of one of `models`, the placements of a control, fails.
///
/// # Panics
/// If none does, or there is none.
pub fn fails(name: &str, bound: usize, models: Vec<Placement>) {
    report(name, &how(bound), false, &explore_all(bound, None, models));
}

/// Explores one after the other, each within `budget`, up to the first that fails.
fn explore_all(bound: usize, budget: Option<Duration>, models: Vec<Placement>) -> Explored {
    let mut models = models.into_iter();
    let first = models.next().expect("there is a placement");
    let mut all = explore(bound, budget, first);
    for model in models {
        if all.failure.is_some() {
            break;
        }
        let next = explore(bound, budget, model);
        all.executions += next.executions;
        all.time += next.time;
        all.is_cut |= next.is_cut;
        all.failure = next.failure;
    }
    all
}

/// Steps of an execution, of which the longest, of the whole engine, has some thousands: one that
/// has more goes round and round.
const STEPS_MAX: usize = 20_000;

fn how(bound: usize) -> String {
    format!("loom, {bound} preemptions")
}

fn explore(
    bound: usize,
    budget: Option<Duration>,
    model: impl Fn() + Send + Sync + 'static,
) -> Explored {
    let count = Arc::new(AtomicU64::new(0));
    let mut explored = explored(|| {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(bound);
        builder.max_duration = budget;
        builder.max_branches = STEPS_MAX;
        // It looks at the clock only there.
        builder.checkpoint_interval = 256;
        let count = Arc::clone(&count);
        builder.check(move || {
            // Relaxed: read after the thread was joined.
            count.fetch_add(1, Ordering::Relaxed);
            model();
        });
    });
    explored.executions = count.load(Ordering::Relaxed);
    explored.is_cut = budget.is_some_and(|budget| explored.time >= budget);
    explored
}
