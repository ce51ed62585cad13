//! Whatever happens while a collector makes up its mind, nobody loses what he stands on.
//!
//! A collector reads frontier, rounds, D, then the list. Others run before, between and after: the
//! test lets drawn steps of writers, journal rounds and readers happen inside the call by which D
//! is read, which lies between the first two and the last.
//!
//! Claims: `snapshots.rs` N1, N2, N5; `slots.rs` A4, A5. Every random choice comes from the seed
//! named when one fails.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::cell::RefCell;
use std::sync::Arc;
use velella_base::Stamp;
use velella_mvcc::{Clock, Registration, Retention, Round, Slots, Snapshots};
use velella_sync::rng::Rng;

const SLOTS: usize = 2;
const SEEDS: u64 = if cfg!(miri) { 50 } else { 20_000 };

/// How far a write has come.
#[derive(Debug, Clone, Copy)]
enum Write {
    Idle,
    /// It has read a lower bound, which may be old by the time it is announced.
    Bound(Stamp),
    Announced,
    Drawn,
}

/// How far a journal round has come.
#[derive(Debug)]
enum Sync {
    Idle,
    Registered(Round),
    /// It has its frontier.
    Read(Round, Stamp),
    /// It has said so, and writes to the device.
    Writing(Round, Stamp),
    /// D has moved.
    Moved(Round),
}

/// Everybody but the collector.
struct Others<'a> {
    clock: &'a Clock,
    slots: &'a Slots,
    list: &'a Arc<Snapshots>,
    rng: Rng,
    writes: [Write; SLOTS],
    sync: Sync,
    /// A round before, of which the list still knows.
    last: Option<Round>,
    changing: bool,
    durable: Stamp,
    wall_ms: u64,
    readers: Vec<Registration>,
}

impl Others<'_> {
    fn steps(&mut self, most: u64) {
        for _ in 0..self.rng.below(most + 1) {
            self.step();
        }
    }

    fn step(&mut self) {
        self.wall_ms += 1;
        match self.rng.below(10) {
            0..3 => self.write(),
            3..6 => self.sync(),
            6 => {
                let wall_ms = self.wall_ms;
                let snapshot = self.list.take(self.clock, wall_ms, || wall_ms);
                self.readers.push(snapshot);
            }
            7 => {
                let durable = self.durable;
                self.readers.push(self.list.register(|| durable));
            }
            8 if !self.readers.is_empty() => {
                let at = usize::try_from(self.rng.below(self.readers.len() as u64)).unwrap();
                // A clone stands where its original stood, also when that goes.
                let copy = self.readers[at].clone();
                drop(self.readers.swap_remove(at));
                if self.rng.below(2) == 0 {
                    self.readers.push(copy);
                }
            }
            _ => {
                match self.changing {
                    true => self.slots.end_change(),
                    false => drop(self.slots.begin_change(self.clock)),
                }
                self.changing = !self.changing;
            }
        }
    }

    /// One step of one writer.
    fn write(&mut self) {
        let slot = usize::try_from(self.rng.below(SLOTS as u64)).unwrap();
        self.writes[slot] = match self.writes[slot] {
            Write::Idle => Write::Bound(self.clock.lower_bound()),
            Write::Bound(bound) => {
                self.slots.announce(slot, bound);
                Write::Announced
            }
            Write::Announced => {
                self.clock.draw();
                Write::Drawn
            }
            Write::Drawn => {
                self.slots.idle(slot);
                Write::Idle
            }
        };
    }

    /// One step of the journal's rounds.
    fn sync(&mut self) {
        let durable = self.durable;
        self.sync = match std::mem::replace(&mut self.sync, Sync::Idle) {
            Sync::Idle => Sync::Registered(self.list.register_round(|| durable)),
            Sync::Registered(round) => Sync::Read(round, self.slots.frontier(self.clock)),
            Sync::Read(mut round, frontier) => {
                round.aim(frontier);
                Sync::Writing(round, frontier)
            }
            // It failed: D stays, and nothing that was read at it is lost.
            Sync::Writing(round, _) if self.rng.below(4) == 0 => {
                drop(round);
                Sync::Idle
            }
            Sync::Writing(round, frontier) => {
                assert!(frontier >= durable, "A4: D would step back");
                self.durable = frontier;
                Sync::Moved(round)
            }
            // The next one may begin while this one is still listed.
            Sync::Moved(round) => {
                self.last = (self.rng.below(2) == 0).then_some(round);
                Sync::Idle
            }
        };
    }

    /// Whether the version at `at` stays, every stamp so far being a version of one key.
    fn keeps(&self, kept: &Retention, at: Stamp) -> bool {
        let mut key = kept.key();
        let newest_first = (at.0..=self.clock.now().0).rev();
        newest_first.map(|stamp| key.keeps(Stamp(stamp))).last() == Some(true)
    }

    /// Each reader stands on the version of its very time.
    fn check(&self, kept: &Retention, seed: u64) {
        for reader in &self.readers {
            let at = reader.at();
            assert!(
                self.keeps(kept, at),
                "seed {seed}: the reader at {at} lost it to {kept:?}"
            );
            let (by, expired) = (reader.now_ms(), kept.now_ms());
            assert!(
                expired <= by,
                "seed {seed}: it reads by {by}, {expired} expired"
            );
        }
        // And whoever comes: at D, or with a snapshot.
        for at in [self.durable, self.clock.now()] {
            assert!(
                self.keeps(kept, at),
                "seed {seed}: {at} is lost to who comes, {kept:?}"
            );
        }
    }
}

#[test]
fn nobody_loses_a_version_to_a_collector_whatever_happens_meanwhile() {
    for seed in 0..SEEDS {
        let clock = Clock::new(Stamp(3), Stamp::MAX);
        let (slots, list) = (Slots::new(SLOTS), Snapshots::new());
        let others = RefCell::new(Others {
            clock: &clock,
            slots: &slots,
            list: &list,
            rng: Rng::new(seed),
            writes: [Write::Idle; SLOTS],
            sync: Sync::Idle,
            last: None,
            changing: false,
            durable: Stamp(1),
            wall_ms: 100,
            readers: Vec::new(),
        });
        others.borrow_mut().steps(30);
        let now_ms = others.borrow().wall_ms;
        let durable = || {
            let mut others = others.borrow_mut();
            others.steps(6);
            let durable = others.durable;
            others.steps(6);
            durable
        };
        let kept = list.retention(&clock, &slots, durable, now_ms);
        let mut others = others.borrow_mut();
        others.check(&kept, seed);
        for _ in 0..8 {
            others.step();
            others.check(&kept, seed);
        }
    }
}
