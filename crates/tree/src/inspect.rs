//! A manifest or an external value as text, for the command line.
//!
//! Tests: `manifest/tests.rs`.

use crate::external;
use crate::header::HEADER_BYTES;
use crate::manifest::{Edit, Manifest, Record, Replay, State};
use std::fmt::Write;
use std::path::Path;
use velella_base::{Error, Result, ValueKind};
use velella_sst::TableMeta;
use velella_vfs::Vfs;

/// Lists the manifest of the database in `dir`: every record and edit, then the state they add up
/// to. Reads only.
///
/// # Errors
/// As [`Manifest::open`].
pub fn manifest(vfs: &dyn Vfs, dir: &Path) -> Result<String> {
    Ok(describe_replay(&Manifest::replay(vfs, dir)?))
}

/// Lists the one manifest file at `path`, in force or not, as far as it is whole; the second is
/// the damage that ended it. Reads only.
///
/// # Errors
/// As [`Manifest::salvage`].
pub fn manifest_file(vfs: &dyn Vfs, path: &Path, file: u64) -> Result<(String, Option<Error>)> {
    let (replay, damage) = Manifest::salvage(vfs, path, file)?;
    Ok((describe_replay(&replay), damage))
}

/// Describes the external value at `path`; its checksum is computed, since only those who refer to
/// the file know what it should be. Reads only.
///
/// # Errors
/// `Corruption`, `Unsupported`: its header cannot be read; what the file system refused.
pub fn external(vfs: &dyn Vfs, path: &Path, file: u64) -> Result<String> {
    let source = vfs.open_read(path)?;
    let (header, crc) = external::scan(&*source, file)?;
    let bytes = source.len() - HEADER_BYTES as u64;
    let mut out = String::new();
    line(
        &mut out,
        0,
        &format!(
            "external value {file:06} of database {:032x}",
            header.database
        ),
    );
    line(&mut out, 1, &format!("format version {}", header.version));
    line(&mut out, 1, &format!("{bytes} bytes, crc32c {crc:08x}"));
    Ok(out)
}

fn describe_replay(replay: &Replay) -> String {
    let mut out = String::new();
    line(
        &mut out,
        0,
        &format!(
            "manifest {:06} of database {:032x}",
            replay.file, replay.database
        ),
    );
    for record in &replay.records {
        list_record(&mut out, record);
    }
    if let Some((offset, bytes)) = replay.torn {
        line(
            &mut out,
            0,
            &format!("torn tail at {offset}: {bytes} bytes, never acknowledged"),
        );
    }
    list_state(&mut out, &replay.state);
    out
}

fn line(out: &mut String, depth: usize, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{:indent$}{text}", "", indent = depth * 2);
}

fn list_record(out: &mut String, record: &Record) {
    line(
        out,
        0,
        &format!("record at {}, {} bytes", record.offset, record.bytes),
    );
    for edit in &record.edits {
        line(out, 1, &describe(edit));
        if let Edit::AddTables { tables, .. } = edit {
            for table in tables {
                line(out, 2, &describe_table(table));
            }
        }
    }
}

/// One edit in one line; tables are only counted.
#[must_use]
pub fn describe(edit: &Edit) -> String {
    let name = edit.name();
    match edit {
        Edit::CreateKeyspace(record) => format!(
            "{name} {} \"{}\" layout={} order={} merge=\"{}\" prefix=\"{}\" at {}",
            record.id,
            record.name.escape_debug(),
            record.layout.escape_debug(),
            record.order.escape_debug(),
            record.merge_operator.escape_debug(),
            record.prefix_extractor.escape_debug(),
            record.created
        ),
        Edit::DropKeyspace { id, stamp } => format!("{name} {id} at {stamp}"),
        Edit::AddTables {
            keyspace,
            level,
            tables,
        } => format!(
            "{name} keyspace={keyspace} level={level} count={}",
            tables.len()
        ),
        Edit::RemoveTables { keyspace, files } => format!("{name} keyspace={keyspace} {files:?}"),
        Edit::Flushed { keyspace, below } => format!("{name} keyspace={keyspace} below={below}"),
        Edit::Incarnation {
            number, seal_file, ..
        } => format!("{name} {number} seal={seal_file:06}"),
        Edit::ClockLease { until } => format!("{name} until={until}"),
        Edit::WallClock { ms } => format!("{name} {ms} ms"),
        Edit::FileLease { until } => format!("{name} below={until}"),
        Edit::Origin { below, database } => format!("{name} below={below} {database:032x}"),
        Edit::KeyspaceIds { next } => format!("{name} next={next}"),
        Edit::Durable { below } => format!("{name} below={below}"),
        Edit::KeyspaceSettings { keyspace, settings } => {
            format!("{name} keyspace={keyspace} {}", settings.describe())
        }
    }
}

/// A table in one line.
#[must_use]
pub fn describe_table(table: &TableMeta) -> String {
    let mut text = format!(
        "{:06} {} bytes, stamps {}..={}, keys \"{}\"..=\"{}\"",
        table.file,
        table.bytes,
        table.min_stamp,
        table.max_stamp,
        table.smallest.escape_ascii(),
        table.largest.escape_ascii()
    );
    for kind in ValueKind::ALL {
        let count = table.kinds[kind as usize];
        if count != 0 {
            let _ = write!(text, ", {count} {}", kind.name());
        }
    }
    text
}

fn list_state(out: &mut String, state: &State) {
    line(out, 0, "state");
    line(
        out,
        1,
        &format!(
            "next file {}, next keyspace {}",
            state.next_file, state.next_keyspace
        ),
    );
    line(
        out,
        1,
        &format!(
            "incarnation {}, seal file {:06}",
            state.incarnation, state.seal_file
        ),
    );
    line(
        out,
        1,
        &format!(
            "clock lease {}, durable below {}, wall clock {} ms",
            state.clock_lease, state.durable_below, state.wall_ms
        ),
    );
    for keyspace in &state.keyspaces {
        let record = &keyspace.record;
        let below = keyspace.flushed_below;
        line(
            out,
            1,
            &format!(
                "keyspace {} \"{}\", flushed below {below}",
                record.id, record.name
            ),
        );
        if !keyspace.settings.is_empty() {
            let settings = keyspace.settings.describe();
            line(out, 2, &format!("settings of its own: {settings}"));
        }
        for (level, tables) in keyspace.levels.iter().enumerate() {
            let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
            line(
                out,
                2,
                &format!("level {level}: {} tables, {bytes} bytes", tables.len()),
            );
        }
    }
}
