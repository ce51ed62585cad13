//! How long writers waited for the journal: for a page that the system had to make ready, for a
//! segment that had to be made, for a `write`.
//!
//! V1. Only what took a millisecond or more is noted: less is no wait that anybody would look for,
//!     and takes no lock here. A writer that lost its processor on the way is noted as well; which
//!     of the two it was is not asked.
//!
//! Threads: any. Tests: below, `tests/lanes.rs`.

use std::time::Duration;
use velella_sync::lock::Mutex;

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
    /// Notes what took so long, if it did (V1).
    #[inline]
    pub(crate) fn note(&self, took: Duration) {
        if took >= NOTED {
            self.note_long(took);
        }
    }

    #[cold]
    fn note_long(&self, took: Duration) {
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
        waits.note(NOTED - Duration::from_nanos(1));
        assert_eq!(waits.report(), Waited::default());
        waits.note(3 * NOTED);
        waits.note(NOTED);
        let expected = Waited {
            count: 2,
            total: 4 * NOTED,
            max: 3 * NOTED,
        };
        assert_eq!(waits.report(), expected);
    }
}
