//! What the child's threads do between the go and the kill.
//!
//! L1. Every operation is announced before it begins and acknowledged after it returned.
//! L2. What a thread reads is judged at once: values by themselves, snapshots by what they said
//!     before, stamps by the thread's own last write.
//! L3. A replacement that was not to leave what it found has a stamp: it wrote.
//!
//! Threads: one `Load` each. Tests: below, and `tests/crash_test.rs`.

use super::key::{LASTING, Place, keyspace_name, own_keyspace};
use super::operation::{Action, Change, Class, Operation, WriteId, operation};
use super::oracle::{ACKS_MAX, Ack, Notes};
use super::random::Random;
use super::settings::Settings;
use super::state::{told, version};
use super::watch::Watch;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use velella::{Db, Decision, Durability, Entry, Keyspace, Snapshot, WriteBatch, WriteOptions};

/// One thread of the load.
pub(super) struct Load<'a> {
    pub(super) db: &'a Db,
    pub(super) settings: &'a Settings,
    pub(super) incarnation: u32,
    pub(super) start_ms: u64,
    pub(super) thread: u8,
    pub(super) notes: Notes,
    pub(super) watch: &'a Watch,
    pub(super) end: &'a AtomicBool,
}

/// A snapshot and what it said.
type Held = (Snapshot, Place, Option<Entry>);

impl Load<'_> {
    /// Works until it is told to end, or has done all it can note.
    pub(super) fn run(mut self) -> Result<(), String> {
        let lasting: Result<Vec<Keyspace>, String> = LASTING
            .iter()
            .map(|name| self.db.keyspace(name).map_err(told))
            .collect();
        let lasting = lasting?;
        let name = keyspace_name(own_keyspace(self.thread));
        let mut own = self.db.keyspace(&name).ok();
        let mut held: Option<Held> = None;
        let is_slow = self.settings.rest_us > 0;
        let mut rests = is_slow.then(|| Random::of(&[self.settings.seed, 7]));
        for number in 1..=ACKS_MAX {
            // Relaxed: nothing is read by it.
            if self.end.load(Ordering::Relaxed) {
                break;
            }
            let Operation { action, class } =
                operation(self.settings, self.incarnation, self.thread, number);
            self.notes.announce(number);
            let ack = match action {
                Action::Write(changes) => self.write(&lasting, &own, number, &changes, class)?,
                Action::Replace { change, if_absent } => {
                    self.replace(&lasting, number, &change, if_absent, class)?
                }
                Action::Add {
                    place,
                    delta,
                    by_rmw,
                } => self.add(place, delta, by_rmw, class)?,
                Action::Toggle => self.toggle(&mut own, &name)?,
                Action::Flush => self.db.flush().map_err(told).map(|()| Ack::default())?,
                Action::FlushOne(index) => lasting[usize::from(index)]
                    .flush()
                    .map_err(told)
                    .map(|()| Ack::default())?,
                Action::Compact => self.db.compact().map_err(told).map(|()| Ack::default())?,
                Action::Persist => Ack {
                    stamp: 0,
                    detail: self.db.persist().map_err(told)?.0,
                },
                Action::Read(place) => self.read(&lasting, place)?,
                Action::Look(place) => self.look(&lasting, place, &mut held)?,
            };
            self.notes.acknowledge(number, ack);
            self.watch.operation_done();
            if let Some(rest) = rests
                .as_mut()
                .map(|rests| rests.below(self.settings.rest_us))
            {
                std::thread::sleep(Duration::from_micros(rest));
            }
        }
        Ok(())
    }

    fn id(&self, number: u32, index: usize) -> WriteId {
        WriteId {
            incarnation: self.incarnation,
            thread: self.thread,
            number,
            index: u8::try_from(index).unwrap_or(u8::MAX),
        }
    }

    fn write(
        &self,
        lasting: &[Keyspace],
        own: &Option<Keyspace>,
        number: u32,
        changes: &[Change],
        class: Class,
    ) -> Result<Ack, String> {
        let mut batch = WriteBatch::new();
        for (index, change) in changes.iter().enumerate() {
            let place = change.place;
            let Some(keyspace) = lasting.get(usize::from(place.keyspace)).or(own.as_ref()) else {
                // The own keyspace is not there now.
                return Ok(Ack::default());
            };
            let key = place.key(self.settings.key_padding);
            let value = change
                .put
                .map(|(bytes, expiry)| (self.id(number, index).value(bytes), expiry));
            let expires = value
                .as_ref()
                .and_then(|(_, expiry)| expiry.at_ms(self.start_ms));
            match (value, expires) {
                (None, _) if changes.len() == 1 => {
                    let stamp = keyspace.delete_with(&key, class.options()).map_err(told)?;
                    return Ok(acknowledged(stamp.0));
                }
                (Some((value, _)), None) if changes.len() == 1 => {
                    return self.put(keyspace, place, &key, &value, class);
                }
                (None, _) => batch.delete(keyspace, key),
                (Some((value, _)), None) => batch.put(keyspace, key, value),
                (Some((value, _)), Some(at)) => batch.put_expiring(keyspace, key, value, at),
            };
        }
        let stamp = self.db.write_with(&batch, class.options()).map_err(told)?;
        Ok(acknowledged(stamp.0))
    }

    /// A put, and what it left there (L2).
    fn put(
        &self,
        keyspace: &Keyspace,
        place: Place,
        key: &[u8],
        value: &[u8],
        class: Class,
    ) -> Result<Ack, String> {
        let stamp = keyspace
            .put_with(key, value, class.options())
            .map_err(told)?;
        if stamp.0.is_multiple_of(8)
            && let Some(entry) = keyspace.get_entry(key).map_err(told)?
        {
            let seen = version(place, &entry)?;
            if entry.stamp < stamp {
                return Err(format!(
                    "wrong: {place} was written at stamp {stamp}, and then read as {seen}"
                ));
            }
        }
        Ok(acknowledged(stamp.0))
    }

    fn replace(
        &self,
        lasting: &[Keyspace],
        number: u32,
        change: &Change,
        if_absent: bool,
        class: Class,
    ) -> Result<Ack, String> {
        let keyspace = &lasting[usize::from(change.place.keyspace)];
        let key = change.place.key(self.settings.key_padding);
        let bytes = change.put.map_or(8, |(bytes, _)| bytes);
        let outcome = keyspace
            .rmw_entry(&key, class.options(), |old| {
                Ok::<_, velella::Error>(match old {
                    Some(_) if if_absent => Decision::Keep,
                    _ => Decision::put(self.id(number, 0).value(bytes)),
                })
            })
            .map_err(told)?;
        let old = outcome.old.map(|old| old.stamp.0);
        replaced(outcome.stamp.map(|stamp| stamp.0), old, if_absent)
            .ok_or_else(|| format!("wrong: {} was to be replaced, and was not", change.place))
    }

    fn add(&self, place: Place, delta: i64, by_rmw: bool, class: Class) -> Result<Ack, String> {
        let key = place.key(self.settings.key_padding);
        if !by_rmw {
            let sum = self.db.increment(&key, delta).map_err(told)?;
            let detail = u64::try_from(sum).map_err(|_| format!("wrong: {place} fell to {sum}"))?;
            return Ok(Ack { stamp: 0, detail });
        }
        let outcome = self
            .db
            .rmw_entry(&key, class.options(), |old| {
                let text = old.and_then(|old| std::str::from_utf8(&old.value).ok());
                let before: i64 = text.and_then(|text| text.parse().ok()).unwrap_or(0);
                Ok::<_, velella::Error>(Decision::put((before + delta).to_string()))
            })
            .map_err(told)?;
        Ok(acknowledged(outcome.stamp.map_or(0, |stamp| stamp.0)))
    }

    fn toggle(&self, own: &mut Option<Keyspace>, name: &str) -> Result<Ack, String> {
        let detail = if own.take().is_some() {
            self.db.drop_keyspace(name).map_err(told)?;
            2
        } else {
            *own = Some(self.db.keyspace_or_create(name).map_err(told)?);
            1
        };
        Ok(Ack { stamp: 0, detail })
    }

    fn read(&self, lasting: &[Keyspace], place: Place) -> Result<Ack, String> {
        let keyspace = &lasting[usize::from(place.keyspace)];
        let key = place.key(self.settings.key_padding);
        if let Some(entry) = keyspace.get_entry(&key).map_err(told)? {
            version(place, &entry)?;
        }
        Ok(Ack::default())
    }

    fn look(
        &self,
        lasting: &[Keyspace],
        place: Place,
        held: &mut Option<Held>,
    ) -> Result<Ack, String> {
        let entry = |snapshot: &Snapshot, place: Place| {
            let keyspace = &lasting[usize::from(place.keyspace)];
            let key = place.key(self.settings.key_padding);
            snapshot.get_entry(keyspace, &key).map_err(told)
        };
        if let Some((snapshot, place, seen)) = held.take() {
            let now = entry(&snapshot, place)?;
            if now != seen {
                return Err(format!(
                    "wrong: the snapshot at stamp {} saw one thing at {place}, now another",
                    snapshot.stamp()
                ));
            }
        }
        let snapshot = self.db.snapshot();
        let seen = entry(&snapshot, place)?;
        if let Some(seen) = &seen {
            version(place, seen)?;
            if seen.stamp > snapshot.stamp() {
                return Err(format!("wrong: a snapshot sees {place} of its future"));
            }
        }
        *held = Some((snapshot, place, seen));
        Ok(Ack::default())
    }
}

/// What a replacement that returned is acknowledged as. `None`: it wrote nothing, and was not to
/// leave what it found (L3).
fn replaced(stamp: Option<u64>, old: Option<u64>, if_absent: bool) -> Option<Ack> {
    match (stamp, old) {
        (Some(stamp), old) => Some(Ack {
            stamp,
            detail: old.unwrap_or(0),
        }),
        (None, Some(_)) if if_absent => Some(Ack::default()),
        (None, _) => None,
    }
}

fn acknowledged(stamp: u64) -> Ack {
    Ack { stamp, detail: 0 }
}

/// A write that returns as soon as the process could die.
pub(super) fn at_once() -> WriteOptions {
    WriteOptions {
        durability: Some(Durability::Buffered),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_replacement_of_what_is_absent_may_write_nothing() {
        let ack = |stamp, detail| Some(Ack { stamp, detail });
        assert_eq!(replaced(Some(9), Some(4), false), ack(9, 4));
        assert_eq!(replaced(Some(9), None, true), ack(9, 0));
        assert_eq!(replaced(None, Some(4), true), ack(0, 0));
        assert_eq!(replaced(None, Some(4), false), None);
        assert_eq!(replaced(None, None, false), None);
        assert_eq!(replaced(None, None, true), None);
    }
}
