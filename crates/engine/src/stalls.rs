//! Why writers waited: every wait has a cause, and every cause is counted.
//!
//! Threads: any; only who waited takes a lock. Tests: `tests/stats.rs`.

use crate::stats::{Histogram, Stall};
use std::time::Duration;
use velella_journal::Waited;
use velella_sync::lock::Mutex;

/// Why a writer waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// All (slot, lane) pairs were checked out.
    Slots,
    /// Another write to the same key was undecided.
    Key,
    /// Immutable memtables waited for their flush.
    Flush,
    /// Compaction lagged: writes were paced.
    Compaction,
    /// A stamp above the durable lease.
    Lease,
    /// All memtables together filled their share of the memory.
    Memory,
    /// A batch that had lost to a switch waited for its turn to keep switches off.
    Switch,
}

const CAUSES: [(Cause, &str); 7] = [
    (Cause::Slots, "slots"),
    (Cause::Key, "key"),
    (Cause::Flush, "flush"),
    (Cause::Compaction, "compaction"),
    (Cause::Lease, "lease"),
    (Cause::Memory, "memory"),
    (Cause::Switch, "switch"),
];

/// Counts and times of waits, by cause.
#[derive(Debug, Default)]
pub(crate) struct Stalls {
    causes: Mutex<[(u64, Duration, Duration); CAUSES.len()]>,
}

impl Stalls {
    /// Notes one wait that is over.
    #[cold]
    pub(crate) fn note(&self, cause: Cause, waited: Duration) {
        self.begin(cause);
        self.end(cause, waited);
    }

    /// Counts a wait that begins: one that does not end soon is to be seen, too.
    #[cold]
    pub(crate) fn begin(&self, cause: Cause) {
        self.causes.lock()[cause as usize].0 += 1;
    }

    /// Notes how long a wait that was begun has taken.
    #[cold]
    pub(crate) fn end(&self, cause: Cause, waited: Duration) {
        let mut causes = self.causes.lock();
        let (_, total, max) = &mut causes[cause as usize];
        *total += waited;
        *max = (*max).max(waited);
    }

    /// All causes, also those that never occurred, and what the journal noted itself.
    pub(crate) fn report(&self, journal: Waited) -> Vec<Stall> {
        let causes = self.causes.lock();
        let names = CAUSES.iter().map(|(_, name)| *name);
        let own = names.zip(causes.iter().copied());
        let journal = ("journal", (journal.count, journal.total, journal.max));
        own.chain([journal])
            .map(|(name, (count, total, max))| Stall {
                cause: name.to_owned(),
                count,
                total_us: micros(total),
                max_us: micros(max),
            })
            .collect()
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The longest time that is told from longer ones: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// How long one kind of background work takes.
#[derive(Debug)]
pub(crate) struct Timer {
    name: &'static str,
    histogram: Mutex<hdrhistogram::Histogram<u64>>,
}

impl Timer {
    pub(crate) fn new(name: &'static str) -> Self {
        // With bounds: one without grows only on request, and takes 2 us for the longest.
        let histogram = hdrhistogram::Histogram::new_with_bounds(1, LONGEST_US, 2)
            .expect("two digits are a valid precision");
        Timer {
            name,
            histogram: Mutex::new(histogram),
        }
    }

    /// Notes one piece of work.
    pub(crate) fn note(&self, took: Duration) {
        self.histogram.lock().saturating_record(micros(took).max(1));
    }

    #[expect(clippy::cast_precision_loss, reason = "for people to read")]
    pub(crate) fn report(&self) -> Histogram {
        let histogram = self.histogram.lock();
        let at = |quantile: f64| histogram.value_at_quantile(quantile) as f64;
        Histogram {
            name: self.name.to_owned(),
            count: histogram.len(),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_tells_long_work_from_short() {
        let timer = Timer::new("work");
        for micros in [3, 3, 3, 2_000_000] {
            timer.note(Duration::from_micros(micros));
        }
        let report = timer.report();
        assert_eq!((report.count, report.p50_us), (4, 3.0));
        assert!((2e6..2.1e6).contains(&report.max_us), "{report:?}");
        timer.note(Duration::MAX);
        assert!(
            timer.report().max_us >= 3.6e9,
            "longer than any is the longest"
        );
    }
}
