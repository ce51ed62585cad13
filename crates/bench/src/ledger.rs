//! Which values may be found: so that a store that loses or mixes up writes is caught.
//!
//! A sample of the keys, about a thousand, is followed exactly: each thread notes what it wrote
//! last under each of them. After a benchmark, with nobody writing, the store must hold, for each
//! of them, what one of the threads wrote last, or what was there before if none wrote.
//!
//! A1. A key's candidates are the last states that threads gave it; the true one is among them.
//!
//! Threads: each fills a `Notes`; the ledger is the main thread's. Tests: below.

use crate::random::mix;
use std::collections::{BTreeMap, HashSet};

/// Keys that are followed, about.
const FOLLOWED: u64 = 1024;

/// What one thread did last to the followed keys: a version, or a deletion.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    last: BTreeMap<u64, Option<u64>>,
    /// Numbers that were put, and have no bit in `present::Marks`.
    pub(crate) beyond: HashSet<u64>,
    /// Such numbers that were deleted.
    pub(crate) deleted_beyond: HashSet<u64>,
}

/// Which keys are followed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    every: u64,
}

impl Sample {
    /// A sample of `records` keys.
    #[must_use]
    pub(crate) fn new(records: u64) -> Self {
        Sample {
            every: (records / FOLLOWED).max(1),
        }
    }

    /// Whether the key of number `n` is followed.
    #[inline]
    #[must_use]
    pub(crate) fn follows(self, n: u64) -> bool {
        // Hot keys of unscattered distributions have low numbers, and should be among them.
        n < 8 || mix(n ^ 0xa5a5).is_multiple_of(self.every)
    }
}

impl Notes {
    /// The thread has put `version` (`None`: deleted) under the key of number `n`.
    #[inline]
    pub(crate) fn note(&mut self, n: u64, version: Option<u64>) {
        self.last.insert(n, version);
    }
}

/// Of each followed key, what may be found under it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    candidates: BTreeMap<u64, Vec<Option<u64>>>,
}

impl Ledger {
    /// Enters what threads did that worked at the same time; keys that several of them wrote.
    pub(crate) fn enter(&mut self, notes: &[Notes]) -> Vec<u64> {
        let mut fresh: BTreeMap<u64, Vec<Option<u64>>> = BTreeMap::new();
        for notes in notes {
            for (n, version) in &notes.last {
                fresh.entry(*n).or_default().push(*version);
            }
        }
        let several = fresh.iter().filter(|(_, all)| all.len() > 1);
        let several = several.map(|(n, _)| *n).collect();
        self.candidates.extend(fresh);
        several
    }

    /// The followed keys that may have a value or must not.
    pub(crate) fn followed(&self) -> impl Iterator<Item = (u64, &[Option<u64>])> {
        self.candidates.iter().map(|(n, all)| (*n, all.as_slice()))
    }

    /// The one that was found counts from now on.
    pub(crate) fn settle(&mut self, n: u64, found: Option<u64>) {
        self.candidates.insert(n, vec![found]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(pairs: &[(u64, Option<u64>)]) -> Notes {
        let mut notes = Notes::default();
        for (n, version) in pairs {
            notes.note(*n, *version);
        }
        notes
    }

    #[test]
    fn candidates_are_the_last_writes_of_each_thread() {
        let mut ledger = Ledger::default();
        ledger.enter(&[notes(&[(1, Some(10)), (2, Some(20))])]);
        let several = ledger.enter(&[notes(&[(1, Some(11)), (1, Some(12))]), notes(&[(1, None)])]);
        assert_eq!(several, [1]);
        let all: Vec<_> = ledger.followed().map(|(n, c)| (n, c.to_vec())).collect();
        assert_eq!(all, [(1, vec![Some(12), None]), (2, vec![Some(20)])]);
    }

    #[test]
    fn about_a_thousand_keys_are_followed() {
        let sample = Sample::new(1_000_000);
        let followed = (0..1_000_000).filter(|n| sample.follows(*n)).count();
        assert!((900..1200).contains(&followed), "{followed}");
        assert!((0..100).all(|n| Sample::new(100).follows(n)));
    }
}
