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
//!     took 1.24 times as long for a minute, puts took 1.5 times.
//! S3. It was taken away if nothing was done for a while and the system says so (`stolen`).
//! S4. A stretch ends once neither is so any more and the client has caught up: what is late
//!     behind operations of the stretch belongs to it.
//!
//! Threads: one each. Tests: below, `drive/tests.rs`.

use crate::stolen;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Words of eight bytes that a look adds up.
const WORDS: usize = 512;
/// How often it times that.
const TIMES: usize = 3;
/// Looks that are judged together: some 5 ms, with one every 256 operations.
const RECENT: u32 = 16;
/// S2.
const SLOW: f64 = 1.2;
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
        let slow_beyond = usual.map_or(Duration::MAX, |usual| usual.mul_f64(SLOW) * RECENT);
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

    /// Whether an operation that began so late, and has ended now, belongs to a stretch (S4).
    #[inline]
    pub(crate) fn is_in_stretch(&mut self, late: Duration, end: Instant) -> bool {
        let before = std::mem::replace(&mut self.last, end);
        let was_stopped = end - before > GAP && stolen::has_grown_since(before);
        self.in_stretch = self.is_slow || was_stopped || self.in_stretch && late >= CAUGHT_UP;
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

    #[test]
    fn a_stretch_begins_with_slow_looks_and_ends_with_who_caught_up() {
        let ns = Duration::from_nanos;
        let [on_time, behind] = [Duration::ZERO, CAUGHT_UP];
        let mut gauge = Gauge::new(Some(ns(100)));
        let at = gauge.last;
        let enter = |gauge: &mut Gauge, look| (0..RECENT).for_each(|_| gauge.enter(look));
        enter(&mut gauge, ns(120));
        assert!(!gauge.is_in_stretch(behind, at), "late, and not slow");
        gauge.enter(ns(121));
        assert!(gauge.is_in_stretch(on_time, at), "slow in the mean");
        enter(&mut gauge, ns(120));
        assert!(gauge.is_in_stretch(behind, at), "late behind what was slow");
        assert!(!gauge.is_in_stretch(on_time, at));
        assert!(!gauge.is_in_stretch(behind, at), "of itself");
        let mut unlimited = Gauge::new(None);
        enter(&mut unlimited, Duration::from_secs(1));
        assert!(!unlimited.is_in_stretch(behind, at));
    }

    #[test]
    fn a_look_takes_the_time_of_its_additions() {
        let mut gauge = Gauge::new(None);
        let looks: Vec<Duration> = (0..1000).map(|_| gauge.look()).collect();
        let usual = median(looks).unwrap();
        // 512 additions, eight of them at once, at 5 GHz; nothing at all, if they were left out.
        assert!(usual >= Duration::from_nanos(10), "{usual:?}");
        assert_eq!(median(Vec::new()), None);
    }
}
