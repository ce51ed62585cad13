//! How high a new tower is.
//!
//! Drawn per thread, so that no two threads share a generator; geometric with p = 1/4.

use std::cell::RefCell;
use velella_sync::rng::Rng;

thread_local! {
    static HEIGHTS: RefCell<Rng> = RefCell::new(Rng::new(seed()));
}

/// A different seed for every thread.
fn seed() -> u64 {
    static NEXT: velella_sync::atomic::machine::AtomicU64 =
        velella_sync::atomic::machine::AtomicU64::new(1);
    // Relaxed: only distinct.
    NEXT.fetch_add(1, velella_sync::atomic::machine::Ordering::Relaxed)
}

/// How many levels above the bottom a new node has, at most `limit`: each further one with
/// probability 1/4, as in LevelDB and RocksDB.
pub(crate) fn random_height(limit: usize) -> usize {
    // A model must take the same steps every time it is run.
    if cfg!(loom) {
        return 0;
    }
    let bits = HEIGHTS.with_borrow_mut(Rng::next_u64);
    ((bits.trailing_zeros() / 2) as usize).min(limit)
}
