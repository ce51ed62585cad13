//! loom: every interleaving and every reordering, up to a bound of preemptions.
//!
//! loom keeps only the last access per atomic for backtracking, so that a thread which loads and
//! then changes a word hides another thread's earlier load: place each role in the main thread, in
//! a spawned one, and all in spawned ones, and keep a control that fails.

use super::{Explored, budget, explored, report};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// `model` holds in every execution with at most `bound` preemptions.
///
/// # Panics
/// If it does not.
pub fn holds(name: &str, bound: usize, model: impl Fn() + Send + Sync + 'static) {
    report(name, &how(bound), true, &explore(bound, model));
}

/// Some execution of `model` with at most `bound` preemptions fails. Says whether: a control may
/// need several placements of its roles, of which one must fail.
pub fn fails(name: &str, bound: usize, models: Vec<Box<dyn Fn() + Send + Sync>>) {
    let mut all: Option<Explored> = None;
    for model in models {
        let mut this = explore(bound, model);
        if let Some(before) = all {
            this.executions += before.executions;
            this.time += before.time;
        }
        let has_failed = this.failure.is_some();
        all = Some(this);
        if has_failed {
            break;
        }
    }
    let all = all.expect("a control has a model");
    report(name, &how(bound), false, &all);
}

fn how(bound: usize) -> String {
    format!("loom, {bound} preemptions")
}

fn explore(bound: usize, model: impl Fn() + Send + Sync + 'static) -> Explored {
    let budget = budget();
    let count = Arc::new(AtomicU64::new(0));
    let mut explored = explored(|| {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(bound);
        builder.max_duration = budget;
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
