//! The head of a version, whatever structure it lies in: its state word, its length, its kind.
//!
//! D1. `word` goes from undecided to decided once, by its owner (`velella_mvcc::word`, W1); a word
//!     that points to a batch's cell is replaced by the cell's decision before the cell is freed.
//! D2. Length, kind and depth never change while the version is reachable.
//!
//! Threads: any. Tests: `tests/loom.rs`, the contract suite; below.

use crate::ordering::{Site, release};
use std::fmt;
use velella_base::{Stamp, ValueKind};
use velella_mvcc::Word;
use velella_mvcc::word::ABORTED;
use velella_sync::Guard;
use velella_sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The head of a version.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Record {
    pub(crate) word: AtomicU64,
    /// Bytes of payload.
    pub(crate) len: u32,
    /// `depth << 8 | kind`; see [`Depth`].
    pub(crate) tag: u32,
}

/// How many versions were installed on the key before, modulo 2^24: the difference of two says how
/// far a list has grown since, without a counter that every writer would have to bump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Depth(pub(crate) u32);

const DEPTH_MASK: u32 = (1 << 24) - 1;

/// How far apart depths may be for one to be known as the later.
pub(crate) const DEPTHS_APART: u32 = (1 << 23) - 1;

impl Depth {
    /// The depth `steps` versions further.
    pub(crate) fn plus(self, steps: u32) -> Depth {
        Depth(self.0.wrapping_add(steps) & DEPTH_MASK)
    }

    /// Whether this depth has reached `other`, as long as they are at most [`DEPTHS_APART`] apart.
    pub(crate) fn has_reached(self, other: Depth) -> bool {
        self.0.wrapping_sub(other.0) & DEPTH_MASK <= DEPTHS_APART
    }
}

/// Beside the depth at which a key's list is to be pruned, `depth << 8 | busy`: somebody is at it.
pub(crate) const BUSY: u32 = 1;

/// Depth and kind in one word.
pub(crate) fn tag(kind: ValueKind, depth: Depth) -> u32 {
    depth.0 << 8 | kind as u32
}

impl Record {
    /// What the version says.
    #[inline]
    pub(crate) fn kind(&self) -> ValueKind {
        let number = (self.tag & 0xff) as usize;
        *ValueKind::ALL
            .get(number.wrapping_sub(1))
            .expect("the tag was made from a kind")
    }

    /// The version's place in the sequence of its key's versions.
    pub(crate) fn depth(&self) -> Depth {
        Depth(self.tag >> 8)
    }

    /// The state word, a batch's looked up in its cell.
    #[inline]
    pub(crate) fn state(&self, _pinned: &Guard) -> u64 {
        // Acquire, partners: the Release stores in `decide` and in the head's CAS.
        let word = self.word.load(Ordering::Acquire);
        if word & 3 == 2 {
            // SAFETY: the word said CELL while this thread was pinned, so the cell, which is
            // deferred only after the word was replaced (D1), lives until the thread unpins.
            return unsafe { cell_state(word) };
        }
        word
    }

    /// Whether the version is neither committed nor aborted.
    #[inline]
    pub(crate) fn is_undecided(&self, guard: &Guard) -> bool {
        Word::is_undecided(self.state(guard))
    }

    /// The stamp, if the version is committed.
    pub(crate) fn committed(&self, guard: &Guard) -> Option<Stamp> {
        match Word::decode(self.state(guard)) {
            Word::Committed(stamp, _) => Some(stamp),
            _ => None,
        }
    }

    /// Replaces the word by `COMMITTED(stamp)` or, without one, by `ABORTED`.
    #[inline]
    pub(crate) fn decide(&self, stamp: Option<Stamp>) {
        let word = match stamp {
            Some(stamp) => Word::Committed(stamp, Some(self.kind())).encode(),
            None => ABORTED,
        };
        // Release, partner: the Acquire in `state`. What the owner did before, its journal record
        // included, is seen by whoever sees the decision.
        self.word.store(word, release(Site::Word));
    }
}

/// The word in the cell that `word` points to.
///
/// # Safety
/// The cell must be alive.
unsafe fn cell_state(word: u64) -> u64 {
    let address = usize::try_from(word & !3).expect("an address fits a usize");
    let cell = std::ptr::with_exposed_provenance::<AtomicU64>(address);
    // SAFETY: the address was exposed by `BatchCell::new`; the caller vouches for its life.
    let cell = unsafe { &*cell };
    // Acquire, partner: the Release in `BatchCell::decide`: who sees one version of a batch
    // committed sees all of them so.
    cell.load(Ordering::Acquire)
}

/// An installed version that its owner has to decide. Dropping it undecided is a bug
/// (debug-asserted), unless its owner panics: then it is aborted, or its key would be blocked for
/// ever; one of a batch is left to its [`BatchCell`](crate::BatchCell).
#[must_use = "an undecided version blocks its key"]
pub struct Pending<'g> {
    record: &'g Record,
    /// The depth at which the key's list is to be pruned, with [`BUSY`]; none without such a list.
    prune_at: Option<&'g AtomicU32>,
}

impl<'g> Pending<'g> {
    pub(crate) fn new(record: &'g Record, prune_at: Option<&'g AtomicU32>) -> Self {
        Pending { record, prune_at }
    }

    /// Makes the version visible at `stamp`: one store, the write's linearization point. Says
    /// whether the key's list has grown long since it was last pruned.
    #[inline]
    pub fn publish(self, stamp: Stamp) -> bool {
        debug_assert!(
            !self.is_batched(),
            "the cell of a batch decides its versions"
        );
        self.record.decide(Some(stamp));
        let long = self.is_list_long();
        std::mem::forget(self);
        long
    }

    /// Makes the version invisible for ever.
    pub fn abort(self) {
        debug_assert!(
            !self.is_batched(),
            "the cell of a batch decides its versions"
        );
        self.record.decide(None);
        std::mem::forget(self);
    }

    /// Whether the key's list has grown long since it was last pruned, and nobody is at it: who
    /// asks finds out first what is still read, which is for nothing then.
    #[must_use]
    #[inline]
    pub fn is_list_long(&self) -> bool {
        self.prune_at.is_some_and(|at| {
            // Relaxed: a hint.
            let at = at.load(Ordering::Relaxed);
            at & BUSY == 0 && self.record.depth().has_reached(Depth(at >> 8))
        })
    }

    /// The version's word as it stands, not looked up.
    pub(crate) fn word(&self) -> u64 {
        // Relaxed: only its owner changes an undecided word.
        self.record.word.load(Ordering::Relaxed)
    }

    fn is_batched(&self) -> bool {
        self.word() & 3 == 2
    }

    /// Gives the version up to the decision of its batch.
    pub(crate) fn settle(self, stamp: Option<Stamp>) {
        self.record.decide(stamp);
        std::mem::forget(self);
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        debug_assert!(
            std::thread::panicking(),
            "a pending version was dropped undecided: {self:?}"
        );
        if self.word() & 3 == 1 {
            self.record.decide(None);
        }
    }
}

impl fmt::Debug for Pending<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pending({:?})", Word::decode(self.word()))
    }
}

/// Somebody else's undecided version, to be waited for.
pub struct Undecided<'g> {
    record: &'g Record,
    guard: &'g Guard,
}

impl<'g> Undecided<'g> {
    pub(crate) fn new(record: &'g Record, guard: &'g Guard) -> Self {
        Undecided { record, guard }
    }

    /// Whether its owner has decided by now.
    #[must_use]
    #[inline]
    pub fn is_decided(&self) -> bool {
        !self.record.is_undecided(self.guard)
    }
}

impl fmt::Debug for Undecided<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = Word::decode(self.record.state(self.guard));
        write!(f, "Undecided({word:?})")
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_long_once_it_is_as_long_as_it_may_be_and_nobody_prunes_it() {
        let record = Record {
            word: AtomicU64::new(Word::Pending(0).encode()),
            len: 0,
            tag: tag(ValueKind::Put, Depth(40)),
        };
        for (due, is_long) in [(40 << 8, true), (41 << 8, false), (40 << 8 | BUSY, false)] {
            let due = AtomicU32::new(due);
            let pending = Pending::new(&record, Some(&due));
            assert_eq!(pending.is_list_long(), is_long, "{due:?}");
            std::mem::forget(pending);
        }
    }
}
