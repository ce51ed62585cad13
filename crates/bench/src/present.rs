//! Which keys a store must have, by their numbers: what was put, and never deleted since.
//!
//! E1. `surely`: a put of the key was acknowledged, and no delete was asked for since.
//! E2. `possibly` includes `surely`. What is neither was never put.
//!
//! A bit for each number of the key space; numbers beyond it, which only a distribution without a
//! greatest rank draws, are in a set. Where exactly the numbers below a bound were put, nothing
//! is marked at all, and clients spend nothing on it.
//!
//! Threads: `Bits` is marked by all; `Present` is the main thread's. Tests: below; `drive`.

use crate::ledger::Notes;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// A bit for each number below a bound.
#[derive(Debug, Default)]
pub(crate) struct Bits(Vec<AtomicU64>);

impl Bits {
    fn new(bound: u64) -> Self {
        let words = usize::try_from(bound.div_ceil(64)).unwrap_or(0);
        Bits(
            std::iter::repeat_with(AtomicU64::default)
                .take(words)
                .collect(),
        )
    }

    fn place(&self, n: u64) -> Option<(&AtomicU64, u64)> {
        let word = self.0.get(usize::try_from(n / 64).ok()?)?;
        Some((word, 1 << (n % 64)))
    }

    /// Marks `n`; false if it is beyond the bound.
    #[inline]
    pub(crate) fn mark(&self, n: u64) -> bool {
        let Some((word, bit)) = self.place(n) else {
            return false;
        };
        // Relaxed: read after the threads have ended; within the run, see `is_marked`. Most keys
        // were marked before, and a line that is only read is shared by all cores.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        true
    }

    /// Whether `n` is marked. Who meets in the store what was done after marking finds it so: the
    /// store itself orders the two.
    #[inline]
    pub(crate) fn is_marked(&self, n: u64) -> bool {
        // Relaxed: as above.
        self.place(n)
            .is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    fn bound(&self) -> u64 {
        self.0.len() as u64 * 64
    }

    /// Each word made of both; the bound is the greater one.
    fn merged(&self, other: &Bits, make: impl Fn(u64, u64) -> u64) -> Bits {
        let words = self.0.len().max(other.0.len());
        // Relaxed: nobody else is there any more.
        let of = |bits: &Bits, at: usize| {
            let word = bits.0.get(at);
            word.map_or(0, |word| word.load(Ordering::Relaxed))
        };
        let both = |at| AtomicU64::new(make(of(self, at), of(other, at)));
        Bits((0..words).map(both).collect())
    }
}

/// What the clients of one benchmark put and delete, as they do it.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    put: Bits,
    deleted: Bits,
    /// Whether anything is deleted at all.
    deletes: bool,
}

impl Marks {
    /// Nothing yet, of numbers below `bound`; `deletes`: whether any will be deleted.
    pub(crate) fn new(bound: u64, deletes: bool) -> Self {
        Marks {
            put: Bits::new(bound),
            deleted: Bits::new(if deletes { bound } else { 0 }),
            deletes,
        }
    }

    /// `n` has been put; `notes` takes what has no bit.
    #[inline]
    pub(crate) fn put(&self, n: u64, notes: &mut Notes) {
        if !self.put.mark(n) {
            notes.beyond.insert(n);
        }
    }

    /// `n` will be deleted.
    #[inline]
    pub(crate) fn delete(&self, n: u64, notes: &mut Notes) {
        if !self.deleted.mark(n) {
            notes.deleted_beyond.insert(n);
        }
    }

    /// Whether somebody may have deleted `n`.
    #[inline]
    pub(crate) fn may_have_deleted(&self, n: u64) -> bool {
        self.deletes && (self.deleted.is_marked(n) || n >= self.deleted.bound())
    }
}

/// What is there (E1, E2).
#[derive(Debug, Default)]
pub(crate) struct Present {
    /// All numbers below it were put.
    below: u64,
    put: Bits,
    deleted: Bits,
    put_beyond: BTreeSet<u64>,
    deleted_beyond: BTreeSet<u64>,
}

impl Present {
    /// The keys of all numbers below `bound` were put.
    pub(crate) fn put_below(&mut self, bound: u64) {
        self.below = bound;
    }

    /// What there is after clients did this, in an order that nobody knows.
    pub(crate) fn after(&self, marks: &Marks, notes: &[Notes]) -> Present {
        let deleted = self.deleted.merged(&marks.put, |all, put| all & !put);
        let mut after = Present {
            below: self.below,
            put: self.put.merged(&marks.put, |all, put| all | put),
            deleted: deleted.merged(&marks.deleted, |all, deleted| all | deleted),
            put_beyond: self.put_beyond.clone(),
            deleted_beyond: self.deleted_beyond.clone(),
        };
        for notes in notes {
            after.put_beyond.extend(&notes.beyond);
            after.deleted_beyond.retain(|n| !notes.beyond.contains(n));
        }
        for notes in notes {
            after.deleted_beyond.extend(&notes.deleted_beyond);
        }
        after
    }

    fn was_deleted(&self, n: u64) -> bool {
        self.deleted.is_marked(n) || self.deleted_beyond.contains(&n)
    }

    /// Whether the key of number `n` may be there.
    pub(crate) fn possibly(&self, n: u64) -> bool {
        n < self.below || self.put.is_marked(n) || self.put_beyond.contains(&n)
    }

    /// Whether it must be.
    pub(crate) fn surely(&self, n: u64) -> bool {
        self.possibly(n) && !self.was_deleted(n)
    }

    /// A bound of all that have a bit, or none.
    pub(crate) fn bound(&self) -> u64 {
        self.below.max(self.put.bound())
    }

    /// All numbers whose keys may be there.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        let dense = (0..self.bound()).filter(|n| self.possibly(*n));
        let bound = self.bound();
        dense.chain(self.put_beyond.iter().copied().filter(move |n| *n >= bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that must be there, and those that only may.
    fn told(present: &Present) -> (Vec<u64>, Vec<u64>) {
        present.numbers().partition(|n| present.surely(*n))
    }

    #[test]
    fn what_was_put_is_there_until_somebody_deletes_it() {
        let mut present = Present::default();
        let (marks, mut notes) = (Marks::new(100, true), Notes::default());
        for n in [3, 70, 1_000_000] {
            marks.put(n, &mut notes);
        }
        present = present.after(&marks, &[notes]);
        assert_eq!(told(&present), (vec![3, 70, 1_000_000], vec![]));
        let (marks, mut notes) = (Marks::new(100, true), Notes::default());
        for n in [70, 1_000_000] {
            marks.delete(n, &mut notes);
        }
        assert!(marks.may_have_deleted(70) && !marks.may_have_deleted(3));
        present = present.after(&marks, &[notes]);
        assert_eq!(told(&present), (vec![3], vec![70, 1_000_000]));
        let (marks, mut notes) = (Marks::new(100, true), Notes::default());
        for n in [70, 1_000_000] {
            marks.put(n, &mut notes);
        }
        present = present.after(&marks, &[notes]);
        assert_eq!(told(&present), (vec![3, 70, 1_000_000], vec![]));
    }

    #[test]
    fn all_below_a_bound_take_no_bits() {
        let mut present = Present::default();
        present.put_below(5);
        assert_eq!(told(&present), (vec![0, 1, 2, 3, 4], vec![]));
        assert_eq!(present.put.0.len(), 0);
        let (marks, mut notes) = (Marks::new(8, true), Notes::default());
        marks.put(7, &mut notes);
        marks.delete(7, &mut notes);
        marks.delete(2, &mut notes);
        present = present.after(&marks, &[notes]);
        assert_eq!(told(&present), (vec![0, 1, 3, 4], vec![2, 7]));
    }
}
