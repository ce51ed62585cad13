//! What memtables count: the units in which the papers' claims are stated.
//!
//! C1. An operation adds to a counter at most once, when it ends: it tallies locally until then.

use velella_sync::counter::Counter;

/// What the memtables of a database count together.
#[derive(Debug, Default)]
pub struct Counters {
    /// Keys compared, by prefix word or whole.
    pub comparisons: Counter,
    /// Compare-and-swap operations tried on nodes, towers and version heads.
    pub cas_attempts: Counter,
    /// Those that another thread had forestalled.
    pub cas_failures: Counter,
    /// Towers above the bottom level that were allocated.
    pub towers: Counter,
    /// Versions installed.
    pub versions: Counter,
    /// Versions that readers passed over on their way to the one they wanted.
    pub versions_skipped: Counter,
    /// Nodes gathered so that a cursor can go back over them.
    pub gathered: Counter,
    /// Versions dropped by pruning.
    pub pruned: Counter,
    /// Searches that entered a list through its guard directory.
    pub directory_probes: Counter,
    /// Those whose guard was too far from the key, and that began anew at the head.
    pub directory_fallbacks: Counter,
    /// Guard directories made.
    pub directories: Counter,
    /// Bytes of memory taken, fresh or from what was spare.
    pub bytes: Counter,
}

/// The counts of one operation (C1).
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) comparisons: u64,
    pub(crate) cas_attempts: u64,
    pub(crate) cas_failures: u64,
    pub(crate) towers: u64,
    pub(crate) versions: u64,
    pub(crate) skipped: u64,
    pub(crate) gathered: u64,
    pub(crate) probes: u64,
    pub(crate) fallbacks: u64,
}

impl Tally {
    /// Adds up into `counters`; the operation is over.
    #[inline]
    pub(crate) fn flush(&self, counters: &Counters) {
        let counts = [
            (self.comparisons, &counters.comparisons),
            (self.cas_attempts, &counters.cas_attempts),
            (self.cas_failures, &counters.cas_failures),
            (self.towers, &counters.towers),
            (self.versions, &counters.versions),
            (self.skipped, &counters.versions_skipped),
            (self.gathered, &counters.gathered),
            (self.probes, &counters.directory_probes),
            (self.fallbacks, &counters.directory_fallbacks),
        ];
        // A cursor's step counts nothing, most times.
        if counts.iter().fold(0, |any, (count, _)| any | count) == 0 {
            return;
        }
        for (count, counter) in counts {
            if count != 0 {
                counter.add(count);
            }
        }
    }
}
