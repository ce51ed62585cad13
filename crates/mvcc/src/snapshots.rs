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
use crate::retention::Retention;
use crate::slots::Slots;
use std::collections::BTreeMap;
use std::sync::Arc;
use velella_base::Stamp;
use velella_sync::lock::Mutex;

/// The stamps that live snapshots, durable readers and journal rounds still need.
#[derive(Debug, Default)]
pub struct Snapshots {
    live: Mutex<BTreeMap<Stamp, Point>>,
}

/// A stamp that is still read.
#[derive(Debug)]
struct Point {
    registrations: usize,
    /// The earliest wall clock that a registration here reads by, milliseconds since 1970.
    now_ms: u64,
}

impl Snapshots {
    /// No snapshot yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Snapshots {
            live: Mutex::new(BTreeMap::new()),
        })
    }

    /// Takes a snapshot that expires values by the wall clock as `now_ms` reads it: everything
    /// acknowledged before this call is in it, and nothing with a stamp above its time.
    #[must_use]
    pub fn take(self: &Arc<Self>, clock: &Clock, now_ms: impl FnOnce() -> u64) -> Registration {
        // N1 by mutual exclusion: a collector reads the list under the same lock, so it sees
        // either nothing (and its frontier, read before, is at or below our time, since `observe`
        // comes after its `now`) or the final registration. The same goes for the wall clock:
        // read before the lock, it could lie below that of a collector that saw no snapshot.
        self.enter(|| clock.observe(), now_ms)
    }

    /// Registers a reader at a time read by `at` while the list is held; used for durable reads
    /// and by journal rounds.
    #[must_use]
    pub fn register(self: &Arc<Self>, at: impl FnOnce() -> Stamp) -> Registration {
        self.enter(at, || u64::MAX)
    }

    fn enter(
        self: &Arc<Self>,
        at: impl FnOnce() -> Stamp,
        now_ms: impl FnOnce() -> u64,
    ) -> Registration {
        let mut live = self.live.lock();
        let now_ms = now_ms();
        let at = at();
        let point = live.entry(at).or_insert(Point {
            registrations: 0,
            now_ms,
        });
        point.registrations += 1;
        point.now_ms = point.now_ms.min(now_ms);
        drop(live);
        Registration {
            list: Arc::clone(self),
            at,
            now_ms,
        }
    }

    /// How many registrations are live.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live
            .lock()
            .values()
            .map(|point| point.registrations)
            .sum()
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
    /// clock and slots, then the durable stamp, then this list. `now_ms` is the wall clock; what
    /// is expired by it and by every live snapshot's counts as deleted.
    #[must_use]
    pub fn retention(
        &self,
        clock: &Clock,
        slots: &Slots,
        durable: impl FnOnce() -> Stamp,
        now_ms: u64,
    ) -> Retention {
        let frontier = slots.frontier(clock);
        let durable = durable();
        let live = self.live.lock();
        let now_ms = live
            .values()
            .map(|point| point.now_ms)
            .fold(now_ms, u64::min);
        Retention::new(frontier, durable, live.keys().copied().collect()).at_wall(now_ms)
    }
}

/// A live snapshot's place in the list; dropping it gives its versions up.
#[derive(Debug)]
pub struct Registration {
    list: Arc<Snapshots>,
    at: Stamp,
    now_ms: u64,
}

impl Registration {
    /// The snapshot's time.
    #[must_use]
    #[inline]
    pub fn at(&self) -> Stamp {
        self.at
    }

    /// The wall clock it reads by, milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }
}

impl Clone for Registration {
    fn clone(&self) -> Self {
        self.list.enter(|| self.at, || self.now_ms)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut live = self.list.live.lock();
        if let Some(point) = live.get_mut(&self.at) {
            point.registrations -= 1;
            if point.registrations == 0 {
                live.remove(&self.at);
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_listed_until_its_last_handle_drops() {
        let clock = Clock::new(Stamp(4), Stamp::MAX);
        let list = Snapshots::new();
        let first = list.take(&clock, || 500);
        let copy = first.clone();
        assert_eq!((first.at(), list.len()), (Stamp(4), 2));
        drop(first);
        assert_eq!(list.stamps(), [Stamp(4)]);
        drop(copy);
        assert!(list.is_empty());
    }

    #[test]
    fn nothing_expires_under_a_live_snapshot() {
        let clock = Clock::new(Stamp(4), Stamp::MAX);
        let (list, slots) = (Snapshots::new(), Slots::new(1));
        let wall =
            |list: &Arc<Snapshots>| list.retention(&clock, &slots, || Stamp(4), 900).now_ms();
        let round = list.register(|| Stamp(2));
        assert_eq!(wall(&list), 900);
        let reader = list.take(&clock, || 500);
        assert_eq!(wall(&list), 500);
        drop((reader, round));
        assert_eq!(wall(&list), 900);
    }
}
