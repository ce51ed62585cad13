//! A thread that has nothing to do but wake at intended times.
//!
//! Source: ours. How late it wakes is what the machine and its scheduler take from anybody, so it
//! is the measure for what waits beside it.
//!
//! Threads: its own, beside those that are measured. Tests: `drive/tests.rs`.

use crate::client::{histogram, record};
use crate::result::float;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two wakes.
const TICK: Duration = Duration::from_millis(1);

/// How late an idle thread wakes, which has nothing to do but wake at intended times.
pub(super) fn idle(stop: &AtomicBool) -> Histogram<u64> {
    let mut late = histogram();
    let start = Instant::now();
    for n in 1..u64::MAX {
        let intended = start + TICK.mul_f64(float(n));
        std::thread::sleep(intended.saturating_duration_since(Instant::now()));
        record(&mut late, intended);
        // Relaxed: stops within one more wait.
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    late
}
