//! The truth that the network is trained towards: the shares of guards that cost least.
//!
//! Source: S3 (VLDB '19) 4.2 for the cost of a search, the logarithm of the number of keys in its
//! guard's area; finding S3-9. With accesses q, keys d and guards g of each range,
//!
//! ```text
//!   cost = sum over ranges of  q log2(1 + d / g)   where   sum of g = number of guards
//! ```
//!
//! which is convex in g, so that its one least point has the same slope everywhere,
//! q d / (g (g + d)) = lambda; it is found by bisection of lambda. Where areas are large, g is
//! proportional to q; where there is less than a key a guard, further guards gain little.
//!
//! The paper calls the search for the best guards NP-complete and approximates it. Guards of a line
//! part it into neighbouring areas, so a dynamic program finds the best ones in polynomial time;
//! the tests have it, and that the closed form is as good. The closed form is the teacher because
//! training asks for tens of thousands of answers, with thousands of guards.
//!
//! O1. Where there are no keys there are no guards.
//! O2. A few of the accesses, `OF_KEYS`, are taken to be distributed as the keys are, so that no
//!     area is without bound: the level switches of the paper's cost.
//!
//! Threads: plain data. Tests: below.

use crate::question::{Answer, Question};

/// The part of the accesses that is taken to be distributed as keys (O2).
const OF_KEYS: f64 = 1.0 / 32.0;

/// The optimum as one that answers: what a network can be at best.
#[derive(Debug, Clone, Copy)]
pub struct Optimum {
    /// How many ranges a question must have.
    pub ranges: usize,
}

impl Answer for Optimum {
    fn name(&self) -> &'static str {
        "closed form"
    }

    fn ranges(&self) -> usize {
        self.ranges
    }

    fn shares(&self, question: &Question) -> Vec<f32> {
        shares(question)
    }
}

/// The share of each range in the guards: positive where there are keys, of sum 1.
///
/// Without keys, all shares are equal.
#[must_use]
pub fn shares(question: &Question) -> Vec<f32> {
    let keys: Vec<f64> = question.keys.iter().map(|d| f64::from(*d)).collect();
    let accesses = weights(question);
    let guards = f64::from(question.guards.max(1.0));
    let place = |lambda: f64| -> Vec<f64> {
        let each = accesses.iter().zip(&keys);
        each.map(|(q, d)| ((d * d + 4.0 * q * d / lambda).sqrt() - d) / 2.0)
            .collect()
    };
    // From slopes that place far too many guards to ones that place none.
    let (mut low, mut high) = (-60.0f64, 60.0f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if place(middle.exp()).iter().sum::<f64>() > guards {
            low = middle;
        } else {
            high = middle;
        }
    }
    let placed = place(high.exp());
    let sum: f64 = placed.iter().sum();
    let equal = 1.0 / keys.len() as f64;
    placed
        .iter()
        .map(|g| narrow(if sum > 0.0 { g / sum } else { equal }))
        .collect()
}

/// The mean of log2(1 + keys per guard) over the accesses, if guards have these shares.
#[must_use]
pub fn cost(question: &Question, shares: &[f32]) -> f64 {
    let guards = f64::from(question.guards.max(1.0));
    let accesses = weights(question);
    let each = accesses.iter().zip(&question.keys).zip(shares);
    each.map(|((q, d), share)| {
        let guards = (guards * f64::from(*share)).max(1e-3);
        q * (1.0 + f64::from(*d) / guards).log2()
    })
    .sum()
}

/// The accesses as shares of all, with some of the keys' (O2).
fn weights(question: &Question) -> Vec<f64> {
    let accesses: f64 = question.accesses.iter().map(|q| f64::from(*q)).sum();
    let keys: f64 = question.keys.iter().map(|d| f64::from(*d)).sum();
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let each = question.accesses.iter().zip(&question.keys);
    each.map(|(q, d)| {
        let of_accesses = share(f64::from(*q), accesses);
        (1.0 - OF_KEYS) * of_accesses + OF_KEYS * share(f64::from(*d), keys)
    })
    .collect()
}

fn narrow(number: f64) -> f32 {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what the network learns is in single precision"
    )]
    let narrow = number as f32;
    narrow
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload;
    use velella_sync::rng::Rng;

    fn question(accesses: &[f32], keys: &[f32], guards: f32) -> Question {
        Question {
            accesses: accesses.to_vec(),
            keys: keys.to_vec(),
            guards,
        }
    }

    #[test]
    fn shares_follow_accesses_where_keys_are_many() {
        let many = question(&[30.0, 10.0, 0.0], &[1e6, 3e6, 1e6], 64.0);
        let shares = shares(&many);
        assert!((shares[0] / shares[1] - 3.0).abs() < 0.25, "{shares:?}");
        assert!(shares[2] > 0.0 && shares[2] < 0.02, "{shares:?}");
    }

    #[test]
    fn no_guards_stand_where_there_are_no_keys() {
        let gaps = question(&[5.0, 95.0, 0.0, 100.0], &[0.0, 900.0, 0.0, 900.0], 8.0);
        let shares = shares(&gaps);
        assert_eq!([shares[0], shares[2]], [0.0, 0.0], "O1");
        assert!((shares[1] - shares[3]).abs() < 0.05, "{shares:?}");
    }

    #[test]
    fn no_other_shares_cost_less() {
        let mut rng = Rng::new(3);
        for _ in 0..50 {
            let question = workload::draw(&mut rng, 16);
            let best = shares(&question);
            let least = cost(&question, &best);
            for _ in 0..50 {
                let mut place = || usize::try_from(rng.below(16)).expect("below 16");
                let (from, to) = (place(), place());
                let mut other = best.clone();
                let moved = other[from] * 0.3;
                other[from] -= moved;
                other[to] += moved;
                assert!(cost(&question, &other) >= least - 1e-4, "{question:?}");
            }
        }
    }

    /// The least sum over areas of q log2(1 + d), by dynamic programming over which of the cells of
    /// a line begin an area: the truth for guards that stand between cells.
    fn least_by_parting(accesses: &[f64], keys: &[f64], areas: usize) -> f64 {
        let cells = keys.len();
        let mut best = vec![f64::INFINITY; cells + 1];
        best[0] = 0.0;
        for _ in 0..areas {
            let mut next = best.clone();
            for (end, least) in next.iter_mut().enumerate().skip(1) {
                let (mut q, mut d) = (0.0, 0.0);
                for start in (0..end).rev() {
                    q += accesses[start];
                    d += keys[start];
                    *least = least.min(best[start] + q * f64::log2(1.0 + d));
                }
            }
            best = next;
        }
        best[cells]
    }

    #[test]
    fn the_closed_form_is_as_good_as_the_dynamic_program() {
        // Eight ranges of eight cells each; within a range keys and accesses are spread evenly.
        let mut rng = Rng::new(5);
        let spread = |of: &[f32]| -> Vec<f64> {
            of.iter()
                .flat_map(|part| [f64::from(*part) / 8.0; 8])
                .collect()
        };
        for _ in 0..20 {
            let mut question = workload::draw(&mut rng, 8);
            question.guards = 24.0;
            let weights = weights(&question);
            let spread_weights: Vec<f64> = weights.iter().flat_map(|q| [q / 8.0; 8]).collect();
            let truth = least_by_parting(&spread_weights, &spread(&question.keys), 24);
            // The closed form may place parts of guards; a relaxation cannot cost more than what
            // it relaxes, but for areas that reach across ranges.
            let relaxed = cost(&question, &shares(&question));
            assert!(relaxed < truth + 0.35, "{relaxed} {truth} {question:?}");
            assert!(relaxed > truth - 0.7, "{relaxed} {truth} {question:?}");
        }
    }
}
