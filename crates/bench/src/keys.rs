//! Keys from numbers.
//!
//! K1. Different numbers make different keys, as long as they fit the shape.
//! K2. Keys that are not scattered sort as their numbers do.
//!
//! Threads: plain data. Tests: below.

use crate::random::mix;
use serde::{Deserialize, Serialize};

/// How a number becomes a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum KeyShape {
    /// 16 hexadecimal digits of the scattered number: YCSB's hashed keys, in the length of the
    /// papers.
    Hex,
    /// `user` and 12 digits of the scattered number: YCSB's own keys, with their long common
    /// beginning. Numbers must stay below 10^12.
    User,
    /// 16 decimal digits, zeros in front (JellyFish's simulation).
    Decimal,
    /// The number in 8 bytes, the greatest first, then eight `0` (`db_bench`); where it is
    /// missing, the last is a `.`, which sorts it right before the number's own key.
    DbBench,
    /// 8 bytes of the scattered number (cLSM).
    Binary8,
    /// The number in 8 bytes, the greatest first: neighbours are neighbours on disk, as in cLSM's
    /// blocks.
    Ordered8,
    /// 4 bytes, the greatest first (S3's integers); numbers must stay below 2^32.
    Word4,
    /// 40 bytes: 32 that all keys share, then 8 of the scattered number (prefixes as in
    /// production, where keys begin with a table's and a user's name).
    Prefixed40,
    /// As `prefixed40`, in four tables: a number's last digit in base 4 is its table, which keys
    /// begin with.
    Tables40,
}

/// Tables of `Tables40`.
const TABLES: u64 = 4;
/// Where their keys tell them apart.
const TABLE_AT: usize = 17;

impl KeyShape {
    /// How many tables keys are of: number `n` is in that of the remainder.
    #[must_use]
    pub fn tables(self) -> u64 {
        match self {
            KeyShape::Tables40 => TABLES,
            _ => 1,
        }
    }
}

/// The table of a key of `Tables40`.
#[must_use]
pub fn table(key: &[u8]) -> u64 {
    let digit = key.get(TABLE_AT).copied().unwrap_or(b'0');
    u64::from(digit.saturating_sub(b'0')).min(TABLES - 1)
}

/// The keys of one benchmark.
#[derive(Debug, Clone)]
pub struct Keys {
    shape: KeyShape,
    key: Vec<u8>,
}

const SHARED: &[u8; 32] = b"production/table-000042/user-id/";
const USER_BOUND: u64 = 1_000_000_000_000;
/// Numbers that are put are below it.
const MISSING_FROM: u64 = 1 << 40;

impl Keys {
    /// Keys of this shape.
    #[must_use]
    pub fn new(shape: KeyShape) -> Self {
        Keys {
            shape,
            key: Vec::with_capacity(40),
        }
    }

    /// The key of number `n`.
    #[inline]
    pub fn key(&mut self, n: u64) -> &[u8] {
        self.key.clear();
        match self.shape {
            KeyShape::Hex => push_hex(mix(n), &mut self.key),
            KeyShape::User => {
                self.key.extend_from_slice(b"user");
                push_decimal::<12>(scatter_decimal(n), &mut self.key);
            }
            KeyShape::Decimal => push_decimal::<16>(n, &mut self.key),
            KeyShape::DbBench => {
                let number = n % MISSING_FROM;
                self.key.extend_from_slice(&number.to_be_bytes());
                let end = if n < MISSING_FROM {
                    b"00000000"
                } else {
                    b"0000000."
                };
                self.key.extend_from_slice(end);
            }
            KeyShape::Binary8 => self.key.extend_from_slice(&mix(n).to_be_bytes()),
            KeyShape::Ordered8 => self.key.extend_from_slice(&n.to_be_bytes()),
            KeyShape::Word4 => {
                let low = u32::try_from(n & 0xffff_ffff).unwrap_or(0);
                self.key.extend_from_slice(&low.to_be_bytes());
            }
            KeyShape::Prefixed40 => {
                self.key.extend_from_slice(SHARED);
                self.key.extend_from_slice(&mix(n).to_be_bytes());
            }
            KeyShape::Tables40 => {
                self.key.extend_from_slice(SHARED);
                let table = u8::try_from(n % TABLES).unwrap_or(0);
                self.key[TABLE_AT] = b'0' + table;
                self.key.extend_from_slice(&mix(n).to_be_bytes());
            }
        }
        &self.key
    }

    /// Bytes of a key.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self.shape {
            KeyShape::Hex | KeyShape::User | KeyShape::Decimal | KeyShape::DbBench => 16,
            KeyShape::Binary8 | KeyShape::Ordered8 => 8,
            KeyShape::Word4 => 4,
            KeyShape::Prefixed40 | KeyShape::Tables40 => 40,
        }
    }

    /// A number whose key is never written: those that are stay far below it.
    #[must_use]
    pub fn missing(&self, n: u64) -> u64 {
        match self.shape {
            KeyShape::User => n + USER_BOUND / 2,
            KeyShape::Word4 => n + (1 << 31),
            _ => n + MISSING_FROM,
        }
    }
}

/// A bijection of the numbers below 10^12: multiplication by an odd number that 5 does not divide.
fn scatter_decimal(n: u64) -> u64 {
    let product = u128::from(n) * 618_033_988_749 % u128::from(USER_BOUND);
    u64::try_from(product).unwrap_or(0)
}

fn push_hex(n: u64, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in n.to_be_bytes() {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

fn push_decimal<const DIGITS: usize>(n: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; DIGITS];
    let mut rest = n;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::collections::HashSet;

    #[test]
    fn different_numbers_make_different_keys_of_the_promised_length() {
        for shape in KeyShape::value_variants() {
            let mut keys = Keys::new(*shape);
            let bytes = keys.bytes();
            let mut seen = HashSet::new();
            for n in 0..10_000 {
                let missing = keys.missing(n);
                for n in [n, missing] {
                    let key = keys.key(n).to_vec();
                    assert_eq!(key.len() as u64, bytes, "{shape:?}");
                    assert!(seen.insert(key), "{shape:?} {n}");
                }
            }
        }
    }

    #[test]
    fn a_number_is_in_the_table_of_its_remainder() {
        let mut keys = Keys::new(KeyShape::Tables40);
        for n in 0..100 {
            assert_eq!(table(keys.key(n)), n % KeyShape::Tables40.tables());
        }
        let (last, third) = (keys.key(103).to_vec(), keys.key(106).to_vec());
        assert!(last > third, "tables are in order");
        assert_eq!(table(b""), 0);
    }

    #[test]
    fn keys_that_are_not_scattered_sort_as_their_numbers() {
        for shape in [
            KeyShape::Decimal,
            KeyShape::DbBench,
            KeyShape::Ordered8,
            KeyShape::Word4,
        ] {
            let mut keys = Keys::new(shape);
            let keys: Vec<_> = (0..1000).map(|n| keys.key(n * 7).to_vec()).collect();
            assert!(keys.is_sorted(), "{shape:?}");
        }
        let mut keys = Keys::new(KeyShape::DbBench);
        let key = |n| keys.key(n).to_vec();
        let around = [4, MISSING_FROM + 4, 3].map(key);
        assert!(around.iter().rev().is_sorted(), "{around:?}");
        let mut keys = Keys::new(KeyShape::Hex);
        assert!(!(0..10).map(|n| keys.key(n).to_vec()).is_sorted());
    }
}
