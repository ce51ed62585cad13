//! The contract, run on this kind; and what only this kind has: levels, the index, runs of
//! predecessors.

use super::Jellyfish;
use super::directory::{BYTES_PER_GUARD, Directory, Guard, Wanted};
use super::list::List;
use super::tower::LEVELS;
use crate::chains::index::{KeyIndex, hash};
use crate::chains::node::Node;
use crate::contract::World;
use crate::contract::world::{NEWEST, put, rest_back};
use crate::counters::Counters;
use crate::guards::{GuardOptions, Mixed};
use crate::probe::Probe;
use crate::spare::Supply;
use crate::{GUARD_BYTES, Memtable};
use std::sync::{Arc, Barrier};
use velella_base::{Order, Stamp};
use velella_mvcc::Slots;
use velella_sync::rng::Rng;

mod selected;

/// So few guards that most are too low for their areas.
const FEW: usize = 20 * BYTES_PER_GUARD;

fn jellyfish(order: Order, slots: Arc<Slots>) -> Arc<Jellyfish> {
    Arc::new(Jellyfish::new(
        order,
        slots,
        &Supply::default(),
        GUARD_BYTES,
    ))
}

#[test]
fn jellyfish_keeps_the_contract() {
    crate::contract::run(&|order, slots| jellyfish(order, slots));
}

#[test]
fn every_level_is_a_sorted_subsequence() {
    for order in crate::contract::orders() {
        for guard_bytes in [GUARD_BYTES, FEW, 0] {
            every_level_is_sorted(&order, guard_bytes.into());
        }
        every_level_is_sorted(&order, GuardOptions::from(FEW).chosen_by(Mixed));
    }
}

fn every_level_is_sorted(order: &Order, guards: GuardOptions) {
    let guard_bytes = guards.bytes;
    let (rounds, each) = if cfg!(miri) { (2, 12) } else { (30, 400) };
    let counters = Arc::new(Counters::default());
    let slots = Arc::new(Slots::new(3));
    let table = Jellyfish::new(order.clone(), slots, &(&counters).into(), guards);
    let table = Arc::new(table);
    let world = World::new(&|_, _| Arc::clone(&table) as _, order);
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
    let counts = table.list.check_levels(order);
    assert_eq!(counts.len(), LEVELS + 1);
    assert_eq!(counts[0] as u64, table.nodes.sum());
    // One node in four has a tower: far from all, far from none.
    assert!(
        cfg!(miri) || (counts[0] / 6..counts[0] / 3).contains(&counts[1]),
        "{counts:?}"
    );
    let is_guarded = order.is_bytewise() && guard_bytes != 0 && !cfg!(miri);
    assert_eq!(counters.directories.sum() > 0, is_guarded);
    assert_eq!(counters.directory_probes.sum() > 0, is_guarded);
    if is_guarded && guard_bytes == FEW {
        assert!(counters.directory_fallbacks.sum() > 0, "the guards are few");
    }
}

/// A key for the number of an insertion.
type Naming = fn(u64) -> Vec<u8>;

#[test]
fn a_search_compares_at_most_twice_the_logarithm() {
    let namings: [(&str, Naming); 6] = [
        ("random", |n| Rng::new(n).next_u64().to_be_bytes().to_vec()),
        ("ascending", |n| n.to_be_bytes().to_vec()),
        ("descending", |n| (u64::MAX - n).to_be_bytes().to_vec()),
        ("two streams", |n| {
            ((n % 2) << 40 | n).to_be_bytes().to_vec()
        }),
        ("a long prefix", |n| {
            let random = Rng::new(n).next_u64().to_be_bytes();
            [&b"customers/europe/"[..], &random].concat()
        }),
        ("all words tied", |n| {
            let word = match n {
                0 => [0; 8],
                1 => [255; 8],
                _ => *b"the same",
            };
            [word, Rng::new(n).next_u64().to_be_bytes()].concat()
        }),
    ];
    let keys = if cfg!(miri) { 200 } else { 30_000u64 };
    for (name, key) in namings {
        for guard_bytes in [GUARD_BYTES, 200 * BYTES_PER_GUARD] {
            let counters = Arc::new(Counters::default());
            let make = |order, slots| {
                let counters = Arc::clone(&counters);
                Arc::new(Jellyfish::new(
                    order,
                    slots,
                    &(&counters).into(),
                    guard_bytes,
                )) as Arc<dyn Memtable>
            };
            let world = World::new(&make, &Order::Bytewise);
            for number in 0..keys {
                world.put(0, &key(number), b"");
            }
            let compared = counters.comparisons.sum() as f64 / keys as f64;
            let most = 2.0 * (keys as f64).log2();
            assert!(
                compared <= most,
                "{name}, {guard_bytes}: {compared} of {most}"
            );
            // Each directory at least doubles the towers, or pays for fallbacks.
            let directories = counters.directories.sum();
            assert!(directories < 40, "{name}: {directories} directories");
        }
    }
}

/// Keys and levels of the guards of a directory.
fn listed(directory: &Directory) -> Vec<(Vec<u8>, usize)> {
    // SAFETY: the callers keep the list.
    let guards = unsafe { directory.guards() };
    let each = |guard: &Guard<'_>| (guard.node.key().to_vec(), guard.levels);
    guards.iter().map(each).collect()
}

#[test]
fn a_directory_made_in_pieces_is_the_same() {
    // With the last, each guard is the higher of two towers.
    for guard_bytes in [GUARD_BYTES, FEW, 500 * BYTES_PER_GUARD] {
        let slots = Arc::new(Slots::new(1));
        let table = Jellyfish::new(Order::Bytewise, slots, &Supply::default(), guard_bytes);
        let table = Arc::new(table);
        let world = World::new(&|_, _| Arc::clone(&table) as _, &Order::Bytewise);
        let count = if cfg!(miri) { 60 } else { 3000 };
        let put = |number: u32| {
            world.put(0, format!("k{number:06}").as_bytes(), b"");
        };
        (0..count).for_each(|number| put(2 * number));
        // SAFETY: `table` lives on.
        let whole = unsafe { table.list.draft() }.whole();
        // SAFETY: as above.
        let mut pieces = unsafe { table.list.draft() };
        let mut calls = 1;
        while !pieces.walk(7) {
            calls += 1;
        }
        let pieces = pieces.finish();
        assert_eq!(listed(&whole), listed(&pieces));
        assert!(
            calls > whole.len() / 7,
            "{calls} calls: a piece was too large"
        );

        // Keys that come in meanwhile, on both sides of the place that was reached.
        // SAFETY: `table` lives on.
        let mut draft = unsafe { table.list.draft() };
        let mut numbers = (0..count).map(|number| 2 * (number * 7 % count) + 1);
        while !draft.walk(3) {
            numbers.next().into_iter().for_each(put);
        }
        let guards = listed(&draft.finish());
        assert!(guards.is_sorted_by_key(|(key, _)| key));
        assert!(guards.len() >= whole.len().min(guard_bytes / BYTES_PER_GUARD / 2));
    }
}

#[test]
fn updates_go_on_with_a_directory_that_searches_need() {
    if cfg!(miri) {
        return;
    }
    let counters = Arc::new(Counters::default());
    let make = |order, slots| {
        let supply = &(&counters).into();
        Arc::new(Jellyfish::new(order, slots, supply, GUARD_BYTES)) as Arc<dyn Memtable>
    };
    let world = World::new(&make, &Order::Bytewise);
    let keys = 60_000u64;
    for number in 0..keys {
        world.put(0, &(2 * number).to_be_bytes(), b"");
    }
    let mut rng = Rng::new(1);
    let mut fallbacks_of_seeks = || {
        let before = counters.directory_fallbacks.sum();
        for _ in 0..40_000 {
            let between = 2 * rng.below(keys) + 1;
            let mut cursor = world.visible(NEWEST);
            cursor
                .seek(&between.to_be_bytes(), Stamp::MAX)
                .expect("memory has no errors");
        }
        counters.directory_fallbacks.sum() - before
    };
    assert!(
        fallbacks_of_seeks() > 4000,
        "the last directory was made when there were fewer keys"
    );
    for _ in 0..keys {
        world.put(0, &0u64.to_be_bytes(), b"");
    }
    let fallbacks = fallbacks_of_seeks();
    assert!(fallbacks < 100, "{fallbacks}");
}

#[test]
fn a_batch_that_others_wait_for_finishes_no_directory() {
    let counters = Arc::new(Counters::default());
    let slots = Arc::new(Slots::new(1));
    let table = Jellyfish::new(Order::Bytewise, slots, &(&counters).into(), GUARD_BYTES);
    let table = Arc::new(table);
    let world = World::new(&|_, _| Arc::clone(&table) as _, &Order::Bytewise);
    let mut keys = (0..u32::MAX).map(u32::to_be_bytes);
    while !table.list.is_renewal_due() {
        world.put(0, &keys.next().unwrap(), b"");
    }
    let made = counters.directories.sum();
    // Each of these walks a piece, so that all is walked past long before the last.
    let keys: Vec<[u8; 4]> = keys.take(if cfg!(miri) { 400 } else { 2000 }).collect();
    let intents: Vec<_> = keys.iter().map(|key| put(key, b"")).collect();
    world.batch(0, &intents);
    assert_eq!(counters.directories.sum(), made);
    world.put(0, b"the next write", b"");
    assert_eq!(counters.directories.sum(), made + 1);
    // It is of the towers that there were when all was walked past, far fewer than now.
    for key in 0..if cfg!(miri) { 0 } else { 600u32 } {
        world.put(0, format!("the next write {key:04}").as_bytes(), b"");
    }
    assert!(cfg!(miri) || counters.directories.sum() > made + 1);
}

#[test]
fn a_directory_finds_the_guards_on_both_sides() {
    let mut rng = Rng::new(3);
    let mut draw = |prefix: &[u8], letters: u64, longest: u64| -> Vec<u8> {
        let len = rng.below(longest + 1);
        let letter = |_| [0, 255, b'a', b'b'][usize::try_from(rng.below(letters)).unwrap()];
        let rest: Vec<u8> = (0..len).map(letter).collect();
        [prefix, &rest].concat()
    };
    for prefix in [&b""[..], b"ab", b"a long prefix", &[255; 9]] {
        for (letters, longest) in [(4, 5), (2, 12), (1, 30)] {
            let slots = Arc::new(Slots::new(1));
            let table = Jellyfish::new(Order::Bytewise, slots, &Supply::default(), GUARD_BYTES);
            let table = Arc::new(table);
            let world = World::new(&|_, _| Arc::clone(&table) as _, &Order::Bytewise);
            for _ in 0..if cfg!(miri) { 40 } else { 3000 } {
                world.put(0, &draw(prefix, letters, longest), b"");
            }
            // SAFETY: `table` lives on.
            let directory = unsafe { table.list.draft() }.whole();
            // SAFETY: `table` lives on.
            let guards = unsafe { directory.guards() };
            assert!(!guards.is_empty());
            assert!(guards.is_sorted_by_key(|guard| guard.tower.node().key()));
            assert!(guards.iter().all(|it| it.node == it.tower.node()), "G4");
            let mut probes: Vec<Vec<u8>> = guards
                .iter()
                .map(|guard| guard.tower.node().key().to_vec())
                .collect();
            let drawn = if cfg!(miri) { 20 } else { 500 };
            probes.extend((0..drawn).map(|_| draw(prefix, letters, longest)));
            probes.extend([
                vec![],
                vec![0],
                vec![255; 40],
                prefix.to_vec(),
                b"ab".to_vec(),
            ]);
            for key in probes {
                let probe = Probe::new(&key, &Order::Bytewise);
                let wanted = [Wanted::Node, Wanted::Tower][key.len() % 2];
                // SAFETY: `table` lives on.
                let entrance = unsafe { directory.enter(&probe, wanted) };
                let at = guards.partition_point(|guard| guard.tower.node().key() < &key[..]);
                let below = at.checked_sub(1).map(|at| guards[at].tower);
                let above = guards.get(at).map(|guard| guard.tower);
                assert_eq!(entrance.below().map(|guard| guard.tower), below, "{key:?}");
                let found = entrance.above().map(|above| above.tower);
                assert_eq!(found, above, "{key:?}");
                let is_found = above.is_some_and(|above| above.node().key() == key);
                assert_eq!(entrance.is_found, is_found, "{key:?}");
            }
        }
    }
}

#[test]
fn colliding_hashes_leave_the_index_incomplete_and_correct() {
    let list = List::new(GUARD_BYTES, &Supply::default());
    let index = KeyIndex::new(true, &Supply::default());
    // More than a bucket and its neighbours take: the first table is far too empty to grow.
    let keys: Vec<[u8; 2]> = (0..100u16).map(u16::to_be_bytes).collect();
    for key in &keys {
        let (block, _) = list.store.allocate(key, 0);
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
fn an_index_for_expected_keys_has_two_tables_and_grows_beyond_them() {
    let list = List::new(GUARD_BYTES, &Supply::default());
    let expected = 20_000u32;
    let mut index = KeyIndex::new(true, &Supply::default());
    index.expect(expected as usize);
    let unaware = KeyIndex::new(true, &Supply::default());
    assert_eq!(index.bytes(), 0, "an idle memtable takes nothing");
    let key = |n: u32| n.to_be_bytes();
    let insert = |n: u32| {
        let (block, _) = list.store.allocate(&key(n), 0);
        // SAFETY: fresh memory of the right size, which lives as long as the list.
        let node = unsafe { Node::write(block, &key(n)) };
        index.insert(hash(&key(n)), node);
        unaware.insert(hash(&key(n)), node);
    };
    insert(0);
    assert!(
        index.bytes() < 100_000,
        "nor does one with few keys take much"
    );
    (1..expected).for_each(insert);
    assert_eq!(index.prefetch(0), 2, "tables");
    assert!(unaware.prefetch(0) > 2, "tables");
    (expected..4 * expected).for_each(insert);
    assert!(index.prefetch(0) > 2 && index.is_complete());
    for n in 0..4 * expected {
        assert!(
            index
                .find(hash(&key(n)), |node| node.key() == key(n))
                .is_some()
        );
    }
}

#[test]
fn a_step_back_compares_little_more_than_a_step_forward() {
    let counters = Arc::new(Counters::default());
    let make = |order, slots| {
        Arc::new(Jellyfish::new(
            order,
            slots,
            &(&counters).into(),
            GUARD_BYTES,
        )) as Arc<dyn Memtable>
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
        Arc::new(Jellyfish::new(
            order,
            slots,
            &(&counters).into(),
            GUARD_BYTES,
        )) as Arc<dyn Memtable>
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
