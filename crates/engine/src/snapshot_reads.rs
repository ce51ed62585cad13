//! Reading a keyspace at a snapshot.
//!
//! Threads: any. Tests: `tests/snapshots.rs`.

use crate::entry::{Entry, EntryInfo};
use crate::iterator::{Iter, IterOptions};
use crate::keyspace::Keyspace;
use crate::snapshot::Snapshot;
use crate::value::Value;
use std::ops::RangeBounds;
use velella_base::Result;

impl Snapshot {
    /// The value of `key` in this view.
    ///
    /// # Errors
    /// `Corruption`, `Io`, `Closed`; `NotFound`: the keyspace was dropped; `InvalidInput`: it is of
    /// another database.
    pub fn get(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        self.check_origin(&keyspace.handle)?;
        keyspace
            .handle
            .engine
            .read(&keyspace.core, key.as_ref(), self.reader())
    }

    /// As [`Snapshot::get`], with expiry and stamp.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_entry(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<Option<Entry>> {
        self.check_origin(&keyspace.handle)?;
        keyspace
            .handle
            .engine
            .read_entry(&keyspace.core, key.as_ref(), self.reader())
    }

    /// As [`Keyspace::get_with`], in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_with<R>(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        lend: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        self.check_origin(&keyspace.handle)?;
        keyspace
            .handle
            .engine
            .read_with(&keyspace.core, key.as_ref(), self.reader(), lend)
    }

    /// As [`Keyspace::get_into`], in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get_into(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        out.clear();
        let found = self.get_with(keyspace, key, |value| out.extend_from_slice(value))?;
        Ok(found.is_some())
    }

    /// As [`Keyspace::entry_info`], in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn entry_info(
        &self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<EntryInfo>> {
        self.check_origin(&keyspace.handle)?;
        keyspace
            .handle
            .engine
            .read_info(&keyspace.core, key.as_ref(), self.reader())
    }

    /// Whether `key` has a value in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains(&self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.check_origin(&keyspace.handle)?;
        keyspace
            .handle
            .engine
            .is_live(&keyspace.core, key.as_ref(), self.reader())
    }

    /// The values of all `keys` in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Value>>> {
        self.check_origin(&keyspace.handle)?;
        keyspace.handle.engine.check_open()?;
        keys.iter().map(|key| self.get(keyspace, key)).collect()
    }

    /// The first pair of a keyspace in this view, if there is one, as [`Keyspace::first`].
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn first(&self, keyspace: &Keyspace) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter(keyspace)?.first_pair()
    }

    /// The last pair of a keyspace in this view, if there is one.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn last(&self, keyspace: &Keyspace) -> Result<Option<(Vec<u8>, Value)>> {
        self.iter(keyspace)?.last_pair()
    }

    /// Whether a keyspace has no pair in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn is_empty(&self, keyspace: &Keyspace) -> Result<bool> {
        let keys_only = IterOptions {
            keys_only: true,
            ..IterOptions::default()
        };
        Ok(!self.iter_with(keyspace, keys_only)?.seek_first()?)
    }

    /// All pairs of a keyspace in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn iter(&self, keyspace: &Keyspace) -> Result<Iter> {
        self.iter_with(keyspace, IterOptions::default())
    }

    /// The pairs of a keyspace whose keys begin with `prefix`, in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`]; `InvalidInput`: the keyspace has an order of its own.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        let prefix = prefix.as_ref().to_vec();
        let options = IterOptions {
            prefix,
            ..IterOptions::default()
        };
        self.iter_with(keyspace, options)
    }

    /// The pairs of a keyspace within `bounds` in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn range<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        bounds: impl RangeBounds<K>,
    ) -> Result<Iter> {
        self.iter_with(keyspace, IterOptions::within(&bounds))
    }

    /// The pairs of a keyspace that `options` ask for, in this view: it takes the place of the one
    /// in `options`.
    ///
    /// # Errors
    /// As [`Snapshot::prefix`].
    pub fn iter_with(&self, keyspace: &Keyspace, mut options: IterOptions) -> Result<Iter> {
        options.snapshot = Some(self.clone());
        keyspace.iter_with(options)
    }
}
