//! Whether writes insert keys or change keys that are there, as a sample of the last ones tells.
//!
//! A write asks for memory before it needs it (decision 0013). An insertion will need the place of
//! its key in the order, a change will not: the index leads it to its node. Which of the two it
//! will be shows only after a cache miss, so a write is taken for what most before it were.
//!
//! T1. A guess for hints: nothing depends on it but time. It may be wrong for long: the sample is
//!     of keys, and one of them that is changed again and again outweighs the others.
//!
//! Threads: any; of the writes to sampled keys each changes one word, until it is at its end.
//! Tests: below.

use velella_sync::CachePadded;
use velella_sync::atomic::{AtomicU32, Ordering};

/// One key in so many is in the sample: writers of all processors share the word.
const SAMPLE: u64 = 32;
/// It takes some hundreds of writes to learn otherwise.
const MOST: u32 = 32;

/// What writes have been lately; a memtable begins with insertions.
#[derive(Debug)]
pub(super) struct Trend(CachePadded<AtomicU32>);

impl Trend {
    pub(super) fn new() -> Self {
        Trend(CachePadded::new(AtomicU32::new(MOST)))
    }

    /// Whether the next write had better be taken for an insertion.
    #[inline]
    pub(super) fn is_inserting(&self) -> bool {
        // Relaxed, here and below: a guess (T1).
        self.0.load(Ordering::Relaxed) > MOST / 2
    }

    /// A write of the key with this hash was an insertion, or a change.
    #[inline]
    pub(super) fn note(&self, hash: u64, is_insertion: bool) {
        if cfg!(any(loom, shuttle)) || !hash.is_multiple_of(SAMPLE) {
            return;
        }
        let before = self.0.load(Ordering::Relaxed);
        let after = match is_insertion {
            true => (before + 1).min(MOST),
            false => before.saturating_sub(1),
        };
        // One of two that come at once may be lost.
        if after != before {
            self.0.store(after, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes to sampled keys, so many times what `insertions` says.
    fn write(trend: &Trend, times: usize, insertions: &[bool]) {
        for is_insertion in insertions.repeat(times) {
            trend.note(7 * SAMPLE, is_insertion);
        }
    }

    #[test]
    fn what_most_writes_were_is_expected_of_the_next() {
        let trend = Trend::new();
        assert!(trend.is_inserting(), "at first nothing is there");
        write(&trend, 15, &[false]);
        assert!(trend.is_inserting(), "it takes a while");
        write(&trend, 1, &[false]);
        assert!(!trend.is_inserting());
        write(&trend, 1000, &[false]);
        write(&trend, 17, &[true]);
        assert!(trend.is_inserting(), "it comes back from its end");
        write(&trend, 1000, &[true]);
        write(&trend, 50, &[true, false, false]);
        assert!(!trend.is_inserting());
        write(&trend, 50, &[false, true, true]);
        assert!(trend.is_inserting());
    }

    #[test]
    fn keys_outside_of_the_sample_are_not_counted() {
        let trend = Trend::new();
        for hash in (0..10_000).filter(|hash| hash % SAMPLE != 0) {
            trend.note(hash, false);
        }
        assert!(trend.is_inserting());
    }
}
