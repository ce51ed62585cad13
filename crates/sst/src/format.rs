//! The fixed parts of a table file: magic, header, block trailers, footer.
//!
//! ```text
//! file    := magic:8 block* filter? index properties footer
//! block   := payload compression:u8 transform:u8 crc32c:u32
//! footer  := body:84 crc32c:u32 tail:24
//! tail    := version:u32 footer_bytes:u32 tail_crc:u32 zero:u32 magic:8
//! ```
//! Byte by byte: docs/format/sst.md.
//!
//! F1. Blocks stand one after another without gaps, from the header to the footer, so that every
//!     byte of the file is a header's, a block's or the footer's.
//! F2. A block's checksum covers payload and both type bytes, and is seeded by database, file and
//!     offset.
//! F3. The tail keeps its place and shape in every version: any build can say which version a
//!     table is of.
//! F4. `decode` trusts nothing: it checks the tail, the version, the checksum, then the owner, then
//!     that the parts tile the file.
//!
//! Threads: none. Tests: `format/tests.rs`; every byte of a table is flipped in tests/damage.rs.

use std::path::Path;
use velella_base::checksum::{self, Context};
use velella_base::codec::Reader;
use velella_base::{Error, ErrorKind, Result, seeded};

/// First and last eight bytes of every table.
pub(crate) const MAGIC: [u8; 8] = *b"VELLTABL";
/// The format this build writes, and the newest it reads. Version 1 differs in its blocks only,
/// which say so themselves.
pub(crate) const VERSION: u32 = 2;
/// Bytes of the header: the magic.
pub(crate) const HEADER_BYTES: u64 = MAGIC.len() as u64;
/// Bytes behind a block's payload: compression, transform, checksum.
pub(crate) const TRAILER_BYTES: usize = 6;
/// Features that change how a table is read; none yet. A table with others is refused.
pub(crate) const READ_FEATURES: u32 = 0;
/// Features a compaction must understand to rewrite a table; none yet.
pub(crate) const WRITE_FEATURES: u32 = 0;
/// Bytes of the footer.
pub(crate) const FOOTER_BYTES: usize = BODY_BYTES + 4 + TAIL_BYTES;

#[expect(clippy::cast_possible_truncation, reason = "112")]
const FOOTER_BYTES_U32: u32 = FOOTER_BYTES as u32;
const BODY_BYTES: usize = 84;
const TAIL_BYTES: usize = 24;
const CHECKSUM_CRC32C: u8 = 1;
/// A block as it is; other numbers are reserved for encryption.
const TRANSFORM_NONE: u8 = 0;

/// Where a block stands: offset of its payload, and length with the trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Handle {
    /// Offset in the file.
    pub offset: u64,
    /// Bytes on disk, trailer included; 0: there is none.
    pub len: u64,
}

impl Handle {
    /// Offset of the first byte behind the block.
    #[must_use]
    pub(crate) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// What the footer says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Footer {
    /// The version of the format that the table is written in.
    pub version: u32,
    /// Whose table it is.
    pub context: Context,
    /// The file's length in bytes, this footer included.
    pub file_bytes: u64,
    /// The Bloom filter, if there is one.
    pub filter: Handle,
    /// The index.
    pub index: Handle,
    /// The properties.
    pub properties: Handle,
    /// Features that change how the table is read.
    pub read_features: u32,
    /// Features that whoever rewrites the table must know.
    pub write_features: u32,
    /// Features that may be ignored.
    pub ignore_features: u32,
    /// The compression the table was written with; each block says its own.
    pub compression: u8,
}

impl Footer {
    /// The footer as it ends the file.
    #[must_use]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FOOTER_BYTES);
        out.extend_from_slice(&self.context.database.to_le_bytes());
        out.extend_from_slice(&self.context.file.to_le_bytes());
        out.extend_from_slice(&self.file_bytes.to_le_bytes());
        // F1: filter, index and properties tile the space in front of the footer, so three
        // offsets and their order say all lengths.
        out.extend_from_slice(&self.filter.offset.to_le_bytes());
        out.extend_from_slice(&self.index.offset.to_le_bytes());
        out.extend_from_slice(&self.properties.offset.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.read_features.to_le_bytes());
        out.extend_from_slice(&self.write_features.to_le_bytes());
        out.extend_from_slice(&self.ignore_features.to_le_bytes());
        out.extend_from_slice(&[CHECKSUM_CRC32C, self.compression, TRANSFORM_NONE, 0]);
        out.extend_from_slice(&[0; 4]);
        debug_assert_eq!(out.len(), BODY_BYTES);
        let offset = self.file_bytes - FOOTER_BYTES as u64;
        let crc = checksum::at(self.context.seed(), offset, &out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.extend_from_slice(&tail(self.version, FOOTER_BYTES_U32));
        out
    }

    /// Reads the footer from `bytes`, the last [`FOOTER_BYTES`] of a file of `file_bytes` bytes.
    /// `expected` is whose table it should be; `None` believes the footer (F4).
    ///
    /// # Errors
    /// `Corruption`, with file and offset; `Unsupported`: a newer format or unknown features.
    pub(crate) fn decode(
        bytes: &[u8],
        file_bytes: u64,
        path: &Path,
        expected: Option<Context>,
    ) -> Result<Footer> {
        let offset = file_bytes.saturating_sub(FOOTER_BYTES as u64);
        let damaged = |found: &str| Error::corruption(ATTEMPT, path, offset, found);
        let version = check_tail(bytes, file_bytes, path)?;
        let (body, rest) = bytes
            .split_at_checked(BODY_BYTES)
            .ok_or_else(|| damaged("the footer is cut short"))?;
        let crc = Reader::new(rest)
            .u32()
            .ok_or_else(|| damaged("the footer is cut short"))?;
        let (footer, ids) =
            Self::parse(body, version).ok_or_else(|| damaged("the footer is cut short"))?;
        if checksum::at(footer.context.seed(), offset, body) != crc {
            return Err(damaged("the footer's checksum does not match"));
        }
        if let Some(expected) = expected
            && expected != footer.context
        {
            return Err(damaged(&format!(
                "it is table {} of database {:032x}, where table {} of database {:032x} belongs",
                footer.context.file, footer.context.database, expected.file, expected.database
            )));
        }
        footer.check(ids, path, offset)?;
        if footer.file_bytes != file_bytes || !footer.tiles(offset) {
            return Err(damaged("the footer describes a file of another shape"));
        }
        Ok(footer)
    }

    /// Refuses a table that a compaction of this build could not rewrite without loss.
    ///
    /// # Errors
    /// `Unsupported`, naming the features.
    pub(crate) fn check_rewritable(&self, path: &Path) -> Result<()> {
        known(self.write_features, WRITE_FEATURES, "rewrite", path)
    }

    fn parse(body: &[u8], version: u32) -> Option<(Footer, [u8; 4])> {
        let mut reader = Reader::new(body);
        let context = Context {
            database: reader.u128()?,
            file: reader.u64()?,
        };
        let file_bytes = reader.u64()?;
        let [filter, index, properties] = [reader.u64()?, reader.u64()?, reader.u64()?];
        let _reserved = reader.u64()?;
        let footer = Footer {
            version,
            context,
            file_bytes,
            filter: between(filter, index),
            index: between(index, properties),
            properties: between(properties, file_bytes.saturating_sub(FOOTER_BYTES as u64)),
            read_features: reader.u32()?,
            write_features: reader.u32()?,
            ignore_features: reader.u32()?,
            compression: 0,
        };
        let ids = *reader.rest().first_chunk()?;
        let [_, compression, _, _] = ids;
        Some((
            Footer {
                compression,
                ..footer
            },
            ids,
        ))
    }

    fn check(&self, ids: [u8; 4], path: &Path, offset: u64) -> Result<()> {
        known(self.read_features, READ_FEATURES, "read", path)?;
        let [sum, _, transform, _] = ids;
        if sum != CHECKSUM_CRC32C || transform != TRANSFORM_NONE {
            return Err(Error::new(
                ErrorKind::Unsupported,
                ATTEMPT,
                format!("checksum type {sum}, block transform {transform}: unknown to this build"),
            )
            .on(path)
            .at(offset)
            .remedy(UPGRADE));
        }
        Ok(())
    }

    fn tiles(&self, footer_offset: u64) -> bool {
        self.filter.offset >= HEADER_BYTES
            && self.filter.offset <= self.index.offset
            && self.index.offset <= self.properties.offset
            && self.properties.offset <= footer_offset
    }
}

const ATTEMPT: &str = "open table";
const UPGRADE: &str = "open it with the version of Velella that wrote it, or a newer one";

fn between(start: u64, end: u64) -> Handle {
    Handle {
        offset: start,
        len: end.saturating_sub(start),
    }
}

fn known(features: u32, supported: u32, attempt: &str, path: &Path) -> Result<()> {
    if features & !supported == 0 {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("{attempt} table"),
        format!(
            "it uses features {features:#x}; this build knows {supported:#x} (format version \
             {VERSION})"
        ),
    )
    .on(path)
    .remedy(UPGRADE))
}

/// The last bytes of a table of any version (F3).
fn tail(version: u32, footer_bytes: u32) -> [u8; TAIL_BYTES] {
    let mut tail = [0; TAIL_BYTES];
    tail[..4].copy_from_slice(&version.to_le_bytes());
    tail[4..8].copy_from_slice(&footer_bytes.to_le_bytes());
    let crc = checksum::crc32c(&tail[..8]);
    tail[8..12].copy_from_slice(&crc.to_le_bytes());
    tail[16..].copy_from_slice(&MAGIC);
    tail
}

/// The version of the format that the tail names.
fn check_tail(bytes: &[u8], file_bytes: u64, path: &Path) -> Result<u32> {
    let offset = file_bytes.saturating_sub(TAIL_BYTES as u64);
    let damaged = |found: &str| Error::corruption(ATTEMPT, path, offset, found);
    let not_ours = || damaged("it is not a Velella table, or its end is missing");
    let (_, last) = bytes
        .split_last_chunk::<TAIL_BYTES>()
        .ok_or_else(not_ours)?;
    if !last.ends_with(&MAGIC) {
        return Err(not_ours());
    }
    let mut reader = Reader::new(last);
    let (version, footer_bytes) = (reader.u32(), reader.u32());
    let (Some(version), Some(footer_bytes)) = (version, footer_bytes) else {
        return Err(not_ours());
    };
    if *last != tail(version, footer_bytes) {
        return Err(damaged("the checksum of the file's tail does not match"));
    }
    if version == 0 || version > VERSION {
        return Err(Error::new(
            ErrorKind::Unsupported,
            ATTEMPT,
            format!("it has format version {version}; this build reads versions 1 to {VERSION}"),
        )
        .on(path)
        .remedy(UPGRADE));
    }
    if footer_bytes as usize != FOOTER_BYTES {
        return Err(damaged("the footer has an impossible length"));
    }
    Ok(version)
}

/// Appends the trailer of a block whose payload, of compression type `compression`, starts at
/// `start` of `out` and at `offset` of the file.
pub(crate) fn put_trailer(
    out: &mut Vec<u8>,
    start: usize,
    compression: u8,
    seed: u32,
    offset: u64,
) {
    out.extend_from_slice(&[compression, TRANSFORM_NONE]);
    let crc = checksum::at(seed, offset, &out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// Checks a block with its trailer, and splits it into payload and compression type. The error
/// says what was found.
///
/// # Errors
/// The checksum does not match, the transform is unknown, or the block is too short.
pub(crate) fn check_block(block: &[u8], seed: u32, offset: u64) -> Result<(&[u8], u8), String> {
    let Some((sealed, crc)) = block.split_last_chunk::<4>() else {
        return Err("the block is shorter than its trailer".into());
    };
    let (stored, computed) = (u32::from_le_bytes(*crc), checksum::at(seed, offset, sealed));
    if stored != computed && !seeded("a-block's-checksum-is-ignored") {
        return Err(format!(
            "the block's checksum does not match (stored {stored:08x}, computed {computed:08x})"
        ));
    }
    let Some((payload, &[compression, transform])) = sealed.split_last_chunk::<2>() else {
        return Err("the block is shorter than its trailer".into());
    };
    if transform != TRANSFORM_NONE {
        return Err(format!(
            "block transform {transform} is unknown to this build"
        ));
    }
    Ok((payload, compression))
}

#[cfg(test)]
mod tests;
