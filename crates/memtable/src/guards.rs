//! Where guards should stand: the choice, apart from the structure that they guide into.
//!
//! Source: S3 (VLDB '19) 4.2 and 5.2. The paper trains a network to pick guards, because it takes
//! the best choice for a hard problem; finding S3-9: with g guards, q accesses and d keys per unit
//! of key space the mean search costs the integral of q log(d / g), which is least where g is
//! proportional to q, so at the quantiles of the accesses. Half of the guards at the quantiles of
//! the keys bound what the rarely accessed rest costs.
//!
//! Z1. A selector is given sorted words, and returns sorted, distinct words, at most as many as it
//!     was asked for; fewer where there are not so many to choose from.
//! Z2. The same question gets the same answer.
//!
//! Threads: a selector is shared. Tests: below, `jellyfish/tests.rs`; what each costs:
//! `s3.guardsel` of `velella-bench`, and on arrays `examples/selector_bench`.

use crate::GUARD_BYTES;
use std::fmt::Debug;
use std::sync::Arc;
use velella_sync::rng::Rng;

/// What a memtable may have of guards.
#[derive(Debug, Clone)]
pub struct GuardOptions {
    /// Bytes that a guard directory may take; 0: there is none. Kinds and orders that have none
    /// take nothing.
    pub bytes: usize,
    /// Who chooses the guards, of a list that has more towers than the directory has room for. It
    /// is asked by whoever writes when a directory is due, within that write and pinned: each time
    /// that the towers have doubled or guards prove to be too far away, and, since it is told what
    /// is searched for, after about as many searches as there are towers. What it is told has some
    /// four words for each guard. If it panics, so does the write, before it has installed its key,
    /// and the guards are chosen as without it. `None`: the highest of each few towers, and
    /// searches are not noted.
    pub selector: Option<Arc<dyn GuardSelector>>,
}

impl GuardOptions {
    /// The same, with a selector.
    #[must_use]
    pub fn chosen_by(mut self, selector: impl GuardSelector + 'static) -> Self {
        self.selector = Some(Arc::new(selector));
        self
    }
}

impl Default for GuardOptions {
    fn default() -> Self {
        GUARD_BYTES.into()
    }
}

impl From<usize> for GuardOptions {
    /// Of at most so many bytes.
    fn from(bytes: usize) -> Self {
        GuardOptions {
            bytes,
            selector: None,
        }
    }
}

/// Chooses where guards stand.
pub trait GuardSelector: Debug + Send + Sync {
    /// What it is called in tables of results.
    fn name(&self) -> &'static str;

    /// At most `count` guard words, sorted and distinct (Z1). A key's word is the eight bytes of it
    /// that follow what all keys begin with, as a big-endian number, zero-padded. `data` is a
    /// sorted sample of the words of the keys, `accesses` one of what is searched for; words repeat
    /// as often as they were drawn.
    fn select(&self, data: &[u64], accesses: &[u64], count: usize) -> Vec<u64>;
}

/// A reference chooses as what it refers to does.
impl<S: GuardSelector + ?Sized> GuardSelector for &S {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn select(&self, data: &[u64], accesses: &[u64], count: usize) -> Vec<u64> {
        (**self).select(data, accesses, count)
    }
}

/// Keys drawn at random: the first of the two strategies that the paper compares with.
#[derive(Debug, Clone, Copy, Default)]
pub struct Random;

/// Equal parts of the key space between the least and the greatest key: the second one.
#[derive(Debug, Clone, Copy, Default)]
pub struct EqualWidth;

/// Equal numbers of keys between guards: the paper's theorem 1, for accesses distributed as keys.
#[derive(Debug, Clone, Copy, Default)]
pub struct DataQuantiles;

/// Equal numbers of accesses between guards (S3-9).
#[derive(Debug, Clone, Copy, Default)]
pub struct AccessQuantiles;

/// Half of the guards at quantiles of the accesses, half at those of the keys (S3-9).
#[derive(Debug, Clone, Copy, Default)]
pub struct Mixed;

/// The selectors that need nothing but their input.
pub const SELECTORS: [&dyn GuardSelector; 5] = [
    &Random,
    &EqualWidth,
    &DataQuantiles,
    &AccessQuantiles,
    &Mixed,
];

impl GuardSelector for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn select(&self, data: &[u64], _accesses: &[u64], count: usize) -> Vec<u64> {
        if data.is_empty() {
            return Vec::new();
        }
        let mut rng = Rng::new(count as u64);
        let draw = || {
            let at = rng.below(data.len() as u64);
            data[usize::try_from(at).expect("below a length")]
        };
        in_order(std::iter::repeat_with(draw).take(count).collect())
    }
}

impl GuardSelector for EqualWidth {
    fn name(&self) -> &'static str {
        "equal width"
    }

    fn select(&self, data: &[u64], _accesses: &[u64], count: usize) -> Vec<u64> {
        let (Some(least), Some(greatest)) = (data.first(), data.last()) else {
            return Vec::new();
        };
        let width = u128::from(greatest - least) + 1;
        let parts = count as u128;
        let bound = |part: u128| {
            let offset = u64::try_from(width * part / parts).expect("part < parts");
            least + offset
        };
        in_order((0..parts).map(bound).collect())
    }
}

impl GuardSelector for DataQuantiles {
    fn name(&self) -> &'static str {
        "data quantiles"
    }

    fn select(&self, data: &[u64], _accesses: &[u64], count: usize) -> Vec<u64> {
        in_order(quantiles(data, count))
    }
}

impl GuardSelector for AccessQuantiles {
    fn name(&self) -> &'static str {
        "access quantiles"
    }

    fn select(&self, _data: &[u64], accesses: &[u64], count: usize) -> Vec<u64> {
        in_order(quantiles(accesses, count))
    }
}

impl GuardSelector for Mixed {
    fn name(&self) -> &'static str {
        "mixed"
    }

    fn select(&self, data: &[u64], accesses: &[u64], count: usize) -> Vec<u64> {
        let of_accesses = match accesses.is_empty() {
            true => 0,
            false => count / 2,
        };
        let mut guards = quantiles(accesses, of_accesses);
        guards.extend(quantiles(data, count - of_accesses));
        in_order(guards)
    }
}

/// `count` of the sorted words, at equal distances.
fn quantiles(words: &[u64], count: usize) -> Vec<u64> {
    if words.is_empty() {
        return Vec::new();
    }
    let at = |part: usize| {
        let index = words.len() as u128 * part as u128 / count as u128;
        words[usize::try_from(index).expect("part < count")]
    };
    (0..count).map(at).collect()
}

/// Sorted, each once (Z1).
fn in_order(mut guards: Vec<u64>) -> Vec<u64> {
    guards.sort_unstable();
    guards.dedup();
    guards
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn every_selector_answers_in_order_and_not_too_much() {
        let mut rng = Rng::new(1);
        let mut sample = |count: usize| in_order((0..count).map(|_| rng.next_u64()).collect());
        let samples = [
            Vec::new(),
            vec![7],
            vec![7; 9],
            vec![0, u64::MAX],
            sample(if cfg!(miri) { 20 } else { 1000 }),
        ];
        let many = if cfg!(miri) { 80 } else { 5000 };
        for selector in SELECTORS {
            for data in &samples {
                for accesses in &samples {
                    for count in [0, 1, 2, 3, 64, many] {
                        let guards = selector.select(data, accesses, count);
                        assert!(guards.is_sorted_by(|a, b| a < b), "{}", selector.name());
                        assert!(guards.len() <= count, "{}", selector.name());
                        let again = selector.select(data, accesses, count);
                        assert_eq!(guards, again, "Z2: {}", selector.name());
                    }
                }
            }
        }
    }

    #[test]
    fn guards_stand_where_each_selector_says() {
        let data: Vec<u64> = (0..1000).collect();
        let accesses = vec![500; 10];
        let select = |selector: &dyn GuardSelector| selector.select(&data, &accesses, 4);
        assert_eq!(select(&EqualWidth), [0, 250, 500, 750]);
        assert_eq!(select(&DataQuantiles), [0, 250, 500, 750]);
        assert_eq!(select(&AccessQuantiles), [500]);
        assert_eq!(select(&Mixed), [0, 500]);
        assert_eq!(select(&Random).len(), 4);
        assert_eq!(Mixed.select(&data, &[], 4), [0, 250, 500, 750]);
    }
}
