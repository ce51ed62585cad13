//! Locks for cold paths: never taken on the path of a get or a put.
//!
//! Not poisoned by a panic: what must not be used after one says so itself.

#[cfg(not(loom))]
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

#[cfg(loom)]
pub use loom_lock::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
mod loom_lock {
    pub use loom::sync::MutexGuard;

    /// loom's mutex with `parking_lot`'s interface.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        /// A mutex around `value`.
        pub fn new(value: T) -> Self {
            Mutex(loom::sync::Mutex::new(value))
        }

        /// Waits for the mutex.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0
                .lock()
                .expect("a model never panics while holding a lock")
        }
    }

    /// loom's condition variable (unused in models so far; present so that code compiles).
    #[derive(Debug, Default)]
    pub struct Condvar(loom::sync::Condvar);

    impl Condvar {
        /// A condition nobody waits for.
        pub fn new() -> Self {
            Condvar(loom::sync::Condvar::new())
        }

        /// Wakes every waiter.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
