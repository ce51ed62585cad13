//! The contract, run on this kind; and what only this kind has: levels.

use super::Jellyfish;
use super::node::LEVELS;
use crate::contract::World;
use crate::counters::Counters;
use std::sync::{Arc, Barrier};
use velella_base::Order;
use velella_mvcc::Slots;
use velella_sync::rng::Rng;

fn jellyfish(order: Order, slots: Arc<Slots>) -> Arc<Jellyfish> {
    Arc::new(Jellyfish::new(order, slots, Arc::new(Counters::default())))
}

#[test]
fn jellyfish_keeps_the_contract() {
    crate::contract::run(&|order, slots| jellyfish(order, slots));
}

#[test]
fn every_level_is_a_sorted_subsequence() {
    let (rounds, each) = if cfg!(miri) { (2, 12) } else { (30, 400) };
    for order in crate::contract::orders() {
        let table = jellyfish(order.clone(), Arc::new(Slots::new(3)));
        let world = World::new(&|_, _| Arc::clone(&table) as _, &order);
        let barrier = Barrier::new(3);
        std::thread::scope(|scope| {
            for slot in 0..3 {
                let (world, barrier) = (&world, &barrier);
                scope.spawn(move || {
                    let mut rng = Rng::new(slot as u64 % 2);
                    for round in 0..rounds {
                        barrier.wait();
                        for _ in 0..each {
                            // Two of the threads write the same keys in the same sequence.
                            let key = format!("{round:02}{:05}", rng.below(each));
                            world.put(slot, key.as_bytes(), b"v");
                        }
                    }
                });
            }
        });
        let counts = table.list.check_levels(&order);
        assert_eq!(counts.len(), LEVELS + 1);
        assert_eq!(counts[0] as u64, table.nodes.sum());
        // One node in four has a tower: far from all, far from none.
        assert!(
            cfg!(miri) || (counts[0] / 6..counts[0] / 3).contains(&counts[1]),
            "{counts:?}"
        );
    }
}
