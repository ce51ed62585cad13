//! Random numbers: the same for the same seed, on every machine.
//!
//! Source: SplitMix64 (Steele, Lea and Flood, OOPSLA '14); its finalizer is also the hash that
//! scatters keys, being a bijection of 64-bit numbers.
//!
//! Threads: each has its own. Tests: below.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(mix(seed ^ 0x5f0d_3c1b_2a99_47e5))
    }

    /// The next number.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// The next number below `bound`, which is not 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        high(self.draw(), bound)
    }

    /// The next number from 0 to 1, 1 excluded.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit exactly")]
        let numerator = (self.draw() >> 11) as f64;
        numerator / 9_007_199_254_740_992.0
    }
}

/// Scatters `n`: a bijection.
#[inline]
#[must_use]
pub fn mix(n: u64) -> u64 {
    let mut z = n;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `n / 2^64 * bound`, rounded down: a number below `bound` where it is not 0.
#[inline]
#[must_use]
pub fn high(n: u64, bound: u64) -> u64 {
    let product = u128::from(n) * u128::from(bound);
    u64::try_from(product >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_numbers_and_another_others() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [random.draw(), random.below(1000), random.draw()]
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(random.below(10)).unwrap()] += 1;
        }
        assert!(
            counts.iter().all(|n| (9_500..10_500).contains(n)),
            "{counts:?}"
        );
        let unit = random.unit();
        assert!((0.0..1.0).contains(&unit));
    }
}
