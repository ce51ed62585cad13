//! Ends a test that hangs.
//!
//! A deadlock must fail with the name of what hung, not stop the whole run. The limit is far above
//! any healthy duration, so it never decides about speed; where everything takes many times as
//! long, as under a sanitizer, [`patience`] is asked for more.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// `limit`, after which something hangs, times what `VELELLA_PATIENCE` says (default 1).
///
/// # Panics
/// It says no number: who asked for more would get less.
#[must_use]
pub fn patience(limit: Duration) -> Duration {
    limit * times(std::env::var("VELELLA_PATIENCE").ok().as_deref())
}

fn times(told: Option<&str>) -> u32 {
    told.map_or(1, |text| {
        text.parse().expect("VELELLA_PATIENCE is a number")
    })
}

/// Ends the process, naming the test, unless it is dropped in time. No test measures by it.
#[derive(Debug)]
pub struct Watchdog {
    over: Arc<AtomicBool>,
}

impl Watchdog {
    /// Watches `test` for so many seconds, or its [`patience`].
    #[must_use]
    pub fn new(test: &'static str, seconds: u64) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let watch = move || {
            let limit = patience(Duration::from_secs(seconds));
            let begun = Instant::now();
            while begun.elapsed() < limit {
                thread::sleep(Duration::from_millis(50));
                // Acquire, partner: `drop`.
                if seen.load(Ordering::Acquire) {
                    return;
                }
            }
            // Not by `eprintln!`: what that prints in a test is kept for its report, which an abort
            // never prints.
            let _ = writeln!(std::io::stderr(), "{test} hangs: no end after {limit:?}");
            std::process::abort();
        };
        drop(thread::spawn(watch));
        Watchdog { over }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        // Release, partner: the watching thread.
        self.over.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_one_unless_told() {
        assert_eq!((times(None), times(Some("10"))), (1, 10));
    }

    #[test]
    #[should_panic(expected = "VELELLA_PATIENCE is a number")]
    fn patience_that_is_no_number_is_refused() {
        let _ = times(Some("long"));
    }
}
