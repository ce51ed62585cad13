//! The orderings and checks that the models weaken one at a time, to prove that they would notice.
//!
//! Outside a model each function is a constant. Tests: the controls in `tests/loom.rs`.

use velella_sync::atomic::Ordering;

/// A place where the protocol depends on one ordering or one check.
#[cfg_attr(
    not(loom),
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
}

#[cfg(loom)]
thread_local! {
    // Of the standard library: a model's threads all run on the thread that started it.
    static WEAKENED: std::cell::Cell<Option<Site>> = const { std::cell::Cell::new(None) };
}

/// Weakens `site` in the models of this thread.
#[cfg(loom)]
pub fn weaken(site: Option<Site>) {
    WEAKENED.set(site);
}

/// Whether `site` is as it should be.
#[inline(always)]
pub(crate) fn is_sound(site: Site) -> bool {
    #[cfg(loom)]
    return WEAKENED.get() != Some(site);
    #[cfg(not(loom))]
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
