//! Values that tell which key they belong to, and when they were written.
//!
//! Half of a value is random, the other half repeats it: half is left by compression, as in
//! RocksDB's `db_bench` with its default ratio. The random half begins with the version number,
//! masked by a hash of the key; the rest is cut from a pool, where key and version say.
//!
//! V1. `check` returns the version if and only if `fill` made these bytes for this key (but for
//!     chance: 2^-64 for values of 32 bytes and more).
//!
//! Threads: shared. Tests: below.

use crate::random::{Random, high, mix};

/// Least bytes of a value.
pub const VALUE_BYTES_MIN: usize = 16;
const POOL_BYTES: usize = 1 << 20;
const VERSION_BYTES: usize = 8;

/// Makes values of one size, and recognizes them.
#[derive(Debug)]
pub struct Values {
    bytes: usize,
    pool: Vec<u8>,
}

impl Values {
    /// Values of `bytes` bytes, at least [`VALUE_BYTES_MIN`].
    #[must_use]
    pub fn new(bytes: usize, seed: u64) -> Self {
        let bytes = bytes.max(VALUE_BYTES_MIN);
        let mut random = Random::new(seed ^ 0x7661_6c75_6573);
        let size = POOL_BYTES.max(2 * bytes);
        let pool = std::iter::repeat_with(|| random.draw().to_le_bytes())
            .take(size / 8)
            .flatten()
            .collect();
        Values { bytes, pool }
    }

    /// Bytes of a value.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Writes the value of `key` with this version number to `out`.
    #[inline]
    pub fn fill(&self, key: &[u8], version: u64, out: &mut Vec<u8>) {
        let half = self.bytes.div_ceil(2);
        let mask = hash(key);
        out.clear();
        out.extend_from_slice(&(version ^ mask).to_le_bytes());
        out.extend_from_slice(self.body(mask, version, half - VERSION_BYTES));
        out.extend_from_within(..self.bytes - half);
    }

    /// The version number in `value`, if it is one made for `key`.
    #[must_use]
    pub fn check(&self, key: &[u8], value: &[u8]) -> Option<u64> {
        if value.len() != self.bytes {
            return None;
        }
        let (first, second) = value.split_at(self.bytes.div_ceil(2));
        let (version, body) = first.split_first_chunk::<VERSION_BYTES>()?;
        let mask = hash(key);
        let version = u64::from_le_bytes(*version) ^ mask;
        let whole = body == self.body(mask, version, body.len()) && first.starts_with(second);
        whole.then_some(version)
    }

    fn body(&self, mask: u64, version: u64, bytes: usize) -> &[u8] {
        let room = (self.pool.len() - bytes) as u64;
        let start = high(mix(mask ^ mix(version)), room);
        let start = usize::try_from(start).unwrap_or(0);
        &self.pool[start..start + bytes]
    }
}

/// FNV-1a over words of eight bytes, mixed.
fn hash(key: &[u8]) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64 ^ key.len() as u64;
    let mut add = |word: u64| {
        state = (state ^ word)
            .wrapping_mul(0x0100_0000_01b3)
            .rotate_left(29)
    };
    let mut chunks = key.chunks_exact(8);
    for chunk in &mut chunks {
        add(chunk.try_into().map_or(0, u64::from_le_bytes));
    }
    for &byte in chunks.remainder() {
        add(u64::from(byte));
    }
    mix(state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_recognized_for_its_key_and_no_other() {
        for bytes in [16, 33, 100, 1000] {
            let values = Values::new(bytes, 3);
            let mut value = Vec::new();
            values.fill(b"0123456789abcdef", 42, &mut value);
            assert_eq!(value.len(), bytes);
            assert_eq!(values.check(b"0123456789abcdef", &value), Some(42));
            if bytes >= 32 {
                assert_eq!(values.check(b"0123456789abcdee", &value), None);
            }
            assert_eq!(values.check(b"0123456789abcdef", &value[1..]), None);
            *value.last_mut().unwrap() ^= 1;
            assert_eq!(values.check(b"0123456789abcdef", &value), None);
        }
    }

    #[test]
    fn half_of_a_value_repeats_the_other_and_versions_differ() {
        let values = Values::new(100, 3);
        let (mut one, mut two) = (Vec::new(), Vec::new());
        values.fill(b"key", 1, &mut one);
        values.fill(b"key", 2, &mut two);
        assert_eq!(one[..50], one[50..]);
        assert_ne!(one[..20], two[..20]);
    }
}
