//! A selector of guards, and the sample of searches that it is told of.
//!
//! Source: S3 (VLDB '19) 5.2, which counts every access of a memtable; a sample says as much.
//!
//! A1. One search in [`EVERY`] is noted, whichever; the last ones are kept, four for each guard
//!     that there may be: with fewer, each search would be a guard's place of its own.
//! A2. Words are of what follows the bytes that the directory in use leaves out, so many as
//!     `shared` says. Where the next one leaves out others, they are forgotten; what is noted late
//!     is a wrong word among many, which costs time only.
//! A3. The selector is to be asked anew once there were as many searches as there are towers to
//!     walk past for it, and no sooner than all that is kept is new.
//!
//! Threads: any. Tests: `tests/selected.rs` beside.

use crate::guards::GuardSelector;
use std::sync::Arc;
use velella_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use velella_sync::rng::local_u64;

/// A1.
pub(crate) const EVERY: usize = 8;
const EACH: usize = 4;
const KEPT_MIN: usize = 1 << 10;
const KEPT_MAX: usize = 1 << 16;

/// A selector with what it is told.
#[derive(Debug)]
pub(crate) struct Chooser {
    selector: Arc<dyn GuardSelector>,
    words: Box<[AtomicU64]>,
    noted: AtomicUsize,
    /// How many noted searches make a new choice due (A3).
    due: AtomicUsize,
    /// A2.
    shared: AtomicUsize,
}

impl Chooser {
    /// Nothing searched for yet; there may be so many guards.
    pub(crate) fn new(selector: Arc<dyn GuardSelector>, most: usize) -> Self {
        let kept = most.saturating_mul(EACH).clamp(KEPT_MIN, KEPT_MAX);
        Chooser {
            selector,
            words: (0..kept).map(|_| AtomicU64::new(0)).collect(),
            noted: AtomicUsize::new(0),
            due: AtomicUsize::new(kept),
            shared: AtomicUsize::new(0),
        }
    }

    /// Bytes of the sample.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// How many searches are kept.
    pub(crate) fn kept(&self) -> usize {
        self.words.len()
    }

    /// Whether the search at hand is to be noted (A1).
    #[inline]
    pub(crate) fn is_drawn() -> bool {
        local_u64().is_multiple_of(EVERY as u64)
    }

    /// Notes a search; whether a new choice is due.
    pub(crate) fn note(&self, word: u64) -> bool {
        // Relaxed, here and below: a sample and hints; a word that is overwritten, or read before
        // it is there, is one of thousands.
        let noted = self.noted.fetch_add(1, Ordering::Relaxed);
        self.words[noted % self.kept()].store(word, Ordering::Relaxed);
        noted >= self.due.load(Ordering::Relaxed)
    }

    /// At most `count` words for guards among keys of which `data` is a sample, in order. What was
    /// searched for counts only if its words are of the same part of the keys.
    pub(crate) fn choose(&self, data: &[u64], shared: usize, count: usize) -> Vec<u64> {
        let is_told = self.shared.load(Ordering::Relaxed) == shared;
        let accesses = if is_told { self.sorted() } else { Vec::new() };
        self.selector.select(data, &accesses, count)
    }

    /// A directory comes into use that leaves out so many bytes of its keys, of so many towers
    /// (A2, A3).
    pub(crate) fn rest(&self, shared: usize, towers: usize) {
        if self.shared.swap(shared, Ordering::Relaxed) != shared {
            self.noted.store(0, Ordering::Relaxed);
        }
        let pause = self.kept().max(towers / EVERY);
        let due = self.noted.load(Ordering::Relaxed) + pause;
        self.due.store(due, Ordering::Relaxed);
    }

    /// The words that are kept, in order.
    fn sorted(&self) -> Vec<u64> {
        let kept = self.noted.load(Ordering::Relaxed).min(self.kept());
        let words = self.words[..kept].iter();
        let mut words: Vec<u64> = words.map(|word| word.load(Ordering::Relaxed)).collect();
        words.sort_unstable();
        words
    }
}
