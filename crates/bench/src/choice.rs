//! Which key the next operation is about.
//!
//! Source: YCSB's `ZipfianGenerator` (Gray et al., SIGMOD '94) and its scrambling; numpy's
//! unbounded Zipf (Devroye's rejection), which JellyFish's simulation draws from; S3 (VLDB '19)
//! 6.1 for several centres; EvenDB's supplement for two components; cLSM (EuroSys '15) 5.1 for hot
//! blocks and for production logs, whose popularity is fitted by a log-normal: 10 % of the keys get
//! 81 % of the requests, 1.5 % get half.
//!
//! C1. What is drawn is below the bound, but for `ZipfUnbounded`.
//! C2. The same random numbers draw the same keys.
//! C3. Zipf's popular keys, and first components, stay the same while keys are inserted: they are
//!     of those that were there when the chooser was made, as are all that it draws. Scattered over
//!     more and more, each would be another after every few inserts, and nothing would be popular.
//!
//! Threads: shared. Tests: `choice/tests.rs`.

use crate::random::{Random, high, mix};
use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// A distribution of keys.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Each as often as any other.
    Uniform,
    /// YCSB's bounded Zipf with this exponent below 1, the popular keys scattered.
    Zipf(f64),
    /// numpy's Zipf with this exponent above 1: rank is number, and there is no greatest.
    ZipfUnbounded(f64),
    /// Zipf offsets (0.99) around so many centres that the seed chooses.
    Centres(u64),
    /// Keys of two components, so many with the same first one: Zipf (0.99) over the first, the
    /// popular ones scattered, uniform over the second (EvenDB's composite keys).
    Composite(u64),
    /// Normal around the middle, with this standard deviation as a share of the key space.
    Normal(f64),
    /// Zipf (0.99) from the newest key backwards.
    Latest,
    /// Each of the first hundredth as often as any other of them (`db_bench`'s readhot).
    FirstHundredth,
    /// 90 % of the draws from every tenth block of 16 neighbours.
    HotBlocks,
    /// The production logs' popularity.
    Production,
}

/// Neighbours in a block: what 4 KiB hold of cLSM's pairs.
const BLOCK_KEYS: u64 = 16;
/// One block in so many is hot.
const HOT_EVERY: u64 = 10;
const HOT_SHARE: f64 = 0.9;
/// Standard deviation of the logarithm of popularity: half the requests go to 1.5 % of the keys.
const PRODUCTION_SIGMA: f64 = 2.17;
const THETA: f64 = 0.99;

/// A distribution ready to draw from.
#[derive(Debug)]
pub struct Chooser {
    choice: Choice,
    zipf: Option<Zipf>,
    /// Keys that there were (C3).
    keys: u64,
    seed: u64,
}

impl Chooser {
    /// Prepares `choice` over `bound` keys.
    #[must_use]
    pub fn new(choice: Choice, bound: u64, seed: u64) -> Self {
        let zipf = match choice {
            Choice::Zipf(theta) => Some(Zipf::new(bound, theta)),
            Choice::Latest => Some(Zipf::new(bound, THETA)),
            Choice::Centres(centres) => Some(Zipf::new(bound / centres.max(1), THETA)),
            Choice::Composite(each) => Some(Zipf::new(bound / each.max(1), THETA)),
            _ => None,
        };
        Chooser {
            choice,
            zipf,
            keys: bound.max(1),
            seed,
        }
    }

    /// How often each key is drawn in so many draws of its own, the most popular first.
    #[must_use]
    pub fn popularity(&self, draws: u64) -> Vec<u64> {
        let mut random = Random::new(self.seed);
        let mut drawn: Vec<u64> = (0..draws)
            .map(|_| self.draw(&mut random, self.keys))
            .collect();
        drawn.sort_unstable();
        let same = drawn.chunk_by(|a, b| a == b);
        let mut counts: Vec<u64> = same.map(|same| same.len() as u64).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    /// Draws the number of a key below `bound`, which has not shrunk since `new`.
    #[inline]
    pub fn draw(&self, random: &mut Random, bound: u64) -> u64 {
        let rank = |random: &mut Random| self.zipf.as_ref().map_or(0, |zipf| zipf.draw(random));
        match self.choice {
            Choice::Uniform => random.below(bound),
            Choice::Zipf(_) => high(mix(rank(random).wrapping_add(1)), bound.min(self.keys)),
            Choice::Latest => bound - 1 - rank(random).min(bound - 1),
            Choice::ZipfUnbounded(a) => zipf_unbounded(random, a),
            Choice::Centres(centres) => {
                let centre = random.below(centres.max(1)) + 1;
                let centre = high(mix(self.seed ^ mix(centre)), bound);
                let offset = rank(random);
                // On both sides of the centre, around the end to the beginning.
                match random.below(2) {
                    0 => (centre + offset) % bound,
                    _ => (centre + bound - offset % bound) % bound,
                }
            }
            Choice::Composite(each) => {
                let each = each.clamp(1, bound);
                let firsts = (bound.min(self.keys) / each).max(1);
                let first = high(mix(rank(random).wrapping_add(1)), firsts);
                first * each + random.below(each)
            }
            Choice::Normal(sigma) => loop {
                let at = 0.5 + sigma * normal(random);
                if (0.0..1.0).contains(&at) {
                    break share(at, bound);
                }
            },
            Choice::FirstHundredth => random.below(bound.div_ceil(100)),
            Choice::HotBlocks => {
                let blocks = bound.div_ceil(BLOCK_KEYS);
                let block = if random.unit() < HOT_SHARE {
                    random.below(blocks.div_ceil(HOT_EVERY)) * HOT_EVERY
                } else {
                    random.below(blocks)
                };
                (block * BLOCK_KEYS + random.below(BLOCK_KEYS)).min(bound - 1)
            }
            Choice::Production => {
                // Log-normal weights, drawn by weight: normal again, moved up by sigma.
                let z = normal(random) + PRODUCTION_SIGMA;
                share(upper_tail(z), bound)
            }
        }
    }
}

/// Zipf over ranks 0 to n - 1.
#[derive(Debug)]
struct Zipf {
    n: f64,
    theta: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
    fn new(n: u64, theta: f64) -> Self {
        let n = n.max(2);
        let zeta = |n: u64| -> f64 { (1..=n).map(|i| (i as f64).powf(-theta)).sum() };
        let all = zeta(n);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - zeta(2) / all);
        Zipf {
            n: n as f64,
            theta,
            zeta: all,
            alpha: 1.0 / (1.0 - theta),
            eta,
        }
    }

    #[inline]
    fn draw(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < 1.0 + 0.5_f64.powf(self.theta) {
            return 1;
        }
        let rank = self.n * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        whole(rank.min(self.n - 1.0))
    }
}

fn zipf_unbounded(random: &mut Random, a: f64) -> u64 {
    /// Ranks beyond it would not fit 16 decimal digits; numpy's end is 2^63.
    const RANK_MAX: f64 = 1e15;
    let less_one = a - 1.0;
    let b = 2.0_f64.powf(less_one);
    loop {
        let u = 1.0 - random.unit();
        let v = random.unit();
        let x = u.powf(-1.0 / less_one).floor();
        if !(1.0..=RANK_MAX).contains(&x) {
            continue;
        }
        let t = (1.0 + 1.0 / x).powf(less_one);
        if v * x * (t - 1.0) / (b - 1.0) <= t / b {
            return whole(x);
        }
    }
}

/// Standard normal, by Box and Muller.
fn normal(random: &mut Random) -> f64 {
    let u = 1.0 - random.unit();
    let v = random.unit();
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The share of a standard normal above `z` (Abramowitz and Stegun 26.2.17, to 10^-7).
fn upper_tail(z: f64) -> f64 {
    const B: [f64; 5] = [
        0.319_381_530,
        -0.356_563_782,
        1.781_477_937,
        -1.821_255_978,
        1.330_274_429,
    ];
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let poly = B.iter().rev().fold(0.0, |sum, b| (sum + b) * t);
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    let tail = density * poly;
    if z < 0.0 { 1.0 - tail } else { tail }
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn share(part: f64, bound: u64) -> u64 {
    whole(part * bound as f64).min(bound - 1)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float saturates when cast, and these are not negative"
)]
fn whole(x: f64) -> u64 {
    x as u64
}
