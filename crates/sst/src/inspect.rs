//! Describes a table file for people: footer, properties, blocks, entries.
//!
//! I1. It believes the file about its owner and its order, so it works on a file alone.
//! I2. A damaged block is named and stepped over; the first damage is returned at the end.
//!
//! Threads: any. Tests: tests/inspect.rs.

use crate::block::cursor::BlockCursor;
use crate::counters::Counters;
use crate::format::{FOOTER_BYTES, Footer, Handle};
use crate::parts::Parts;
use crate::properties::{Properties, Shadowed};
use crate::source::Source;
use std::io;
use std::sync::Arc;
use velella_base::{Entry, Error, Result, ValueKind};
use velella_vfs::ReadFile;

/// Bytes of a key or value that are printed.
const SHOWN_BYTES: usize = 64;

/// How much [`inspect`] writes; each includes the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Detail {
    /// Footer and properties.
    #[default]
    Summary,
    /// A line for every data block.
    Blocks,
    /// A line for every entry.
    Entries,
}

/// Writes a description of the table `file` to `out`.
///
/// # Errors
/// `Corruption` with file and offset of the first damage, after describing the rest (I2);
/// `Unsupported`; `Io`, also of `out`.
pub fn inspect(file: Arc<dyn ReadFile>, detail: Detail, out: &mut dyn io::Write) -> Result<()> {
    let (source, parts) = Parts::load(file, None, None, Arc::new(Counters::default()))?;
    let path = source.file.path();
    let unwritten = |error| Error::io("write the description of", path, error);
    describe_footer(&source, &parts.footer, out).map_err(unwritten)?;
    describe_properties(&parts.properties, out).map_err(unwritten)?;
    if detail == Detail::Summary {
        return Ok(());
    }
    writeln!(out, "blocks").map_err(unwritten)?;
    let mut damage = None;
    for number in 0..parts.index.len() {
        let described = describe_block(&source, &parts, number, detail, out);
        let Err(error) = described.map_err(unwritten)? else {
            continue;
        };
        writeln!(out, "  block {number} is damaged: {error}").map_err(unwritten)?;
        damage.get_or_insert(error);
    }
    damage.map_or(Ok(()), Err)
}

fn describe_footer(source: &Source, footer: &Footer, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "table {}", source.file.path().display())?;
    writeln!(out, "  format version {}", footer.version)?;
    writeln!(out, "  database {:032x}", footer.context.database)?;
    writeln!(out, "  file number {}", footer.context.file)?;
    writeln!(out, "  {} bytes", footer.file_bytes)?;
    writeln!(
        out,
        "  features: read {:#x}, write {:#x}, ignore {:#x}",
        footer.read_features, footer.write_features, footer.ignore_features
    )?;
    let end = Handle {
        offset: footer.properties.end(),
        len: FOOTER_BYTES as u64,
    };
    for (name, handle) in [
        ("filter", footer.filter),
        ("index", footer.index),
        ("properties", footer.properties),
        ("footer", end),
    ] {
        writeln!(
            out,
            "  {name} at offset {}, {} bytes",
            handle.offset, handle.len
        )?;
    }
    Ok(())
}

fn describe_properties(properties: &Properties, out: &mut dyn io::Write) -> io::Result<()> {
    let meta = &properties.meta;
    writeln!(out, "properties")?;
    writeln!(out, "  order {}", properties.order.escape_debug())?;
    writeln!(
        out,
        "  {} blocks, {} bytes before compression",
        properties.blocks, properties.raw_block_bytes
    )?;
    writeln!(
        out,
        "  {} entries, {} bytes",
        meta.entries(),
        meta.raw_bytes
    )?;
    for kind in ValueKind::ALL {
        writeln!(out, "    {} {}", kind.name(), meta.kinds[kind as usize])?;
    }
    writeln!(
        out,
        "  keys {} to {}",
        shown(&meta.smallest),
        shown(&meta.largest)
    )?;
    writeln!(out, "  stamps {} to {}", meta.min_stamp, meta.max_stamp)?;
    if let (Some(min), Some(max)) = (meta.min_expiry_ms, meta.max_expiry_ms) {
        writeln!(out, "  expiries {min} ms to {max} ms since 1970")?;
    }
    if let Some(Shadowed { entries, by }) = meta.shadowed.filter(|beneath| beneath.entries > 0) {
        writeln!(
            out,
            "  {entries} entries beneath newer versions, which are at or below stamp {by}"
        )?;
    }
    writeln!(out, "  {} bloom bits per key", properties.bloom_bits)?;
    writeln!(out, "  external values {:?}", meta.externals)
}

/// Describes a block; the inner error is the block's damage.
fn describe_block(
    source: &Source,
    parts: &Parts,
    number: usize,
    detail: Detail,
    out: &mut dyn io::Write,
) -> io::Result<Result<()>> {
    let handle = parts.index.handle(number);
    let malformed = |malformed| Err(source.malformed(handle.offset, malformed));
    let (block, compression) = match source.read_with_compression(handle) {
        Ok(read) => read,
        Err(error) => return Ok(Err(error)),
    };
    let raw_bytes = block.len();
    let mut cursor = match BlockCursor::new(block) {
        Ok(cursor) => cursor,
        Err(found) => return Ok(malformed(found)),
    };
    let (separator, stamp) = parts.index.separator(number);
    writeln!(
        out,
        "  block {number} at offset {}, {} bytes, {raw_bytes} as {}, {} entries, \
         up to {} at {stamp}",
        handle.offset,
        handle.len,
        compression.name(),
        cursor.entries(),
        shown(&separator),
    )?;
    if detail < Detail::Entries {
        return Ok(Ok(()));
    }
    let mut moved = cursor.seek_first();
    while let Some(entry) = cursor.entry() {
        describe_entry(&entry, out)?;
        moved = cursor.next();
    }
    Ok(moved.or_else(malformed))
}

fn describe_entry(entry: &Entry<'_>, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(
        out,
        "    {} at {}: {}, {} bytes {}",
        shown(entry.key),
        entry.stamp,
        entry.kind.name(),
        entry.value.len(),
        shown(entry.value),
    )
}

/// Bytes in quotes, escaped, long ones cut.
fn shown(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let cut = if head.len() < bytes.len() { "…" } else { "" };
    format!("\"{}\"{cut}", head.escape_ascii())
}
