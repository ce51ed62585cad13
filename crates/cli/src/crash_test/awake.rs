//! How long something took while the machine let this process run.
//!
//! A machine that is stopped for seconds, as a shared one may be, stops every thread of it: what a
//! limit is to find is an opening that works, or waits, for too long by itself.
//!
//! Threads: one beside the caller, for as long as that works. Tests: below.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How often it looks at the clock. Of the time between two looks, what exceeds two of these was a
/// stop.
const LOOK: Duration = Duration::from_millis(100);

/// Does `work`, and says how long that took, stops left out.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    std::thread::scope(|scope| {
        let (done, is_done) = sync_channel::<()>(1);
        let mut looked = Instant::now();
        let clock = scope.spawn(move || {
            let mut awake = Duration::ZERO;
            loop {
                let word = is_done.recv_timeout(LOOK);
                let now = Instant::now();
                awake += without_a_stop(now - looked);
                looked = now;
                if word != Err(RecvTimeoutError::Timeout) {
                    return awake;
                }
            }
        });
        let result = work();
        drop(done);
        // It cannot panic; if it did, a limit must not be passed for it.
        (result, clock.join().unwrap_or(Duration::MAX))
    })
}

fn without_a_stop(between_looks: Duration) -> Duration {
    between_looks.min(2 * LOOK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_or_waits_takes_its_time_and_a_stop_takes_little() {
        let nap = 3 * LOOK;
        let (result, took) = timed(|| {
            std::thread::sleep(nap);
            7
        });
        assert_eq!(result, 7);
        // A busy machine may have looked late.
        assert!(took > LOOK, "{took:?}");
        assert_eq!(without_a_stop(LOOK), LOOK);
        assert_eq!(without_a_stop(Duration::from_secs(9)), 2 * LOOK);
    }
}
