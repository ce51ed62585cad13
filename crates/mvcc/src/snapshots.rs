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
//! N4. A round registers the D it starts from as a lower bound: the D it will end with is not known
//!     yet, so everything above the bound stays. It is in the list before the round reads its
//!     frontier, and until D has moved; a collector reads D while it holds the list. So it sees
//!     the round, or the D the round left, or the round's frontier is not below its own.
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
    /// How many of them are lower bounds of a stamp to come (N4).
    bounds: usize,
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
        self.enter(|| clock.observe(), now_ms, false)
    }

    /// Registers a reader at a time read by `at` while the list is held: one that reads at the
    /// durable stamp.
    #[must_use]
    pub fn register(self: &Arc<Self>, at: impl FnOnce() -> Stamp) -> Registration {
        self.enter(at, || u64::MAX, false)
    }

    /// Registers a journal round that starts from D, which `durable` reads while the list is held;
    /// to be dropped once D has moved (N4).
    #[must_use]
    pub fn register_round(self: &Arc<Self>, durable: impl FnOnce() -> Stamp) -> Registration {
        self.enter(durable, || u64::MAX, true)
    }

    fn enter(
        self: &Arc<Self>,
        at: impl FnOnce() -> Stamp,
        now_ms: impl FnOnce() -> u64,
        is_bound: bool,
    ) -> Registration {
        let mut live = self.live.lock();
        let now_ms = now_ms();
        let at = at();
        let point = live.entry(at).or_insert(Point {
            registrations: 0,
            bounds: 0,
            now_ms,
        });
        point.registrations += 1;
        point.bounds += usize::from(is_bound);
        point.now_ms = point.now_ms.min(now_ms);
        drop(live);
        Registration {
            list: Arc::clone(self),
            at,
            now_ms,
            is_bound,
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
    /// clock and slots, then the list, and `durable` while the list is held (N2, N4). `now_ms` is
    /// the wall clock; what is expired by it and by every live snapshot's counts as deleted.
    #[must_use]
    pub fn retention(
        &self,
        clock: &Clock,
        slots: &Slots,
        durable: impl FnOnce() -> Stamp,
        now_ms: u64,
    ) -> Retention {
        let frontier = slots.frontier(clock);
        let live = self.live.lock();
        let durable = durable();
        let bound = live.iter().find(|(_, point)| point.bounds > 0);
        // Everything above the bound stays: for what may be dropped the bound is the frontier.
        let frontier = bound.map_or(frontier, |(bound, _)| frontier.min(*bound));
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
    is_bound: bool,
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
        self.list.enter(|| self.at, || self.now_ms, self.is_bound)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut live = self.list.live.lock();
        if let Some(point) = live.get_mut(&self.at) {
            point.registrations -= 1;
            point.bounds -= usize::from(self.is_bound);
            if point.registrations == 0 {
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
        let first = list.take(&clock, || 500);
        let copy = first.clone();
        assert_eq!((first.at(), list.len()), (Stamp(4), 2));
        drop(first);
        assert_eq!(list.stamps(), [Stamp(4)]);
        drop(copy);
        assert!(list.is_empty());
    }

    #[test]
    fn while_a_round_is_in_flight_everything_above_the_d_it_started_from_stays() {
        let clock = Clock::new(Stamp(4), Stamp::MAX);
        let (list, slots) = (Snapshots::new(), Slots::new(1));
        let kept = |durable| {
            let retention = list.retention(&clock, &slots, || Stamp(durable), 0);
            let mut key = retention.key();
            let kept = |stamp: &u64| key.keeps(Stamp(*stamp));
            [4, 3, 2, 1].into_iter().filter(kept).collect::<Vec<_>>()
        };
        assert_eq!(kept(1), [4, 1]);
        // It may end with any D from 1 to 4.
        let round = list.register_round(|| Stamp(1));
        let reader = list.register(|| Stamp(1));
        assert_eq!(kept(1), [4, 3, 2, 1]);
        drop(round);
        assert_eq!(kept(3), [4, 3, 1], "D, and the reader that stays at 1");
        drop(reader);
        assert_eq!(kept(3), [4, 3]);
    }

    #[test]
    fn nothing_expires_under_a_live_snapshot() {
        let clock = Clock::new(Stamp(4), Stamp::MAX);
        let (list, slots) = (Snapshots::new(), Slots::new(1));
        let wall =
            |list: &Arc<Snapshots>| list.retention(&clock, &slots, || Stamp(4), 900).now_ms();
        let round = list.register_round(|| Stamp(2));
        assert_eq!(wall(&list), 900);
        let reader = list.take(&clock, || 500);
        assert_eq!(wall(&list), 500);
        drop((reader, round));
        assert_eq!(wall(&list), 900);
    }
}
