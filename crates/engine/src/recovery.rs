//! From the journal of the last run to tables, before the database opens.
//!
//! R1. What is taken goes to tables directly, in one durable edit together with the new
//!     incarnation; only then does anybody see it. A crash anywhere before repeats it all.
//! R2. Records come by ascending stamp and are gathered within a share of the memory; each
//!     gathering becomes tables whose stamps lie above those of the gathering before. Where one can
//!     be written while the next is read, there are two at a time, all of about a size and a few in
//!     all: so writing begins early, and ends soon after the last is read. One thread alone gathers
//!     as much as it may.
//! R3. A record is skipped where its keyspace was dropped, or its stamp is in tables already; those
//!     that are in the tables of all keyspaces are not even looked into (of which one that was not
//!     flushed since the last opening keeps all).
//! R4. A gathering is sorted and written in ranges of keys, by several threads: its tables
//!     share no key, so their order among themselves means nothing.
//!
//! Tests: `tests/crash.rs`, `tests/sharing.rs`, `cl14_double_crash`.

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
use velella_sst::TableMeta;
use velella_sync::helpers::{self, Made};
use velella_sync::lock::Mutex;
use velella_tree::{Built, Edit, State};

/// Most tables the last gathering becomes, and each before it, which is written while one thread
/// reads: they stand in level 0, which has to stay small.
const PARTS_MAX: usize = 4;
const PARTS_BETWEEN: usize = 2;
/// Tables that all gatherings but the last are to become, together.
const TABLES_BETWEEN: u64 = 6;
/// Least bytes of a gathering, unless the memory allows less: smaller tables are not worth what
/// they cost readers.
const SHARE_MIN: u64 = 16 << 20;

/// What recovery wrote, not yet named by the manifest.
#[derive(Default)]
pub(crate) struct Recovered {
    pub(crate) built: Vec<(Arc<Core>, Built)>,
    /// Externals that taken records refer to.
    pub(crate) externals: BTreeSet<u64>,
    /// The highest stamp looked at; those passed are in tables, as the manifest says.
    pub(crate) last: Stamp,
}

impl Recovered {
    /// The tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &TableMeta> {
        self.built.iter().flat_map(|(_, built)| built.tables())
    }

    /// The edits that name the tables, which are kept from here on.
    pub(crate) fn edits(&mut self) -> Vec<Edit> {
        let built = self.built.iter_mut();
        built
            .flat_map(|(core, built)| built.edits(core.id))
            .collect()
    }

    /// Gives the tables up, whose edits' commit left nothing.
    pub(crate) fn discard(self) {
        self.built
            .into_iter()
            .for_each(|(_, built)| built.discard());
    }

    /// Makes the tables visible, which the manifest names by now.
    pub(crate) fn show(self) {
        for (core, built) in self.built {
            core.tree.apply(built);
        }
    }
}

/// What the manifest says of the records there can be.
pub(crate) struct Known<'a> {
    /// Which keyspaces were dropped: their records are skipped.
    pub(crate) state: &'a State,
    /// The highest stamp that was allowed.
    pub(crate) lease: Stamp,
}

/// Reads the journal to its end and writes what counts to tables, within `memory` (R2).
pub(crate) fn replay(
    journal: &mut Recovery,
    cores: &[Arc<Core>],
    known: &Known<'_>,
    memory: u64,
) -> Result<Recovered> {
    let in_tables = cores.iter().map(|core| core.flushed_below()).min();
    journal.skip_below(in_tables.unwrap_or(Stamp::ZERO));
    let threads = helpers::count();
    let mut gatherer = Gatherer {
        share: share(journal.bytes_left(), threads, memory / 2),
        share_max: memory / 2,
        gatherings: 0,
        threads,
        journal,
        known,
        pieces: cores
            .iter()
            .map(|core| (core.id, Piece::new(Arc::clone(core))))
            .collect(),
        recovered: Recovered::default(),
    };
    let built = helpers::in_turn(|| gatherer.next(), build)?;
    let mut recovered = gatherer.recovered;
    recovered.built = built.into_iter().flatten().collect();
    Ok(recovered)
}

/// Bytes of a gathering, of `ahead` to be read (R2): `most` where one thread is alone.
fn share(ahead: u64, threads: usize, most: u64) -> u64 {
    let gatherings = TABLES_BETWEEN / parts_between(threads) as u64;
    match threads {
        1 => most,
        _ => (ahead / gatherings).max(SHARE_MIN).min(most),
    }
}

/// Parts of a gathering that is written while one thread reads.
fn parts_between(threads: usize) -> usize {
    threads.saturating_sub(1).clamp(1, PARTS_BETWEEN)
}

/// What was gathered of each keyspace, in parts.
type Gathering = Vec<(Arc<Core>, Vec<Run>)>;

/// Reads the journal.
struct Gatherer<'a> {
    journal: &'a mut Recovery,
    known: &'a Known<'a>,
    pieces: BTreeMap<KeyspaceId, Piece>,
    /// Bytes of a gathering, and of any.
    share: u64,
    share_max: u64,
    /// How many there were.
    gatherings: u64,
    threads: usize,
    recovered: Recovered,
}

impl Gatherer<'_> {
    /// The next gathering.
    fn next(&mut self) -> Result<Made<Gathering>> {
        let (mut gathered, mut is_last) = (0, false);
        while !is_last && gathered <= self.share {
            match self.take_record()? {
                Some(bytes) => gathered += bytes,
                None => is_last = true,
            }
        }
        self.gatherings += 1;
        // Much more is ahead than was thought: payloads of large records lie elsewhere.
        if self.gatherings >= TABLES_BETWEEN {
            self.share = self.share.saturating_mul(2).min(self.share_max);
        }
        // While there is more to read, a thread does that.
        let parts = match is_last {
            true => self.threads.min(PARTS_MAX),
            false => parts_between(self.threads),
        };
        let filled = self.pieces.values_mut().filter(|piece| !piece.is_empty());
        let gathering: Gathering = filled
            .map(|piece| (Arc::clone(&piece.core), piece.take(parts)))
            .collect();
        Ok(match is_last {
            true => Made::Last(Some(gathering)),
            false => Made::More(gathering),
        })
    }

    /// Takes the next record, if there is one; returns the bytes it takes. What speaks against it
    /// says where it stands.
    fn take_record(&mut self) -> Result<Option<u64>> {
        self.take_next()
            .map_err(|error| match self.journal.place() {
                Some((path, at)) if error.file().is_none() => error.on(path).at(at),
                _ => error,
            })
    }

    fn take_next(&mut self) -> Result<Option<u64>> {
        let Some(record) = self.journal.next_record()? else {
            return Ok(None);
        };
        agreement::check_lease(record.stamp, self.known.lease)?;
        let mut bytes = 0;
        let recovered = &mut self.recovered;
        recovered.last = recovered.last.max(record.stamp);
        for operation in batch::decode(record.payload) {
            let operation = operation?;
            let Some(piece) = self.pieces.get_mut(&operation.keyspace) else {
                if self.known.state.is_dropped(operation.keyspace) {
                    continue;
                }
                return Err(unknown_keyspace(operation.keyspace, record.stamp));
            };
            if record.stamp < piece.core.flushed_below() {
                continue;
            }
            if operation.kind == ValueKind::External {
                let external = ExternalRef::decode(operation.value);
                recovered.externals.extend(external.map(|e| e.file));
            }
            bytes += piece.add(record.stamp, &operation);
        }
        Ok(Some(bytes))
    }
}

/// Sorts and writes a gathering.
fn build(gathering: Gathering) -> Result<Vec<(Arc<Core>, Built)>> {
    let mut all = Vec::new();
    for (core, parts) in gathering {
        for built in build_parts(&core, parts)? {
            all.push((Arc::clone(&core), built));
        }
    }
    Ok(all)
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
    let found = format!(
        "the record at stamp {stamp} names keyspace {id}, which the manifest never made: one of the \
         two is damaged"
    );
    Error::new(ErrorKind::Corruption, "replay the journal", found)
        .remedy("restore the database from a backup")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gathering_is_a_part_of_what_is_ahead_within_its_bounds() {
        const MIB: u64 = 1 << 20;
        for (ahead, threads, most, expected) in [
            (240 * MIB, 2, 128 * MIB, 40 * MIB),
            // Two tables each.
            (240 * MIB, 3, 128 * MIB, 80 * MIB),
            (240 * MIB, 64, 128 * MIB, 80 * MIB),
            (240 * MIB, 1, 128 * MIB, 128 * MIB),
            (30 * MIB, 2, 128 * MIB, SHARE_MIN),
            (0, 2, 128 * MIB, SHARE_MIN),
            (u64::MAX, 2, 128 * MIB, 128 * MIB),
            (240 * MIB, 2, MIB, MIB),
        ] {
            assert_eq!(share(ahead, threads, most), expected, "{ahead} {threads}");
        }
    }
}
