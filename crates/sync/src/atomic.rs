//! Atomics: the machine's, or a model's under `--cfg loom` or `--cfg shuttle`.
//!
//! Code above names these types and nothing else, so that a model runs the code itself. loom knows
//! the orderings; to shuttle every access is sequentially consistent, and what it explores is the
//! order of steps in executions far longer than loom's.

#[cfg(loom)]
use loom::sync::atomic as chosen;
#[cfg(shuttle)]
use shuttle::sync::atomic as chosen;
#[cfg(not(any(loom, shuttle)))]
use std::sync::atomic as chosen;

pub use chosen::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// The machine's atomics in a model too: for statics, which outlive a model's run, and for words in
/// mapped memory, which no model holds.
pub mod machine {
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// Tells the processor that this is a spin loop; in a model, lets another thread run.
#[inline]
pub fn spin() {
    #[cfg(not(any(loom, shuttle)))]
    std::hint::spin_loop();
    #[cfg(any(loom, shuttle))]
    crate::thread::yield_now();
}
