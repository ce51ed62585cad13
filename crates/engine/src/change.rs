//! One change to one key, made ready before anything is held: limits checked, expiry and large
//! values put into the form in which memtable, journal and tables carry them.
//!
//! C1. A value over `INLINE_VALUE_BYTES_MAX` is written to a file of its own first; the change then
//!     carries only a reference, and the file is in the hands of the next sync round before the
//!     change can be stamped.
//! C2. Few files wait for a round at once: each is open until then, and a process may open only so
//!     many. Who comes later syncs its own.
//!
//! Tests: `tests/externals.rs`.

use crate::core::Engine;
use crate::keyspace_core::Core;
use velella_base::external::{EXTERNAL_REF_BYTES, ExternalRef};
use velella_base::file_name::FileName;
use velella_base::limits;
use velella_base::{Error, ErrorKind, KeyspaceId, Result, ValueKind, seeded};
use velella_journal::batch;
use velella_memtable::Intent;
use velella_sync::epoch;
use velella_vfs::lacks_descriptors;

/// External files that may wait for the next round, open (C2): far below what a process may open.
const FILES_TO_SYNC_MAX: usize = 48;

/// A change, borrowing key and value from the caller.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) kind: ValueKind,
    head: [u8; EXTERNAL_REF_BYTES],
    head_len: usize,
    tail: &'a [u8],
    /// File of the external value, if it has one.
    pub(crate) external: Option<u64>,
    /// Bytes of that value.
    pub(crate) external_bytes: u64,
}

/// Refuses an instant that stands for never.
///
/// # Errors
/// `InvalidInput`.
pub(crate) fn check_expiry(expires_at_ms: Option<u64>) -> Result<()> {
    if expires_at_ms == Some(0) {
        return Err(Error::invalid("write an expiring value", "its expiry is 0")
            .remedy("give milliseconds since 1970, or write it without expiry"));
    }
    Ok(())
}

impl<'a> Change<'a> {
    /// The key becomes absent.
    pub(crate) fn delete(key: &'a [u8]) -> Result<Self> {
        limits::check_key(key)?;
        Ok(Change::bare(key, ValueKind::Delete, &[]))
    }

    /// The key gets a value, until `expires_at_ms` if given.
    pub(crate) fn put(
        engine: &Engine,
        key: &'a [u8],
        value: &'a [u8],
        expires_at_ms: Option<u64>,
    ) -> Result<Self> {
        limits::check_key(key)?;
        limits::check_value(value)?;
        check_expiry(expires_at_ms)?;
        if value.len() > engine.sizes.inline_value_bytes {
            return Change::external(engine, key, value, expires_at_ms.unwrap_or(0));
        }
        let Some(expiry) = expires_at_ms else {
            return Ok(Change::bare(key, ValueKind::Put, value));
        };
        let mut change = Change::bare(key, ValueKind::PutExpiring, value);
        change.head[..8].copy_from_slice(&expiry.to_le_bytes());
        change.head_len = 8;
        Ok(change)
    }

    fn bare(key: &'a [u8], kind: ValueKind, tail: &'a [u8]) -> Self {
        Change {
            key,
            kind,
            head: [0; EXTERNAL_REF_BYTES],
            head_len: 0,
            tail,
            external: None,
            external_bytes: 0,
        }
    }

    #[cold]
    fn external(engine: &Engine, key: &'a [u8], value: &[u8], expires_at_ms: u64) -> Result<Self> {
        engine.check()?;
        engine.refuse_if_stuck()?;
        let (reference, file) = engine.env.externals.write(value, expires_at_ms)?;
        let change = Change::of_reference(key, &reference);
        let halt = |error: &Error| {
            if !lacks_descriptors(error) {
                engine.halt_after("a sync", error);
            }
        };
        // The name must be as durable as the record that will point to it.
        let named = engine.env.manifest.sync_names();
        // Names that others made may be lost by it.
        let named = named.inspect_err(halt);
        let synced = named.and_then(|()| match &engine.journal {
            _ if seeded("external-values-are-not-synced") => Ok(()),
            Some(journal) if journal.files_to_sync() < FILES_TO_SYNC_MAX => {
                journal.sync_with_next_round(file);
                Ok(())
            }
            _ => file.sync_all().inspect_err(halt),
        });
        synced.inspect_err(|_| change.discard(engine))?;
        Ok(change)
    }

    fn of_reference(key: &'a [u8], reference: &ExternalRef) -> Self {
        let mut change = Change::bare(key, ValueKind::External, &[]);
        change.head = reference.encode();
        change.head_len = EXTERNAL_REF_BYTES;
        change.external = Some(reference.file);
        change.external_bytes = reference.length;
        change
    }

    /// The payload in its two parts.
    pub(crate) fn payload(&self) -> [&[u8]; 2] {
        [&self.head[..self.head_len], self.tail]
    }

    pub(crate) fn payload_len(&self) -> usize {
        self.head_len + self.tail.len()
    }

    /// Appends the change to a journal record.
    pub(crate) fn encode(&self, keyspace: KeyspaceId, record: &mut Vec<u8>) {
        let mut buffer = [0; batch::HEADER_BYTES_MAX];
        let (key, len) = (self.key.len(), self.payload_len());
        record.extend_from_slice(batch::single_header(
            &mut buffer,
            keyspace,
            self.kind,
            key,
            len,
        ));
        record.extend_from_slice(self.key);
        self.payload()
            .iter()
            .for_each(|part| record.extend_from_slice(part));
    }

    /// The change as the memtable takes it.
    pub(crate) fn intent(&self) -> Intent<'_> {
        Intent {
            key: self.key,
            kind: self.kind,
            payload: self.payload(),
        }
    }

    /// As `abandon`, unless the record may survive all the same: then its value must, too.
    pub(crate) fn abandon_unless_unknown(&self, engine: &Engine, core: &Core, error: &Error) {
        if error.kind() != ErrorKind::OutcomeUnknown {
            self.abandon(engine, core);
        }
    }

    /// The write to `core` failed: its external value belongs to nothing, and memtables that its
    /// attempts came to hold it no more. One that has left its view gives it up with its end.
    pub(crate) fn abandon(&self, engine: &Engine, core: &Core) {
        if let Some(file) = self.external {
            let guard = epoch::pin();
            for mem in core.view.load(&guard).memtables() {
                mem.release(file, self.external_bytes);
            }
            drop(guard);
            self.discard(engine);
        }
    }

    /// Nothing refers to the external value.
    fn discard(&self, engine: &Engine) {
        if let Some(file) = self.external {
            if let Some(journal) = &engine.journal {
                journal.forget(&FileName::External(file).path(&engine.env.dir));
            }
            engine.env.externals.discard(&[file]);
        }
    }
}
