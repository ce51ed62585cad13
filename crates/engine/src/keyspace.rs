//! A keyspace: reads and writes of single keys, and iterators; `keyspace_updates.rs` has what does
//! both at once.
//!
//! docs/consistency.md says what each promises. In short: `get` is per-key linearizable and waits
//! for no write, unless it finds its key expired, or absent while the tables changed; `get_strict`,
//! `multi_get`, snapshots and read-modify-writes see the one order of all writes.
//!
//! Threads: any. Tests: `tests/reads.rs`, `tests/writes.rs`.

use crate::change::Change;
use crate::core::Engine;
use crate::entry::{Entry, EntryInfo};
use crate::handle::Handle;
use crate::iterator::{Iter, IterOptions};
use crate::keyspace_core::Core;
use crate::options::{KeyspaceOptions, WriteOptions};
use crate::read::Reader;
use crate::snapshot::Snapshot;
use crate::value::Value;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::time::Duration;
use velella_base::{Result, Stamp};

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

    /// The clock by which keys expire: milliseconds since 1970. It never goes back, also where the
    /// machine's is set back. A value that should live n ms expires at `now_ms() + n`.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.engine().wall.now_ms()
    }

    /// The settings in force, none left open. Change them with `Db::open_keyspace`.
    #[must_use]
    pub fn settings(&self) -> KeyspaceOptions {
        let effective = self.core.effective();
        KeyspaceOptions {
            order: Some(self.core.order.clone()),
            memtable: Some(effective.memtable),
            compression: Some(effective.compression),
            bloom_bits: Some(effective.bloom_bits),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.handle.engine
    }

    /// Stores `value` under `key`; returns the write's stamp.
    ///
    /// Like every write, it may wait: for another write of the same key, for memtables to leave
    /// memory, for a flush, or for compactions that lag, which first slow writers down and then
    /// stop them ([`Stats::stalls`](crate::Stats::stalls) counts each cause). Such a wait ends with
    /// an error if the database is closed or becomes read-only, or if what it waits for lacks space
    /// or file descriptors.
    ///
    /// # Errors
    /// `InvalidInput`: key or value over its limit, or within the function of a
    /// [`Db::transact`](crate::Db::transact); `NotFound`: the keyspace was dropped, or is being
    /// dropped; `ReadOnly`; `NoSpace`; `Io`, also where file descriptors lack; `Closed`;
    /// `OutcomeUnknown`: the write may or may not survive.
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
    /// passed makes the key absent at once. [`Keyspace::now_ms`] tells the present.
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

    /// Stores `value` for `lifetime`, by the database's own clock ([`Keyspace::now_ms`]): as
    /// [`Keyspace::put_expiring`] at that time from now. A part of a millisecond counts as a whole
    /// one, so the value never expires early.
    ///
    /// ```
    /// # let dir = tempfile::tempdir()?;
    /// # let db = velella::open(dir.path())?;
    /// use std::time::Duration;
    ///
    /// db.put_for("session", "x", Duration::from_secs(60), Default::default())?;
    /// assert!(db.contains("session")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Keyspace::put`].
    pub fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        lifetime: Duration,
        options: WriteOptions,
    ) -> Result<Stamp> {
        let lifetime_ms = lifetime.as_nanos().div_ceil(1_000_000);
        let lifetime_ms = u64::try_from(lifetime_ms).unwrap_or(u64::MAX);
        let expires_at_ms = self.now_ms().saturating_add(lifetime_ms);
        self.put_expiring(key, value, expires_at_ms, options)
    }

    /// Makes `key` absent. It is a write also where the key is absent already, and may wait as
    /// [`Keyspace::put`] does.
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
    /// concurrent snapshot about the order of two concurrent writes.
    ///
    /// The other reads behave like this one, except [`Keyspace::get_strict`],
    /// [`Keyspace::multi_get`], iterators, [`Keyspace::first`], [`Keyspace::last`] and
    /// [`Keyspace::is_empty`], which see the one order of all writes.
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
    /// meanwhile is not freed before it returns. `lend` may read and write the database.
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

    /// The values of all `keys`, in one consistent view. All of them are in memory at once: for
    /// many large ones, take a snapshot and read them one by one.
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

    /// The first pair, in a view taken now, if there is one. Before it may lie keys that were
    /// deleted, and these are passed one by one.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter()?.first_pair()
    }

    /// The last pair, as [`Keyspace::first`].
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter()?.last_pair()
    }

    /// Whether there is no pair, in a view taken now: found out as [`Keyspace::first`] does, but no
    /// value is read.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn is_empty(&self) -> Result<bool> {
        let mut iter = self.iter_with(IterOptions {
            keys_only: true,
            ..IterOptions::default()
        })?;
        Ok(!iter.seek_first()?)
    }

    /// All pairs, ascending, in a view taken now. As long as the iterator lives, the versions that
    /// it sees are kept, in memory and on disk.
    ///
    /// # Errors
    /// As [`Keyspace::get`].
    pub fn iter(&self) -> Result<Iter> {
        self.iter_with(IterOptions::default())
    }

    /// The pairs within `bounds`, by the keyspace's order; none if the bounds are the wrong way
    /// round.
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

/// Upkeep of this keyspace alone.
impl Keyspace {
    /// Writes the keyspace's memtable to tables, as [`Db::flush`](crate::Db::flush) does for all.
    ///
    /// # Errors
    /// `NotFound`: the keyspace was dropped; `ReadOnly`, `NoSpace`, `Io`, `Closed`.
    pub fn flush(&self) -> Result<()> {
        self.core.check_writable()?;
        self.engine().flush_all(std::slice::from_ref(&self.core))
    }

    /// Flushes, then compacts the keyspace down to its last level, as
    /// [`Db::compact`](crate::Db::compact) does for all.
    ///
    /// # Errors
    /// As [`Keyspace::flush`]; `Corruption`: a table is damaged.
    pub fn compact(&self) -> Result<()> {
        self.core.check_writable()?;
        self.engine()
            .compact_fully(std::slice::from_ref(&self.core))
    }
}
