//! A list of writes, to be applied together.
//!
//! Plain data; `batch.rs` applies it. Threads: one fills it. Tests: `tests/batches.rs`.

use crate::batch::Operation;
use crate::keyspace::Keyspace;
use std::sync::Arc;
use velella_base::external::EXTERNAL_REF_BYTES;
use velella_base::limits::INLINE_VALUE_BYTES_MAX;

/// Bytes of an expiry in front of a value.
const EXPIRY_BYTES: usize = 8;

/// Writes to be applied as one by [`Db::write`](crate::Db::write), over any keyspaces of one
/// database. Of several writes to a key the last counts. [`WriteBatch::len`] and
/// [`WriteBatch::bytes`] name its limits, which are checked when it is written, as those of keys
/// and values are. Keys and values are copied into it.
#[derive(Debug, Clone, Default)]
#[must_use = "nothing of it is written before `Db::write`"]
pub struct WriteBatch {
    pub(crate) operations: Vec<Operation>,
    bytes: usize,
}

impl WriteBatch {
    /// An empty batch.
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
        let payload = value.map_or(0, |value| match value.len() {
            long if long > INLINE_VALUE_BYTES_MAX => EXTERNAL_REF_BYTES,
            len => len + expires_at_ms.map_or(0, |_| EXPIRY_BYTES),
        });
        self.bytes += key.len() + payload;
        self.operations.push(Operation {
            core: Arc::clone(&keyspace.core),
            key: key.to_vec(),
            value: value.map(<[u8]>::to_vec),
            expires_at_ms,
        });
        self
    }

    /// How many writes it holds; at most
    /// [`BATCH_OPERATIONS_MAX`](crate::limits::BATCH_OPERATIONS_MAX) can be written together.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Bytes of it that count against [`BATCH_BYTES_MAX`](crate::limits::BATCH_BYTES_MAX): keys,
    /// values, eight for an expiry, and of a value that goes to a file of its own (over
    /// [`INLINE_VALUE_BYTES_MAX`](crate::limits::INLINE_VALUE_BYTES_MAX)) the reference alone. Of
    /// several writes to a key all count here, and for [`Db::write`](crate::Db::write) the last:
    /// what has no more than the limit here is within it there.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Empties it, keeping its memory.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.bytes = 0;
    }
}
