//! How long writers waited for the journal: for a page that the system had to make ready, for a
//! segment that had to be made, for a `write`.
//!
//! V1. Only what took a millisecond or more is noted: less is no wait that anybody would look for,
//!     and takes no lock here. A writer that lost its processor on the way is noted as well; which
//!     of the two it was is not asked.
//!
//! Threads: any. Tests: below, `tests/lanes.rs`.

use std::time::{Duration, Instant};
use velella_sync::lock::Mutex;
use velella_sync::thread;

/// V1.
const NOTED: Duration = Duration::from_millis(1);

/// Waits that are over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waited {
    /// How many.
    pub count: u64,
    /// How long in all.
    pub total: Duration,
    /// The longest.
    pub max: Duration,
}

/// Where they are noted.
#[derive(Debug, Default)]
pub(crate) struct Waits(Mutex<Waited>);

impl Waits {
    /// Notes what began then and is over, if it took long (V1): nothing does in a model, where time
    /// stands still.
    #[inline]
    pub(crate) fn note_since(&self, began: Instant) {
        let took = thread::now().saturating_duration_since(began);
        if took >= NOTED {
            self.note(took);
        }
    }

    #[cold]
    fn note(&self, took: Duration) {
        let mut waited = self.0.lock();
        waited.count += 1;
        waited.total += took;
        waited.max = waited.max.max(took);
    }

    pub(crate) fn report(&self) -> Waited {
        *self.0.lock()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn only_what_took_long_is_noted() {
        let waits = Waits::default();
        waits.note_since(thread::now() + NOTED);
        assert_eq!(waits.report(), Waited::default());
        waits.note_since(thread::now().checked_sub(3 * NOTED).unwrap());
        waits.note(NOTED);
        let told = waits.report();
        assert_eq!(told.count, 2);
        assert!(told.max >= 3 * NOTED && told.total == told.max + NOTED);
    }
}
