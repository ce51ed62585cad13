//! A data block's parts, and the point lookup in it.
//!
//! V1. `find` compares the key with entries of its tag only, one of which in 256 is another key's:
//!     about one comparison, no allocation.
//!
//! Threads: read-only. Tests: `block/tests.rs`.

use super::{HEAD_BYTES, INTERVAL, Malformed, RESTART_BYTES, kind};
use std::ops::Range;
use velella_base::codec::Reader;
use velella_base::{Stamp, ValueKind};
use velella_sync::prefetch::prefetch_all;

/// Where the parts of a block begin; checked against its length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Entries, at least one.
    pub entries: usize,
    /// Whether there are tags.
    pub tagged: bool,
    restarts_at: usize,
    keys_at: usize,
    values_at: usize,
}

/// The head of an entry in the key area.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    /// Bytes shared with the key before.
    pub(super) shared: usize,
    /// Position of the other bytes in the block.
    pub(super) suffix_at: usize,
    /// Position behind them: of the next item.
    pub(super) end: usize,
    /// Bytes of the value.
    pub(super) value_bytes: usize,
    /// Stamp and kind.
    pub(super) word: u64,
}

/// An entry found in a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hit {
    /// When it was written.
    pub stamp: Stamp,
    /// What it says.
    pub kind: ValueKind,
    /// Where in the block its payload stands.
    pub value: Range<usize>,
}

/// What of a value is asked for before it is known where exactly it stands.
const VALUE_BYTES: usize = 128;

pub(super) const CUT: Malformed = Malformed::Shape("an entry reaches beyond its block");

impl Layout {
    /// Finds the parts of a block.
    ///
    /// # Errors
    /// They do not fit into it.
    #[inline]
    pub(crate) fn of(block: &[u8]) -> Result<Layout, Malformed> {
        Self::parse(block).ok_or(Malformed::Shape("its parts do not fit into it"))
    }

    #[inline]
    fn parse(block: &[u8]) -> Option<Layout> {
        let mut head = Reader::new(block);
        let (entries, key_bytes) = (head.u32()? as usize, head.u32()? as usize);
        let tagged = head.u8()? == 1;
        let tags = if tagged { entries } else { 0 };
        // On 64 bits none of these sums of 32-bit numbers overflows.
        let restarts_at = HEAD_BYTES + tags;
        let keys_at = restarts_at + entries.div_ceil(INTERVAL) * RESTART_BYTES;
        let values_at = keys_at + key_bytes;
        (entries > 0 && values_at <= block.len()).then_some(Layout {
            entries,
            tagged,
            restarts_at,
            keys_at,
            values_at,
        })
    }

    /// Restarts.
    #[inline]
    pub(super) fn restarts(&self) -> usize {
        self.entries.div_ceil(INTERVAL)
    }

    /// Positions of a restart's item and value in the block.
    #[inline]
    pub(super) fn restart(&self, block: &[u8], number: usize) -> Result<(usize, usize), Malformed> {
        let at = self.restarts_at + number * RESTART_BYTES;
        let mut reader = Reader::new(block.get(at..self.keys_at).unwrap_or_default());
        let (Some(key), Some(value)) = (reader.u32(), reader.u32()) else {
            return Err(Malformed::Shape("there are fewer restarts than entries"));
        };
        Ok((self.keys_at + key as usize, self.values_at + value as usize))
    }

    /// Whether the key area ends at `at`.
    pub(super) fn is_end(&self, at: usize) -> bool {
        at == self.values_at
    }

    /// Looks at every cache line of the keys, all at once: a walk back would wait for one after
    /// the other, which no prefetcher foresees.
    pub(super) fn touch_keys(&self, block: &[u8]) {
        let keys = block.get(self.keys_at..self.values_at).unwrap_or_default();
        std::hint::black_box(keys.iter().step_by(64).fold(0, |sum, byte| sum ^ byte));
    }

    /// Decodes the item at `at`.
    #[inline]
    pub(super) fn item(&self, block: &[u8], at: usize) -> Result<Item, Malformed> {
        let keys = block.get(at..self.values_at).ok_or(CUT)?;
        // Nearly every item has one-byte lengths.
        if let Some(&[shared, unshared, value, a, b, c, d, e, f, g, h]) = keys.first_chunk::<11>()
            && (shared | unshared | value) < 0x80
        {
            let suffix_at = at + 11;
            let end = suffix_at + usize::from(unshared);
            if end > self.values_at {
                return Err(CUT);
            }
            return Ok(Item {
                shared: usize::from(shared),
                suffix_at,
                end,
                value_bytes: usize::from(value),
                word: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            });
        }
        self.long_item(keys).ok_or(CUT)
    }

    fn long_item(&self, keys: &[u8]) -> Option<Item> {
        let mut reader = Reader::new(keys);
        let shared = usize::try_from(reader.varint()?).ok()?;
        let unshared = usize::try_from(reader.varint()?).ok()?;
        let value_bytes = usize::try_from(reader.varint()?).ok()?;
        let word = reader.u64()?;
        let suffix_at = self.values_at - reader.rest().len();
        reader.bytes(unshared)?;
        Some(Item {
            shared,
            suffix_at,
            end: suffix_at + unshared,
            value_bytes,
            word,
        })
    }

    /// Where a value that starts at `start` ends.
    #[inline]
    pub(super) fn value(
        block: &[u8],
        start: usize,
        item: &Item,
    ) -> Result<Range<usize>, Malformed> {
        let end = start.checked_add(item.value_bytes).ok_or(CUT)?;
        if end > block.len() {
            return Err(CUT);
        }
        Ok(start..end)
    }

    /// The newest version of `key`, whose tag is `tag`, at or below `at`; adds the keys compared to
    /// `comparisons` (V1). The block must be tagged.
    ///
    /// # Errors
    /// The block is malformed.
    #[inline]
    pub(crate) fn find(
        &self,
        block: &[u8],
        key: &[u8],
        tag: u8,
        at: Stamp,
        comparisons: &mut u64,
    ) -> Result<Option<Hit>, Malformed> {
        let tags = block.get(HEAD_BYTES..self.restarts_at).unwrap_or_default();
        let mut from = 0;
        while let Some(ordinal) = position(tags, tag, from) {
            *comparisons += 1;
            self.prefetch_value(block, ordinal);
            if let Some(outcome) = self.versions_at(block, key, ordinal, at)? {
                return Ok(outcome);
            }
            from = ordinal + 1;
        }
        Ok(None)
    }

    /// Asks for the memory where the value of entry `ordinal` would begin if all were as long.
    #[inline]
    fn prefetch_value(&self, block: &[u8], ordinal: usize) {
        let values = block.get(self.values_at..).unwrap_or_default();
        let at = values.len() * ordinal / self.entries;
        let end = (at + VALUE_BYTES).min(values.len());
        prefetch_all(&values[at..end]);
    }

    /// If the entry `ordinal` is the first of `key`: its newest version at or below `at`, if any.
    /// `None`: it is another key's.
    #[inline]
    fn versions_at(
        &self,
        block: &[u8],
        key: &[u8],
        ordinal: usize,
        at: Stamp,
    ) -> Result<Option<Option<Hit>>, Malformed> {
        let restart = ordinal / INTERVAL;
        let (mut key_at, mut value_at) = self.restart(block, restart)?;
        // How many leading bytes of `key` the entry's key has: enough to see equality without
        // putting any key together.
        let mut matched = 0;
        let mut here = restart * INTERVAL;
        loop {
            let item = self.item(block, key_at)?;
            if item.shared <= matched {
                let suffix = &block[item.suffix_at..item.end];
                matched = item.shared + common_prefix(suffix, &key[item.shared..]);
            }
            if here >= ordinal {
                let len = item.shared.saturating_add(item.end - item.suffix_at);
                if matched != key.len() || len != key.len() {
                    // Another key at once, or after the last version of this one.
                    return Ok((here > ordinal).then_some(None));
                }
                let stamp = Stamp(item.word >> 8);
                if stamp <= at {
                    return Ok(Some(Some(Hit {
                        stamp,
                        kind: kind((item.word & 0xff) as u8)?,
                        value: Self::value(block, value_at, &item)?,
                    })));
                }
            }
            key_at = item.end;
            value_at = value_at.checked_add(item.value_bytes).ok_or(CUT)?;
            here += 1;
            if here == self.entries {
                return Ok(Some(None));
            }
        }
    }
}

/// Bytes that both begin with.
#[must_use]
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut len = 0;
    let (mut a, mut b) = (a, b);
    while let (Some((x, rest_a)), Some((y, rest_b))) =
        (a.split_first_chunk::<8>(), b.split_first_chunk::<8>())
    {
        let differing = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        if differing != 0 {
            return len + (differing.trailing_zeros() / 8) as usize;
        }
        len += 8;
        (a, b) = (rest_a, rest_b);
    }
    len + a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

/// The first place at or after `from` where `tags` has `tag`: eight at a time.
#[inline]
fn position(tags: &[u8], tag: u8, from: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let wanted = ONES * u64::from(tag);
    let mut at = from;
    let mut rest = tags.get(from..)?;
    while let Some((eight, after)) = rest.split_first_chunk::<8>() {
        let different = u64::from_le_bytes(*eight) ^ wanted;
        // The high bit of the first zero byte (Mycroft's test; exact for the lowest one).
        let zero = different.wrapping_sub(ONES) & !different & (ONES << 7);
        if zero != 0 {
            return Some(at + (zero.trailing_zeros() / 8) as usize);
        }
        at += 8;
        rest = after;
    }
    rest.iter()
        .position(|&t| t == tag)
        .map(|offset| at + offset)
}
