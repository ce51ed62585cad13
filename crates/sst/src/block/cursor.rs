//! Walks a data block both ways.
//!
//! W1. Forward, a step decodes one item onto the key before it. Backward, an interval of 16 is
//!     decoded once and handed out from its end, so a step back costs about what a step forward
//!     does.
//! W2. The cursor is either before the first entry, on an entry, or behind the last;
//!     `is_positioned` says whether there is an entry.
//! W3. After an error it is unpositioned.
//! W4. In the bytewise order a search puts no key together but the one it finds: every key passed
//!     is below the target and begins with `matched` bytes of it, so one that shares more than
//!     these with its predecessor is below the target too, and one that shares fewer is compared
//!     from there on.
//!
//! Threads: one. Tests: `block/tests.rs`; tests/model.rs through whole tables.

mod hop;

use super::view::{CUT, Hit, Item, Layout, common_prefix};
use super::{INTERVAL, Malformed, kind};
use hop::Limit;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;
use velella_base::limits::KEY_BYTES_MAX;
use velella_base::order::{same_bytes, set_tail};
use velella_base::{Entry, Order, Stamp, ValueKind};
use velella_sync::prefetch::prefetch_all;

/// A position in a block, which it keeps alive.
#[derive(Debug)]
pub(crate) struct BlockCursor {
    block: Arc<[u8]>,
    layout: Layout,
    /// Number of the current entry, `layout.entries` if there is none.
    ordinal: usize,
    /// The item behind the last one decoded, and its value.
    next_item: usize,
    next_value: usize,
    /// Where values ahead are asked for again.
    fetched: usize,
    /// Going forward: the current entry.
    current: Decoded,
    key: Vec<u8>,
    /// Going backward: the current interval, whose keys stand one after another in `keys`.
    backward: bool,
    interval: Vec<(Range<usize>, Decoded)>,
    keys: Vec<u8>,
    /// Of hops.
    limit: Limit,
}

/// Room for a key made at once: most keys need no more.
const KEY_BYTES: usize = 64;
/// Bytes of values asked for in advance.
const VALUES_AHEAD_BYTES: usize = 512;

/// An entry without its key.
#[derive(Debug, Clone)]
struct Decoded {
    stamp: Stamp,
    kind: ValueKind,
    value: Range<usize>,
}

impl BlockCursor {
    /// A cursor, unpositioned.
    ///
    /// # Errors
    /// The block is malformed; so for every method here.
    pub(crate) fn new(block: Arc<[u8]>) -> Result<Self, Malformed> {
        let layout = Layout::of(&block)?;
        Ok(BlockCursor {
            block,
            layout,
            ordinal: layout.entries,
            next_item: 0,
            next_value: 0,
            fetched: 0,
            current: Decoded {
                stamp: Stamp::ZERO,
                kind: ValueKind::Put,
                value: 0..0,
            },
            key: Vec::with_capacity(KEY_BYTES),
            backward: false,
            interval: Vec::new(),
            keys: Vec::new(),
            limit: Limit::default(),
        })
    }

    /// Moves to another block, unpositioned, keeping the buffers.
    ///
    /// # Errors
    /// The block is malformed.
    pub(crate) fn reset(&mut self, block: Arc<[u8]>) -> Result<(), Malformed> {
        self.layout = Layout::of(&block)?;
        self.block = block;
        self.unposition();
        Ok(())
    }

    /// Entries of the block.
    #[must_use]
    pub(crate) fn entries(&self) -> usize {
        self.layout.entries
    }

    /// Whether the cursor stands on an entry (W2).
    #[must_use]
    #[inline]
    pub(crate) fn is_positioned(&self) -> bool {
        self.ordinal < self.layout.entries
    }

    /// Entries behind the one it stands on.
    #[must_use]
    #[inline]
    pub(crate) fn entries_left(&self) -> usize {
        self.layout.entries.saturating_sub(self.ordinal + 1)
    }

    /// Where the cursor stands.
    #[must_use]
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        if !self.is_positioned() {
            return None;
        }
        let (key, at) = if self.backward {
            let (key, at) = self.interval.get(self.ordinal % INTERVAL)?;
            (self.keys.get(key.clone())?, at)
        } else {
            (&self.key[..], &self.current)
        };
        Some(Entry {
            key,
            stamp: at.stamp,
            kind: at.kind,
            value: self.block.get(at.value.clone())?,
        })
    }

    /// The key it stands on.
    #[must_use]
    #[inline]
    pub(crate) fn key(&self) -> Option<&[u8]> {
        if self.backward {
            return self.entry().map(|entry| entry.key);
        }
        self.is_positioned().then_some(&self.key[..])
    }

    /// Whether the decoded interval shows that the entry before is another key's.
    #[must_use]
    #[inline]
    pub(crate) fn is_newest(&self) -> bool {
        let at = self.ordinal % INTERVAL;
        let here = self.interval.get(at).filter(|_| self.backward);
        match (here, at.checked_sub(1).and_then(|at| self.interval.get(at))) {
            (Some((key, _)), Some((before, _))) => {
                self.is_positioned() && self.keys.get(key.clone()) != self.keys.get(before.clone())
            }
            _ => false,
        }
    }

    /// Whether the current entry is a version of `key`, in this spelling, above `stamp`.
    #[must_use]
    #[inline]
    pub(crate) fn is_newer(&self, key: &[u8], stamp: Stamp) -> bool {
        if self.backward {
            let newer = |entry: Entry<'_>| entry.stamp > stamp && entry.key == key;
            return self.entry().is_some_and(newer);
        }
        same_bytes(&self.key, key) && self.current.stamp > stamp && self.is_positioned()
    }

    /// Whether there is an entry, and not a newer one in the sense of `is_newer`.
    #[must_use]
    #[inline]
    pub(crate) fn is_past(&self, key: &[u8], stamp: Stamp) -> bool {
        self.is_positioned() && !self.is_newer(key, stamp)
    }

    /// The current entry as a hit, for whoever keeps the block.
    #[must_use]
    pub(crate) fn hit(&self) -> Option<Hit> {
        let at = match self.backward {
            true => &self.interval.get(self.ordinal % INTERVAL)?.1,
            false => &self.current,
        };
        self.is_positioned().then(|| Hit {
            stamp: at.stamp,
            kind: at.kind,
            value: at.value.clone(),
        })
    }

    /// Leaves the cursor without an entry.
    pub(crate) fn unposition(&mut self) {
        self.ordinal = self.layout.entries;
        self.backward = false;
        self.fetched = 0;
    }

    /// Moves to the first entry.
    ///
    /// # Errors
    /// The block is malformed.
    pub(crate) fn seek_first(&mut self) -> Result<(), Malformed> {
        self.forward_from(0)
    }

    /// Moves to the last entry.
    ///
    /// # Errors
    /// The block is malformed.
    pub(crate) fn seek_last(&mut self) -> Result<(), Malformed> {
        self.layout.touch_keys(&self.block);
        self.backward_from(self.layout.entries - 1)
    }

    /// Moves to the first entry at or after `(key, stamp)`; behind the last if there is none. Adds
    /// the keys compared to `comparisons`.
    ///
    /// # Errors
    /// The block is malformed.
    pub(crate) fn seek(
        &mut self,
        order: &Order,
        key: &[u8],
        stamp: Stamp,
        comparisons: &mut u64,
    ) -> Result<(), Malformed> {
        // The last restart before the target, if any: there the walk begins.
        let (mut low, mut high) = (0, self.layout.restarts());
        while low < high {
            let middle = low + (high - low) / 2;
            self.unposition();
            let (item_at, _) = self.layout.restart(&self.block, middle)?;
            let item = self.layout.item(&self.block, item_at)?;
            *comparisons += 1;
            let restart_key = &self.block[item.suffix_at..item.end];
            if is_before(order, restart_key, item.stamp, key, stamp) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let restart = low.saturating_sub(1);
        if order.is_bytewise() {
            return self.walk_to(restart, key, stamp, comparisons);
        }
        self.forward_from(restart)?;
        while self.is_positioned() {
            *comparisons += 1;
            if !is_before(order, &self.key, self.current.stamp, key, stamp) {
                break;
            }
            self.next()?;
        }
        Ok(())
    }

    /// Walks from restart `restart`, in front of which nothing is wanted, to the first entry at or
    /// after `(target, at)`, bytewise (W4).
    fn walk_to(
        &mut self,
        restart: usize,
        target: &[u8],
        at: Stamp,
        comparisons: &mut u64,
    ) -> Result<(), Malformed> {
        self.unposition();
        let (mut item_at, mut value_at) = self.layout.restart(&self.block, restart)?;
        // Of the key passed last: its length, and how many bytes of the target it begins with.
        let (mut len, mut matched) = (0, 0);
        for ordinal in restart * INTERVAL..self.layout.entries {
            let item = self.layout.item(&self.block, item_at)?;
            let most = if ordinal.is_multiple_of(INTERVAL) {
                0
            } else {
                len
            };
            if item.shared > most {
                return Err(SHARED);
            }
            len = item.shared + (item.end - item.suffix_at);
            if item.shared <= matched {
                *comparisons += 1;
                let suffix = &self.block[item.suffix_at..item.end];
                let rest = &target[item.shared..];
                let common = common_prefix(suffix, rest);
                matched = item.shared + common;
                let reached = match suffix[common..].first().cmp(&rest[common..].first()) {
                    Ordering::Less => false,
                    Ordering::Equal => item.stamp <= at,
                    Ordering::Greater => true,
                };
                if reached {
                    self.key.clear();
                    self.key.extend_from_slice(&target[..item.shared]);
                    self.key.extend_from_slice(suffix);
                    self.next_value = value_at;
                    self.current = self.take(&item)?;
                    // Within the block, now that the value is known to be.
                    self.prefetch_values(value_at);
                    self.ordinal = ordinal;
                    return Ok(());
                }
            }
            item_at = item.end;
            value_at = value_at.checked_add(item.value_bytes).ok_or(CUT)?;
        }
        Ok(())
    }

    /// Moves to the last entry whose key is below `key`; before the first if there is none.
    ///
    /// # Errors
    /// The block is malformed.
    pub(crate) fn seek_before(
        &mut self,
        order: &Order,
        key: &[u8],
        comparisons: &mut u64,
    ) -> Result<(), Malformed> {
        self.seek(order, key, Stamp::MAX, comparisons)?;
        match self.ordinal {
            0 => self.unposition(),
            after => self.backward_from(after - 1)?,
        }
        Ok(())
    }

    /// Moves one entry forward; behind the last from the last.
    ///
    /// # Errors
    /// The block is malformed.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<(), Malformed> {
        let ordinal = self.ordinal + 1;
        if self.backward && !ordinal.is_multiple_of(INTERVAL) {
            self.ordinal = ordinal;
            if ordinal == self.layout.entries {
                self.backward = false;
            }
            return Ok(());
        }
        // Out of a decoded interval, the next item is a restart, which needs no key before it.
        self.backward = false;
        if ordinal >= self.layout.entries {
            self.ordinal = self.layout.entries;
            return Ok(());
        }
        self.ordinal = self.layout.entries;
        self.decode_forward(ordinal)?;
        self.ordinal = ordinal;
        Ok(())
    }

    /// Moves one entry back; before the first from the first.
    ///
    /// # Errors
    /// The block is malformed.
    #[inline]
    pub(crate) fn prev(&mut self) -> Result<(), Malformed> {
        match self.ordinal {
            0 => self.unposition(),
            // Within the decoded interval nothing is left to do.
            after if self.backward && !after.is_multiple_of(INTERVAL) => self.ordinal = after - 1,
            after => self.backward_from(after - 1)?,
        }
        Ok(())
    }

    /// Going forward: whether the restart table, if it says where the next entry is, is right.
    ///
    /// # Errors
    /// The block is malformed.
    pub(crate) fn agrees_with_restarts(&self) -> Result<bool, Malformed> {
        let next = self.ordinal + 1;
        if next >= self.layout.entries || !next.is_multiple_of(INTERVAL) {
            return Ok(true);
        }
        let restart = self.layout.restart(&self.block, next / INTERVAL)?;
        Ok(restart == (self.next_item, self.next_value))
    }

    /// Having gone forward to the end: whether the entries fill the block.
    #[must_use]
    pub(crate) fn has_consumed_all(&self) -> bool {
        self.layout.is_end(self.next_item) && self.next_value == self.block.len()
    }

    /// Stands on the first entry of an interval, going forward.
    fn forward_from(&mut self, restart: usize) -> Result<(), Malformed> {
        self.unposition();
        (self.next_item, self.next_value) = self.layout.restart(&self.block, restart)?;
        let ordinal = restart * INTERVAL;
        self.decode_forward(ordinal)?;
        self.ordinal = ordinal;
        Ok(())
    }

    /// Decodes the item at `next_item` onto the key of the one before.
    #[inline]
    fn decode_forward(&mut self, ordinal: usize) -> Result<(), Malformed> {
        let item = self.layout.item(&self.block, self.next_item)?;
        let most = if ordinal.is_multiple_of(INTERVAL) {
            0
        } else {
            self.key.len()
        };
        if item.shared > most {
            return Err(SHARED);
        }
        let suffix = &self.block[item.suffix_at..item.end];
        set_tail(&mut self.key, item.shared, suffix);
        self.current = self.take(&item)?;
        self.ask_ahead();
        Ok(())
    }

    /// Asks for the values behind the current one, where that was not done already.
    #[inline]
    fn ask_ahead(&mut self) {
        if self.next_value > self.fetched {
            self.prefetch_values(self.next_value);
        }
    }

    /// Asks for the values from `start` on, which a scan will read next.
    #[inline]
    fn prefetch_values(&mut self, start: usize) {
        self.fetched = start + VALUES_AHEAD_BYTES / 2;
        let end = self.block.len().min(start + VALUES_AHEAD_BYTES);
        prefetch_all(self.block.get(start..end).unwrap_or_default());
    }

    /// Decodes the interval of entry `ordinal` and stands on that entry, going backward (W1).
    fn backward_from(&mut self, ordinal: usize) -> Result<(), Malformed> {
        self.unposition();
        self.interval.clear();
        self.keys.clear();
        let restart = ordinal / INTERVAL;
        (self.next_item, self.next_value) = self.layout.restart(&self.block, restart)?;
        let first = restart * INTERVAL;
        let mut before = 0..0;
        for _ in first..self.layout.entries.min(first + INTERVAL) {
            let item = self.layout.item(&self.block, self.next_item)?;
            if item.shared > before.len() {
                return Err(SHARED);
            }
            // All of an interval are put together: of crafted keys that would be the block sixteen
            // times.
            if item.shared + (item.end - item.suffix_at) > KEY_BYTES_MAX {
                return Err(LONG);
            }
            let start = self.keys.len();
            self.keys
                .extend_from_within(before.start..before.start + item.shared);
            self.keys
                .extend_from_slice(&self.block[item.suffix_at..item.end]);
            before = start..self.keys.len();
            let decoded = self.take(&item)?;
            self.interval.push((before.clone(), decoded));
        }
        if let Some((_, Decoded { value, .. })) = self.interval.get(ordinal - first) {
            // The values that steps back from here will read.
            let start = value.end.saturating_sub(2 * VALUES_AHEAD_BYTES);
            prefetch_all(self.block.get(start..value.end).unwrap_or_default());
        }
        self.backward = true;
        self.ordinal = ordinal;
        Ok(())
    }

    /// Takes an item's value and moves behind both.
    #[inline]
    fn take(&mut self, item: &Item) -> Result<Decoded, Malformed> {
        let value = Layout::value(&self.block, self.next_value, item)?;
        self.next_item = item.end;
        self.next_value = value.end;
        Ok(Decoded {
            stamp: item.stamp,
            kind: kind(item.kind)?,
            value,
        })
    }
}

const LONG: Malformed = Malformed::Shape("a key is longer than any may be");
const SHARED: Malformed = Malformed::Shape("a key shares more than its predecessor has");

/// Whether `(key, stamp)` comes before `(target, at)`.
#[inline]
fn is_before(order: &Order, key: &[u8], stamp: Stamp, target: &[u8], at: Stamp) -> bool {
    match order.compare(key, target) {
        Ordering::Less => true,
        Ordering::Equal => stamp > at,
        Ordering::Greater => false,
    }
}
