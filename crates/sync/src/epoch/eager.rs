//! Reclamation as early as the contract allows: what one guard defers runs when the last guard
//! that existed at the time has gone. A reader that relies on a moment more is found.
//!
//! E1. Deferred work runs once, outside every borrow of the registry: it takes steps of the model.
//!
//! Threads: the threads of a shuttle model all run on the one that started it, so the registry is a
//! thread-local of the standard library. A run that failed leaves its guards behind; so whoever
//! explores a model does it on a thread of its own (`crate::model` does).

use std::cell::RefCell;
use std::collections::BTreeSet;

#[derive(Default)]
struct Registry {
    next: u64,
    pinned: BTreeSet<u64>,
    deferred: Vec<Deferred>,
}

struct Deferred {
    /// The guards that have to go first.
    awaits: BTreeSet<u64>,
    work: Box<dyn FnOnce()>,
}

thread_local! {
    static REGISTRY: RefCell<Registry> = RefCell::default();
}

/// Proof that this thread is pinned.
#[derive(Debug)]
pub struct Guard(u64);

/// Pins this thread.
#[must_use]
pub fn pin() -> Guard {
    Guard(enter())
}

/// Nothing to do: nothing waits longer than it must.
pub fn flush() {}

fn enter() -> u64 {
    REGISTRY.with_borrow_mut(|registry| {
        registry.next += 1;
        let id = registry.next;
        registry.pinned.insert(id);
        id
    })
}

/// Forgets the guard, and runs what waited for it alone.
fn leave(id: u64) {
    let due: Vec<Deferred> = REGISTRY.with_borrow_mut(|registry| {
        registry.pinned.remove(&id);
        for deferred in &mut registry.deferred {
            deferred.awaits.remove(&id);
        }
        let is_due = |deferred: &mut Deferred| deferred.awaits.is_empty();
        registry.deferred.extract_if(.., is_due).collect()
    });
    for deferred in due {
        if std::thread::panicking() {
            // The run has failed; nothing is to be trusted any more.
            std::mem::forget(deferred);
        } else {
            (deferred.work)();
        }
    }
}

impl Guard {
    /// Runs `work` once every guard that exists now, this one included, has gone.
    pub fn defer<F: FnOnce() + Send + 'static>(&self, work: F) {
        // SAFETY: it borrows nothing.
        unsafe { self.defer_unchecked(work) };
    }

    /// As [`Guard::defer`], for work that is sound only when no pinned reader is left.
    ///
    /// # Safety
    /// `work` runs later: everything it touches must be valid until then.
    pub unsafe fn defer_unchecked<F: FnOnce()>(&self, work: F) {
        let work: Box<dyn FnOnce() + '_> = Box::new(work);
        // SAFETY: the caller vouches for what it borrows.
        let work: Box<dyn FnOnce() + 'static> = unsafe { std::mem::transmute(work) };
        REGISTRY.with_borrow_mut(|registry| {
            let awaits = registry.pinned.clone();
            registry.deferred.push(Deferred { awaits, work });
        });
    }

    /// Nothing to do: nothing waits longer than it must.
    pub fn flush(&self) {}

    /// Unpins and pins again. References obtained before are invalid afterwards, which `&mut`
    /// enforces.
    pub fn repin(&mut self) {
        let old = std::mem::replace(&mut self.0, enter());
        leave(old);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        leave(self.0);
    }
}
