//! What the tables of a database count together.
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
