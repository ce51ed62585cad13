//! A listing of the journal's files for people.
//!
//! N1. Everything is read from the files themselves: no manifest, no other file is needed.
//! N2. Damage is written into the listing, with file and offset, and the listing goes on behind it
//!     where that is possible: at the next extent, the next slot, the next file.
//! N3. Memory is bounded by one extent.
//!
//! Threads: any; the journal may be in use, then the listing is of some moment.
//!
//! Tests: `tests/listing.rs`.

use crate::batch;
use crate::config::EXTENT_BYTES_MAX;
use crate::extent::{self, ExtentHeader, Found};
use crate::header::{FileHeader, HEADER, Magic, PAGE};
use crate::record::{self, Decoded, Header, Kind, LaneSeed, Reference};
use crate::seal::{DONE_LEN, Layout, Slot};
use std::fmt::{self, Write};
use std::path::Path;
use velella_base::file_name::{FileName, JOURNAL_DIR};
use velella_base::{Error, Result};
use velella_sync::crc::crc32c_append;
use velella_vfs::{ReadFile, Vfs};

const OUT_OF_RANGE: &str = "the header's numbers are out of range";

/// How much a listing says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// Files, extents, seals.
    #[default]
    Extents,
    /// Each record.
    Records,
    /// Each operation of each record.
    Operations,
}

/// Lists every file of the journal of the database in `dir`.
///
/// # Errors
/// The directory cannot be listed; `out` refused. What is wrong with a file is part of the listing.
pub fn journal(vfs: &dyn Vfs, dir: &Path, detail: Detail, out: &mut dyn Write) -> Result<()> {
    let journal = dir.join(JOURNAL_DIR);
    for name in vfs.read_dir(&journal)? {
        let path = journal.join(&name);
        let listed = match name.to_str().and_then(FileName::parse) {
            Some(FileName::Segment(_)) => segment(vfs, &path, detail, out),
            Some(FileName::LargeSegment(_)) => large(vfs, &path, out),
            Some(FileName::Seal(_)) => seals(vfs, &path, out),
            _ => say(
                out,
                format_args!("{}: not a file of the journal", path.display()),
            ),
        };
        if let Err(error) = listed {
            say(out, format_args!("DAMAGE: {error}"))?;
        }
    }
    Ok(())
}

/// Lists the extents of a segment, and with more `detail` what is in them.
///
/// # Errors
/// The file cannot be opened; `out` refused.
pub fn segment(vfs: &dyn Vfs, path: &Path, detail: Detail, out: &mut dyn Write) -> Result<()> {
    let file = vfs.open_read(path)?;
    let Some(header) = head(&*file, Magic::Segment, out)? else {
        return Ok(());
    };
    let [bytes, extent_bytes, ..] = header.parameters;
    let extent_bytes = extent_bytes.max(PAGE + extent::HEADER);
    if file.len() < bytes {
        let found = format_args!("DAMAGE: {} of {bytes} bytes are there", file.len());
        say(out, found)?;
    }
    if extent_bytes > EXTENT_BYTES_MAX {
        return say(out, format_args!("  DAMAGE: {OUT_OF_RANGE}"));
    }
    for index in 0..bytes.min(file.len()).div_ceil(extent_bytes) {
        let (position, len) = extent::place(index, extent_bytes);
        let end = (position + len).min(file.len());
        if position + extent::HEADER <= end {
            list_extent(&*file, position, end, detail, out)?;
        }
    }
    match header.version {
        1 => Ok(()),
        _ => slots(&*file, &Layout::strip(&header), out),
    }
}

fn list_extent(
    file: &dyn ReadFile,
    position: u64,
    end: u64,
    detail: Detail,
    out: &mut dyn Write,
) -> Result<()> {
    let mut bytes = vec![0; usize::try_from(end - position).unwrap_or(0)];
    if let Err(error) = file.read_exact_at(&mut bytes, position) {
        return say(out, format_args!("  DAMAGE: {error}"));
    }
    let mut header = [0; extent::HEADER_LEN];
    header.copy_from_slice(&bytes[..extent::HEADER_LEN]);
    match ExtentHeader::decode(&header, position) {
        Found::Nothing => Ok(()),
        Found::Damaged => say(
            out,
            format_args!("  DAMAGE at {position}: neither an extent nor empty"),
        ),
        Found::Header(header) => {
            say(
                out,
                format_args!(
                    "  extent at {position}: segment {} incarnation {} lane {} ordinal {} from \
                     lane offset {}",
                    header.segment,
                    header.incarnation,
                    header.lane,
                    header.ordinal,
                    header.lane_offset
                ),
            )?;
            Walk::new(&header, position, &bytes).list(detail, out)
        }
    }
}

/// A walk over one extent in memory.
struct Walk<'a> {
    seed: LaneSeed,
    lane_offset: u64,
    /// Where the extent begins in its file.
    base: u64,
    bytes: &'a [u8],
    /// Where the walk is in the extent.
    at: usize,
    records: u64,
}

impl<'a> Walk<'a> {
    fn new(header: &ExtentHeader, base: u64, bytes: &'a [u8]) -> Walk<'a> {
        Walk {
            seed: LaneSeed::new(header.database, header.incarnation, header.lane),
            lane_offset: header.lane_offset,
            base,
            bytes,
            at: extent::HEADER_LEN,
            records: 0,
        }
    }

    fn seed_at(&self, at: usize) -> u32 {
        self.seed.at(self.offset_at(at))
    }

    /// The lane offset of what stands there; wraps only where a header was forged.
    fn offset_at(&self, at: usize) -> u64 {
        let within = (at - extent::HEADER_LEN) as u64;
        self.lane_offset.wrapping_add(within)
    }

    fn decode(&self, at: usize) -> Decoded {
        let Some(bytes) = self.bytes.get(at..at + record::HEADER_LEN) else {
            return Decoded::Nothing;
        };
        let mut header = [0; record::HEADER_LEN];
        header.copy_from_slice(bytes);
        record::decode(self.seed_at(at), &header, (self.bytes.len() - at) as u64)
    }

    fn list(mut self, detail: Detail, out: &mut dyn Write) -> Result<()> {
        loop {
            match self.decode(self.at) {
                Decoded::Nothing => {
                    if !self.skip() {
                        break;
                    }
                }
                Decoded::Invalid(found) => {
                    let at = self.base + self.at as u64;
                    say(out, format_args!("    DAMAGE or end at {at}: {found}"))?;
                    break;
                }
                Decoded::Header(header) => {
                    self.record(&header, detail, out)?;
                    self.at += usize::try_from(header.footprint()).unwrap_or(usize::MAX / 2);
                    if header.kind == Kind::End {
                        break;
                    }
                }
            }
        }
        let end = self.base + self.at as u64;
        say(out, format_args!("    {} records, to {end}", self.records))
    }

    /// Follows a skip record on the next page.
    fn skip(&mut self) -> bool {
        let page = (self.at + 1).next_multiple_of(4096);
        let Decoded::Header(header) = self.decode(page) else {
            return false;
        };
        let left = self.offset_at(self.at);
        let is_skip = header.kind == Kind::Skip
            && self
                .payload(page, &header)
                .is_some_and(|payload| payload == left.to_le_bytes());
        if is_skip {
            self.at = page + record::HEADER_LEN + 8;
        }
        is_skip
    }

    fn payload(&self, at: usize, header: &Header) -> Option<&'a [u8]> {
        let from = at + record::HEADER_LEN;
        let len = usize::try_from(header.payload).ok()?;
        self.bytes.get(from..from.checked_add(len)?)
    }

    fn record(&mut self, header: &Header, detail: Detail, out: &mut dyn Write) -> Result<()> {
        self.records += u64::from(matches!(header.kind, Kind::Data | Kind::Large));
        let at = self.base + self.at as u64;
        let payload = self.payload(self.at, header).unwrap_or_default();
        let valid = crc32c_append(self.seed_at(self.at), payload) == header.payload_crc;
        if !valid {
            let stamp = header.stamp;
            let found = "the payload's checksum does not match";
            say(
                out,
                format_args!("    DAMAGE at {at}: stamp {stamp}: {found}"),
            )?;
        }
        if detail == Detail::Extents {
            return Ok(());
        }
        match (header.kind, Reference::decode(payload)) {
            (Kind::Large, Some(to)) => say(
                out,
                format_args!(
                    "    {at}: stamp {} {} bytes in large file {} at {}",
                    header.stamp, to.len, to.file, to.offset
                ),
            ),
            (Kind::End, _) => say(out, format_args!("    {at}: end")),
            _ => {
                let (stamp, len) = (header.stamp, header.payload);
                say(out, format_args!("    {at}: stamp {stamp} {len} bytes"))?;
                if detail == Detail::Operations && valid && header.kind == Kind::Data {
                    operations(payload, out)?;
                }
                Ok(())
            }
        }
    }
}

fn operations(payload: &[u8], out: &mut dyn Write) -> Result<()> {
    for operation in batch::decode(payload) {
        match operation {
            Ok(operation) => say(
                out,
                format_args!(
                    "      {} keyspace {} key \"{}\" value of {} bytes",
                    operation.kind.name(),
                    operation.keyspace,
                    operation.key.escape_ascii(),
                    operation.value.len()
                ),
            )?,
            Err(error) => say(out, format_args!("      DAMAGE: {error}"))?,
        }
    }
    Ok(())
}

/// Says whose a file of large payloads is; they are listed where lanes refer to them.
///
/// # Errors
/// The file cannot be opened; `out` refused.
pub fn large(vfs: &dyn Vfs, path: &Path, out: &mut dyn Write) -> Result<()> {
    let file = vfs.open_read(path)?;
    if let Some(header) = head(&*file, Magic::Large, out)? {
        let payload = file.len().saturating_sub(PAGE);
        let lane = header.parameters[0];
        say(
            out,
            format_args!("  lane {lane}, {payload} bytes of payloads"),
        )?;
    }
    Ok(())
}

/// Lists the seals and done markers of a seal file, by slot.
///
/// # Errors
/// The file cannot be opened; `out` refused.
pub fn seals(vfs: &dyn Vfs, path: &Path, out: &mut dyn Write) -> Result<()> {
    let file = vfs.open_read(path)?;
    let Some(header) = head(&*file, Magic::Seal, out)? else {
        return Ok(());
    };
    let anchors = Layout::of(&header);
    slots(&*file, &anchors, out)?;
    match header.version > 1 && anchors.is_sane(file.len()) {
        true => slots(&*file, &Layout::shadows(&header), out),
        false => Ok(()),
    }
}

/// Lists what the slots of a ring hold.
fn slots(file: &dyn ReadFile, layout: &Layout, out: &mut dyn Write) -> Result<()> {
    if !layout.is_sane(file.len()) {
        let found = format_args!("  DAMAGE: {OUT_OF_RANGE}, or slots are missing");
        return say(out, found);
    }
    let mut bytes = vec![0; usize::try_from(layout.seal_len()).unwrap_or(0)];
    for slot in 0..layout.slots {
        let at = layout.seal_at(slot);
        match file
            .read_exact_at(&mut bytes, at)
            .map(|()| layout.decode_seal(slot, &bytes))
        {
            Ok(Slot::Empty) => {}
            Ok(Slot::Damaged) => say(out, format_args!("  DAMAGE or torn at {at}: no seal"))?,
            Ok(Slot::Intact(seal)) => {
                let closed = if seal.closed { " closed" } else { "" };
                let failed = if seal.failed { " failed" } else { "" };
                let note = Some(seal.note).filter(|note| *note != 0);
                let note = note.map_or(String::new(), |note| format!(" note {note:#x}"));
                let (round, frontier, wall) = (seal.round, seal.frontier, seal.wall_ms);
                let (anchor, home) = (seal.anchor, seal.home);
                say(
                    out,
                    format_args!(
                        "  seal {round} at {at}: F {frontier} wall {wall} ms anchor {anchor} home \
                         {home}{closed}{failed}{note}"
                    ),
                )?;
                for (lane, (start, end)) in seal.lanes.iter().enumerate() {
                    if *end > 0 {
                        say(out, format_args!("    lane {lane}: [{start}, {end})"))?;
                    }
                }
            }
            Err(error) => return say(out, format_args!("  DAMAGE: {error}")),
        }
        if layout.has_dones() {
            list_done(file, layout, slot, out)?;
        }
    }
    Ok(())
}

fn list_done(file: &dyn ReadFile, layout: &Layout, slot: u64, out: &mut dyn Write) -> Result<()> {
    let at = layout.done_at(slot);
    let mut bytes = [0; DONE_LEN];
    match file
        .read_exact_at(&mut bytes, at)
        .map(|()| layout.decode_done(slot, &bytes))
    {
        Ok(Slot::Empty) => Ok(()),
        Ok(Slot::Damaged) => say(
            out,
            format_args!("  DAMAGE or torn at {at}: no done marker"),
        ),
        Ok(Slot::Intact(number)) => say(out, format_args!("  done {number} at {at}")),
        Err(error) => say(out, format_args!("  DAMAGE: {error}")),
    }
}

/// Lists the file's header and returns it, if it is one.
fn head(file: &dyn ReadFile, magic: Magic, out: &mut dyn Write) -> Result<Option<FileHeader>> {
    let mut bytes = [0; HEADER];
    let path = file.path().display();
    if let Err(error) = file.read_exact_at(&mut bytes, 0) {
        say(out, format_args!("{path}: DAMAGE: {error}"))?;
        return Ok(None);
    }
    match FileHeader::decode(&bytes) {
        Ok(header) if header.magic == magic => {
            say(
                out,
                format_args!(
                    "{path}: database {:032x} file {} incarnation {} seals in {}",
                    header.database, header.file, header.incarnation, header.seal_file
                ),
            )?;
            Ok(Some(header))
        }
        Ok(_) => {
            say(
                out,
                format_args!("{path}: DAMAGE: the header of another kind of file"),
            )?;
            Ok(None)
        }
        Err(no) => {
            say(out, format_args!("{path}: DAMAGE: {}", no.found()))?;
            Ok(None)
        }
    }
}

fn say(out: &mut dyn Write, line: fmt::Arguments<'_>) -> Result<()> {
    writeln!(out, "{line}").map_err(|_| {
        Error::new(
            velella_base::ErrorKind::Io,
            "write the listing",
            "its receiver refused it",
        )
    })
}
