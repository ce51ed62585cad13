//! How many background threads work at once: some whenever there is work, the others only while
//! writers lag behind it.
//!
//! W1. At most half as many as there are processors, at least one, take up whatever is due. One
//!     more would, where writers are busy, take the processor of one: the two take turns of
//!     milliseconds, and at 70 % of what the writers can do, one put in a thousand then waits 60 ms
//!     (decision 0015).
//! W2. More begin once writers wait, or work has piled up towards where they are slowed or stopped:
//!     waiting costs them more than sharing.
//! W3. Who is at a piece of work finishes it.
//!
//! Threads: the workers. Tests: below; `a_second_hand_joins_once_flushes_pile_up`.

use velella_sync::atomic::{AtomicUsize, Ordering};

/// The background threads of a database that are at work.
#[derive(Debug)]
pub(crate) struct Crew {
    busy: AtomicUsize,
    /// How many may be whatever the writers do (W1).
    first: usize,
    #[cfg(test)]
    refused: AtomicUsize,
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
            #[cfg(test)]
            refused: AtomicUsize::new(0),
        }
    }

    /// Whether one more may be at work.
    pub(crate) fn has_room(&self, is_lagging: impl FnOnce() -> bool) -> bool {
        // Relaxed: a count that guards nothing; one too many for a moment does no harm.
        self.busy.load(Ordering::Relaxed) < self.first || is_lagging()
    }

    /// Sets to work, if one more may be.
    pub(crate) fn join(&self, is_lagging: impl FnOnce() -> bool) -> Option<Hand<'_>> {
        if !self.has_room(is_lagging) {
            #[cfg(test)]
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // Relaxed: as in `has_room`.
        self.busy.fetch_add(1, Ordering::Relaxed);
        Some(Hand(self))
    }

    /// How many are at work, and how many were refused so far.
    #[cfg(test)]
    pub(crate) fn counts(&self) -> (usize, usize) {
        // Relaxed: counts of a test.
        let refused = self.refused.load(Ordering::Relaxed);
        (self.busy.load(Ordering::Relaxed), refused)
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
