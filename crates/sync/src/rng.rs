//! A small seeded generator for tower heights, jitter and tests; not for secrets.
//!
//! The same seed gives the same numbers on every machine, for ever: tests replay by it.

/// SplitMix64 (Steele, Lea and Flood, OOPSLA '14): one addition and two multiplications a number.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator that repeats exactly for the same seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound` (which must not be 0), near enough to uniform.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}
