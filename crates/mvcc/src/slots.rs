//! The announced windows: one padded word per (slot, lane) pair.
//!
//! Source: cLSM's `Active` set and shared lock, YoDB's pending-put array, the grace period of a
//! memtable switch and the journal's frontier are all this one array.
//!
//! ```text
//! 0               idle
//! lb << 1 | 1     announced: "I will draw, or have drawn, a stamp above lb and am not finished"
//! ```
//! A1. A slot is announced from before its owner's stamp is drawn until after its versions are
//!     decided and its journal record is in the lane.
//! A2. Nothing that can block, fail, allocate without bound or run user code happens while
//!     announced.
//! A3. After `frontier` returned f, no write at or below f is unpublished or unjournaled.
//! A4. `frontier` never steps back, although an announced bound may be old (it is read before it is
//!     announced): a collector that kept what is newest at f would have dropped what a later, lower
//!     frontier, and with it D, reads.
//!
//! A5. A change of the set of keyspaces has a window of its own, which A2 does not bind: no
//!     frontier passes its stamp before it is durable. It holds no version, so no switch waits.
//!
//! Threads: a slot is written by the holder of its pair only; anyone may read.
//! Tests: below; `tests/loom.rs`, and the models of `memtable`, with controls that must fail.

use crate::clock::Clock;
use crate::ordering::{Site, at};
use velella_base::{Stamp, seeded};
use velella_sync::CachePadded;
use velella_sync::atomic::{AtomicU64, Ordering, spin};

const IDLE: u64 = 0;

/// The announced windows of a database.
#[derive(Debug)]
pub struct Slots {
    words: Box<[CachePadded<AtomicU64>]>,
    /// The window of a change of the set of keyspaces (A5).
    change: CachePadded<AtomicU64>,
    /// The highest frontier found so far (A4).
    settled: CachePadded<AtomicU64>,
}

impl Slots {
    /// `count` idle slots.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Slots {
            words: (0..count)
                .map(|_| CachePadded::new(AtomicU64::new(IDLE)))
                .collect(),
            change: CachePadded::new(AtomicU64::new(IDLE)),
            settled: CachePadded::new(AtomicU64::new(0)),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Opens the window of `slot` (step 7): its next stamp will be above `lower_bound`.
    #[inline]
    pub fn announce(&self, slot: usize, lower_bound: Stamp) {
        // Release, partner: the Acquire loads below. Who sees this announcement must also see the
        // publication and the lane tail of the operation before it.
        let word = lower_bound.0 << 1 | 1;
        self.words[slot].store(word, at(Site::Announce, Ordering::Release));
    }

    /// Closes the window of `slot` (step 12).
    #[inline]
    pub fn idle(&self, slot: usize) {
        // Release, partner: the Acquire loads below (A1).
        self.words[slot].store(IDLE, at(Site::Idle, Ordering::Release));
    }

    /// Opens the window of a change of the set of keyspaces and draws its stamp (A5). One at a
    /// time, which is the caller's to see to.
    pub fn begin_change(&self, clock: &Clock) -> Stamp {
        // Release, here and below, partner: the Acquire load in `frontier`. A bound before the
        // stamp (A1), then the exact one: who changes waits for everything below it.
        let bound = clock.lower_bound();
        self.change.store(bound.0 << 1 | 1, Ordering::Release);
        let stamp = clock.draw();
        let below = stamp.0.saturating_sub(1);
        // Release: as above.
        self.change.store(below << 1 | 1, Ordering::Release);
        if seeded("a-change-of-keyspaces-has-no-window") {
            self.end_change();
        }
        stamp
    }

    /// Closes that window.
    pub fn end_change(&self) {
        // Release, partner: the Acquire load in `frontier`.
        self.change.store(IDLE, Ordering::Release);
    }

    /// The announced lower bound of `slot`, or `None` if it is idle.
    #[inline]
    #[must_use]
    pub fn announced(&self, slot: usize) -> Option<Stamp> {
        // Acquire, partners: `announce`, `idle`.
        let word = self.words[slot].load(at(Site::Announced, Ordering::Acquire));
        (word != IDLE).then_some(Stamp(word >> 1))
    }

    /// The newest stamp such that every write at or below it is published and journaled (A3, A4).
    #[must_use]
    pub fn frontier(&self, clock: &Clock) -> Stamp {
        // The clock before the slots: a stamp drawn in between is then above the result, or its
        // announcement is seen.
        let now = clock.now();
        // Acquire, partners: `begin_change`, `end_change`.
        let change = self.change.load(Ordering::Acquire);
        let change = (change != IDLE).then_some(Stamp(change >> 1));
        let found = (0..self.words.len())
            .filter_map(|slot| self.announced(slot))
            .chain(change)
            .filter(|_| !seeded("the-frontier-passes-open-windows"))
            .fold(now, Stamp::min);
        // AcqRel, partner: itself. What made a higher frontier true elsewhere, its finder saw; who
        // takes it over sees it too.
        let settled = self
            .settled
            .fetch_max(found.0, at(Site::Settled, Ordering::AcqRel));
        found.max(Stamp(settled))
    }

    /// Waits until no open window can hold a stamp below `boundary` (a switch's W). Windows are
    /// constant and short, so this spins, then yields.
    pub fn wait_past(&self, boundary: Stamp) {
        if seeded("a-switch-does-not-wait-for-announced-slots") {
            return;
        }
        for slot in 0..self.words.len() {
            let mut turns = 0u32;
            while self
                .announced(slot)
                .is_some_and(|lower_bound| lower_bound < boundary)
            {
                turns += 1;
                if turns < 100 {
                    spin();
                } else {
                    velella_sync::thread::yield_now();
                }
            }
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_frontier_never_steps_back() {
        let clock = Clock::new(Stamp(10), Stamp::MAX);
        let slots = Slots::new(1);
        assert_eq!(slots.frontier(&clock), Stamp(10));
        // The bound was read long before it is announced.
        slots.announce(0, Stamp(7));
        assert_eq!(slots.frontier(&clock), Stamp(10));
    }

    #[test]
    fn the_frontier_stays_below_a_change_until_that_is_over() {
        let clock = Clock::new(Stamp(10), Stamp::MAX);
        let slots = Slots::new(1);
        let stamp = slots.begin_change(&clock);
        clock.draw();
        assert_eq!((stamp, slots.frontier(&clock)), (Stamp(11), Stamp(10)));
        // No switch waits for it.
        slots.wait_past(Stamp(12));
        slots.end_change();
        assert_eq!(slots.frontier(&clock), Stamp(12));
    }

    #[test]
    fn the_frontier_is_the_clock_or_the_lowest_announcement() {
        let clock = Clock::new(Stamp(10), Stamp::MAX);
        let slots = Slots::new(3);
        slots.announce(1, Stamp(7));
        slots.announce(2, Stamp(9));
        assert_eq!(slots.frontier(&clock), Stamp(7));
        slots.idle(1);
        assert_eq!(slots.frontier(&clock), Stamp(9));
        slots.idle(2);
        assert_eq!(slots.frontier(&clock), Stamp(10));
        slots.wait_past(Stamp(9));
    }
}
