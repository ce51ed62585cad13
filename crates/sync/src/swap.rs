//! A pointer to an immutable object that readers load and publishers replace.
//!
//! Views, table versions and directories are published this way: a load is one Acquire under the
//! reader's epoch pin, no count is touched.
//!
//! W1. The object stored is complete before its pointer is (Release / Acquire).
//! W2. The count that the cell holds on a replaced object is given up only when no pinned reader
//!     can still see it.
//! W3. A replaced object is freed soon after the last pinned reader has left, whichever thread
//!     replaced it and whatever that thread does next.
//!
//! Tests: below, and under Miri through the crates that use it.

use crate::atomic::{AtomicPtr, Ordering};
use crate::epoch::Guard;
use std::sync::Arc;

/// A cell that holds an `Arc<T>` and can be read without touching its count.
#[derive(Debug)]
pub struct Swap<T> {
    pointer: AtomicPtr<T>,
}

impl<T: Send + Sync + 'static> Swap<T> {
    /// A cell that holds `value`.
    #[must_use]
    pub fn new(value: Arc<T>) -> Self {
        Swap {
            pointer: AtomicPtr::new(Arc::into_raw(value).cast_mut()),
        }
    }

    /// The current object, valid while pinned.
    #[inline]
    pub fn load<'g>(&'g self, _guard: &'g Guard) -> &'g T {
        // Acquire, partner: the Release half of the swap in `store` (W1).
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: the cell owns one count of `pointer`, which `store` gives up only after every
        // thread pinned at that time, this one included, has unpinned (W2).
        unsafe { &*pointer }
    }

    /// The current object with a count of its own.
    pub fn load_full(&self, _guard: &Guard) -> Arc<T> {
        // Acquire, partner: as in `load`. Not through the reference that `load` makes: the counts
        // lie beside the object, where a reference to the object may not reach.
        let pointer: *const T = self.pointer.load(Ordering::Acquire);
        // SAFETY: the object is alive (see `load`), so its count is at least one and may be raised.
        unsafe { Arc::increment_strong_count(pointer) };
        // SAFETY: the count raised above is the one this `Arc` owns.
        unsafe { Arc::from_raw(pointer) }
    }

    /// Replaces the object. Publishers serialise among themselves.
    pub fn store(&self, value: Arc<T>, guard: &Guard) {
        self.exchange(value).retire(guard);
    }

    /// As [`Swap::store`] in two steps: this one is a single exchange, which neither allocates nor
    /// frees; the one that takes time is [`Replaced::retire`].
    pub fn exchange(&self, value: Arc<T>) -> Replaced<T> {
        let new = Arc::into_raw(value).cast_mut();
        // AcqRel: Release publishes the new object (W1); Acquire, because the old one is dropped
        // by this thread and was published by another.
        Replaced(Owned(self.pointer.swap(new, Ordering::AcqRel)))
    }
}

/// An object that was replaced, and that readers may still see. Dropped, it leaks.
#[derive(Debug)]
#[must_use = "it leaks unless it is retired"]
pub struct Replaced<T>(Owned<T>);

// SAFETY: it is the one count of an `Arc`, which may be given up on any thread.
unsafe impl<T: Send + Sync> Send for Replaced<T> {}

impl<T: Send + Sync + 'static> Replaced<T> {
    /// Frees the object once every reader pinned now has left.
    pub fn retire(self, guard: &Guard) {
        let old = self.0;
        // SAFETY: `old` carries the cell's count, taken out by the exchange exactly once; `T` is
        // Send, so it may be dropped on whichever thread runs this.
        unsafe { guard.defer_unchecked(move || drop(old.into_arc())) };
        // The object may own much memory, and this thread may never defer anything again.
        guard.flush();
    }
}

/// A raw pointer that carries one count.
#[derive(Debug)]
struct Owned<T>(*mut T);

impl<T> Owned<T> {
    fn into_arc(self) -> Arc<T> {
        // SAFETY: `Owned` is built only from pointers that carry a count, and consumed once.
        unsafe { Arc::from_raw(self.0) }
    }
}

impl<T> Drop for Swap<T> {
    fn drop(&mut self) {
        // Relaxed: `&mut self` proves that no other thread is looking.
        let pointer = self.pointer.load(Ordering::Relaxed);
        drop(Owned(pointer).into_arc());
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::atomic::AtomicBool;
    use crate::epoch;

    #[test]
    fn a_replaced_object_is_freed_though_its_publisher_does_nothing_more() {
        let freed = Arc::new(AtomicBool::new(false));
        struct Tell(Arc<AtomicBool>);
        impl Drop for Tell {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let cell = Swap::new(Arc::new(Some(Tell(Arc::clone(&freed)))));
        let (done, wait) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let cell = &cell;
            let (published, ready) = std::sync::mpsc::channel();
            scope.spawn(move || {
                cell.store(Arc::new(None), &epoch::pin());
                published.send(()).unwrap();
                // It lives on, and defers nothing more.
                wait.recv().unwrap();
            });
            ready.recv().unwrap();
            for _ in 0..1000 {
                epoch::flush();
            }
            done.send(()).unwrap();
        });
        assert!(freed.load(Ordering::Acquire), "W3");
    }

    #[test]
    fn a_reader_keeps_what_it_loaded_across_a_store() {
        let cell = Swap::new(Arc::new(String::from("old")));
        let guard = epoch::pin();
        let seen = cell.load(&guard);
        cell.store(Arc::new(String::from("new")), &guard);
        assert_eq!(seen, "old");
        assert_eq!(cell.load(&guard), "new");
        assert_eq!(*cell.load_full(&guard), "new");
    }
}
