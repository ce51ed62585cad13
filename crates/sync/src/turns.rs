//! How background work gets off a processor on which it takes turns with another thread.
//!
//! A thread that never sleeps is moved to another processor only now and then: a background thread
//! and a writer were seen to take turns of 4 ms on one for 40 ms, while the other processor had
//! nothing to do (decision 0018). A thread that wakes is put where nobody runs. So one that was
//! away for as long as a turn lasts sleeps for a moment; where all processors are busy, the other
//! has its turn back sooner.
//!
//! U1. A look costs a look at the clock. Whose the time was is not asked: where a device took it, a
//!     nap is little beside it.
//!
//! Threads: each for itself. Tests: below.

use crate::thread;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// What lies between two looks of one that has its processor for itself is shorter.
const TURN: Duration = Duration::from_millis(2);
/// How long to sleep to be put elsewhere.
const NAP: Duration = Duration::from_micros(50);

thread_local! {
    static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// To be called several times a millisecond by work that takes long and that nobody waits for:
/// sleeps for a moment if this thread may have lost its processor since its last call.
pub fn give_way() {
    if cfg!(any(loom, shuttle)) {
        return;
    }
    let _ = LOOKED.try_with(|looked| {
        if was_away(looked, thread::now()) {
            thread::sleep(NAP);
            looked.set(Some(thread::now()));
        }
    });
}

/// Whether so much time passed since the last look that others may have had a turn.
fn was_away(looked: &Cell<Option<Instant>>, now: Instant) -> bool {
    let before = looked.replace(Some(now));
    before.is_some_and(|before| now.saturating_duration_since(before) >= TURN)
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn who_was_away_for_a_turn_sleeps_and_is_not_away_for_that() {
        let (looked, mut now) = (Cell::new(None), thread::now());
        let mut look = |after: Duration| {
            now += after;
            was_away(&looked, now)
        };
        assert!(!look(TURN), "the first look");
        assert!(
            !look(TURN / 2) && !look(TURN / 2),
            "short ones add up to nothing"
        );
        assert!(look(TURN) && !look(TURN / 2));
        give_way();
        thread::sleep(TURN);
        let before = thread::now();
        give_way();
        assert!(before.elapsed() >= NAP);
        assert!(LOOKED.get().unwrap() >= before + NAP);
    }
}
