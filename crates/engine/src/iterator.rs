//! Cursors over the live pairs of one view, both ways.
//!
//! I1. What is seen is exactly the snapshot: per key the newest version at or below its stamp, if
//!     that is live at the snapshot's time.
//! I2. The iterator stands on a key of its own (`at`), not in a memtable or file: when its
//!     memtables or files are superseded it moves to the current ones and finds its place again.
//!     So it holds superseded ones only until its next step.
//! I3. A key with many versions costs as much as one with one: memtables yield one version a key,
//!     and over tables a run of old versions is left by a seek after `SKIPS_MAX`.
//!
//! Source: JellyFish (Middleware '20) Algorithm 3 for the memtables' part, corrected.
//! Threads: an iterator belongs to one thread at a time.
//! Tests: `tests/iterators.rs`.

use crate::handle::Handle;
use crate::keyspace_core::Core;
use crate::read::{Judged, Reader};
use crate::snapshot::Snapshot;
use crate::value::Value;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use velella_base::external::ExternalRef;
use velella_base::order::prefix_end;
use velella_base::{Cursor, Error, Result, Stamp, ValueKind};
use velella_memtable::CursorMode;
use velella_sync::epoch;
use velella_tree::cursor::MergeCursor;

type Merged = MergeCursor<Box<dyn Cursor>>;

/// Old versions of one key passed one by one before a seek leaves them all.
const SKIPS_MAX: usize = 8;

/// What an iterator covers.
#[derive(Debug, Clone)]
pub struct IterOptions {
    /// Where it begins.
    pub lower: Bound<Vec<u8>>,
    /// Where it ends.
    pub upper: Bound<Vec<u8>>,
    /// Only keys with this prefix (bytewise order only). Empty: all.
    pub prefix: Vec<u8>,
    /// Values stay empty and are not read. Default false.
    pub keys_only: bool,
    /// Whether the blocks it reads enter the cache. Default true; say no for a full scan.
    pub fill_cache: bool,
    /// The view; `None`: a snapshot taken now.
    pub snapshot: Option<Snapshot>,
}

impl IterOptions {
    /// The pairs within `bounds`.
    pub fn within<K: AsRef<[u8]>>(bounds: &impl RangeBounds<K>) -> Self {
        let owned = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        IterOptions {
            lower: owned(bounds.start_bound()),
            upper: owned(bounds.end_bound()),
            ..IterOptions::default()
        }
    }
}

impl Default for IterOptions {
    fn default() -> Self {
        IterOptions {
            lower: Bound::Unbounded,
            upper: Bound::Unbounded,
            prefix: Vec::new(),
            keys_only: false,
            fill_cache: true,
            snapshot: None,
        }
    }
}

/// Where the merged cursor stands relative to the pair the iterator shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// At a version of the pair's key, the one shown.
    On,
    /// At the last entry before the pair's key (or before all).
    Before,
    /// Nowhere in particular: seek first.
    Lost,
}

/// Which end of the pairs an iterator has run over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

/// A cursor over the live pairs of one view. It starts before the first pair.
///
/// As a Rust iterator it yields `Result<(Vec<u8>, Value)>` ascending; [`Iter::rev`] descends.
/// For borrowed access use [`Iter::step`], [`Iter::key`] and [`Iter::value`].
pub struct Iter {
    handle: Arc<Handle>,
    core: Arc<Core>,
    options: IterOptions,
    snapshot: Snapshot,
    merged: Merged,
    generation: (u64, u64),
    stand: Stand,
    /// The key it stands on; `None`: before the first or after the last.
    at: Option<Vec<u8>>,
    /// The end it ran over, standing on nothing.
    beyond: Option<End>,
    /// Spare buffer for the next key.
    spare: Vec<u8>,
    judged: Judged,
    kind: ValueKind,
    /// The payload, when it was copied (backward steps, external values).
    payload: Vec<u8>,
    payload_copied: bool,
    failed: bool,
}

impl Iter {
    pub(crate) fn open(
        handle: &Arc<Handle>,
        core: &Arc<Core>,
        mut options: IterOptions,
    ) -> Result<Self> {
        handle.engine.check_open()?;
        if !options.prefix.is_empty() {
            narrow_to_prefix(core, &mut options)?;
        }
        let snapshot = match options.snapshot.take() {
            Some(snapshot) => {
                snapshot.check_origin(handle)?;
                snapshot
            }
            None => Snapshot::take(handle),
        };
        let (merged, generation) = sources(core, &options, &snapshot);
        Ok(Iter {
            handle: Arc::clone(handle),
            core: Arc::clone(core),
            options,
            snapshot,
            merged,
            generation,
            stand: Stand::Lost,
            at: None,
            beyond: None,
            spare: Vec::new(),
            judged: Judged {
                skip: 0,
                expires_at_ms: None,
            },
            kind: ValueKind::Put,
            payload: Vec::new(),
            payload_copied: false,
            failed: false,
        })
    }

    /// The key it stands on.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.at.as_deref()
    }

    /// The value it stands on; empty with keys only, and when it stands on nothing. External
    /// values are read here.
    ///
    /// # Errors
    /// `Corruption`, `Io`: an external value could not be read.
    pub fn value(&mut self) -> Result<&[u8]> {
        if self.at.is_none() || self.options.keys_only {
            return Ok(&[]);
        }
        if self.kind == ValueKind::External {
            let payload = self.payload();
            let reference = ExternalRef::decode(payload).expect("judged before it was shown");
            self.payload = self.handle.engine.env.externals.read(&reference)?;
            self.payload_copied = true;
            // From now on the payload is the value itself.
            self.kind = ValueKind::Put;
            self.judged.skip = 0;
        }
        let skip = self.judged.skip;
        Ok(&self.payload()[skip..])
    }

    /// When the pair it stands on expires, in milliseconds since 1970.
    #[must_use]
    pub fn expires_at_ms(&self) -> Option<u64> {
        self.at.as_ref().and(self.judged.expires_at_ms)
    }

    fn payload(&self) -> &[u8] {
        if self.payload_copied {
            return &self.payload;
        }
        self.merged.entry().map_or(&[], |entry| entry.value)
    }

    /// To the first pair; whether there is one.
    ///
    /// # Errors
    /// `Corruption`, `Io`. The iterator stands on nothing then.
    pub fn seek_first(&mut self) -> Result<bool> {
        self.follow_view();
        self.guarded(|iter| {
            match iter.options.lower.clone() {
                Bound::Unbounded => iter.merged.seek_first()?,
                Bound::Included(key) => iter.merged.seek(&key, Stamp::MAX)?,
                Bound::Excluded(key) => iter.merged.seek(&key, Stamp::ZERO)?,
            }
            iter.settle_forward()
        })
    }

    /// To the last pair; whether there is one.
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn seek_last(&mut self) -> Result<bool> {
        self.follow_view();
        self.guarded(|iter| {
            match iter.options.upper.clone() {
                Bound::Unbounded => iter.merged.seek_last()?,
                Bound::Excluded(key) => iter.merged.seek_before(&key)?,
                Bound::Included(key) => iter.seek_to_end_of(&key)?,
            }
            iter.settle_backward()
        })
    }

    /// To the first pair at or above `key`; whether there is one.
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        if self.is_below_lower(key) {
            return self.seek_first();
        }
        self.follow_view();
        self.guarded(|iter| {
            iter.merged.seek(key, Stamp::MAX)?;
            iter.settle_forward()
        })
    }

    /// To the last pair below `key`; whether there is one.
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn seek_before(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        if self.is_above_upper(key) {
            return self.seek_last();
        }
        self.follow_view();
        self.guarded(|iter| {
            iter.merged.seek_before(key)?;
            iter.settle_backward()
        })
    }

    /// One pair forward; whether there is one. From before the first (where it starts) to the
    /// first; past the last it stays.
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn step(&mut self) -> Result<bool> {
        self.follow_view();
        let Some(key) = self.at.take() else {
            return if self.beyond == Some(End::Last) {
                Ok(false)
            } else {
                self.seek_first()
            };
        };
        let stand = self.stand;
        self.guarded(|iter| {
            if stand == Stand::On {
                iter.leave_key(&key)?;
            } else {
                iter.merged.seek(&key, Stamp::ZERO)?;
            }
            iter.spare = key;
            iter.settle_forward()
        })
    }

    /// One pair back; whether there is one. From past the last (and where it starts) to the last;
    /// before the first it stays.
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn step_back(&mut self) -> Result<bool> {
        self.follow_view();
        let Some(key) = self.at.take() else {
            return if self.beyond == Some(End::First) {
                Ok(false)
            } else {
                self.seek_last()
            };
        };
        let stand = self.stand;
        self.guarded(|iter| {
            if stand != Stand::Before {
                iter.merged.seek_before(&key)?;
            }
            iter.spare = key;
            iter.settle_backward()
        })
    }

    /// Keeps snapshot and position, and moves to the current memtables and files, so that the old
    /// ones can be freed. Steps do this by themselves; an iterator that rests for long should.
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn refresh(&mut self) -> Result<()> {
        self.generation = (u64::MAX, u64::MAX);
        self.follow_view();
        self.restore_position()
    }

    /// Takes a new snapshot and keeps the position: stays on its key if that is still live, else
    /// moves to the next.
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn refresh_to_now(&mut self) -> Result<()> {
        self.snapshot = Snapshot::take(&self.handle);
        self.refresh()
    }

    /// The pairs, descending.
    #[must_use]
    pub fn rev(self) -> Rev {
        Rev {
            iter: self,
            started: false,
        }
    }

    /// After the sources were replaced: finds the pair it stood on again.
    fn restore_position(&mut self) -> Result<()> {
        if let Some(key) = self.at.take() {
            self.seek(&key)?;
        }
        Ok(())
    }

    /// Replaces superseded memtables and files (I2). The cursor is lost then, the key is not.
    #[inline]
    fn follow_view(&mut self) {
        if self.core.generation() != self.generation {
            (self.merged, self.generation) = sources(&self.core, &self.options, &self.snapshot);
            self.stand = Stand::Lost;
        }
    }

    /// Runs a positioning call on the current sources; on an error it stands on nothing.
    #[inline]
    fn guarded(&mut self, position: impl FnOnce(&mut Self) -> Result<bool>) -> Result<bool> {
        self.at = None;
        self.stand = Stand::Lost;
        self.beyond = None;
        self.payload_copied = false;
        self.handle.engine.check_open()?;
        position(self)
    }

    /// The merged cursor stands at or after the wanted place: shows the first live pair from here.
    fn settle_forward(&mut self) -> Result<bool> {
        loop {
            let Some(entry) = self.merged.entry() else {
                return self.ends(End::Last);
            };
            if above(&self.core, &self.options.upper, entry.key) {
                return self.ends(End::Last);
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

    /// There is no pair on this side.
    fn ends(&mut self, end: End) -> Result<bool> {
        self.beyond = Some(end);
        Ok(false)
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
    fn leave_key(&mut self, key: &[u8]) -> Result<()> {
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

    /// The merged cursor stands at the last entry at or before the wanted place: shows the last
    /// live pair up to here. Versions of a key come oldest first.
    fn settle_backward(&mut self) -> Result<bool> {
        loop {
            let Some(entry) = self.merged.entry() else {
                return self.ends(End::First);
            };
            if below(&self.core, &self.options.lower, entry.key) {
                return self.ends(End::First);
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
                seen = self.copy_if_at(key);
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

    fn seek_to_end_of(&mut self, key: &[u8]) -> Result<()> {
        self.merged.seek(key, Stamp::ZERO)?;
        match self.merged.entry() {
            Some(_) => self.merged.prev(),
            None => self.merged.seek_last(),
        }
    }

    /// Whether two spellings are the same key under the keyspace's order.
    #[inline]
    fn is_same(&self, a: &[u8], b: &[u8]) -> bool {
        a == b || (!self.core.order.is_bytewise() && self.core.order.compare(a, b).is_eq())
    }

    fn is_below_lower(&self, key: &[u8]) -> bool {
        below(&self.core, &self.options.lower, key)
    }

    fn is_above_upper(&self, key: &[u8]) -> bool {
        above(&self.core, &self.options.upper, key)
    }

    fn pair(&mut self) -> Result<(Vec<u8>, Value)> {
        let key = self.at.clone().unwrap_or_default();
        let value = Value::copied(self.value()?);
        Ok((key, value))
    }

    fn yielded(&mut self, stepped: Result<bool>) -> Option<Result<(Vec<u8>, Value)>> {
        let item = match stepped {
            Ok(false) => None,
            Ok(true) => Some(self.pair()),
            Err(error) => Some(Err(error)),
        };
        self.failed = !matches!(item, Some(Ok(_)));
        item
    }
}

impl Iterator for Iter {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let stepped = self.step();
        self.yielded(stepped)
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter")
            .field("keyspace", &self.core.name)
            .field("at", &self.at)
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}

/// The pairs of an [`Iter`], descending.
#[derive(Debug)]
pub struct Rev {
    iter: Iter,
    started: bool,
}

impl Iterator for Rev {
    type Item = Result<(Vec<u8>, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.iter.failed {
            return None;
        }
        // Wherever the iterator stood, the last pair comes first.
        let stepped = if self.started {
            self.iter.step_back()
        } else {
            self.iter.seek_last()
        };
        self.started = true;
        self.iter.yielded(stepped)
    }
}

/// The memtables and files as they stand now, merged; and their generation, read before them.
fn sources(core: &Core, options: &IterOptions, snapshot: &Snapshot) -> (Merged, (u64, u64)) {
    let generation = core.generation();
    let at = Reader::snapshot(snapshot.stamp(), snapshot.now_ms()).at;
    let mode = CursorMode::Visible {
        at,
        keys_only: options.keys_only,
    };
    let guard = epoch::pin();
    let view = core.view.load(&guard);
    let mut cursors: Vec<Box<dyn Cursor>> = view
        .memtables()
        .filter(|mem| !mem.table.is_empty())
        .map(|mem| Arc::clone(&mem.table).cursor(mode))
        .collect();
    // The tree after the view: data moves that way.
    cursors.push(core.tree.cursor(options.fill_cache));
    (MergeCursor::new(cursors, core.order.clone()), generation)
}

fn narrow_to_prefix(core: &Core, options: &mut IterOptions) -> Result<()> {
    if !core.order.is_bytewise() {
        let found = format!(
            "keyspace `{}` is ordered by `{}`",
            core.name,
            core.order.name()
        );
        return Err(Error::invalid("iterate over a prefix", found).remedy("use bounds instead"));
    }
    let prefix = std::mem::take(&mut options.prefix);
    if !above(
        core,
        &Bound::Excluded(prefix.clone()),
        lower_key(&options.lower),
    ) {
        options.lower = Bound::Included(prefix.clone());
    }
    if let Some(end) = prefix_end(&prefix) {
        let narrower = match &options.upper {
            Bound::Unbounded => true,
            Bound::Included(key) | Bound::Excluded(key) => *key >= end,
        };
        if narrower {
            options.upper = Bound::Excluded(end);
        }
    }
    Ok(())
}

fn lower_key(bound: &Bound<Vec<u8>>) -> &[u8] {
    match bound {
        Bound::Unbounded => &[],
        Bound::Included(key) | Bound::Excluded(key) => key,
    }
}

/// Whether `key` lies above the upper bound.
#[inline]
fn above(core: &Core, upper: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match upper {
        Bound::Unbounded => false,
        Bound::Included(bound) => core.order.compare(key, bound).is_gt(),
        Bound::Excluded(bound) => core.order.compare(key, bound).is_ge(),
    }
}

/// Whether `key` lies below the lower bound.
#[inline]
fn below(core: &Core, lower: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    match lower {
        Bound::Unbounded => false,
        Bound::Included(bound) => core.order.compare(key, bound).is_lt(),
        Bound::Excluded(bound) => core.order.compare(key, bound).is_le(),
    }
}
