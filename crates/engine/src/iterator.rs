//! Cursors over the live pairs of one view, both ways.
//!
//! I1. What is seen is exactly the snapshot: per key the newest version at or below its stamp, if
//!     that is live at the snapshot's time.
//! I2. The iterator stands on a key of its own (`key`), not in a memtable or file: when its
//!     memtables or files are superseded it moves to the current ones and finds its place again.
//!     So it holds superseded ones only until its next step.
//! I3. A key with many versions costs little more than one with one: memtables yield one version
//!     a key, and a table leaves a run of versions by a seek once it has passed a few.
//! I4. After an error it stands nowhere, and every step repeats the error until the next seek: it
//!     no longer knows which pairs it has shown.
//! I5. When it ends it leaves its cursors over tables to the next one (`resting.rs`), unless an
//!     error or a panic left them in the middle of a movement.
//! I6. Over what is plain it walks in a stretch that the merged cursor has lent it; whatever else
//!     is done with it begins by returning that (`land`). `key` is out of date meanwhile.
//!
//! Source: JellyFish (Middleware '20) Algorithm 3 for the memtables' part, corrected.
//! Threads: an iterator belongs to one thread at a time.
//! Tests: below, `tests/iterators.rs`, `tests/iterator_walks.rs`, `tests/iterator_errors.rs`.

mod options;
mod sources;
mod forward;
mod backward;
mod pairs;

pub use options::IterOptions;
pub use pairs::Rev;

use crate::core::Engine;
use crate::handle::Handle;
use crate::keyspace_core::Core;
use crate::read::Judged;
use crate::snapshot::Snapshot;
use options::{above, below, narrow_to_prefix};
use pairs::Turn;
use sources::Sources;
use std::ops::Bound;
use std::sync::Arc;
use velella_base::external::ExternalRef;
use velella_base::order::same_bytes;
use velella_base::{Cursor, Error, Result, Stamp, ValueKind, seeded};
use velella_tree::Stretch;

/// Room for a key made at once: most keys need no more.
const KEY_BYTES: usize = 64;

/// Going back: old versions of one key passed one by one before a seek leaves them all.
const SKIPS_MAX: usize = 8;

/// Where the merged cursor stands relative to the pair the iterator shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    /// At a version of the pair's key, the one shown; nowhere while a stretch is out (I6).
    On,
    /// At the newest version of the pair's key, the one shown.
    Newest,
    /// At the last entry before the pair's key (or before all).
    Before,
    /// Nowhere in particular: seek first.
    Lost,
}

/// Why an iterator stands on no pair.
#[derive(Debug)]
enum Nowhere {
    /// It was not positioned yet.
    Unpositioned,
    /// It ran over the first pair.
    BeforeFirst,
    /// It ran over the last pair.
    PastLast,
    /// It met this error (I4).
    Failed(Error),
}

/// A cursor over the live pairs of one view. It starts before the first pair. As long as it lives,
/// it keeps the versions of its view, as a [`Snapshot`] does.
///
/// As a Rust iterator it yields `Result<(Vec<u8>, Value)>` ascending; [`Iter::rev`] descends.
/// For borrowed access use [`Iter::step`] with [`Iter::pair`], [`Iter::key`] or [`Iter::value`].
#[must_use = "it reads nothing before it is moved"]
pub struct Iter {
    core: Arc<Core>,
    options: IterOptions,
    snapshot: Snapshot,
    sources: Sources,
    /// The sources are moving, or were when an error or a panic came (I5).
    moving: bool,
    stand: Stand,
    /// Whether it stands on a pair.
    there: bool,
    /// If not, why.
    nowhere: Nowhere,
    /// The pair's key (I2, but see I6); when it stands on none, some key.
    key: Vec<u8>,
    /// While there is one, it stands on the pair, and `sources` nowhere (I6).
    stretch: Option<Stretch>,
    judged: Judged,
    kind: ValueKind,
    /// The payload, when it was copied (backward steps, external values).
    payload: Vec<u8>,
    payload_copied: bool,
    /// Where it goes on as an iterator of the standard library.
    turn: Turn,
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
        let sources = Sources::take(core, &options, &snapshot);
        core.check_there()?;
        Ok(Iter {
            core: Arc::clone(core),
            options,
            snapshot,
            sources,
            moving: false,
            stand: Stand::Lost,
            there: false,
            nowhere: Nowhere::Unpositioned,
            key: Vec::with_capacity(KEY_BYTES),
            stretch: None,
            judged: Judged::PLAIN,
            kind: ValueKind::Put,
            payload: Vec::new(),
            payload_copied: false,
            turn: Turn::Step,
        })
    }

    #[inline]
    fn engine(&self) -> &Engine {
        self.snapshot.engine()
    }

    /// The key it stands on.
    #[must_use]
    #[inline]
    pub fn key(&self) -> Option<&[u8]> {
        self.there.then(|| self.shown_key())
    }

    /// The value it stands on; empty with keys only, and when it stands on nothing. External
    /// values are read here.
    ///
    /// # Errors
    /// `Corruption`, `Io`: an external value could not be read; `NotFound`: the keyspace was
    /// dropped; `Closed`.
    #[inline]
    pub fn value(&mut self) -> Result<&[u8]> {
        Ok(self.pair()?.map_or(&[], |(_, value)| value))
    }

    /// The key and the value it stands on, borrowed together; `None` when it stands on nothing.
    /// The value as in [`Iter::value`].
    ///
    /// # Errors
    /// As [`Iter::value`].
    ///
    /// ```
    /// # let memory = std::sync::Arc::new(velella::vfs::MemFs::new());
    /// # let db = velella::Db::builder().vfs(memory).open("/db")?;
    /// db.put("apple", "red")?;
    /// let mut iter = db.iter()?;
    /// while iter.step()? {
    ///     let (key, value) = iter.pair()?.unwrap_or_default();
    ///     assert_eq!((key, value), (&b"apple"[..], &b"red"[..]));
    /// }
    /// # Ok::<(), velella::Error>(())
    /// ```
    #[inline]
    pub fn pair(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        // Another opening may have the directory, and its external values, by now.
        self.engine().check_open()?;
        if !self.there {
            return Ok(None);
        }
        if self.options.keys_only {
            return Ok(Some((self.shown_key(), &[])));
        }
        if self.kind == ValueKind::External {
            self.fetch()?;
        }
        Ok(Some(match &self.stretch {
            Some(stretch) => (stretch.key(), stretch.value()),
            None => (&self.key, &self.payload()[self.judged.skip..]),
        }))
    }

    #[inline]
    fn shown_key(&self) -> &[u8] {
        self.stretch.as_ref().map_or(&self.key, Stretch::key)
    }

    /// The external value that the payload refers to.
    #[cold]
    fn read_external(&self) -> Result<Vec<u8>> {
        let payload = self.payload();
        let reference = ExternalRef::decode(payload).expect("judged before it was shown");
        let read = self.engine().env.externals.read(&reference);
        if read.is_err() {
            // The values of a dropped keyspace go, whoever stands on them.
            self.core.check_there()?;
        }
        read
    }

    /// Makes the payload the external value that it refers to.
    #[cold]
    fn fetch(&mut self) -> Result<()> {
        self.payload = self.read_external()?;
        self.payload_copied = true;
        self.kind = ValueKind::Put;
        self.judged.skip = 0;
        Ok(())
    }

    /// When the pair it stands on expires, in milliseconds since 1970.
    #[must_use]
    pub fn expires_at_ms(&self) -> Option<u64> {
        self.judged.expires_at_ms.filter(|_| self.there)
    }

    #[inline]
    fn payload(&self) -> &[u8] {
        if self.payload_copied {
            return &self.payload;
        }
        self.sources.merged.entry().map_or(&[], |entry| entry.value)
    }

    /// To the first pair; whether there is one.
    ///
    /// # Errors
    /// `Corruption`, `Io`; `NotFound`: the keyspace was dropped; `Closed`. The iterator stands on
    /// nothing then.
    pub fn seek_first(&mut self) -> Result<bool> {
        self.land();
        self.follow_view()?;
        self.core.toll.seeks.increment();
        self.guarded(|iter| {
            match iter.options.lower.clone() {
                Bound::Unbounded => iter.sources.merged.seek_first()?,
                Bound::Included(key) => iter.sources.merged.seek(&key, Stamp::MAX)?,
                Bound::Excluded(key) => iter.sources.merged.seek(&key, Stamp::ZERO)?,
            }
            iter.settle_forward()
        })
    }

    /// To the last pair; whether there is one.
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn seek_last(&mut self) -> Result<bool> {
        self.land();
        self.follow_view()?;
        self.core.toll.seeks.increment();
        self.guarded(|iter| {
            match iter.options.upper.clone() {
                Bound::Unbounded => iter.sources.merged.seek_last()?,
                Bound::Excluded(key) => iter.sources.merged.seek_before(&key)?,
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
        self.land();
        if self.is_below_lower(key) {
            return self.seek_first();
        }
        self.follow_view()?;
        self.core.toll.seeks.increment();
        self.guarded(|iter| {
            iter.sources.merged.seek(key, Stamp::MAX)?;
            iter.settle_forward()
        })
    }

    /// To the last pair below `key`; whether there is one.
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn seek_before(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.land();
        if self.is_above_upper(key) {
            return self.seek_last();
        }
        self.follow_view()?;
        self.core.toll.seeks.increment();
        self.guarded(|iter| {
            iter.sources.merged.seek_before(key)?;
            iter.settle_backward()
        })
    }

    /// One pair forward; whether there is one. From before the first (where it starts) to the
    /// first; past the last it stays. It stays as well on a pair to which
    /// [`Iter::refresh_to_now`] has moved it.
    ///
    /// # Errors
    /// As [`Iter::seek_first`]; after an error the same one again, until a seek.
    pub fn step(&mut self) -> Result<bool> {
        let there = self.step_forward();
        self.turn = Turn::Step;
        there
    }

    #[inline]
    fn step_forward(&mut self) -> Result<bool> {
        self.follow_view()?;
        if self.hop() {
            return Ok(true);
        }
        if self.turn == Turn::Moved && self.there {
            return self.meet();
        }
        if !self.there {
            return match &self.nowhere {
                Nowhere::PastLast => Ok(false),
                Nowhere::Failed(_) if seeded("an-iterator-goes-on-after-an-error") => Ok(false),
                Nowhere::Failed(error) => Err(error.clone()),
                _ => self.seek_first(),
            };
        }
        let stand = self.stand;
        self.guarded(|iter| {
            match stand {
                Stand::On | Stand::Newest => return iter.pass_forward(),
                Stand::Before | Stand::Lost => iter.sources.merged.seek(&iter.key, Stamp::ZERO)?,
            }
            iter.settle_forward()
        })
    }

    /// Has the pair that it was moved to be seen, by a step that stays on it.
    #[cold]
    fn meet(&mut self) -> Result<bool> {
        if self.stand != Stand::Lost && self.engine().check_open().is_ok() {
            return Ok(true);
        }
        // Its memtables or files were superseded since, or the database was closed.
        let key = std::mem::take(&mut self.key);
        self.seek(&key)
    }

    /// One pair back; whether there is one. From past the last (and where it starts) to the last;
    /// before the first it stays.
    ///
    /// # Errors
    /// As [`Iter::step`].
    pub fn step_back(&mut self) -> Result<bool> {
        let there = self.step_backward();
        self.turn = Turn::Step;
        there
    }

    #[inline]
    fn step_backward(&mut self) -> Result<bool> {
        self.land();
        self.follow_view()?;
        if !self.there {
            return match &self.nowhere {
                Nowhere::BeforeFirst => Ok(false),
                Nowhere::Failed(error) => Err(error.clone()),
                _ => self.seek_last(),
            };
        }
        let stand = self.stand;
        self.guarded(|iter| {
            match stand {
                Stand::Before => {}
                Stand::Newest => iter.sources.merged.prev()?,
                Stand::On | Stand::Lost => iter.sources.merged.seek_before(&iter.key)?,
            }
            iter.settle_backward()
        })
    }

    /// Keeps snapshot and position, and moves to the current memtables and files, so that the old
    /// ones can be freed. Steps do this by themselves; an iterator that rests for long should.
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn refresh(&mut self) -> Result<()> {
        self.land();
        if let Err(error) = self.engine().check_open() {
            self.there = false;
            self.nowhere = Nowhere::Failed(error.clone());
            return Err(error);
        }
        self.renew()?;
        self.restore_position()
    }

    /// Takes a new snapshot and keeps the position: stays on its key if that is still live, else
    /// moves to the next pair, which the next [`Iter::step`] then stays on, so that none is passed
    /// over. [`Iter::step_back`] goes to the one before either way.
    ///
    /// One that stands on no pair stays where it was: past the last, also where pairs have come
    /// behind that, until it steps back or seeks; or before the first.
    ///
    /// ```
    /// # let memory = std::sync::Arc::new(velella::vfs::MemFs::new());
    /// # let db = velella::Db::builder().vfs(memory).open("/db")?;
    /// # for key in ["a", "b", "c"] {
    /// #     db.put(key, "")?;
    /// # }
    /// let mut seen = Vec::new();
    /// let mut iter = db.iter()?;
    /// while iter.step()? {
    ///     let key = iter.key().unwrap_or_default().to_vec();
    ///     db.delete(&key)?;
    ///     seen.push(key);
    ///     iter.refresh_to_now()?;
    /// }
    /// assert_eq!(seen, [b"a", b"b", b"c"]);
    /// # Ok::<(), velella::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Iter::seek_first`].
    pub fn refresh_to_now(&mut self) -> Result<()> {
        self.snapshot = Snapshot::take(self.snapshot.handle());
        self.refresh()
    }

    /// After the sources were replaced: finds the pair it stood on again.
    fn restore_position(&mut self) -> Result<()> {
        if self.there {
            let (key, turn) = (std::mem::take(&mut self.key), self.turn);
            if self.seek(&key)? {
                self.turn = match self.is_same(&key, &self.key) {
                    true => turn,
                    false => Turn::Moved,
                };
            }
        }
        Ok(())
    }

    /// Replaces superseded memtables and files (I2). The cursor is lost then, the key is not,
    /// unless the keyspace was dropped.
    #[inline]
    fn follow_view(&mut self) -> Result<()> {
        match self.core.generation() == self.sources.generation {
            true => Ok(()),
            false => self.renew(),
        }
    }

    #[cold]
    fn renew(&mut self) -> Result<()> {
        velella_sync::spot(24);
        self.land();
        self.leave_sources();
        self.sources = Sources::take(&self.core, &self.options, &self.snapshot);
        self.moving = false;
        self.stand = Stand::Lost;
        self.core.check_there().inspect_err(|error| {
            // To be asked again by every later call.
            self.sources.disown();
            self.there = false;
            self.nowhere = Nowhere::Failed(error.clone());
        })
    }

    /// I5.
    #[inline]
    fn leave_sources(&mut self) {
        debug_assert!(self.stretch.is_none(), "I6: it was returned before");
        if !self.moving {
            self.sources.leave(self.snapshot.engine(), &self.core);
        }
    }

    /// Runs a positioning call on the current sources; on an error it stands on nothing.
    #[inline]
    fn guarded(&mut self, position: impl FnOnce(&mut Self) -> Result<bool>) -> Result<bool> {
        self.there = false;
        self.stand = Stand::Lost;
        self.payload_copied = false;
        self.turn = Turn::Here;
        self.moving = true;
        // Handed on in parts: moved as a whole it would be loaded in one piece, right after it was
        // stored in several, which the processor has to wait for.
        match self.engine().check_open().and_then(|()| position(self)) {
            Ok(there) => {
                self.moving = false;
                Ok(there)
            }
            Err(error) => {
                self.nowhere = Nowhere::Failed(error.clone());
                Err(error)
            }
        }
    }

    /// There is no pair on this side.
    fn ends(&mut self, end: Nowhere) -> Result<bool> {
        self.nowhere = end;
        Ok(false)
    }

    /// Whether two spellings are the same key under the keyspace's order.
    #[inline]
    fn is_same(&self, a: &[u8], b: &[u8]) -> bool {
        same_bytes(a, b)
            || (!self.core.order.is_bytewise() && self.core.order.compare(a, b).is_eq())
    }

    fn is_below_lower(&self, key: &[u8]) -> bool {
        below(&self.core, &self.options.lower, key)
    }

    fn is_above_upper(&self, key: &[u8]) -> bool {
        above(&self.core, &self.options.upper, key)
    }
}

impl Drop for Iter {
    fn drop(&mut self) {
        self.land();
        self.leave_sources();
    }
}

impl std::fmt::Debug for Iter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Iter")
            .field("keyspace", &self.core.name)
            .field("at", &self.key())
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
