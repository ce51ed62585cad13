//! The contract, run on this kind; and what only this kind has: levels, the index, runs of
//! predecessors.

use super::Jellyfish;
use super::index::KeyIndex;
use super::list::List;
use super::node::{LEVELS, Node};
use crate::Memtable;
use crate::contract::World;
use crate::contract::world::{NEWEST, rest_back};
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

#[test]
fn colliding_hashes_leave_the_index_incomplete_and_correct() {
    let counters = Arc::new(Counters::default());
    let list = List::new(&counters);
    let index = KeyIndex::new(true);
    // More than a bucket and its neighbours take: the first table is far too empty to grow.
    let keys: Vec<[u8; 2]> = (0..100u16).map(u16::to_be_bytes).collect();
    for key in &keys {
        let (block, _) = list.allocate(key, 0);
        // SAFETY: fresh memory of the right size, which lives as long as the list.
        let node = unsafe { Node::write(block, key) };
        index.insert(7, node);
    }
    assert!(!index.is_complete());
    let found = |key: &[u8]| index.find(7, |node| node.key() == key).is_some();
    assert!(found(&keys[0]), "what was entered stays");
    assert!(!found(&keys[99]), "this one is the list's to find");
}

#[test]
fn a_step_back_compares_little_more_than_a_step_forward() {
    let counters = Arc::new(Counters::default());
    let make = |order, slots| {
        Arc::new(Jellyfish::new(order, slots, Arc::clone(&counters))) as Arc<dyn Memtable>
    };
    let world = World::new(&make, &Order::Bytewise);
    let keys = if cfg!(miri) { 100 } else { 20_000u32 };
    for key in 0..keys {
        world.put(0, &key.to_be_bytes(), b"");
    }
    let before = counters.comparisons.sum();
    let mut cursor = world.visible(NEWEST);
    cursor.seek_last().expect("memory has no errors");
    assert_eq!(rest_back(&mut *cursor).len(), keys as usize);
    drop(cursor);
    let compared = counters.comparisons.sum() - before;
    // A search for every step would compare some thirty keys.
    assert!(
        compared < u64::from(keys) / 2 + 100,
        "{compared} comparisons"
    );
}

#[test]
fn a_thousand_steps_back_gather_little_more_than_they_use() {
    let counters = Arc::new(Counters::default());
    let make = |order, slots| {
        Arc::new(Jellyfish::new(order, slots, Arc::clone(&counters))) as Arc<dyn Memtable>
    };
    let world = World::new(&make, &Order::Bytewise);
    let (keys, steps, rounds) = match cfg!(miri) {
        true => (300u32, 100, 2),
        false => (100_000, 1000, 50),
    };
    for key in 0..keys {
        world.put(0, &key.to_be_bytes(), b"");
    }
    let mut rng = Rng::new(1);
    let compared = counters.comparisons.sum();
    for _ in 0..rounds {
        let end = steps + rng.below(u64::from(keys) - steps);
        let end = u32::try_from(end).unwrap();
        let mut cursor = world.visible(NEWEST);
        cursor.seek_before(&end.to_be_bytes()).unwrap();
        for step in 1..=u32::try_from(steps).unwrap() {
            let key = cursor.entry().unwrap().key;
            assert_eq!(key, (end - step).to_be_bytes());
            cursor.prev().unwrap();
        }
    }
    let each = |count: u64| count as f64 / (rounds * steps) as f64;
    let gathered = each(counters.gathered.sum());
    let compared = each(counters.comparisons.sum() - compared);
    // Of the last run, of 256 nodes on average, half is not used.
    assert!(cfg!(miri) || gathered < 1.5, "{gathered} nodes a step");
    assert!(
        cfg!(miri) || compared < 0.5,
        "{compared} comparisons a step"
    );
}
