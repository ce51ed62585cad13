//! Keys from numbers.
//!
//! K1. Different numbers make different keys, as long as they fit the shape.
//! K2. Keys that are not scattered sort as their numbers do.
//!
//! Threads: plain data. Tests: below.

use crate::random::{high, mix};
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
    /// 4 bytes, the scattered number (S3's integers in random order); numbers must stay below 2^32.
    Scattered4,
    /// 4 bytes that crowd around sixteen centres, fewer the farther away, in the order of their
    /// numbers (S3's skewed data); numbers must stay below the benchmark's records.
    Centred4,
    /// 24 bytes: a node, a type of link, and another node, the greatest byte first (LinkBench).
    /// Eight numbers in a row share node and type: how many links there are, then the links.
    Link,
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
    records: u64,
    key: Vec<u8>,
}

const SHARED: &[u8; 32] = b"production/table-000042/user-id/";
const USER_BOUND: u64 = 1_000_000_000_000;
/// Numbers that are put are below it.
const MISSING_FROM: u64 = 1 << 40;
/// The same for keys of four bytes.
const MISSING_FROM_4: u64 = 1 << 31;
/// Bytes of node and type.
const LINK_PREFIX_BYTES: usize = 16;
/// Numbers that share a prefix, and types of links of a node.
const LINK_GROUP: u64 = 8;
const LINK_TYPES: u64 = 2;

impl Keys {
    /// Keys of this shape, of which there will be so many.
    #[must_use]
    pub fn new(shape: KeyShape, records: u64) -> Self {
        Keys {
            shape,
            records,
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
            KeyShape::Scattered4 => {
                let low = u32::try_from(n & 0xffff_ffff).unwrap_or(0);
                self.key.extend_from_slice(&scatter_4(low).to_be_bytes());
            }
            KeyShape::Centred4 => {
                let word = centred(n, self.records);
                self.key.extend_from_slice(&word.to_be_bytes());
            }
            KeyShape::Link => {
                let group = n / LINK_GROUP;
                let to = if n.is_multiple_of(LINK_GROUP) {
                    0
                } else {
                    mix(n)
                };
                for part in [group / LINK_TYPES, group % LINK_TYPES, to] {
                    self.key.extend_from_slice(&part.to_be_bytes());
                }
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

    /// What the key of number `n` begins with, as those of its neighbours do; the key itself where
    /// there is no such thing.
    #[inline]
    pub fn prefix(&mut self, n: u64) -> &[u8] {
        let is_link = self.shape == KeyShape::Link;
        let key = self.key(n);
        match is_link {
            true => &key[..LINK_PREFIX_BYTES],
            false => key,
        }
    }

    /// Bytes of a key.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self.shape {
            KeyShape::Hex | KeyShape::User | KeyShape::Decimal | KeyShape::DbBench => 16,
            KeyShape::Binary8 | KeyShape::Ordered8 => 8,
            KeyShape::Word4 | KeyShape::Scattered4 | KeyShape::Centred4 => 4,
            KeyShape::Link => 24,
            KeyShape::Prefixed40 | KeyShape::Tables40 => 40,
        }
    }

    /// A number whose key is never written: those that are stay far below it.
    #[must_use]
    pub fn missing(&self, n: u64) -> u64 {
        match self.shape {
            KeyShape::User => n + USER_BOUND / 2,
            KeyShape::Word4 | KeyShape::Scattered4 | KeyShape::Centred4 => n + MISSING_FROM_4,
            _ => n + MISSING_FROM,
        }
    }
}

/// A bijection of the numbers below 10^12: multiplication by an odd number that 5 does not divide.
fn scatter_decimal(n: u64) -> u64 {
    let product = u128::from(n) * 618_033_988_749 % u128::from(USER_BOUND);
    u64::try_from(product).unwrap_or(0)
}

/// A bijection of four-byte numbers: the finalizer of `MurmurHash3`.
fn scatter_4(n: u32) -> u32 {
    let mut z = n;
    z = (z ^ (z >> 16)).wrapping_mul(0x85eb_ca6b);
    z = (z ^ (z >> 13)).wrapping_mul(0xc2b2_ae35);
    z ^ (z >> 16)
}

/// The place of number `n` of `records`. The key space is sixteen pairs of halves; in the lower
/// half of each a sixteenth of the keys stands around a centre: close together next to it, and from
/// there on every other place, every fourth, each for as many keys, so that how many there are
/// falls with the distance as in Zipf's law. The upper halves have the keys that are missing.
fn centred(n: u64, records: u64) -> u32 {
    const CENTRES: u64 = 16;
    const STRIDES: u64 = 8;
    const HALF: u64 = 1 << 27;
    let (n, missing) = match n.checked_sub(MISSING_FROM_4) {
        Some(n) => (n, HALF),
        None => (n, 0),
    };
    let each = records.div_ceil(CENTRES).max(1);
    let centre = (n / each).min(CENTRES - 1);
    let (rank, side) = (n - centre * each, each.div_ceil(2));
    let close = side.div_ceil(STRIDES);
    let distance = |rank: u64| match rank.checked_sub(close) {
        None => rank,
        Some(beyond) => {
            (close + beyond % close).wrapping_shl(u32::try_from(beyond / close).unwrap_or(0))
        }
    };
    let farthest = close << (STRIDES - 1);
    let room = HALF.saturating_sub(2 * farthest);
    let middle = farthest + high(mix(centre + 1), room.max(1));
    let place = match rank.checked_sub(side) {
        Some(above) => middle.wrapping_add(distance(above)),
        None => middle.wrapping_sub(distance(side - 1 - rank) + 1),
    };
    let word = (centre * 2 * HALF)
        .wrapping_add(missing)
        .wrapping_add(place);
    u32::try_from(word & 0xffff_ffff).unwrap_or(0)
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
            let mut keys = Keys::new(*shape, 10_000);
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
        let mut keys = Keys::new(KeyShape::Tables40, 0);
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
            KeyShape::Centred4,
        ] {
            let mut keys = Keys::new(shape, 7000);
            let keys: Vec<_> = (0..1000).map(|n| keys.key(n * 7).to_vec()).collect();
            assert!(keys.is_sorted(), "{shape:?}");
        }
        let mut keys = Keys::new(KeyShape::DbBench, 0);
        let key = |n| keys.key(n).to_vec();
        let around = [4, MISSING_FROM + 4, 3].map(key);
        assert!(around.iter().rev().is_sorted(), "{around:?}");
        let mut keys = Keys::new(KeyShape::Hex, 0);
        assert!(!(0..10).map(|n| keys.key(n).to_vec()).is_sorted());
    }

    #[test]
    fn centred_keys_crowd_around_sixteen_places() {
        for records in [300, 40_000, 4_000_000] {
            let mut keys = Keys::new(KeyShape::Centred4, records);
            let mut word = |n| u32::from_be_bytes(keys.key(n).try_into().unwrap());
            let gaps: Vec<u32> = (1..records).map(|n| word(n) - word(n - 1)).collect();
            let least = gaps.iter().filter(|gap| **gap == 1).count() as u64;
            assert!(
                (records / 16..records / 2).contains(&least),
                "{least} of {records}"
            );
            // The way between two centres is longer than any within one's keys.
            let far = gaps.iter().filter(|gap| **gap > 1 << 20).count();
            assert_eq!(far, 15, "{records}");
            let missing = keys.missing(5);
            let [missing, there] = [missing, 5].map(|n| keys.key(n)[0] & 8);
            assert_ne!(missing, there);
        }
    }

    #[test]
    fn links_of_a_node_and_type_are_neighbours_and_their_count_is_first() {
        let mut keys = Keys::new(KeyShape::Link, 0);
        let mut all: Vec<_> = (0..800).map(|n| (keys.key(n).to_vec(), n)).collect();
        all.sort_unstable();
        for (group, links) in (0..).zip(all.chunks(8)) {
            assert_eq!(links[0].1, group * 8);
            for (key, n) in links {
                assert_eq!(*n / 8, group);
                assert!(key.starts_with(keys.prefix(*n)));
            }
        }
        let prefix = keys.prefix(15).to_vec();
        assert!(prefix.len() == 16 && keys.key(8).starts_with(&prefix));
        assert!(!keys.key(16).starts_with(&prefix));
    }
}
