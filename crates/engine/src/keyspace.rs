//! A keyspace: reads and writes of single keys, and iterators.
//!
//! docs/consistency.md says what each promises. In short: `get` is per-key linearizable and never
//! waits; `get_strict`, `multi_get`, snapshots and read-modify-writes see the one order of all
//! writes.
//!
//! Tests: `tests/reads.rs`, `tests/writes.rs`, `tests/rmw.rs`.

use crate::change::Change;
use crate::core::Engine;
use crate::entry::{Decision, Entry, EntryInfo, Lent, RmwOutcome};
use crate::handle::Handle;
use crate::iterator::{Iter, IterOptions};
use crate::keyspace_core::Core;
use crate::options::{KeyspaceOptions, WriteOptions};
use crate::read::Reader;
use crate::snapshot::Snapshot;
use crate::value::Value;
use std::ops::RangeBounds;
use std::sync::Arc;
use velella_base::{Error, Result, Stamp};

/// So much of a key is shown in an error.
const KEY_BYTES_SHOWN: usize = 64;

/// A keyspace of an open database. Clones are cheap handles.
#[derive(Clone)]
pub struct Keyspace {
    pub(crate) handle: Arc<Handle>,
    pub(crate) core: Arc<Core>,
}

impl std::fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyspace({})", self.core.name)
    }
}

/// Writes.
impl Keyspace {
    /// The keyspace's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The settings in force, none left open. Change them with `Db::open_keyspace`.
    #[must_use]
    pub fn settings(&self) -> KeyspaceOptions {
        let effective = self.core.effective();
        KeyspaceOptions {
            order: self.core.order.clone(),
            memtable: Some(effective.memtable),
            compression: Some(effective.compression),
            bloom_bits: Some(effective.bloom_bits),
        }
    }

    fn engine(&self) -> &Engine {
        &self.handle.engine
    }

    /// Stores `value` under `key`; returns the write's stamp.
    ///
    /// # Errors
    /// `InvalidInput`: key or value over its limit; `NotFound`: the keyspace was dropped, or is
    /// being dropped; `ReadOnly`, `NoSpace`, `Io`, `Closed`; `OutcomeUnknown`: the write may or may
    /// not survive.
    #[inline]
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Stamp> {
        self.put_with(key, value, WriteOptions::default())
    }

    /// As [`Keyspace::put`], with options.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<Stamp> {
        self.core.check_writable()?;
        let change = Change::put(self.engine(), key.as_ref(), value.as_ref(), None)?;
        self.engine().write_one(&self.core, &change, options)
    }

    /// Stores `value` until `expires_at_ms` (milliseconds since 1970); from then on the key is
    /// absent, for every reader at once. This is an instant, not a time to live: one that has
    /// passed makes the key absent at once. [`Db::now_ms`](crate::Db::now_ms) tells the present.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = velella::open(dir.path())?;
    /// let in_a_minute = db.now_ms() + 60_000;
    /// db.put_expiring("session", "x", in_a_minute, Default::default())?;
    /// assert!(db.contains("session")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`]; `InvalidInput`: an expiry of 0.
    pub fn put_expiring(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_ms: u64,
        options: WriteOptions,
    ) -> Result<Stamp> {
        self.core.check_writable()?;
        let expiry = Some(expires_at_ms);
        let change = Change::put(self.engine(), key.as_ref(), value.as_ref(), expiry)?;
        self.engine().write_one(&self.core, &change, options)
    }

    /// Makes `key` absent.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    #[inline]
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<Stamp> {
        self.delete_with(key, WriteOptions::default())
    }

    /// As [`Keyspace::delete`], with options.
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<Stamp> {
        self.core.check_writable()?;
        let change = Change::delete(key.as_ref())?;
        self.engine().write_one(&self.core, &change, options)
    }
}

/// Reads.
impl Keyspace {
    /// The value of `key`. In memory and cached blocks it takes no lock and waits for nobody; a
    /// block that has to be read is entered in the cache under a short lock, and a key found
    /// expired, or absent while the tables changed, is looked up again as
    /// [`Keyspace::get_strict`] does. It is current for its key; two gets may disagree with a
    /// concurrent snapshot about the order of two concurrent writes. All reads here are so, but
    /// for that one, `multi_get` and iterators.
    ///
    /// # Errors
    /// `Corruption`, `Io`: a table could not be read; `NotFound`: the keyspace was dropped;
    /// `Closed`.
    #[inline]
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.engine().read(&self.core, key.as_ref(), Reader::NEWEST)
    }

    /// As [`Keyspace::get`], in the one order of all writes: it waits for the few instructions in
    /// which a write to the same key is being published.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_strict(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.engine().read(&self.core, key.as_ref(), Reader::STRICT)
    }

    /// The value of `key` with its expiry and stamp.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn get_entry(&self, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        self.engine()
            .read_entry(&self.core, key.as_ref(), Reader::NEWEST)
    }

    /// Lends the value to `lend`, without a copy. Be quick in there: memory that others replace
    /// meanwhile is not freed before it returns.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[inline]
    pub fn get_with<R>(
        &self,
        key: impl AsRef<[u8]>,
        lend: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.engine()
            .read_with(&self.core, key.as_ref(), Reader::NEWEST, lend)
    }

    /// Copies the value into `out`, whose old content goes; says whether there was a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    #[inline]
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        out.clear();
        Ok(self
            .get_with(key, |value| out.extend_from_slice(value))?
            .is_some())
    }

    /// Length, expiry and stamp of the value of `key`, which is not read: that of a large one lies
    /// in a file of its own.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn entry_info(&self, key: impl AsRef<[u8]>) -> Result<Option<EntryInfo>> {
        self.engine()
            .read_info(&self.core, key.as_ref(), Reader::NEWEST)
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.engine()
            .is_live(&self.core, key.as_ref(), Reader::NEWEST)
    }

    /// The values of all `keys`, in one consistent view.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Value>>> {
        self.engine().check_open()?;
        let snapshot = Snapshot::take(&self.handle);
        let one = |key: &K| {
            self.engine()
                .read(&self.core, key.as_ref(), snapshot.reader())
        };
        keys.iter().map(one).collect()
    }

    /// All pairs, ascending, in a view taken now.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn iter(&self) -> Result<Iter> {
        self.iter_with(IterOptions::default())
    }

    /// The pairs within `bounds`.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn range<K: AsRef<[u8]>>(&self, bounds: impl RangeBounds<K>) -> Result<Iter> {
        self.iter_with(IterOptions::within(&bounds))
    }

    /// The pairs whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Keyspace::get`]; `InvalidInput`: the keyspace has an order of its own.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        let prefix = prefix.as_ref().to_vec();
        self.iter_with(IterOptions {
            prefix,
            ..IterOptions::default()
        })
    }

    /// The pairs that `options` ask for.
    ///
    /// # Errors
    /// As [`Keyspace::prefix`]; `InvalidInput`: the snapshot is of another opening or database.
    pub fn iter_with(&self, options: IterOptions) -> Result<Iter> {
        Iter::open(&self.handle, &self.core, options)
    }
}

/// Read-modify-writes: each reads, decides and writes as one step, without a lock.
impl Keyspace {
    /// Lets `decide` see the value of `key` and writes what it decides. `decide` may run several
    /// times, so it must not act on the outside; nor write this key, which would have it run again
    /// without end.
    ///
    /// # Errors
    /// As [`Keyspace::put`] and [`Keyspace::get`].
    pub fn rmw<'v>(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<&[u8]>) -> Decision<'v>,
    ) -> Result<RmwOutcome<'v>> {
        self.rmw_entry(key, WriteOptions::default(), |old| {
            Ok(decide(old.map(|entry| &*entry.value)))
        })
    }

    /// As [`Keyspace::rmw`], for who needs nothing but the write: the value is lent where it lies
    /// instead of being copied, and it is not returned. The stamp of the write; `None` if it kept
    /// the key as it was. `decide` runs again where the key is written meanwhile, or its value
    /// expires.
    ///
    /// While it runs, what the whole database frees is not given back: a decision that takes long
    /// is for [`Keyspace::rmw`].
    ///
    /// ```
    /// # use velella::{Db, Decision};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::builder().open(dir.path())?;
    /// db.put("log", "a")?;
    /// let appended = db.update("log", |old| {
    ///     Decision::put([old.unwrap_or_default(), b"b"].concat())
    /// })?;
    /// assert!(appended.is_some());
    /// assert_eq!(db.get("log")?.unwrap(), "ab");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    pub fn update<'v>(
        &self,
        key: impl AsRef<[u8]>,
        mut decide: impl FnMut(Option<&[u8]>) -> Decision<'v>,
    ) -> Result<Option<Stamp>> {
        self.update_entry(key, WriteOptions::default(), |old| {
            Ok(decide(old.map(|lent| lent.value)))
        })
    }

    /// As [`Keyspace::update`], with expiry and stamp of the value, and with write options. An
    /// error of `decide` ends it, and nothing is written.
    ///
    /// # Errors
    /// As [`Keyspace::update`], or what `decide` returned.
    pub fn update_entry<'v, E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        mut decide: impl FnMut(Option<Lent<'_>>) -> Result<Decision<'v>, E>,
    ) -> Result<Option<Stamp>, E> {
        self.engine()
            .update(&self.core, key.as_ref(), options, &mut decide)
    }

    /// As [`Keyspace::update_entry`], but `decide` is told of the value without its being read: of
    /// a large one that would be another file, which may be damaged.
    ///
    /// ```
    /// # use velella::{Db, Decision, Error, WriteOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Db::builder().open(dir.path())?;
    /// db.put("k", "v")?;
    /// let deleted = db.update_unread("k", WriteOptions::default(), |old| {
    ///     Ok::<_, Error>(match old {
    ///         Some(old) if old.value_bytes < 100 => Decision::Delete,
    ///         _ => Decision::Keep,
    ///     })
    /// })?;
    /// assert!(deleted.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::update_entry`].
    pub fn update_unread<'v, E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        mut decide: impl FnMut(Option<EntryInfo>) -> Result<Decision<'v>, E>,
    ) -> Result<Option<Stamp>, E> {
        self.engine()
            .update_unread(&self.core, key.as_ref(), options, &mut decide)
    }

    /// As [`Keyspace::rmw`], with the old entry's expiry and stamp, and with write options. An
    /// error of `decide` ends it, and nothing is written.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`], or what `decide` returned.
    pub fn rmw_entry<'v, E: From<Error>>(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        mut decide: impl FnMut(Option<&Entry>) -> Result<Decision<'v>, E>,
    ) -> Result<RmwOutcome<'v>, E> {
        self.engine()
            .rmw(&self.core, key.as_ref(), options, &mut decide)
    }

    /// Writes `new` (`None`: deletes), without expiry, if the value is `expected` (`None`: absent);
    /// says whether.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    pub fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let mut swapped = false;
        self.update(key, |old| {
            swapped = old == expected;
            match new {
                _ if !swapped => Decision::Keep,
                Some(new) => Decision::put(new),
                None => Decision::Delete,
            }
        })?;
        Ok(swapped)
    }

    /// Writes `value` if `key` is absent; says whether it did.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`].
    pub fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        let value = value.as_ref();
        let stamp = self.update_unread(key, WriteOptions::default(), |old| {
            Ok::<_, Error>(match old {
                Some(_) => Decision::Keep,
                None => Decision::put(value),
            })
        })?;
        Ok(stamp.is_some())
    }

    /// Adds `delta` to the decimal integer stored under `key` (absent: 0), keeping its expiry;
    /// returns the sum.
    ///
    /// # Errors
    /// As [`Keyspace::rmw`]; `InvalidInput`: the value is no 64-bit integer, or the sum is none.
    pub fn increment(&self, key: impl AsRef<[u8]>, delta: i64) -> Result<i64> {
        let (mut sum, key) = (0, key.as_ref());
        self.update_entry(key, WriteOptions::default(), |old| {
            let refuse = |found| self.not_addable(key, delta, found);
            let before = match old {
                Some(entry) => {
                    integer(entry.value).ok_or_else(|| refuse("it holds something else"))?
                }
                None => 0,
            };
            let found = "the sum has more than 64 bits";
            sum = before.checked_add(delta).ok_or_else(|| refuse(found))?;
            let text = sum.to_string().into_bytes();
            Ok::<_, Error>(match old.and_then(|entry| entry.expires_at_ms) {
                Some(expiry) => Decision::put_expiring(text, expiry),
                None => Decision::put(text),
            })
        })?;
        Ok(sum)
    }

    #[cold]
    fn not_addable(&self, key: &[u8], delta: i64, found: &str) -> Error {
        let shown = key[..key.len().min(KEY_BYTES_SHOWN)].escape_ascii();
        let dots = if key.len() > KEY_BYTES_SHOWN {
            "..."
        } else {
            ""
        };
        let attempt = format!(
            "add {delta} to the 64-bit integer \"{shown}\"{dots} of keyspace `{}`",
            self.core.name
        );
        Error::invalid(attempt, found)
    }
}

/// Upkeep of this keyspace alone.
impl Keyspace {
    /// Writes the keyspace's memtable to tables.
    ///
    /// # Errors
    /// `NotFound`: the keyspace was dropped; `ReadOnly`, `NoSpace`, `Io`, `Closed`.
    pub fn flush(&self) -> Result<()> {
        self.core.check_writable()?;
        self.engine().flush_all(std::slice::from_ref(&self.core))
    }

    /// Flushes, then compacts the keyspace down to its last level.
    ///
    /// # Errors
    /// As [`Keyspace::flush`]; `Corruption`: a table is damaged.
    pub fn compact(&self) -> Result<()> {
        self.core.check_writable()?;
        self.engine()
            .compact_fully(std::slice::from_ref(&self.core))
    }
}

fn integer(value: &[u8]) -> Option<i64> {
    std::str::from_utf8(value).ok()?.parse().ok()
}
