//! A list of writes, to be applied together.
//!
//! Plain data; `batch.rs` applies it. Threads: one fills it. Tests: `tests/batches.rs`.

use crate::batch::Operation;
use crate::keyspace::Keyspace;
use std::sync::Arc;

/// Writes to be applied as one by [`Db::write`](crate::Db::write), over any keyspaces of one
/// database. Of several writes to a key the last counts.
#[derive(Debug, Clone, Default)]
pub struct WriteBatch {
    pub(crate) operations: Vec<Operation>,
}

impl WriteBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put.
    pub fn put(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.push(keyspace, key.as_ref(), Some(value.as_ref()), None)
    }

    /// Adds a put whose key is absent from `expires_at_ms` (milliseconds since 1970) on; the batch
    /// is refused if that is 0.
    pub fn put_expiring(
        &mut self,
        keyspace: &Keyspace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires_at_ms: u64,
    ) -> &mut Self {
        self.push(
            keyspace,
            key.as_ref(),
            Some(value.as_ref()),
            Some(expires_at_ms),
        )
    }

    /// Adds a delete.
    pub fn delete(&mut self, keyspace: &Keyspace, key: impl AsRef<[u8]>) -> &mut Self {
        self.push(keyspace, key.as_ref(), None, None)
    }

    fn push(
        &mut self,
        keyspace: &Keyspace,
        key: &[u8],
        value: Option<&[u8]>,
        expires_at_ms: Option<u64>,
    ) -> &mut Self {
        self.operations.push(Operation {
            core: Arc::clone(&keyspace.core),
            key: key.to_vec(),
            value: value.map(<[u8]>::to_vec),
            expires_at_ms,
        });
        self
    }

    /// How many writes it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.operations.clear();
    }
}
