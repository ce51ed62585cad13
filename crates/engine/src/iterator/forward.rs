//! Going forward: from where the merged cursor stands to the first live pair.
//!
//! Versions of a key come newest first, so the first one that the snapshot sees decides.
//!
//! Threads: one, as the iterator. Tests: `tests/iterators.rs`.

use super::options::above;
use super::{Iter, Nowhere, SKIPS_MAX, Stand};
use velella_base::{Cursor, Result, Stamp, ValueKind};

impl Iter {
    /// The merged cursor stands at or after the wanted place: shows the first live pair from here.
    pub(super) fn settle_forward(&mut self) -> Result<bool> {
        loop {
            let Some(entry) = self.merged.entry() else {
                return self.ends(Nowhere::PastLast);
            };
            if above(&self.core, &self.options.upper, entry.key) {
                return self.ends(Nowhere::PastLast);
            }
            if entry.stamp > self.snapshot.stamp() || entry.kind == ValueKind::RangeDelete {
                self.skip_newer()?;
                continue;
            }
            // The newest version at or below the snapshot decides the key.
            let now = self.snapshot.now_ms();
            let engine = &self.handle.engine;
            let judged = engine.judge(&self.core, entry.kind, entry.value, now)?;
            let mut key = std::mem::take(&mut self.spare);
            key.clear();
            key.extend_from_slice(entry.key);
            self.kind = entry.kind;
            if let Some(judged) = judged {
                self.judged = judged;
                self.at = Some(key);
                self.stand = Stand::On;
                return Ok(true);
            }
            self.leave_key(&key)?;
            self.spare = key;
        }
    }

    /// Passes versions above the snapshot; leaves a long run of them by a seek.
    fn skip_newer(&mut self) -> Result<()> {
        let stamp = self.snapshot.stamp();
        for _ in 0..SKIPS_MAX {
            self.merged.next()?;
            let newer = |entry: velella_base::Entry<'_>| {
                entry.stamp > stamp || entry.kind == ValueKind::RangeDelete
            };
            if !self.merged.entry().is_some_and(newer) {
                return Ok(());
            }
        }
        if let Some(entry) = self.merged.entry()
            && entry.stamp > stamp
        {
            let key = entry.key.to_vec();
            self.merged.seek(&key, stamp)?;
        }
        Ok(())
    }

    /// Moves the merged cursor past all versions of `key`, on one of which it stands.
    #[inline]
    pub(super) fn leave_key(&mut self, key: &[u8]) -> Result<()> {
        for _ in 0..SKIPS_MAX {
            self.merged.next()?;
            if !self
                .merged
                .entry()
                .is_some_and(|entry| self.is_same(entry.key, key))
            {
                return Ok(());
            }
        }
        self.merged.seek(key, Stamp::ZERO)
    }
}
