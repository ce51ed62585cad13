//! Which databases have the function of a transaction running on this thread (`transact.rs`, T3).
//!
//! D1. What every write asks first is one word of its own thread: it is shared with nobody and has
//!     no destructor, so that the answer costs next to nothing and is there until the thread ends.
//! D2. However a function ends, by a result, an error or a panic, its mark goes with it. Marks go
//!     in the reverse of the order in which they came, since each lives as long as a call.
//!
//! Threads: each has marks of its own. In a model they share what is the system thread's, so that
//! none is made there.
//! Tests: `tests/transact.rs`.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

thread_local! {
    /// How many functions are running, each called by the one before (D1).
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The addresses of their engines, the outermost first.
    static ENGINES: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The mark of one that is running (D2).
#[derive(Debug)]
pub(crate) struct Deciding {
    is_made: bool,
    /// It stays on its thread.
    thread: PhantomData<*const ()>,
}

impl Deciding {
    /// Marks the engine at this address. Nothing is marked while the thread ends.
    pub(crate) fn over(engine: usize) -> Self {
        let is_made = !cfg!(any(loom, shuttle))
            && ENGINES
                .try_with(|engines| engines.borrow_mut().push(engine))
                .is_ok();
        if is_made {
            DEPTH.set(DEPTH.get() + 1);
        }
        Deciding {
            is_made,
            thread: PhantomData,
        }
    }
}

impl Drop for Deciding {
    fn drop(&mut self) {
        if self.is_made {
            DEPTH.set(DEPTH.get() - 1);
            // It cannot fail: the thread was not ending when the function began.
            let _ = ENGINES.try_with(|engines| engines.borrow_mut().pop());
        }
    }
}

/// Whether a function over any database is running.
#[inline]
pub(crate) fn is_any() -> bool {
    DEPTH.get() != 0
}

/// Whether one over the engine at this address is.
#[cold]
pub(crate) fn is_over(engine: usize) -> bool {
    ENGINES.try_with(|engines| engines.borrow().contains(&engine)) == Ok(true)
}
