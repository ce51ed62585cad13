//! Random numbers that repeat: what two processes draw from the same parts is the same.
//!
//! Source: SplitMix64 (Steele, Lea, Flood, OOPSLA '14).
//!
//! Tests: below.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// The stream that belongs to these parts.
    pub(super) fn of(parts: &[u64]) -> Self {
        let fold = |state: u64, part: &u64| mix(state ^ mix(*part));
        Random(parts.iter().fold(0, fold))
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`, which is not 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// Whether it happens, once in `n` times.
    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of them.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let index = self.below(of.len() as u64);
        of[usize::try_from(index).unwrap_or(0)]
    }

    /// A number from `least` to `most`, each power of two between them as likely as the next.
    pub(super) fn spread(&mut self, least: u64, most: u64) -> u64 {
        let steps = u64::from((most / least.max(1)).max(1).ilog2()) + 1;
        let low = least.max(1) << self.below(steps);
        (low + self.below(low)).min(most)
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_parts_give_the_same_numbers_and_others_do_not() {
        let draw = |parts: &[u64]| {
            let mut random = Random::of(parts);
            (0..8).map(|_| random.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(&[1, 2]), draw(&[1, 2]));
        assert_ne!(draw(&[1, 2]), draw(&[2, 1]));
        assert_ne!(draw(&[1]), draw(&[1, 0]));
    }

    #[test]
    fn spread_numbers_stay_between_their_ends_and_reach_both_halves() {
        let mut random = Random::of(&[7]);
        let drawn: Vec<u64> = (0..1000).map(|_| random.spread(20, 100_000)).collect();
        assert!(drawn.iter().all(|n| (20..=100_000).contains(n)));
        assert!(drawn.iter().any(|n| *n < 100) && drawn.iter().any(|n| *n > 30_000));
    }
}
