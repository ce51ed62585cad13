//! Reading a keyspace at a snapshot.
//!
//! Threads: any. Tests: `tests/snapshots.rs`.

use crate::entry::Entry;
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

    /// All pairs of a keyspace in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn iter(&self, keyspace: &Keyspace) -> Result<Iter> {
        keyspace.iter_with(IterOptions {
            snapshot: Some(self.clone()),
            ..IterOptions::default()
        })
    }

    /// The pairs of a keyspace whose keys begin with `prefix`, in this view.
    ///
    /// # Errors
    /// As [`Snapshot::get`]; `InvalidInput`: the keyspace has an order of its own.
    pub fn prefix(&self, keyspace: &Keyspace, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        keyspace.iter_with(IterOptions {
            snapshot: Some(self.clone()),
            prefix: prefix.as_ref().to_vec(),
            ..IterOptions::default()
        })
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
        let options = IterOptions {
            snapshot: Some(self.clone()),
            ..IterOptions::within(&bounds)
        };
        keyspace.iter_with(options)
    }
}
