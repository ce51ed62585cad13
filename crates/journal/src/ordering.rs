//! The orderings and steps that the models spoil one at a time, to prove that they would notice.
//!
//! Outside a model each function is a constant. Tests: the controls in `tests/loom.rs` and
//! `tests/shuttle.rs`.

use velella_sync::atomic::Ordering;

/// A place where a promise depends on one ordering or one step.
#[cfg_attr(
    not(any(loom, shuttle)),
    expect(unreachable_pub, reason = "exported to the models only")
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// The store of a lane's tail is Release.
    Tail,
    /// A round reads the lanes' ends after its frontier.
    EndsLast,
    /// A seal's frontier is never below D.
    SealFrontier,
    /// D rises after the syncs.
    SyncFirst,
    /// A seal excludes only extents that end at or before the lane's end in it.
    ExcludedEnd,
    /// What a round excludes is let go of after it completed.
    ExcludeLast,
    /// What is noted as synced of a large file was written before the sync began.
    LargeSynced,
    /// Whoever waits for D is woken when it rises, and at the end of a round.
    Wake,
    /// Whoever waits for its turn is woken when a round ends, however it ends.
    Turn,
    /// Whoever waits is woken when the journal stops, by who stopped it and by the round's end.
    Stop,
}

#[cfg(any(loom, shuttle))]
thread_local! {
    // Of the standard library: a model's threads all run on the thread that started it.
    static SPOILED: std::cell::Cell<Option<Site>> = const { std::cell::Cell::new(None) };
}

/// Spoils `site` in the models of this thread.
#[cfg(any(loom, shuttle))]
pub fn spoil(site: Option<Site>) {
    SPOILED.set(site);
}

/// Whether `site` is as it should be.
#[inline(always)]
pub(crate) fn is_sound(site: Site) -> bool {
    #[cfg(any(loom, shuttle))]
    return SPOILED.get() != Some(site);
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
