//! Going back: from where the merged cursor stands to the last live pair.
//!
//! Versions of a key come oldest first, so all of them are passed before the key is decided, and
//! the payload of the newest one seen is copied. Where the cursor knows that it stands on the
//! newest one, it stays there.
//!
//! Threads: one, as the iterator. Tests: `tests/iterators.rs`, `tests/iterator_walks.rs`.

use super::options::below;
use super::{Iter, Nowhere, SKIPS_MAX, Stand};
use crate::read::Judged;
use velella_base::{Cursor, Entry, Result, Stamp, ValueKind};

impl Iter {
    /// The merged cursor stands at the last entry at or before the wanted place: shows the last
    /// live pair up to here. Versions of a key come oldest first.
    pub(super) fn settle_backward(&mut self) -> Result<bool> {
        loop {
            let Some(entry) = self.sources.merged.entry() else {
                return self.ends(Nowhere::BeforeFirst);
            };
            if below(&self.core, &self.options.lower, entry.key) {
                return self.ends(Nowhere::BeforeFirst);
            }
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            let (stand, found) = match self.sources.merged.is_newest() && self.sees(&entry) {
                true => (Stand::Newest, self.judge_in_place()?),
                false => (Stand::Before, self.newest_backward()?),
            };
            if let Some(judged) = found {
                self.judged = judged;
                self.there = true;
                self.stand = stand;
                return Ok(true);
            }
            if stand == Stand::Newest {
                self.sources.merged.prev()?;
            }
        }
    }

    /// Whether the snapshot sees the version.
    fn sees(&self, entry: &Entry<'_>) -> bool {
        entry.stamp <= self.snapshot.stamp() && entry.kind != ValueKind::RangeDelete
    }

    /// Whether the version under the cursor is a live pair.
    fn judge_in_place(&mut self) -> Result<Option<Judged>> {
        let Some(entry) = self.sources.merged.entry() else {
            return Ok(None);
        };
        self.kind = entry.kind;
        self.payload_copied = false;
        let now = self.snapshot.now_ms();
        let engine = self.engine();
        engine.judge(&self.core, entry.kind, entry.value, now)
    }

    /// Walks the versions of the key, at the oldest of which the cursor stands, backwards, and
    /// keeps the newest that the snapshot sees. The cursor ends before the key.
    fn newest_backward(&mut self) -> Result<Option<Judged>> {
        let mut seen = false;
        let mut steps = 0;
        while let Some(entry) = self.sources.merged.entry()
            && (steps == 0 || self.is_same(entry.key, &self.key))
        {
            steps += 1;
            if steps > SKIPS_MAX {
                // I3. The newest that is seen, directly; then leave the key.
                self.sources.merged.seek(&self.key, self.snapshot.stamp())?;
                seen = self.copy_if_there();
                self.sources.merged.seek_before(&self.key)?;
                break;
            }
            if self.sees(&entry) {
                self.kind = entry.kind;
                self.payload.clear();
                self.payload.extend_from_slice(entry.value);
                self.payload_copied = true;
                seen = true;
            }
            self.sources.merged.prev()?;
        }
        if !seen {
            return Ok(None);
        }
        let now = self.snapshot.now_ms();
        self.engine()
            .judge(&self.core, self.kind, &self.payload, now)
    }

    /// Copies the payload where the cursor stands, if that is a version of the key.
    fn copy_if_there(&mut self) -> bool {
        let Some(entry) = self
            .sources
            .merged
            .entry()
            .filter(|entry| self.is_same(entry.key, &self.key))
        else {
            return false;
        };
        self.kind = entry.kind;
        self.payload.clear();
        self.payload.extend_from_slice(entry.value);
        self.payload_copied = true;
        true
    }

    pub(super) fn seek_to_end_of(&mut self, key: &[u8]) -> Result<()> {
        self.sources.merged.seek(key, Stamp::ZERO)?;
        match self.sources.merged.entry() {
            Some(_) => self.sources.merged.prev(),
            None => self.sources.merged.seek_last(),
        }
    }
}
