//! What the tables of a database count together.
//!
//! C1. A point read adds up the filters it asked and the keys it compared when it ends: it tallies
//!     until then. An atomic addition holds back the loads behind it, and what a read costs is how
//!     many of its cache misses overlap, those of different tables too.
//!
//! Threads: any; the counters are striped.

use velella_sync::counter::Counter;

/// What the tables of a database count together.
#[derive(Debug, Default)]
pub struct Counters {
    /// Filters asked.
    pub filter_probes: Counter,
    /// Filters that said no.
    pub filter_negatives: Counter,
    /// Blocks read from files.
    pub blocks_read: Counter,
    /// Their bytes on disk.
    pub block_bytes_read: Counter,
    /// Key comparisons.
    pub comparisons: Counter,
}

/// The counts of one point read, in however many tables (C1).
#[derive(Debug, Default)]
pub struct Tally {
    pub(crate) filter_probes: u64,
    pub(crate) filter_negatives: u64,
    pub(crate) comparisons: u64,
}

impl Tally {
    /// Adds up into `counters`; the read is over.
    #[inline]
    pub fn flush(&self, counters: &Counters) {
        for (count, counter) in [
            (self.filter_probes, &counters.filter_probes),
            (self.filter_negatives, &counters.filter_negatives),
            (self.comparisons, &counters.comparisons),
        ] {
            if count != 0 {
                counter.add(count);
            }
        }
    }
}
