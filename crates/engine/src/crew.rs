//! How many background threads work at once: some whenever there is work, the others only while
//! writers lag behind it.
//!
//! W1. The first hands, half as many as there are processors and at least one, take up whatever is
//!     due. A further one would have to have a writer's processor, and the two would take turns of
//!     milliseconds: at 70 % of what they can do, one put in a thousand then waits 60 ms (decision
//!     0015).
//! W2. The further ones join once work has piled up a good part of the way to where writers are
//!     slowed or stopped: waiting costs them more than sharing.
//! W3. Only when a piece of work begins: a hand that is at it finishes it.
//!
//! Threads: the workers. Tests: below; `a_second_hand_joins_once_flushes_pile_up`.

use velella_sync::atomic::{AtomicUsize, Ordering};

/// The background threads of a database that are at work.
#[derive(Debug)]
pub(crate) struct Crew {
    busy: AtomicUsize,
    /// How many may be whatever the writers do (W1).
    first: usize,
}

/// One that is at work, until it is dropped.
#[derive(Debug)]
pub(crate) struct Hand<'a>(&'a Crew);

impl Crew {
    /// The crew of a database on so many processors: nobody is at work.
    pub(crate) fn new(processors: usize) -> Self {
        Crew {
            busy: AtomicUsize::new(0),
            first: (processors / 2).max(1),
        }
    }

    /// Whether one more may be at work.
    pub(crate) fn has_room(&self, is_lagging: impl FnOnce() -> bool) -> bool {
        // Relaxed: a count that guards nothing; one too many for a moment does no harm.
        self.busy.load(Ordering::Relaxed) < self.first || is_lagging()
    }

    /// Sets to work, if one more may be.
    pub(crate) fn join(&self, is_lagging: impl FnOnce() -> bool) -> Option<Hand<'_>> {
        // Relaxed: as in `has_room`. Counted before it is looked at, so that of two that come at
        // once both may be refused, never both let in: they come again.
        let before = self.busy.fetch_add(1, Ordering::Relaxed);
        let hand = Hand(self);
        (before < self.first || is_lagging()).then_some(hand)
    }
}

impl Drop for Hand<'_> {
    fn drop(&mut self) {
        // Relaxed: as in `join`.
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_processors_are_taken_at_once_and_more_only_for_writers() {
        for (processors, first) in [(1, 1), (2, 1), (3, 1), (4, 2), (16, 8)] {
            let crew = Crew::new(processors);
            let mut hands: Vec<_> = (0..first).map(|_| crew.join(|| false).unwrap()).collect();
            assert!(crew.join(|| false).is_none() && !crew.has_room(|| false));
            assert!(crew.has_room(|| true));
            hands.push(crew.join(|| true).unwrap());
            drop(hands);
            assert!(crew.has_room(|| false) && crew.join(|| false).is_some());
        }
    }
}
