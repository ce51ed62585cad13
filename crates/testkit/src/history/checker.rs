//! Decides whether a history is one that the promises allow.
//!
//! Stamps are the order the engine claims; the checker replays it and looks whether everybody was
//! told what the replay says, and whether the order agrees with real time:
//!
//! H1. a `get` is linearizable for its key: the version is the newest at some stamp that is no
//!     older than what anybody was told of the key before it began, nor newer than what was
//!     being written when it ended;
//! H2. writes, snapshots, `get_strict` and `multi_get` together are strictly serializable: each
//!     has one place in the stamp order, and places agree with real time;
//! H3. a snapshot is exactly the replay up to its stamp, and stays so;
//! H4. a read-modify-write found exactly the version below its own; no two writes share a stamp
//!     and a key;
//! H5. batches are whole: one stamp of the replay, so H2 and H3 say it;
//! H6. a scan shows keys it was asked for, each once, in its order, as H2 has it of a `multi_get`;
//! H7. a swap that was done is a read-modify-write; one that was refused read something else;
//! H8. there is one stamp at which what expires does, for all of that (`expiry.rs`).
//!
//! A swap does not tell its stamp. Where anybody was told the stamp of what it wrote (values are
//! written once), it has that one ([`placed`]). Where nobody was, it was overwritten before
//! anybody read the stamp: it is left out of the replay, and who saw its value is believed, unless
//! the swap began only later. So nothing right is refused; what is missed is small.
//!
//! Tests: `checker/tests.rs` (each rule refuses a history made up to break it);
//! `tests/histories.rs` of `velella-reliability`; an independent checker judges a sample
//! (`.ci/porcupine.sh`).

use super::event::{Event, KEYS, State, Value, Version, What};
use super::expiry::{Expiry, expires, left, passed};
use super::times::{Times, after, before, read_at, written_at};
use crate::Model;
use std::collections::BTreeMap;
use velella_base::Stamp;

/// What the keys held before the history began, with stamps.
pub type Before = BTreeMap<usize, (u64, Vec<u8>)>;

/// Judges `events`, which began on `before`.
///
/// # Errors
/// The rule that is broken, and by which operation.
pub fn check(before: &Before, events: &[Event]) -> Result<(), String> {
    let events = &placed(events, before);
    let model = model_of(before, events)?;
    let times = Times::of(events);
    let mut judge = Judge {
        stamps: model.stamps(),
        model,
        loose: loose(events, &times),
        times,
        passed: passed(events),
        expiry: Expiry::NEVER,
    };
    let mut refused = None;
    for expiry in judge.expiries(events) {
        judge.expiry = expiry;
        match judge.all(events) {
            Ok(()) => return Ok(()),
            Err(what) => refused = refused.or(Some(what)),
        }
    }
    Err(refused.unwrap_or_else(|| "H8: what expires did so at no stamp that there is".to_owned()))
}

/// The same with the stamps of swaps of which anybody was told, and of those that are in `told`.
#[must_use]
pub fn placed(events: &[Event], told: &Before) -> Vec<Event> {
    let mut stamps = BTreeMap::new();
    for (key, (stamp, value)) in told {
        stamps.insert((*key, value), Stamp(*stamp));
    }
    for event in events {
        match &event.what {
            What::Got {
                key,
                value: Some(value),
                stamp: Some(stamp),
            } => {
                stamps.insert((*key, value), *stamp);
            }
            What::Based { bases, .. } => {
                for (key, base) in bases {
                    if let Some((stamp, value)) = base {
                        stamps.insert((*key, value), *stamp);
                    }
                }
            }
            What::Swapped {
                key,
                base: Some((stamp, value)),
                ..
            } => {
                stamps.insert((*key, value), *stamp);
            }
            _ => {}
        }
    }
    let place = |event: &Event| {
        let mut event = event.clone();
        if let What::Swapped { key, base, value } = &event.what
            && let Some(stamp) = stamps.get(&(*key, value))
        {
            event.what = What::Based {
                stamp: *stamp,
                changes: BTreeMap::from([(*key, Some(value.clone()))]),
                bases: BTreeMap::from([(*key, base.clone())]),
                read_at: None,
            };
        }
        event
    };
    events.iter().map(place).collect()
}

/// The value of a swap whose stamp nobody was told.
struct Loose {
    /// When the swap began.
    begin: u64,
    /// The smallest place it can have.
    least: u64,
    value: Vec<u8>,
}

/// Those of `events`, by key.
fn loose(events: &[Event], times: &Times) -> BTreeMap<usize, Vec<Loose>> {
    let mut loose: BTreeMap<usize, Vec<Loose>> = BTreeMap::new();
    for event in events {
        if let What::Swapped { key, value, .. } = &event.what {
            loose.entry(*key).or_default().push(Loose {
                begin: event.begin,
                least: before(&times.ended, event.begin),
                value: value.clone(),
            });
        }
    }
    loose
}

/// The replay of all writes by stamp.
fn model_of(before: &Before, events: &[Event]) -> Result<Model<usize>, String> {
    let mut model = Model::new();
    let mut owners = BTreeMap::new();
    for (key, (stamp, value)) in before {
        model.write(*key, *stamp, Some(value.clone()));
        owners.insert((*key, *stamp), ());
    }
    for (stamp, changes) in events.iter().filter_map(|event| event.what.written()) {
        if stamp == Stamp::ZERO {
            return Err("H4: a write has stamp 0, which belongs to none".to_owned());
        }
        for (key, value) in changes {
            if owners.insert((*key, stamp.0), ()).is_some() {
                return Err(format!("H4: two writes to key {key} at stamp {stamp}"));
            }
            model.write(*key, stamp.0, value.clone());
        }
    }
    Ok(model)
}

struct Judge {
    model: Model<usize>,
    /// Its stamps, ascending.
    stamps: Vec<u64>,
    loose: BTreeMap<usize, Vec<Loose>>,
    times: Times,
    /// When the time came at which values expire.
    passed: Option<(u64, u64)>,
    /// Where, as is tried now (H8).
    expiry: Expiry,
}

impl Judge {
    /// Where the time may have come, for all that real time says.
    fn expiries(&self, events: &[Event]) -> Vec<Expiry> {
        let Some((begin, end)) = self.passed else {
            return vec![Expiry::NEVER];
        };
        let least = before(&self.times.ended, begin);
        let most = after(&self.times.began, end);
        let read = events.iter().filter_map(|event| match &event.what {
            What::Saw { at, .. } | What::SawAgain { at, .. } => Some(at.0),
            What::Based { read_at, .. } => read_at.map(|at| at.0),
            _ => None,
        });
        // Before the first write of all, too, and right before what began later.
        let ends = [0, least / 2, most / 2];
        let mut places: Vec<u64> = self
            .stamps
            .iter()
            .copied()
            .chain(read)
            .chain(ends)
            .collect();
        places.sort_unstable();
        places.dedup();
        places.retain(|at| (least..=most).contains(&read_at(*at)));
        places.into_iter().map(|at| Expiry { at }).collect()
    }

    fn all(&self, events: &[Event]) -> Result<(), String> {
        for event in events {
            self.event(event).map_err(|what| {
                format!(
                    "{what}; client {} in [{}, {}]: {:?}, {:?}",
                    event.client, event.begin, event.end, event.what, self.expiry
                )
            })?;
        }
        Ok(())
    }

    fn event(&self, event: &Event) -> Result<(), String> {
        let least = before(&self.times.ended, event.begin);
        let most = after(&self.times.began, event.end);
        match &event.what {
            What::Wrote { stamp, .. } => within("H2", written_at(stamp.0), least, most),
            What::Based {
                stamp,
                bases,
                read_at,
                ..
            } => {
                within("H2", written_at(stamp.0), least, most)?;
                self.based(*stamp, bases, *read_at)
            }
            What::Swapped {
                key,
                base: Some((stamp, base)),
                ..
            } => {
                let replay = self.model.get(key, stamp.0);
                same("H7: base", *key, replay, &Some(base.clone()))
            }
            What::Swapped { .. } => Ok(()),
            What::Refused { key, expected } => {
                let other = |at: u64| {
                    let mut shown = self.shown(*key, at, event);
                    shown.any(|value| value != expected.as_ref())
                };
                let unread = self.unread(*key, event.end);
                let mut unread = unread.map(|loose| Some(&loose.value));
                let found = self.moments(least, most).any(other)
                    || unread.any(|value| value != expected.as_ref());
                let what = || {
                    format!("H7: at all stamps of the places [{least}, {most}] it held just that")
                };
                found.then_some(()).ok_or_else(what)
            }
            What::Scanned { asked, pairs } => {
                let mut rest = asked.iter();
                if !pairs.iter().all(|(key, _)| rest.any(|next| next == key)) {
                    return Err(format!("H6: asked for {asked:?} in this order"));
                }
                let shown = |key: &usize| pairs.iter().find(|(shown, _)| shown == key);
                let value = |key: &usize| (*key, shown(key).map(|(_, value)| value.clone()));
                self.strict(&asked.iter().map(value).collect(), least, most, event)
            }
            What::Got { key, value, stamp } => self.got(event, *key, value, stamp.map(|at| at.0)),
            What::Strict { values } => self.strict(values, least, most, event),
            What::Saw { at, state } => {
                within("H2", read_at(at.0), least, most)?;
                self.saw(at.0, state, event.begin, event.end)
            }
            // It began when the snapshot was taken, and nobody looks when that was.
            What::SawAgain { at, state } => self.saw(at.0, state, 0, event.end),
            // Judged in `sums.rs`.
            What::Expired | What::Counted { .. } => Ok(()),
        }
    }

    /// H4, and H8 for it.
    fn based(
        &self,
        stamp: Stamp,
        bases: &BTreeMap<usize, Version>,
        read_at: Option<Stamp>,
    ) -> Result<(), String> {
        let is_over = [self.expiry.is_before(stamp.0)];
        let modes = match read_at {
            Some(at) => self.expiry.modes(at.0),
            None => &is_over,
        };
        let found = |is_over: &bool| {
            let found = |(key, base): (&usize, &Version)| {
                let under = self.model.version(key, stamp.0 - 1);
                let under = under.and_then(|(at, value)| {
                    let value = left(value.as_ref(), *is_over)?;
                    Some((Stamp(at), value.clone()))
                });
                let what = || format!("H4: base of key {key}: the replay has {under:?}");
                (under == *base).then_some(()).ok_or_else(what)
            };
            bases.iter().try_for_each(found)
        };
        let mut verdicts = modes.iter().map(found);
        let first = verdicts.next().expect("there is a mode");
        verdicts.fold(first, Result::or)
    }

    /// Swaps of `key` of whose stamp nobody was told, and which began before `end`.
    fn unread(&self, key: usize, end: u64) -> impl Iterator<Item = &Loose> {
        let all = self.loose.get(&key).into_iter().flatten();
        all.filter(move |loose| loose.begin < end)
    }

    /// Whether who was done at `end` may have seen this at stamp `at`, before what expires did, or
    /// once that `is_over`.
    fn holds(
        &self,
        key: usize,
        value: Option<&Vec<u8>>,
        (at, is_over): (u64, bool),
        end: u64,
    ) -> bool {
        let is_it = |loose: &Loose| loose.least <= read_at(at) && Some(&loose.value) == value;
        left(self.model.get(&key, at), is_over) == value || self.unread(key, end).any(is_it)
    }

    /// Whether who began and was done then may have seen all of it at stamp `at`.
    fn all_hold<'a>(
        &self,
        values: impl Iterator<Item = (usize, Option<&'a Vec<u8>>)> + Clone,
        at: u64,
        begin: u64,
        end: u64,
    ) -> bool {
        self.modes(at, begin, end).any(|is_over| {
            let mut values = values.clone();
            values.all(|(key, value)| self.holds(key, value, (at, is_over), end))
        })
    }

    /// Whether the time of what expires had come for a read at stamp `at`, and in real time.
    fn modes(&self, at: u64, begin: u64, end: u64) -> impl Iterator<Item = bool> {
        let (came, was_over) = self.passed.unwrap_or((u64::MAX, u64::MAX));
        let modes = self.expiry.modes(at).iter().copied();
        modes.filter(move |is_over| {
            if *is_over {
                came < end
            } else {
                begin <= was_over
            }
        })
    }

    /// What `event` may have been told of `key` alone, at stamp `at`.
    fn shown(&self, key: usize, at: u64, event: &Event) -> impl Iterator<Item = Option<&Vec<u8>>> {
        let replay = self.model.get(&key, at);
        let is_fixed = !replay.is_some_and(|value| expires(value));
        let modes = self.modes(at, event.begin, event.end);
        let modes = modes
            .filter(move |_| !is_fixed)
            .chain(is_fixed.then_some(false));
        modes.map(move |is_over| left(replay, is_over))
    }

    fn strict(
        &self,
        values: &BTreeMap<usize, Value>,
        least: u64,
        most: u64,
        event: &Event,
    ) -> Result<(), String> {
        let told = values.iter().map(|(key, value)| (*key, value.as_ref()));
        let hold = |at: u64| self.all_hold(told.clone(), at, event.begin, event.end);
        let found = self.moments(least, most).any(hold);
        let what =
            || format!("H2: at no stamp of the places [{least}, {most}] were these the values");
        found.then_some(()).ok_or_else(what)
    }

    fn saw(&self, at: u64, state: &State, begin: u64, end: u64) -> Result<(), String> {
        let known = state.keys().all(|key| *key < KEYS);
        let told = (0..KEYS).map(|key| (key, state.get(&key)));
        let what = || format!("H3: at {at} the replay is {:?}", self.model.at(at));
        (known && self.all_hold(told, at, begin, end))
            .then_some(())
            .ok_or_else(what)
    }

    fn got(
        &self,
        event: &Event,
        key: usize,
        value: &Value,
        stamp: Option<u64>,
    ) -> Result<(), String> {
        let (told, later) = (self.times.told.get(&key), self.times.later.get(&key));
        let least = told.map_or(0, |list| before(list, event.begin));
        let most = later.map_or(u64::MAX, |list| after(list, event.end));
        match stamp {
            Some(stamp) => {
                within("H1", read_at(stamp), least, most)?;
                same("H1: version", key, self.model.get(&key, stamp), value)?;
                let is_alive = self.shown(key, stamp, event).any(|shown| shown.is_some());
                let what = || format!("H8: key {key} had expired");
                is_alive.then_some(()).ok_or_else(what)
            }
            None => {
                let absent = |at: u64| self.shown(key, at, event).any(|value| value.is_none());
                let found = self.moments(least, most).any(absent);
                let what = || {
                    format!("H1: at no stamp of the places [{least}, {most}] was key {key} absent")
                };
                found.then_some(()).ok_or_else(what)
            }
        }
    }

    /// The stamps at which a read may stand between the places `least` and `most`, as far as they
    /// differ: those of writes, and the first that swaps whose stamp nobody was told may have.
    fn moments(&self, least: u64, most: u64) -> impl Iterator<Item = u64> + '_ {
        let first = self.stamps.partition_point(|at| read_at(*at) < least);
        let end = self.stamps.partition_point(|at| read_at(*at) <= most);
        let written = self.stamps[first..end.max(first)].iter().copied();
        let swapped = self.loose.values().flatten().map(|loose| loose.least);
        let begun = std::iter::once(least).chain(swapped).map(|place| place / 2);
        begun
            .chain(self.passed.map(|_| self.expiry.at))
            .filter(move |at| (least..=most).contains(&read_at(*at)))
            .chain(written)
    }
}

fn within(rule: &str, at: u64, least: u64, most: u64) -> Result<(), String> {
    let what = || format!("{rule}: {at} is not in [{least}, {most}], what real time allows");
    (least..=most).contains(&at).then_some(()).ok_or_else(what)
}

fn same(rule: &str, key: usize, replay: Option<&Vec<u8>>, told: &Value) -> Result<(), String> {
    let what = || format!("{rule} of key {key}: the replay has {replay:?}");
    (replay == told.as_ref()).then_some(()).ok_or_else(what)
}

#[cfg(test)]
mod tests;
