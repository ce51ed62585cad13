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

/// T2.
static MACHINE: LazyLock<Stolen> = LazyLock::new(|| Stolen::new(read().unwrap_or(0)));

/// Looks; what was taken from all processors since the machine started, where the system tells.
pub(crate) fn look() -> Option<Duration> {
    let ticks = read()?;
    MACHINE.note(ticks, Instant::now());
    Some(TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX)))
}

/// Looks; whether something was taken from some processor since `then`, or in the few milliseconds
/// before that since somebody had looked.
pub(crate) fn has_grown_since(then: Instant) -> bool {
    look();
    MACHINE.has_grown_since(then)
}

/// What was known to be taken.
#[derive(Debug)]
struct Stolen {
    /// When somebody looked first.
    start: Instant,
    /// What had been taken at the last look, in ticks. All accesses Relaxed: each look decides for
    /// itself, and of two that see the same growth the later one only says that it was later.
    ticks: AtomicU64,
    /// When it was seen to have grown, in nanoseconds from `start`; 0: never. All accesses
    /// Relaxed.
    grew_at: AtomicU64,
}

impl Stolen {
    fn new(ticks: u64) -> Self {
        Stolen {
            start: Instant::now(),
            ticks: AtomicU64::new(ticks),
            grew_at: AtomicU64::new(0),
        }
    }

    fn note(&self, ticks: u64, now: Instant) {
        if self.ticks.fetch_max(ticks, Ordering::Relaxed) < ticks {
            self.grew_at.fetch_max(self.ns_of(now), Ordering::Relaxed);
        }
    }

    fn has_grown_since(&self, then: Instant) -> bool {
        let grew_at = self.grew_at.load(Ordering::Relaxed);
        grew_at > 0 && grew_at >= self.ns_of(then)
    }

    fn ns_of(&self, time: Instant) -> u64 {
        let ns = time.saturating_duration_since(self.start).as_nanos();
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

/// What the system says now.
fn read() -> Option<u64> {
    ticks(&std::fs::read_to_string("/proc/stat").ok()?)
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
    fn what_grew_has_grown_since_before_it_was_seen_and_not_since_later() {
        let stolen = Stolen::new(7);
        let at = |ms| stolen.start + Duration::from_millis(ms);
        stolen.note(7, at(1));
        assert!(!stolen.has_grown_since(at(0)), "all of it was there before");
        stolen.note(8, at(10));
        assert!(stolen.has_grown_since(at(0)) && stolen.has_grown_since(at(10)));
        assert!(!stolen.has_grown_since(at(11)));
        stolen.note(8, at(20));
        assert!(!stolen.has_grown_since(at(11)), "no more than before");
    }
}
