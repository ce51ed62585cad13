//! Shares of ranges made guards: the trained network, or the optimum, as a selector.
//!
//! Source: S3 (VLDB '19) 5.2: the key space is parted into 250,000 equal ranges, in one sequence,
//! and a chosen range gets a guard at its middle. Here a sequence has 64 ranges, and a range that
//! gets more than one guard is split into 64 again and asked about, down to 262,144 parts of the
//! whole: the same fineness, where it is needed, in sequences that can be learned. The paper counts
//! every key; of a sample a range that holds fewer keys than parts is not split, for the parts'
//! counts would be accidents.
//!
//! S1. Sorted, distinct, at most `count` (Z1 of `velella_memtable::guards`); the same question gets
//!     the same answer (Z2): nothing is random after training.
//! S2. All guards lie between the least key and the greatest word that is given.
//! S3. The shares are rounded so that exactly `count` guards are given out. So the paper's random
//!     removal of surplus guards and second run for missing ones have no counterpart. Fewer stand
//!     where ranges without keys were given some, or two fall on the same word.
//! S4. The guards of a range that is not split stand at quantiles of its accesses, or of its keys
//!     if there are fewer accesses than guards (findings S3-7, S3-9: middles of ranges say little).
//! S5. An access counts in the range where its search ends, that of the last key of the sample
//!     that is not above it: what is searched for in a gap between keys is found beside the gap.
//!
//! Threads: shared. Tests: below.

use crate::question::{Answer, Question};
use velella_memtable::guards::GuardSelector;

/// How often a range is split.
const SPLITS: u32 = 3;

/// Guards where the answers to questions about ranges want them.
#[derive(Debug, Clone)]
pub struct SplitGuards<A> {
    answer: A,
    keys_per_word: usize,
}

/// A part of the key space and what lies in it.
#[derive(Debug, Clone, Copy)]
struct Range<'a> {
    low: u64,
    /// At most 2^64.
    width: u128,
    keys: &'a [u64],
    accesses: &'a [u64],
    /// Where each of the accesses ends.
    ends: &'a [u64],
}

impl<A: Answer> SplitGuards<A> {
    /// With a trained network, say; each word of a sample stands for `keys_per_word` keys.
    #[must_use]
    pub fn new(answer: A, keys_per_word: usize) -> SplitGuards<A> {
        SplitGuards {
            answer,
            keys_per_word,
        }
    }

    fn keys(&self, part: &Range<'_>) -> f32 {
        (part.keys.len() * self.keys_per_word) as f32
    }

    fn place(&self, range: Range<'_>, count: usize, splits: u32, guards: &mut Vec<u64>) {
        if count == 0 {
            return;
        }
        let ranges = self.answer.ranges();
        let is_fine = range.keys.len() < ranges || range.width < ranges as u128;
        if count == 1 || splits == 0 || is_fine {
            let words = match range.accesses.len() < count {
                true => range.keys,
                false => range.accesses,
            };
            guards.extend((0..count).map(|guard| between(words, guard, count)));
            return;
        }
        let parts = range.split(ranges);
        let question = Question {
            accesses: parts.iter().map(|p| p.accesses.len() as f32).collect(),
            keys: parts.iter().map(|p| self.keys(p)).collect(),
            guards: count as f32,
        };
        let shares = self.answer.shares(&question);
        for (part, count) in parts.into_iter().zip(whole(&shares, count)) {
            // A range without keys needs none: whoever comes there begins at the last key below.
            if !part.keys.is_empty() {
                self.place(part, count, splits - 1, guards);
            }
        }
    }
}

impl<A: Answer> GuardSelector for SplitGuards<A> {
    fn name(&self) -> &'static str {
        self.answer.name()
    }

    fn select(&self, data: &[u64], accesses: &[u64], count: usize) -> Vec<u64> {
        let (Some(least), Some(greatest)) = (data.first(), data.last()) else {
            return Vec::new();
        };
        let accesses = &accesses[accesses.partition_point(|word| word < least)..];
        let ends = ends(data, accesses);
        let all = Range {
            low: *least,
            width: u128::from(greatest - least) + 1,
            keys: data,
            accesses,
            ends: &ends,
        };
        let mut guards = Vec::with_capacity(count.min(data.len()));
        self.place(all, count, SPLITS, &mut guards);
        guards.sort_unstable();
        guards.dedup();
        guards
    }
}

impl<'a> Range<'a> {
    /// The word at `part / parts` of the range.
    fn at(&self, part: u128, parts: u128) -> u64 {
        let offset = mul_div(self.width, part, parts);
        self.low + u64::try_from(offset).expect("part < parts, and a range ends below 2^64")
    }

    /// `count` equal parts.
    fn split(&self, count: usize) -> Vec<Range<'a>> {
        let mut parts = Vec::with_capacity(count);
        let (mut keys, mut accesses, mut ends) = (self.keys, self.accesses, self.ends);
        let mut low = self.low;
        for part in 1..count {
            let next = self.at(part as u128, count as u128);
            let (own_keys, more_keys) = keys.split_at(keys.partition_point(|word| *word < next));
            let (own_ends, more_ends) = ends.split_at(ends.partition_point(|word| *word < next));
            let (own_accesses, more_accesses) = accesses.split_at(own_ends.len());
            parts.push(Range {
                low,
                width: u128::from(next - low),
                keys: own_keys,
                accesses: own_accesses,
                ends: own_ends,
            });
            (keys, accesses, ends) = (more_keys, more_accesses, more_ends);
            low = next;
        }
        let end = u128::from(self.low) + self.width;
        parts.push(Range {
            low,
            width: end - u128::from(low),
            keys,
            accesses,
            ends,
        });
        parts
    }
}

/// The middle of part `part` of `parts` parts with equally many keys, interpolated (S4).
fn between(keys: &[u64], part: usize, parts: usize) -> u64 {
    let (keys_len, parts) = (keys.len() as u128, parts as u128);
    // Key k stands for the ranks from k to k + 1, and stands in their middle.
    let rank = ((2 * part as u128 + 1) * keys_len).saturating_sub(parts);
    let at = usize::try_from(rank / (2 * parts)).expect("below the number of keys");
    let Some(next) = keys.get(at + 1) else {
        return keys[at];
    };
    let way = mul_div(u128::from(next - keys[at]), rank % (2 * parts), 2 * parts);
    keys[at] + u64::try_from(way).expect("a part of the way to the next word")
}

/// Where searches end: at the last key that is not above; no access lies below all keys.
fn ends(keys: &[u64], accesses: &[u64]) -> Vec<u64> {
    let mut at = 0;
    let mut ends = Vec::with_capacity(accesses.len());
    for access in accesses {
        while keys.get(at + 1).is_some_and(|next| next <= access) {
            at += 1;
        }
        ends.push(keys[at]);
    }
    ends
}

/// `width * part / parts`, without overflow while `part` is below 2^63.
fn mul_div(width: u128, part: u128, parts: u128) -> u128 {
    width / parts * part + width % parts * part / parts
}

/// `count` given out by shares: whole numbers, the largest remainders rounded up.
fn whole(shares: &[f32], count: usize) -> Vec<usize> {
    let sum: f64 = shares.iter().map(|share| f64::from(*share)).sum();
    let exact: Vec<f64> = shares
        .iter()
        .map(|share| f64::from(*share) / sum * count as f64)
        .collect();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and at most `count`"
    )]
    let mut whole: Vec<usize> = exact.iter().map(|g| *g as usize).collect();
    let mut order: Vec<usize> = (0..shares.len()).collect();
    let rest = |at: &usize| exact[*at] - exact[*at].floor();
    order.sort_by(|a, b| rest(b).total_cmp(&rest(a)));
    let missing = count.saturating_sub(whole.iter().sum());
    for at in order.into_iter().cycle().take(missing) {
        whole[at] += 1;
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Network, Shape};
    use crate::optimum::Optimum;
    use crate::train::{Plan, train};
    use velella_sync::rng::Rng;

    fn untrained() -> SplitGuards<Network> {
        SplitGuards::new(
            Network::new(
                Shape {
                    ranges: 8,
                    width: 4,
                    coarse: 4,
                    hidden: 4,
                },
                1,
            ),
            1,
        )
    }

    #[test]
    fn guards_are_sorted_distinct_within_range_and_not_too_many() {
        let mut rng = Rng::new(1);
        let mut sample = |count: usize| {
            let mut words: Vec<u64> = (0..count).map(|_| rng.next_u64()).collect();
            words.sort_unstable();
            words
        };
        let samples = [
            Vec::new(),
            vec![7],
            vec![7; 9],
            vec![0, u64::MAX],
            vec![u64::MAX],
            sample(1000),
        ];
        let (network, optimum) = (untrained(), SplitGuards::new(Optimum { ranges: 8 }, 4));
        for selector in [&network as &dyn GuardSelector, &optimum] {
            for data in &samples {
                for accesses in &samples {
                    for count in [0, 1, 2, 3, 64, 5000] {
                        let guards = selector.select(data, accesses, count);
                        assert!(guards.is_sorted_by(|a, b| a < b), "{}", selector.name());
                        assert!(guards.len() <= count, "{}", selector.name());
                        let greatest = data.last().max(accesses.last());
                        let is_within =
                            |guard: &u64| data.first() <= Some(guard) && Some(guard) <= greatest;
                        assert!(guards.iter().all(is_within), "S2: {}", selector.name());
                        let again = selector.select(data, accesses, count);
                        assert_eq!(guards, again, "Z2: {}", selector.name());
                    }
                }
            }
        }
    }

    #[test]
    fn whole_numbers_sum_up_to_what_was_given_out() {
        assert_eq!(whole(&[0.5, 0.25, 0.25], 4), [2, 1, 1]);
        assert_eq!(whole(&[0.4, 0.35, 0.25], 2), [1, 1, 0]);
        assert_eq!(whole(&[1.0, 0.0], 0), [0, 0]);
        assert_eq!(whole(&[0.3; 7], 1000).iter().sum::<usize>(), 1000);
    }

    #[test]
    fn guards_of_one_range_stand_at_equal_distances_in_the_order_of_keys() {
        let place = |keys: &[u64], count| -> Vec<u64> {
            (0..count).map(|at| between(keys, at, count)).collect()
        };
        assert_eq!(place(&[10, 20, 30, 40], 4), [10, 20, 30, 40]);
        assert_eq!(place(&[10, 20, 30, 40], 2), [15, 35]);
        assert_eq!(place(&[10, 20], 4), [10, 12, 17, 20]);
        assert_eq!(place(&[0, u64::MAX], 1), [u64::MAX / 2]);
        assert_eq!(place(&[5], 3), [5, 5, 5]);
    }

    #[test]
    fn accesses_count_at_the_last_key_below() {
        assert_eq!(ends(&[4, 4, 9], &[4, 5, 8, 9, 99]), [4, 4, 4, 9, 9]);
        assert_eq!(ends(&[4], &[]), []);
    }

    #[test]
    fn a_split_leaves_nothing_out() {
        let keys = [0, 1, 1 << 40, u64::MAX];
        let all = Range {
            low: 0,
            width: 1 << 64,
            keys: &keys,
            accesses: &keys,
            ends: &keys,
        };
        let parts = all.split(8);
        assert_eq!(parts.iter().map(|p| p.width).sum::<u128>(), 1 << 64);
        assert_eq!(parts.iter().map(|p| p.keys.len()).sum::<usize>(), 4);
        assert_eq!(parts[7].keys, [u64::MAX]);
        assert_eq!(parts[7].accesses, [u64::MAX]);
    }

    #[test]
    fn a_trained_network_puts_most_guards_where_accesses_are() {
        let plan = Plan {
            shape: Shape {
                ranges: 8,
                width: 8,
                coarse: 4,
                hidden: 8,
            },
            seed: 7,
            records: 2000,
            batch: 8,
            rate: 1e-2,
            tests: 1,
        };
        let selector = SplitGuards::new(train(&plan, &mut |_, _| ()).0, 1);
        let keys: Vec<u64> = (0..4096).collect();
        let accesses: Vec<u64> = (1024..1536).flat_map(|word| [word; 8]).collect();
        let guards = selector.select(&keys, &accesses, 256);
        let near = guards.iter().filter(|guard| (1024..1536).contains(*guard));
        assert!(near.count() > 128, "{guards:?}");
    }
}
