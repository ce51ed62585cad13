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
//! N4. The list is striped by thread, each stripe behind a lock of its own: what N1 and N2 say of
//!     the list holds of each stripe, and so of all. A registration and its clones stay in one
//!     stripe: a collector that goes over the stripes cannot miss a time that moves.
//! N5. A round registers the D it starts from as a lower bound: the D it will end with is not known
//!     yet, so everything above the bound stays. It is listed before it reads its frontier, and
//!     until D has moved. Once it has its frontier it says so (`aim`): D will be where it was or
//!     there, so from then on these two are read, and nothing between them; a device may take long
//!     to sync. A collector reads its frontier, then the rounds, then D, then the list.
//!     So it sees the round, or the D the round left, or the round's frontier is not below its
//!     own (`slots.rs`, A4); and a reader at D that it misses came later, at that D or above it.
//! N6. A snapshot's wall clock and stamp are of one moment: the wall clock, which never steps back,
//!     says after the stamp was read what it had said before. Between two moments a value could
//!     expire and be seen so, and a later write be seen with the value alive.
//! N7. What a collector takes away as expired no open window saw alive: an update looks at the wall
//!     clock in its window. So every window must have closed that may have been open when the
//!     collector read it, or nothing counts as expired this time.
//!
//! Threads: any. The stripes' locks are taken by no get and no put; taking a snapshot is one lock
//! that threads rarely share, most often one clock operation, and no allocation once the stripe has
//! had as many registrations.
//! Tests: below; `cl11_snapshot_vs_flush` and `protocol_pruning` in the engine.

use crate::clock::Clock;
use crate::retention::Retention;
use crate::slots::Slots;
use std::sync::Arc;
use velella_base::{Stamp, seeded};
use velella_sync::atomic::spin;
use velella_sync::lock::Mutex;
use velella_sync::{CachePadded, thread};

const STRIPES: usize = 8;
/// How often a collector looks whether the windows have closed that it has to wait for (N7).
const TURNS: usize = if cfg!(any(loom, shuttle)) { 0 } else { 100 };

/// The stamps that live snapshots, durable readers and journal rounds still need.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// The rounds in flight (N5); there are few.
    rounds: Mutex<Vec<InFlight>>,
    stripes: [CachePadded<Mutex<Stripe>>; STRIPES],
}

/// Registrations of some threads, in places that are used again.
#[derive(Debug, Default)]
struct Stripe {
    places: Vec<Option<Point>>,
    /// Places without a registration.
    free: Vec<usize>,
}

/// What a round in flight may leave D at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct InFlight {
    from: Stamp,
    /// Its frontier, once that is known.
    to: Option<Stamp>,
}

/// A stamp that is still read.
#[derive(Debug, Clone, Copy)]
struct Point {
    at: Stamp,
    /// The wall clock that the registration reads by, milliseconds since 1970.
    now_ms: u64,
}

impl Stripe {
    fn live(&self) -> impl Iterator<Item = &Point> {
        self.places.iter().flatten()
    }

    fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    fn enter(&mut self, point: Point) -> usize {
        if let Some(place) = self.free.pop() {
            self.places[place] = Some(point);
            return place;
        }
        self.places.push(Some(point));
        self.places.len() - 1
    }

    fn leave(&mut self, place: usize) {
        self.places[place] = None;
        self.free.push(place);
        if self.free.len() == self.places.len() {
            // Collectors go over all places: a burst of registrations shall not cost them forever.
            self.places.clear();
            self.free.clear();
        }
    }
}

impl Snapshots {
    /// No snapshot yet.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::new(Snapshots::default())
    }

    /// Takes a snapshot that expires values by the wall clock as `now_ms` reads it, which said
    /// `said_ms` before: everything acknowledged before this call is in it, and nothing with a
    /// stamp above its time. Reading the wall clock takes longer than all the rest; most often what
    /// it said for somebody else in the same millisecond spares a reading (N6).
    #[must_use]
    pub fn take(
        self: &Arc<Self>,
        clock: &Clock,
        said_ms: u64,
        now_ms: impl Fn() -> u64,
    ) -> Registration {
        Registration::take(Arc::clone(self), clock, said_ms, now_ms)
    }

    /// Registers a reader at a time read by `at` while the list is held: one that reads at the
    /// durable stamp.
    #[must_use]
    pub fn register(self: &Arc<Self>, at: impl Fn() -> Stamp) -> Registration {
        let list = Arc::clone(self);
        Registration::enter(list, stripe(), at, u64::MAX, || u64::MAX)
    }

    /// Registers a journal round that starts from D, which `durable` reads while the rounds are
    /// held; to be dropped once D has moved (N5).
    #[must_use]
    pub fn register_round(self: &Arc<Self>, durable: impl FnOnce() -> Stamp) -> Round {
        let mut rounds = self.rounds.lock();
        let from = durable();
        let state = InFlight { from, to: None };
        rounds.push(state);
        drop(rounds);
        Round {
            list: Arc::clone(self),
            state,
        }
    }

    /// How many registrations are live.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stripes.iter().map(|stripe| stripe.lock().len()).sum()
    }

    /// Whether nothing is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The registered stamps, ascending and distinct. Read every other floor first (N2).
    #[must_use]
    pub fn stamps(&self) -> Vec<Stamp> {
        self.collect().0
    }

    /// The registered stamps, ascending and distinct, and the earliest wall clock.
    fn collect(&self) -> (Vec<Stamp>, u64) {
        let mut stamps = Vec::new();
        let mut earliest_ms = u64::MAX;
        for stripe in &self.stripes {
            for point in stripe.lock().live() {
                stamps.push(point.at);
                earliest_ms = earliest_ms.min(point.now_ms);
            }
        }
        stamps.sort_unstable();
        stamps.dedup();
        (stamps, earliest_ms)
    }

    /// What a collector must keep, read in the one order that is sound: first the frontier of
    /// clock and slots, then the rounds in flight, then the durable stamp, then this list (N2, N5).
    /// `now_ms` is the wall clock, read before; what is expired by it and by every live snapshot's
    /// counts as deleted (N7).
    #[must_use]
    pub fn retention(
        &self,
        clock: &Clock,
        slots: &Slots,
        durable: impl FnOnce() -> Stamp,
        now_ms: u64,
    ) -> Retention {
        let read = clock.observe();
        let mut frontier = slots.frontier(clock);
        for _ in 0..TURNS {
            if frontier >= read {
                break;
            }
            spin();
            frontier = slots.frontier(clock);
        }
        // N7.
        let now_ms = if frontier >= read { now_ms } else { 0 };
        velella_sync::spot(26);
        let rounds = self.rounds.lock().clone();
        velella_sync::spot(27);
        let unaimed = rounds.iter().filter(|round| round.to.is_none());
        // Everything above their bound stays: for what may be dropped the bound is the frontier.
        let frontier = unaimed.map(|round| round.from).fold(frontier, Stamp::min);
        let durable = durable();
        velella_sync::spot(28);
        let (mut stamps, earliest_ms) = self.collect();
        for round in rounds {
            // Where it started from is D, or somebody is registered there: to be plain.
            stamps.extend([Some(round.from), round.to].into_iter().flatten());
        }
        Retention::new(frontier, durable, stamps).at_wall(now_ms.min(earliest_ms))
    }
}

/// The stripe where this thread registers.
#[inline]
fn stripe() -> usize {
    thread::ordinal() % STRIPES
}

impl AsRef<Snapshots> for Snapshots {
    fn as_ref(&self) -> &Snapshots {
        self
    }
}

/// A live snapshot's place in the list; dropping it gives its versions up.
///
/// It owns the list, or what the list is a part of: who is an owner of that anyway is spared a
/// count that all threads share.
#[derive(Debug)]
pub struct Registration<L: AsRef<Snapshots> = Snapshots> {
    list: Arc<L>,
    stripe: usize,
    place: usize,
    at: Stamp,
    now_ms: u64,
}

impl<L: AsRef<Snapshots>> Registration<L> {
    /// As [`Snapshots::take`], in the list of `list`.
    #[must_use]
    pub fn take(list: Arc<L>, clock: &Clock, said_ms: u64, now_ms: impl Fn() -> u64) -> Self {
        // N1 by mutual exclusion: a collector reads the list under the same lock, so it sees
        // either nothing (and its frontier, read before, is at or below our time, since `observe`
        // comes after its `now`) or the final registration. The same goes for the wall clock:
        // read before the lock, it could lie below that of a collector that saw no snapshot.
        Self::enter(list, stripe(), || clock.observe(), said_ms, now_ms)
    }

    fn enter(
        list: Arc<L>,
        stripe: usize,
        at: impl Fn() -> Stamp,
        said_ms: u64,
        now_ms: impl Fn() -> u64,
    ) -> Self {
        let mut places = (*list).as_ref().stripes[stripe].lock();
        let mut before_ms = said_ms;
        let (at, now_ms) = loop {
            velella_sync::spot(22);
            let at = at();
            let after_ms = now_ms();
            if after_ms == before_ms || seeded("a-snapshot-believes-an-old-clock") {
                break (at, before_ms);
            }
            // N6: time went on meanwhile.
            before_ms = after_ms;
        };
        let place = places.enter(Point { at, now_ms });
        drop(places);
        Registration {
            list,
            stripe,
            place,
            at,
            now_ms,
        }
    }

    /// What it owns: the list, or what that is a part of.
    #[must_use]
    #[inline]
    pub fn owned(&self) -> &Arc<L> {
        &self.list
    }

    /// The snapshot's time.
    #[must_use]
    #[inline]
    pub fn at(&self) -> Stamp {
        self.at
    }

    /// The wall clock it reads by, milliseconds since 1970.
    #[must_use]
    #[inline]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }
}

impl<L: AsRef<Snapshots>> Clone for Registration<L> {
    fn clone(&self) -> Self {
        let list = Arc::clone(&self.list);
        // N4: where this one keeps its time from being missed.
        Self::enter(list, self.stripe, || self.at, self.now_ms, || self.now_ms)
    }
}

impl<L: AsRef<Snapshots>> Drop for Registration<L> {
    fn drop(&mut self) {
        let list: &Snapshots = (*self.list).as_ref();
        list.stripes[self.stripe].lock().leave(self.place);
    }
}

/// A journal round in flight; dropping it says that D has moved, or will not.
#[derive(Debug)]
pub struct Round {
    list: Arc<Snapshots>,
    state: InFlight,
}

impl Round {
    /// Says where D will be if the round succeeds: at the `frontier` that was read after it had
    /// been registered, or where it is (N5). Once a round; a further frontier takes a further
    /// registration.
    pub fn aim(&mut self, frontier: Stamp) {
        debug_assert_eq!(
            self.state.to, None,
            "N5: whatever it aimed at may be D by now"
        );
        let aimed = InFlight {
            to: Some(frontier),
            ..self.state
        };
        let mut rounds = self.list.rounds.lock();
        // Which of several alike is this one makes no difference.
        if let Some(round) = rounds.iter_mut().find(|round| **round == self.state) {
            *round = aimed;
        }
        self.state = aimed;
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        let mut rounds = self.list.rounds.lock();
        if let Some(place) = rounds.iter().position(|round| *round == self.state) {
            rounds.swap_remove(place);
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
        let first = list.take(&clock, 500, || 500);
        let copy = first.clone();
        assert_eq!((first.at(), list.len()), (Stamp(4), 2));
        drop(first);
        assert_eq!(list.stamps(), [Stamp(4)]);
        drop(copy);
        assert!(list.is_empty());
    }

    #[test]
    fn places_are_used_again_and_threads_do_not_share_them() {
        let clock = Clock::new(Stamp(4), Stamp::MAX);
        let list = Snapshots::new();
        let kept = list.take(&clock, 500, || 500);
        for _ in 0..1_000 {
            drop((list.take(&clock, 500, || 500), kept.clone()));
        }
        let places = |list: &Snapshots| -> usize {
            let of = |stripe: &CachePadded<Mutex<Stripe>>| stripe.lock().places.len();
            list.stripes.iter().map(of).sum()
        };
        assert_eq!((list.len(), places(&list)), (1, 3));
        // A clone that another thread makes stays beside its original (N4).
        let copy = std::thread::scope(|scope| scope.spawn(|| kept.clone()).join().unwrap());
        assert_eq!(copy.stripe, kept.stripe);
        drop(kept);
        assert_eq!(list.stamps(), [Stamp(4)]);
        drop(copy);
        assert_eq!((list.len(), places(&list)), (0, 0));
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
    fn once_a_round_has_its_frontier_nothing_stays_between_that_and_d() {
        let clock = Clock::new(Stamp(9), Stamp::MAX);
        let (list, slots) = (Snapshots::new(), Slots::new(1));
        let kept = |durable| {
            let retention = list.retention(&clock, &slots, || Stamp(durable), 0);
            let mut key = retention.key();
            let kept = |stamp: &u64| key.keeps(Stamp(*stamp));
            (1..=9).rev().filter(kept).collect::<Vec<_>>()
        };
        let mut round = list.register_round(|| Stamp(2));
        round.aim(Stamp(6));
        assert_eq!(kept(2), [9, 6, 2]);
        let another = list.register_round(|| Stamp(2));
        assert_eq!(kept(2), [9, 8, 7, 6, 5, 4, 3, 2], "it may leave D anywhere");
        drop(another);
        assert_eq!(kept(6), [9, 6, 2]);
        drop(round);
        assert_eq!(kept(6), [9, 6]);
    }

    #[test]
    fn the_wall_clock_and_the_stamp_of_a_snapshot_are_of_one_moment() {
        let clock = Clock::new(Stamp(4), Stamp::MAX);
        let list = Snapshots::new();
        let readings = std::cell::Cell::new(0);
        // Once the stamp was read time has gone on, and right after somebody writes.
        let now_ms = || {
            readings.set(readings.get() + 1);
            if readings.get() == 1 {
                clock.draw();
            }
            900
        };
        let snapshot = list.take(&clock, 500, now_ms);
        assert_eq!((snapshot.now_ms(), snapshot.at()), (900, Stamp(5)));
        assert_eq!(readings.get(), 2);
        // Nothing happened in between: once is enough.
        drop(list.take(&clock, 900, now_ms));
        assert_eq!(readings.get(), 3);
    }

    #[test]
    fn nothing_expires_while_a_window_is_open_that_may_have_seen_it_alive() {
        let clock = Clock::new(Stamp(4), Stamp::MAX);
        let (list, slots) = (Snapshots::new(), Slots::new(1));
        let wall = || list.retention(&clock, &slots, || Stamp(4), 900).now_ms();
        slots.announce(0, clock.lower_bound());
        clock.draw();
        assert_eq!(wall(), 0);
        slots.idle(0);
        assert_eq!(wall(), 900);
    }

    #[test]
    fn nothing_expires_under_a_live_snapshot() {
        let clock = Clock::new(Stamp(4), Stamp::MAX);
        let (list, slots) = (Snapshots::new(), Slots::new(1));
        let wall =
            |list: &Arc<Snapshots>| list.retention(&clock, &slots, || Stamp(4), 900).now_ms();
        let round = list.register_round(|| Stamp(2));
        assert_eq!(wall(&list), 900);
        let reader = list.take(&clock, 500, || 500);
        assert_eq!(wall(&list), 500);
        drop((reader, round));
        assert_eq!(wall(&list), 900);
    }
}
