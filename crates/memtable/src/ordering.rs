//! The orderings and checks that the models spoil one at a time, to prove that they would notice.
//!
//! Outside a model each function is a constant. Under loom an ordering is spoiled by weakening it;
//! shuttle knows no weak orderings, and there a compare-and-swap is torn into its two halves.
//! Tests: the controls in `tests/loom.rs` and `tests/shuttle.rs`.

use velella_sync::atomic::{AtomicPtr, Ordering};

/// A place where the protocol depends on one ordering or one check.
#[cfg_attr(
    not(any(loom, shuttle)),
    expect(unreachable_pub, reason = "exported to the models only")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// The CAS that links a node.
    NodeLink,
    /// The CAS that installs a version.
    HeadCas,
    /// The store of a version's decided word.
    Word,
    /// The store of a batch's decision.
    Cell,
    /// The second look at an undecided version's word.
    SecondLook,
    /// The wait, for reuse, until nobody is left who could have seen a version.
    Retire,
    /// The gate that keeps pruners out while somebody reads whole lists.
    Gate,
    /// The entry into the index of a node that somebody else has linked.
    Help,
    /// The guard that a search begins at is below the key.
    Guard,
    /// The CAS that replaces a full entry by its halves.
    Split,
    /// The look whether a key lies beyond the range of an entry.
    Beyond,
    /// The check that the newest version is decided, before another is installed above it.
    Undecided,
}

#[cfg(any(loom, shuttle))]
thread_local! {
    // Of the standard library: a model's threads all run on the thread that started it.
    static WEAKENED: std::cell::Cell<Option<Site>> = const { std::cell::Cell::new(None) };
}

/// Spoils `site` in the models of this thread.
#[cfg(any(loom, shuttle))]
pub fn weaken(site: Option<Site>) {
    WEAKENED.set(site);
}

/// Whether `site` is as it should be.
#[inline(always)]
pub(crate) fn is_sound(site: Site) -> bool {
    #[cfg(any(loom, shuttle))]
    return WEAKENED.get() != Some(site);
    #[cfg(not(any(loom, shuttle)))]
    {
        let _ = site;
        true
    }
}

/// Release.
#[inline(always)]
pub(crate) fn release(site: Site) -> Ordering {
    if is_sound(site) {
        Ordering::Release
    } else {
        Ordering::Relaxed
    }
}

/// Replaces `seen` by `new`, if it is there still; says whether it was. Release on success, with a
/// partner that the caller names; Relaxed on failure: the caller loads again.
#[inline(always)]
pub(crate) fn swap_in<T>(site: Site, place: &AtomicPtr<T>, seen: *mut T, new: *mut T) -> bool {
    if cfg!(shuttle) && !is_sound(site) {
        // Relaxed: there is but one ordering here.
        let is_there = place.load(Ordering::Relaxed) == seen;
        if is_there {
            // Relaxed: as above.
            place.store(new, Ordering::Relaxed);
        }
        return is_there;
    }
    // Release or, in a control, Relaxed; Relaxed on failure: see above.
    place
        .compare_exchange(seen, new, release(site), Ordering::Relaxed)
        .is_ok()
}
