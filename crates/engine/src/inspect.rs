//! Listings for people: what stands in a file, or in the directory, of a database.
//!
//! I1. Reads only and takes no lock, so it also shows what cannot be opened. Beside a running
//!     database a listing may be caught between two files.
//! I2. A listing goes on behind damage where it can, and says where it is; of tables, manifests
//!     and external values the first damage is returned as well. In the journal a torn end is
//!     normal, so there the listing alone tells.
//! I3. Memory holds a manifest whole; of any other file a block, an extent or a piece.
//!
//! Threads: any. Tests: `tests/inspect.rs`.

mod directory;

pub use directory::{
    DirectoryListing, FileListing, KeyspaceListing, ManifestListing, TableListing, listing,
};

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use velella_base::file_name::{CURRENT, FileName};
use velella_base::{Error, ErrorKind, Result};
use velella_tree::Manifest;
use velella_vfs::{OsFs, Vfs};

/// Bytes of a file whose format is told by its beginning.
const MAGIC_BYTES: usize = 8;
/// More than a sound `CURRENT` has.
const CURRENT_BYTES_MAX: usize = 64;

/// Lists one file of a database, recognised by its name, or where that was changed by what is in
/// it. `entries`: every entry of a table, every record of a segment.
///
/// # Errors
/// `InvalidInput`: not a file of a database; `Corruption`: the first damage, after the listing of
/// what could be read; `Unsupported`: of a newer format; `Io`, also of `out`.
pub fn file(path: &Path, entries: bool, out: &mut dyn Write) -> Result<()> {
    let vfs = OsFs::new();
    let name = path.file_name().and_then(|name| name.to_str());
    match name.and_then(FileName::parse) {
        Some(FileName::Lock) => say(path, out, format_args!("lock file of a database")),
        Some(FileName::Current) => current(&vfs, path, out),
        Some(FileName::Manifest(number)) => {
            let (text, damage) = velella_tree::inspect::manifest_file(&vfs, path, number)?;
            say(path, out, format_args!("{}", text.trim_end()))?;
            match damage {
                Some(error) => end_at_damage(path, out, error),
                None => Ok(()),
            }
        }
        Some(FileName::External(number)) => {
            let text = velella_tree::inspect::external(&vfs, path, number)?;
            say(path, out, format_args!("{}", text.trim_end()))
        }
        Some(FileName::Table(_)) => list(&vfs, path, Kind::Table, entries, out),
        Some(FileName::Segment(_)) => list(&vfs, path, Kind::Segment, entries, out),
        Some(FileName::LargeSegment(_)) => list(&vfs, path, Kind::Large, entries, out),
        Some(FileName::Seal(_)) => list(&vfs, path, Kind::Seal, entries, out),
        None => list(&vfs, path, recognise(&vfs, path)?, entries, out),
    }
}

/// Lists a database directory: the state as its manifest has it, and the files that are there.
///
/// # Errors
/// `NotFound`: no database there; `AlreadyExists`: another library's; `Corruption`: `CURRENT` or
/// the manifest is damaged, after the listing of the files; `Io`, also of `out`.
pub fn directory(path: &Path, out: &mut dyn Write) -> Result<()> {
    let (listing, damage) = directory::survey(&OsFs::new(), path)?;
    directory::print(&listing, out).map_err(|error| unwritten(path, error))?;
    damage.map_or(Ok(()), Err)
}

/// Files that describe themselves, whatever their name.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Table,
    Segment,
    Large,
    Seal,
}

fn list(vfs: &dyn Vfs, path: &Path, kind: Kind, entries: bool, out: &mut dyn Write) -> Result<()> {
    use velella_journal::inspect as journal;
    if let Kind::Table = kind {
        let detail = if entries {
            velella_sst::Detail::Entries
        } else {
            velella_sst::Detail::Blocks
        };
        return velella_sst::inspect(vfs.open_read(path)?, detail, out);
    }
    let detail = if entries {
        journal::Detail::Operations
    } else {
        journal::Detail::Extents
    };
    let mut text = Text { out, error: None };
    let listed = match kind {
        Kind::Segment => journal::segment(vfs, path, detail, &mut text),
        Kind::Seal => journal::seals(vfs, path, &mut text),
        Kind::Large | Kind::Table => journal::large(vfs, path, &mut text),
    };
    match text.error {
        Some(error) => Err(unwritten(path, error)),
        None => listed,
    }
}

/// What a file with a name of its own is, by how it begins.
fn recognise(vfs: &dyn Vfs, path: &Path) -> Result<Kind> {
    let source = vfs.open_read(path)?;
    let mut magic = [0; MAGIC_BYTES];
    if source.len() >= MAGIC_BYTES as u64 {
        source.read_exact_at(&mut magic, 0)?;
    }
    let named = |example: &str| {
        let found = format!("it is called otherwise than it was; it looks like {example}");
        Error::invalid("list", found)
            .on(path)
            .remedy(format!("give it its name back, like {example}"))
    };
    match &magic {
        b"VELLTABL" => Ok(Kind::Table),
        b"vellSEGM" => Ok(Kind::Segment),
        b"vellLRGE" => Ok(Kind::Large),
        b"vellSEAL" => Ok(Kind::Seal),
        b"VELELLAM" => Err(named("MANIFEST-000001")),
        b"VELELLAX" => Err(named("000001.ext")),
        _ => Err(Error::invalid("list", "it is not a file of a database").on(path)),
    }
}

fn current(vfs: &dyn Vfs, path: &Path, out: &mut dyn Write) -> Result<()> {
    let source = vfs.open_read(path)?;
    let len = usize::try_from(source.len()).unwrap_or(usize::MAX);
    let mut bytes = vec![0; len.min(CURRENT_BYTES_MAX)];
    source.read_exact_at(&mut bytes, 0)?;
    let text = bytes.escape_ascii();
    say(
        path,
        out,
        format_args!("{CURRENT}, {len} bytes: \"{text}\""),
    )?;
    // That of a bare name is empty, which names no directory.
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    match Manifest::replay(vfs, dir.unwrap_or(Path::new("."))) {
        Ok(replay) => {
            let file = replay.file;
            say(
                path,
                out,
                format_args!("in force: MANIFEST-{file:06}, whole"),
            )
        }
        Err(error) => end_at_damage(path, out, error),
    }
}

fn end_at_damage(path: &Path, out: &mut dyn Write, error: Error) -> Result<()> {
    // What could not be read may be sound.
    if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Unsupported) {
        say(path, out, format_args!("DAMAGE: {error}"))?;
    }
    Err(error)
}

fn say(path: &Path, out: &mut dyn Write, line: fmt::Arguments<'_>) -> Result<()> {
    writeln!(out, "{line}").map_err(|error| unwritten(path, error))
}

fn unwritten(path: &Path, error: io::Error) -> Error {
    Error::io("write the listing of", path, error).with_kind(ErrorKind::Io)
}

/// A writer of bytes as a writer of text, which keeps the error that text has no room for.
struct Text<'a> {
    out: &'a mut dyn Write,
    error: Option<io::Error>,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}
