//! Stretches of an open loop in which its processor was slow, or taken away by the host.
//!
//! Source: ours. A machine that shares its cores with others may compute at three fifths of its
//! speed for seconds, or be stopped for a tenth of one. An open loop at 70 % of what was measured
//! before falls behind then, whatever the store does; so what is late in such a stretch can be
//! told from what is late elsewhere.
//!
//! S1. A look adds up 4 KiB, which brings them into the first cache, then three times again, and
//!     takes the shortest: it waits for no memory, and a turn that another thread had falls into
//!     one of the three.
//! S2. The processor is slow while the last few looks took, in the mean, a fifth longer than looks
//!     did when saturation was measured. A loop at 70 % whose operations only compute falls behind
//!     where they take 1.43 times as long; one that waits for caches as well, before: where looks
//!     took 1.24 times as long for a minute, puts took 1.5 times. Who slows it is not asked: where
//!     two processors are threads of one core, it may be the store's own workers.
//! S3. It was taken away if an operation was due and nothing was done for a while, and the system
//!     says that some processor was robbed meanwhile (`stolen`).
//! S4. A stretch ends once neither is so any more and the client has caught up: what is late
//!     behind operations of the stretch belongs to it, also if the store made it later still.
//!
//! Threads: one each. Tests: below, `drive/tests.rs`.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Words of eight bytes that a look adds up.
const WORDS: usize = 512;
/// How often it times that.
const TIMES: usize = 3;
/// Looks that are judged together: with one every 256 operations, those of 4,096 operations.
const RECENT: u32 = 16;
/// S2.
const SLOWER_BY: f64 = 1.2;
/// Whoever has done nothing for so long may have been stopped (S3).
const GAP: Duration = Duration::from_millis(5);
/// A client that is behind by less has caught up: waking from a wait takes up to half of it.
const CAUGHT_UP: Duration = Duration::from_micros(200);

/// Adds words up. The additions do not wait for each other: a chain of steps that do would take as
/// long where others use the same core.
#[inline]
pub(crate) fn add_up(words: &[u64]) {
    let sum = |sum: u64, word: &u64| sum.wrapping_add(word.rotate_left(5));
    black_box(black_box(words).iter().fold(0, sum));
}

/// When an operation was to begin, began and ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) intended: Instant,
    pub(crate) begun: Instant,
    pub(crate) end: Instant,
}

/// Looks at one processor.
#[derive(Debug)]
pub(crate) struct Gauge {
    words: [u64; WORDS],
    recent: [Duration; RECENT as usize],
    next: usize,
    /// The processor is slow if the last looks took longer together.
    slow_beyond: Duration,
    is_slow: bool,
    in_stretch: bool,
    /// When the last operation ended.
    last: Instant,
}

impl Gauge {
    /// Of a processor of which a look takes `usual`; without that it is never slow.
    pub(crate) fn new(usual: Option<Duration>) -> Self {
        let slow_beyond = usual.map_or(Duration::MAX, |usual| usual.mul_f64(SLOWER_BY) * RECENT);
        Gauge {
            words: [3; WORDS],
            recent: [Duration::ZERO; RECENT as usize],
            next: 0,
            slow_beyond,
            is_slow: false,
            in_stretch: false,
            last: Instant::now(),
        }
    }

    /// Looks; how long it took to compute (S1).
    pub(crate) fn look(&mut self) -> Duration {
        add_up(&self.words);
        let timed = |_| {
            let begun = Instant::now();
            add_up(&self.words);
            begun.elapsed()
        };
        let shortest = (0..TIMES).map(timed).min().unwrap_or_default();
        self.enter(shortest);
        shortest
    }

    fn enter(&mut self, look: Duration) {
        self.recent[self.next] = look;
        self.next = (self.next + 1) % self.recent.len();
        self.is_slow = self.recent.iter().sum::<Duration>() > self.slow_beyond;
    }

    /// Whether an operation belongs to a stretch (S4); `robbed` says whether a processor was since
    /// some moment.
    #[inline]
    pub(crate) fn is_in_stretch(&mut self, one: Times, robbed: impl Fn(Instant) -> bool) -> bool {
        let before = std::mem::replace(&mut self.last, one.end);
        let nothing_done = (one.end - before).min(one.end - one.intended);
        let was_stopped = nothing_done > GAP && robbed(before);
        let is_behind = one.begun - one.intended >= CAUGHT_UP;
        self.in_stretch = self.is_slow || was_stopped || self.in_stretch && is_behind;
        self.in_stretch
    }
}

/// The look in the middle, if there was one.
pub(crate) fn median(mut looks: Vec<Duration>) -> Option<Duration> {
    looks.sort_unstable();
    looks.get(looks.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An operation that began so long after it was to, and took no time.
    fn late(gauge: &Gauge, by: Duration) -> Times {
        let now = gauge.last;
        let intended = now.checked_sub(by).unwrap();
        Times {
            intended,
            begun: now,
            end: now,
        }
    }

    fn is_in_stretch(gauge: &mut Gauge, by: Duration) -> bool {
        gauge.is_in_stretch(late(gauge, by), |_| false)
    }

    #[test]
    fn a_stretch_begins_with_slow_looks_and_ends_with_who_caught_up() {
        let ns = Duration::from_nanos;
        let [on_time, behind] = [Duration::ZERO, CAUGHT_UP];
        let mut gauge = Gauge::new(Some(ns(100)));
        let enter = |gauge: &mut Gauge, look| (0..RECENT).for_each(|_| gauge.enter(look));
        enter(&mut gauge, ns(120));
        assert!(!is_in_stretch(&mut gauge, behind), "late, and not slow");
        gauge.enter(ns(121));
        assert!(is_in_stretch(&mut gauge, on_time), "slow in the mean");
        enter(&mut gauge, ns(120));
        assert!(is_in_stretch(&mut gauge, behind), "behind what was slow");
        assert!(!is_in_stretch(&mut gauge, on_time));
        assert!(!is_in_stretch(&mut gauge, behind), "late of itself");
        let mut unlimited = Gauge::new(None);
        enter(&mut unlimited, Duration::from_secs(1));
        assert!(!is_in_stretch(&mut unlimited, behind));
    }

    #[test]
    fn who_did_nothing_for_long_was_stopped_if_a_processor_was_robbed_meanwhile() {
        let stretched = |waited: Duration, took: Duration, robbed: bool| {
            let mut gauge = Gauge::new(Some(Duration::from_secs(1)));
            let intended = gauge.last + waited;
            let one = Times {
                intended,
                begun: intended,
                end: intended + took,
            };
            let before = gauge.last;
            gauge.is_in_stretch(one, |since| robbed && since == before)
        };
        let ms = Duration::from_millis;
        assert!(stretched(ms(0), ms(6), true));
        assert!(!stretched(ms(0), ms(6), false), "the store was slow");
        assert!(!stretched(ms(0), ms(5), true), "a wait like another");
        assert!(!stretched(ms(1000), ms(5), true), "nothing was to be done");
    }

    #[test]
    fn a_look_takes_the_time_of_its_additions() {
        let shortest = |words: &[u64]| {
            let timed = |_| {
                let begun = Instant::now();
                add_up(words);
                begun.elapsed()
            };
            (0..1000).map(timed).min().unwrap()
        };
        let (few, many) = (shortest(&[3; WORDS]), shortest(&[3; 32 * WORDS]));
        assert!(many > 4 * few, "{few:?} {many:?}");
        let ns = Duration::from_nanos;
        assert_eq!(median(vec![ns(9), ns(1), ns(2)]), Some(ns(2)));
        assert_eq!(median(Vec::new()), None);
    }
}
