//! The contract, run on this kind; and what only this kind has: ranges, splits.

use super::block::KEYS;
use super::{S3, STEPS, block_of};
use crate::contract::World;
use crate::contract::world::{NEWEST, at, put, rest, rest_back};
use crate::counters::Counters;
use crate::guards::Mixed;
use crate::interface::Near;
use crate::spare::Supply;
use crate::{
    GUARD_BYTES, GuardOptions, Hint, Install, Memtable, MemtableKind, MemtableOptions, Newest,
    Owner, Spare,
};
use std::sync::{Arc, Barrier};
use velella_base::{Cursor, Entry, Order, Stamp};
use velella_mvcc::Slots;
use velella_sync::epoch;
use velella_sync::rng::Rng;

fn s3(order: &Order, slots: Arc<Slots>, counters: &Arc<Counters>) -> Arc<S3> {
    Arc::new(S3::new(order.clone(), slots, &counters.into(), GUARD_BYTES))
}

#[test]
fn s3_keeps_the_contract() {
    crate::contract::run(&|order, slots| s3(&order, slots, &Arc::default()));
}

#[test]
fn s3_with_chosen_guards_keeps_the_contract() {
    if cfg!(miri) {
        // A directory takes more keys than there is time for.
        return;
    }
    crate::contract::run(&|order, slots| {
        let guards = GuardOptions::from(600).chosen_by(Mixed);
        Arc::new(S3::new(order, slots, &Supply::default(), guards)) as Arc<dyn Memtable>
    });
}

/// The sizes of the blocks, from the first on; panics if E1 does not hold.
fn check_ranges(table: &S3, order: &Order) -> Vec<usize> {
    let mut sizes = Vec::new();
    let mut anchor = Some(table.list.anchors.head());
    while let Some(current) = anchor {
        let block = block_of(current);
        let is_first = sizes.is_empty();
        for (word, node) in block.nodes() {
            assert!(
                is_first || order.compare(current.key(), node.key()).is_le(),
                "E1: a key below its range"
            );
            if let Some(above) = block.above() {
                let stands = order.compare(node.key(), above.key());
                assert!(stands.is_lt(), "E1: a key above its range");
            }
            assert_eq!(word, node.prefix(), "K4");
        }
        sizes.push(block.nodes().count());
        anchor = block.above();
    }
    assert!(sizes.iter().skip(1).all(|size| *size > 0), "an empty range");
    let levels = table.list.anchors.check_levels(order);
    assert_eq!(levels[0], sizes.len() - 1, "an anchor was not entered");
    assert_eq!(levels[1], levels[0], "each has a tower");
    sizes
}

#[test]
fn racing_insertions_and_splits_keep_every_key_in_its_range() {
    let (rounds, each) = if cfg!(miri) { (2, 12) } else { (30, 400) };
    for order in crate::contract::orders() {
        let table = s3(&order, Arc::new(Slots::new(3)), &Arc::default());
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
        let sizes = check_ranges(&table, &order);
        assert_eq!(sizes.iter().sum::<usize>() as u64, table.nodes.sum());
    }
}

#[test]
fn s3_empty_area_insert() {
    // S3-1, S3-2: before the first key, between two full ranges, past the last key.
    let table = s3(&Order::Bytewise, Arc::new(Slots::new(1)), &Arc::default());
    let world = World::new(&|_, _| Arc::clone(&table) as _, &Order::Bytewise);
    assert!(table.is_empty());
    for number in 100..100 + 3 * KEYS as u64 {
        world.put(0, &(2 * number).to_be_bytes(), b"");
    }
    for number in [0, 1, 2 * (100 + KEYS as u64) - 1, 1000, 1001] {
        world.put(0, &u64::to_be_bytes(number), b"");
        assert!(world.value(&u64::to_be_bytes(number), NEWEST).is_some());
    }
    let sizes = check_ranges(&table, &Order::Bytewise);
    assert_eq!(sizes.iter().sum::<usize>(), 3 * KEYS + 5);
}

#[test]
#[cfg_attr(miri, ignore = "thousands of keys")]
fn a_walk_that_ends_too_early_finds_the_key_and_is_counted() {
    let counters = Arc::default();
    let table = s3(&Order::Bytewise, Arc::new(Slots::new(1)), &counters);
    let world = World::new(&|_, _| Arc::clone(&table) as _, &Order::Bytewise);
    for number in 0..4000u64 {
        let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !0xffff;
        world.put(0, &scattered.to_be_bytes(), b"");
    }
    let before = counters.directory_fallbacks.sum();
    // Ranges in the middle that no guard leads to, more than a walk passes.
    let keys = (1..=(2 + STEPS as u64) * KEYS as u64).map(|number| (1 << 63) + number);
    for key in keys.clone() {
        world.put(0, &key.to_be_bytes(), b"new");
    }
    assert!(counters.directory_fallbacks.sum() > before);
    for key in keys {
        assert!(world.value(&key.to_be_bytes(), NEWEST).is_some());
    }
    check_ranges(&table, &Order::Bytewise);
}

#[test]
#[cfg_attr(miri, ignore = "too many keys for it")]
fn a_hint_may_be_old_or_for_another_memtable() {
    let order = Order::Bytewise;
    let counters = Arc::new(Counters::default());
    let slots = Arc::new(Slots::new(1));
    let tables = [(); 2].map(|()| s3(&order, Arc::clone(&slots), &counters));
    let worlds = tables
        .each_ref()
        .map(|table| World::new(&|_, _| Arc::clone(table) as _, &order));
    let key = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
    let keys = 40_000;
    for i in 0..keys {
        worlds[0].put(0, &key(i), b"v");
        worlds[1].put(0, &key(i), b"v");
    }
    let guard = epoch::pin();
    let hints: Vec<_> = (keys..2 * keys)
        .map(|i| (i, tables[0].prefetch(&key(i), &guard)))
        .collect();
    let found = |hint: &Hint| matches!(hint.0, Near::From(..));
    assert!(hints.iter().filter(|(_, hint)| found(hint)).count() > 30_000);
    // Hints are taken by their own memtable, however many ranges were split since.
    for (place, table) in tables.iter().enumerate() {
        for (i, hint) in &hints {
            let (key, owner) = (key(*i), Owner::Slot(0));
            let intent = put(&key, b"v");
            match table.install_near(&intent, owner, None, *hint, &guard) {
                Install::Installed(pending) => worlds[place].window(0, |at| pending.publish(at)),
                other => panic!("{other:?}"),
            };
        }
        let sizes = check_ranges(table, &order);
        assert_eq!(sizes.iter().sum::<usize>() as u64, 2 * keys);
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many keys for it")]
fn a_hint_of_a_memtable_that_is_gone_is_not_taken_by_the_next_one() {
    let options = MemtableOptions {
        kind: MemtableKind::S3,
        order: Order::Bytewise,
        slots: Arc::new(Slots::new(1)),
        counters: Arc::default(),
        spare: Arc::new(Spare::new(1 << 30)),
        guards: GuardOptions::default(),
        keys: 0,
    };
    let key = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).to_be_bytes();
    let keys = 40_000;
    let fill = || {
        let table = crate::new(&options);
        let world = World::new(&|_, _| Arc::clone(&table), &Order::Bytewise);
        for i in 0..keys {
            world.put(0, &key(i), b"v");
        }
        (table, world)
    };
    let (hints, there): (Vec<_>, Vec<_>) = {
        let (table, _world) = fill();
        let guard = epoch::pin();
        let of_new = (keys..2 * keys).map(|i| table.prefetch(&key(i), &guard));
        let of_old = (0..keys).map(|i| match table.newest(&key(i), &guard) {
            Newest::Decided(head, Some(_)) => head.hint(),
            other => panic!("{other:?}"),
        });
        (of_new.collect(), of_old.collect())
    };
    assert!(there.iter().all(|hint| matches!(hint.0, Near::At(_))));
    let found = |hint: &&Hint| matches!(hint.0, Near::From(..));
    assert!(hints.iter().filter(found).count() > 30_000);
    // It lies where the other one lay.
    let (table, world) = fill();
    let guard = epoch::pin();
    for (i, hint) in (0..keys).zip(there) {
        match table.newest_near(&key(i), hint, &guard) {
            Newest::Decided(head, Some(version)) => {
                assert_eq!(version.value, b"v");
                assert!(
                    matches!(head.hint().0, Near::At(place) if place.table == table.identity())
                );
            }
            other => panic!("{other:?}"),
        }
    }
    for (i, hint) in (keys..).zip(hints) {
        let (key, owner) = (key(i), Owner::Slot(0));
        let installed = table.install_near(&put(&key, b"v"), owner, None, hint, &guard);
        let Install::Installed(pending) = installed else {
            panic!("{installed:?}");
        };
        world.window(0, |at| pending.publish(at));
    }
    let mut cursor = world.visible(NEWEST);
    cursor.seek_first().unwrap();
    let rows = rest(&mut *cursor);
    assert_eq!(rows.len() as u64, 2 * keys);
    assert!(rows.is_sorted_by(|a, b| a.0 < b.0));
}

#[test]
fn s3_split_under_scan() {
    // S3-3: keys do not move away from under a cursor, nor does it meet one twice.
    let table = s3(&Order::Bytewise, Arc::new(Slots::new(1)), &Arc::default());
    let world = World::new(&|_, _| Arc::clone(&table) as _, &Order::Bytewise);
    let blocks = if cfg!(miri) { 4 } else { 20 };
    let keys = (blocks * KEYS) as u64;
    for number in 0..keys {
        world.put(0, &(100 * number).to_be_bytes(), b"old");
    }
    let stamp = world.clock.observe();
    let mut cursor = world.visible(crate::contract::world::at(stamp));
    cursor.seek_first().unwrap();
    let mut seen = Vec::new();
    let mut between = 0;
    while let Some(entry) = cursor.entry() {
        seen.push(entry.key.to_vec());
        // Before, here, and far ahead, so that ranges around the cursor split again and again.
        for number in [0, seen.len() as u64 - 1, (seen.len() as u64 + 7) % keys] {
            between += 1;
            let key = 100 * number + 1 + between % 99;
            world.put(0, &key.to_be_bytes(), b"new");
        }
        cursor.next().unwrap();
    }
    let expected: Vec<_> = (0..keys)
        .map(|n| (100 * n).to_be_bytes().to_vec())
        .collect();
    assert_eq!(seen, expected);
    cursor.seek_last().unwrap();
    let back: Vec<_> = rest_back(&mut *cursor)
        .into_iter()
        .map(|row| row.0)
        .collect();
    assert_eq!(back.len(), expected.len());
    assert!(check_ranges(&table, &Order::Bytewise).len() > blocks * 3 / 2);
}

#[test]
fn s3_monotonic_keys() {
    // S3-5, S3-11: ascending keys fill their entries, and no search is long.
    let counters = Arc::default();
    let table = s3(&Order::Bytewise, Arc::new(Slots::new(1)), &counters);
    let world = World::new(&|_, _| Arc::clone(&table) as _, &Order::Bytewise);
    let keys = if cfg!(miri) { 200 } else { 30_000u64 };
    for number in 0..keys {
        world.put(0, &number.to_be_bytes(), b"");
    }
    let sizes = check_ranges(&table, &Order::Bytewise);
    assert!(
        sizes.len() as u64 <= keys / KEYS as u64 + 1,
        "{} entries",
        sizes.len()
    );
    let compared = counters.comparisons.sum() as f64 / keys as f64;
    // Besides the search for the entry, all of its keys are compared.
    let most = 2.0 * (keys as f64).log2() + KEYS as f64;
    assert!(compared <= most, "{compared} of {most}");
    let mut cursor = world.visible(NEWEST);
    cursor.seek_first().unwrap();
    assert_eq!(rest(&mut *cursor).len() as u64, keys);
}

#[test]
fn a_walk_looks_at_nothing_behind_a_key_that_its_reader_does_not_see() {
    let counters = Arc::new(Counters::default());
    let table = s3(&Order::Bytewise, Arc::new(Slots::new(3)), &counters);
    let world = World::new(&|_, _| Arc::clone(&table) as _, &Order::Bytewise);
    for key in 0..40u32 {
        world.put(0, &key.to_be_bytes(), b"seen");
    }
    let seen = at(world.clock.now());
    for key in 40..if cfg!(miri) { 60 } else { 1000u32 } {
        world.put(0, &key.to_be_bytes(), b"written later");
    }
    let mut cursor = world.visible(seen);
    let skipped = || counters.versions_skipped.sum();
    let stands_at = |cursor: &dyn Cursor, key: u32| {
        let is_there = |entry: Entry<'_>| entry.key == key.to_be_bytes();
        assert!(cursor.entry().is_some_and(is_there));
    };
    cursor.seek_first().expect("memory has no errors");
    for _ in 0..39 {
        cursor.next().expect("memory has no errors");
    }
    stands_at(&*cursor, 39);
    assert!(
        skipped() <= 2,
        "{} versions that it does not see",
        skipped()
    );
    // A seek begins anew, with one.
    let before = skipped();
    cursor
        .seek(&38u32.to_be_bytes(), Stamp::MAX)
        .expect("memory has no errors");
    stands_at(&*cursor, 38);
    cursor.next().expect("memory has no errors");
    stands_at(&*cursor, 39);
    assert_eq!(skipped(), before);
    cursor.next().expect("memory has no errors");
    assert!(cursor.entry().is_none());
}
