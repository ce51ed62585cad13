//! Ends a test that hangs.
//!
//! A deadlock must fail with the name of what hung, not stop the whole run. The limit is far above
//! any healthy duration, so it never decides about speed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Ends the process, naming the test, unless it is dropped in time. No test measures by it.
#[derive(Debug)]
pub struct Watchdog {
    over: Arc<AtomicBool>,
}

impl Watchdog {
    /// Watches `test` for so many seconds.
    #[must_use]
    pub fn new(test: &'static str, seconds: u64) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let watch = move || {
            for _ in 0..seconds * 20 {
                thread::sleep(Duration::from_millis(50));
                // Acquire, partner: `drop`.
                if seen.load(Ordering::Acquire) {
                    return;
                }
            }
            eprintln!("{test} hangs: no end after {seconds} s");
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
