//! Exploring a model, counting what was explored, and saying so in one line.
//!
//! A model is a closure that runs real code of this workspace on the model's atomics, locks and
//! threads, and panics when a promise is broken. [`holds`] explores it and must not see it fail;
//! [`fails`] explores a control, the same model with one step or ordering spoiled, and must.
//!
//! D1. Each exploration runs on a thread of its own: what a failed one leaves behind is gone.
//! D2. Each prints one line that begins with `model: `, which `cargo xtask models` collects.
//! D3. Under shuttle each batch of schedules has a seed, printed when it fails; `VELELLA_SEED`
//!     repeats that batch alone. `VELELLA_SCALE` multiplies the number of batches.
//!     `VELELLA_MODEL_SECONDS` ends an exploration when its time is over, and under shuttle
//!     continues it until then, from the seed `VELELLA_MODEL_SEED` on or from one by the clock.
//!     `VELELLA_MODEL_DEEPER` adds to loom's bounds. Controls are explored as ever.

use std::time::{Duration, Instant};

#[cfg(loom)]
mod exhaustive;
#[cfg(loom)]
pub use exhaustive::{Placement, fails, holds, holds_all};

#[cfg(shuttle)]
mod random;
#[cfg(shuttle)]
pub use random::{fails, holds};

/// How far an exploration came.
struct Explored {
    executions: u64,
    /// Its time was over before it was through.
    is_cut: bool,
    failure: Option<String>,
    time: Duration,
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// The time that one exploration may take, if that is limited.
fn budget() -> Option<Duration> {
    number("VELELLA_MODEL_SECONDS").map(Duration::from_secs)
}

/// Runs `explore` on a thread of its own (D1); executions are the caller's to count.
fn explored(explore: impl FnOnce() + Send) -> Explored {
    let start = Instant::now();
    let outcome = std::thread::scope(|scope| scope.spawn(explore).join());
    Explored {
        executions: 0,
        is_cut: false,
        failure: outcome.err().map(|panic| message(&*panic)),
        time: start.elapsed(),
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let owned = panic.downcast_ref::<String>().map(String::as_str);
    text.or(owned).unwrap_or("a panic without words").to_owned()
}

/// Says what became of a model (D2) and panics if that is not what was wanted.
fn report(name: &str, how: &str, must_hold: bool, explored: &Explored) {
    let verdict = match (&explored.failure, must_hold) {
        (None, true) if explored.is_cut => "holds, as far as explored",
        (None, true) => "holds",
        (Some(_), true) => "BROKEN",
        (Some(_), false) => "control fails, as it must",
        (None, false) => "CONTROL NOT NOTICED",
    };
    println!(
        "model: {name} | {how} | {} | {:.2} | {verdict}",
        explored.executions,
        explored.time.as_secs_f64()
    );
    let is_right = must_hold == explored.failure.is_none();
    assert!(
        is_right,
        "{name}: {verdict} after {} executions ({how}): {}",
        explored.executions,
        explored.failure.as_deref().unwrap_or("nothing failed")
    );
}
