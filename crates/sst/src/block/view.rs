//! A data block's parts, and the point lookup in it.
//!
//! V1. `find` compares the key with entries of its tag only, one of which in 256 is another key's:
//!     about one comparison, no allocation.
//!
//! Threads: read-only. Tests: `block/tests.rs`.

use super::{
    COMMON, HEAD_BYTES, INTERVAL, Malformed, ONE_LENGTH, PLAIN_HEAD_BYTES, RESTART_BYTES,
    STAMP_BYTES_MAX, TAGGED, kind,
};
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
    tags_at: usize,
    restarts_at: usize,
    keys_at: usize,
    values_at: usize,
    common: Common,
}

/// What the entries of a block have in common.
#[derive(Debug, Clone, Copy)]
struct Common {
    value_bytes: Field,
    /// Number of the kind.
    kind: Field,
    /// Bytes of an item's stamp, their bits, and what they are added to.
    stamp_bytes: usize,
    stamp_mask: u64,
    base: u64,
    /// Bytes of an item in front of its suffix, if its numbers are short.
    head_bytes: usize,
    /// Whether an item can be decoded from one word behind the lengths of its key: what it has of
    /// its own fits that, and no stamp can come out too large.
    is_short: bool,
}

/// A number that all entries have, or each its own: added up without a branch, since what is not
/// there is masked away (docs/decisions/0027).
#[derive(Debug, Clone, Copy)]
struct Field {
    /// That of all entries, or 0.
    common: usize,
    /// Bits of a byte of each entry's own, or none.
    mask: u64,
    bits: u32,
}

impl Field {
    const OWN: Field = Field {
        common: 0,
        mask: 0xff,
        bits: 8,
    };

    /// All entries have `common`.
    fn of_all(common: usize) -> Field {
        Field {
            common,
            mask: 0,
            bits: 0,
        }
    }

    fn is_own(&self) -> bool {
        self.bits > 0
    }

    /// The number of the entry of which `own` begins with its own, if it has one; takes that off.
    #[inline]
    fn take(&self, own: &mut u64) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "a byte, or nothing")]
        let number = self.common + (*own & self.mask) as usize;
        *own >>= self.bits;
        number
    }
}

impl Common {
    #[inline]
    fn new(value_bytes: Field, kind: Field, stamp_bytes: usize, base: u64) -> Option<Common> {
        if stamp_bytes > STAMP_BYTES_MAX || base > Stamp::MAX.0 {
            return None;
        }
        let stamp_mask = (1 << (8 * stamp_bytes)) - 1;
        let own_bytes = (value_bytes.bits + kind.bits) as usize / 8 + stamp_bytes;
        Some(Common {
            value_bytes,
            kind,
            stamp_bytes,
            stamp_mask,
            base,
            head_bytes: 2 + own_bytes,
            is_short: own_bytes <= 8 && base + stamp_mask <= Stamp::MAX.0,
        })
    }

    /// Nothing: each entry has its own kind and length, and its whole stamp.
    #[inline]
    fn nothing() -> Option<Common> {
        Common::new(Field::OWN, Field::OWN, STAMP_BYTES_MAX, 0)
    }

    #[inline]
    fn parse(head: &mut Reader<'_>, is_one_length: bool) -> Option<Common> {
        let (kind, stamp_bytes) = (head.u8()?, usize::from(head.u8()?));
        let (base, value_bytes) = (head.u64()?, head.u32()?);
        let kind = match kind {
            0 => Field::OWN,
            kind => Field::of_all(usize::from(kind)),
        };
        let value_bytes = match is_one_length {
            false => Field::OWN,
            true => Field::of_all(value_bytes as usize),
        };
        Common::new(value_bytes, kind, stamp_bytes, base)
    }
}

/// The head of an entry in the key area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item {
    /// Bytes shared with the key before.
    pub(super) shared: usize,
    /// Position of the other bytes in the block.
    pub(super) suffix_at: usize,
    /// Position behind them: of the next item.
    pub(super) end: usize,
    /// Bytes of the value.
    pub(super) value_bytes: usize,
    pub(super) stamp: Stamp,
    /// Number of its kind, which may be none.
    pub(super) kind: u8,
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
        let flags = head.u8()?;
        let is_unknown = flags & !(TAGGED | COMMON | ONE_LENGTH) != 0;
        if is_unknown || flags & (COMMON | ONE_LENGTH) == ONE_LENGTH {
            return None;
        }
        let (common, tags_at) = match flags & COMMON {
            0 => (Common::nothing(), PLAIN_HEAD_BYTES),
            _ => {
                let is_one_length = flags & ONE_LENGTH != 0;
                (Common::parse(&mut head, is_one_length), HEAD_BYTES)
            }
        };
        let common = common?;
        let tagged = flags & TAGGED != 0;
        let tags = if tagged { entries } else { 0 };
        // On 64 bits none of these sums of 32-bit numbers overflows.
        let restarts_at = tags_at + tags;
        let keys_at = restarts_at + entries.div_ceil(INTERVAL) * RESTART_BYTES;
        let values_at = keys_at + key_bytes;
        (entries > 0 && values_at <= block.len()).then_some(Layout {
            entries,
            tagged,
            tags_at,
            restarts_at,
            keys_at,
            values_at,
            common,
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

    /// The key area.
    #[cfg(test)]
    pub(super) fn keys(&self) -> Range<usize> {
        self.keys_at..self.values_at
    }

    /// Whether the key area ends at `at`.
    pub(super) fn is_end(&self, at: usize) -> bool {
        at == self.values_at
    }

    /// Its tags, if there are any.
    #[inline]
    pub(crate) fn tags<'b>(&self, block: &'b [u8]) -> &'b [u8] {
        block
            .get(self.tags_at..self.restarts_at)
            .unwrap_or_default()
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
        let common = &self.common;
        // Nearly every item has short numbers, and bytes of its value behind it.
        let head = block.get(at..).and_then(|bytes| bytes.first_chunk::<10>());
        if let Some(&[shared, unshared, a, b, c, d, e, f, g, h]) = head {
            let mut own = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
            let longest = u64::from(shared | unshared) | (own & common.value_bytes.mask);
            let suffix_at = at + common.head_bytes;
            let end = suffix_at + usize::from(unshared);
            if common.is_short && longest < 0x80 && end <= self.values_at {
                return Ok(Item {
                    shared: usize::from(shared),
                    suffix_at,
                    end,
                    value_bytes: common.value_bytes.take(&mut own),
                    kind: low_byte(common.kind.take(&mut own)),
                    stamp: Stamp(common.base + (own & common.stamp_mask)),
                });
            }
        }
        let keys = block.get(at..self.values_at).ok_or(CUT)?;
        self.any_item(keys).ok_or(CUT)
    }

    /// As `item`, of any block; `None` if it does not fit, or its stamp is above all stamps.
    pub(super) fn any_item(&self, keys: &[u8]) -> Option<Item> {
        let common = &self.common;
        let mut reader = Reader::new(keys);
        let shared = usize::try_from(reader.varint()?).ok()?;
        let unshared = usize::try_from(reader.varint()?).ok()?;
        let value_bytes = match common.value_bytes.is_own() {
            true => usize::try_from(reader.varint()?).ok()?,
            false => common.value_bytes.common,
        };
        let kind = match common.kind.is_own() {
            true => reader.u8()?,
            false => low_byte(common.kind.common),
        };
        let above = reader.bytes(common.stamp_bytes)?;
        let append = |number, byte: &u8| number << 8 | u64::from(*byte);
        // Neither has more than 56 bits.
        let stamp = Stamp::of(common.base + above.iter().rev().fold(0, append))?;
        let suffix_at = self.values_at - reader.rest().len();
        reader.bytes(unshared)?;
        Some(Item {
            shared,
            suffix_at,
            end: suffix_at + unshared,
            value_bytes,
            stamp,
            kind,
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
        let tags = self.tags(block);
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
                if item.stamp <= at {
                    return Ok(Some(Some(Hit {
                        stamp: item.stamp,
                        kind: kind(item.kind)?,
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

/// A number of one byte.
#[inline]
fn low_byte(number: usize) -> u8 {
    number.to_le_bytes()[0]
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
