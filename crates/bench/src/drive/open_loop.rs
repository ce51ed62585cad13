//! An open loop, beside an idle timer and a look, now and then, at what the store says it waited.
//!
//! O1. An operation is slow by what it took itself, from when it began. Those that it delayed are
//!     late, which their latency says, but they waited for nothing of their own.
//! O2. What of a slow operation has a name is what all waits that the store names grew by, from
//!     the last look that was over before it began to the first that began after it ended. So
//!     with one thread too much is named by no more than what was waited between two looks.
//! O3. What the host took away has a name as well, of all processors together.
//! O4. Operations in stretches in which the processor was slow or taken away (`speed`) are in all
//!     figures; those beside them have figures of their own, too.
//!
//! Threads: two beside the clients. Tests: `drive/tests.rs`.

use super::idle::idle;
use super::{Aim, Bench};
use crate::client::Schedule;
use crate::done::{All, SLOW, histogram};
use crate::failure::Outcome;
use crate::result::float;
use crate::spec::Spec;
use crate::stolen;
use crate::store::{Store, Waits};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two looks at what was waited.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What had been waited in all, as was told between two moments.
#[derive(Debug, Clone, Copy)]
struct Look {
    from: Instant,
    to: Instant,
    waited: Duration,
}

impl Look {
    /// A look now, if `store` tells.
    fn take(store: &dyn Store) -> Option<Self> {
        let from = Instant::now();
        let waits = store.waits()?;
        let us = waits.values().map(|waits| waits.total_us).sum();
        // O3.
        let taken = stolen::look().unwrap_or_default();
        Some(Look {
            from,
            to: Instant::now(),
            waited: Duration::from_micros(us) + taken,
        })
    }
}

/// Looks until told to stop, also where the store tells nothing: clients ask when the machine was
/// stopped (`stolen`).
fn looks(store: &dyn Store, first: Option<Look>, stop: &AtomicBool) -> Option<Vec<Look>> {
    let mut looks = vec![first];
    // Relaxed: stops within one more wait.
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
        match first {
            Some(_) => looks.push(Look::take(store)),
            None => {
                let _noted = stolen::look();
            }
        }
    }
    looks.into_iter().collect()
}

/// What of an operation has no name (O2).
fn unnamed((begun, end): (Instant, Instant), looks: &[Look]) -> Duration {
    let before = looks.partition_point(|look| look.to <= begun);
    let after = looks.partition_point(|look| look.from < end);
    let at = |n: usize| looks.get(n).or(looks.last()).map(|look| look.waited);
    let named = at(after).zip(at(before.saturating_sub(1)));
    let named = named.map_or(Duration::ZERO, |(after, before)| {
        after.saturating_sub(before)
    });
    (end - begun).saturating_sub(named)
}

impl Bench<'_> {
    /// Runs `spec` as `aim` says.
    pub(super) fn open_loop(
        &mut self,
        spec: &Spec,
        aim: Aim,
        figures: &mut BTreeMap<String, f64>,
    ) -> Outcome<All> {
        let each = aim.rate / float(self.threads);
        let every = Duration::from_secs_f64(1.0 / each.max(1e-3));
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a float saturates when cast, and a rate is not negative"
        )]
        let count = (each * aim.seconds) as u64;
        let stop = &AtomicBool::new(false);
        let store = self.store;
        let waits = store.waits().unwrap_or_default();
        let first = Look::take(store);
        let taken = stolen::look();
        let (all, late, looks) = std::thread::scope(|scope| {
            let idler = scope.spawn(|| idle(stop));
            let looker = scope.spawn(move || looks(store, first, stop));
            let all = self.threads_run(spec, |_, _| Schedule::Timed {
                every,
                count,
                usual: aim.usual,
            });
            // Relaxed: they stop within a wait.
            stop.store(true, Ordering::Relaxed);
            let looks = looker.join().ok().flatten();
            (all, idler.join(), looks)
        });
        if let Ok(late) = late {
            let p999 = float(late.value_at_quantile(0.999));
            figures.insert("idle_p999_ns".to_owned(), p999);
            figures.insert("idle_max_ns".to_owned(), float(late.max()));
        }
        let all = all?;
        if let Some((after, before)) = stolen::look().zip(taken) {
            let ms = after.saturating_sub(before).as_secs_f64() * 1e3;
            figures.insert("stolen_ms".to_owned(), ms);
        }
        slowness(&all, looks.as_deref(), figures);
        if aim.usual.is_some() {
            steadiness(&all, figures);
        }
        stalls(&waits, &store.waits().unwrap_or_default(), figures);
        Ok(all)
    }
}

/// How many operations were late or slow, and what of that the store does not name.
fn slowness(all: &All, looks: Option<&[Look]>, figures: &mut BTreeMap<String, f64>) {
    let ns = |time: Duration| float(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let limit = u64::try_from(SLOW.as_nanos()).unwrap_or(u64::MAX);
    let late = all
        .latencies
        .iter()
        .map(|one| one.count_between(limit, u64::MAX));
    let mut figure = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    figure("late_over_20ms", float(late.sum()));
    figure("took_over_20ms", float(all.slow.len() as u64));
    figure("took_max_ns", ns(all.took_max));
    let Some(looks) = looks else { return };
    let unnamed: Vec<Duration> = all.slow.iter().map(|one| unnamed(*one, looks)).collect();
    let beyond = unnamed.iter().filter(|time| **time > SLOW).count();
    figure("unnamed_over_20ms", float(beyond as u64));
    figure(
        "unnamed_max_ns",
        ns(unnamed.into_iter().max().unwrap_or_default()),
    );
}

/// What share of the operations belongs to stretches, and how late the others were (O4).
fn steadiness(all: &All, figures: &mut BTreeMap<String, f64>) {
    let mut steady = histogram();
    for one in &all.latencies {
        // All have the same bounds, and what was slowed is in them: nothing falls outside.
        let _ = steady.add(one);
    }
    let whole = steady.len();
    let _ = steady.subtract(&all.in_stretches);
    let mut figure = |name: &str, value: f64| figures.insert(name.to_owned(), value);
    figure(
        "slow_percent",
        float(all.in_stretches.len()) * 100.0 / float(whole.max(1)),
    );
    if !steady.is_empty() {
        figure("steady_p999_ns", float(steady.value_at_quantile(0.999)));
        figure("steady_max_ns", float(steady.max()));
    }
}

/// The longest wait under each cause. One that was no longer than the longest before the loop is
/// not told by itself: then it is at most that, and at most all of that cause in the loop.
fn stalls(
    before: &BTreeMap<String, Waits>,
    after: &BTreeMap<String, Waits>,
    figures: &mut BTreeMap<String, f64>,
) {
    for (cause, after) in after {
        let before = before.get(cause).copied().unwrap_or_default();
        if after.count == before.count {
            continue;
        }
        let longest = match after.max_us > before.max_us {
            true => after.max_us,
            false => before.max_us.min(after.total_us - before.total_us),
        };
        figures.insert(format!("stalls_{cause}"), float(after.count - before.count));
        figures.insert(format!("stall_max_us_{cause}"), float(longest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, Changes};
    use crate::done::Done;

    #[test]
    fn what_grew_around_an_operation_is_what_it_is_said_to_have_waited_for() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let look = |ms: u64, waited: u64| Look {
            from: at(ms),
            to: at(ms),
            waited: Duration::from_millis(waited),
        };
        // Five before, thirty while it ran, seven afterwards.
        let looks = [look(0, 0), look(10, 5), look(50, 35), look(60, 42)];
        let left = |begun, end| unnamed((at(begun), at(end)), &looks).as_millis();
        assert_eq!(left(12, 48), 36 - 30);
        assert_eq!(left(12, 49), 37 - 30);
        assert_eq!(
            left(51, 90),
            39 - 7,
            "the last look counts for what ends after it"
        );
        assert_eq!(left(2, 9), 7 - 5);
    }

    #[test]
    fn what_is_beside_stretches_is_all_but_what_is_in_them() {
        let figures = |latencies: &[u64], in_stretches: &[u64]| {
            let spec = catalogue::named("tail").unwrap()[0].with(&Changes::default(), 1);
            let mut done = Done::new(&spec);
            for ns in latencies {
                done.latencies[0].record(*ns).unwrap();
            }
            for ns in in_stretches {
                done.in_stretches.record(*ns).unwrap();
            }
            let mut figures = BTreeMap::new();
            steadiness(&All::of(&spec, vec![done], None), &mut figures);
            figures
        };
        let some = figures(&[10, 20, 500, 1000], &[1000]);
        let expected = [
            ("slow_percent", 25.0),
            ("steady_max_ns", 500.0),
            ("steady_p999_ns", 500.0),
        ];
        assert_eq!(
            some,
            expected
                .map(|(name, value)| (name.to_owned(), value))
                .into()
        );
        let none = figures(&[9], &[9]);
        assert_eq!(none, BTreeMap::from([("slow_percent".to_owned(), 100.0)]));
    }

    #[test]
    fn the_longest_wait_is_told_or_bounded() {
        let waits = |count, total_us, max_us| Waits {
            count,
            total_us,
            max_us,
        };
        let before = BTreeMap::from([
            ("memory".to_owned(), waits(1, 900, 900)),
            ("key".to_owned(), waits(1, 50, 50)),
            ("flush".to_owned(), waits(2, 700, 400)),
        ]);
        let after = BTreeMap::from([
            ("memory".to_owned(), waits(3, 1000, 900)),
            ("key".to_owned(), waits(2, 110, 60)),
            ("flush".to_owned(), waits(2, 700, 400)),
        ]);
        let mut figures = BTreeMap::new();
        stalls(&before, &after, &mut figures);
        let expected = [
            ("stall_max_us_key", 60.0),
            ("stall_max_us_memory", 100.0),
            ("stalls_key", 1.0),
            ("stalls_memory", 2.0),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(figures, BTreeMap::from(expected));
    }
}
