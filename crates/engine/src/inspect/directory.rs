//! The listing of a database directory, as data and as text.
//!
//! D1. What the manifest says and what is there are compared: tables that are missing or have
//!     another size, files nothing refers to, names that are not the database's.
//! D2. Where the manifest cannot be read, the files are listed all the same.
//!
//! Threads: any. Tests: `tests/inspect.rs`.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;
use velella_base::file_name::{FileName, JOURNAL_DIR};
use velella_base::{Error, ErrorKind, Result};
use velella_sst::TableMeta;
use velella_tree::manifest::Replay;
use velella_tree::{KeyspaceState, Manifest};
use velella_vfs::{OsFs, Vfs};

/// Bytes of a key that are shown.
const KEY_BYTES: usize = 32;

/// What stands in a database directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DirectoryListing {
    /// The directory.
    pub path: String,
    /// The manifest in force; `None` if it cannot be read, then `damage` says why.
    pub manifest: Option<ManifestListing>,
    /// Living keyspaces, by id.
    pub keyspaces: Vec<KeyspaceListing>,
    /// Tables in force, by keyspace, level and place in the level.
    pub tables: Vec<TableListing>,
    /// External values that tables refer to.
    pub externals: Vec<FileListing>,
    /// Files of the journal.
    pub journal: Vec<FileListing>,
    /// Tables that no keyspace has, external values that no table refers to (the journal still
    /// may), manifests that are not in force.
    pub unreferenced: Vec<FileListing>,
    /// Names that are not the database's.
    pub foreign: Vec<String>,
    /// What is missing or has another size than the manifest says.
    pub damage: Vec<String>,
}

/// A file and its size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileListing {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
}

/// The manifest in force and what it says of the database as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ManifestListing {
    /// The file's name.
    pub name: String,
    /// The database's id, in hexadecimal.
    pub database: String,
    /// Records in it.
    pub records: usize,
    /// Bytes of an edit that was being written when the process died.
    pub torn_bytes: u64,
    /// Number of the run that has or had the database open.
    pub incarnation: u64,
    /// Number of that run's seal file; 0: it keeps no journal.
    pub seal_file: u64,
    /// The highest stamp that may be used before the manifest says a higher one.
    pub clock_lease: u64,
    /// The wall clock at the last opening, in milliseconds since 1970.
    pub wall_ms: u64,
    /// File numbers from here on were never used.
    pub next_file: u64,
}

/// A keyspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyspaceListing {
    /// Its id, never reused.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its layout on disk.
    pub layout: String,
    /// Name of the order of its keys.
    pub order: String,
    /// The settings of its own, one after the other; empty: everything is the database's.
    pub settings: String,
    /// Every write below this stamp is in its tables.
    pub flushed_below: u64,
    /// Number of its tables.
    pub tables: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// A table in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableListing {
    /// Id of its keyspace.
    pub keyspace: u64,
    /// Its level.
    pub level: usize,
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Its entries.
    pub entries: u64,
    /// Lowest and highest stamp.
    pub stamps: (u64, u64),
    /// Smallest and largest key: escaped, long ones cut.
    pub keys: (String, String),
}

/// Lists a database directory, for programs; the second is what is wrong with `CURRENT` or the
/// manifest, if something is, which the listing has in words.
///
/// # Errors
/// `NotFound`: no database there; `AlreadyExists`: another library's; `Io`.
pub fn listing(path: &Path) -> Result<(DirectoryListing, Option<Error>)> {
    survey(&OsFs::new(), path)
}

/// Lists a database directory; the second is what is wrong with `CURRENT` or the manifest.
pub(super) fn survey(vfs: &dyn Vfs, dir: &Path) -> Result<(DirectoryListing, Option<Error>)> {
    let mut listing = DirectoryListing {
        path: dir.display().to_string(),
        ..Default::default()
    };
    let files = Files::read(vfs, dir, &mut listing.foreign)?;
    listing.journal = files.listed(|name| {
        matches!(
            name,
            FileName::Segment(_) | FileName::LargeSegment(_) | FileName::Seal(_)
        )
    });
    let replay = match Manifest::replay(vfs, dir) {
        Ok(replay) => replay,
        // An empty directory, or one of somebody else's.
        Err(error) if error.kind() == ErrorKind::NotFound && !files.is_database() => {
            return Err(error);
        }
        // Another library's, in which nothing is damaged.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
        Err(error) => {
            let error = match error.kind() {
                ErrorKind::NotFound => Manifest::lost_current(vfs, dir).unwrap_or(error),
                _ => error,
            };
            listing.damage.push(error.to_string());
            listing.unreferenced = files.listed(|name| {
                matches!(
                    name,
                    FileName::Manifest(_) | FileName::Table(_) | FileName::External(_)
                )
            });
            return Ok((listing, Some(error)));
        }
    };
    describe(&replay, &files, &mut listing);
    Ok((listing, None))
}

/// Fills in what the manifest knows, compared with the files (D1).
fn describe(replay: &Replay, files: &Files, listing: &mut DirectoryListing) {
    let state = &replay.state;
    listing.manifest = Some(ManifestListing {
        name: bare(FileName::Manifest(replay.file)),
        database: format!("{:032x}", replay.database),
        records: replay.records.len(),
        torn_bytes: replay.torn.map_or(0, |(_, bytes)| bytes),
        incarnation: state.incarnation,
        seal_file: state.seal_file,
        clock_lease: state.clock_lease.0,
        wall_ms: state.wall_ms,
        next_file: state.next_file,
    });
    let mut used = BTreeSet::from([FileName::Manifest(replay.file)]);
    for keyspace in &state.keyspaces {
        listing.keyspaces.push(describe_keyspace(keyspace));
        for (level, tables) in keyspace.levels.iter().enumerate() {
            for table in tables {
                let id = u64::from(keyspace.record.id);
                listing.tables.push(describe_table(id, level, table));
                used.insert(FileName::Table(table.file));
                let found = files.bytes(FileName::Table(table.file));
                if found != Some(table.bytes) {
                    listing
                        .damage
                        .push(amiss(FileName::Table(table.file), found, table.bytes));
                }
            }
        }
    }
    let externals = state
        .tables()
        .flat_map(|table| table.externals.iter().copied());
    for file in externals.collect::<BTreeSet<_>>() {
        let name = FileName::External(file);
        used.insert(name);
        match files.bytes(name) {
            Some(bytes) => listing.externals.push(FileListing {
                name: bare(name),
                bytes,
            }),
            None => listing.damage.push(format!("{} is missing", bare(name))),
        }
    }
    listing.unreferenced = files.listed(|name| {
        let kept = matches!(
            name,
            FileName::Manifest(_) | FileName::Table(_) | FileName::External(_)
        );
        kept && !used.contains(&name)
    });
}

fn amiss(name: FileName, found: Option<u64>, expected: u64) -> String {
    let name = bare(name);
    match found {
        Some(bytes) => format!("{name} has {bytes} bytes, the manifest says {expected}"),
        None => format!("{name} is missing"),
    }
}

fn describe_keyspace(state: &KeyspaceState) -> KeyspaceListing {
    let tables = || state.levels.iter().flatten();
    KeyspaceListing {
        id: u64::from(state.record.id),
        name: state.record.name.clone(),
        layout: state.record.layout.clone(),
        order: state.record.order.clone(),
        settings: state.settings.describe(),
        flushed_below: state.flushed_below.0,
        tables: tables().count(),
        bytes: tables().map(|table| table.bytes).sum(),
    }
}

fn describe_table(keyspace: u64, level: usize, table: &TableMeta) -> TableListing {
    TableListing {
        keyspace,
        level,
        name: bare(FileName::Table(table.file)),
        bytes: table.bytes,
        entries: table.entries(),
        stamps: (table.min_stamp.0, table.max_stamp.0),
        keys: (shown(&table.smallest), shown(&table.largest)),
    }
}

/// The file's name without its directory.
fn bare(name: FileName) -> String {
    let path = name.path(Path::new(""));
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn shown(key: &[u8]) -> String {
    let head = &key[..key.len().min(KEY_BYTES)];
    let cut = if head.len() < key.len() { "…" } else { "" };
    format!("\"{}\"{cut}", head.escape_ascii())
}

/// The database's files that are there, with their sizes.
struct Files(BTreeMap<FileName, u64>);

impl Files {
    /// Reads the directory and its journal's; names that are not ours go to `foreign`.
    fn read(vfs: &dyn Vfs, dir: &Path, foreign: &mut Vec<String>) -> Result<Files> {
        let mut files = Files(BTreeMap::new());
        let mut journal = false;
        for name in vfs.read_dir(dir)? {
            journal |= name == Path::new(JOURNAL_DIR);
            files.add(vfs, dir, &name, foreign);
        }
        if journal {
            for name in vfs.read_dir(&dir.join(JOURNAL_DIR))? {
                let path = Path::new(JOURNAL_DIR).join(name);
                files.add(vfs, dir, &path, foreign);
            }
        }
        Ok(files)
    }

    /// Enters what lies at `path` below `dir`.
    fn add(&mut self, vfs: &dyn Vfs, dir: &Path, path: &Path, foreign: &mut Vec<String>) {
        match FileName::at(path) {
            // Without a size it went away meanwhile.
            Some(ours) => {
                let bytes = vfs.len(&dir.join(path));
                self.0.extend(bytes.ok().map(|bytes| (ours, bytes)));
            }
            None if path == Path::new(JOURNAL_DIR) => {}
            None => foreign.push(path.display().to_string()),
        }
    }

    /// Whether this is what is left of a database.
    fn is_database(&self) -> bool {
        self.0.keys().any(|name| !matches!(name, FileName::Lock))
    }

    fn bytes(&self, name: FileName) -> Option<u64> {
        self.0.get(&name).copied()
    }

    fn listed(&self, wanted: impl Fn(FileName) -> bool) -> Vec<FileListing> {
        let wanted = self.0.iter().filter(|(name, _)| wanted(**name));
        wanted
            .map(|(name, bytes)| FileListing {
                name: bare(*name),
                bytes: *bytes,
            })
            .collect()
    }
}

/// Prints a listing, in columns.
pub(super) fn print(listing: &DirectoryListing, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "directory {}", listing.path)?;
    if let Some(manifest) = &listing.manifest {
        print_manifest(manifest, out)?;
    }
    for damage in &listing.damage {
        writeln!(out, "DAMAGE: {damage}")?;
    }
    print_keyspaces(&listing.keyspaces, out)?;
    print_tables(&listing.tables, out)?;
    print_files("external values", &listing.externals, out)?;
    print_files("journal", &listing.journal, out)?;
    print_files("unreferenced", &listing.unreferenced, out)?;
    let foreign = listing.foreign.iter();
    let foreign = foreign.map(|name| vec![name.escape_debug().to_string()]);
    table(
        "not the database's",
        &["name"],
        &foreign.collect::<Vec<_>>(),
        out,
    )
}

fn print_manifest(manifest: &ManifestListing, out: &mut dyn Write) -> io::Result<()> {
    let ManifestListing {
        name,
        records,
        torn_bytes,
        ..
    } = manifest;
    writeln!(out, "database {}", manifest.database)?;
    let torn = match torn_bytes {
        0 => String::new(),
        bytes => format!(", torn tail of {bytes} bytes"),
    };
    writeln!(out, "manifest {name}, {records} records{torn}")?;
    let (incarnation, seal_file) = (manifest.incarnation, manifest.seal_file);
    writeln!(out, "incarnation {incarnation}, seal file {seal_file:06}")?;
    let (lease, wall_ms) = (manifest.clock_lease, manifest.wall_ms);
    writeln!(
        out,
        "clock lease {lease}, wall clock {wall_ms} ms, next file {}",
        manifest.next_file
    )
}

fn print_keyspaces(keyspaces: &[KeyspaceListing], out: &mut dyn Write) -> io::Result<()> {
    let rows = keyspaces.iter().map(|keyspace| {
        vec![
            keyspace.name.escape_debug().to_string(),
            keyspace.layout.escape_debug().to_string(),
            keyspace.order.escape_debug().to_string(),
            keyspace.id.to_string(),
            keyspace.tables.to_string(),
            keyspace.bytes.to_string(),
            keyspace.flushed_below.to_string(),
            keyspace.settings.escape_debug().to_string(),
        ]
    });
    let heads = [
        "name",
        "layout",
        "order",
        "#id",
        "#tables",
        "#bytes",
        "#flushed below",
        "settings",
    ];
    table("keyspaces", &heads, &rows.collect::<Vec<_>>(), out)
}

fn print_tables(tables: &[TableListing], out: &mut dyn Write) -> io::Result<()> {
    let rows = tables.iter().map(|one| {
        vec![
            one.keyspace.to_string(),
            one.level.to_string(),
            one.name.clone(),
            one.bytes.to_string(),
            one.entries.to_string(),
            one.stamps.0.to_string(),
            one.stamps.1.to_string(),
            one.keys.0.clone(),
            one.keys.1.clone(),
        ]
    });
    let heads = [
        "#keyspace",
        "#level",
        "name",
        "#bytes",
        "#entries",
        "#stamps from",
        "#to",
        "keys from",
        "to",
    ];
    table("tables", &heads, &rows.collect::<Vec<_>>(), out)
}

fn print_files(title: &str, files: &[FileListing], out: &mut dyn Write) -> io::Result<()> {
    let rows = files
        .iter()
        .map(|file| vec![file.name.clone(), file.bytes.to_string()]);
    table(title, &["name", "#bytes"], &rows.collect::<Vec<_>>(), out)
}

/// Prints rows below heads, aligned; a head that begins with `#` stands over numbers. Nothing is
/// printed for no rows.
fn table(title: &str, heads: &[&str], rows: &[Vec<String>], out: &mut dyn Write) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let numbers: Vec<bool> = heads.iter().map(|head| head.starts_with('#')).collect();
    let heads: Vec<String> = heads
        .iter()
        .map(|head| head.trim_start_matches('#').to_owned())
        .collect();
    let all = || std::iter::once(&heads).chain(rows);
    let wide = |column: usize| {
        all()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(wide).collect();
    writeln!(out, "\n{title}")?;
    for row in all() {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            line += "  ";
            line += &if numbers[column] {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            };
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}
