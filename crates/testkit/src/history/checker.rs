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
//! Tests: below (each rule refuses a history made up to break it); `tests/histories.rs` of
//! `velella-reliability`; an independent checker judges a sample (`.ci/porcupine.sh`).

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
mod tests {
    use super::*;

    fn event(begin: u64, end: u64, what: What) -> Event {
        let client = 0;
        Event {
            client,
            begin,
            end,
            synced: false,
            what,
        }
    }

    fn put(begin: u64, end: u64, stamp: u64, key: usize, value: &str) -> Event {
        let changes = BTreeMap::from([(key, Some(value.as_bytes().to_vec()))]);
        let stamp = Stamp(stamp);
        event(begin, end, What::Wrote { stamp, changes })
    }

    fn got(begin: u64, end: u64, key: usize, told: Option<(u64, &str)>) -> Event {
        let value = told.map(|(_, value)| value.as_bytes().to_vec());
        let stamp = told.map(|(stamp, _)| Stamp(stamp));
        event(begin, end, What::Got { key, value, stamp })
    }

    fn strict(begin: u64, end: u64, told: &[(usize, Option<&str>)]) -> Event {
        let pair = |(key, value): &(usize, Option<&str>)| {
            (*key, value.map(|value| value.as_bytes().to_vec()))
        };
        let values = told.iter().map(pair).collect();
        event(begin, end, What::Strict { values })
    }

    fn saw(begin: u64, end: u64, at: u64, told: &[(usize, &str)]) -> Event {
        let pair = |(key, value): &(usize, &str)| (*key, value.as_bytes().to_vec());
        let (at, state) = (Stamp(at), told.iter().map(pair).collect());
        event(begin, end, What::Saw { at, state })
    }

    fn verdict(events: &[Event]) -> String {
        check(&Before::new(), events)
            .err()
            .unwrap_or_else(|| "fine".to_owned())
    }

    /// Between two writes of other keys: at the first it had not begun, at the second it is seen
    /// together with that.
    #[test]
    fn a_swap_whose_stamp_nobody_was_told_may_be_seen_before_the_next_write() {
        let told = |key| strict(4, 12, &[(0, None), (1, key)]);
        let swap = What::Swapped {
            key: 1,
            base: Some((Stamp(10), b"a".to_vec())),
            value: b"b".to_vec(),
        };
        let events = [
            put(1, 2, 10, 1, "a"),
            saw(2, 5, 15, &[(1, "a")]),
            event(6, 40, swap),
            put(3, 41, 20, 0, "c"),
        ];
        let with = |strict| verdict(&[&events[..], &[strict]].concat());
        assert_eq!(with(told(Some("b"))), "fine");
        assert_eq!(with(told(Some("a"))), "fine");
        assert!(with(told(None)).starts_with("H2"));
    }

    /// As the first write of all, stamp 0 contradicts nothing else.
    #[test]
    fn a_write_without_a_stamp_is_refused() {
        assert!(verdict(&[put(1, 2, 0, 0, "a")]).contains("stamp 0"));
    }

    #[test]
    fn a_history_in_order_is_fine() {
        let events = [
            got(1, 2, 0, None),
            put(3, 4, 10, 0, "a"),
            put(5, 9, 12, 1, "b"),
            got(6, 7, 0, Some((10, "a"))),
            saw(10, 11, 12, &[(0, "a"), (1, "b")]),
            strict(5, 8, &[(0, Some("a")), (1, None)]),
        ];
        assert_eq!(verdict(&events), "fine");
    }

    #[test]
    fn a_get_that_misses_what_was_acknowledged_is_refused() {
        let put_first = put(1, 2, 10, 0, "a");
        assert!(verdict(&[put_first.clone(), got(3, 4, 0, None)]).starts_with("H1"));
        let newer = put(3, 4, 11, 0, "b");
        let stale = got(5, 6, 0, Some((10, "a")));
        assert!(verdict(&[put_first.clone(), newer, stale]).starts_with("H1"));
        // Not even where only another reader was told of the newer one.
        let slow = put(3, 20, 11, 0, "b");
        let events = [
            put_first,
            slow,
            got(5, 6, 0, Some((11, "b"))),
            got(7, 8, 0, Some((10, "a"))),
        ];
        assert!(verdict(&events).starts_with("H1"));
    }

    #[test]
    fn a_get_from_the_future_is_refused() {
        let events = [got(1, 2, 0, Some((10, "a"))), put(3, 4, 10, 0, "a")];
        assert!(verdict(&events).starts_with("H1"));
    }

    #[test]
    fn a_value_that_is_not_its_stamps_is_refused() {
        let events = [put(1, 2, 10, 0, "a"), got(3, 4, 0, Some((10, "b")))];
        assert!(verdict(&events).starts_with("H1: version"));
    }

    #[test]
    fn stamps_against_real_time_are_refused() {
        let events = [put(1, 2, 11, 0, "a"), put(3, 4, 10, 1, "b")];
        assert!(verdict(&events).starts_with("H2"));
        let events = [put(1, 2, 11, 0, "a"), saw(3, 4, 10, &[])];
        assert!(verdict(&events).starts_with("H2"));
    }

    #[test]
    fn half_a_batch_is_refused() {
        let changes = BTreeMap::from([(0, Some(b"a".to_vec())), (1, Some(b"b".to_vec()))]);
        let batch = event(
            1,
            9,
            What::Wrote {
                stamp: Stamp(10),
                changes,
            },
        );
        let half = strict(2, 3, &[(0, Some("a")), (1, None)]);
        assert!(verdict(&[batch.clone(), half]).starts_with("H2"));
        let half = saw(2, 3, 10, &[(0, "a")]);
        assert!(verdict(&[batch, half]).starts_with("H3"));
    }

    #[test]
    fn a_lost_update_is_refused() {
        let based = |begin, stamp, value: &str| {
            let changes = BTreeMap::from([(0, Some(value.as_bytes().to_vec()))]);
            let (stamp, bases) = (Stamp(stamp), BTreeMap::from([(0, None)]));
            event(
                begin,
                20,
                What::Based {
                    stamp,
                    changes,
                    bases,
                    read_at: None,
                },
            )
        };
        assert!(verdict(&[based(1, 10, "a"), based(2, 11, "b")]).starts_with("H4: base"));
        let twice = [put(1, 2, 10, 0, "a"), put(1, 2, 10, 0, "b")];
        assert!(verdict(&twice).starts_with("H4: two writes"));
    }

    fn swapped(begin: u64, end: u64, base: Option<(u64, &str)>, value: &str) -> Event {
        let base = base.map(|(stamp, value)| (Stamp(stamp), value.as_bytes().to_vec()));
        let (key, value) = (0, value.as_bytes().to_vec());
        event(begin, end, What::Swapped { key, base, value })
    }

    fn refused(begin: u64, end: u64, expected: Option<&str>) -> Event {
        let expected = expected.map(|value| value.as_bytes().to_vec());
        event(begin, end, What::Refused { key: 0, expected })
    }

    fn scanned(begin: u64, end: u64, asked: &[usize], told: &[(usize, &str)]) -> Event {
        let pair = |(key, value): &(usize, &str)| (*key, value.as_bytes().to_vec());
        let (asked, pairs) = (asked.to_vec(), told.iter().map(pair).collect());
        event(begin, end, What::Scanned { asked, pairs })
    }

    #[test]
    fn a_scan_of_no_moment_or_out_of_order_is_refused() {
        let with = |scan: Event| {
            verdict(&[
                put(1, 2, 10, 0, "a"),
                put(3, 4, 12, 2, "b"),
                put(5, 20, 14, 0, "c"),
                scan,
            ])
        };
        let asked = [0, 2];
        assert_eq!(with(scanned(6, 7, &asked, &[(0, "a"), (2, "b")])), "fine");
        assert_eq!(with(scanned(6, 7, &asked, &[(0, "c"), (2, "b")])), "fine");
        assert_eq!(with(scanned(6, 7, &[2, 0], &[(2, "b"), (0, "a")])), "fine");
        assert_eq!(with(scanned(6, 7, &[2, 4], &[(2, "b")])), "fine");
        assert!(with(scanned(6, 7, &asked, &[(0, "a")])).starts_with("H2"));
        assert!(with(scanned(6, 7, &asked, &[(2, "b")])).starts_with("H2"));
        assert!(with(scanned(22, 23, &asked, &[(0, "a"), (2, "b")])).starts_with("H2"));
        assert!(with(scanned(6, 7, &asked, &[(2, "b"), (0, "a")])).starts_with("H6"));
        let twice = [(0, "a"), (0, "c"), (2, "b")];
        assert!(with(scanned(6, 7, &asked, &twice)).starts_with("H6"));
        assert!(with(scanned(6, 7, &[2, 4], &[(0, "a"), (2, "b")])).starts_with("H6"));
    }

    #[test]
    fn a_swap_of_what_was_not_there_is_refused() {
        let first = put(1, 2, 10, 0, "a");
        let read = got(7, 8, 0, Some((12, "b")));
        let good = swapped(5, 6, Some((10, "a")), "b");
        assert_eq!(
            verdict(&[first.clone(), good.clone(), read.clone()]),
            "fine"
        );
        // Another write lay between.
        let between = put(3, 4, 11, 0, "z");
        let lost = [first.clone(), between.clone(), good.clone(), read.clone()];
        assert!(verdict(&lost).starts_with("H4: base"), "{}", verdict(&lost));
        // The key was not absent, or held something else.
        let absent = [first.clone(), swapped(5, 6, None, "b"), read.clone()];
        assert!(verdict(&absent).starts_with("H4: base"));
        let other = swapped(5, 6, Some((0, "nobody wrote this")), "b");
        assert!(verdict(&[first.clone(), other.clone(), read]).starts_with("H4: base"));
        // And so it is where nobody was told the stamp.
        let over = put(7, 8, 13, 0, "c");
        assert_eq!(verdict(&[first.clone(), good, over.clone()]), "fine");
        assert!(verdict(&[first, other, over]).starts_with("H7: base"));
    }

    #[test]
    fn a_swap_whose_stamp_nobody_was_told_is_seen_after_it_began_only() {
        let first = put(1, 2, 10, 0, "a");
        let swap = swapped(5, 6, Some((10, "a")), "b");
        let over = put(9, 10, 13, 0, "c");
        let with = |read: Event| verdict(&[first.clone(), swap.clone(), over.clone(), read]);
        assert_eq!(with(strict(7, 8, &[(0, Some("b"))])), "fine");
        assert_eq!(with(saw(7, 8, 12, &[(0, "b")])), "fine");
        assert!(with(strict(3, 4, &[(0, Some("b"))])).starts_with("H2"));
        assert!(with(saw(3, 4, 10, &[(0, "b")])).starts_with("H3"));
        assert!(with(saw(7, 8, 12, &[])).starts_with("H3"));
    }

    #[test]
    fn a_swap_refused_for_what_was_there_all_the_time_is_refused() {
        let first = put(1, 2, 10, 0, "a");
        assert!(verdict(&[first.clone(), refused(3, 4, Some("a"))]).starts_with("H7"));
        assert_eq!(verdict(&[first.clone(), refused(3, 4, Some("b"))]), "fine");
        assert_eq!(verdict(&[first.clone(), refused(3, 4, None)]), "fine");
        assert!(verdict(&[put(5, 6, 10, 0, "a"), refused(3, 4, None)]).starts_with("H7"));
        // While another write is under way it may have held that.
        let slow = put(3, 9, 11, 0, "b");
        assert_eq!(
            verdict(&[first.clone(), slow, refused(4, 5, Some("a"))]),
            "fine"
        );
        let unread = swapped(3, 9, Some((10, "a")), "b");
        assert_eq!(verdict(&[first, unread, refused(4, 5, Some("a"))]), "fine");
    }
}
