//! The brake on writers: how much each owes for its bytes, and whether all must stop.
//!
//! P1. Every value is a hint that takes effect whenever it is seen; nothing relies on it.
//!
//! Threads: background threads set it, writers read it. Tests: below; as `backpressure`.

use velella_sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes per second at the lightest brake; it falls in proportion as the brake tightens.
const PACED_BYTES_PER_SECOND: f64 = 64e6;

/// How hard writers are braked, as the background threads last judged it.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Nanoseconds a writer owes per KiB; 0 when nothing lags.
    pub(crate) nanos_per_kib: AtomicU64,
    /// What writers owe together.
    pub(crate) owed_nanos: AtomicU64,
    /// Writers must wait until a tree calms down.
    stop: AtomicBool,
}

impl Pace {
    /// Sets the brake: 0 is none, 1 stops writers.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number of nanoseconds far below 2^63"
    )]
    pub(crate) fn set(&self, brake: f64) {
        let brake = brake.clamp(0.0, 1.0);
        let rate = PACED_BYTES_PER_SECOND * (1.0 - brake).max(0.02);
        let nanos = if brake > 0.0 {
            (1e9 * 1024.0 / rate) as u64
        } else {
            0
        };
        // Relaxed: a hint that takes effect whenever it is seen.
        self.nanos_per_kib.store(nanos, Ordering::Relaxed);
        self.stop.store(brake >= 1.0, Ordering::Relaxed);
    }

    pub(crate) fn must_stop(&self) -> bool {
        // Relaxed: see `set`.
        self.stop.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
