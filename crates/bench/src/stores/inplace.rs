//! A skip list with one writer at a time, which overwrites values in place.
//!
//! Source: RocksDB's in-place updates, which JellyFish (Middleware '20) calls RocksDB-IN. Nodes
//! have an array of links; a writer has the list for itself, and a value's bytes are written over
//! those of the old one if they fit, so that there are no versions, hence no snapshots; who reads a
//! value locks it. A key is searched for before it is inserted, which searches again. A value that
//! does not fit gets memory of its own, where RocksDB inserts the key again.
//!
//! The list is `crossbeam-skiplist`'s, which inserts by CAS, though nobody contends: so CAS are not
//! counted here. Comparisons are, in the order of the keys.
//!
//! I1. One thread writes at a time; reads wait for it only while it copies the value they want.
//!
//! Threads: any. Tests: below; `tests/stores.rs`.

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit};
use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map::Entry;
use std::borrow::Borrow;
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use velella_sync::counter::Counter;

const NAME: &str = "inplace";

/// The baseline.
#[derive(Debug)]
pub struct InPlace;

impl Peer for InPlace {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "skip list with one writer at a time, values overwritten in place: no versions"
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::None]
    }

    fn open(&self, _dir: &Path, _settings: &Settings) -> Outcome<Box<dyn Store>> {
        Ok(Box::new(List::default()))
    }
}

thread_local! {
    /// Keys this thread compared since it last told a list: an order has no list to tell.
    static COMPARED: Cell<u64> = const { Cell::new(0) };
}

/// A key's bytes, whose comparisons are counted: of a stored key as of one that is looked for.
trait Bytes {
    fn bytes(&self) -> &[u8];
}

impl Bytes for &[u8] {
    fn bytes(&self) -> &[u8] {
        self
    }
}

impl Ord for dyn Bytes + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        COMPARED.set(COMPARED.get() + 1);
        self.bytes().cmp(other.bytes())
    }
}

impl PartialOrd for dyn Bytes + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Bytes + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Bytes + '_ {}

/// A stored key.
struct Key(Box<[u8]>);

impl Bytes for Key {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl<'a> Borrow<dyn Bytes + 'a> for Key {
    fn borrow(&self) -> &(dyn Bytes + 'a) {
        self
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, other): (&dyn Bytes, &dyn Bytes) = (self, other);
        one.cmp(other)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Key {}

/// A key's value; none after a deletion.
type Place = Mutex<Option<Vec<u8>>>;

#[derive(Default)]
struct List {
    pairs: SkipMap<Key, Place>,
    /// Held by whoever writes (I1).
    writer: Mutex<()>,
    comparisons: Counter,
}

fn locked(place: &Place) -> MutexGuard<'_, Option<Vec<u8>>> {
    place.lock().unwrap_or_else(PoisonError::into_inner)
}

impl List {
    /// Does `work`, and counts what was compared for it.
    fn counted<R>(&self, work: impl FnOnce() -> R) -> R {
        let result = work();
        self.comparisons.add(COMPARED.take());
        result
    }

    /// Lets `write` write (I1).
    fn as_writer<R>(&self, write: impl FnOnce() -> R) -> R {
        let held = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let result = self.counted(write);
        drop(held);
        result
    }

    /// Lets `change` change the value of `key`, by the writer.
    fn change<R>(&self, key: &[u8], change: impl FnOnce(&mut Option<Vec<u8>>) -> R) -> R {
        let entry = match self.pairs.get::<dyn Bytes>(&key) {
            Some(entry) => entry,
            None => {
                let key = Key(key.into());
                self.pairs.get_or_insert_with(key, Mutex::default)
            }
        };
        let result = change(&mut locked(entry.value()));
        drop(entry);
        result
    }

    fn set(&self, key: &[u8], value: Option<&[u8]>) {
        self.change(key, |place| match value {
            Some(value) => overwrite(place, value),
            None => *place = None,
        });
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
    entries: impl Iterator<Item = Entry<'a, Key, Place>>,
    count: usize,
    visit: Visit<'_>,
) -> usize {
    let mut seen = 0;
    for entry in entries {
        if seen == count {
            break;
        }
        if let Some(value) = &*locked(entry.value()) {
            visit(entry.key().bytes(), value);
            seen += 1;
        }
    }
    seen
}

impl Store for List {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.as_writer(|| self.set(key, Some(value)));
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.as_writer(|| self.set(key, None));
        Ok(())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        self.counted(|| {
            let Some(entry) = self.pairs.get::<dyn Bytes>(&key) else {
                return Ok(false);
            };
            let value = locked(entry.value());
            if let Some(value) = &*value {
                see(value);
            }
            Ok(value.is_some())
        })
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let from: &dyn Bytes = &from;
        let bounds = (Bound::Included(from), Bound::Unbounded);
        self.counted(|| {
            let entries = self.pairs.range::<dyn Bytes, _>(bounds);
            Ok(show(entries, count, visit))
        })
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        self.counted(|| Ok(show(self.pairs.iter().rev(), count, visit)))
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        // Not as one: without versions there is no way to show several changes at once.
        self.as_writer(|| {
            for change in batch {
                self.set(change.key, change.value);
            }
        });
        Ok(())
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        Ok(self.as_writer(|| {
            self.change(key, |place| {
                let absent = place.is_none();
                if absent {
                    *place = Some(value.to_vec());
                }
                absent
            })
        }))
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        Err(Failure::Unfit {
            store: NAME.to_owned(),
            lacks: "views of the past".to_owned(),
        })
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let comparisons = self.comparisons.sum();
        BTreeMap::from([("memtable_comparisons".to_owned(), comparisons)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn one_thread_writes_at_a_time_and_others_read() {
        let list = List::default();
        list.put(b"a", b"1").unwrap();
        list.put(b"b", b"1").unwrap();
        let (told, tell) = (channel(), channel());
        std::thread::scope(|scope| {
            list.as_writer(|| {
                scope.spawn(|| told.0.send(list.get(b"b", &mut |_| ()).unwrap()));
                scope.spawn(|| tell.0.send(list.put(b"b", b"2").is_ok()));
                let wait = Duration::from_millis(200);
                assert_eq!(told.1.recv_timeout(wait), Ok(true), "a reader waited");
                assert!(tell.1.recv_timeout(wait).is_err(), "two wrote at once");
            });
            assert_eq!(tell.1.recv(), Ok(true));
        });
    }

    #[test]
    fn a_value_that_fits_is_written_over_the_old_one() {
        let mut place = Some(b"12345".to_vec());
        let at = |place: &Option<Vec<u8>>| place.as_ref().map(|value| value.as_ptr());
        let first = at(&place);
        overwrite(&mut place, b"abc");
        assert_eq!((place.as_deref(), at(&place)), (Some(&b"abc"[..]), first));
        overwrite(&mut place, &[7; 100]);
        assert_eq!(place.as_deref(), Some(&[7; 100][..]));
    }

    #[test]
    fn comparisons_are_counted_and_a_new_key_is_searched_for_twice() {
        let list = List::default();
        let compared = || list.counters()["memtable_comparisons"];
        for n in 0..1000_u64 {
            list.put(&(n * 2).to_be_bytes(), b"value").unwrap();
        }
        let mut last = compared();
        let mut since = || {
            let now = compared();
            now - std::mem::replace(&mut last, now)
        };
        assert!(list.get(&1000_u64.to_be_bytes(), &mut |_| ()).unwrap());
        let get = since();
        list.put(&1000_u64.to_be_bytes(), b"again").unwrap();
        let overwritten = since();
        list.put(&1001_u64.to_be_bytes(), b"new").unwrap();
        let inserted = since();
        assert!((5..60).contains(&get), "{get}");
        assert_eq!(overwritten, get);
        assert!(inserted > get + get / 2, "{inserted} {get}");
    }
}
