//! What a workload was told, and which states a crash may leave of it.
//!
//! H1. The state at stamp t holds, per place, the newest version at or below t.
//! H2. A state is right if one stamp t explains all of it: the places' intervals of stamps at
//!     which each would be as found have a stamp in common, at or above what was promised.
//! H3. A write whose outcome is not known may be part of the history or not, but whole.
//! H4. A place whose value is lost (a file of its own, whose sync failed) is right at the stamps of
//!     its large versions that may be lost, and at no other: those above what was promised before
//!     the crash, and of what was found afterwards those that came from them.
//!
//! Tests: below.

use crate::sim::setting::INLINE_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// A key of a keyspace; without a key: whether the keyspace exists.
pub type Place = (u8, Option<Vec<u8>>);
/// What is found.
pub type State = BTreeMap<Place, Vec<u8>>;

/// Places that hold a value which cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lost {
    /// Which.
    pub places: BTreeSet<Place>,
    /// Large values above this stamp may be lost.
    pub above: u64,
}

/// One place as a write leaves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Which place.
    pub place: Place,
    /// Its value; `None`: nothing is there.
    pub value: Option<Vec<u8>>,
    /// Milliseconds since 1970 from which on nothing is there.
    pub expires_ms: Option<u64>,
}

#[derive(Debug, Clone)]
struct Version {
    stamp: u64,
    value: Option<Vec<u8>>,
    expires_ms: Option<u64>,
    /// It may be lost at any stamp (H4).
    is_shaky: bool,
}

impl Version {
    /// Whether it may be lost (H4).
    fn may_be_lost(&self, above: u64) -> bool {
        let is_large = self
            .value
            .as_ref()
            .is_some_and(|value| value.len() > INLINE_BYTES);
        is_large && (self.is_shaky || self.stamp > above)
    }

    fn at(&self, wall_ms: u64) -> Option<&Vec<u8>> {
        let lives = self.expires_ms.is_none_or(|expiry| expiry > wall_ms);
        self.value.as_ref().filter(|_| lives)
    }
}

/// Every version of every place, by ascending stamps.
#[derive(Debug, Clone, Default)]
pub struct History {
    places: BTreeMap<Place, Vec<Version>>,
    /// The last write, if nobody knows whether it happened.
    doubtful: Option<(u64, Vec<Change>)>,
}

type Intervals = Vec<(u64, u64)>;

impl History {
    /// A history in which `state` was written at `stamp`.
    #[must_use]
    pub fn from(state: &State, stamp: u64) -> History {
        let mut history = History::default();
        let changes = state.iter().map(|(place, value)| Change {
            place: place.clone(),
            value: Some(value.clone()),
            expires_ms: None,
        });
        history.write(stamp, changes.collect());
        history
    }

    /// Records what was written at `stamp`; stamps ascend.
    pub fn write(&mut self, stamp: u64, changes: Vec<Change>) {
        for change in changes {
            let versions = self.places.entry(change.place).or_default();
            versions.retain(|version| version.stamp != stamp);
            versions.push(Version {
                stamp,
                value: change.value,
                expires_ms: change.expires_ms,
                is_shaky: false,
            });
        }
    }

    /// Records a write that failed, so that it may have happened (H3).
    pub fn doubt(&mut self, stamp: u64, changes: Vec<Change>) {
        self.doubtful = Some((stamp, changes));
    }

    /// Forgets what was written above `stamp`, which is not there any more.
    pub fn give_up_above(&mut self, stamp: u64) {
        for versions in self.places.values_mut() {
            versions.retain(|version| version.stamp <= stamp);
        }
    }

    /// What is at `place` after all writes.
    #[must_use]
    pub fn newest(&self, place: &Place, wall_ms: u64) -> Option<&Vec<u8>> {
        self.places.get(place)?.last()?.at(wall_ms)
    }

    /// The stamp of the last write to `place`; 0 if there was none.
    #[must_use]
    pub fn last_stamp(&self, place: &Place) -> u64 {
        let versions = self.places.get(place);
        versions
            .and_then(|all| all.last())
            .map_or(0, |last| last.stamp)
    }

    /// Every place of keyspace `number` that is not empty after all writes.
    #[must_use]
    pub fn places_of(&self, number: u8) -> Vec<Place> {
        let range = self.places.range((number, None)..);
        let of = range.take_while(|((of, _), _)| *of == number);
        let held = of.filter(|(_, versions)| versions.last().is_some_and(|v| v.value.is_some()));
        held.map(|(place, _)| place.clone()).collect()
    }

    /// The stamp of the last write that is known to have happened.
    #[must_use]
    pub fn last_written(&self) -> u64 {
        let last = |versions: &Vec<Version>| versions.last().map(|version| version.stamp);
        self.places.values().filter_map(last).max().unwrap_or(0)
    }

    /// Whether `value` may be lost from `place` (H4).
    #[must_use]
    pub fn may_lose(&self, place: &Place, value: &[u8], above: u64) -> bool {
        let is_it = |version: &Version| version.value.as_deref() == Some(value);
        let versions = self.places.get(place).into_iter().flatten();
        let mut known = versions.filter(|version| is_it(version));
        known.any(|version| version.may_be_lost(above))
    }

    /// What is at `place` now may be lost at any time (H4).
    pub fn doubt_value(&mut self, place: &Place) {
        for version in self.places.get_mut(place).into_iter().flatten() {
            version.is_shaky = true;
        }
    }

    /// Every place that was ever written, or may have been.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        let doubtful = self.doubtful.iter().flat_map(|(_, changes)| changes);
        let doubtful = doubtful.map(|change| &change.place);
        let is_new = |place: &&Place| !self.places.contains_key(*place);
        self.places.keys().chain(doubtful.filter(is_new))
    }

    /// Whether everything in `state` was once written there, whenever.
    ///
    /// # Errors
    /// What was not.
    pub fn knows(&self, state: &State) -> Result<(), String> {
        for (place, value) in state {
            let versions = self.places.get(place).into_iter().flatten();
            let doubtful = self.doubtful.iter().flat_map(|(_, changes)| changes);
            let doubtful = doubtful.filter(|change| change.place == *place);
            let mut known = versions
                .map(|version| &version.value)
                .chain(doubtful.map(|change| &change.value));
            if !known.any(|known| known.as_ref() == Some(value)) {
                return Err(format!(
                    "{} holds what was never written there",
                    show(place)
                ));
            }
        }
        Ok(())
    }

    /// The lowest stamp at or above `least` that explains `state` (H2).
    ///
    /// # Errors
    /// The place that cannot be explained together with the others.
    pub fn explain(&self, state: &State, wall_ms: u64, least: u64) -> Result<u64, String> {
        self.explain_but(state, &Lost::default(), wall_ms, least)
    }

    /// As [`History::explain`], of a state that says nothing about the places of `lost` but that
    /// their values are lost (H4).
    ///
    /// # Errors
    /// The place that cannot be explained together with the others.
    pub fn explain_but(
        &self,
        state: &State,
        lost: &Lost,
        wall_ms: u64,
        least: u64,
    ) -> Result<u64, String> {
        let plain = self.explain_known(state, lost, wall_ms, least);
        let Some((stamp, changes)) = self.doubtful.as_ref().filter(|_| plain.is_err()) else {
            return plain;
        };
        let mut with = History {
            places: self.places.clone(),
            doubtful: None,
        };
        with.write(*stamp, changes.clone());
        with.explain_known(state, lost, wall_ms, least)
    }

    /// Whether each place by itself is as it was at some stamp at or above `least`, whatever the
    /// others are.
    ///
    /// # Errors
    /// The place that is not.
    pub fn explain_each(&self, state: &State, wall_ms: u64, least: u64) -> Result<(), String> {
        for place in self.places.keys().chain(state.keys()) {
            let versions = self.places.get(place).cloned().unwrap_or_default();
            let alone = History {
                places: BTreeMap::from([(place.clone(), versions)]),
                doubtful: None,
            };
            let found = state.get_key_value(place);
            let found = found.map(|(place, value)| (place.clone(), value.clone()));
            alone.explain(&found.into_iter().collect(), wall_ms, least)?;
        }
        Ok(())
    }

    fn explain_known(
        &self,
        state: &State,
        lost: &Lost,
        wall_ms: u64,
        least: u64,
    ) -> Result<u64, String> {
        let mut named = state.keys().chain(&lost.places);
        if let Some(place) = named.find(|place| !self.places.contains_key(*place)) {
            return Err(format!("{} was never written", show(place)));
        }
        let mut common: Intervals = vec![(least, u64::MAX)];
        for (place, versions) in &self.places {
            let found = state.get(place);
            let is_lost = lost.places.contains(place);
            let allowed = if is_lost {
                losable(versions, lost.above)
            } else {
                allowed(versions, found, wall_ms)
            };
            let left = intersect(&common, &allowed);
            if left.is_empty() {
                return Err(format!(
                    "{} is {}, which is right at {:?}; the places before it (and what was \
                     promised) are at {:?}; it was written at {:?}",
                    show(place),
                    match found {
                        _ if is_lost => "lost".to_owned(),
                        None => "absent".to_owned(),
                        Some(value) => format!("{} bytes", value.len()),
                    },
                    shown(&allowed),
                    shown(&common),
                    versions
                        .iter()
                        .rev()
                        .take(4)
                        .map(|v| v.stamp)
                        .collect::<Vec<_>>(),
                ));
            }
            common = left;
        }
        Ok(common[0].0)
    }
}

/// The stamps `[from, to)` at which the place is as found.
fn allowed(versions: &[Version], found: Option<&Vec<u8>>, wall_ms: u64) -> Intervals {
    let mut intervals: Intervals = Vec::new();
    if found.is_none() {
        intervals.push((0, versions.first().map_or(u64::MAX, |first| first.stamp)));
    }
    for (index, version) in versions.iter().enumerate() {
        if version.at(wall_ms) == found {
            let end = versions.get(index + 1).map_or(u64::MAX, |next| next.stamp);
            match intervals.last_mut() {
                Some(last) if last.1 == version.stamp => last.1 = end,
                _ => intervals.push((version.stamp, end)),
            }
        }
    }
    intervals
}

/// The stamps `[from, to)` at which the place holds a value that may be lost (H4).
fn losable(versions: &[Version], above: u64) -> Intervals {
    let ends = versions.iter().skip(1).map(|next| next.stamp);
    let ends = ends.chain([u64::MAX]);
    let large = versions.iter().zip(ends);
    let large = large.filter(|(version, _)| version.may_be_lost(above));
    large.map(|(version, end)| (version.stamp, end)).collect()
}

fn intersect(a: &Intervals, b: &Intervals) -> Intervals {
    let (mut i, mut j, mut both) = (0, 0, Vec::new());
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let (from, to) = (x.0.max(y.0), x.1.min(y.1));
        if from < to {
            both.push((from, to));
        }
        if x.1 < y.1 { i += 1 } else { j += 1 }
    }
    both
}

fn shown(intervals: &Intervals) -> Vec<String> {
    let show = |(from, to): &(u64, u64)| match *to {
        u64::MAX => format!("{from}.."),
        to => format!("{from}..{to}"),
    };
    intervals.iter().rev().take(3).map(show).collect()
}

/// A place for an error.
#[must_use]
pub fn show(place: &Place) -> String {
    match &place.1 {
        Some(key) => format!("key \"{}\" of keyspace {}", key.escape_ascii(), place.0),
        None => format!("keyspace {}", place.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(key: &str) -> Place {
        (0, Some(key.as_bytes().to_vec()))
    }

    fn change(key: &str, value: Option<u8>) -> Change {
        Change {
            place: place(key),
            value: value.map(|byte| vec![byte]),
            expires_ms: None,
        }
    }

    fn history() -> History {
        let mut history = History::default();
        history.write(1, vec![change("a", Some(1))]);
        history.write(2, vec![change("b", Some(2))]);
        history.write(4, vec![change("a", None)]);
        history
    }

    #[test]
    fn a_prefix_is_explained_and_a_hole_is_not() {
        let history = history();
        let one = State::from([(place("a"), vec![1])]);
        assert_eq!(history.explain(&one, 0, 0), Ok(1));
        assert!(history.explain(&one, 0, 2).is_err(), "2 was promised");
        let hole = State::from([(place("b"), vec![2])]);
        assert_eq!(history.explain(&hole, 0, 0), Ok(4));
        let both = State::from([(place("a"), vec![1]), (place("b"), vec![2])]);
        assert_eq!(history.explain(&both, 0, 2), Ok(2));
        assert!(history.explain(&State::new(), 0, 1).is_err());
        let foreign = State::from([(place("c"), vec![1])]);
        assert!(history.explain(&foreign, 0, 0).is_err());
    }

    #[test]
    fn a_doubtful_write_may_have_happened_but_only_whole() {
        let mut history = history();
        history.doubt(5, vec![change("a", Some(9)), change("b", Some(9))]);
        let whole = State::from([(place("a"), vec![9]), (place("b"), vec![9])]);
        assert_eq!(history.explain(&whole, 0, 4), Ok(5));
        let none = State::from([(place("b"), vec![2])]);
        assert_eq!(history.explain(&none, 0, 4), Ok(4));
        let half = State::from([(place("a"), vec![9]), (place("b"), vec![2])]);
        assert!(history.explain(&half, 0, 4).is_err());
    }

    #[test]
    fn what_was_given_up_is_neither_promised_nor_right() {
        let mut history = history();
        let all = State::from([(place("b"), vec![2])]);
        assert_eq!(history.last_written(), 4);
        assert_eq!(history.explain(&all, 0, 4), Ok(4));
        history.give_up_above(2);
        assert_eq!(history.last_written(), 2);
        assert!(history.explain(&all, 0, 0).is_err());
        let left = State::from([(place("a"), vec![1]), (place("b"), vec![2])]);
        assert_eq!(history.explain(&left, 0, 2), Ok(2));
    }

    #[test]
    fn a_hole_explains_each_place_but_not_all_and_nothing_below_what_was_promised() {
        let mut history = history();
        history.write(5, vec![change("b", Some(5))]);
        history.write(6, vec![change("a", Some(6))]);
        let hole = State::from([(place("a"), vec![6]), (place("b"), vec![2])]);
        assert!(history.explain(&hole, 0, 4).is_err());
        assert_eq!(history.explain_each(&hole, 0, 4), Ok(()));
        assert!(history.explain_each(&hole, 0, 5).is_err());
        let foreign = State::from([(place("c"), vec![1])]);
        assert!(history.explain_each(&foreign, 0, 0).is_err());
    }

    #[test]
    fn a_lost_value_is_right_only_where_it_was_large_and_not_promised() {
        let mut history = history();
        let large = Change {
            value: Some(vec![0; INLINE_BYTES + 1]),
            ..change("c", None)
        };
        history.write(5, vec![large]);
        history.write(6, vec![change("a", Some(6))]);
        history.write(7, vec![change("c", Some(7))]);
        let lost = |key: &str, above| Lost {
            places: BTreeSet::from([place(key)]),
            above,
        };
        let state = State::from([(place("b"), vec![2])]);
        assert_eq!(history.explain_but(&state, &lost("c", 4), 0, 4), Ok(5));
        let was = history
            .explain_but(&state, &lost("c", 5), 0, 5)
            .unwrap_err();
        assert!(was.contains("lost"), "5 was promised: {was}");
        let later = State::from([(place("a"), vec![6]), (place("b"), vec![2])]);
        assert_eq!(history.explain_but(&later, &lost("c", 4), 0, 4), Ok(6));
        let wrong = State::from([(place("b"), vec![9])]);
        assert!(
            history.explain_but(&wrong, &lost("c", 4), 0, 4).is_err(),
            "another place"
        );
        assert!(
            history
                .explain_but(&State::new(), &lost("b", 0), 0, 0)
                .is_err(),
            "small"
        );
        assert!(
            history.explain_but(&state, &lost("d", 0), 0, 0).is_err(),
            "unknown"
        );
    }

    #[test]
    fn what_was_found_and_is_doubted_may_be_lost_until_it_is_overwritten() {
        let large = vec![0; INLINE_BYTES + 1];
        let found = State::from([(place("a"), large.clone()), (place("b"), large.clone())]);
        let mut history = History::from(&found, 10);
        history.doubt_value(&place("a"));
        history.write(11, vec![change("d", Some(1))]);
        history.write(12, vec![change("a", Some(2))]);
        let lost = |key: &str| Lost {
            places: BTreeSet::from([place(key)]),
            above: u64::MAX,
        };
        let b = (place("b"), large.clone());
        let later = State::from([b.clone(), (place("d"), vec![1])]);
        assert_eq!(history.explain_but(&later, &lost("a"), 0, 10), Ok(11));
        assert!(
            history.explain_but(&later, &lost("a"), 0, 12).is_err(),
            "12 was promised"
        );
        let rest = State::from([(place("a"), large)]);
        assert!(
            history.explain_but(&rest, &lost("b"), 0, 10).is_err(),
            "nobody doubts b"
        );
    }

    #[test]
    fn only_a_large_value_above_what_was_promised_may_be_lost() {
        let large = vec![0; INLINE_BYTES + 1];
        let mut history = history();
        let put = |value: &Vec<u8>| Change {
            value: Some(value.clone()),
            ..change("c", None)
        };
        history.write(5, vec![put(&large)]);
        history.write(6, vec![put(&vec![1; INLINE_BYTES + 1])]);
        assert!(history.may_lose(&place("c"), &large, 4));
        assert!(!history.may_lose(&place("c"), &large, 5), "it was promised");
        assert!(!history.may_lose(&place("b"), &[2], 0), "it is small");
    }

    #[test]
    fn an_expired_value_is_absent_and_hides_what_is_below() {
        let mut history = history();
        let mut short = change("b", Some(3));
        short.expires_ms = Some(100);
        history.write(6, vec![short]);
        let gone = State::new();
        assert_eq!(history.explain(&gone, 100, 6), Ok(6));
        assert!(history.explain(&gone, 99, 6).is_err());
    }
}
