//! Atomics: the machine's, or loom's under `--cfg loom`.
//!
//! Code above names these types and nothing else, so that a model runs the code itself.

#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// The machine's atomics under loom too: for statics, which outlive a model's run, and for words in
/// mapped memory, which no model holds.
pub mod machine {
    pub use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
}

/// Tells the processor that this is a spin loop; under loom, lets another thread run.
#[inline]
pub fn spin() {
    #[cfg(not(loom))]
    std::hint::spin_loop();
    #[cfg(loom)]
    loom::thread::yield_now();
}
