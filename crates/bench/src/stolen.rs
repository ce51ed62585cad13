//! Processor time that the machine's host took away, and when that was seen to grow.
//!
//! Source: ours. A machine that is itself a guest may be stopped by its host, for a tenth of a
//! second where it has used up what it is allowed; Linux tells how much that was in all. Whoever
//! was stopped is late, and all behind it, whatever it was about to do.
//!
//! T1. Where the system does not tell, nothing was ever taken.
//! T2. It is the machine's: one number for the process, whoever looks.
//!
//! Threads: any. Tests: below.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What `/proc/stat` counts in.
const TICK: Duration = Duration::from_millis(10);
/// How long it may have been known to nobody that it grew.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// When somebody looked first.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);
/// What had been taken at the last look, in ticks. All accesses Relaxed: each look decides for
/// itself, and whoever sees a growth twice only says that it was later.
static TICKS: AtomicU64 = AtomicU64::new(0);
/// When it was seen to have grown, in nanoseconds from `START`; 0: never. All accesses Relaxed.
static GREW_AT: AtomicU64 = AtomicU64::new(0);

/// Looks; what was taken from all processors since the machine started.
pub(crate) fn look() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = ticks(&stat).unwrap_or(0);
    if TICKS.fetch_max(ticks, Ordering::Relaxed) < ticks {
        GREW_AT.fetch_max(ns_of(Instant::now()), Ordering::Relaxed);
    }
    TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
}

/// Looks; whether something was taken from some processor since `then`, as far as somebody looks
/// every few milliseconds.
pub(crate) fn has_grown_since(then: Instant) -> bool {
    look();
    let grew_at = GREW_AT.load(Ordering::Relaxed);
    grew_at > 0 && grew_at >= ns_of(then.checked_sub(LOOK_EVERY).unwrap_or(then))
}

fn ns_of(time: Instant) -> u64 {
    let ns = time.saturating_duration_since(*START).as_nanos();
    u64::try_from(ns).unwrap_or(u64::MAX)
}

/// The eighth number of the line of all processors.
fn ticks(stat: &str) -> Option<u64> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    all.split_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_the_eighth_number_of_all_processors() {
        let stat = "cpu  10 20 30 40 50 60 70 80 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n";
        assert_eq!(ticks(stat), Some(80));
        assert_eq!(ticks("cpu0 1 2 3 4 5 6 7 8 9 0\n"), None);
        assert_eq!(ticks("cpu  10 20 30 40\n"), None, "before Linux 2.6.11");
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn what_grew_is_known_to_have_grown_since_and_not_before() {
        look();
        let taken = TICKS.load(Ordering::Relaxed);
        // As if a tick less had been taken when somebody looked before.
        if taken > 0 {
            TICKS.store(taken - 1, Ordering::Relaxed);
            let before = Instant::now();
            assert!(has_grown_since(before));
            assert!(look() >= TICK);
        }
    }
}
