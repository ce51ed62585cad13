//! Which versions of a key may be dropped: one rule for pruning, flush and compaction.
//!
//! Source: cLSM 3.2.2 (garbage collection at merge), widened: "no snapshot is live" never means
//! "drop everything" (a snapshot may be about to be taken), and the durable cut counts as a
//! snapshot, since a recovery may return to it.
//!
//! G1. Kept: everything above the frontier; the newest version at or below the frontier; the
//!     newest at or below the durable stamp; the newest at or below each registered stamp. Until a
//!     journal round in flight has its frontier, the D it started from is the frontier; then both
//!     are such points (`snapshots.rs`, N5).
//! G2. A value that expired before `now_ms` is expired for every reader, present and to come:
//!     the caller gives the least of the wall clocks that live snapshots read by. 0, the default,
//!     expires nothing.
//! G3. The rule sees the versions of one key, newest first, and decides each in turn.
//!
//! Pure: no clock, no lock. Tests: below.

use velella_base::{Stamp, seeded};

/// The stamps at which somebody may still read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    frontier: Stamp,
    /// All reading points at or below the frontier, descending, the frontier first.
    points: Vec<Stamp>,
    looks_back: bool,
    now_ms: u64,
}

impl Retention {
    /// Keeps what readers at or above `frontier`, at `durable`, and at each of `registered` see.
    #[must_use]
    pub fn new(frontier: Stamp, durable: Stamp, registered: Vec<Stamp>) -> Self {
        let mut points = registered;
        if seeded("collectors-forget-snapshots") {
            points.clear();
        }
        let looks_back = points.iter().any(|point| *point < frontier.min(durable));
        points.extend([frontier, durable]);
        points.retain(|point| *point <= frontier);
        points.sort_unstable_by(|a, b| b.cmp(a));
        points.dedup();
        Retention {
            frontier,
            points,
            looks_back,
            now_ms: 0,
        }
    }

    /// Whether somebody reads below what is durable: a snapshot that has lived for a while.
    #[must_use]
    pub fn looks_back(&self) -> bool {
        self.looks_back
    }

    /// Keeps only what a reader at `Stamp::MAX` sees.
    #[must_use]
    pub fn newest_only() -> Self {
        Retention::new(Stamp::MAX, Stamp::MAX, Vec::new())
    }

    /// Treats values whose expiry lies before `now_ms` (milliseconds since 1970) as deleted (G2).
    #[must_use]
    pub fn at_wall(self, now_ms: u64) -> Self {
        Retention { now_ms, ..self }
    }

    /// See [`Retention::at_wall`].
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Everything at or below this is in every reader's past: a tombstone there, with nothing
    /// beneath it, says nothing.
    #[must_use]
    pub fn oldest(&self) -> Stamp {
        self.points.last().copied().unwrap_or(self.frontier)
    }

    /// Starts on a key.
    #[must_use]
    pub fn key(&self) -> KeyRetention<'_> {
        KeyRetention {
            points: &self.points,
            frontier: self.frontier,
        }
    }
}

/// The rule at work on the versions of one key, newest first (G3).
#[derive(Debug)]
pub struct KeyRetention<'a> {
    points: &'a [Stamp],
    frontier: Stamp,
}

impl KeyRetention<'_> {
    /// Whether the version at `stamp` must be kept; call with strictly descending stamps.
    pub fn keeps(&mut self, stamp: Stamp) -> bool {
        // Halving: there may be thousands of snapshots, and most keys have one version.
        let seen = self.points.partition_point(|point| {
            match seeded("a-reader-at-a-stamp-does-not-see-it") {
                true => *point > stamp,
                false => *point >= stamp,
            }
        });
        self.points = &self.points[seen..];
        seen > 0 || stamp > self.frontier
    }

    /// Whether some reading point still lies below what was kept so far: a version or tombstone
    /// further down matters only then.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.points.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(retention: &Retention, stamps: &[u64]) -> Vec<u64> {
        let mut key = retention.key();
        stamps
            .iter()
            .copied()
            .filter(|stamp| key.keeps(Stamp(*stamp)))
            .collect()
    }

    #[test]
    fn each_reading_point_keeps_the_version_it_sees() {
        let rule = Retention::new(Stamp(100), Stamp(80), vec![Stamp(30), Stamp(10)]);
        assert_eq!(
            kept(&rule, &[120, 110, 95, 90, 70, 60, 29, 20, 9, 1]),
            [120, 110, 95, 70, 29, 9]
        );
    }

    #[test]
    fn one_version_may_serve_several_points() {
        let rule = Retention::new(Stamp(100), Stamp(80), vec![Stamp(30), Stamp(90)]);
        assert_eq!(kept(&rule, &[25, 20]), [25]);
    }

    #[test]
    fn points_above_the_frontier_need_nothing_of_their_own() {
        let rule = Retention::new(Stamp(50), Stamp(10), vec![Stamp(70)]);
        assert_eq!(kept(&rule, &[80, 60, 40, 30, 5]), [80, 60, 40, 5]);
    }

    #[test]
    fn only_who_reads_below_what_is_durable_looks_back() {
        for (registered, looks_back) in [(vec![], false), (vec![80, 90], false), (vec![79], true)] {
            let registered = registered.into_iter().map(Stamp).collect();
            let rule = Retention::new(Stamp(100), Stamp(80), registered);
            assert_eq!(rule.looks_back(), looks_back, "{rule:?}");
        }
    }

    #[test]
    fn without_snapshots_the_newest_remains() {
        assert_eq!(kept(&Retention::newest_only(), &[9, 8, 7]), [9]);
    }
}
