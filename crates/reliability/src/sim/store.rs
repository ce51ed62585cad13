//! An open database and the history of what was done to it.
//!
//! S1. What an operation was told is recorded before the next begins; one that failed after it
//!     drew a stamp is doubtful.
//! S2. A read that contradicts the history is an error of its own kind, [`Trouble::Wrong`].

use crate::sim::history::{Change, History, Place, State, show};
use crate::sim::operation::{KEYSPACES, Operation, Part};
use crate::sim::setting::Setting;
use std::collections::BTreeSet;
use std::sync::Arc;
use velella::vfs::Vfs;
use velella::{Db, Decision, Durability, Error, Keyspace, Snapshot};
use velella::{WriteBatch, WriteOptions, simulation};
use velella_sync::thread;

/// Why a workload cannot go on.
#[derive(Debug)]
pub enum Trouble {
    /// The database said so.
    Refused(Error),
    /// The database answered what it may not.
    Wrong(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Refused(error)
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::Refused(error) => write!(f, "{:?}: {error}", error.kind()),
            Trouble::Wrong(what) => f.write_str(what),
        }
    }
}

/// A database in use.
#[derive(Debug)]
pub struct Store {
    db: Db,
    fs: Arc<dyn Vfs>,
    keyspaces: [Option<Keyspace>; 3],
    /// A snapshot, and what it must show for ever.
    snapshot: Option<(Snapshot, State)>,
}

impl Store {
    /// Opens the database on `fs`.
    ///
    /// # Errors
    /// As `Builder::open`.
    pub fn open(fs: Arc<dyn Vfs>, setting: &Setting) -> velella::Result<Store> {
        let db = setting.open(Arc::clone(&fs))?;
        let names = db.keyspaces();
        let mut keyspaces = [const { None }; 3];
        for (place, name) in keyspaces.iter_mut().zip(KEYSPACES) {
            if names.iter().any(|known| known == name) {
                *place = Some(db.keyspace(name)?);
            }
        }
        Ok(Store {
            db,
            fs,
            keyspaces,
            snapshot: None,
        })
    }

    /// The database.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The last stamp drawn.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.db.snapshot().stamp().0
    }

    /// Does `operation`, and records in `history` what it was told (S1).
    ///
    /// # Errors
    /// What the database said, or did wrong.
    pub fn perform(&mut self, operation: &Operation, history: &mut History) -> Result<(), Trouble> {
        let before = self.last();
        let changes = self.changes(operation, history);
        let done = self.attempt(operation, history);
        let last = self.last();
        match (&done, changes) {
            (Ok(Some(stamp)), changes) => history.write(*stamp, changes),
            (Err(Trouble::Refused(_)), changes) if last > before => history.doubt(last, changes),
            _ => {}
        }
        done.map(drop)
    }

    /// What `operation` changes if it is done now.
    fn changes(&self, operation: &Operation, history: &History) -> Vec<Change> {
        let exists = |number: &u8| self.keyspaces[usize::from(*number)].is_some();
        let to = |number: &u8, key: &Vec<u8>, value: Option<Vec<u8>>| Change {
            place: (*number, Some(key.clone())),
            value,
            expires_ms: None,
        };
        match operation {
            Operation::Put(number, key, value, lives, _) => vec![Change {
                expires_ms: lives.map(|lives| thread::wall_ms() + lives),
                ..to(number, key, Some(value.clone()))
            }],
            Operation::Delete(number, key, _) => vec![to(number, key, None)],
            Operation::BatchIfUnchanged(all, _) if !self.is_unchanged(all, history) => Vec::new(),
            Operation::Batch(all, _) | Operation::BatchIfUnchanged(all, _) => {
                let mut last = std::collections::BTreeMap::new();
                for (number, key, value, lives) in all.iter().filter(|part| exists(&part.0)) {
                    last.insert((number, key), (value.clone(), *lives));
                }
                let one = |((number, key), (value, lives)): (_, (Option<_>, Option<u64>))| Change {
                    expires_ms: lives
                        .filter(|_| value.is_some())
                        .map(|lives| thread::wall_ms() + lives),
                    ..to(number, key, value)
                };
                last.into_iter().map(one).collect()
            }
            Operation::Swap {
                keyspace,
                key,
                is_right: true,
                new,
            } => vec![to(keyspace, key, new.clone())],
            Operation::Extend(number, key, more, _) => {
                let place = (*number, Some(key.clone()));
                let old = history.newest(&place, thread::wall_ms());
                vec![to(
                    number,
                    key,
                    Some(extended(old.map(Vec::as_slice), more)),
                )]
            }
            Operation::Create(number, _) => vec![Change {
                place: (*number, None),
                value: Some(Vec::new()),
                expires_ms: None,
            }],
            Operation::Drop(number) => {
                let gone = |place| Change {
                    place,
                    value: None,
                    expires_ms: None,
                };
                history.places_of(*number).into_iter().map(gone).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The stamp of what was written, if something was.
    fn attempt(
        &mut self,
        operation: &Operation,
        history: &History,
    ) -> Result<Option<u64>, Trouble> {
        let at = |number: &u8| self.keyspaces[usize::from(*number)].clone();
        match operation {
            Operation::Put(number, key, value, lives, durability) => {
                let Some(keyspace) = at(number) else {
                    return Ok(None);
                };
                let options = with(*durability);
                let stamp = match lives {
                    None => keyspace.put_with(key, value, options)?,
                    Some(lives) => {
                        let until = thread::wall_ms() + lives;
                        keyspace.put_expiring(key, value, until, options)?
                    }
                };
                return Ok(Some(stamp.0));
            }
            Operation::Delete(number, key, durability) => {
                let Some(keyspace) = at(number) else {
                    return Ok(None);
                };
                return Ok(Some(keyspace.delete_with(key, with(*durability))?.0));
            }
            Operation::Batch(changes, durability) => return self.batch(changes, *durability),
            Operation::BatchIfUnchanged(changes, durability) => {
                return self.batch_if_unchanged(changes, *durability, history);
            }
            Operation::Swap {
                keyspace,
                key,
                is_right,
                new,
            } => {
                let place = (*keyspace, Some(key.clone()));
                return self.swap(&place, *is_right, new.as_deref(), history);
            }
            Operation::Extend(number, key, more, durability) => {
                let place = (*number, Some(key.clone()));
                return self.extend(&place, more, *durability, history);
            }
            Operation::Create(number, options) => return self.create(*number, options),
            Operation::Drop(number) => return self.remove(*number),
            Operation::Persist => drop(self.db.persist()?),
            Operation::Flush(None) => self.db.flush()?,
            Operation::Flush(Some(number)) => at(number).map_or(Ok(()), |one| one.flush())?,
            Operation::Compact(None) => self.db.compact()?,
            Operation::Compact(Some(number)) => at(number).map_or(Ok(()), |one| one.compact())?,
            Operation::Step(step) => simulation::step(&self.db, *step)?,
            Operation::Reopen(setting) => self.reopen(setting)?,
            Operation::Snapshot => {
                let state = self.state()?;
                self.snapshot = Some((self.db.snapshot(), state));
            }
            Operation::Read => self.compare(history)?,
            Operation::Pass(_) => {}
        }
        Ok(None)
    }

    /// The keyspace and the key of a place, if that keyspace exists.
    fn at<'p>(&self, place: &'p Place) -> Option<(Keyspace, &'p [u8])> {
        let keyspace = self.keyspaces[usize::from(place.0)].clone()?;
        Some((keyspace, place.1.as_deref()?))
    }

    fn swap(
        &self,
        place: &Place,
        is_right: bool,
        new: Option<&[u8]>,
        history: &History,
    ) -> Result<Option<u64>, Trouble> {
        let Some((keyspace, key)) = self.at(place) else {
            return Ok(None);
        };
        let there = history.newest(place, thread::wall_ms());
        let other = there.is_none().then(Vec::new);
        let expected = if is_right { there } else { other.as_ref() };
        if keyspace.compare_and_swap(key, expected.map(Vec::as_slice), new)? != is_right {
            let text = format!("a swap saw an old value of {}", show(place));
            return Err(Trouble::Wrong(text));
        }
        Ok(is_right.then(|| self.last()))
    }

    fn extend(
        &self,
        place: &Place,
        more: &[u8],
        durability: Durability,
        history: &History,
    ) -> Result<Option<u64>, Trouble> {
        let Some((keyspace, key)) = self.at(place) else {
            return Ok(None);
        };
        let outcome = keyspace.rmw_entry::<Error>(key, with(durability), |old| {
            let old = old.map(|old| &*old.value);
            Ok(Decision::put(extended(old, more)))
        })?;
        let newest = history.newest(place, thread::wall_ms());
        if outcome.old.as_ref().map(|old| &*old.value) != newest.map(Vec::as_slice) {
            let text = format!("rmw saw an old value of {}", show(place));
            return Err(Trouble::Wrong(text));
        }
        Ok(outcome.stamp.map(|stamp| stamp.0))
    }

    fn write_batch(&self, changes: &[Part]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        for (number, key, value, lives) in changes {
            let Some(keyspace) = &self.keyspaces[usize::from(*number)] else {
                continue;
            };
            match (value, lives) {
                (Some(value), None) => batch.put(keyspace, key, value),
                (Some(value), Some(lives)) => {
                    batch.put_expiring(keyspace, key, value, thread::wall_ms() + lives)
                }
                (None, _) => batch.delete(keyspace, key),
            };
        }
        batch
    }

    fn batch(&self, changes: &[Part], durability: Durability) -> Result<Option<u64>, Trouble> {
        let batch = self.write_batch(changes);
        if batch.is_empty() {
            return Ok(None);
        }
        Ok(Some(self.db.write_with(&batch, with(durability))?.0))
    }

    /// Since the snapshot held, or one taken now.
    fn batch_if_unchanged(
        &self,
        changes: &[Part],
        durability: Durability,
        history: &History,
    ) -> Result<Option<u64>, Trouble> {
        let batch = self.write_batch(changes);
        if batch.is_empty() {
            return Ok(None);
        }
        let now = self.db.snapshot();
        let since = self.snapshot.as_ref().map_or(&now, |(since, _)| since);
        let options = with(durability);
        let written = self.db.write_if_unchanged(&batch, since, options)?;
        if written.is_some() != self.is_unchanged(changes, history) {
            let text = format!(
                "written at {written:?} if unchanged since {}",
                since.stamp()
            );
            return Err(Trouble::Wrong(text));
        }
        Ok(written.map(|stamp| stamp.0))
    }

    /// Whether nothing was written to the keys of `changes` since the snapshot held.
    fn is_unchanged(&self, changes: &[Part], history: &History) -> bool {
        let since = self.snapshot.as_ref().map(|(since, _)| since.stamp().0);
        let changed = |(number, key, ..): &Part| {
            let exists = self.keyspaces[usize::from(*number)].is_some();
            let last = history.last_stamp(&(*number, Some(key.clone())));
            exists && since.is_some_and(|since| last > since)
        };
        !changes.iter().any(changed)
    }

    fn create(
        &mut self,
        number: u8,
        options: &velella::KeyspaceOptions,
    ) -> Result<Option<u64>, Trouble> {
        let place = &mut self.keyspaces[usize::from(number)];
        if place.is_some() {
            return Ok(None);
        }
        let name = KEYSPACES[usize::from(number)];
        *place = Some(self.db.create_keyspace(name, options.clone())?);
        Ok(Some(self.last()))
    }

    fn remove(&mut self, number: u8) -> Result<Option<u64>, Trouble> {
        if self.keyspaces[usize::from(number)].is_none() {
            return Ok(None);
        }
        self.snapshot = None;
        self.db.drop_keyspace(KEYSPACES[usize::from(number)])?;
        self.keyspaces[usize::from(number)] = None;
        Ok(Some(self.last()))
    }

    fn reopen(&mut self, setting: &Setting) -> Result<(), Trouble> {
        self.snapshot = None;
        self.db.close()?;
        *self = Store::open(Arc::clone(&self.fs), setting)?;
        Ok(())
    }

    /// What is there now is what was written, and what the snapshot showed it shows again.
    fn compare(&self, history: &History) -> Result<(), Trouble> {
        let state = self.state()?;
        history
            .explain(&state, thread::wall_ms(), self.last())
            .map_err(|what| Trouble::Wrong(format!("live read: {what}")))?;
        let Some((snapshot, state)) = &self.snapshot else {
            return Ok(());
        };
        for (place, value) in state {
            let (Some(keyspace), Some(key)) = (&self.keyspaces[usize::from(place.0)], &place.1)
            else {
                continue;
            };
            let found = snapshot.get(keyspace, key)?;
            if found.as_deref() != Some(value.as_slice()) {
                return Err(Trouble::Wrong(format!("a snapshot lost {}", show(place))));
            }
        }
        Ok(())
    }

    /// Everything that is there, by a scan; forwards, backwards and by get it must be the same.
    ///
    /// # Errors
    /// What reading met, or where two ways of reading differ.
    pub fn state(&self) -> Result<State, Trouble> {
        let mut state = State::new();
        for (number, keyspace) in (0u8..).zip(&self.keyspaces) {
            let Some(keyspace) = keyspace else { continue };
            if number > 0 {
                state.insert((number, None), Vec::new());
            }
            let mut forward = Vec::new();
            for pair in keyspace.iter()? {
                forward.push(pair?);
            }
            let mut count = forward.len();
            for pair in keyspace.iter()?.rev() {
                let (key, value) = pair?;
                count = count.wrapping_sub(1);
                let same = forward
                    .get(count)
                    .is_some_and(|(k, v)| *k == key && **v == *value);
                let place: Place = (number, Some(key.to_vec()));
                if !same || keyspace.get(&key)?.as_deref() != Some(&*value) {
                    return Err(differ(&place));
                }
                state.insert(place, value.to_vec());
            }
            if count != 0 {
                return Err(differ(&(number, None)));
            }
        }
        Ok(state)
    }

    /// As [`Store::state`], but where a value is lost (`is_lost`) by one get for each of `places`:
    /// what is there, and the places whose values are not.
    ///
    /// # Errors
    /// As [`Store::state`].
    pub fn state_but<'p>(
        &self,
        places: impl Iterator<Item = &'p Place>,
        is_lost: impl Fn(&Error) -> bool,
    ) -> Result<(State, BTreeSet<Place>), Trouble> {
        match self.state() {
            Err(Trouble::Refused(error)) if is_lost(&error) => {}
            whole => return whole.map(|state| (state, BTreeSet::new())),
        }
        let (mut state, mut lost) = (State::new(), BTreeSet::new());
        for place in places {
            let Some(keyspace) = &self.keyspaces[usize::from(place.0)] else {
                continue;
            };
            let found = match &place.1 {
                None => Ok(Some(Vec::new())),
                Some(key) => keyspace
                    .get(key)
                    .map(|value| value.map(|value| value.to_vec())),
            };
            match found {
                Ok(None) => {}
                Ok(Some(value)) => drop(state.insert(place.clone(), value)),
                Err(error) if is_lost(&error) => drop(lost.insert(place.clone())),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((state, lost))
    }

    /// Asks for those of `places` that are not in `state`: a get finds nothing either.
    ///
    /// # Errors
    /// What reading met, or a key that only a get finds.
    pub fn absent<'p>(
        &self,
        places: impl Iterator<Item = &'p Place>,
        state: &State,
    ) -> Result<(), Trouble> {
        for place in places.filter(|place| !state.contains_key(*place)) {
            let (Some(keyspace), Some(key)) = (&self.keyspaces[usize::from(place.0)], &place.1)
            else {
                continue;
            };
            if keyspace.get(key)?.is_some() {
                return Err(differ(place));
            }
        }
        Ok(())
    }
}

fn differ(place: &Place) -> Trouble {
    Trouble::Wrong(format!(
        "a scan, its reverse and a get differ at {}",
        show(place)
    ))
}

fn with(durability: Durability) -> WriteOptions {
    WriteOptions {
        durability: Some(durability),
    }
}

/// An old value, cut to 64 bytes, and more.
fn extended(old: Option<&[u8]>, more: &[u8]) -> Vec<u8> {
    let mut value = old.map_or_else(Vec::new, <[u8]>::to_vec);
    value.truncate(64);
    value.extend_from_slice(more);
    value
}
