//! A fixed set of exclusive things that threads check out for one operation at a time.
//!
//! The engine keeps its (slot, lane) pairs here: checked out per write by one CAS, so thread exit,
//! thread pools and reentrant calls need no destructor.
//!
//! P1. At most one guard per entry exists: `busy` goes false -> true by one successful CAS, and
//!     back only when that guard drops.
//! P2. What the last holder did to the entry is visible to the next (Release / Acquire on `busy`).
//!
//! Threads: any. `checkout` never blocks; it returns `None` when every entry is out.

use crate::CachePadded;
use crate::atomic::{AtomicBool, Ordering};
use std::cell::{Cell, UnsafeCell};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

thread_local! {
    /// The entry this thread used last: most likely free, and its lines are in our cache.
    static LAST: Cell<usize> = const { Cell::new(usize::MAX) };
    static SPREAD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Lets the next check-out of this thread, from any pool, begin at entry `index` (simulations).
#[doc(hidden)]
pub fn prefer(index: usize) {
    LAST.set(index);
}

static NEXT_START: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// A fixed set of exclusive entries.
#[derive(Debug)]
pub struct Pool<T> {
    entries: Box<[CachePadded<Slot<T>>]>,
}

#[derive(Debug)]
struct Slot<T> {
    busy: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is reached only through a guard, and P1 gives each entry at most one.
unsafe impl<T: Send> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// A pool of `values`, all free.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = T>) -> Self {
        let entries = values
            .into_iter()
            .map(|value| {
                CachePadded::new(Slot {
                    busy: AtomicBool::new(false),
                    value: UnsafeCell::new(value),
                })
            })
            .collect();
        Pool { entries }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes an entry out, the one this thread used last if it is free.
    #[inline]
    pub fn checkout(&self) -> Option<PoolGuard<'_, T>> {
        let last = LAST.get();
        // What other runs left behind is none of a model's business.
        if last < self.entries.len()
            && !cfg!(any(loom, shuttle))
            && let Some(guard) = self.try_checkout(last)
        {
            return Some(guard);
        }
        self.checkout_any()
    }

    /// Takes out the first entry that is free: where it pays to use few of them.
    #[must_use]
    pub fn checkout_first(&self) -> Option<PoolGuard<'_, T>> {
        (0..self.entries.len()).find_map(|index| self.try_checkout(index))
    }

    #[cold]
    fn checkout_any(&self) -> Option<PoolGuard<'_, T>> {
        // Threads start at different entries, so that each soon has one of its own.
        if SPREAD.get() == usize::MAX {
            // Relaxed: only spreads threads.
            SPREAD.set(NEXT_START.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 4096);
        }
        let count = self.entries.len();
        let start = if cfg!(any(loom, shuttle)) {
            0
        } else {
            SPREAD.get()
        };
        (0..count).find_map(|step| {
            let index = (start + step) % count;
            let guard = self.try_checkout(index)?;
            LAST.set(index);
            Some(guard)
        })
    }

    /// Takes entry `index` out if it is free.
    #[inline]
    pub fn try_checkout(&self, index: usize) -> Option<PoolGuard<'_, T>> {
        let slot = self.entries.get(index)?;
        // Acquire, partner: the Release in `PoolGuard::drop` (P2). Relaxed on failure: nothing is
        // read then.
        slot.busy
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .ok()?;
        Some(PoolGuard {
            pool: self,
            index,
            entry: PhantomData,
        })
    }
}

/// Exclusive use of one entry; dropping it puts the entry back. It can be shared between threads
/// only if the entry can:
///
/// ```compile_fail,E0277
/// fn is_shared<T: Sync>() {}
/// is_shared::<velella_sync::PoolGuard<'_, std::cell::Cell<u32>>>();
/// ```
#[derive(Debug)]
pub struct PoolGuard<'a, T> {
    pool: &'a Pool<T>,
    index: usize,
    /// Shared, it is what its entry is; by the pool alone it could be shared whenever that can be
    /// sent.
    entry: PhantomData<&'a mut T>,
}

impl<T> PoolGuard<'_, T> {
    /// Which entry this is.
    #[must_use]
    #[inline]
    pub fn index(&self) -> usize {
        self.index
    }
}

impl<T> Deref for PoolGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: P1: this guard is the only way to the entry, and it is borrowed.
        unsafe { &*self.pool.entries[self.index].value.get() }
    }
}

impl<T> DerefMut for PoolGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: P1: this guard is the only way to the entry, and it is mutably borrowed.
        unsafe { &mut *self.pool.entries[self.index].value.get() }
    }
}

impl<T> Drop for PoolGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // Release, partner: the Acquire in `try_checkout` (P2).
        self.pool.entries[self.index]
            .busy
            .store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_one_holder_at_a_time() {
        let pool = Pool::new(vec![0u64; 3]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let mut entry = loop {
                            match pool.checkout() {
                                Some(entry) => break entry,
                                None => std::thread::yield_now(),
                            }
                        };
                        // Lost updates here would show two holders.
                        let seen = *entry;
                        std::hint::black_box(&seen);
                        *entry = seen + 1;
                    }
                });
            }
        });
        let sum: u64 = (0..3).map(|index| *pool.try_checkout(index).unwrap()).sum();
        assert_eq!(sum, 4000);
    }

    #[test]
    fn the_first_free_entry_is_found_whoever_used_which() {
        let pool = Pool::new(0..3);
        let held = pool.checkout_first().unwrap();
        assert_eq!(*held, 0);
        let second = pool.checkout_first().unwrap();
        assert_eq!(*second, 1);
        drop(held);
        assert_eq!(*pool.checkout_first().unwrap(), 0);
        let all = [
            pool.checkout_first().unwrap(),
            pool.checkout_first().unwrap(),
        ];
        assert!(
            pool.checkout_first().is_none(),
            "{all:?} and {second:?} are out"
        );
    }

    #[test]
    fn an_empty_handed_checkout_says_so() {
        let pool = Pool::new([1]);
        let held = pool.checkout().unwrap();
        assert!(pool.checkout().is_none());
        drop(held);
        assert_eq!(*pool.checkout().unwrap(), 1);
    }
}
