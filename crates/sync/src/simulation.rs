//! One thread as the whole machine: its clock stands still, and it starts no others.
//!
//! Crash campaigns replay a run from a number. What a thread does while it holds a [`Simulation`]
//! follows from what it is told: no thread joins it, and the wall clock says what it was set to.
//!
//! S1. It concerns the thread that began it, and only until it is dropped.
//!
//! Threads: each its own. Tests: below.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// What the wall clock says; `None` outside a simulation.
    static WALL_MS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Held while this thread is simulated.
#[derive(Debug)]
pub struct Simulation {
    /// It stays on its thread (S1).
    here: PhantomData<*const ()>,
}

impl Simulation {
    /// Begins one, at `wall_ms` milliseconds since 1970.
    #[must_use]
    pub fn begin(wall_ms: u64) -> Simulation {
        WALL_MS.set(Some(wall_ms));
        Simulation { here: PhantomData }
    }

    /// Lets `ms` milliseconds pass.
    pub fn pass(&self, ms: u64) {
        WALL_MS.set(WALL_MS.get().map(|now| now.saturating_add(ms)));
    }
}

impl Drop for Simulation {
    fn drop(&mut self) {
        WALL_MS.set(None);
    }
}

/// What the wall clock of this thread is set to, if it is simulated.
pub(crate) fn wall_ms() -> Option<u64> {
    WALL_MS.get()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread;

    #[test]
    fn a_simulated_thread_has_its_own_time_and_starts_no_others() {
        let simulation = Simulation::begin(1_000);
        simulation.pass(5);
        assert_eq!(thread::wall_ms(), 1_005);
        thread::scope(|scope| {
            assert!(thread::spawn_scoped(scope, "other", || ()).is_err());
        });
        drop(simulation);
        assert!(thread::wall_ms() > 1_005);
    }
}
