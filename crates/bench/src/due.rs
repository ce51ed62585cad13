//! How many pairs a scan must show, told at once and for every scan.
//!
//! Only at the end of the keys a scan may show fewer pairs than it was asked for; so it is enough
//! to know the greatest keys, as many as the longest scan shows.
//!
//! N1. While nobody deletes, no scan shows fewer pairs than `pairs` says.
//!
//! Threads: shared. Tests: below; `drive`.

use crate::present::Present;
use crate::spec::{Operation, Spec};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The greatest keys that are there, ascending.
#[derive(Debug, Default)]
pub(crate) struct Due {
    greatest: Vec<Vec<u8>>,
}

impl Due {
    /// For the scans of `spec` in a store that has `present`; where there are deletes, or no scans,
    /// nothing is due.
    pub(crate) fn new(spec: &Spec, present: &Present) -> Self {
        let longest = spec
            .mix()
            .iter()
            .filter_map(|(operation, _)| operation.pairs_most());
        let deletes = spec.mix().iter().any(|(one, _)| *one == Operation::Delete);
        let Some(longest) = longest.max().filter(|_| !deletes) else {
            return Due::default();
        };
        let longest = usize::try_from(longest).unwrap_or(usize::MAX);
        let mut keys = spec.key_maker();
        let mut greatest: BinaryHeap<Reverse<Vec<u8>>> = BinaryHeap::new();
        for n in present.numbers().filter(|n| present.surely(*n)) {
            let key = keys.key(n);
            if greatest.len() < longest {
                greatest.push(Reverse(key.to_vec()));
            } else if let Some(mut least) = greatest.peek_mut()
                && least.0.as_slice() < key
            {
                least.0.clear();
                least.0.extend_from_slice(key);
            }
        }
        let mut greatest: Vec<_> = greatest.into_iter().map(|Reverse(key)| key).collect();
        greatest.sort_unstable();
        Due { greatest }
    }

    /// How many pairs a scan of `count` from `from` on shows at least.
    #[inline]
    pub(crate) fn pairs(&self, from: &[u8], count: usize) -> usize {
        let all = self.greatest.len();
        if all >= count && self.greatest[all - count].as_slice() >= from {
            return count;
        }
        all - self.greatest.partition_point(|key| key.as_slice() < from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{Changes, named};

    #[test]
    fn fewer_pairs_are_due_only_at_the_end() {
        let spec = named("seek10").unwrap()[0].with(&Changes::default(), 1);
        let mut present = Present::default();
        present.put_below(1000);
        let due = Due::new(&spec, &present);
        let mut keys = spec.key_maker();
        let mut all: Vec<_> = (0..1000).map(|n| keys.key(n).to_vec()).collect();
        all.sort_unstable();
        for (at, key) in all.iter().enumerate() {
            for count in [1, 3, 10] {
                assert_eq!(due.pairs(key, count), count.min(1000 - at));
            }
        }
        assert_eq!(due.pairs(b"\xff", 10), 0);
        let spec = named("jf.linkbench").unwrap()[0].with(&Changes::default(), 1);
        assert_eq!(Due::new(&spec, &present).pairs(b"", 3), 0);
    }
}
