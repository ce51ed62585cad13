//! The commit cell of a batch: one store makes all its versions visible.
//!
//! Source: cLSM (EuroSys '15) 3.3 stops all writers for a batch; here nobody stops.
//!
//! B1. The cell outlives every version word that points to it: it counts the versions installed
//!     with it, and is freed, behind an epoch, only when as many words have been replaced.
//!     A cell that is dropped, or settled with too few versions, leaks.
//! B2. It is decided once; by being dropped, if its owner panics before.
//!
//! Threads: owned by one; read by any through the words. Tests: `batch_two_gets` and
//! `batch_cell_rewrite_and_free` in `tests/loom.rs`; the contract suite.

use crate::ordering::{Site, release};
use crate::record::Pending;
use std::cell::Cell;
use std::fmt;
use std::ptr::NonNull;
use velella_base::Stamp;
use velella_mvcc::Word;
use velella_sync::Guard;
use velella_sync::atomic::AtomicU64;

/// What the versions of one batch have in common until each carries its own stamp.
pub struct BatchCell {
    cell: NonNull<AtomicU64>,
    /// Versions whose words point here (B1).
    installed: Cell<usize>,
    decision: Cell<Option<Word>>,
}

/// A cell on its way to being freed.
struct Condemned(NonNull<AtomicU64>);

// SAFETY: the cell is a heap allocation of its own; whoever holds this is its only owner.
unsafe impl Send for Condemned {}

impl Condemned {
    fn free(self) {
        // SAFETY: allocated by `BatchCell::new` as a box; nothing points to it any more (B1).
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

impl BatchCell {
    /// A cell of a batch whose window will be announced in `slot`.
    #[must_use]
    pub fn new(slot: usize) -> Self {
        let cell = Box::new(AtomicU64::new(Word::Pending(slot).encode()));
        let cell = NonNull::from(Box::leak(cell));
        // Readers come back from the address in a version's word.
        cell.as_ptr().expose_provenance();
        BatchCell {
            cell,
            installed: Cell::new(0),
            decision: Cell::new(None),
        }
    }

    /// The word of a version that belongs to this batch.
    pub(crate) fn word(&self) -> u64 {
        Word::Cell(self.cell.as_ptr().addr() as u64).encode()
    }

    /// Counts a version that carries [`BatchCell::word`]; call it before the version is reachable.
    pub(crate) fn enlist(&self) {
        self.installed.set(self.installed.get() + 1);
    }

    /// Whether a version that carries the word is installed, or is about to be.
    pub(crate) fn has_installed(&self) -> bool {
        self.installed.get() > 0
    }

    /// Takes [`BatchCell::enlist`] back: the version never became reachable.
    pub(crate) fn delist(&self) {
        self.installed.set(self.installed.get() - 1);
    }

    /// Makes all versions of the batch visible at `stamp`, or none ever: one store, the batch's
    /// linearization point. Call [`BatchCell::settle`] after the window.
    ///
    /// # Panics
    /// If the batch was decided before.
    #[inline]
    pub fn decide(&self, stamp: Option<Stamp>) {
        assert!(self.decision.get().is_none(), "B2: decided twice");
        let decision = stamp.map_or(Word::Aborted, |stamp| Word::Committed(stamp, None));
        self.decision.set(Some(decision));
        // SAFETY: the cell is freed only by `settle` and `drop`, which take `self`.
        let cell = unsafe { self.cell.as_ref() };
        // Release, partner: the Acquire of whoever looks a version's word up.
        cell.store(decision.encode(), release(Site::Cell));
    }

    /// Writes the decision into the versions' own words, and frees the cell when nobody can be
    /// looking at it.
    ///
    /// # Panics
    /// If the batch is undecided.
    pub fn settle<'g>(self, pendings: impl IntoIterator<Item = Pending<'g>>, guard: &Guard) {
        let stamp = match self.decision.get() {
            Some(Word::Committed(stamp, _)) => Some(stamp),
            Some(_) => None,
            None => panic!("a batch is settled after it was decided"),
        };
        for pending in pendings {
            if pending.word() == self.word() {
                pending.settle(stamp);
                self.delist();
            } else {
                debug_assert!(false, "{pending:?} belongs to another write");
                std::mem::forget(pending);
            }
        }
        if self.installed.get() == 0 {
            let cell = Condemned(self.cell);
            std::mem::forget(self);
            guard.defer(move || cell.free());
        }
    }

    /// [`BatchCell::decide`] and [`BatchCell::settle`] in one: commits the batch at `stamp`.
    pub fn commit<'g>(
        self,
        stamp: Stamp,
        pendings: impl IntoIterator<Item = Pending<'g>>,
        guard: &Guard,
    ) {
        self.decide(Some(stamp));
        self.settle(pendings, guard);
    }

    /// [`BatchCell::decide`] and [`BatchCell::settle`] in one: aborts the batch.
    pub fn abort<'g>(self, pendings: impl IntoIterator<Item = Pending<'g>>, guard: &Guard) {
        self.decide(None);
        self.settle(pendings, guard);
    }
}

impl Drop for BatchCell {
    fn drop(&mut self) {
        if self.installed.get() == 0 {
            Condemned(self.cell).free();
        } else {
            debug_assert!(
                std::thread::panicking(),
                "a batch was dropped before {} of its versions were settled",
                self.installed.get()
            );
            // Nobody waits for a batch that will never be decided (B2).
            if self.decision.get().is_none() {
                self.decide(None);
            }
        }
    }
}

impl fmt::Debug for BatchCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchCell")
            .field("installed", &self.installed.get())
            .field("decision", &self.decision.get())
            .finish()
    }
}
