//! How high a new tower is.
//!
//! Drawn per thread, so that no two threads share a generator; geometric with p = 1/4.

use velella_sync::rng::local_u64;

/// How many levels above the bottom a new node has, at most `limit`: each further one with
/// probability 1/4, as in LevelDB and RocksDB.
pub(crate) fn random_height(limit: usize) -> usize {
    // loom must take the same steps every time, and has no room for towers.
    if cfg!(loom) {
        return 0;
    }
    ((local_u64().trailing_zeros() / 2) as usize).min(limit)
}
