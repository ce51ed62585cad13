//! The index of a table: which block holds the first entry at or after a key and stamp.
//!
//! ```text
//! index := prefix:slice blocks:varint entry*
//! entry := separator_rest:slice stamp:varint block_bytes:varint
//! ```
//! X1. Every entry of block `i` is at or before `(separator i, stamp i)`, every entry of block
//!     `i + 1` behind it. Where the versions of one key span two blocks the separator is that key
//!     and the stamp the last one in front; elsewhere the stamp is 0, which belongs to no write.
//! X2. Blocks tile the file from the header on, so offsets are sums of lengths.
//! X3. For the bytewise order the separators' common prefix is cut off, and a search compares
//!     8-byte words standing side by side; it looks at a separator only where words tie.
//!
//! Threads: read-only once built. Tests: below.

use crate::block::view::common_prefix;
use crate::format::{HEADER_BYTES, Handle, TRAILER_BYTES};
use std::cmp::Ordering;
use velella_base::codec::{Reader, put_slice, put_varint};
use velella_base::order::{without_prefix, word};
use velella_base::{Order, Stamp};
use velella_sync::array::Array;

/// Words per word of the upper level: four cache lines.
const GROUP: usize = 32;

/// Collects the index while blocks are written.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    separators: Vec<u8>,
    entries: Vec<(usize, Stamp, u64)>,
}

impl IndexBuilder {
    /// Appends a block of `bytes` on disk, between which and the next lies `(separator, stamp)`.
    pub(crate) fn add(&mut self, separator: &[u8], stamp: Stamp, bytes: u64) {
        self.separators.extend_from_slice(separator);
        self.entries.push((self.separators.len(), stamp, bytes));
    }

    /// Blocks so far.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Appends the index as it stands in the file.
    pub(crate) fn encode(&self, order: &Order, out: &mut Vec<u8>) {
        let first = self.entries.first().map_or(0, |(end, ..)| *end);
        let last = self.entries.iter().rev().nth(1).map_or(0, |(end, ..)| *end);
        // Separators ascend, so what the first and the last share all share.
        let prefix = match order.is_bytewise() {
            true => common_prefix(&self.separators[..first], &self.separators[last..]),
            false => 0,
        };
        put_slice(out, &self.separators[..prefix]);
        put_varint(out, self.entries.len() as u64);
        let mut start = 0;
        for &(end, stamp, bytes) in &self.entries {
            put_slice(out, &self.separators[start + prefix..end]);
            put_varint(out, stamp.0);
            put_varint(out, bytes);
            start = end;
        }
    }
}

/// The index in memory: arrays side by side, about 20 bytes and a separator per block.
pub(crate) struct Index {
    order: Order,
    prefix: Vec<u8>,
    /// The separators without the prefix, and where each ends.
    rests: Array<u8>,
    ends: Array<u32>,
    /// Empty where all stamps are 0.
    stamps: Array<Stamp>,
    /// Where each block starts, and where the last ends.
    offsets: Array<u64>,
    /// The first eight bytes of each rest, big-endian; and every 32nd of these. Empty for a
    /// user's order.
    words: Array<u64>,
    upper: Array<u64>,
}

impl Index {
    /// Reads an index; `None` if `bytes` are none.
    #[must_use]
    pub(crate) fn decode(bytes: &[u8], order: Order) -> Option<Index> {
        let mut reader = Reader::new(bytes);
        let prefix = reader.slice()?.to_vec();
        // Searches cut it off keys in the bytewise order only (X3).
        if !prefix.is_empty() && !order.is_bytewise() {
            return None;
        }
        let blocks = usize::try_from(reader.varint()?).ok()?;
        // An entry has three bytes at least, so this allocates less than 16 times what was read.
        if blocks > reader.rest().len() / 3 {
            return None;
        }
        let mut index = Index {
            order,
            prefix,
            rests: Array::with_capacity(reader.rest().len()),
            ends: Array::with_capacity(blocks),
            stamps: Array::with_capacity(blocks),
            offsets: Array::with_capacity(blocks + 1),
            words: Array::default(),
            upper: Array::default(),
        };
        index.offsets.push(HEADER_BYTES);
        let mut offset = HEADER_BYTES;
        for _ in 0..blocks {
            index.rests.extend_from_slice(reader.slice()?);
            index.ends.push(u32::try_from(index.rests.len()).ok()?);
            index.stamps.push(Stamp::of(reader.varint()?)?);
            let bytes = reader.varint()?;
            if bytes <= TRAILER_BYTES as u64 {
                return None;
            }
            offset = offset.checked_add(bytes)?;
            index.offsets.push(offset);
        }
        if index.stamps.iter().all(|&stamp| stamp == Stamp::ZERO) {
            index.stamps = Array::default();
        }
        // What was read has lengths and stamps besides.
        let mut rests = Array::with_capacity(index.rests.len());
        rests.extend_from_slice(&index.rests);
        index.rests = rests;
        if index.order.is_bytewise() {
            index.words = Array::of((0..blocks).map(|block| word(index.rest(block))));
            index.upper = Array::of(index.words.iter().step_by(GROUP).copied());
        }
        reader.is_empty().then_some(index)
    }

    /// Blocks of the table.
    #[must_use]
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Where a block stands.
    #[must_use]
    #[inline]
    pub(crate) fn handle(&self, block: usize) -> Handle {
        let (offset, end) = (self.offsets[block], self.offsets[block + 1]);
        Handle {
            offset,
            len: end - offset,
        }
    }

    /// Where the data blocks end.
    #[must_use]
    pub(crate) fn data_end(&self) -> u64 {
        self.offsets.last().copied().unwrap_or(HEADER_BYTES)
    }

    /// The separator behind a block, and its stamp (X1).
    #[must_use]
    pub(crate) fn separator(&self, block: usize) -> (Vec<u8>, Stamp) {
        let separator = [&self.prefix[..], self.rest(block)].concat();
        (separator, self.stamp(block))
    }

    /// Bytes of memory it takes.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        let wide = [&self.offsets, &self.words, &self.upper].map(|array| array.bytes());
        let others = [self.rests.bytes(), self.ends.bytes(), self.stamps.bytes()];
        let arrays: usize = wide.iter().chain(&others).sum();
        (self.prefix.len() + arrays) as u64
    }

    /// The block that holds the first entry at or after `(key, stamp)` if any does; `len()` if
    /// none can. Adds the keys compared to `comparisons`.
    #[must_use]
    #[inline]
    pub(crate) fn find(&self, key: &[u8], stamp: Stamp, comparisons: &mut u64) -> usize {
        if !self.order.is_bytewise() {
            return self.search(0, self.len(), key, stamp, comparisons);
        }
        let Some(rest) = without_prefix(key, &self.prefix) else {
            *comparisons += 1;
            let below = key < &self.prefix[..];
            return if below { 0 } else { self.len() };
        };
        let wanted = word(rest);
        // The first word at or above the wanted one is behind the last upper word below it.
        let group = self.upper.partition_point(|&word| word < wanted);
        let start = group.saturating_sub(1) * GROUP;
        let end = self.words.len().min(group * GROUP);
        let low = start + self.words[start..end].partition_point(|&word| word < wanted);
        let ties = match self.words.get(low..) {
            Some(behind) if behind.first() == Some(&wanted) => {
                behind.partition_point(|&word| word == wanted)
            }
            _ => return low,
        };
        self.search(low, low + ties, rest, stamp, comparisons)
    }

    /// Whether `find` says `block` for `key`, whatever the stamp, as far as words tell: a quick
    /// check of what was found before. A false answer means nothing.
    #[must_use]
    #[inline]
    pub(crate) fn surely_finds(&self, block: usize, key: &[u8]) -> bool {
        let (Some(rest), Some(&behind)) =
            (without_prefix(key, &self.prefix), self.words.get(block))
        else {
            return false;
        };
        let wanted = word(rest);
        let in_front = block.checked_sub(1).map(|before| self.words[before]);
        in_front.is_none_or(|word| word < wanted) && wanted < behind
    }

    /// Binary search by full separators for the first in `low..high` at or after `(key, stamp)`.
    fn search(
        &self,
        mut low: usize,
        mut high: usize,
        key: &[u8],
        stamp: Stamp,
        comparisons: &mut u64,
    ) -> usize {
        while low < high {
            let middle = low + (high - low) / 2;
            *comparisons += 1;
            let before = match self.order.compare(self.rest(middle), key) {
                Ordering::Less => true,
                Ordering::Equal => self.stamp(middle) > stamp,
                Ordering::Greater => false,
            };
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    #[inline]
    fn rest(&self, block: usize) -> &[u8] {
        let start = match block {
            0 => 0,
            _ => self.ends[block - 1] as usize,
        };
        &self.rests[start..self.ends[block] as usize]
    }

    #[inline]
    fn stamp(&self, block: usize) -> Stamp {
        self.stamps.get(block).copied().unwrap_or(Stamp::ZERO)
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({} blocks)", self.len())
    }
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, reason = "sizes in tests are small")]
mod tests {
    use super::*;
    use velella_sync::rng::Rng;

    fn built(separators: &[(Vec<u8>, Stamp)], order: &Order) -> Index {
        let mut builder = IndexBuilder::default();
        for (separator, stamp) in separators {
            builder.add(separator, *stamp, 100);
        }
        let mut bytes = Vec::new();
        builder.encode(order, &mut bytes);
        Index::decode(&bytes, order.clone()).unwrap()
    }

    #[test]
    fn a_search_agrees_with_a_linear_one_for_any_common_prefix_and_stamps() {
        let mut rng = Rng::new(3);
        let reverse = Order::custom("reverse", |a, b| b.cmp(a));
        for round in 0..60 {
            let order = if round % 3 == 2 {
                &reverse
            } else {
                &Order::Bytewise
            };
            let prefix = vec![b'p'; rng.below(12) as usize];
            let key = |rng: &mut Rng| {
                let mut key =
                    prefix[..prefix.len().saturating_sub(usize::from(rng.below(40) == 0))].to_vec();
                key.resize(key.len() + rng.below(10) as usize, 0);
                key.extend((0..rng.below(3)).map(|_| b'0' + rng.below(4) as u8));
                (key, Stamp(rng.below(3)))
            };
            let before = |a: &(Vec<u8>, Stamp), b: &(Vec<u8>, Stamp)| {
                order.compare(&a.0, &b.0).then(b.1.cmp(&a.1))
            };
            let mut separators: Vec<_> = (0..rng.below(300)).map(|_| key(&mut rng)).collect();
            separators.sort_by(before);
            separators.dedup();
            let index = built(&separators, order);
            assert_eq!(index.len(), separators.len());
            for (block, separator) in separators.iter().enumerate() {
                assert_eq!(index.separator(block), *separator);
                assert_eq!(
                    index.handle(block).offset,
                    HEADER_BYTES + 100 * block as u64
                );
            }
            for _ in 0..300 {
                let target = key(&mut rng);
                let expected = separators.partition_point(|s| before(s, &target).is_lt());
                assert_eq!(
                    index.find(&target.0, target.1, &mut 0),
                    expected,
                    "{target:?}"
                );
                let sure = (0..index.len()).find(|&b| index.surely_finds(b, &target.0));
                assert!(sure.is_none_or(|block| block == expected), "{target:?}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_index_are_refused() {
        let mut bytes = Vec::new();
        let mut builder = IndexBuilder::default();
        builder.add(b"abc", Stamp(3), 4096);
        builder.encode(&Order::Bytewise, &mut bytes);
        for len in 0..bytes.len() {
            assert!(
                Index::decode(&bytes[..len], Order::Bytewise).is_none(),
                "{len}"
            );
        }
        assert!(Index::decode(&[0, 0xff, 0xff, 0xff, 0xff, 1], Order::Bytewise).is_none());
        // A stamp above all stamps: a search for the newest version would pass it.
        let with_stamp = |stamp| {
            let mut bytes = vec![0, 1, 1, b'a'];
            put_varint(&mut bytes, stamp);
            put_varint(&mut bytes, 4096);
            Index::decode(&bytes, Order::Bytewise)
        };
        assert!(with_stamp(Stamp::MAX.0).is_some());
        assert!(with_stamp(Stamp::MAX.0 + 1).is_none());
    }
}
