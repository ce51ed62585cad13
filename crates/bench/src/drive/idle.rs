//! A thread that has nothing to do but wake at intended times.
//!
//! Source: ours. How late it wakes the machine and its scheduler are to blame for, so it is the
//! measure for what runs beside it, which they take more from: who mostly sleeps is favoured.
//!
//! Threads: its own, beside those that are measured. Tests: `drive/tests.rs`.

use crate::done::{histogram, record};
use crate::result::float;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two wakes.
const TICK: Duration = Duration::from_millis(1);

/// How late the calling thread wakes, until told to stop.
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
