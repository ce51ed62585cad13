//! A model's locks with the interface of the real ones.
//!
//! Both models speak the standard library's language, in which locks are poisoned and a condition
//! variable takes the guard and gives it back; here neither is so. Poison is passed over, because a
//! model that panics has failed anyway.

#[cfg(loom)]
use loom::sync as chosen;
#[cfg(shuttle)]
use shuttle::sync as chosen;

pub use chosen::{RwLockReadGuard, RwLockWriteGuard};

use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError};
use std::time::{Duration, Instant};

fn passed<G>(result: Result<G, PoisonError<G>>) -> G {
    result.unwrap_or_else(PoisonError::into_inner)
}

fn tried<G>(result: Result<G, TryLockError<G>>) -> Option<G> {
    match result {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A mutual exclusion.
#[derive(Debug, Default)]
pub struct Mutex<T>(chosen::Mutex<T>);

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub fn new(value: T) -> Self {
        Mutex(chosen::Mutex::new(value))
    }

    /// Waits for the mutex.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(passed(self.0.lock())))
    }

    /// Takes the mutex if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        tried(self.0.try_lock()).map(|guard| MutexGuard(Some(guard)))
    }

    /// Whether somebody holds it.
    pub fn is_locked(&self) -> bool {
        self.try_lock().is_none()
    }

    /// What it protects, which nobody else can reach.
    pub fn get_mut(&mut self) -> &mut T {
        passed(self.0.get_mut())
    }

    /// What it protected.
    pub fn into_inner(self) -> T {
        passed(self.0.into_inner())
    }
}

/// The mutex is held. Empty only while a condition variable has it.
#[derive(Debug)]
pub struct MutexGuard<'a, T>(Option<chosen::MutexGuard<'a, T>>);

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("a waiting thread does not look")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a waiting thread does not look")
    }
}

/// How a wait with a limit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitTimeoutResult(());

impl WaitTimeoutResult {
    /// Never: time stands still in a model.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        false
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(chosen::Condvar);

impl Condvar {
    /// A condition nobody waits for.
    #[must_use]
    pub fn new() -> Self {
        Condvar(chosen::Condvar::new())
    }

    /// Waits for a signal.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.0.take().expect("the mutex is held");
        guard.0 = Some(passed(self.0.wait(held)));
    }

    /// As [`Condvar::wait`].
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: Duration) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(())
    }

    /// As [`Condvar::wait`].
    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _: Instant) -> WaitTimeoutResult {
        self.wait(guard);
        WaitTimeoutResult(())
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A lock that many readers share.
#[derive(Debug, Default)]
pub struct RwLock<T>(chosen::RwLock<T>);

impl<T> RwLock<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        RwLock(chosen::RwLock::new(value))
    }

    /// Waits to read.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        passed(self.0.read())
    }

    /// Waits to write.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        passed(self.0.write())
    }

    /// Reads if nobody writes.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        tried(self.0.try_read())
    }

    /// Writes if nobody else is there.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        tried(self.0.try_write())
    }

    /// What it protects, which nobody else can reach.
    pub fn get_mut(&mut self) -> &mut T {
        passed(self.0.get_mut())
    }

    /// What it protected.
    pub fn into_inner(self) -> T {
        passed(self.0.into_inner())
    }
}
