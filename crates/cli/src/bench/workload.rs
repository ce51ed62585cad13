//! Keys, values and random numbers, made as `db_bench` makes them.
//!
//! Source: `GenerateKeyFromInt`, `RandomGenerator` and `CompressibleString` of RocksDB's
//! `db_bench_tool.cc` and `test_util/testutil.cc`.
//!
//! K1. Keys sort as their numbers do.
//! K2. Every thread of every benchmark of a run draws numbers of its own, and draws them again in a
//!     run with the same seed.
//!
//! Tests: below.

use super::Load;

/// The compressible piece that values are cut from is repeated to this size.
const POOL_BYTES: usize = 1 << 20;
/// Bytes of one compressible piece.
const PIECE_BYTES: usize = 100;

/// What one thread draws from.
#[derive(Debug)]
pub(super) struct Workload {
    random: Random,
    num: u64,
    key: Vec<u8>,
    pool: Vec<u8>,
    at: usize,
    value_bytes: usize,
}

impl Workload {
    /// The workload of thread number `thread`.
    pub(super) fn new(load: &Load, thread: u64) -> Self {
        let mut random = Random(load.seed.wrapping_mul(1_000_003).wrapping_add(thread));
        let value_bytes = usize::try_from(load.value_size).unwrap_or(usize::MAX);
        let key_bytes = usize::try_from(load.key_size).unwrap_or(usize::MAX);
        let mut pool = Vec::new();
        while pool.len() < POOL_BYTES.max(value_bytes) {
            compressible(&mut random, load.compression_ratio, &mut pool);
        }
        let key = vec![b'0'; key_bytes];
        Workload {
            random,
            num: load.num,
            key,
            pool,
            at: 0,
            value_bytes,
        }
    }

    /// A random number of a key.
    pub(super) fn draw(&mut self) -> u64 {
        self.random.below(self.num)
    }

    /// The key with this number: eight bytes, the greatest first, then zeros as digits.
    pub(super) fn key(&mut self, number: u64) -> &[u8] {
        self.key[..8].copy_from_slice(&number.to_be_bytes());
        &self.key
    }

    /// The key with this number and the next value.
    pub(super) fn pair(&mut self, number: u64) -> (&[u8], &[u8]) {
        if self.at + self.value_bytes > self.pool.len() {
            self.at = 0;
        }
        let value = self.at..self.at + self.value_bytes;
        self.at = value.end;
        self.key(number);
        (&self.key, &self.pool[value])
    }
}

/// Appends a piece of which compression leaves `ratio`.
fn compressible(random: &mut Random, ratio: f64, out: &mut Vec<u8>) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "the ratio lies in 0 to 1"
    )]
    let raw = ((PIECE_BYTES as f64 * ratio) as usize).max(1);
    let piece: Vec<u8> = (0..raw)
        .map(|_| b' ' + u8::try_from(random.below(95)).unwrap_or(0))
        .collect();
    out.extend(piece.iter().cycle().take(PIECE_BYTES));
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA '14).
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn workload(thread: u64) -> Workload {
        let command = Load::augment_args(clap::Command::new("x"));
        let matches = command.get_matches_from(["x", "--num", "1000"]);
        Workload::new(&Load::from_arg_matches(&matches).unwrap(), thread)
    }

    #[test]
    fn keys_are_those_of_db_bench() {
        let mut workload = workload(0);
        assert_eq!(workload.key(258), b"\0\0\0\0\0\0\x01\x0200000000");
        let low = workload.key(255).to_vec();
        assert!(low.as_slice() < workload.key(256));
    }

    #[test]
    fn half_of_a_value_is_random_and_values_differ() {
        let mut workload = workload(0);
        let first = workload.pair(1).1.to_vec();
        assert_eq!(first.len(), 100);
        assert_eq!(first[..50], first[50..]);
        assert_ne!(first, workload.pair(1).1);
    }

    #[test]
    fn about_63_percent_of_the_keys_are_drawn_in_as_many_draws() {
        let mut workload = workload(3);
        let drawn: std::collections::HashSet<u64> = (0..1000).map(|_| workload.draw()).collect();
        assert!((590..=670).contains(&drawn.len()), "{}", drawn.len());
        assert!(drawn.iter().all(|number| *number < 1000));
    }
}
