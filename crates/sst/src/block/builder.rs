//! Builds a data block.
//!
//! The caller (the table's builder) knows the entry's predecessor, so it says how many bytes the
//! keys share, and which tag the key has.
//!
//! Threads: one. Tests: `block/tests.rs`.

use super::{HEAD_BYTES, INTERVAL, RESTART_BYTES};
use velella_base::Entry;
use velella_base::codec::put_varint;

/// Entries of a block not yet written.
#[derive(Debug, Default)]
pub(crate) struct BlockBuilder {
    tagged: bool,
    entries: usize,
    tags: Vec<u8>,
    restarts: Vec<u8>,
    keys: Vec<u8>,
    values: Vec<u8>,
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
        let shared = if self.entries.is_multiple_of(INTERVAL) {
            for area in [&self.keys, &self.values] {
                let offset = u32::try_from(area.len()).expect("the table's builder bounds blocks");
                self.restarts.extend_from_slice(&offset.to_le_bytes());
            }
            0
        } else {
            shared
        };
        let suffix = &entry.key[shared..];
        put_varint(&mut self.keys, shared as u64);
        put_varint(&mut self.keys, suffix.len() as u64);
        put_varint(&mut self.keys, entry.value.len() as u64);
        let word = entry.stamp.0 << 8 | u64::from(entry.kind as u8);
        self.keys.extend_from_slice(&word.to_le_bytes());
        self.keys.extend_from_slice(suffix);
        self.values.extend_from_slice(entry.value);
        if self.tagged {
            self.tags.push(tag);
        }
        self.entries += 1;
    }

    /// Whether nothing was added.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes of the block as it is now, before compression.
    #[must_use]
    pub(crate) fn raw_bytes(&self) -> usize {
        HEAD_BYTES + self.tags.len() + self.restarts.len() + self.keys.len() + self.values.len()
    }

    /// Appends the block to `out` and begins the next.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        debug_assert_eq!(
            self.restarts.len(),
            self.entries.div_ceil(INTERVAL) * RESTART_BYTES
        );
        out.reserve(self.raw_bytes());
        for number in [self.entries, self.keys.len()] {
            let number = u32::try_from(number).expect("the table's builder bounds blocks");
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.push(u8::from(self.tagged));
        for part in [
            &mut self.tags,
            &mut self.restarts,
            &mut self.keys,
            &mut self.values,
        ] {
            out.extend_from_slice(part);
            part.clear();
        }
        self.entries = 0;
    }
}
