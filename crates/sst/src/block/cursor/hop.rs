//! Steps of a scan that need no judgement, up to a limit.
//!
//! H1. A hop moves as `next` would, or it changes nothing: what needs judgement, or is malformed,
//!     it leaves to `next`. It does not panic.
//! H2. In the bytewise order a key that shares more with its predecessor than that with the limit
//!     is below the limit too, and one that shares fewer bytes is compared from there on.
//!
//! Of the key that the last hop wrote in pieces nothing is loaded that spans these: the processor
//! would wait until they have left its store buffer (docs/decisions/0025).
//!
//! Threads: one. Tests: `block/tests.rs`, `cursor/stretch.rs`.

use super::{BlockCursor, Decoded};
use crate::block::INTERVAL;
use crate::block::view::{Layout, common_prefix};
use velella_base::order::{same_bytes, set_tail};
use velella_base::{Stamp, ValueKind};

/// A key at which hops end.
#[derive(Debug, Default)]
pub(super) struct Limit {
    is_set: bool,
    key: Vec<u8>,
    /// As many bytes of it does the current key, which is below it, begin with.
    matched: usize,
}

impl Limit {
    /// If the key that shares `shared` bytes with the current one and goes on with `suffix` is
    /// below the limit: how many bytes of that it begins with.
    #[inline]
    fn matched_below(&self, shared: usize, suffix: &[u8]) -> Option<usize> {
        if !self.is_set || shared > self.matched {
            return Some(self.matched);
        }
        let rest = &self.key[shared..];
        let common = common_prefix(suffix, rest);
        let is_below = suffix[common..].first() < rest[common..].first();
        is_below.then_some(shared + common)
    }
}

impl BlockCursor {
    /// Whether it goes forward, that is, not out of an interval decoded to go back.
    #[must_use]
    #[inline]
    pub(crate) fn goes_forward(&self) -> bool {
        !self.backward
    }

    /// Hops from the current key on end in front of `limit`, if there is one.
    pub(crate) fn limit(&mut self, limit: Option<&[u8]>) {
        let key = limit.unwrap_or_default();
        set_tail(&mut self.limit.key, 0, key);
        self.limit.is_set = limit.is_some();
        self.limit.matched = common_prefix(&self.key, key);
    }

    /// Going forward: the key it stands on, some key if it stands on none.
    #[must_use]
    #[inline]
    pub(crate) fn forward_key(&self) -> &[u8] {
        &self.key
    }

    /// Going forward: the value it stands on, some value if it stands on none.
    #[must_use]
    #[inline]
    pub(crate) fn forward_value(&self) -> &[u8] {
        // Within the block: it was checked when the entry was decoded.
        self.block
            .get(self.current.value.clone())
            .unwrap_or_default()
    }

    /// Moves one entry forward if that is the next key's, of which a reader at `at` sees this
    /// version, a plain value, and if the key is below the limit; whether it did (H1). Bytewise,
    /// going forward, on an entry.
    #[inline]
    pub(crate) fn hop(&mut self, at: Stamp) -> bool {
        debug_assert!(!self.backward, "it goes forward");
        let ordinal = self.ordinal + 1;
        if ordinal >= self.layout.entries {
            return false;
        }
        // What is malformed is for `next` to say.
        let Ok(item) = self.layout.item(&self.block, self.next_item) else {
            return false;
        };
        let Ok(value) = Layout::value(&self.block, self.next_value, &item) else {
            return false;
        };
        let (shared, stamp) = (item.shared, item.stamp);
        let is_plain = item.kind == ValueKind::Put as u8;
        let is_restart = ordinal.is_multiple_of(INTERVAL);
        if !is_plain || stamp > at || shared > self.key.len() || (is_restart && shared > 0) {
            return false;
        }
        let suffix = &self.block[item.suffix_at..item.end];
        // What two neighbours do not share begins with different bytes, but at a restart.
        let may_be_same = self.key.get(shared) == suffix.first();
        if may_be_same && same_bytes(&self.key[shared..], suffix) {
            return false;
        }
        let Some(matched) = self.limit.matched_below(shared, suffix) else {
            return false;
        };
        set_tail(&mut self.key, shared, suffix);
        (self.next_item, self.next_value) = (item.end, value.end);
        self.current = Decoded {
            stamp,
            kind: ValueKind::Put,
            value,
        };
        self.ask_ahead();
        self.ordinal = ordinal;
        self.limit.matched = matched;
        true
    }
}
