//! Going back: from where the merged cursor stands to the last live pair.
//!
//! Versions of a key come oldest first, so all of them are passed before the key is decided, and
//! the payload of the newest one seen is copied.
//!
//! Threads: one, as the iterator. Tests: `tests/iterators.rs`.

use super::options::below;
use super::{Iter, Nowhere, SKIPS_MAX, Stand};
use crate::read::Judged;
use velella_base::{Cursor, Result, Stamp, ValueKind};

impl Iter {
    /// The merged cursor stands at the last entry at or before the wanted place: shows the last
    /// live pair up to here. Versions of a key come oldest first.
    pub(super) fn settle_backward(&mut self) -> Result<bool> {
        loop {
            let Some(entry) = self.merged.entry() else {
                return self.ends(Nowhere::BeforeFirst);
            };
            if below(&self.core, &self.options.lower, entry.key) {
                return self.ends(Nowhere::BeforeFirst);
            }
            let mut key = std::mem::take(&mut self.spare);
            key.clear();
            key.extend_from_slice(entry.key);
            let found = self.newest_backward(&key)?;
            if let Some(judged) = found {
                self.judged = judged;
                self.at = Some(key);
                self.stand = Stand::Before;
                return Ok(true);
            }
            self.spare = key;
        }
    }

    /// Walks the versions of `key` backwards, oldest first, and keeps the newest that the
    /// snapshot sees. The cursor ends before the key.
    fn newest_backward(&mut self, key: &[u8]) -> Result<Option<Judged>> {
        let stamp = self.snapshot.stamp();
        let mut seen = false;
        let mut steps = 0;
        while let Some(entry) = self.merged.entry()
            && self.is_same(entry.key, key)
        {
            steps += 1;
            if steps > SKIPS_MAX {
                // I3. The newest that is seen, directly; then leave the key.
                self.merged.seek(key, stamp)?;
                seen = self.copy_if_at(key);
                self.merged.seek_before(key)?;
                break;
            }
            if entry.stamp <= stamp && entry.kind != ValueKind::RangeDelete {
                self.kind = entry.kind;
                self.payload.clear();
                self.payload.extend_from_slice(entry.value);
                self.payload_copied = true;
                seen = true;
            }
            self.merged.prev()?;
        }
        if !seen {
            return Ok(None);
        }
        let now = self.snapshot.now_ms();
        self.handle
            .engine
            .judge(&self.core, self.kind, &self.payload, now)
    }

    /// Copies the payload where the cursor stands, if that is a version of `key`.
    fn copy_if_at(&mut self, key: &[u8]) -> bool {
        let Some(entry) = self
            .merged
            .entry()
            .filter(|entry| self.is_same(entry.key, key))
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
        self.merged.seek(key, Stamp::ZERO)?;
        match self.merged.entry() {
            Some(_) => self.merged.prev(),
            None => self.merged.seek_last(),
        }
    }
}
