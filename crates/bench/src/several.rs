//! A store for each client, with a range of the keys each: what Xyza calls several instances; and
//! a store for each table: what cLSM calls partitions.
//!
//! Source: Xyza (HotStorage '18), figure 1, where one instance does not scale and several do; cLSM
//! (EuroSys '15), figure 1, where one store for all threads is faster than four with a quarter of
//! them each. They share the memory: each gets its part of cache and memtables.
//!
//! I1. Keys whose numbers are in the `n`th range, or that are of the `n`th table, are in the `n`th
//!     store and no other, so that a scan through one after the other is in order.
//!
//! Threads: any. Tests: `drive/tests.rs`.

use crate::failure::{Failure, Outcome};
use crate::keys::{KeyShape, table};
use crate::spec::Spec;
use crate::store::{Change, Peer, Settings, Store, View, Visit};
use std::collections::BTreeMap;
use std::path::Path;

/// Least memory of one: Velella refuses less.
const MEMORY_BYTES_MIN: u64 = 16 << 20;
const WRITE_BUFFER_BYTES_MIN: u64 = 1 << 20;

struct Several {
    name: &'static str,
    stores: Vec<Box<dyn Store>>,
    /// Keys of each; none where each has a table.
    range: Option<u64>,
}

/// Opens a store of `peer` below `dir` for each of `clients`, or for each table.
///
/// # Errors
/// What the store said; `Unfit` where keys do not begin with their numbers.
pub(crate) fn open(
    peer: &dyn Peer,
    dir: &Path,
    spec: &Spec,
    clients: u64,
) -> Outcome<Box<dyn Store>> {
    let (count, range) = match spec.keys {
        KeyShape::Tables40 => (spec.keys.tables(), None),
        KeyShape::DbBench | KeyShape::Ordered8 => (clients, Some((spec.records / clients).max(1))),
        _ => return Err(unfit(peer.name(), "ranges of keys of that shape")),
    };
    let share = |bytes: u64, least: u64| (bytes / count).max(least);
    let settings = Settings {
        memory: share(spec.settings.memory, MEMORY_BYTES_MIN),
        write_buffer: share(spec.settings.write_buffer, WRITE_BUFFER_BYTES_MIN),
        ..spec.settings.clone()
    };
    let open = |nth: u64| {
        let dir = dir.join(nth.to_string());
        std::fs::create_dir_all(&dir).map_err(|error| Failure::file("create", &dir, error))?;
        peer.open(&dir, &settings)
    };
    Ok(Box::new(Several {
        name: peer.name(),
        stores: (0..count).map(open).collect::<Outcome<_>>()?,
        range,
    }))
}

fn unfit(store: &str, lacks: &str) -> Failure {
    Failure::Unfit {
        store: store.to_owned(),
        lacks: lacks.to_owned(),
    }
}

impl Several {
    fn place(&self, key: &[u8]) -> usize {
        let number = || {
            key.first_chunk()
                .map_or(0, |head| u64::from_be_bytes(*head))
        };
        let place = match self.range {
            Some(range) => number() / range,
            None => table(key),
        };
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        place.min(self.stores.len() - 1)
    }

    fn of(&self, key: &[u8]) -> &dyn Store {
        self.stores[self.place(key)].as_ref()
    }
}

/// Lets `read` read from one store after the other, until there were `count` pairs.
fn through<'a>(
    stores: impl Iterator<Item = &'a Box<dyn Store>>,
    count: usize,
    mut read: impl FnMut(&dyn Store, usize) -> Outcome<usize>,
) -> Outcome<usize> {
    let mut seen = 0;
    for store in stores {
        if seen == count {
            break;
        }
        seen += read(store.as_ref(), count - seen)?;
    }
    Ok(seen)
}

impl Store for Several {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.of(key).put(key, value)
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.of(key).delete(key)
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        self.of(key).get(key, see)
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let stores = self.stores[self.place(from)..].iter();
        through(stores, count, |store, count| store.scan(from, count, visit))
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let stores = self.stores.iter().rev();
        through(stores, count, |store, count| store.scan_back(count, visit))
    }

    fn write(&self, _batch: &[Change<'_>]) -> Outcome<()> {
        Err(unfit(self.name, "batches across instances"))
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        self.of(key).put_if_absent(key, value)
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        Err(unfit(self.name, "views across instances"))
    }

    fn settle(&self) -> Outcome<()> {
        self.stores.iter().try_for_each(|store| store.settle())
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (name, count) in self.stores.iter().flat_map(|store| store.counters()) {
            *all.entry(name).or_default() += count;
        }
        all
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        self.stores.into_iter().try_for_each(|store| store.close())
    }
}
