//! What the network is asked: two histograms over equal ranges, and how many guards to place.
//!
//! Source: S3 (VLDB '19) 5.2. A step's input is the paper's tuple (c, i, q_i, d_i): the number of
//! guards, the range's number, its accesses and its keys, all between 0 and 1. Two things are not
//! the paper's. Counts enter as logarithms, since a range may well have a thousandth of another's
//! accesses and the guards must be right in both. And c enters as keys per guard, which is all that
//! the optimum depends on, so that one network serves a hundred guards and a million.
//!
//! Threads: plain data. Tests: below.

use std::fmt::Debug;

/// Whoever answers questions: the network, and the optimum that it learns from.
pub trait Answer: Debug + Send + Sync {
    /// What it is called in tables of results.
    fn name(&self) -> &'static str;

    /// How many ranges a question must have.
    fn ranges(&self) -> usize;

    /// The share of each range in the guards: numbers that are not negative, of sum 1.
    fn shares(&self, question: &Question) -> Vec<f32>;
}

/// Numbers a step: the paper's tuple.
pub const TUPLE: usize = 4;

/// The question.
///
/// An access counts where its search ends, at a key; so a range without keys has no accesses.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Accesses of each range.
    pub accesses: Vec<f32>,
    /// Keys of each range: as many ranges.
    pub keys: Vec<f32>,
    /// How many guards to place.
    pub guards: f32,
}

impl Question {
    /// How many ranges there are.
    #[must_use]
    pub fn ranges(&self) -> usize {
        self.keys.len()
    }

    /// The tuples, range by range.
    #[must_use]
    pub fn sequence(&self) -> Vec<f32> {
        let keys: f32 = self.keys.iter().sum();
        let accesses: f32 = self.accesses.iter().sum();
        let per_guard = logarithmic(keys / self.guards.max(1.0));
        let mut sequence = Vec::with_capacity(self.ranges() * TUPLE);
        for (range, (q, d)) in self.accesses.iter().zip(&self.keys).enumerate() {
            let place = range as f32 / self.ranges() as f32;
            let (q, d) = (share(*q, accesses), share(*d, keys));
            sequence.extend([per_guard, place, q, d]);
        }
        sequence
    }

    /// Both histograms summed up into `parts` ranges, accesses first.
    #[must_use]
    pub fn coarse(&self, parts: usize) -> Vec<f32> {
        let each = self.ranges().div_ceil(parts);
        let mut coarse = Vec::with_capacity(2 * parts);
        for histogram in [&self.accesses, &self.keys] {
            let all: f32 = histogram.iter().sum();
            let sums = histogram.chunks(each).map(|part| part.iter().sum::<f32>());
            coarse.extend(sums.map(|sum| share(sum, all)));
            coarse.resize(coarse.len().next_multiple_of(parts), 0.0);
        }
        coarse
    }
}

/// A share of a whole, between 0 and 1 by its logarithm.
fn share(part: f32, whole: f32) -> f32 {
    logarithmic(1023.0 * part / whole.max(f32::MIN_POSITIVE))
}

/// 0 for 0, 1 for 1023 and above.
fn logarithmic(number: f32) -> f32 {
    (number.ln_1p() / 1024f32.ln()).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_lie_between_0_and_1_whatever_is_counted() {
        for (accesses, keys, guards) in [
            (vec![0.0; 4], vec![0.0; 4], 0.0),
            (vec![1e9, 0.0, 1.0, 3.0], vec![0.0, 0.0, 0.0, 5.0], 1.0),
            (vec![1.0; 4], vec![1e7; 4], 4096.0),
        ] {
            let question = Question {
                accesses,
                keys,
                guards,
            };
            let inputs = [question.sequence(), question.coarse(2), question.coarse(3)];
            assert_eq!(inputs.each_ref().map(Vec::len), [4 * TUPLE, 4, 6]);
            for number in inputs.iter().flatten() {
                assert!((0.0..=1.0).contains(number), "{question:?}: {number}");
            }
        }
    }
}
