//! How many keys there are, remembered for INFO.
//!
//! The engine keeps no count that is exact; counting walks the keys. INFO may be asked every
//! second, so a count that took long is reused until a hundred times as long has passed.
//!
//! U1. Counts that take [`LONG`] or longer use at most a hundredth of one thread's time; shorter
//!     ones are always made anew.
//! U2. Where many keys were deleted, what was counted until then is forgotten, and so is a count
//!     that was begun before and ends later.
//!
//! Tests: below.

use crate::databases::DATABASES;
use std::time::{Duration, Instant};
use velella_sync::lock::Mutex;

/// From this duration on a count is kept.
const LONG: Duration = Duration::from_millis(20);

/// The keys of one database.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Keys.
    pub keys: u64,
    /// Those with an expiry.
    pub expiring: u64,
    /// Mean time to live of those, in milliseconds.
    pub mean_ttl_ms: u64,
}

/// Counts made before, by database.
#[derive(Debug, Default)]
pub(crate) struct Census(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    made: [Option<Made>; DATABASES],
    /// When they were forgotten last (U2).
    forgotten: Option<Instant>,
}

#[derive(Debug, Clone, Copy)]
struct Made {
    count: Count,
    at: Instant,
    took: Duration,
}

impl Census {
    /// A count of `database` that is recent enough at `now`.
    pub(crate) fn recent(&self, database: usize, now: Instant) -> Option<Count> {
        let made = self.0.lock().made[database]?;
        let age = now.saturating_duration_since(made.at);
        (age < made.took.saturating_mul(100)).then_some(made.count)
    }

    /// Notes a count that was begun at `begun` and done at `now`.
    pub(crate) fn note(&self, database: usize, count: Count, begun: Instant, now: Instant) {
        let took = now.saturating_duration_since(begun);
        let mut counts = self.0.lock();
        let is_stale = counts.forgotten.is_some_and(|forgotten| begun <= forgotten);
        counts.made[database] = (took >= LONG && !is_stale).then_some(Made {
            count,
            at: now,
            took,
        });
    }

    /// Forgets the counts: the keys were deleted until `now` (U2).
    pub(crate) fn forget(&self, now: Instant) {
        *self.0.lock() = Counts {
            forgotten: Some(now),
            ..Counts::default()
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use velella_sync::thread::now;

    #[test]
    fn a_long_count_lasts_a_hundred_times_as_long_as_it_took() {
        let (census, begun) = (Census::default(), now());
        let count = Count {
            keys: 7,
            ..Count::default()
        };
        let done = begun + 2 * LONG;
        census.note(3, count, begun, done);
        assert_eq!(census.recent(3, done + 199 * LONG), Some(count));
        assert_eq!(census.recent(3, done + 200 * LONG), None);
        assert_eq!(census.recent(4, done), None);
        census.forget(done);
        assert_eq!(census.recent(3, done), None);
        census.note(3, count, begun, begun + LONG / 2);
        assert_eq!(census.recent(3, begun + LONG / 2), None);
    }

    #[test]
    fn a_count_that_keys_were_deleted_under_is_not_kept() {
        let (census, begun) = (Census::default(), now());
        let (deleted, done) = (begun + LONG, begun + 2 * LONG);
        census.forget(deleted);
        census.note(3, Count::default(), begun, done);
        assert_eq!(census.recent(3, done), None);
        census.note(3, Count::default(), deleted + LONG, done + LONG);
        assert_eq!(census.recent(3, done + LONG), Some(Count::default()));
    }
}
