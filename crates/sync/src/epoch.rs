//! Epoch-based reclamation: what a thread can reach when it pins stays allocated until it unpins.
//!
//! Source: the RCU-like mechanism of cLSM (EuroSys '15) 3.1; crossbeam-epoch does the work. Under
//! loom nothing is ever freed, which keeps its executions short; under shuttle everything is, at
//! the first moment at which it may be.
//!
//! R1. A reference obtained under a [`Guard`] lives no longer than the guard.
//! R2. Operations pin step by step, and hold no lock that a collector takes. Who reads tables or
//!     waits for an undecided write stays pinned meanwhile, and holds reclamation back so long.

#[cfg(not(any(loom, shuttle)))]
pub use real::{Guard, flush, pin};

#[cfg(loom)]
pub use model::{Guard, flush, pin};

#[cfg(shuttle)]
pub use eager::{Guard, flush, pin};

#[cfg(shuttle)]
mod eager;

#[cfg(not(any(loom, shuttle)))]
mod real {
    /// Proof that this thread is pinned.
    #[derive(Debug)]
    pub struct Guard(crossbeam_epoch::Guard);

    /// Pins this thread. Nested pins are cheap.
    #[inline]
    #[must_use]
    pub fn pin() -> Guard {
        Guard(crossbeam_epoch::pin())
    }

    /// Pushes this thread's deferred work out to all threads and tries to run what is due.
    pub fn flush() {
        crossbeam_epoch::pin().flush();
    }

    impl Guard {
        /// Runs `work` once every thread pinned now has unpinned.
        pub fn defer<F: FnOnce() + Send + 'static>(&self, work: F) {
            self.0.defer(work);
        }

        /// As [`Guard::defer`], for work that is sound only when no pinned reader is left.
        ///
        /// # Safety
        /// `work` may run on any thread, later: everything it touches must be valid until then and
        /// usable from another thread.
        pub unsafe fn defer_unchecked<F: FnOnce()>(&self, work: F) {
            // SAFETY: the caller's promise is exactly what crossbeam asks for.
            unsafe { self.0.defer_unchecked(work) }
        }

        /// Hands what this thread has deferred to all threads: otherwise it waits until this
        /// thread has deferred much more, which it may never do.
        pub fn flush(&self) {
            self.0.flush();
        }

        /// Unpins and pins again, so that a long loop does not hold reclamation back. References
        /// obtained before are invalid afterwards, which `&mut` enforces.
        pub fn repin(&mut self) {
            self.0.repin();
        }
    }
}

#[cfg(loom)]
mod model {
    /// Proof that this thread is pinned; nothing is freed in a model.
    #[derive(Debug)]
    pub struct Guard(());

    /// Pins this thread.
    #[must_use]
    pub fn pin() -> Guard {
        Guard(())
    }

    /// Nothing to do in a model.
    pub fn flush() {}

    impl Guard {
        /// Leaks `work`.
        pub fn defer<F: FnOnce() + Send + 'static>(&self, work: F) {
            std::mem::forget(work);
        }

        /// Leaks `work`.
        ///
        /// # Safety
        /// As outside the model.
        pub unsafe fn defer_unchecked<F: FnOnce()>(&self, work: F) {
            std::mem::forget(work);
        }

        /// Nothing to do in a model.
        pub fn flush(&self) {}

        /// Nothing to do in a model.
        pub fn repin(&mut self) {}
    }
}
