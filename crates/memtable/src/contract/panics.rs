//! A panic of the user's order, at every comparison of a write, harms nobody: no key stays
//! undecided, and the next write goes on.
//!
//! The panics unwind; where a panic aborts, nobody is left to be harmed.

use super::Make;
use super::World;
use super::world::{at, put};
use crate::{BatchCell, Newest, Owner};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use velella_base::Order;
use velella_sync::epoch;

thread_local! {
    /// Comparisons of this thread until one panics; 0: none does.
    static FUSE: Cell<u64> = const { Cell::new(0) };
}

/// Bytewise, but for the fuse.
fn order() -> Order {
    Order::custom("panicking", |a, b| {
        let left = FUSE.get();
        FUSE.set(left.saturating_sub(1));
        if left == 1 {
            // Unwinds as a panic does, and says nothing.
            resume_unwind(Box::new("a user's mistake"));
        }
        a.cmp(b)
    })
}

/// Runs `work` with a panic at its first comparison, its second, and so on, until it ends.
fn at_every_comparison(mut work: impl FnMut(u64)) {
    for nth in 1.. {
        FUSE.set(nth);
        let outcome = catch_unwind(AssertUnwindSafe(|| work(nth)));
        let blown = FUSE.replace(0) == 0;
        if outcome.is_ok() && !blown {
            return;
        }
    }
}

/// Nobody would wait for `key`.
fn is_decided(world: &World, key: &[u8]) -> bool {
    let guard = epoch::pin();
    let newest = world.table.newest(key, &guard);
    matches!(newest, Newest::Decided(..)) && world.table.undecided(key, &guard).is_none()
}

/// Keys are drawn so that some get towers, whose linking compares again after the version is in.
fn name(round: u64, nth: u64) -> Vec<u8> {
    format!("{:03}-{round}-{nth}", (round * 7 + nth * 13) % 101).into_bytes()
}

fn single_writes_are_taken_back(world: &World) {
    for round in 0..if cfg!(miri) { 2 } else { 12 } {
        let mut tried = Vec::new();
        at_every_comparison(|nth| {
            let key = name(round, nth);
            tried.push(key.clone());
            world.put(0, &key, b"v");
        });
        for key in tried {
            assert!(is_decided(world, &key), "{key:?} stays undecided");
            let stamp = world.put(0, &key, b"w");
            assert_eq!(world.value(&key, at(stamp)).unwrap(), b"w");
        }
    }
}

fn batches_are_taken_back_whole(world: &World) {
    at_every_comparison(|nth| {
        let keys = [b"a", b"m", b"z"].map(|key| [&key[..], &nth.to_be_bytes()].concat());
        let whole = catch_unwind(AssertUnwindSafe(|| {
            let guard = epoch::pin();
            let cell = BatchCell::new(0);
            let install = |key: &Vec<u8>| {
                world
                    .install(&put(key, b"v"), Owner::Batch(&cell), None, &guard)
                    .expect("nothing was expected")
            };
            let mut pendings = Vec::new();
            keys.iter().for_each(|key| pendings.push(install(key)));
            let (_, ()) = world.window(0, |stamp| cell.decide(Some(stamp)));
            cell.settle(pendings, &guard);
        }));
        if whole.is_ok() {
            return;
        }
        for key in &keys {
            assert!(is_decided(world, key), "{key:?} stays undecided");
            assert_eq!(world.value(key, at(world.clock.observe())), None);
        }
    });
}

pub(super) fn run(make: Make<'_>) {
    let world = World::new(make, &order());
    single_writes_are_taken_back(&world);
    batches_are_taken_back_whole(&world);
}
