//! A skip list whose values are overwritten in place under a lock for each key.
//!
//! Source: RocksDB's in-place updates, which JellyFish (Middleware '20) calls RocksDB-IN: no
//! versions, so no snapshots; and a search for the key before each insertion.
//!
//! Threads: any. Tests: `tests/stores.rs`.

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit};
use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map::Entry;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

const NAME: &str = "inplace";

/// The baseline.
#[derive(Debug)]
pub struct InPlace;

impl Peer for InPlace {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "skip list with values overwritten in place under a lock: no versions"
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::None]
    }

    fn open(&self, _dir: &Path, _settings: &Settings) -> Outcome<Box<dyn Store>> {
        Ok(Box::new(List::default()))
    }
}

/// A key's value; none after a deletion.
type Place = Mutex<Option<Vec<u8>>>;

#[derive(Default)]
struct List {
    pairs: SkipMap<Vec<u8>, Place>,
}

fn locked(place: &Place) -> MutexGuard<'_, Option<Vec<u8>>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl List {
    /// Lets `change` change the value of `key`.
    fn change<R>(&self, key: &[u8], change: impl FnOnce(&mut Option<Vec<u8>>) -> R) -> R {
        let entry = match self.pairs.get(key) {
            Some(entry) => entry,
            None => self.pairs.get_or_insert_with(key.to_vec(), Mutex::default),
        };
        let result = change(&mut locked(entry.value()));
        drop(entry);
        result
    }
}

/// Overwrites the bytes where they are, if there are any.
fn overwrite(place: &mut Option<Vec<u8>>, value: &[u8]) {
    match place {
        Some(old) => {
            old.clear();
            old.extend_from_slice(value);
        }
        None => *place = Some(value.to_vec()),
    }
}

/// Shows the first `count` entries that have a value.
fn show<'a>(
    entries: impl Iterator<Item = Entry<'a, Vec<u8>, Place>>,
    count: usize,
    visit: Visit<'_>,
) -> usize {
    let mut seen = 0;
    for entry in entries {
        if seen == count {
            break;
        }
        if let Some(value) = &*locked(entry.value()) {
            visit(entry.key(), value);
            seen += 1;
        }
    }
    seen
}

impl Store for List {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.change(key, |place| overwrite(place, value));
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.change(key, |place| *place = None);
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let Some(entry) = self.pairs.get(key) else {
            return Ok(false);
        };
        let value = locked(entry.value());
        if let Some(value) = &*value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let bounds: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(from), Bound::Unbounded);
        Ok(show(self.pairs.range::<[u8], _>(bounds), count, visit))
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        Ok(show(self.pairs.iter().rev(), count, visit))
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        // Not as one: without versions there is no way to show several changes at once.
        for change in batch {
            match change.value {
                Some(value) => self.put(change.key, value)?,
                None => self.delete(change.key)?,
            }
        }
        Ok(())
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        Ok(self.change(key, |place| {
            let absent = place.is_none();
            if absent {
                *place = Some(value.to_vec());
            }
            absent
        }))
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        Err(Failure::Unfit {
            store: NAME.to_owned(),
            lacks: "views of the past".to_owned(),
        })
    }
}
