//! What a crash in the middle of a history may leave.
//!
//! P2. After the death of the process: what was acknowledged, or read by anybody, before the crash
//!     began is there; what began after it is not; what lies in between is there or not, whole.
//! P3. After a power loss, and without a journal, what is there is a prefix by the order of stamps
//!     that holds every write which was to be durable and had returned before the crash began.
//! P4. What expires may have done so since; then it shows as nothing.
//!
//! Tests: below; the campaign `histories` of `velella-reliability`; the engine's models.

use super::checker::Before;
use super::event::{Event, KEYS, Value, What};
use super::expiry::expires;
use crate::Model;
use std::collections::{BTreeMap, BTreeSet};

/// Writes by key and stamp: whose they are and what they wrote.
type ByPlace<'a> = BTreeMap<(usize, u64), (&'a Event, &'a Value)>;

/// When a picture of the file system was taken while clients ran on.
#[derive(Debug, Clone, Copy)]
pub struct Crash {
    /// The counter before it began.
    pub begun: u64,
    /// The counter after it ended.
    pub ended: u64,
}

impl Crash {
    /// P2, where it took the process alone.
    ///
    /// # Errors
    /// What is there and must not be, or is not and must.
    pub fn check(&self, events: &[Event], found: &Before) -> Result<(), String> {
        let writes = || {
            events
                .iter()
                .filter_map(|event| Some((event, event.what.written()?)))
        };
        let mut by_place = ByPlace::new();
        for (event, (stamp, changes)) in writes() {
            for (key, value) in changes {
                by_place.insert((*key, stamp.0), (event, value));
            }
        }
        let stamp_of = |key: &usize| found.get(key).map_or(0, |(stamp, _)| *stamp);
        for (key, (stamp, value)) in found {
            match by_place.get(&(*key, *stamp)) {
                Some((event, Some(written))) if event.begin < self.ended && written == value => {}
                other => return Err(format!("P2: key {key} holds {stamp}, which is {other:?}")),
            }
        }
        let read = self.read(events, &by_place);
        for (event, (stamp, changes)) in writes() {
            let there =
                |(key, value): (&usize, &Value)| stamp_of(key) == stamp.0 && value.is_some();
            let was_read = changes.keys().any(|key| read.contains(&(*key, stamp.0)));
            let survived = event.end < self.begun || was_read || changes.iter().any(there);
            // Where it survived, every key shows it or something newer. A newer deletion shows
            // as nothing, so only what cannot have been deleted since is demanded.
            let lost = |key: &&usize| {
                stamp_of(key) < stamp.0 && !self.deleted_since(key, stamp.0, changes, &by_place)
            };
            if let Some(key) = changes.keys().find(lost).filter(|_| survived) {
                return Err(format!(
                    "P2: the write at {stamp} is not at key {key}: {event:?}"
                ));
            }
        }
        Ok(())
    }

    /// By key and stamp, what readers and updates were told before the crash began.
    fn read(&self, events: &[Event], by_place: &ByPlace<'_>) -> BTreeSet<(usize, u64)> {
        let mut read = BTreeSet::new();
        // Values are written once.
        let of_value = |key: usize, value: &Vec<u8>| {
            let mut written = by_place.range((key, 0)..=(key, u64::MAX));
            let found = written.find(|(_, (_, written))| written.as_ref() == Some(value));
            found.map(|(place, _)| *place)
        };
        for event in events.iter().filter(|event| event.end < self.begun) {
            match &event.what {
                What::Got { key, stamp, .. } => read.extend(stamp.map(|at| (*key, at.0))),
                What::Based { bases, .. } => {
                    let bases = bases.iter();
                    read.extend(bases.filter_map(|(key, base)| Some((*key, base.as_ref()?.0.0))));
                }
                What::Strict { values } => {
                    let values = values.iter();
                    let told = values.filter_map(|(key, value)| Some((*key, value.as_ref()?)));
                    read.extend(told.filter_map(|(key, value)| of_value(key, value)));
                }
                What::Saw { state, .. } | What::SawAgain { state, .. } => {
                    read.extend(
                        state
                            .iter()
                            .filter_map(|(key, value)| of_value(*key, value)),
                    );
                }
                What::Scanned { pairs, .. } => {
                    read.extend(
                        pairs
                            .iter()
                            .filter_map(|(key, value)| of_value(*key, value)),
                    );
                }
                What::Swapped { .. }
                | What::Refused { .. }
                | What::Wrote { .. }
                | What::Counted { .. }
                | What::Expired => {}
            }
        }
        read
    }

    /// P3, of a prefix that must hold what has a stamp up to `least`, too.
    ///
    /// # Errors
    /// What was found, which is no such prefix.
    pub fn check_prefix(&self, events: &[Event], found: &Before, least: u64) -> Result<(), String> {
        let mut model = Model::new();
        let (mut least, mut most) = (least, u64::MAX);
        for event in events {
            let Some((stamp, changes)) = event.what.written() else {
                continue;
            };
            for (key, value) in changes {
                model.write(*key, stamp.0, value.clone());
            }
            if event.synced && event.end < self.begun {
                least = least.max(stamp.0);
            }
            if event.begin > self.ended {
                most = most.min(stamp.0 - 1);
            }
        }
        let holds = |at: &u64| {
            let is_found = |key: usize| {
                let there = model.version(&key, *at);
                let there = there.and_then(|(stamp, value)| Some((stamp, value.clone()?)));
                let may_be_gone = there.as_ref().is_some_and(|(_, value)| expires(value));
                let found = found.get(&key);
                there.as_ref() == found || found.is_none() && may_be_gone
            };
            (0..KEYS).all(is_found)
        };
        let mut stamps = model.stamps();
        stamps.retain(|at| (least..=most).contains(at));
        stamps.push(least);
        if stamps.iter().any(holds) {
            return Ok(());
        }
        Err(format!(
            "P3: no stamp of [{least}, {most}] has just this: {found:?}"
        ))
    }

    fn deleted_since(
        &self,
        key: &usize,
        stamp: u64,
        changes: &BTreeMap<usize, Value>,
        by_place: &ByPlace<'_>,
    ) -> bool {
        let shows_as_nothing = |value: &Value| value.as_deref().is_none_or(expires);
        let is_deletion = changes.get(key).is_some_and(shows_as_nothing);
        let deletes =
            |(event, value): &(&Event, &Value)| shows_as_nothing(value) && event.begin < self.ended;
        is_deletion
            || by_place
                .range((*key, stamp + 1)..(*key, u64::MAX))
                .any(|(_, at)| deletes(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use velella_base::Stamp;

    fn put(begin: u64, stamp: u64, key: usize, synced: bool) -> Event {
        let changes = BTreeMap::from([(key, Some(key.to_le_bytes().to_vec()))]);
        let stamp = Stamp(stamp);
        Event {
            client: 0,
            begin,
            end: begin + 1,
            synced,
            what: What::Wrote { stamp, changes },
        }
    }

    fn verdict(events: &[Event], found: &[(usize, u64)]) -> Result<(), String> {
        let crash = Crash {
            begun: 20,
            ended: 21,
        };
        let found = found.iter();
        let found = found.map(|(key, stamp)| (*key, (*stamp, key.to_le_bytes().to_vec())));
        crash.check_prefix(events, &found.collect(), 0)
    }

    #[test]
    fn the_death_of_the_process_leaves_what_was_acknowledged_or_read() {
        let crash = Crash {
            begun: 20,
            ended: 21,
        };
        let slow = Event {
            end: 40,
            ..put(3, 6, 1, false)
        };
        let value = 1usize.to_le_bytes().to_vec();
        let read = |what: What| Event {
            end: 10,
            what,
            ..put(9, 0, 0, false)
        };
        let got = read(What::Got {
            key: 1,
            value: Some(value.clone()),
            stamp: Some(Stamp(6)),
        });
        let values = BTreeMap::from([(1, Some(value.clone()))]);
        let strict = read(What::Strict { values });
        let state = BTreeMap::from([(1, value)]);
        let saw = read(What::Saw {
            at: Stamp(6),
            state,
        });
        let verdict = |more: Option<&Event>, found: &[(usize, u64)]| {
            let mut events = vec![put(1, 5, 0, false), slow.clone()];
            events.extend(more.cloned());
            let found = found.iter();
            let found = found.map(|(key, stamp)| (*key, (*stamp, key.to_le_bytes().to_vec())));
            crash.check(&events, &found.collect()).is_ok()
        };
        assert!(verdict(None, &[(0, 5)]) && verdict(None, &[(0, 5), (1, 6)]));
        assert!(!verdict(None, &[(1, 6)]), "what was acknowledged is gone");
        for read in [got, strict, saw] {
            assert!(verdict(Some(&read), &[(0, 5), (1, 6)]));
            assert!(!verdict(Some(&read), &[(0, 5)]), "gone: {read:?}");
        }
    }

    #[test]
    fn a_power_loss_leaves_a_prefix_with_all_that_was_synced() {
        let events = [
            put(1, 5, 0, false),
            put(3, 6, 1, true),
            put(5, 7, 2, false),
            put(7, 8, 3, false),
            put(30, 9, 4, true),
        ];
        assert_eq!(verdict(&events, &[(0, 5), (1, 6)]), Ok(()));
        assert_eq!(verdict(&events, &[(0, 5), (1, 6), (2, 7)]), Ok(()));
        let lost = verdict(&events, &[(0, 5)]);
        assert!(lost.is_err(), "what was synced is not there");
        let hole = verdict(&events, &[(0, 5), (1, 6), (3, 8)]);
        assert!(
            hole.is_err(),
            "a later write is there, an earlier one is not"
        );
        let future = verdict(&events, &[(0, 5), (1, 6), (2, 7), (3, 8), (4, 9)]);
        assert!(future.is_err(), "it began after the image was taken");
        let foreign = verdict(&events, &[(0, 6), (1, 6)]);
        assert!(foreign.is_err(), "no write to this key has this stamp");
    }

    #[test]
    fn what_expires_may_have_done_so_since_and_nothing_else_is_missed() {
        let crash = Crash {
            begun: 20,
            ended: 21,
        };
        for (value, may_be_gone) in [("e1", true), ("x1", false)] {
            let mut write = put(1, 5, 0, true);
            let changes = BTreeMap::from([(0, Some(value.as_bytes().to_vec()))]);
            write.what = What::Wrote {
                stamp: Stamp(5),
                changes,
            };
            let (events, gone) = ([write], Before::new());
            assert_eq!(crash.check(&events, &gone).is_ok(), may_be_gone, "{value}");
            let prefix = crash.check_prefix(&events, &gone, 0);
            assert_eq!(prefix.is_ok(), may_be_gone, "{value}");
            let there = Before::from([(0, (5, value.as_bytes().to_vec()))]);
            assert_eq!(crash.check(&events, &there), Ok(()));
            assert_eq!(crash.check_prefix(&events, &there, 0), Ok(()));
        }
    }
}
