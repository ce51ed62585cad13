//! The door's own models, for both tools: waiting, checking out, replacing.

use std::sync::Arc;
use velella_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella_sync::parker::Parker;
use velella_sync::{Pool, thread};
#[cfg(shuttle)]
use velella_sync::{Swap, epoch};

/// A waiter is woken, whatever happens when (K1). `is_late` spoils it: the signal comes before the
/// condition is true.
pub(crate) fn wake_up(is_late: bool) {
    let shared = Arc::new((Parker::new(), AtomicBool::new(false)));
    let other = Arc::clone(&shared);
    let waiter = thread::spawn("waiter", move || {
        // Acquire, partner: the Release below.
        other.0.wait_until(None, || other.1.load(Ordering::Acquire))
    });
    if is_late {
        shared.0.wake_all();
    }
    // Release, partner: the Acquire above.
    shared.1.store(true, Ordering::Release);
    if !is_late {
        shared.0.wake_all();
    }
    assert!(waiter.unwrap().join().unwrap());
}

/// Two threads count in the entry they check out (P1, P2). `is_shared` spoils it: they do not
/// check out, but read and write apart.
pub(crate) fn check_out(is_shared: bool) {
    let pool = Arc::new((Pool::new([0u64]), AtomicU64::new(0)));
    let count = move |pool: &(Pool<u64>, AtomicU64)| {
        if is_shared {
            // Relaxed: the spoiled model's.
            let seen = pool.1.load(Ordering::Relaxed);
            pool.1.store(seen + 1, Ordering::Relaxed);
            return;
        }
        loop {
            if let Some(mut entry) = pool.0.checkout() {
                *entry += 1;
                return;
            }
            thread::yield_now();
        }
    };
    let other = Arc::clone(&pool);
    let second = thread::spawn("second", move || count(&other)).unwrap();
    count(&pool);
    second.join().unwrap();
    // Relaxed: the other thread was joined.
    let sum = *pool.0.checkout().unwrap() + pool.1.load(Ordering::Relaxed);
    assert_eq!(sum, 2, "an increment was lost");
}

/// A reader's object is not freed before it unpins (W2). `is_unpinned` spoils it: the reader looks
/// once more after it has unpinned.
#[cfg(shuttle)]
pub(crate) fn replace(is_unpinned: bool) {
    struct Object(Arc<AtomicU64>);
    impl Drop for Object {
        fn drop(&mut self) {
            // Relaxed: sequence is what the model explores.
            self.0.store(0, Ordering::Relaxed);
        }
    }
    let alive = Arc::new(AtomicU64::new(1));
    let cell = Arc::new(Swap::new(Arc::new(Object(Arc::clone(&alive)))));
    let (publisher, other) = (Arc::clone(&cell), Arc::new(AtomicU64::new(1)));
    let second = thread::spawn("publisher", move || {
        publisher.store(Arc::new(Object(other)), &epoch::pin());
    });
    let guard = epoch::pin();
    let seen = Arc::clone(&cell.load(&guard).0);
    if is_unpinned {
        drop(guard);
        // Relaxed: as above.
        assert_eq!(seen.load(Ordering::Relaxed), 1, "freed under a reader");
    } else {
        // Relaxed: as above.
        assert_eq!(seen.load(Ordering::Relaxed), 1, "freed under a reader");
        drop(guard);
    }
    second.unwrap().join().unwrap();
}
