//! The orderings that the models weaken one at a time, to prove that they would notice.
//!
//! Outside a model each function is a constant. Tests: the controls in `tests/loom.rs`.

use velella_sync::atomic::Ordering;

/// A place where the protocol depends on an ordering.
#[cfg_attr(
    not(loom),
    expect(unreachable_pub, reason = "exported to the models only")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// The draw of a stamp.
    Draw,
    /// The reading of the clock for a snapshot.
    Observe,
    /// The reading of the clock for a round or a collector.
    Now,
    /// The store that opens a window.
    Announce,
    /// The store that closes it.
    Idle,
    /// The load of a window by others.
    Announced,
    /// The load of the lease.
    Lease,
    /// Its extension.
    Extend,
    /// What a finder of a frontier leaves to the next.
    Settled,
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

/// `ordering`, or Relaxed where a control weakens it.
#[inline(always)]
pub(crate) fn at(site: Site, ordering: Ordering) -> Ordering {
    #[cfg(loom)]
    if WEAKENED.get() == Some(site) {
        return Ordering::Relaxed;
    }
    let _ = site;
    ordering
}
