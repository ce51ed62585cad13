//! The list of snapshots against a bag of what was registered, for drawn sequences of calls.
//!
//! Claims: `snapshots.rs` N3, N5. Every random choice comes from the seed named when one fails.
#![cfg(not(any(loom, shuttle)))]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::sync::Arc;
use velella_base::Stamp;
use velella_mvcc::{Clock, Registration, Retention, Round, Slots, Snapshots};
use velella_sync::rng::Rng;

fn pick(rng: &mut Rng, len: usize) -> usize {
    usize::try_from(rng.below(len as u64)).unwrap()
}

/// What lives, and the list that should know it.
struct World {
    clock: Clock,
    slots: Slots,
    list: Arc<Snapshots>,
    live: Vec<Registration>,
    /// Each with the D it started from and, once it is known, its frontier.
    rounds: Vec<(Round, Stamp, Option<Stamp>)>,
    durable: Stamp,
    wall_ms: u64,
}

impl World {
    fn step(&mut self, rng: &mut Rng) {
        self.wall_ms += rng.below(3);
        match rng.below(13) {
            0..4 => drop(self.clock.draw()),
            4 | 5 => {
                let (now, wall_ms) = (self.clock.now(), self.wall_ms);
                let taken = self.list.take(&self.clock, wall_ms, || wall_ms);
                assert_eq!((taken.at(), taken.now_ms()), (now, wall_ms));
                self.live.push(taken);
            }
            6 => {
                let reader = self.list.register(|| self.durable);
                assert_eq!((reader.at(), reader.now_ms()), (self.durable, u64::MAX));
                self.live.push(reader);
            }
            7 if !self.live.is_empty() => {
                let original = &self.live[pick(rng, self.live.len())];
                let copy = original.clone();
                assert_eq!(
                    (copy.at(), copy.now_ms()),
                    (original.at(), original.now_ms())
                );
                self.live.push(copy);
            }
            8 => {
                let round = self.list.register_round(|| self.durable);
                self.rounds.push((round, self.durable, None));
            }
            10 if !self.rounds.is_empty() => {
                let round = pick(rng, self.rounds.len());
                let (round, _, to) = &mut self.rounds[round];
                if to.is_none() {
                    let frontier = self.slots.frontier(&self.clock);
                    round.aim(frontier);
                    *to = Some(frontier);
                }
            }
            9 if !self.rounds.is_empty() => {
                self.durable = self.durable.max(self.slots.frontier(&self.clock));
                drop(self.rounds.swap_remove(pick(rng, self.rounds.len())));
            }
            _ if !self.live.is_empty() => {
                drop(self.live.swap_remove(pick(rng, self.live.len())));
            }
            _ => {}
        }
    }

    fn check(&self, seed: u64) {
        let mut stamps: Vec<_> = self.live.iter().map(Registration::at).collect();
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(self.list.stamps(), stamps, "seed {seed}");
        assert_eq!(self.list.len(), self.live.len(), "seed {seed}");
        assert_eq!(self.list.is_empty(), self.live.is_empty(), "seed {seed}");
        // N5: the least D that a round without a frontier started from is the frontier.
        let frontier = self.clock.now();
        let unaimed = self.rounds.iter().filter(|(_, _, to)| to.is_none());
        let frontier = unaimed.map(|(_, from, _)| *from).fold(frontier, Stamp::min);
        for (_, from, to) in &self.rounds {
            stamps.push(*from);
            stamps.extend(*to);
        }
        let walls = self.live.iter().map(Registration::now_ms);
        let wall_ms = walls.fold(self.wall_ms, u64::min);
        let expected = Retention::new(frontier, self.durable, stamps).at_wall(wall_ms);
        let durable = || self.durable;
        let found = self
            .list
            .retention(&self.clock, &self.slots, durable, self.wall_ms);
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[test]
fn the_list_knows_whoever_lives_and_nobody_else() {
    for seed in 0..if cfg!(miri) { 2 } else { 150 } {
        let mut rng = Rng::new(seed);
        let mut world = World {
            clock: Clock::new(Stamp(3), Stamp::MAX),
            slots: Slots::new(2),
            list: Snapshots::new(),
            live: Vec::new(),
            rounds: Vec::new(),
            durable: Stamp(1),
            wall_ms: 1_000,
        };
        for _ in 0..200 {
            world.step(&mut rng);
            world.check(seed);
        }
        world.live.clear();
        world.rounds.clear();
        world.check(seed);
    }
}

#[test]
fn registrations_of_many_threads_are_all_listed_and_all_leave() {
    let clock = Clock::new(Stamp(1), Stamp::MAX);
    let list = Snapshots::new();
    // More threads than stripes, each with a stamp of its own.
    let taken: Vec<_> = (0..20)
        .map(|_| {
            clock.draw();
            std::thread::scope(|scope| scope.spawn(|| list.take(&clock, 0, || 0)).join().unwrap())
        })
        .collect();
    let expected: Vec<_> = (2..22).map(Stamp).collect();
    assert_eq!(list.stamps(), expected);
    // Dropped by other threads than took them.
    std::thread::scope(|scope| {
        for snapshot in taken {
            scope.spawn(move || drop(snapshot));
        }
    });
    assert_eq!((list.len(), list.stamps()), (0, vec![]));
}

#[test]
fn an_open_window_holds_the_frontier_of_a_collector() {
    let clock = Clock::new(Stamp(10), Stamp::MAX);
    let (list, slots) = (Snapshots::new(), Slots::new(2));
    slots.announce(1, Stamp(6));
    let retention = list.retention(&clock, &slots, || Stamp(4), 0);
    assert_eq!(retention, Retention::new(Stamp(6), Stamp(4), vec![]));
    slots.idle(1);
    let retention = list.retention(&clock, &slots, || Stamp(4), 0);
    assert_eq!(retention, Retention::new(Stamp(10), Stamp(4), vec![]));
}
