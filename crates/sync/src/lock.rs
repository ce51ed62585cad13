//! Locks for cold paths: no get or put waits for one while what it needs is in memory.
//!
//! Not poisoned by a panic: what must not be used after one says so itself. In a model the same
//! interface stands before the model's locks, and time stands still: a wait with a limit is one
//! without, so that a wake-up which is lost, and which the limit would have hidden, is a deadlock.

#[cfg(not(any(loom, shuttle)))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(any(loom, shuttle))]
pub use model::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(any(loom, shuttle))]
mod model;
