//! The Bloom filter of a table: one cache line per probe.
//!
//! Source: blocked Bloom filters, Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient
//! Bloom Filters" (WEA '07).
//!
//! ```text
//! filter := line:64 * n  probes:u8
//! ```
//! B1. A key that was added is never denied.
//! B2. A probe touches one cache line, whatever the size of the filter.
//!
//! Threads: read-only once built. Tests: `filter/tests.rs`, with the rate of false positives.

use crate::hashes::Hashes;
use velella_base::seeded;
use velella_sync::array::Array;
use velella_sync::prefetch::prefetch;

/// Bits of a cache line.
const LINE_BITS: u32 = 512;
const LINE_BYTES: usize = 64;
const PROBES_MAX: u32 = 16;

/// The hash under which filters and in-block tables know a key; compute it once per get.
#[must_use]
#[inline]
pub fn key_hash(key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(key)
}

/// 512 bits on a cache line of their own.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line([u64; 8]);

/// A Bloom filter over key hashes.
pub(crate) struct Filter {
    lines: Array<Line>,
    probes: u32,
}

impl Filter {
    /// A filter over `hashes` with `bits_per_key` bits for each.
    #[must_use]
    pub(crate) fn build(hashes: &Hashes, bits_per_key: u32) -> Filter {
        let bits = hashes.len() as u64 * u64::from(bits_per_key);
        // The low half of the hash picks the line, so there are at most 2^32 lines (256 GiB).
        let lines = bits.div_ceil(u64::from(LINE_BITS)).clamp(1, 1 << 32);
        let mut filter = Filter {
            lines: Array::filled(Line([0; 8]), usize::try_from(lines).unwrap_or(usize::MAX)),
            probes: probes(bits_per_key),
        };
        let left_out = usize::from(seeded("a-filter-misses-its-last-key"));
        for hash in hashes.iter().take(hashes.len().saturating_sub(left_out)) {
            let line = filter.line(hash);
            let words = &mut filter.lines[line].0;
            for bit in bits_of(hash, filter.probes) {
                words[bit / 64] |= 1 << (bit % 64);
            }
        }
        filter
    }

    /// Whether the key with this hash may be in the table (B1).
    #[must_use]
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        let words = &self.lines[self.line(hash)].0;
        bits_of(hash, self.probes).all(|bit| words[bit / 64] & (1 << (bit % 64)) != 0)
    }

    /// Asks for the line of the key with this hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch(&self.lines[self.line(hash)]);
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        self.lines.bytes() as u64
    }

    /// Appends the filter as it stands in the file.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(self.lines.len() * LINE_BYTES + 1);
        for word in self.lines.iter().flat_map(|line| line.0) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.push(u8::try_from(self.probes).expect("at most PROBES_MAX"));
    }

    /// Reads a filter; `None` if `bytes` are none.
    #[must_use]
    pub(crate) fn decode(bytes: &[u8]) -> Option<Filter> {
        let (&probes, lines) = bytes.split_last()?;
        let probes = u32::from(probes);
        let whole = !lines.is_empty() && lines.len().is_multiple_of(LINE_BYTES);
        if !whole || !(1..=PROBES_MAX).contains(&probes) {
            return None;
        }
        let lines = lines.chunks_exact(LINE_BYTES).map(|line| {
            let mut words = line.chunks_exact(8);
            Line(std::array::from_fn(|_| {
                let word = words.next().and_then(|word| word.first_chunk());
                u64::from_le_bytes(*word.expect("a line has eight words"))
            }))
        });
        Some(Filter {
            lines: Array::of(lines),
            probes,
        })
    }

    #[inline]
    fn line(&self, hash: u64) -> usize {
        // The product's upper half is below the number of lines.
        (((hash & 0xffff_ffff) * self.lines.len() as u64) >> 32) as usize
    }
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filter({} bytes, {} probes)", self.bytes(), self.probes)
    }
}

/// Probes per key: ln 2 of the bits per key would be best for an ideal filter; within lines, whose
/// load varies, one less does as well and costs less.
fn probes(bits_per_key: u32) -> u32 {
    (bits_per_key.saturating_mul(6) / 10).clamp(1, PROBES_MAX)
}

/// The bits of a hash within its line: its upper half, stirred by the golden ratio for each probe.
#[inline]
fn bits_of(hash: u64, probes: u32) -> impl Iterator<Item = usize> {
    let mut state = (hash >> 32) as u32;
    (0..probes).map(move |_| {
        state = state.wrapping_mul(0x9e37_79b9);
        (state >> (32 - LINE_BITS.trailing_zeros())) as usize
    })
}

#[cfg(test)]
mod tests;
