//! From the journal of the last run to tables, before the database opens.
//!
//! R1. What is taken goes to tables directly, in one durable edit together with the new
//!     incarnation; only then does anybody see it. A crash anywhere before repeats it all.
//! R2. Records come by ascending stamp and are gathered within a share of the memory; each
//!     gathering becomes tables whose stamps lie above those of the gathering before.
//! R3. A record is skipped where its keyspace was dropped, or its stamp is in tables already.
//! R4. A gathering is sorted and written in ranges of keys, by several threads: its tables
//!     share no key, so their order among themselves means nothing.
//!
//! Tests: `tests/crash.rs`, `cl14_double_crash`.

mod piece;

use crate::agreement;
use crate::keyspace_core::Core;
use piece::{Piece, Run};
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use velella_base::external::ExternalRef;
use velella_base::{Error, ErrorKind, KeyspaceId, Result, Stamp, ValueKind};
use velella_journal::{Recovery, batch};
use velella_mvcc::Retention;
use velella_sync::helpers;
use velella_sync::lock::Mutex;
use velella_tree::{Built, Edit};

/// Most tables a gathering becomes: they stand in level 0, which has to stay small.
const PARTS_MAX: usize = 4;

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
    for piece in pieces.values_mut().filter(|piece| !piece.is_empty()) {
        let core = Arc::clone(&piece.core);
        for built in build_parts(&core, piece.take(helpers::count().min(PARTS_MAX)))? {
            into.edits.extend(built.edits(core.id));
            into.built.push((Arc::clone(&core), built));
        }
    }
    Ok(())
}

/// Sorts and writes the parts beside each other.
fn build_parts(core: &Core, parts: Vec<Run>) -> Result<Vec<Built>> {
    let parts: Vec<_> = parts.into_iter().map(Mutex::new).collect();
    let built = helpers::each(parts.len(), parts.len(), |part| {
        let mut run = parts[part].lock();
        run.sort();
        // Nobody reads yet, and nothing older than the newest can be asked for.
        core.tree.build(&mut *run, &Retention::newest_only())
    });
    built.into_iter().collect()
}

fn unknown_keyspace(id: KeyspaceId, stamp: Stamp) -> Error {
    let found = format!("the record at stamp {stamp} names keyspace {id}, which never was");
    Error::new(ErrorKind::Corruption, "replay the journal", found)
        .remedy("restore the database from a backup")
}
