//! Waiting for a condition that other threads make true.
//!
//! Source: the per-resource wait/signal of Xyza (HotStorage) 3.3: a signal costs one load when
//! nobody waits.
//!
//! K1. A waiter registers before it tests its condition the last time, and a signaller makes the
//!     condition true before it looks for waiters; a fence on both sides lets at least one see the
//!     other. So no wake-up is lost.

use crate::atomic::{AtomicUsize, Ordering, fence};
use crate::lock::{Condvar, Mutex};
use crate::thread::now;
use std::time::Duration;

/// A place to wait at.
#[derive(Debug, Default)]
pub struct Parker {
    waiters: AtomicUsize,
    lock: Mutex<()>,
    condition: Condvar,
}

impl Parker {
    /// Nobody waits.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits until `ready` is true or `limit` has passed; says which.
    pub fn wait_until(&self, limit: Option<Duration>, mut ready: impl FnMut() -> bool) -> bool {
        if ready() {
            return true;
        }
        // A limit beyond the end of time is none.
        let deadline = limit.and_then(|limit| now().checked_add(limit));
        let mut lock = self.lock.lock();
        // Relaxed + fence, partner: the fence in `wake_all` (K1).
        self.waiters.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let met = loop {
            if ready() {
                break true;
            }
            match deadline {
                None => self.condition.wait(&mut lock),
                Some(deadline) => {
                    if self.condition.wait_until(&mut lock, deadline).timed_out() {
                        break ready();
                    }
                }
            }
        };
        // Relaxed: under the lock, and an extra signal does no harm.
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        met
    }

    /// Whether somebody waits, as far as one can tell without a lock: a hint.
    #[must_use]
    pub fn is_awaited(&self) -> bool {
        // Relaxed: a hint.
        self.waiters.load(Ordering::Relaxed) != 0
    }

    /// Wakes whoever waits; call it after making their condition true.
    #[inline]
    pub fn wake_all(&self) {
        // Fence + Relaxed, partner: the fence in `wait_until` (K1).
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::Relaxed) != 0 {
            // A waiter holds the lock from its test until it sleeps, so this cannot slip
            // between the two.
            drop(self.lock.lock());
            self.condition.notify_all();
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::atomic::AtomicBool;

    #[test]
    fn a_waiter_is_woken_and_a_late_one_does_not_sleep() {
        let parker = Parker::new();
        let flag = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| parker.wait_until(None, || flag.load(Ordering::Acquire)));
            flag.store(true, Ordering::Release);
            parker.wake_all();
            assert!(waiter.join().unwrap());
        });
        assert!(parker.wait_until(None, || flag.load(Ordering::Acquire)));
        assert!(!parker.wait_until(Some(Duration::from_millis(1)), || false));
    }

    #[test]
    fn a_limit_beyond_the_end_of_time_is_none() {
        let parker = Parker::new();
        let mut asked = 0;
        let ready = || {
            asked += 1;
            asked > 1
        };
        assert!(parker.wait_until(Some(Duration::MAX), ready));
    }
}
