//! Numbers that repeat for the same seed, for tests of the layer below every generator.
//!
//! Threads: none.
#![allow(unreachable_pub, reason = "a module of tests")]

/// SplitMix64.
pub struct Draws(pub u64);

impl Draws {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    /// Few letters, so that short keys repeat, share prefixes, and differ only at their end.
    pub fn key(&mut self, longest: usize) -> Vec<u8> {
        const LETTERS: [u8; 6] = [0, 1, b'a', b'b', 0xfe, 0xff];
        let len = self.below(longest + 1);
        (0..len).map(|_| LETTERS[self.below(6)]).collect()
    }

    /// As many significant bits as not.
    pub fn number(&mut self) -> u64 {
        let shift = self.below(64);
        self.next() >> shift
    }
}
