//! What reads are charged for looking in many places, and when they have paid for gathering.
//!
//! Source: LevelDB's allowed seeks, which compact a table that was searched in vain too often. Here
//! the keyspace is charged rather than a table, since a memtable costs a seek as much.
//!
//! K1. A read is charged for every source beyond the first: a seek `SEEK_BYTES`, a get that the
//!     current memtable does not answer `GET_BYTES`. A keyspace is gathered when its charges have
//!     reached the bytes that this rewrites: the reads until then have lost as much time as that
//!     takes, so gathering at most doubles what any sequence of reads costs.
//! K2. What is gathered is at least a tenth of what it is merged with: as on its way down any
//!     level, a byte is rewritten about ten times.
//! K3. Reads of a keyspace that nobody writes to weigh `QUIET` times as much: it will not be
//!     scattered again at once, and the worker that gathers has nothing else to do.
//!
//! Threads: any count, the workers charge. Tests: below.

use velella_sync::counter::Counter;
use velella_sync::lock::Mutex;

/// What is rewritten while one more source costs a seek half a microsecond, at 250 MB/s: an
/// estimate, whose error only shifts when gathering begins.
const SEEK_BYTES: u64 = 128;
/// The same for a get, which filters and hash indexes turn back in a sixteenth of a microsecond.
const GET_BYTES: u64 = 16;
/// K3.
const QUIET: u64 = 8;
/// Less than this is not worth a file (K1).
const GATHER_BYTES_MIN: u64 = 1 << 20;
/// K2.
const RATIO: u64 = 10;

/// The reads of a keyspace, and what they were charged.
#[derive(Debug, Default)]
pub(crate) struct Toll {
    pub(crate) seeks: Counter,
    /// Gets that looked below the current memtable.
    pub(crate) gets: Counter,
    charged: Mutex<Charged>,
}

#[derive(Debug, Default)]
struct Charged {
    /// What the reads up to the last look cost for each source beyond the first.
    passed: u64,
    bytes: u64,
    /// Bytes in memory and in level 0 at the last look.
    upper: u64,
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
    /// Charges the reads since the last time; whether they have paid for gathering, and if so,
    /// starts anew (K1).
    pub(crate) fn have_paid(&self, scattered: impl FnOnce() -> Scattered) -> bool {
        let Some(mut charged) = self.charged.try_lock() else {
            return false;
        };
        let passed = self.seeks.sum() * SEEK_BYTES + self.gets.sum() * GET_BYTES;
        let new = passed - std::mem::replace(&mut charged.passed, passed);
        if new == 0 {
            return false;
        }
        let scattered = scattered();
        let is_quiet = std::mem::replace(&mut charged.upper, scattered.upper) == scattered.upper;
        let weight = if is_quiet { QUIET } else { 1 };
        let more = scattered.sources.saturating_sub(1);
        charged.bytes = charged.bytes.saturating_add(new * more * weight);
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

    /// Four megabytes in two places above eight, and `more` bytes written since.
    fn after_writing(more: u64) -> Scattered {
        scattered(3, (4 << 20) + more, 8 << 20)
    }

    #[test]
    fn reads_pay_once_they_have_lost_as_much_time_as_gathering_takes() {
        for bytes in [SEEK_BYTES, GET_BYTES] {
            let toll = Toll::default();
            let reads = match bytes {
                SEEK_BYTES => &toll.seeks,
                _ => &toll.gets,
            };
            reads.add((12 << 20) / (2 * bytes));
            assert!(!toll.have_paid(|| after_writing(1)));
            let again = toll.have_paid(|| after_writing(1));
            assert!(!again, "none is charged twice");
            reads.increment();
            assert!(toll.have_paid(|| after_writing(2)));
            reads.increment();
            assert!(!toll.have_paid(|| after_writing(3)), "they start anew");
        }
    }

    #[test]
    fn while_nobody_writes_an_eighth_of_the_reads_will_do() {
        let toll = Toll::default();
        toll.seeks.increment();
        assert!(!toll.have_paid(|| after_writing(0)));
        toll.seeks.add((12 << 20) / (2 * SEEK_BYTES) / QUIET);
        assert!(toll.have_paid(|| after_writing(0)));
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
