//! What reads are charged for looking in many places, and when they have paid for gathering.
//!
//! Source: LevelDB's allowed seeks, which compact a table that was searched in vain too often. Here
//! the keyspace is charged rather than a table, since a memtable costs a seek as much.
//!
//! K1. A seek is charged `SEEK_BYTES` for every source beyond the first. A keyspace is gathered
//!     when its charges have reached the bytes that this rewrites: the seeks until then have lost
//!     as much time as that takes, so gathering at most doubles what any sequence of seeks costs.
//! K2. What is gathered is at least a tenth of what it is merged with: as on its way down any
//!     level, a byte is rewritten about ten times.
//!
//! Threads: any count, the workers charge. Tests: below.

use velella_sync::counter::Counter;
use velella_sync::lock::Mutex;

/// What is rewritten while one more source costs a seek half a microsecond, at 250 MB/s: an
/// estimate, whose error only shifts when gathering begins.
const SEEK_BYTES: u64 = 128;
/// Less than this is not worth a file (K1).
const GATHER_BYTES_MIN: u64 = 1 << 20;
/// K2.
const RATIO: u64 = 10;

/// The reads of a keyspace, and what they were charged.
#[derive(Debug, Default)]
pub(crate) struct Toll {
    pub(crate) seeks: Counter,
    charged: Mutex<Charged>,
}

#[derive(Debug, Default)]
struct Charged {
    /// Seeks up to here are charged.
    seeks: u64,
    bytes: u64,
}

/// Where a seek looks, and what gathering would move.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scattered {
    /// Memtables and tables or levels that hold something.
    pub(crate) sources: u64,
    /// Bytes in memory and in level 0.
    pub(crate) upper: u64,
    /// Bytes of the level that they would be merged with.
    pub(crate) lower: u64,
}

impl Scattered {
    /// Bytes that gathering rewrites, if it may (K2).
    fn cost(&self) -> Option<u64> {
        let worthwhile = self.upper > 0 && self.upper.saturating_mul(RATIO) >= self.lower;
        worthwhile.then_some((self.upper + self.lower).max(GATHER_BYTES_MIN))
    }
}

impl Toll {
    /// Charges the seeks since the last time; whether they have paid for gathering, and if so,
    /// starts anew (K1).
    pub(crate) fn have_paid(&self, scattered: impl FnOnce() -> Scattered) -> bool {
        let Some(mut charged) = self.charged.try_lock() else {
            return false;
        };
        let seeks = self.seeks.sum();
        let new = seeks - std::mem::replace(&mut charged.seeks, seeks);
        if new == 0 {
            return false;
        }
        let scattered = scattered();
        let more = scattered.sources.saturating_sub(1);
        charged.bytes = charged.bytes.saturating_add(new * more * SEEK_BYTES);
        let paid = more > 0 && scattered.cost().is_some_and(|cost| charged.bytes >= cost);
        if paid {
            charged.bytes = 0;
        }
        paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scattered(sources: u64, upper: u64, lower: u64) -> Scattered {
        Scattered {
            sources,
            upper,
            lower,
        }
    }

    #[test]
    fn seeks_pay_once_they_have_lost_as_much_time_as_gathering_takes() {
        let toll = Toll::default();
        let place = || scattered(3, 4 << 20, 8 << 20);
        let needed = (12 << 20) / (2 * SEEK_BYTES);
        toll.seeks.add(needed - 1);
        assert!(!toll.have_paid(place));
        assert!(!toll.have_paid(place), "no seek is charged twice");
        toll.seeks.increment();
        assert!(toll.have_paid(place));
        toll.seeks.increment();
        assert!(!toll.have_paid(place), "they start anew");
    }

    #[test]
    fn one_source_is_never_gathered() {
        let toll = Toll::default();
        toll.seeks.add(1 << 40);
        assert!(!toll.have_paid(|| scattered(1, 4 << 20, 0)));
    }

    #[test]
    fn little_is_not_merged_into_much() {
        assert_eq!(scattered(2, 4 << 20, 41 << 20).cost(), None);
        assert_eq!(scattered(2, 4 << 20, 40 << 20).cost(), Some(44 << 20));
        assert_eq!(scattered(2, 0, 0).cost(), None);
    }
}
