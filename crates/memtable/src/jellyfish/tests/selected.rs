//! Guards that a selector chooses.

use super::{FEW, Jellyfish, listed};
use crate::Memtable;
use crate::contract::World;
use crate::contract::world::NEWEST;
use crate::counters::Counters;
use crate::guards::{AccessQuantiles, GuardOptions, GuardSelector, Mixed};
use crate::jellyfish::chooser::{Chooser, EVERY};
use crate::jellyfish::directory::{BYTES_PER_GUARD, Directory};
use crate::jellyfish::draft::{Aim, Draft};
use crate::jellyfish::tower::LEVELS;
use crate::probe::prefix_word;
use crate::spare::Supply;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use velella_base::Order;
use velella_mvcc::Slots;
use velella_sync::atomic::{AtomicBool, Ordering};
use velella_sync::rng::Rng;

/// Words of keys, of searches, and how many guards there may be.
type Told = (Vec<u64>, Vec<u64>, usize);

/// Chooses what it was made with, and remembers what it was told.
#[derive(Debug, Clone, Default)]
struct Fixed {
    places: Vec<u64>,
    told: Arc<Mutex<Vec<Told>>>,
}

impl GuardSelector for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn select(&self, data: &[u64], accesses: &[u64], count: usize) -> Vec<u64> {
        let told = (data.to_vec(), accesses.to_vec(), count);
        self.told.lock().unwrap().push(told);
        self.places.clone()
    }
}

/// A table with these guards, what it counts, and a world around it.
fn table(guards: &GuardOptions) -> (Arc<Jellyfish>, Arc<Counters>, World) {
    let counters = Arc::new(Counters::default());
    let slots = Arc::new(Slots::new(1));
    let supply = Supply::from(&counters);
    let table = Arc::new(Jellyfish::new(
        Order::Bytewise,
        slots,
        &supply,
        guards.clone(),
    ));
    let world = World::new(&|_, _| Arc::clone(&table) as _, &Order::Bytewise);
    (table, counters, world)
}

fn words(directory: &Directory) -> Vec<(u64, usize)> {
    let each = |(key, levels): (Vec<u8>, usize)| (prefix_word(&key), levels);
    listed(directory).into_iter().map(each).collect()
}

#[test]
fn selected_guards_are_the_highest_towers_close_before_the_places_chosen() {
    if cfg!(miri) {
        // A directory takes more keys than there is time for, here and below.
        return;
    }
    let keys = 4_000u64;
    // Between keys, on a key, twice between the same towers, above all.
    let places = [keys + 1, 4 * keys, 4 * keys + 1, 8 * keys + 3];
    let mut places: Vec<u64> = places.iter().map(|place| place << 44).collect();
    places.push(u64::MAX);
    let fixed = Fixed {
        places: places.clone(),
        ..Fixed::default()
    };
    let guards = GuardOptions::from(FEW).chosen_by(fixed.clone());
    let (table, _, world) = table(&guards);
    for n in 0..keys {
        world.put(0, &((10 * (n * 7 % keys)) << 44).to_be_bytes(), b"");
    }
    // SAFETY: `table` lives on.
    let chosen = unsafe { table.list.draft() }.whole();
    let all = heights(&table);
    let start = |place: u64| all.partition_point(|(word, _)| *word < place);
    let mut starts: Vec<usize> = places.iter().map(|place| start(*place)).collect();
    starts.dedup();
    starts.retain(|start| *start < all.len());
    let mut expected: Vec<(usize, usize)> = Vec::new();
    for (which, at) in starts.iter().enumerate() {
        let end = starts.get(which + 1).copied().unwrap_or(all.len());
        let free = expected.last().map_or(0, |(last, _)| last + 1);
        let from = at.saturating_sub((end - at) / 4).max(free);
        // The last of the highest close before, which is entered no higher than its area asks for.
        let guard = (from..=*at).max_by_key(|at| all[*at].1).unwrap();
        let enough = 1 + (end - guard).ilog2().div_ceil(2) as usize;
        expected.push((guard, enough.min(all[guard].1)));
    }
    let expected: Vec<(u64, usize)> = expected
        .into_iter()
        .map(|(guard, levels)| (all[guard].0, levels))
        .collect();
    assert_eq!(words(&chosen), expected);
    let told = fixed.told.lock().unwrap();
    let (data, accesses, count) = told.last().unwrap();
    assert_eq!(*count, FEW / BYTES_PER_GUARD);
    assert!(accesses.is_sorted() && !accesses.is_empty());
    let known: Vec<u64> = all.iter().map(|(word, _)| *word).collect();
    assert_eq!(*data, known);
}

/// The words and heights of all towers of a table.
fn heights(table: &Jellyfish) -> Vec<(u64, usize)> {
    let mut towers: Vec<(u64, usize)> = Vec::new();
    for level in 0..LEVELS {
        // SAFETY: the top has every level.
        let mut next = unsafe { table.list.top().next(level) };
        while let Some(tower) = next {
            match towers.binary_search_by_key(&tower.prefix(), |(word, _)| *word) {
                Ok(at) => towers[at].1 = level + 1,
                // The first level comes in order.
                Err(at) => towers.insert(at, (tower.prefix(), level + 1)),
            }
            // SAFETY: reached on this level.
            next = unsafe { tower.next(level) };
        }
    }
    towers
}

#[test]
fn a_selector_that_has_nothing_to_go_by_leaves_the_guards_as_without_it() {
    if cfg!(miri) {
        return;
    }
    let fixed = Fixed::default();
    let (chosen, _, world) = table(&GuardOptions::from(FEW).chosen_by(fixed.clone()));
    for n in 0..4_000u64 {
        world.put(0, &Rng::new(n).next_u64().to_be_bytes(), b"");
    }
    let asked = fixed.told.lock().unwrap().len();
    let aim = Aim {
        top: chosen.list.top(),
        height: chosen.list.height(),
        lowest: 0,
        most: FEW / BYTES_PER_GUARD,
        chooser: None,
    };
    let without = Draft::new(aim).whole();
    // SAFETY: `chosen` lives on.
    let with = unsafe { chosen.list.draft() }.whole();
    assert_eq!(listed(&with), listed(&without));
    assert_eq!(fixed.told.lock().unwrap().len(), asked + 1);
}

/// Answers with too many words, in the wrong order; or panics, once.
#[derive(Debug)]
struct Unruly {
    panics: AtomicBool,
}

impl GuardSelector for Unruly {
    fn name(&self) -> &'static str {
        "unruly"
    }

    fn select(&self, data: &[u64], _accesses: &[u64], count: usize) -> Vec<u64> {
        // Relaxed: a test of one thread.
        assert!(
            !self.panics.swap(false, Ordering::Relaxed),
            "no choice today"
        );
        let words = data.iter().rev().chain(&[u64::MAX, 0]).copied();
        let words: Vec<u64> = words.cycle().take(3 * data.len()).collect();
        assert!(words.len() > count);
        words
    }
}

#[test]
fn a_selector_that_breaks_its_word_costs_no_more_than_its_guards() {
    if cfg!(miri) {
        return;
    }
    for panics in [false, true] {
        let unruly = Unruly {
            panics: AtomicBool::new(panics),
        };
        let (table, counters, world) = table(&GuardOptions::from(FEW).chosen_by(unruly));
        let sample = Chooser::new(Arc::new(Mixed), FEW / BYTES_PER_GUARD).bytes();
        let mut panicked = 0;
        for n in 0..4_000u64 {
            let key = Rng::new(n).next_u64().to_be_bytes();
            let put = || world.put(0, &key, b"");
            if catch_unwind(AssertUnwindSafe(put)).is_err() {
                panicked += 1;
                put();
            }
            // A few guards, and what they take in whole lines.
            let bytes = table.list.guide_bytes() - sample;
            assert!(bytes <= FEW + 64 * 4, "{bytes} bytes");
        }
        assert_eq!(panicked, u64::from(panics));
        assert!(counters.directories.sum() > 1);
        // SAFETY: `table` lives on.
        let directory = unsafe { table.list.draft() }.whole();
        let guards = listed(&directory);
        assert!(guards.len() <= FEW / BYTES_PER_GUARD);
        assert!(guards.is_sorted_by(|(a, _), (b, _)| a < b));
        assert_eq!(table.list.check_levels(&Order::Bytewise)[0], 4_000);
    }
}

#[test]
fn guards_come_to_where_searches_are() {
    if cfg!(miri) {
        return;
    }
    let keys = 100_000u64;
    // Every search ends in a hundredth of the keys.
    let run = |guards: &GuardOptions, prefix: &[u8]| {
        let (table, counters, world) = table(guards);
        let key = |n: u64| [prefix, &n.to_be_bytes()].concat();
        for n in 0..keys {
            world.put(0, &key(2 * (n * 7919 % keys)), b"");
        }
        let mut rng = Rng::new(5);
        let mut seek = || {
            let at = key(2 * (50_000 + rng.below(keys / 100)) + 1);
            let mut cursor = world.visible(NEWEST);
            cursor.seek(&at, velella_base::Stamp::MAX).unwrap();
            assert!(cursor.entry().is_some_and(|entry| entry.key > &at[..]));
        };
        // Enough for a choice to be due; writers make it, of keys that are there.
        (0..20_000 * EVERY as u64).for_each(|_| seek());
        for n in 0..keys {
            world.put(0, &key(2 * (n % 100)), b"");
        }
        let before = counters.comparisons.sum();
        (0..10_000).for_each(|_| seek());
        drop(table);
        (counters.comparisons.sum() - before) as f64 / 10_000.0
    };
    for prefix in [&b""[..], b"all keys begin like this"] {
        let few = || GuardOptions::from(256 * BYTES_PER_GUARD);
        let even = run(&few(), prefix);
        for chosen in [few().chosen_by(AccessQuantiles), few().chosen_by(Mixed)] {
            let compared = run(&chosen, prefix);
            assert!(
                compared < 0.6 * even,
                "{chosen:?}: {compared} comparisons instead of {even}"
            );
        }
    }
}

#[test]
fn jellyfish_with_chosen_guards_keeps_the_contract() {
    if cfg!(miri) {
        return;
    }
    crate::contract::run(&|order, slots| {
        let guards = GuardOptions::from(FEW).chosen_by(Mixed);
        Arc::new(Jellyfish::new(order, slots, &Supply::default(), guards)) as Arc<dyn Memtable>
    });
}

#[test]
fn the_last_searches_are_told_if_they_are_of_the_same_words() {
    let fixed = Fixed::default();
    let chooser = Chooser::new(Arc::new(fixed.clone()), 1000);
    let most = chooser.kept();
    assert_eq!((most, chooser.bytes()), (4_000, 32_000));
    let told = |shared| {
        chooser.choose(&[1, 2], shared, 3);
        let (data, accesses, count) = fixed.told.lock().unwrap().pop().unwrap();
        assert_eq!((data, count), (vec![1, 2], 3));
        accesses
    };
    assert!(told(0).is_empty());
    let all = 2 * most as u64 + 10;
    for noted in 0..all {
        assert_eq!(chooser.note(all - noted), noted >= most as u64, "A3");
    }
    let kept: Vec<u64> = (1..=most as u64).collect();
    assert_eq!(told(0), kept);
    assert!(told(8).is_empty(), "they leave out other bytes");
    let due = |towers, shared| {
        chooser.rest(shared, towers);
        (0..).find(|_| chooser.note(7)).unwrap()
    };
    assert_eq!((due(10, 0), due(80_000, 0)), (most, 10_000));
    chooser.rest(8, 10);
    assert!(told(8).is_empty() && !chooser.note(5));
    assert_eq!(told(8), [5]);
}
