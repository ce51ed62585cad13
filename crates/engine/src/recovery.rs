//! From the journal of the last run to tables, before the database opens.
//!
//! R1. What is taken goes to tables directly, in one durable edit together with the new
//!     incarnation; only then does anybody see it. A crash anywhere before repeats it all.
//! R2. Records come by ascending stamp and are gathered within a share of the memory; each
//!     gathering becomes tables whose stamps lie above those of the gathering before.
//! R3. A record is skipped where its keyspace was dropped, or its stamp is in tables already.
//!
//! Tests: `tests/crash.rs`, `cl14_double_crash`.

use crate::agreement;
use crate::keyspace_core::Core;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use velella_base::external::ExternalRef;
use velella_base::{Cursor, Entry, Error, ErrorKind, KeyspaceId, Order, Result, Stamp, ValueKind};
use velella_journal::{Recovery, batch};
use velella_mvcc::Retention;
use velella_tree::{Built, Edit};

/// What recovery wrote, not yet named by the manifest.
#[derive(Default)]
pub(crate) struct Recovered {
    pub(crate) built: Vec<(Arc<Core>, Built)>,
    pub(crate) edits: Vec<Edit>,
    /// Externals that taken records refer to.
    pub(crate) externals: BTreeSet<u64>,
    /// The highest stamp taken.
    pub(crate) last: Stamp,
}

impl Recovered {
    /// Makes the tables visible, which the manifest names by now.
    pub(crate) fn show(self) {
        for (core, built) in self.built {
            core.tree.apply(built);
        }
    }
}

/// What the manifest says of the records there can be.
pub(crate) struct Known<'a> {
    /// Keyspaces whose records are skipped.
    pub(crate) dropped: &'a [KeyspaceId],
    /// The highest stamp that was allowed.
    pub(crate) lease: Stamp,
}

/// Reads the journal to its end and writes what counts to tables.
pub(crate) fn replay(
    journal: &mut Recovery,
    cores: &[Arc<Core>],
    known: &Known<'_>,
    memory: u64,
) -> Result<Recovered> {
    let mut pieces: BTreeMap<KeyspaceId, Piece> = cores
        .iter()
        .map(|core| (core.id, Piece::new(Arc::clone(core))))
        .collect();
    let mut recovered = Recovered::default();
    let mut gathered = 0;
    while let Some(record) = journal.next_record()? {
        agreement::check_lease(record.stamp, known.lease)?;
        recovered.last = recovered.last.max(record.stamp);
        for operation in batch::decode(record.payload) {
            let operation = operation?;
            let Some(piece) = pieces.get_mut(&operation.keyspace) else {
                if known.dropped.contains(&operation.keyspace) {
                    continue;
                }
                return Err(unknown_keyspace(operation.keyspace, record.stamp));
            };
            if record.stamp < piece.core.flushed_below() {
                continue;
            }
            if operation.kind == ValueKind::External {
                recovered
                    .externals
                    .extend(ExternalRef::decode(operation.value).map(|e| e.file));
            }
            gathered += piece.add(record.stamp, &operation);
        }
        if gathered > memory {
            build_all(&mut pieces, &mut recovered)?;
            gathered = 0;
        }
    }
    build_all(&mut pieces, &mut recovered)?;
    Ok(recovered)
}

fn build_all(pieces: &mut BTreeMap<KeyspaceId, Piece>, into: &mut Recovered) -> Result<()> {
    for piece in pieces
        .values_mut()
        .filter(|piece| !piece.entries.is_empty())
    {
        let core = Arc::clone(&piece.core);
        let mut run = piece.take();
        // Nobody reads yet, and nothing older than the newest can be asked for.
        let built = core.tree.build(&mut run, &Retention::newest_only())?;
        into.edits.extend(built.edits(core.id));
        into.built.push((core, built));
    }
    Ok(())
}

fn unknown_keyspace(id: KeyspaceId, stamp: Stamp) -> Error {
    let found = format!("the record at stamp {stamp} names keyspace {id}, which never was");
    Error::new(ErrorKind::Corruption, "replay the journal", found)
        .remedy("restore the database from a backup")
}

/// What was gathered for one keyspace.
struct Piece {
    core: Arc<Core>,
    entries: Vec<Gathered>,
    bytes: Vec<u8>,
}

/// An entry whose key and value lie in the piece's bytes.
#[derive(Clone, Copy)]
struct Gathered {
    start: usize,
    key_len: u32,
    value_len: u32,
    stamp: Stamp,
    kind: ValueKind,
}

impl Piece {
    fn new(core: Arc<Core>) -> Self {
        Piece {
            core,
            entries: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// Adds an operation; returns the bytes it takes.
    fn add(&mut self, stamp: Stamp, operation: &batch::Operation<'_>) -> u64 {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(operation.key);
        self.bytes.extend_from_slice(operation.value);
        let short = |len: usize| u32::try_from(len).expect("a decoded length fits 32 bits");
        self.entries.push(Gathered {
            start,
            key_len: short(operation.key.len()),
            value_len: short(operation.value.len()),
            stamp,
            kind: operation.kind,
        });
        (self.bytes.len() - start + size_of::<Gathered>()) as u64
    }

    /// Everything gathered, sorted; the piece is empty afterwards.
    fn take(&mut self) -> Run {
        let bytes = std::mem::take(&mut self.bytes);
        let mut entries = std::mem::take(&mut self.entries);
        let order = self.core.order.clone();
        let key = |entry: &Gathered| &bytes[entry.start..entry.start + entry.key_len as usize];
        entries.sort_unstable_by(|a, b| {
            order
                .compare(key(a), key(b))
                .then_with(|| b.stamp.cmp(&a.stamp))
        });
        // A record is met once, but a batch may not hold a key twice either way.
        entries.dedup_by(|b, a| a.stamp == b.stamp && order.compare(key(a), key(b)).is_eq());
        Run {
            order,
            bytes,
            entries,
            at: usize::MAX,
        }
    }
}

/// A sorted run in memory.
struct Run {
    order: Order,
    bytes: Vec<u8>,
    entries: Vec<Gathered>,
    at: usize,
}

impl Run {
    fn key(&self, entry: &Gathered) -> &[u8] {
        &self.bytes[entry.start..entry.start + entry.key_len as usize]
    }
}

impl Cursor for Run {
    fn seek_first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.at = self.entries.len().wrapping_sub(1);
        Ok(())
    }

    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        self.at = self.entries.partition_point(|entry| {
            let order = self.order.compare(self.key(entry), key);
            order.then_with(|| stamp.cmp(&entry.stamp)).is_lt()
        });
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let below = |entry: &Gathered| self.order.compare(self.key(entry), key).is_lt();
        self.at = self.entries.partition_point(below).wrapping_sub(1);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at = self.at.saturating_add(1);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.at = self.at.wrapping_sub(1);
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let entry = self.entries.get(self.at)?;
        let value = entry.start + entry.key_len as usize;
        Some(Entry {
            key: self.key(entry),
            stamp: entry.stamp,
            kind: entry.kind,
            value: &self.bytes[value..value + entry.value_len as usize],
        })
    }
}
