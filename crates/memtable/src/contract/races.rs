//! Several threads at once.

use super::world::{NEWEST, World, at, put, rest, rest_back};
use crate::{CursorMode, OnPending, ReadAt};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use velella_base::Stamp;
use velella_mvcc::Retention;
use velella_sync::epoch;
use velella_sync::rng::Rng;

pub(super) fn run(world: &dyn Fn() -> World) {
    racing_inserters_of_one_key_make_one_node(&world());
    racing_inserters_lose_nothing(&world());
    updates_of_racing_threads_all_count(&world());
    gets_never_see_half_a_batch(&world());
    snapshots_never_move(&world());
    reads_during_pruning_never_go_back(&world());
}

fn scale(real: u64, miri: u64) -> u64 {
    if cfg!(miri) { miri } else { real }
}

/// Digits, which no order confuses.
fn name(number: u64) -> Vec<u8> {
    format!("{number:05}").into_bytes()
}

fn racing_inserters_of_one_key_make_one_node(world: &World) {
    let rounds = scale(400, 8);
    let barrier = Barrier::new(3);
    std::thread::scope(|scope| {
        for slot in 0..3 {
            let barrier = &barrier;
            scope.spawn(move || {
                for round in 0..rounds {
                    barrier.wait();
                    let key = name(round * 0x9e37_79b9 % 1009);
                    world.put(slot, &key, &[u8::try_from(slot).unwrap()]);
                }
            });
        }
    });
    let mut cursor = world.visible(NEWEST);
    cursor.seek_first().unwrap();
    let rows = rest(&mut *cursor);
    assert_eq!(rows.len() as u64, rounds, "one entry a key");
    let mut all = world.cursor(CursorMode::All);
    all.seek_first().unwrap();
    assert_eq!(
        rest(&mut *all).len() as u64,
        3 * rounds,
        "no version is lost"
    );
}

fn racing_inserters_lose_nothing(world: &World) {
    let each = scale(6000, 40);
    std::thread::scope(|scope| {
        for slot in 0..3 {
            scope.spawn(move || {
                let mut rng = Rng::new(slot as u64);
                for _ in 0..each {
                    let key = name(rng.below(each * 2));
                    world.put(slot, &key, &key);
                }
            });
        }
    });
    let mut cursor = world.visible(NEWEST);
    cursor.seek_first().unwrap();
    let rows = rest(&mut *cursor);
    assert!(rows.is_sorted_by(|a, b| world.order.compare(&a.0, &b.0).is_lt()));
    cursor.seek_last().unwrap();
    let mut back = rest_back(&mut *cursor);
    back.reverse();
    assert_eq!(rows, back);
    let mut written: Vec<u64> = (0..3)
        .flat_map(|slot| {
            let mut rng = Rng::new(slot);
            (0..each).map(move |_| rng.below(each * 2))
        })
        .collect();
    written.sort_unstable();
    written.dedup();
    assert_eq!(rows.len(), written.len());
    for number in written {
        let key = name(number);
        assert_eq!(world.value(&key, NEWEST).unwrap(), key);
    }
}

fn updates_of_racing_threads_all_count(world: &World) {
    let each = scale(3000, 20);
    let add = |base: Option<&[u8]>| {
        let base = base.map_or(0, |base| u64::from_le_bytes(base.try_into().unwrap()));
        (base + 1).to_le_bytes().to_vec()
    };
    std::thread::scope(|scope| {
        for slot in 0..3 {
            scope.spawn(move || {
                for turn in 0..each {
                    world.update(slot, &[u8::try_from(turn % 2).unwrap()], add);
                }
            });
        }
    });
    let sum: u64 = [[0], [1]]
        .iter()
        .map(|key| u64::from_le_bytes(world.value(key, NEWEST).unwrap().try_into().unwrap()))
        .sum();
    assert_eq!(sum, 3 * each, "an update was lost");
}

fn gets_never_see_half_a_batch(world: &World) {
    let rounds = scale(3000, 15);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                let value = round.to_le_bytes();
                world.batch(0, &[put(b"a", &value), put(b"b", &value)]);
            }
            is_done.store(true, Ordering::Release);
        });
        for pending in [OnPending::Skip, OnPending::Resolve] {
            let is_done = &is_done;
            scope.spawn(move || {
                let read = ReadAt {
                    stamp: Stamp::MAX,
                    pending,
                };
                while !is_done.load(Ordering::Acquire) {
                    let first = world.get(b"a", read).map(|seen| seen.0);
                    let second = world.get(b"b", read).map(|seen| seen.0);
                    assert!(second >= first, "{second:?} is older than {first:?}");
                }
            });
        }
    });
}

fn snapshots_never_move(world: &World) {
    let rounds = scale(4000, 20);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for slot in 0..2 {
            let is_done = &is_done;
            scope.spawn(move || {
                let mut rng = Rng::new(slot as u64 + 5);
                for round in 0..rounds {
                    world.put(
                        slot,
                        &[u8::try_from(rng.below(3)).unwrap()],
                        &round.to_le_bytes(),
                    );
                }
                is_done.store(true, Ordering::Release);
            });
        }
        scope.spawn(|| {
            while !is_done.load(Ordering::Acquire) {
                let stamp = world.clock.observe();
                let look = || [0, 1, 2].map(|key| world.get(&[key], at(stamp)));
                let first = look();
                let again = look();
                assert_eq!(first, again, "the snapshot at {stamp} moved");
                let newest = first.iter().flatten().map(|seen| seen.0).max();
                assert_eq!(
                    newest.unwrap_or_default(),
                    stamp,
                    "a write at or below is missing"
                );
            }
        });
    });
}

fn reads_during_pruning_never_go_back(world: &World) {
    let rounds = scale(20_000, 150);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                let value = round.to_le_bytes();
                let (_, is_long) = world.write(0, &put(b"k", &value));
                if is_long || round % 16 == 0 {
                    let guard = epoch::pin();
                    world.table.prune(b"k", &Retention::newest_only(), &guard);
                }
            }
            is_done.store(true, Ordering::Release);
        });
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                while !is_done.load(Ordering::Acquire) {
                    if let Some(value) = world.value(b"k", NEWEST) {
                        let now = u64::from_le_bytes(value.try_into().unwrap());
                        assert!(now >= last, "read {now} after {last}");
                        last = now;
                    } else {
                        assert_eq!(last, 0, "the key vanished");
                    }
                }
            });
        }
    });
}
