//! Who gets how much of the one memory budget.
//!
//! ```text
//! memtables        half, less half of what is spare: one half for those that are written to, in
//!                  all keyspaces together, and one for those waiting for their flush
//! spare            what freed memtables leave to the next: two write buffers, at most an
//!                  eighth: two memtables may wait for their flush, where the write
//!                  buffer is no more than a sixth of the memory, and are freed in a row
//! journal          mapped segments: a sixteenth, at most 64 MiB
//! working memory   an eighth, at most 16 MiB a background thread: what flushes, compactions and
//!                  reads hold for a while, and what an allocator keeps for them
//! block cache      the rest, less what filters and indexes take
//! ```
//! B1. The parts never add up to more than the budget.
//!
//! Tests: below; `memory_stays_within_its_budget`.

use crate::options::Options;
use crate::sizes::Sizes;
use velella_base::limits::INLINE_VALUE_BYTES_MAX;

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

/// Bytes that memtables may take together: above this, writers wait.
#[inline]
pub(crate) fn memtable_bytes(options: &Options) -> u64 {
    options.memory / 2 - spare_bytes(options) / 2
}

/// Bytes that memtables which take writes may have together: above this, the largest is switched.
#[inline]
pub(crate) fn writing_bytes(options: &Options) -> u64 {
    memtable_bytes(options) / 2
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
    (options.memory / 8).min((options.background_threads as u64) << 24)
}

/// Bytes of decoded blocks kept.
pub(crate) fn cache_bytes(options: &Options) -> u64 {
    let others = memtable_bytes(options)
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
    fn each_background_thread_has_its_buffers_within_an_eighth() {
        let working = |memory, background_threads| {
            working_bytes(&Options {
                memory,
                background_threads,
                ..Options::default()
            })
        };
        assert_eq!(
            (working(1 << 30, 1), working(1 << 30, 2)),
            (16 << 20, 32 << 20)
        );
        assert_eq!(working(64 << 20, 4), 8 << 20);
    }

    #[test]
    fn the_parts_fit_the_budget() {
        for shift in 24..36 {
            let options = Options {
                memory: 1 << shift,
                ..Options::default()
            };
            let options = options.validated().unwrap();
            let sum = memtable_bytes(&options)
                + journal_bytes(&options)
                + spare_bytes(&options)
                + working_bytes(&options)
                + cache_bytes(&options);
            assert!(sum <= options.memory, "{sum} of {}", options.memory);
            assert!(segment_bytes(&options) >= 4 * extent_bytes(&options));
        }
    }
}
