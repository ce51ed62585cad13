//! One thread as the whole machine: its clock stands still, and it starts no others.
//!
//! Crash campaigns replay a run from a number. What a thread does while it holds a [`Simulation`]
//! follows from what it is told: no thread joins it, and the wall clock says what it was set to.
//!
//! S1. It concerns the thread that began it, and only until it is dropped.
//! S2. An [`Unaided`] thread starts no helpers either, but its time passes.
//!
//! Threads: each its own. Tests: below.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// What the wall clock says; `None` outside a simulation.
    static WALL_MS: Cell<Option<u64>> = const { Cell::new(None) };
    /// How many [`Unaided`] there are.
    static UNAIDED: Cell<u32> = const { Cell::new(0) };
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

/// Held while this thread does by itself what it would start helpers for: where files are in
/// memory, starting one takes longer than what it does.
#[derive(Debug)]
pub struct Unaided {
    /// It stays on its thread (S1).
    here: PhantomData<*const ()>,
}

impl Unaided {
    /// From now on.
    #[must_use]
    pub fn begin() -> Unaided {
        UNAIDED.set(UNAIDED.get() + 1);
        Unaided { here: PhantomData }
    }
}

impl Drop for Unaided {
    fn drop(&mut self) {
        UNAIDED.set(UNAIDED.get() - 1);
    }
}

/// Whether this thread may start others that it waits for.
pub(crate) fn may_have_helpers() -> bool {
    WALL_MS.get().is_none() && UNAIDED.get() == 0
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

    #[test]
    fn an_unaided_thread_starts_no_helpers_until_it_is_aided_again() {
        let starts = || thread::scope(|scope| thread::spawn_scoped(scope, "x", || ()).is_ok());
        let unaided = Unaided::begin();
        assert!(!starts());
        assert!(std::thread::spawn(starts).join().unwrap(), "S1");
        drop(unaided);
        assert!(starts());
    }
}
