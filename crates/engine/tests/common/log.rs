//! What a workload was told, and whether a state found after a crash is allowed by it.
//!
//! L1. After a power loss the state is the replay of a stamp prefix that holds everything durable.
//! L2. After the death of the process everything acknowledged is there; of what was still under
//!     way any part, whole batches only.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use velella::{Db, Error, ErrorKind, Keyspace, KeyspaceOptions, Stamp, WriteBatch, WriteOptions};
use velella_testkit::{Model, Seed};

/// A key in one of the two keyspaces.
pub(crate) type Place = (u8, Vec<u8>);
/// What is there.
pub(crate) type State = BTreeMap<Place, Vec<u8>>;

/// One acknowledged write.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) stamp: Stamp,
    pub(crate) changes: Vec<(Place, Option<Vec<u8>>)>,
}

/// The two keyspaces of a workload.
pub(crate) struct Stores {
    pub(crate) db: Db,
    pub(crate) keyspaces: [Keyspace; 2],
}

impl Stores {
    /// Opens both, creating the second if need be.
    pub(crate) fn of(db: Db) -> velella::Result<Stores> {
        let other = db.keyspace_or_create("other")?;
        Ok(Stores {
            keyspaces: [db.default_keyspace(), other],
            db,
        })
    }

    /// Everything that is there.
    pub(crate) fn state(&self) -> State {
        let mut state = State::new();
        for (number, keyspace) in (0u8..).zip(&self.keyspaces) {
            for (key, value) in super::contents(keyspace) {
                // A point read says the same as the scan.
                assert_eq!(keyspace.get(&key).unwrap().unwrap(), value);
                state.insert((number, key), value);
            }
        }
        state
    }

    /// One random write of up to 4 keys out of `few`.
    pub(crate) fn random_write(
        &self,
        seed: &mut Seed,
        few: u64,
        longest: usize,
    ) -> velella::Result<Written> {
        let options = if seed.one_in(12) {
            WriteOptions::sync()
        } else {
            WriteOptions::default()
        };
        let place = |seed: &mut Seed| (u8::from(seed.one_in(3)), seed.key(few));
        let (number, key) = place(seed);
        let keyspace = &self.keyspaces[usize::from(number)];
        let one = |stamp, value| Written {
            stamp,
            changes: vec![((number, key.clone()), value)],
        };
        match seed.below(8) {
            0 => Ok(one(keyspace.delete_with(&key, options)?, None)),
            1 => {
                let addition = seed.value(8);
                let outcome = keyspace.rmw_entry::<Error>(&key, options, |old| {
                    let mut value = old.map_or_else(Vec::new, |old| old.value.to_vec());
                    value.truncate(64);
                    value.extend_from_slice(&addition);
                    Ok(velella::Decision::put(value))
                })?;
                let value = outcome.new_value().map(<[u8]>::to_vec);
                Ok(one(outcome.stamp.unwrap(), value))
            }
            2 => {
                let mut batch = WriteBatch::new();
                let mut changes = BTreeMap::new();
                for _ in 0..=seed.below(4) {
                    let (number, key) = place(seed);
                    let value = (!seed.one_in(4)).then(|| seed.value(longest));
                    match &value {
                        Some(value) => batch.put(&self.keyspaces[usize::from(number)], &key, value),
                        None => batch.delete(&self.keyspaces[usize::from(number)], &key),
                    };
                    changes.insert((number, key), value);
                }
                let stamp = self.db.write_with(&batch, options)?;
                Ok(Written {
                    stamp,
                    changes: changes.into_iter().collect(),
                })
            }
            _ => {
                let value = seed.value(longest);
                Ok(one(keyspace.put_with(&key, &value, options)?, Some(value)))
            }
        }
    }
}

/// The model of all these writes.
pub(crate) fn model(writes: &[Written]) -> Model<Place> {
    let mut model = Model::new();
    for written in writes {
        for (place, value) in &written.changes {
            model.write(place.clone(), written.stamp.0, value.clone());
        }
    }
    model
}

/// L1; returns the cut.
pub(crate) fn assert_prefix(
    writes: &[Written],
    state: &State,
    durable: Stamp,
    what: &str,
) -> Stamp {
    let cuts = model(writes).prefixes_equal_to(state, durable.0, u64::MAX);
    let Some(cut) = cuts.first() else {
        panic!(
            "{what}: no prefix at or above {durable} is what is there\n{}",
            difference(writes, state, durable)
        );
    };
    Stamp(*cut)
}

fn difference(writes: &[Written], state: &State, durable: Stamp) -> String {
    let model = model(writes);
    let mut lines = Vec::new();
    for place in model.keys() {
        let found = state.get(place);
        let stamps: Vec<u64> = writes
            .iter()
            .filter(|written| {
                written
                    .changes
                    .iter()
                    .any(|(at, value)| at == place && value.as_ref() == found)
            })
            .map(|written| written.stamp.0)
            .collect();
        let newest = model.version(place, u64::MAX).map(|(stamp, _)| stamp);
        let at_durable = model.version(place, durable.0).map(|(stamp, _)| stamp);
        let shown = &stamps[stamps.len().saturating_sub(3)..];
        lines.push(format!(
            "{place:?}: written at {shown:?}, durable {at_durable:?}, newest {newest:?}"
        ));
    }
    lines.join("\n")
}

/// L2: `acknowledged` of the writes were so before the crash, the rest may be there or not.
pub(crate) fn assert_kept(writes: &[Written], acknowledged: usize, state: &State, what: &str) {
    let must = model(&writes[..acknowledged]);
    let all = model(writes);
    for place in all.keys() {
        let least = must.version(place, u64::MAX).map_or(0, |(stamp, _)| stamp);
        let found = state.get(place);
        let allowed = writes
            .iter()
            .filter(|written| written.stamp.0 >= least)
            .any(|written| {
                written
                    .changes
                    .iter()
                    .any(|(at, value)| at == place && value.as_ref() == found)
            });
        let absent = least == 0 && found.is_none();
        assert!(
            allowed || absent,
            "{what}: {place:?} is older than its acknowledgement at {least}"
        );
    }
}

/// Whether the operation failed because the machine did.
pub(crate) fn is_fault(error: &Error) -> bool {
    use ErrorKind::{Closed, Io, NoSpace, OutcomeUnknown, ReadOnly};
    matches!(
        error.kind(),
        Closed | Io | NoSpace | OutcomeUnknown | ReadOnly
    )
}

/// A second keyspace for a workload.
pub(crate) fn other() -> KeyspaceOptions {
    KeyspaceOptions::default()
}
