//! How background work gets off a processor on which it takes turns with another thread.
//!
//! A thread that never sleeps is moved to another processor only now and then: a background thread
//! and a writer were seen to take turns of 4 ms on one for 40 ms, while the other processor had
//! nothing to do (decision 0018). Linux puts a thread that wakes where nobody runs, if it can. So
//! one that was away for as long as a turn lasts sleeps for a moment; where all processors are
//! busy, the other has its turn back sooner.
//!
//! U1. A call costs a reading of the clock. Whose the time was is not asked: where a device took
//!     it, a nap is little beside it.
//! U2. Time between two pieces of work is no turn: each has `Turns` of its own.
//! U3. A simulated thread never sleeps here: its turns are the simulation's.
//!
//! Threads: one. Tests: below.

use crate::{simulation, thread};
use std::time::{Duration, Instant};

/// A thread that has its processor for itself calls again sooner than this.
const TURN: Duration = Duration::from_millis(2);
/// How long to sleep to be put elsewhere.
const NAP: Duration = Duration::from_micros(50);

/// The turns of a thread during one piece of work.
#[derive(Debug, Default)]
pub struct Turns {
    called: Option<Instant>,
}

impl Turns {
    /// To be called several times a millisecond: sleeps for a moment if this thread may have lost
    /// its processor since the last call.
    pub fn give_way(&mut self) {
        if cfg!(any(loom, shuttle)) || !simulation::may_have_helpers() {
            return;
        }
        if self.was_away(thread::now()) {
            thread::sleep(NAP);
            self.called = Some(thread::now());
        }
    }

    /// Whether so much time passed since the last call that others may have had a turn.
    fn was_away(&mut self, now: Instant) -> bool {
        let before = self.called.replace(now);
        before.is_some_and(|before| now.saturating_duration_since(before) >= TURN)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn who_was_away_for_a_turn_sleeps_and_is_not_away_for_that() {
        let (mut turns, mut now) = (Turns::default(), thread::now());
        let mut is_away_after = |after: Duration| {
            now += after;
            turns.was_away(now)
        };
        assert!(!is_away_after(TURN), "the first call");
        let shorter = TURN / 2;
        assert!(!is_away_after(shorter) && !is_away_after(shorter), "no sum");
        assert!(is_away_after(TURN) && !is_away_after(shorter));
        let before = thread::now().checked_sub(TURN).unwrap();
        turns.called = Some(before);
        turns.give_way();
        assert!(turns.called.unwrap() >= before + TURN + NAP, "it slept");
    }
}
