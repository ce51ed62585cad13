//! Builds a data block.
//!
//! The caller (the table's builder) knows the entry's predecessor, so it says how many bytes the
//! keys share, and which tag the key has. What the entries have in common shows when the block is
//! closed; the items are written then.
//!
//! Threads: one. Tests: `block/tests.rs`.

use super::{COMMON, HEAD_BYTES, INTERVAL, ONE_LENGTH, RESTART_BYTES, TAGGED};
use velella_base::codec::put_varint;
use velella_base::{Entry, Stamp, ValueKind};

/// Entries of a block not yet written.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    tagged: bool,
    tags: Vec<u8>,
    items: Vec<Item>,
    /// What the keys do not share, one after another.
    suffixes: Vec<u8>,
    values: Vec<u8>,
    common: Common,
    /// Of all items: of `shared` and `unshared`, and of `value_bytes`, as varints.
    length_bytes: usize,
    value_length_bytes: usize,
    keys: Vec<u8>,
    restarts: Vec<u8>,
}

/// An entry whose suffix and value are kept elsewhere.
#[derive(Debug, Clone, Copy)]
struct Item {
    shared: usize,
    unshared: usize,
    value_bytes: usize,
    stamp: Stamp,
    kind: ValueKind,
}

/// What the entries so far have in common.
#[derive(Debug, Default)]
struct Common {
    lowest: Stamp,
    highest: Stamp,
    kind: Option<ValueKind>,
    value_bytes: Option<usize>,
}

impl Common {
    /// Of the first entry.
    fn of(item: &Item) -> Self {
        Common {
            lowest: item.stamp,
            highest: item.stamp,
            kind: Some(item.kind),
            value_bytes: Some(item.value_bytes),
        }
    }

    /// Of one entry more.
    fn and(&mut self, item: &Item) {
        self.lowest = self.lowest.min(item.stamp);
        self.highest = self.highest.max(item.stamp);
        self.kind = self.kind.filter(|kind| *kind == item.kind);
        self.value_bytes = self.value_bytes.filter(|bytes| *bytes == item.value_bytes);
    }

    /// Bytes in which each stamp less the lowest fits.
    fn stamp_bytes(&self) -> usize {
        let range = self.highest.0 - self.lowest.0;
        (u64::BITS - range.leading_zeros()).div_ceil(8) as usize
    }
}

impl BlockBuilder {
    /// An empty block; `tagged`: whether it gets tags, that is, whether equal keys are equal bytes.
    #[must_use]
    pub(crate) fn new(tagged: bool) -> Self {
        BlockBuilder {
            tagged,
            ..BlockBuilder::default()
        }
    }

    /// Appends an entry whose key starts with the same `shared` bytes as its predecessor's.
    pub(crate) fn add(&mut self, entry: Entry<'_>, shared: usize, tag: u8) {
        let is_restart = self.items.len().is_multiple_of(INTERVAL);
        let shared = if is_restart { 0 } else { shared };
        let suffix = &entry.key[shared..];
        let item = Item {
            shared,
            unshared: suffix.len(),
            value_bytes: entry.value.len(),
            stamp: entry.stamp,
            kind: entry.kind,
        };
        match self.items.is_empty() {
            true => self.common = Common::of(&item),
            false => self.common.and(&item),
        }
        self.length_bytes += varint_bytes(item.shared) + varint_bytes(item.unshared);
        self.value_length_bytes += varint_bytes(item.value_bytes);
        self.items.push(item);
        self.suffixes.extend_from_slice(suffix);
        self.values.extend_from_slice(entry.value);
        if self.tagged {
            self.tags.push(tag);
        }
    }

    /// Whether nothing was added.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes of the block as it is now, before compression.
    #[must_use]
    pub(crate) fn raw_bytes(&self) -> usize {
        let restarts = self.items.len().div_ceil(INTERVAL) * RESTART_BYTES;
        HEAD_BYTES + self.tags.len() + restarts + self.key_bytes() + self.values.len()
    }

    /// Bytes of its items.
    fn key_bytes(&self) -> usize {
        let lengths = match self.common.value_bytes {
            Some(_) => 0,
            None => self.value_length_bytes,
        };
        let kind_bytes = usize::from(self.common.kind.is_none());
        let own_bytes = self.items.len() * (kind_bytes + self.common.stamp_bytes());
        self.length_bytes + lengths + own_bytes + self.suffixes.len()
    }

    /// Appends the block to `out` and begins the next.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let (start, raw_bytes) = (out.len(), self.raw_bytes());
        out.reserve(raw_bytes);
        self.write_items();
        self.write_head(out);
        for part in [
            &mut self.tags,
            &mut self.restarts,
            &mut self.keys,
            &mut self.values,
        ] {
            out.extend_from_slice(part);
            part.clear();
        }
        debug_assert_eq!(out.len() - start, raw_bytes);
        self.items.clear();
        self.suffixes.clear();
        (self.length_bytes, self.value_length_bytes) = (0, 0);
    }

    fn write_head(&self, out: &mut Vec<u8>) {
        let Common {
            lowest,
            kind,
            value_bytes,
            ..
        } = self.common;
        out.extend_from_slice(&bounded(self.items.len()).to_le_bytes());
        out.extend_from_slice(&bounded(self.keys.len()).to_le_bytes());
        let tagged = if self.tagged { TAGGED } else { 0 };
        let one_length = value_bytes.map_or(0, |_| ONE_LENGTH);
        let stamp_bytes = self.common.stamp_bytes().to_le_bytes()[0];
        let kind = kind.map_or(0, |kind| kind as u8);
        out.extend_from_slice(&[tagged | COMMON | one_length, kind, stamp_bytes]);
        out.extend_from_slice(&lowest.0.to_le_bytes());
        out.extend_from_slice(&bounded(value_bytes.unwrap_or(0)).to_le_bytes());
    }

    /// Writes the items to `keys`, and where every 16th is to `restarts`.
    fn write_items(&mut self) {
        let stamp_bytes = self.common.stamp_bytes();
        let (mut suffix_at, mut value_at) = (0, 0);
        for (ordinal, item) in self.items.iter().enumerate() {
            if ordinal.is_multiple_of(INTERVAL) {
                for offset in [self.keys.len(), value_at] {
                    let offset = bounded(offset).to_le_bytes();
                    self.restarts.extend_from_slice(&offset);
                }
            }
            put_varint(&mut self.keys, item.shared as u64);
            put_varint(&mut self.keys, item.unshared as u64);
            if self.common.value_bytes.is_none() {
                put_varint(&mut self.keys, item.value_bytes as u64);
            }
            if self.common.kind.is_none() {
                self.keys.push(item.kind as u8);
            }
            let above_base = (item.stamp.0 - self.common.lowest.0).to_le_bytes();
            self.keys.extend_from_slice(&above_base[..stamp_bytes]);
            let suffix = &self.suffixes[suffix_at..suffix_at + item.unshared];
            self.keys.extend_from_slice(suffix);
            suffix_at += item.unshared;
            value_at += item.value_bytes;
        }
    }
}

/// A number of a block.
fn bounded(number: usize) -> u32 {
    u32::try_from(number).expect("the table's builder bounds blocks")
}

/// Bytes of `number` as a varint.
fn varint_bytes(number: usize) -> usize {
    let bits = usize::BITS - (number | 1).leading_zeros();
    bits.div_ceil(7) as usize
}
