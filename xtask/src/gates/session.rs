//! Which parts of what it attacks a campaign has covered, whose seeds take turns over them.
//!
//! V1. Seeds count from 1; 0 is the same as 1. A part counts once, however many seeds had it.
//! V2. What was attacked in pieces of several things is not one thing whole: of so many things as
//!     one session has those count that were covered most.
//!
//! Tests: below.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// One session of such a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Session {
    /// Its seeds, which cover everything once.
    pub(super) seeds: u64,
    /// Things they take turns over; each has as many parts as it has seeds.
    pub(super) things: u64,
    /// Whether the next session is of other things, or of these again.
    pub(super) anew: bool,
}

impl Session {
    /// How many parts the seeds of `runs` covered, of as many things as a session has (V2).
    pub(super) fn covered(self, runs: impl Iterator<Item = Range<u64>>) -> u64 {
        let mut parts: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for seed in runs.flatten() {
            let (thing, part) = self.place(seed);
            parts.entry(thing).or_default().insert(part);
        }
        let mut counts: Vec<usize> = parts.values().map(BTreeSet::len).collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let most = usize::try_from(self.things).unwrap_or(usize::MAX);
        let sum = counts.iter().take(most).sum::<usize>();
        u64::try_from(sum).unwrap_or(u64::MAX)
    }

    /// What the run of a seed attacks, and which part of it.
    fn place(self, seed: u64) -> (u64, u64) {
        let number = seed.saturating_sub(1);
        let before = if self.anew {
            number / self.seeds * self.things
        } else {
            0
        };
        let part = number % self.seeds / self.things;
        (before + number % self.things, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Workloads that stay the same.
    const SAME: Session = Session {
        seeds: 10,
        things: 1,
        anew: false,
    };
    /// Two databases a session, five parts each.
    const OTHERS: Session = Session {
        seeds: 10,
        things: 2,
        anew: true,
    };

    /// Of runs from the first of these seeds to before the second.
    fn covered(session: Session, runs: &[(u64, u64)]) -> u64 {
        session.covered(runs.iter().map(|(from, to)| *from..*to))
    }

    #[test]
    fn what_two_runs_share_counts_once() {
        assert_eq!(covered(SAME, &[(1, 5), (3, 7)]), 6);
        assert_eq!(
            covered(SAME, &[(1, 6), (1, 6), (11, 16)]),
            5,
            "the same again"
        );
        assert_eq!(covered(SAME, &[(1, 6), (16, 21)]), 10);
        assert_eq!(covered(SAME, &[]), 0);
    }

    #[test]
    fn a_run_may_begin_anywhere_and_go_round() {
        assert_eq!(covered(SAME, &[(8, 18)]), 10);
        assert_eq!(covered(SAME, &[(8, 14)]), 6, "8, 9, 10, and 1, 2, 3 again");
        assert_eq!(covered(SAME, &[(8, 14), (2, 5)]), 7);
        assert_eq!(covered(SAME, &[(1, 1000)]), 10);
        assert_eq!(covered(SAME, &[(0, 2)]), 1, "seed 0 is seed 1");
    }

    #[test]
    fn halves_of_different_things_are_nothing_whole() {
        assert_eq!(covered(OTHERS, &[(1, 11)]), 10);
        assert_eq!(covered(OTHERS, &[(6, 16)]), 6, "of four the two fullest");
        assert_eq!(covered(OTHERS, &[(6, 16), (1, 6)]), 10);
        assert_eq!(
            covered(OTHERS, &[(6, 26)]),
            10,
            "the second session is whole"
        );
        assert_eq!(covered(OTHERS, &[(1, 6), (16, 21), (26, 31)]), 6);
    }
}
