//! The database directory: what may stand where a database is created, which files nothing refers
//! to, and which numbers are taken.

use super::edit::NUMBERS_END;
use super::{Replay, State, current, log};
use crate::header::Purpose;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use velella_base::file_name::{FileName, JOURNAL_DIR, LOST_AND_FOUND};
use velella_base::{DatabaseId, Error, ErrorKind, Result};
use velella_vfs::Vfs;

/// A new database id: 128 bits of the operating system's randomness, by way of the seeds of the
/// standard library's hash maps, mixed with the time.
pub(super) fn random_id() -> DatabaseId {
    let half = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u64(velella_sync::thread::wall_ms());
        hasher.write_u32(std::process::id());
        u128::from(hasher.finish())
    };
    half() << 64 | half()
}

fn bare_name(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn names(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<String>> {
    let paths = vfs.read_dir(dir)?;
    Ok(paths.iter().map(|path| bare_name(path)).collect())
}

/// Whether it is what becomes `CURRENT`; other temporary files are not ours.
fn is_temporary(name: &str) -> bool {
    name == current::IN_THE_MAKING
}

/// Creates `dir` where it is missing, with the directories it lies in, and makes their names
/// durable (V2 of the file system).
///
/// What failed to be synced is an error, with two exceptions. A directory that this process may not
/// open for reading is not ours: who made it answers for it. And above the lowest directory that
/// was there already it is a favour to an earlier creation that was interrupted before its syncs.
///
/// # Errors
/// What the file system refused.
pub fn create_directory(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let mut missing = 0;
    for ancestor in dir.ancestors().map(named) {
        if vfs.exists(ancestor)? {
            break;
        }
        missing += 1;
    }
    vfs.create_dir_all(dir)?;
    for (above, parent) in dir.ancestors().skip(1).map(named).enumerate() {
        match vfs.sync_dir(parent) {
            Err(error) if error.kind() == ErrorKind::Permission => {}
            Err(_) if above >= missing.max(1) => {}
            synced => synced?,
        }
    }
    Ok(())
}

/// The current directory goes by the empty path where `data` is opened.
fn named(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

/// Makes `dir` ready for a new database: it is created, or what an interrupted creation left there
/// is removed.
pub(super) fn prepare(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    create_directory(vfs, dir)?;
    let leftovers = leftovers(vfs, dir)?;
    leftovers.iter().try_for_each(|path| vfs.remove(path))
}

/// What an interrupted creation left in `dir`, where a database may be created: nothing else is
/// there.
///
/// # Errors
/// `AlreadyExists`: a database, or what is not ours; `Corruption`: a database without `CURRENT`.
pub(super) fn leftovers(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut leftovers = Vec::new();
    // What is not ours is told only where nothing says that a database was here.
    let mut stranger = None;
    for name in names(vfs, dir)? {
        match FileName::parse(&name) {
            Some(FileName::Current) => {
                return Err(Error::new(
                    ErrorKind::AlreadyExists,
                    "create a database in",
                    "there is one",
                )
                .on(dir)
                .remedy("open it instead"));
            }
            Some(FileName::Lock) => {}
            Some(FileName::Manifest(file)) if is_newborn(vfs, dir, file) => {
                leftovers.push(dir.join(&name));
            }
            None if is_temporary(&name) => leftovers.push(dir.join(&name)),
            Some(_) => return Err(current::lost(dir, &name)),
            None if name == LOST_AND_FOUND => {}
            None => {
                let found = match name == JOURNAL_DIR {
                    true => in_journal(vfs, dir)?,
                    false => Some(name),
                };
                stranger = stranger.or(found);
            }
        }
    }
    match stranger {
        Some(name) => Err(foreign(dir, &name)),
        None => Ok(leftovers),
    }
}

/// Whether a manifest without a `CURRENT` is what an interrupted creation leaves: unreadable from
/// the start, or without any keyspace and never run.
fn is_newborn(vfs: &dyn Vfs, dir: &Path, file: u64) -> bool {
    if let Ok(replay) = log::replay(vfs, dir, file, Purpose::Read) {
        return replay.state.next_keyspace <= 1 && replay.state.incarnation == 0;
    }
    // Its first record was not written in full: nothing can have come after it.
    let path = FileName::Manifest(file).path(dir);
    vfs.len(&path).is_ok_and(|length| length <= 512)
}

/// What is in the directory of a journal and not ours; an interrupted creation leaves it empty.
fn in_journal(vfs: &dyn Vfs, dir: &Path) -> Result<Option<String>> {
    let Ok(names) = names(vfs, &dir.join(JOURNAL_DIR)) else {
        // What cannot be looked into is no directory.
        return Ok(Some(JOURNAL_DIR.to_owned()));
    };
    let within = |name: &String| format!("{JOURNAL_DIR}/{name}");
    match names.iter().find(|name| FileName::parse(name).is_some()) {
        Some(ours) => Err(current::lost(dir, &within(ours))),
        None => Ok(names.first().map(within)),
    }
}

fn foreign(dir: &Path, name: &str) -> Error {
    let found = format!("it is not empty and not a database (it holds {name})");
    Error::new(ErrorKind::AlreadyExists, "create a database in", found)
        .on(dir)
        .remedy("choose an empty directory")
}

/// The lowest number at or above `least` and above every file present (N3).
pub(super) fn number_above(vfs: &dyn Vfs, dir: &Path, least: u64) -> Result<u64> {
    let highest = present(vfs, dir)?
        .into_iter()
        .filter_map(|(_, name)| name?.number())
        .filter(|number| *number < NUMBERS_END)
        .max()
        .unwrap_or(0);
    Ok(least.max(highest + 1))
}

/// The last manifest that was committed to after that of `replay` (N7), if one is there, and what
/// is wrong with it.
///
/// # Errors
/// What the file system refused: whether such a file was in force is not known then.
pub(super) fn later_in_force(
    vfs: &dyn Vfs,
    dir: &Path,
    replay: &Replay,
) -> Result<Option<(u64, Option<Error>)>> {
    let mut last: Option<(u64, Option<Error>)> = None;
    for name in names(vfs, dir)? {
        let Some(FileName::Manifest(file)) = FileName::parse(&name) else {
            continue;
        };
        if file <= last.as_ref().map_or(replay.file, |(file, _)| *file) {
            continue;
        }
        let path = dir.join(&name);
        match committed_to(vfs, &path, file, replay.database) {
            Ok(Some(damage)) => last = Some((file, damage)),
            Ok(None) => {}
            Err(error) if never_came_into_force(&error) => {}
            Err(error) => {
                let remedy = "make it readable: opening has to know whether it was in force";
                return Err(error.remedy(remedy));
            }
        }
    }
    Ok(last)
}

/// Whether the manifest at `path` is of `database` and has more than its first record, and what is
/// wrong with what follows that.
fn committed_to(
    vfs: &dyn Vfs,
    path: &Path,
    file: u64,
    database: DatabaseId,
) -> Result<Option<Option<Error>>> {
    if log::database_of(vfs, path, file)? != database {
        return Ok(None);
    }
    let (replay, damage) = log::salvage(vfs, path, file)?;
    let is = replay.records.len() > 1 || damage.is_some();
    Ok(is.then_some(damage))
}

/// Says so of a later manifest: it is not whole up to its first record, or a newer version's, left
/// by an opening that was interrupted, or it was removed meanwhile. One that was in force and met a
/// second mishap since then cannot be told from these.
fn never_came_into_force(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Corruption | ErrorKind::Unsupported | ErrorKind::NotFound
    )
}

/// Every file of the directory and of its journal, with what its name says.
fn present(vfs: &dyn Vfs, dir: &Path) -> Result<Vec<(PathBuf, Option<FileName>)>> {
    let mut files = Vec::new();
    for name in names(vfs, dir)? {
        if name == JOURNAL_DIR {
            let journal = dir.join(JOURNAL_DIR);
            for name in names(vfs, &journal)? {
                files.push((journal.join(&name), FileName::parse(&name)));
            }
        } else {
            files.push((dir.join(&name), FileName::parse(&name)));
        }
    }
    Ok(files)
}

/// Removes manifests other than `file` and temporary files, best effort.
pub(super) fn remove_stale(vfs: &dyn Vfs, dir: &Path, file: u64) {
    for name in names(vfs, dir).unwrap_or_default() {
        let stale = match FileName::parse(&name) {
            Some(FileName::Manifest(number)) => number != file,
            Some(_) => false,
            None => is_temporary(&name),
        };
        if stale {
            drop(vfs.remove(&dir.join(&name)));
        }
    }
}

/// Tables and external values in `dir` that `state` does not name: what a crash during a flush, a
/// compaction or a large write left. Journal records may name externals beyond the state's; give
/// those in `also`. Journal files and foreign names are not looked at.
///
/// # Errors
/// What the file system refused.
pub fn unreferenced(
    vfs: &dyn Vfs,
    dir: &Path,
    state: &State,
    also: &BTreeSet<u64>,
) -> Result<Vec<FileName>> {
    let tables: BTreeSet<u64> = state.tables().map(|table| table.file).collect();
    let externals: BTreeSet<u64> = state
        .tables()
        .flat_map(|table| table.externals.iter().copied())
        .collect();
    Ok(names(vfs, dir)?
        .iter()
        .filter_map(|name| FileName::parse(name))
        .filter(|name| match name {
            FileName::Table(file) => !tables.contains(file),
            FileName::External(file) => !externals.contains(file) && !also.contains(file),
            _ => false,
        })
        .collect())
}
