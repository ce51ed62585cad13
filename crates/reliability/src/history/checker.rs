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
//! H5. batches are whole: one stamp of the replay, so H2 and H3 say it.
//!
//! A place in the order is twice a write's stamp, and one more for a read at that stamp: reads
//! come after the write they saw, and before the next.
//!
//! Tests: below (each rule refuses a history made up to break it); `tests/histories.rs`;
//! an independent checker judges a sample (`.ci/porcupine.sh`).

use super::event::{Event, State, Value, What};
use std::collections::BTreeMap;
use velella_base::Stamp;
use velella_testkit::Model;

/// What the keys held before the history began, with stamps.
pub type Before = BTreeMap<usize, (u64, Vec<u8>)>;

/// Judges `events`, which began on `before`.
///
/// # Errors
/// The rule that is broken, and by which operation.
pub fn check(before: &Before, events: &[Event]) -> Result<(), String> {
    let model = model_of(before, events)?;
    let judge = Judge {
        stamps: model.stamps(),
        model,
        times: Times::of(events),
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

/// What was certainly over, and certainly begun, at a moment of real time.
struct Times {
    /// By end: the largest place of any strict operation that ended by then.
    ended: Vec<(u64, u64)>,
    /// By begin, backwards: the smallest place of any strict operation that began from then on.
    began: Vec<(u64, u64)>,
    /// As `ended`, per key: the largest place of what anybody was told of it.
    told: BTreeMap<usize, Vec<(u64, u64)>>,
    /// As `began`, per key: the smallest place of its writes and reads.
    later: BTreeMap<usize, Vec<(u64, u64)>>,
}

impl Times {
    fn of(events: &[Event]) -> Times {
        let mut placed = Vec::new();
        let mut keyed: BTreeMap<usize, Vec<(u64, u64, u64)>> = BTreeMap::new();
        for event in events {
            let (begin, end) = (event.begin, event.end);
            if let Some(place) = place_of(&event.what) {
                placed.push((begin, end, place));
            }
            if let Some((stamp, changes)) = event.what.written() {
                for key in changes.keys() {
                    keyed
                        .entry(*key)
                        .or_default()
                        .push((begin, end, written_at(stamp.0)));
                }
            }
            if let What::Got {
                key,
                stamp: Some(stamp),
                ..
            } = &event.what
            {
                keyed
                    .entry(*key)
                    .or_default()
                    .push((begin, end, read_at(stamp.0)));
            }
        }
        Times {
            ended: rising(&placed),
            began: falling(&placed),
            told: keyed.iter().map(|(key, of)| (*key, rising(of))).collect(),
            later: keyed.iter().map(|(key, of)| (*key, falling(of))).collect(),
        }
    }
}

/// The largest place up to each end.
fn rising(spans: &[(u64, u64, u64)]) -> Vec<(u64, u64)> {
    let mut list: Vec<_> = spans.iter().map(|(_, end, stamp)| (*end, *stamp)).collect();
    list.sort_unstable();
    let mut most = 0;
    for (_, stamp) in &mut list {
        most = most.max(*stamp);
        *stamp = most;
    }
    list
}

/// The smallest place from each beginning on.
fn falling(spans: &[(u64, u64, u64)]) -> Vec<(u64, u64)> {
    let mut list: Vec<_> = spans
        .iter()
        .map(|(begin, _, stamp)| (*begin, *stamp))
        .collect();
    list.sort_unstable();
    let mut least = u64::MAX;
    for (_, stamp) in list.iter_mut().rev() {
        least = least.min(*stamp);
        *stamp = least;
    }
    list
}

/// The largest place among what ended before `moment`; 0 if nothing did.
fn before(list: &[(u64, u64)], moment: u64) -> u64 {
    let place = list.partition_point(|(end, _)| *end < moment);
    place.checked_sub(1).map_or(0, |last| list[last].1)
}

/// The smallest place among what began after `moment`.
fn after(list: &[(u64, u64)], moment: u64) -> u64 {
    let place = list.partition_point(|(begin, _)| *begin <= moment);
    list.get(place).map_or(u64::MAX, |first| first.1)
}

struct Judge {
    model: Model<usize>,
    /// Its stamps, ascending.
    stamps: Vec<u64>,
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
                bases.iter().try_for_each(|(key, base)| {
                    let under = self.model.get(key, stamp.0 - 1);
                    same("H4: base", *key, under, base)
                })
            }
            What::Got { key, value, stamp } => self.got(event, *key, value, stamp.map(|at| at.0)),
            What::Strict { values } => {
                let holds = |at: u64| {
                    let equal =
                        |(key, value): (&usize, &Value)| self.model.get(key, at) == value.as_ref();
                    values.iter().all(equal)
                };
                let found = self.moments(least, most).any(holds);
                let what = || {
                    format!("H2: at no stamp of the places [{least}, {most}] were these the values")
                };
                found.then_some(()).ok_or_else(what)
            }
            What::Saw { at, state } => {
                within("H2", read_at(at.0), least, most)?;
                self.saw(at.0, state)
            }
            What::SawAgain { at, state } => self.saw(at.0, state),
        }
    }

    fn saw(&self, at: u64, state: &State) -> Result<(), String> {
        let replay = self.model.at(at);
        let what = || format!("H3: at {at} the replay is {replay:?}");
        (replay == *state).then_some(()).ok_or_else(what)
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

    /// The stamps at which a read may stand between the places `least` and `most`.
    fn moments(&self, least: u64, most: u64) -> impl Iterator<Item = u64> + '_ {
        let first = self.stamps.partition_point(|at| read_at(*at) < least);
        let end = self.stamps.partition_point(|at| read_at(*at) <= most);
        let written = self.stamps[first..end.max(first)].iter().copied();
        let least = Some(least / 2).filter(|at| (least..=most).contains(&read_at(*at)));
        least.into_iter().chain(written)
    }
}

/// The place of a write with this stamp.
fn written_at(stamp: u64) -> u64 {
    2 * stamp
}

/// The place of a read that saw everything up to this stamp.
fn read_at(stamp: u64) -> u64 {
    2 * stamp + 1
}

/// Where a strict operation certainly stands.
fn place_of(what: &What) -> Option<u64> {
    match what {
        What::Saw { at, .. } => Some(read_at(at.0)),
        _ => what.written().map(|(stamp, _)| written_at(stamp.0)),
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
    use velella::Stamp;

    fn event(begin: u64, end: u64, what: What) -> Event {
        let client = 0;
        Event {
            client,
            begin,
            end,
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
}
