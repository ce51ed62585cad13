//! The live snapshots, and which stamps they still read.
//!
//! Source: cLSM's getSnap (EuroSys '15, Algorithm 2) without its two races: a snapshot registers a
//! lower bound, reads the clock once, and is done; no pass over the slots, no wait.
//!
//! N1. A snapshot is in the list, with a lower bound at or below its time, before its time is
//!     read from the clock.
//! N2. A collector reads its own frontier *before* the list: a snapshot it misses registered
//!     later, so its time is at or above that frontier.
//! N3. `Registration` takes itself out when dropped.
//!
//! Threads: any. The list is behind a lock that no get and no put takes; taking a snapshot is one
//! lock and one clock operation, whatever the size of the store.
//! Tests: below; `cl11_snapshot_vs_flush` in the engine.

use crate::clock::Clock;
use crate::slots::Slots;
use std::collections::BTreeMap;
use std::sync::Arc;
use velella_base::Stamp;
use velella_sync::lock::Mutex;

/// The stamps that live snapshots, durable readers and journal rounds still need.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// Stamp -> how many registrations stand on it.
    live: Mutex<BTreeMap<Stamp, usize>>,
}

impl Snapshots {
    /// No snapshot yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Snapshots {
            live: Mutex::new(BTreeMap::new()),
        })
    }

    /// Takes a snapshot: everything acknowledged before this call is in it, and nothing with a
    /// stamp above its time.
    #[must_use]
    pub fn take(self: &Arc<Self>, clock: &Clock) -> Registration {
        // N1 by mutual exclusion: a collector reads the list under the same lock, so it sees
        // either nothing (and its frontier, read before, is at or below our time, since `observe`
        // comes after its `now`) or the final registration.
        let mut live = self.live.lock();
        let at = clock.observe();
        *live.entry(at).or_insert(0) += 1;
        drop(live);
        Registration {
            list: Arc::clone(self),
            at,
        }
    }

    /// Registers a reader at a time read by `at` while the list is held; used for durable reads
    /// and by journal rounds.
    #[must_use]
    pub fn register(self: &Arc<Self>, at: impl FnOnce() -> Stamp) -> Registration {
        let mut live = self.live.lock();
        let at = at();
        *live.entry(at).or_insert(0) += 1;
        drop(live);
        Registration {
            list: Arc::clone(self),
            at,
        }
    }

    /// How many registrations are live.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.lock().values().sum()
    }

    /// Whether nothing is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.lock().is_empty()
    }

    /// The registered stamps, ascending and distinct. Read every other floor first (N2).
    #[must_use]
    pub fn stamps(&self) -> Vec<Stamp> {
        self.live.lock().keys().copied().collect()
    }

    /// What a collector must keep, read in the one order that is sound: first the frontier of
    /// clock and slots, then the durable stamp, then this list.
    #[must_use]
    pub fn retention(
        &self,
        clock: &Clock,
        slots: &Slots,
        durable: impl FnOnce() -> Stamp,
    ) -> crate::Retention {
        let frontier = slots.frontier(clock);
        let durable = durable();
        crate::Retention::new(frontier, durable, self.stamps())
    }
}

/// A live snapshot's place in the list; dropping it gives its versions up.
#[derive(Debug)]
pub struct Registration {
    list: Arc<Snapshots>,
    at: Stamp,
}

impl Registration {
    /// The snapshot's time.
    #[must_use]
    #[inline]
    pub fn at(&self) -> Stamp {
        self.at
    }
}

impl Clone for Registration {
    fn clone(&self) -> Self {
        self.list.register(|| self.at)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut live = self.list.live.lock();
        if let Some(count) = live.get_mut(&self.at) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.at);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_listed_until_its_last_handle_drops() {
        let clock = Clock::new(Stamp(4), Stamp::MAX);
        let list = Snapshots::new();
        let first = list.take(&clock);
        let copy = first.clone();
        assert_eq!((first.at(), list.len()), (Stamp(4), 2));
        drop(first);
        assert_eq!(list.stamps(), [Stamp(4)]);
        drop(copy);
        assert!(list.is_empty());
    }
}
