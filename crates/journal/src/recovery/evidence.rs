//! What the journal knows of the log that names it.
//!
//! The caller's log (the manifest) says which incarnation ran last. Were it cut at the end of one
//! of its records, it would read as an older state, and nothing in itself would tell. The journal
//! can: rounds and extents come only after the log named their incarnation durably, and each seal
//! carries a note of how far the log was written.
//!
//! K1. Nothing is written, and damage is none of its business: recovery reports it.
//! K2. An incarnation whose files are there was begun, whatever the log says. Its number is not to
//!     be used again: its records would validate among those of the new one.
//!
//! Tests: `tests/damage.rs`; `tests/manifest_cut.rs` of the engine.

use super::report::Last;
use super::seals::{Seals, read_header};
use super::source::Source;
use crate::extent::{self, ExtentHeader, Found};
use crate::header::{FileHeader, PAGE};
use crate::journal::Start;
use std::path::{Path, PathBuf};
use velella_base::file_name::{FileName, JOURNAL_DIR};
use velella_base::{DatabaseId, ErrorKind, Result, Stamp};
use velella_vfs::{ReadFile, Vfs};

/// Runs that files which cannot be read may have belonged to, beyond those that can be (K2).
const HIDDEN_RUNS: u64 = 1 << 20;

/// What the journal knows of the log that names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The note of the newest seal of the incarnation the log names; 0: none.
    pub note: u64,
    /// A file of a later incarnation that took writes: the log must have named that one.
    pub later: Option<PathBuf>,
}

/// Looks for what contradicts a log that says that `last` ran last (seal file 0: it had no
/// journal).
///
/// # Errors
/// What the file system refused.
pub fn evidence(vfs: &dyn Vfs, dir: &Path, database: DatabaseId, last: &Last) -> Result<Evidence> {
    let mut evidence = Evidence::default();
    let source = Source::of(vfs, last);
    let (incarnation, seal_file) = (last.incarnation, last.start.seal_file);
    let seals = read_seals(&source, dir, database, incarnation, seal_file)?;
    if let Some(newest) = seals.as_ref().and_then(Seals::newest) {
        evidence.note = newest.note;
    }
    for (file, path) in journal_files(vfs, dir)? {
        let opened = source.open(&path)?;
        let Some(header) = sound(read_header(&*opened))? else {
            continue;
        };
        if header.database != database || header.incarnation <= incarnation {
            continue;
        }
        let ran = match file {
            FileName::Seal(number) => {
                let seals = read_seals(&source, dir, database, header.incarnation, number)?;
                seals.is_some_and(|seals| seals.newest().is_some_and(|seal| seal.round > 0))
            }
            FileName::Segment(number) => holds_extents(&*opened, &header, number)?,
            _ => false,
        };
        if ran {
            evidence.later = Some(path);
            break;
        }
    }
    Ok(evidence)
}

/// The newest incarnation of `named`, which the log names, and those of which a file may be left
/// (K2). With `accept_loss` a file that cannot be read is no error, and may be of one that nothing
/// else tells of.
///
/// # Errors
/// What the file system refused.
pub fn newest_incarnation(
    vfs: &dyn Vfs,
    dir: &Path,
    database: DatabaseId,
    named: u64,
    accept_loss: bool,
) -> Result<u64> {
    let mut newest = named;
    let source = Source::new(vfs, accept_loss);
    for (_, path) in journal_files(vfs, dir)? {
        let header = sound(read_header(&*source.open(&path)?))?;
        if let Some(header) = header.filter(|header| header.database == database) {
            newest = newest.max(header.incarnation);
        }
    }
    match source.told() {
        Some(_) => Ok(newest.saturating_add(HIDDEN_RUNS)),
        None => Ok(newest),
    }
}

/// The highest frontier that a seal which can be read has, of whatever incarnation: a log that is
/// not believed says nothing of stamps that were given out since.
///
/// # Errors
/// What the file system refused.
pub fn highest_frontier(vfs: &dyn Vfs, dir: &Path, database: DatabaseId) -> Result<Stamp> {
    let mut highest = Stamp::ZERO;
    let source = Source::new(vfs, true);
    for (file, path) in journal_files(vfs, dir)? {
        let FileName::Seal(number) = file else {
            continue;
        };
        let header = sound(read_header(&*source.open(&path)?))?;
        let Some(header) = header.filter(|header| header.database == database) else {
            continue;
        };
        let seals = read_seals(&source, dir, database, header.incarnation, number)?;
        let newest = seals.as_ref().and_then(Seals::newest);
        highest = highest.max(newest.map_or(Stamp::ZERO, |seal| seal.frontier));
    }
    Ok(highest)
}

/// The journal's files, by their names.
fn journal_files(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<(FileName, PathBuf)>> {
    let journal = dir.join(JOURNAL_DIR);
    if !vfs.exists(&journal)? {
        return Ok(Vec::new());
    }
    let names = vfs.read_dir(&journal)?.into_iter();
    Ok(names
        .filter_map(|name| Some((FileName::parse(name.to_str()?)?, journal.join(&name))))
        .collect())
}

fn read_seals(
    source: &Source<'_>,
    dir: &Path,
    database: DatabaseId,
    incarnation: u64,
    seal_file: u64,
) -> Result<Option<Seals>> {
    if seal_file == 0 {
        return Ok(None);
    }
    let last = Last {
        incarnation,
        start: Start {
            seal_file,
            token: velella_vfs::Identity::default(),
        },
        durable: Stamp::ZERO,
        assume_power_loss: false,
        accept_loss: false,
    };
    sound(Seals::read(source, dir, database, &last))
}

/// Whether a lane began an extent in this segment.
fn holds_extents(file: &dyn ReadFile, header: &FileHeader, number: u64) -> Result<bool> {
    let [bytes, extent_bytes, ..] = header.parameters;
    let extent_bytes = extent_bytes.max(PAGE + extent::HEADER);
    for index in 0..bytes.min(file.len()).div_ceil(extent_bytes) {
        let (position, _) = extent::place(index, extent_bytes);
        if position + extent::HEADER > file.len() {
            break;
        }
        let mut bytes = [0; extent::HEADER_LEN];
        file.read_exact_at(&mut bytes, position)?;
        if let Found::Header(extent) = ExtentHeader::decode(&bytes, position)
            && extent.segment == number
            && extent.incarnation == header.incarnation
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What could be read, or nothing where it is damaged or of a newer version (K1).
fn sound<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
