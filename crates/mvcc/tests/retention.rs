//! Retention against its definition, for drawn versions and reading points.
//!
//! Claims: `retention.rs` G1-G3. Every random choice comes from the seed named when one fails.
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use velella_base::Stamp;
use velella_mvcc::Retention;
use velella_sync::rng::Rng;

const SEEDS: u64 = if cfg!(miri) { 60 } else { 3_000 };

/// A key's versions and who reads them.
#[derive(Debug)]
struct Case {
    /// Newest first.
    versions: Vec<Stamp>,
    frontier: Stamp,
    durable: Stamp,
    registered: Vec<Stamp>,
}

impl Case {
    fn draw(seed: u64) -> Case {
        let mut rng = Rng::new(seed);
        // Dense and sparse: points hit versions, lie between them, and below and above all.
        let most = [4, 20, 1_000][usize::try_from(rng.below(3)).unwrap()];
        let mut stamp = || Stamp(rng.below(most));
        let (frontier, durable) = (stamp(), stamp());
        let registered = (0..seed % 6).map(|_| stamp()).collect();
        let mut versions: Vec<_> = (0..seed % 17).map(|_| stamp().next()).collect();
        versions.sort_unstable_by(|a, b| b.cmp(a));
        versions.dedup();
        Case {
            versions,
            frontier,
            durable,
            registered,
        }
    }

    fn rule(&self) -> Retention {
        Retention::new(self.frontier, self.durable, self.registered.clone())
    }

    /// The stamps that G1 names, those above the frontier left out.
    fn points(&self) -> Vec<Stamp> {
        let mut points = self.registered.clone();
        points.extend([self.frontier, self.durable]);
        points.retain(|point| *point <= self.frontier);
        points
    }
}

fn kept(rule: &Retention, versions: &[Stamp]) -> Vec<Stamp> {
    let mut key = rule.key();
    let keeps = |stamp: &Stamp| key.keeps(*stamp);
    versions.iter().copied().filter(keeps).collect()
}

/// What a reader at `at` sees of `versions`.
fn seen(versions: &[Stamp], at: Stamp) -> Option<Stamp> {
    versions.iter().copied().find(|stamp| *stamp <= at)
}

#[test]
fn a_version_is_kept_if_it_is_above_the_frontier_or_somebodys_newest_and_only_then() {
    for seed in 0..SEEDS {
        let case = Case::draw(seed);
        let points = case.points();
        let is_kept = |stamp: &Stamp| {
            let is_seen = |at: &Stamp| seen(&case.versions, *at) == Some(*stamp);
            *stamp > case.frontier || points.iter().any(is_seen)
        };
        let expected: Vec<_> = case.versions.iter().copied().filter(is_kept).collect();
        assert_eq!(
            kept(&case.rule(), &case.versions),
            expected,
            "seed {seed}: {case:?}"
        );
    }
}

#[test]
fn every_reader_sees_the_same_before_and_after() {
    for seed in 0..SEEDS {
        let case = Case::draw(seed);
        let after = kept(&case.rule(), &case.versions);
        // Those registered, and whoever comes: at the frontier or later.
        let later = (0..5).map(|more| Stamp(case.frontier.0 + more));
        for at in case.points().into_iter().chain(later).chain([Stamp::MAX]) {
            let (was, is) = (seen(&case.versions, at), seen(&after, at));
            assert_eq!(is, was, "seed {seed}, at {at}: {case:?}");
        }
    }
}

#[test]
fn a_second_pass_drops_nothing_and_a_further_reader_keeps_no_less() {
    for seed in 0..SEEDS {
        let mut case = Case::draw(seed);
        let rule = case.rule();
        let once = kept(&rule, &case.versions);
        assert_eq!(kept(&rule, &once), once, "seed {seed}: {case:?}");
        case.registered.push(Stamp(seed % 23));
        let with_one_more = kept(&case.rule(), &case.versions);
        let is_subset = once.iter().all(|stamp| with_one_more.contains(stamp));
        assert!(is_subset, "seed {seed}: {case:?}");
    }
}

#[test]
fn a_key_is_finished_when_no_point_lies_below_what_was_shown() {
    for seed in 0..SEEDS {
        let case = Case::draw(seed);
        let (rule, points) = (case.rule(), case.points());
        let mut key = rule.key();
        assert!(
            !key.is_finished(),
            "the frontier at least is below nothing yet"
        );
        for (at, stamp) in case.versions.iter().enumerate() {
            key.keeps(*stamp);
            let is_left = points.iter().any(|point| point < stamp);
            assert_eq!(
                key.is_finished(),
                !is_left,
                "seed {seed}, version {at}: {case:?}"
            );
            if key.is_finished() {
                let below = case.versions[at + 1..].iter();
                // Nothing below the frontier is needed any more.
                for stamp in below.filter(|stamp| **stamp <= case.frontier) {
                    assert!(!key.keeps(*stamp), "seed {seed}: {case:?}");
                }
                break;
            }
        }
        let oldest = points.iter().min();
        assert_eq!(Some(&rule.oldest()), oldest, "seed {seed}: {case:?}");
    }
}

#[test]
fn extremes_keep_what_they_should() {
    let all = [Stamp::MAX, Stamp(9), Stamp(1)];
    // Nobody has read anything yet: everything may still be asked for.
    assert_eq!(
        kept(&Retention::new(Stamp::ZERO, Stamp::ZERO, vec![]), &all),
        all
    );
    assert_eq!(kept(&Retention::newest_only(), &all), [Stamp::MAX]);
    assert_eq!(kept(&Retention::newest_only(), &[]), []);
    // A reader at 0 sees nothing, and keeps nothing.
    let at_zero = Retention::new(Stamp(9), Stamp(9), vec![Stamp::ZERO]);
    assert_eq!(kept(&at_zero, &all), [Stamp::MAX, Stamp(9)]);
    assert_eq!(at_zero.oldest(), Stamp::ZERO);
}

#[test]
fn a_rule_expires_nothing_unless_it_is_told_the_time() {
    let rule = Retention::new(Stamp(5), Stamp(3), vec![Stamp(1)]);
    assert_eq!(rule.now_ms(), 0, "G2");
    let at_wall = rule.clone().at_wall(77);
    assert_eq!(at_wall.now_ms(), 77);
    assert_ne!(at_wall, rule);
    assert_eq!(at_wall.clone().at_wall(0), rule, "the rest is the same");
    assert_eq!(
        kept(&at_wall, &[Stamp(4), Stamp(2)]),
        kept(&rule, &[Stamp(4), Stamp(2)])
    );
}
