//! Whether manifest and journal tell the same story.
//!
//! A manifest that lost whole edits at its end reads as an older state without a flaw. What it lost
//! may be the only word of tables, and their records are gone from the journal.
//!
//! G1. Each seal notes how far the manifest was written: file number and length. A manifest that is
//!     an older file, or a shorter one, has lost edits.
//! G2. A journal is written to only after the manifest named its incarnation.
//! G3. No record has a stamp above the lease.
//! G4. Flushes, creations and drops are committed only once everything before them is durable: a
//!     journal whose seals do not reach so far has lost some (`velella_journal::Last::durable`).
//! G5. It is asked before the manifest is written anew, and refuses without having changed
//!     anything.
//! G6. What is opened all the same, with loss accepted, names an older run than the journal's files
//!     are of, until the opening is through: the next one after one that was cut off refuses it
//!     again, or has lost the same.
//!
//! What no seal noted is not seen: docs/format/manifest.md.
//!
//! Tests: `tests/manifest_cut.rs`, `tests/seals_lost.rs` (G4).

use crate::options::RecoveryMode;
use std::path::Path;
use velella_base::file_name::FileName;
use velella_base::{Error, ErrorKind, Result, Stamp, seeded};
use velella_journal::{Last, Start};
use velella_tree::manifest::{Replay, State};
use velella_vfs::Vfs;

/// Bits of a note for the file number, and for the length in words of eight bytes.
const PART_BITS: u32 = 28;
const WORD_BYTES: u64 = 8;

/// The note of a manifest's position; 0 where it does not fit, which says nothing.
pub(crate) fn note((file, bytes): (u64, u64)) -> u64 {
    let words = bytes / WORD_BYTES;
    if file >> PART_BITS == 0 && words >> PART_BITS == 0 {
        file << PART_BITS | words
    } else {
        0
    }
}

/// Compares what was read of the manifest with what the journal knows of it.
///
/// # Errors
/// `Corruption`, naming the manifest and its end: edits are missing there. What the file system
/// refused.
pub(crate) fn check(
    vfs: &dyn Vfs,
    dir: &Path,
    replay: &Replay,
    recovery: RecoveryMode,
) -> Result<()> {
    let state = &replay.state;
    let evidence = velella_journal::evidence(vfs, dir, replay.database, &last(state, recovery))?;
    let end = replay
        .records
        .last()
        .map_or(0, |last| last.offset + last.bytes);
    let (file, bytes) = (
        evidence.note >> PART_BITS,
        (evidence.note & ((1 << PART_BITS) - 1)) * WORD_BYTES,
    );
    let found = match evidence.later {
        Some(path) => Some(format!(
            "it ends with incarnation {}, but {} is of a later one",
            state.incarnation,
            path.display()
        )),
        None if (replay.file, end) < (file, bytes) && !seeded("a-shorter-manifest-is-believed") => {
            Some(format!(
                "it ends at byte {end}, but the journal saw manifest {file} with {bytes} bytes"
            ))
        }
        None => None,
    };
    found.map_or(Ok(()), |found| {
        let path = FileName::Manifest(replay.file).path(dir);
        let attempt = "open the database of";
        Err(
            Error::corruption(attempt, &path, end, format!("edits are missing: {found}"))
                .remedy("restore the whole database from a backup, not the manifest alone"),
        )
    })
}

/// Sees to it that `replay`, which is not believed but opened, is not believed by the next opening
/// either, unless this one ends well (G6). Nothing else is asked of the run that it names: where
/// edits are missing, nothing of the journal is taken.
pub(crate) fn doubt(replay: &mut Replay) {
    if !seeded("an-accepted-manifest-is-believed-from-then-on") {
        replay.state.incarnation = replay.state.incarnation.saturating_sub(1);
    }
}

/// What the manifest says of the journal that was in force.
pub(crate) fn last(state: &State, recovery: RecoveryMode) -> Last {
    Last {
        incarnation: state.incarnation,
        start: Start {
            seal_file: state.seal_file,
            token: state.token.clone(),
        },
        durable: Stamp(state.durable_below.0.saturating_sub(1)),
        assume_power_loss: recovery == RecoveryMode::AssumePowerLoss,
        accept_loss: recovery == RecoveryMode::AcceptLoss,
    }
}

/// A record was found at `stamp` (G3).
///
/// # Errors
/// `Corruption`: the manifest never allowed that stamp.
pub(crate) fn check_lease(stamp: Stamp, lease: Stamp) -> Result<()> {
    if stamp <= lease {
        return Ok(());
    }
    let found = format!("a record has stamp {stamp}, but the manifest allows stamps up to {lease}");
    Err(
        Error::new(ErrorKind::Corruption, "replay the journal", found)
            .remedy("restore the whole database from a backup, not the manifest alone"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_orders_like_the_position_and_says_nothing_where_it_does_not_fit() {
        let positions = [
            (1, 0),
            (1, 64),
            (1, 72),
            (2, 0),
            ((1 << 28) - 1, (1 << 31) - 8),
        ];
        assert!(positions.map(note).is_sorted_by(|a, b| a < b));
        assert_eq!(note((1 << 28, 8)), 0);
        assert_eq!(note((1, 1 << 31)), 0);
    }
}
