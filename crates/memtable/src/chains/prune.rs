//! Dropping the versions of a key that nobody can read any more.
//!
//! Source: finding JF-9 (a hot key's list grows without bound); the conditions are those of
//! [`Retention`], amendment A4 of the write protocol.
//!
//! P1. One pruner at a time per key: the low bit of the node's `prune` word.
//! P2. Only versions below the first committed one are unlinked, all of them committed (J1, J2).
//! P3. External values, range deletes and merge operands stay, and so does what a merge operand
//!     builds on: the next older version that is no range delete. A range delete stands at its
//!     first key and says nothing of that key's versions, so readers go on below it.
//! P4. The next pruning is due when the list has grown by twice what this one left, at least by
//!     [`PRUNE_STEP`]: so pruning costs each version a constant number of steps; and at most by
//!     what depths can be apart. While a snapshot looks back, whose reads walk the list to its end,
//!     [`LOOK_BACK_STEP`] is the least.
//!
//! Threads: any. Tests: `tests/pruning.rs`; the contract suite; `skipping_get_vs_pruner`.

use crate::chains::node::{Node, PRUNE_STEP};
use crate::chains::version::{Retired, VersionRef};
use crate::ordering::{Site, is_sound};
use crate::record::{BUSY, DEPTHS_APART};
use velella_base::{ValueKind, seeded};
use velella_mvcc::Retention;
use velella_sync::atomic::{AtomicUsize, Ordering, spin};
use velella_sync::{Guard, spot, thread};

/// Keeps cursors that hold references into version lists and pruners apart.
#[derive(Debug)]
pub(crate) struct Gate {
    /// `holders << 32 | pruners inside`.
    state: AtomicUsize,
}

const HOLDER: usize = 1 << 32;

impl Gate {
    /// Open.
    pub(crate) fn new() -> Self {
        Gate {
            state: AtomicUsize::new(0),
        }
    }

    /// Lets a pruner in, unless the lists are held.
    pub(crate) fn enter(&self) -> Option<Pass<'_>> {
        // Relaxed: only a guess, confirmed by the CAS.
        let mut state = self.state.load(Ordering::Relaxed);
        while state < HOLDER || !is_sound(Site::Gate) {
            // Acquire, partner: the Release of `release`. Relaxed on failure: a new guess.
            match self.state.compare_exchange_weak(
                state,
                state + 1,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(Pass { gate: self }),
                Err(current) => state = current,
            }
        }
        None
    }

    /// Keeps pruners out until [`Gate::release`], and waits for those inside.
    pub(crate) fn hold(&self) {
        // Acquire, partner: the Release in `Pass::drop`.
        let mut state = self.state.fetch_add(HOLDER, Ordering::Acquire);
        let mut turns = 0;
        while !state.is_multiple_of(HOLDER) {
            // A pruner inside may have lost its processor.
            turns += 1;
            if turns < SPINS {
                spin();
            } else {
                thread::yield_now();
            }
            // Acquire, as above.
            state = self.state.load(Ordering::Acquire);
        }
    }

    /// Ends a [`Gate::hold`].
    pub(crate) fn release(&self) {
        // Release, partner: the Acquire in `enter`: the holder has read what it wanted.
        self.state.fetch_sub(HOLDER, Ordering::Release);
    }
}

/// A pruner inside the gate.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    gate: &'a Gate,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        // Release, partner: the Acquire in `hold`: what was unlinked stays unseen by the holder.
        self.gate.state.fetch_sub(1, Ordering::Release);
    }
}

/// Versions a list may grow by before its next pruning where old ones are read (P4): a scan of the
/// past follows a pointer for each, most of them out of the cache.
const LOOK_BACK_STEP: u32 = 8;
/// Turns after which who waits for a pruner gives its processor away.
const SPINS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 100 };

/// Unlinks what `retention` does not keep, unless another thread is at it; the caller retires it.
pub(crate) fn prune(node: Node<'_>, retention: &Retention, guard: &Guard) -> Vec<Retired> {
    let lock = &node.fields().prune;
    // Relaxed: confirmed by the CAS.
    let due = lock.load(Ordering::Relaxed);
    // Acquire, partner: the Release below: the last pruner's unlinking. Relaxed on failure:
    // somebody else is at it.
    if due & BUSY != 0
        || lock
            .compare_exchange(due, due | BUSY, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
    {
        return Vec::new();
    }
    // As many as go each time where nobody reads what is old, and all but one do (P4). A thousand
    // puts of one key allocated 194 times with a vector that grows, put in a box (`Store::retire`),
    // and 70 times like this.
    let mut retired = Vec::with_capacity(PRUNE_STEP as usize);
    let mut due = due;
    if let Some(newest) = super::newest_version(node, guard) {
        let survivors = unlink(newest, retention, guard, &mut retired);
        let least = match retention.looks_back() {
            true => LOOK_BACK_STEP,
            false => PRUNE_STEP,
        };
        due = newest.record().depth().plus(growth(survivors, least)).0 << 8;
    }
    // Release, partner: the Acquire above.
    lock.store(due, Ordering::Release);
    retired
}

/// By how many versions a list grows, of which so many are left, until its next pruning (P4).
fn growth(survivors: u32, least: u32) -> u32 {
    survivors.saturating_mul(2).clamp(least, DEPTHS_APART)
}

/// Walks the list from `newest`; returns how many versions stay.
fn unlink(
    newest: VersionRef<'_>,
    retention: &Retention,
    guard: &Guard,
    retired: &mut Vec<Retired>,
) -> u32 {
    let mut rule = retention.key();
    let mut survivors = 0;
    // The last version that stays; its `next` is rewritten where a run of others follows.
    let mut kept: Option<VersionRef<'_>> = None;
    let mut is_gap = false;
    let mut is_base = false;
    let mut version = Some(newest);
    while let Some(current) = version {
        version = current.next();
        let Some(stamp) = current.record().committed(guard) else {
            // Undecided or aborted, above everything committed (J1): not a pruner's (J2).
            continue;
        };
        let kind = current.record().kind();
        let is_range = kind == ValueKind::RangeDelete;
        let is_read = !is_range && rule.keeps(stamp) && !seeded("pruning-drops-what-is-read");
        let stays = is_read | kept.is_none() | is_base | !is_droppable(kind);
        if !stays {
            // SAFETY: this pruner unlinks it before it gives up the lock, and nobody else can
            // (J2, P1).
            retired.push(unsafe { Retired::new(current) });
            is_gap = true;
            continue;
        }
        if !is_range {
            is_base = kind == ValueKind::Merge;
        }
        survivors += 1;
        if is_gap && let Some(kept) = kept {
            kept.set_next(Some(current));
            spot(29);
        }
        is_gap = false;
        kept = Some(current);
    }
    if is_gap && let Some(kept) = kept {
        kept.set_next(None);
    }
    survivors
}

/// Whether a version of this kind may be dropped at all (P3).
fn is_droppable(kind: ValueKind) -> bool {
    matches!(
        kind,
        ValueKind::Put | ValueKind::Delete | ValueKind::PutExpiring
    )
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::record::Depth;

    #[test]
    fn the_next_pruning_is_never_due_at_once() {
        for survivors in [
            0,
            1,
            16,
            17,
            1000,
            1 << 22,
            (1 << 22) + 1,
            1 << 24,
            u32::MAX,
        ] {
            let grown = growth(survivors, LOOK_BACK_STEP);
            for depth in [0, 1, (1 << 23) - 1, 1 << 23, (1 << 24) - 1].map(Depth) {
                let due = depth.plus(grown);
                assert!(!depth.has_reached(due), "{survivors} {depth:?}");
                assert!(!depth.plus(grown - 1).has_reached(due), "{survivors}");
                assert!(due.has_reached(due), "{survivors}");
                assert!(due.plus(DEPTHS_APART).has_reached(due), "{survivors}");
            }
        }
    }
}
