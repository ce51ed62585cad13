//! `CURRENT`: one line that names the manifest in force, with a checksum.
//!
//! ```text
//! MANIFEST-000001 89abcdef\n          the name, then its CRC-32C in hexadecimal
//! ```
//! The checksum keeps a flipped digit from naming an older manifest that is still there. LevelDB
//! and RocksDB have a file of this name, too, whose line is the name alone: where theirs is,
//! nothing is damaged, and nothing to be restored.

use super::log;
use std::path::{Path, PathBuf};
use velella_base::checksum::crc32c;
use velella_base::file_name::{FileName, JOURNAL_DIR};
use velella_base::{Error, ErrorKind, Result, seeded};
use velella_vfs::{Names, Vfs, WriteFile};

/// More than any `CURRENT` has.
const LENGTH_MAX: u64 = 64;
/// The name of what becomes `CURRENT`.
pub(super) const IN_THE_MAKING: &str = "CURRENT.tmp";

fn name(file: u64) -> String {
    format!("MANIFEST-{file:06}")
}

fn line(file: u64) -> String {
    let name = name(file);
    let crc = crc32c(name.as_bytes());
    format!("{name} {crc:08x}\n")
}

/// Writes what will put manifest `file` in force; its content is the caller's to sync.
pub(super) fn stage(vfs: &dyn Vfs, dir: &Path, file: u64) -> Result<Box<dyn WriteFile>> {
    let new = staged(dir);
    if vfs.exists(&new)? {
        vfs.remove(&new)?;
    }
    let target = vfs.create(&new)?;
    target.write_at(0, line(file).as_bytes())?;
    Ok(target)
}

/// Puts the staged manifest in force, for this process: it, what is staged, and both names must be
/// durable already.
pub(super) fn swap(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    vfs.rename(&staged(dir), &FileName::Current.path(dir))
}

/// Makes the swap durable: until then a loss of power may take it back.
pub(super) fn settle(names: &Names) -> Result<()> {
    match seeded("the-name-of-current-is-not-synced") {
        true => Ok(()),
        false => names.sync(),
    }
}

fn staged(dir: &Path) -> PathBuf {
    dir.join(IN_THE_MAKING)
}

/// That it names manifest `file`, though `later` was in force after it (N7), perhaps damaged too.
pub(super) fn put_back(dir: &Path, file: u64, later: u64, damage: Option<&Error>) -> Error {
    let path = FileName::Current.path(dir);
    let [named, missed] = [file, later].map(name);
    let found = format!("it names {named}, but {missed} was in force after that");
    match damage {
        None => {
            let whole = line(later);
            let remedy = format!(
                "restore it: one line, `{}`; if an older copy of the database was copied over it, \
                 copy that into an empty directory instead",
                whole.trim_end()
            );
            Error::corruption("read", &path, 0, found).remedy(remedy)
        }
        Some(damage) => {
            let found = format!("{found}, and is damaged: {damage}");
            let remedy = format!(
                "restore the database from a backup; without {missed} it opens as {named} has it"
            );
            Error::corruption("read", &path, 0, found).remedy(remedy)
        }
    }
}

/// The error for a directory that has no `CURRENT` but `name`, a file of a database.
pub(super) fn lost(dir: &Path, name: &str) -> Error {
    let found = format!("it is missing, although {name} is there: a damaged database");
    Error::corruption("read", &FileName::Current.path(dir), 0, found).remedy(
        "restore the database from a backup; or restore this file: one line, the name of the \
         newest MANIFEST file and its CRC-32C; or move all files away, for a new database",
    )
}

/// The number of the manifest in force, which exists.
pub(super) fn read(vfs: &dyn Vfs, dir: &Path) -> Result<u64> {
    let path = FileName::Current.path(dir);
    if !vfs.exists(&path)? {
        return Err(Error::new(
            ErrorKind::NotFound,
            "open the database",
            "there is no file CURRENT",
        )
        .on(dir)
        .remedy("check the path, or create the database there"));
    }
    let damaged = |found: String| {
        Error::corruption("read", &path, 0, found)
            .remedy("restore it: one line, the name of the newest MANIFEST file and its CRC-32C")
    };
    let source = vfs.open_read(&path)?;
    if source.len() > LENGTH_MAX {
        return Err(damaged(format!("it has {} bytes", source.len())));
    }
    let mut bytes = vec![0; usize::try_from(source.len()).unwrap_or(0)];
    source.read_exact_at(&mut bytes, 0)?;
    let text = std::str::from_utf8(&bytes).unwrap_or("");
    let bare = text.strip_suffix('\n').and_then(FileName::parse);
    if let Some(named @ FileName::Manifest(_)) = bare {
        return Err(match is_ours(vfs, dir, named)? {
            true => damaged("it has no checksum".into()),
            false => of_another(dir),
        });
    }
    let name = text.split(' ').next().unwrap_or("");
    let Some(FileName::Manifest(file)) = FileName::parse(name) else {
        return Err(damaged("it does not name a manifest".into()));
    };
    if line(file) != text {
        return Err(damaged("its checksum is wrong".into()));
    }
    let target = FileName::Manifest(file).path(dir);
    if !vfs.exists(&target)? {
        return Err(damaged(format!("it names {name}, which does not exist")));
    }
    Ok(file)
}

/// Whether the directory is ours, in which `CURRENT` is the name of `manifest` alone: that begins
/// as ours do, or beside it is what the others do not have.
fn is_ours(vfs: &dyn Vfs, dir: &Path, manifest: FileName) -> Result<bool> {
    if vfs.exists(&dir.join(JOURNAL_DIR))? {
        return Ok(true);
    }
    let path = manifest.path(dir);
    let mut start = [0; log::MAGIC.len()];
    if !vfs.exists(&path)? || vfs.len(&path)? < start.len() as u64 {
        return Ok(false);
    }
    vfs.open_read(&path)?.read_exact_at(&mut start, 0)?;
    Ok(start == *log::MAGIC)
}

fn of_another(dir: &Path) -> Error {
    let attempt = "open a database of Velella in";
    let found = "its CURRENT is one of LevelDB or RocksDB";
    Error::new(ErrorKind::AlreadyExists, attempt, found)
        .on(dir)
        .remedy(
            "choose another directory; to bring the data over, read it with the library that \
             wrote it, and `velella import` what you read",
        )
}
