//! Going forward: from where the merged cursor stands to the first live pair.
//!
//! Versions of a key come newest first, so the first one that the snapshot sees decides.
//!
//! Threads: one, as the iterator. Tests: `tests/iterators.rs`, `tests/iterator_walks.rs`.

use super::options::above;
use super::{Iter, Nowhere, Stand};
use crate::read::Judged;
use std::ops::Bound;
use velella_base::order::set_tail;
use velella_base::{Cursor, Result, Stamp, ValueKind};

impl Iter {
    /// Passes the key it stands on, and shows the first live pair behind it.
    #[inline]
    pub(super) fn pass_forward(&mut self) -> Result<bool> {
        let at = self.snapshot.stamp();
        self.sources.merged.pass(&self.key, Stamp::ZERO)?;
        if let (Some(entry), Bound::Unbounded) = (self.sources.merged.entry(), &self.options.upper)
            && entry.kind == ValueKind::Put
            && entry.stamp <= at
        {
            // Nearly every pair of nearly every scan: nothing to compare it with, nothing to judge.
            set_tail(&mut self.key, 0, entry.key);
            self.kind = ValueKind::Put;
            self.judged = Judged::PLAIN;
            self.there = true;
            self.stand = Stand::On;
            // One pair behind another is how a scan goes on: the next ones are asked for nothing
            // but their block.
            self.stretch = self.sources.merged.lend();
            return Ok(true);
        }
        self.settle_forward()
    }

    /// Steps within the stretch, if there is one and the next pair belongs to it; else returns it,
    /// for an ordinary step to say what there is (I6).
    #[inline]
    pub(super) fn hop(&mut self) -> bool {
        let Some(stretch) = &mut self.stretch else {
            return false;
        };
        let is_open = self.snapshot.engine().check_open().is_ok();
        let hopped = is_open && stretch.hop(self.snapshot.stamp());
        if !hopped {
            self.land();
        }
        hopped
    }

    /// Returns the stretch, if there is one, and stands where that stood (I6).
    #[inline]
    pub(super) fn land(&mut self) {
        if let Some(stretch) = self.stretch.take() {
            set_tail(&mut self.key, 0, stretch.key());
            self.sources.merged.take_back(stretch);
        }
    }

    /// The merged cursor stands at or after the wanted place: shows the first live pair from here.
    #[inline]
    pub(super) fn settle_forward(&mut self) -> Result<bool> {
        let at = self.snapshot.stamp();
        loop {
            let Some(entry) = self.sources.merged.entry() else {
                return self.ends(Nowhere::PastLast);
            };
            if above(&self.core, &self.options.upper, entry.key) {
                return self.ends(Nowhere::PastLast);
            }
            set_tail(&mut self.key, 0, entry.key);
            if entry.stamp > at {
                self.sources.merged.pass(&self.key, at)?;
                continue;
            }
            if entry.kind == ValueKind::RangeDelete {
                self.sources.merged.next()?;
                continue;
            }
            // The newest version at or below the snapshot decides the key.
            self.kind = entry.kind;
            let now = self.snapshot.now_ms();
            let engine = self.engine();
            if let Some(judged) = engine.judge(&self.core, entry.kind, entry.value, now)? {
                self.judged = judged;
                self.there = true;
                self.stand = Stand::On;
                return Ok(true);
            }
            self.sources.merged.pass(&self.key, Stamp::ZERO)?;
        }
    }
}
