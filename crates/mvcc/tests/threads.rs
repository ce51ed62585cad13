//! Clock and slots under threads: what one of them promises the other.
//!
//! Claims: `clock.rs` T1; `slots.rs` A3, A4.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella_base::Stamp;
use velella_mvcc::{Clock, Slots};

const WRITERS: usize = 3;
const EACH: u64 = if cfg!(miri) { 30 } else { 1_500 };

/// A clock, its windows, and which stamps were published.
struct World {
    clock: Clock,
    slots: Slots,
    published: Vec<AtomicBool>,
    writing: AtomicU64,
    /// Writers begin when everybody who watches them is there.
    start: Barrier,
}

fn sometimes_yield(stamp: Stamp) {
    if stamp.0.is_multiple_of(16) {
        velella_sync::thread::yield_now();
    }
}

impl World {
    fn new(watchers: usize) -> World {
        World {
            clock: Clock::new(Stamp::ZERO, Stamp::MAX),
            slots: Slots::new(WRITERS),
            published: (0..=WRITERS as u64 * EACH)
                .map(|_| AtomicBool::new(false))
                .collect(),
            writing: AtomicU64::new(WRITERS as u64),
            start: Barrier::new(WRITERS + watchers),
        }
    }

    /// Steps 7 to 12 of a write; sometimes its thread loses the processor in between.
    fn write_once(&self, slot: usize) {
        let bound = self.clock.lower_bound();
        sometimes_yield(bound);
        self.slots.announce(slot, bound);
        let stamp = self.clock.draw();
        sometimes_yield(stamp);
        if let Some(published) = self.published.get(usize::try_from(stamp.0).unwrap()) {
            published.store(true, Ordering::Release);
        }
        self.slots.idle(slot);
    }

    fn write(&self, slot: usize) {
        self.start.wait();
        for _ in 0..EACH {
            self.write_once(slot);
        }
        self.writing.fetch_sub(1, Ordering::Release);
    }

    fn is_over(&self) -> bool {
        self.writing.load(Ordering::Acquire) == 0
    }

    /// The stamps above `from` up to `to`, if they are all published.
    fn check(&self, from: Stamp, to: Stamp, what: &str) {
        for stamp in from.0 + 1..=to.0 {
            let is_published =
                self.published[usize::try_from(stamp).unwrap()].load(Ordering::Acquire);
            assert!(
                is_published,
                "{what} {to} passed the open window of {stamp}"
            );
        }
    }
}

#[test]
fn draws_are_dense_distinct_and_ascending_in_every_thread() {
    let clock = Clock::new(Stamp(100), Stamp::MAX);
    let draw = || -> Vec<Stamp> {
        (0..EACH)
            .map(|_| {
                let bound = clock.lower_bound();
                let stamp = clock.draw();
                assert!(bound < stamp, "step 7's bound lies below the draw");
                assert!(clock.now() >= stamp && clock.observe() >= stamp);
                stamp
            })
            .collect()
    };
    let mut all: Vec<Stamp> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(draw)).collect();
        threads
            .into_iter()
            .flat_map(|thread| {
                let drawn = thread.join().unwrap();
                assert!(drawn.is_sorted_by(|a, b| a < b));
                drawn
            })
            .collect()
    });
    all.sort_unstable();
    let expected: Vec<_> = (101..=100 + 3 * EACH).map(Stamp).collect();
    assert_eq!(all, expected, "T1: each once, none left out");
}

#[test]
fn a_lease_only_grows_whoever_extends_it() {
    let clock = Clock::new(Stamp::ZERO, Stamp(10));
    assert_eq!(clock.lease(), Stamp(10));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let clock = &clock;
            scope.spawn(move || {
                for step in 0..1_000 {
                    let lease = Stamp(step * 4 + thread);
                    clock.extend(lease);
                    assert!(clock.lease() >= lease);
                }
            });
        }
    });
    assert_eq!(clock.lease(), Stamp(999 * 4 + 3));
    clock.extend(Stamp(1));
    assert_eq!(
        clock.lease(),
        Stamp(999 * 4 + 3),
        "a late one takes nothing back"
    );
    assert_eq!(clock.now(), Stamp::ZERO, "and draws nothing");
}

#[test]
fn everything_at_or_below_a_frontier_is_published() {
    let world = World::new(2);
    std::thread::scope(|scope| {
        let world = &world;
        for slot in 0..WRITERS {
            scope.spawn(move || world.write(slot));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = Stamp::ZERO;
                world.start.wait();
                while !world.is_over() {
                    let frontier = world.slots.frontier(&world.clock);
                    assert!(frontier >= last, "A4: {frontier} after {last}");
                    world.check(last, frontier, "A3: the frontier");
                    last = frontier;
                }
            });
        }
    });
    let all = Stamp(WRITERS as u64 * EACH);
    assert_eq!(world.slots.frontier(&world.clock), all);
}

#[test]
fn a_switch_waits_until_nothing_below_it_is_open() {
    let world = World::new(1);
    std::thread::scope(|scope| {
        let world = &world;
        for slot in 0..WRITERS {
            scope.spawn(move || world.write(slot));
        }
        scope.spawn(|| {
            let mut last = Stamp::ZERO;
            world.start.wait();
            while !world.is_over() {
                let boundary = world.clock.observe();
                world.slots.wait_past(boundary);
                // Whoever draws below the boundary announced before it did.
                world.check(last, Stamp(boundary.0.saturating_sub(1)), "a switch at");
                last = last.max(Stamp(boundary.0.saturating_sub(1)));
            }
        });
    });
}

#[test]
fn slots_say_what_was_announced_last() {
    let slots = Slots::new(3);
    assert_eq!((slots.len(), slots.is_empty()), (3, false));
    assert!(Slots::new(0).is_empty());
    for slot in 0..3 {
        assert_eq!(slots.announced(slot), None);
    }
    for bound in [0, 1, Stamp::MAX.0] {
        slots.announce(1, Stamp(bound));
        assert_eq!(slots.announced(1), Some(Stamp(bound)), "0 is a bound too");
    }
    assert_eq!((slots.announced(0), slots.announced(2)), (None, None));
    slots.idle(1);
    assert_eq!(slots.announced(1), None);
}
