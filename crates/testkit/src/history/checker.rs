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
//! H7. a swap that was done is a read-modify-write; one that was refused read something else.
//!
//! A swap does not tell its stamp. Where anybody was told the stamp of what it wrote (values are
//! written once), it has that one ([`placed`]). Where nobody was, it was overwritten before
//! anybody read the stamp: it is left out of the replay, and who saw its value is believed, unless
//! the swap began only later. So nothing right is refused; what is missed is small.
//!
//! Tests: below (each rule refuses a history made up to break it); `tests/histories.rs` of
//! `velella-reliability`; an independent checker judges a sample (`.ci/porcupine.sh`).

use super::event::{Event, KEYS, State, Value, Version, What};
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
    let judge = Judge {
        stamps: model.stamps(),
        model,
        loose: loose(events, &times),
        times,
    };
    for event in events {
        judge.event(event).map_err(|what| {
            format!(
                "{what}; client {} in [{}, {}]: {:?}",
                event.client, event.begin, event.end, event.what
            )
        })?;
    }
    Ok(())
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
}

impl Judge {
    fn event(&self, event: &Event) -> Result<(), String> {
        let least = before(&self.times.ended, event.begin);
        let most = after(&self.times.began, event.end);
        match &event.what {
            What::Wrote { stamp, .. } => within("H2", written_at(stamp.0), least, most),
            What::Based { stamp, bases, .. } => {
                within("H2", written_at(stamp.0), least, most)?;
                let found = |(key, base): (&usize, &Version)| {
                    let under = self.model.version(key, stamp.0 - 1);
                    let under = under.and_then(|(at, value)| Some((Stamp(at), value.clone()?)));
                    let what = || format!("H4: base of key {key}: the replay has {under:?}");
                    (under == *base).then_some(()).ok_or_else(what)
                };
                bases.iter().try_for_each(found)
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
                let other = |at: u64| self.model.get(key, at) != expected.as_ref();
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
                self.strict(&asked.iter().map(value).collect(), least, most, event.end)
            }
            What::Got { key, value, stamp } => self.got(event, *key, value, stamp.map(|at| at.0)),
            What::Strict { values } => self.strict(values, least, most, event.end),
            What::Saw { at, state } => {
                within("H2", read_at(at.0), least, most)?;
                self.saw(at.0, state, event.end)
            }
            What::SawAgain { at, state } => self.saw(at.0, state, event.end),
        }
    }

    /// Swaps of `key` of whose stamp nobody was told, and which began before `end`.
    fn unread(&self, key: usize, end: u64) -> impl Iterator<Item = &Loose> {
        let all = self.loose.get(&key).into_iter().flatten();
        all.filter(move |loose| loose.begin < end)
    }

    /// Whether who was done at `end` may have seen this at stamp `at`.
    fn holds(&self, key: usize, value: Option<&Vec<u8>>, at: u64, end: u64) -> bool {
        let is_it = |loose: &Loose| loose.least <= read_at(at) && Some(&loose.value) == value;
        self.model.get(&key, at) == value || self.unread(key, end).any(is_it)
    }

    fn strict(
        &self,
        values: &BTreeMap<usize, Value>,
        least: u64,
        most: u64,
        end: u64,
    ) -> Result<(), String> {
        let hold = |at: u64| {
            let mut values = values.iter();
            values.all(|(key, value)| self.holds(*key, value.as_ref(), at, end))
        };
        let found = self.moments(least, most).any(hold);
        let what =
            || format!("H2: at no stamp of the places [{least}, {most}] were these the values");
        found.then_some(()).ok_or_else(what)
    }

    fn saw(&self, at: u64, state: &State, end: u64) -> Result<(), String> {
        let known = state.keys().all(|key| *key < KEYS);
        let holds = |key| self.holds(key, state.get(&key), at, end);
        let what = || format!("H3: at {at} the replay is {:?}", self.model.at(at));
        (known && (0..KEYS).all(holds))
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
                same("H1: version", key, self.model.get(&key, stamp), value)
            }
            None => {
                let absent = |at: u64| self.model.get(&key, at).is_none();
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
