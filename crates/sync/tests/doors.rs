//! What the doors to threads, time, memory and chance promise whoever goes through them.
//!
//! Claims: `pool.rs` P1, P2; `swap.rs` W1-W3; `epoch.rs` R1; `parker.rs` K1; `rng.rs`; `thread.rs`.
#![cfg(not(any(loom, shuttle)))]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;
use velella_sync::counter::Counter;
use velella_sync::lock::{Mutex, RwLock};
use velella_sync::parker::Parker;
use velella_sync::rng::{Rng, local_u64};
use velella_sync::{Pool, Swap, epoch, prefetch, thread};

const EACH: usize = if cfg!(miri) { 20 } else { 2_000 };

#[test]
fn a_pool_hands_each_entry_to_one_holder_and_back() {
    let pool = Pool::new(0..5);
    assert_eq!((pool.len(), pool.is_empty()), (5, false));
    let held: Vec<_> = std::iter::from_fn(|| pool.checkout()).collect();
    let indexes: BTreeSet<_> = held.iter().map(|guard| guard.index()).collect();
    assert_eq!(indexes, (0..5).collect(), "all of them, each once");
    assert!(held.iter().all(|guard| **guard == guard.index()));
    for index in 0..7 {
        assert!(
            pool.try_checkout(index).is_none(),
            "P1: {index} is out or is not"
        );
    }
    drop(held);
    for index in (0..5).rev() {
        assert_eq!(
            pool.try_checkout(index).map(|guard| guard.index()),
            Some(index)
        );
    }
    assert!(Pool::<u8>::new([]).checkout().is_none());
    assert!(Pool::<u8>::new([]).is_empty());
}

#[test]
fn a_thread_gets_the_entry_again_that_it_had() {
    let pool = Pool::new(vec![(); 64]);
    let first = pool.checkout().unwrap().index();
    for _ in 0..100 {
        assert_eq!(pool.checkout().unwrap().index(), first);
    }
    let held = pool.checkout().unwrap();
    let other = pool.checkout().unwrap().index();
    assert_ne!(other, first);
    drop(held);
    assert_eq!(
        pool.checkout().unwrap().index(),
        other,
        "the last one, not the first"
    );
    velella_sync::pool::prefer(7);
    assert_eq!(pool.checkout().unwrap().index(), 7);
    // What another pool does not have is nobody's wish.
    velella_sync::pool::prefer(9);
    assert!(Pool::new([1, 2]).checkout().is_some());
}

#[test]
fn a_panic_in_a_holder_gives_its_entry_back() {
    let pool = Pool::new([1]);
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut entry = pool.checkout().unwrap();
        *entry = 2;
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(outcome.is_err());
    assert_eq!(*pool.checkout().unwrap(), 2, "P2: with what was done to it");
}

/// Notes when it is freed.
struct Noted(Arc<AtomicUsize>, u64);

impl Drop for Noted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

#[test]
fn readers_of_a_swap_see_whole_objects_in_order_and_each_is_freed_once() {
    let freed = Arc::new(AtomicUsize::new(0));
    let made = |number| Arc::new(Noted(Arc::clone(&freed), number));
    let cell = Swap::new(made(0));
    let is_over = AtomicBool::new(false);
    let start = Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = 0;
                start.wait();
                while !is_over.load(Ordering::Acquire) {
                    let guard = epoch::pin();
                    let seen = cell.load(&guard);
                    assert!(seen.1 >= last, "W1: {} after {last}", seen.1);
                    last = seen.1;
                    let kept = cell.load_full(&guard);
                    drop(guard);
                    assert!(kept.1 >= last, "it may be a later one, never an earlier");
                    last = kept.1;
                }
            });
        }
        start.wait();
        for number in 1..=EACH as u64 {
            cell.store(made(number), &epoch::pin());
        }
        is_over.store(true, Ordering::Release);
    });
    // W3: nobody is pinned any more, so soon all but the last are gone.
    while freed.load(Ordering::Acquire) < EACH {
        epoch::flush();
    }
    drop(cell);
    assert_eq!(freed.load(Ordering::Acquire), EACH + 1, "each once");
}

#[test]
fn what_was_replaced_is_there_until_it_is_retired_and_its_readers_have_left() {
    let freed = Arc::new(AtomicUsize::new(0));
    let cell = Swap::new(Arc::new(Noted(Arc::clone(&freed), 1)));
    let guard = epoch::pin();
    let seen = cell.load(&guard);
    let replaced = cell.exchange(Arc::new(Noted(Arc::clone(&freed), 2)));
    assert_eq!((seen.1, cell.load(&guard).1), (1, 2));
    replaced.retire(&guard);
    for _ in 0..100 {
        epoch::flush();
    }
    assert_eq!(
        (freed.load(Ordering::Acquire), seen.1),
        (0, 1),
        "W2: it is still being read"
    );
    drop(guard);
    while freed.load(Ordering::Acquire) == 0 {
        epoch::flush();
    }
}

#[test]
fn deferred_work_waits_for_whoever_was_pinned_until_he_leaves_or_repins() {
    let done = &Arc::new(AtomicUsize::new(0));
    let (to_reader, orders) = mpsc::channel::<()>();
    let (from_reader, pinned) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut guard = epoch::pin();
            from_reader.send(()).unwrap();
            orders.recv().unwrap();
            // A long loop that lets go now and then, and never leaves.
            while done.load(Ordering::Acquire) == 0 {
                guard.repin();
                thread::yield_now();
            }
        });
        pinned.recv().unwrap();
        let (note, guard) = (Arc::clone(done), epoch::pin());
        guard.defer(move || {
            note.fetch_add(1, Ordering::AcqRel);
        });
        guard.flush();
        drop(guard);
        for _ in 0..100 {
            epoch::flush();
        }
        assert_eq!(
            done.load(Ordering::Acquire),
            0,
            "R1: the reader is still pinned"
        );
        to_reader.send(()).unwrap();
        while done.load(Ordering::Acquire) == 0 {
            epoch::flush();
            thread::yield_now();
        }
    });
    assert_eq!(done.load(Ordering::Acquire), 1);
}

#[test]
fn no_wake_up_is_lost_however_often_two_threads_wait_for_each_other() {
    // Each waits for the other's turn: a lost wake-up would stand still for ever.
    let (turn, parkers) = (AtomicU64::new(0), [Parker::new(), Parker::new()]);
    std::thread::scope(|scope| {
        for me in 0..2 {
            let (turn, parkers) = (&turn, &parkers);
            scope.spawn(move || {
                for round in 0..EACH as u64 {
                    let mine = 2 * round + me;
                    let is_mine = || turn.load(Ordering::Acquire) == mine;
                    let own = &parkers[usize::try_from(me).unwrap()];
                    assert!(own.wait_until(None, is_mine));
                    turn.store(mine + 1, Ordering::Release);
                    parkers[usize::try_from(1 - me).unwrap()].wake_all();
                }
            });
        }
    });
    assert_eq!(turn.load(Ordering::Acquire), 2 * EACH as u64);
}

#[test]
fn a_wait_with_a_limit_says_whether_it_was_met() {
    let parker = Parker::default();
    let soon = Some(Duration::from_millis(1));
    assert!(parker.wait_until(soon, || true));
    assert!(!parker.wait_until(Some(Duration::ZERO), || false));
    // Met at the very last look.
    let looks = AtomicU64::new(0);
    assert!(parker.wait_until(soon, || looks.fetch_add(1, Ordering::Relaxed) == 2));
    // To wake nobody harms nobody.
    parker.wake_all();
}

#[test]
fn the_generator_gives_the_published_numbers_for_ever() {
    // Reference values of SplitMix64 for the seed 1234567.
    let mut rng = Rng::new(1_234_567);
    let first: Vec<_> = (0..5).map(|_| rng.next_u64()).collect();
    assert_eq!(
        first,
        [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ]
    );
    let mut copy = rng.clone();
    assert_eq!(copy.next_u64(), rng.next_u64());
}

#[test]
fn draws_below_a_bound_reach_all_of_it_about_equally() {
    let mut rng = Rng::new(9);
    let bounds: &[u64] = if cfg!(miri) { &[3] } else { &[1, 2, 3, 7, 64] };
    for &bound in bounds {
        let mut counts = vec![0u32; usize::try_from(bound).unwrap()];
        let draws = 2_000 * u32::try_from(bound).unwrap();
        for _ in 0..draws {
            counts[usize::try_from(rng.below(bound)).unwrap()] += 1;
        }
        assert!(
            counts.iter().all(|n| (1_700..2_300).contains(n)),
            "{bound}: {counts:?}"
        );
    }
    for bound in [1 << 63, u64::MAX] {
        assert!((0..1_000).all(|_| rng.below(bound) < bound));
    }
}

#[test]
fn threads_draw_numbers_of_their_own() {
    let drawn = || (0..50).map(|_| local_u64()).collect::<Vec<_>>();
    let all: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(drawn)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), 200);
}

#[test]
fn threads_are_named_numbered_and_give_their_results_back() {
    let name = || std::thread::current().name().map(str::to_owned);
    let look = move || (name(), thread::ordinal(), thread::ordinal());
    let (named, ordinal, again) = thread::spawn("velella-test", look).unwrap().join().unwrap();
    assert_eq!((named.as_deref(), ordinal), (Some("velella-test"), again));
    assert_ne!(ordinal, thread::ordinal(), "another thread, another number");
    let borrowed = [1, 2, 3];
    thread::scope(|scope| {
        let sum = || (name(), borrowed.iter().sum::<i32>());
        let ended = thread::spawn_scoped(scope, "velella-scoped", sum)
            .unwrap()
            .join();
        assert_eq!(ended.unwrap(), (Some("velella-scoped".to_owned()), 6));
    });
}

#[test]
fn clocks_go_on_and_a_sleep_lasts_at_least_its_time() {
    let (start, wall) = (thread::now(), thread::wall_ms());
    thread::sleep(Duration::from_millis(2));
    assert!(start.elapsed() >= Duration::from_millis(2));
    assert!(thread::now() > start);
    // Milliseconds since 1970: after 2020, and not in microseconds.
    assert!(wall > 1_577_836_800_000 && wall < 1 << 43, "{wall}");
}

#[test]
fn a_lock_is_not_poisoned_by_a_panic() {
    let (mutex, lock) = (Mutex::new(1), RwLock::new(1));
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        *mutex.lock() = 2;
        *lock.write() = 2;
        let _held = (mutex.lock(), lock.write());
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(outcome.is_err());
    assert_eq!((*mutex.lock(), *lock.read()), (2, 2));
    assert!(lock.try_read().is_some() && lock.try_write().is_some());
}

#[test]
fn counters_sum_what_all_threads_added() {
    let counter = Counter::default();
    assert_eq!(counter.sum(), 0);
    std::thread::scope(|scope| {
        // More threads than stripes: some share one.
        for thread in 0..40 {
            let counter = &counter;
            scope.spawn(move || (0..50).for_each(|n| counter.add(thread * n)));
        }
    });
    assert_eq!(counter.sum(), (0..40).sum::<u64>() * (0..50).sum::<u64>());
    counter.increment();
    counter.add(0);
    assert_eq!(counter.sum(), 780 * 1_225 + 1);
}

#[test]
fn asking_for_memory_changes_none_of_it() {
    let bytes: Vec<u8> = (0..=255).cycle().take(1_000).collect();
    prefetch::prefetch_all(&bytes);
    prefetch::prefetch_all(&[]);
    prefetch::prefetch(&bytes[999]);
    prefetch::prefetch(bytes.as_slice());
    assert!(
        bytes
            .iter()
            .zip((0..=255).cycle())
            .all(|(byte, expected)| *byte == expected)
    );
    velella_sync::spot(3);
}
