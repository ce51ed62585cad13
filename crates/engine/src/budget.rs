//! Who gets how much of the one memory budget.
//!
//! ```text
//! memtables        half, less half of what is spare: one half for those that are written to, in
//!                  all keyspaces together, and one for those waiting for their flush
//! spare            what freed memtables leave to the next: two write buffers, at most an
//!                  eighth: two memtables may wait for their flush, where the write
//!                  buffer is no more than a sixth of the memory, and are freed in a row
//! journal          mapped segments: a sixteenth, at most 64 MiB
//! working memory   three sixteenths, at most 24 MiB a background thread: what flushes,
//!                  compactions and reads hold for a while, what an allocator keeps for them; and
//!                  the program itself
//! block cache      the rest, less what filters and indexes take
//! ```
//! B1. The parts never add up to more than the budget; what is taken does not either, as far as B2
//!     goes.
//! B2. Filters and indexes of a database that is many times its memory outgrow the cache's part.
//!     What they have beyond it comes off the memtables' part, down to half of that: memtables are
//!     then switched before the write buffer is full.
//!
//! Tests: below; `memory_stays_within_its_budget` (`tests/memory.rs`),
//! `memtables_give_way_to_filters_that_outgrow_the_cache`.

use crate::options::Options;
use crate::sizes::Sizes;
use velella_base::limits::INLINE_VALUE_BYTES_MAX;

/// Most bytes of working memory for each background thread.
const WORKING_BYTES: u64 = 24 << 20;

/// Lanes of the journal.
pub(crate) const LANES: usize = 64;

/// The sizes that follow from `options`.
pub(crate) fn sizes(options: &Options) -> Sizes {
    Sizes {
        lanes: LANES,
        segment_bytes: segment_bytes(options),
        extent_bytes: extent_bytes(options),
        inline_value_bytes: INLINE_VALUE_BYTES_MAX,
        manifest_bytes: None,
    }
}

/// Bytes that memtables may take together while tables hold `pinned` bytes: above this, writers
/// wait (B2).
#[inline]
pub(crate) fn memtable_bytes(options: &Options, pinned: u64) -> u64 {
    let most = most_memtable_bytes(options);
    most - pinned.saturating_sub(cache_bytes(options)).min(most / 2)
}

/// The same while filters and indexes fit the cache's part.
fn most_memtable_bytes(options: &Options) -> u64 {
    options.memory / 2 - spare_bytes(options) / 2
}

/// Bytes that memtables which take writes may have together: above this, the largest is switched.
#[inline]
pub(crate) fn writing_bytes(options: &Options, pinned: u64) -> u64 {
    memtable_bytes(options, pinned) / 2
}

/// Bytes for the mapped segments of the journal.
pub(crate) fn journal_bytes(options: &Options) -> u64 {
    (options.memory / 16).clamp(1 << 20, 64 << 20)
}

/// Bytes that freed memtables may leave to the next ones.
pub(crate) fn spare_bytes(options: &Options) -> u64 {
    (2 * options.write_buffer).min(options.memory / 8)
}

/// Bytes for buffers of flushes, compactions and reads.
fn working_bytes(options: &Options) -> u64 {
    (options.memory / 16 * 3).min(options.background_threads as u64 * WORKING_BYTES)
}

/// Bytes of decoded blocks kept.
pub(crate) fn cache_bytes(options: &Options) -> u64 {
    let others = most_memtable_bytes(options)
        + journal_bytes(options)
        + spare_bytes(options)
        + working_bytes(options);
    options.memory.saturating_sub(others).max(1 << 20)
}

/// Bytes of one journal segment: a few of them are mapped at a time.
fn segment_bytes(options: &Options) -> u64 {
    (journal_bytes(options) / 4)
        .next_power_of_two()
        .clamp(1 << 20, 16 << 20)
}

/// Bytes of one extent: a lane's share of a segment.
fn extent_bytes(options: &Options) -> u64 {
    (segment_bytes(options) / 16).clamp(64 << 10, 1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_background_thread_has_its_buffers_within_three_sixteenths() {
        let working = |memory, background_threads| {
            working_bytes(&Options {
                memory,
                background_threads,
                ..Options::default()
            })
        };
        assert_eq!(
            (working(1 << 30, 1), working(1 << 30, 2)),
            (24 << 20, 48 << 20)
        );
        assert_eq!(working(64 << 20, 4), 12 << 20);
    }

    #[test]
    fn the_parts_fit_the_budget() {
        for shift in 24..36 {
            let options = Options {
                memory: 1 << shift,
                ..Options::default()
            };
            let options = options.validated().unwrap();
            let sum = memtable_bytes(&options, 0)
                + journal_bytes(&options)
                + spare_bytes(&options)
                + working_bytes(&options)
                + cache_bytes(&options);
            assert!(sum <= options.memory, "{sum} of {}", options.memory);
            assert!(segment_bytes(&options) >= 4 * extent_bytes(&options));
        }
    }

    #[test]
    fn filters_and_indexes_beyond_the_cache_s_part_come_off_the_memtables() {
        let options = Options {
            memory: 256 << 20,
            ..Options::default()
        };
        let options = options.validated().unwrap();
        let (most, cache) = (memtable_bytes(&options, 0), cache_bytes(&options));
        assert_eq!(memtable_bytes(&options, cache), most);
        assert_eq!(memtable_bytes(&options, cache + 1000), most - 1000);
        assert_eq!(writing_bytes(&options, cache + 1000), most / 2 - 500);
        assert_eq!(memtable_bytes(&options, u64::MAX), most / 2);
    }
}
