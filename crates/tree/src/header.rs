//! The first 64 bytes of a manifest or an external value: what it is, of which format, whose.
//!
//! ```text
//! magic:8 version:u32 read:u64 write:u64 ignore:u64 database:u128 file:u64 crc32c:u32
//! ```
//! H1. This layout and the checksum's place are the same in every format version, so that a newer
//!     file is told from a damaged one.
//! H2. A feature bit this build lacks in `read` refuses reading, in `write` refuses writing, in
//!     `ignore` means nothing.
//!
//! Tests: `manifest/tests.rs`.

use std::path::Path;
use velella_base::checksum::{self, Context};
use velella_base::codec::Reader;
use velella_base::{DatabaseId, Error, ErrorKind, Result};

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 64;
/// The newest format version this build reads, and the one it writes.
pub(crate) const VERSION: u32 = 1;

/// A decoded header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) read: u64,
    pub(crate) write: u64,
    pub(crate) ignore: u64,
    pub(crate) database: DatabaseId,
    pub(crate) file: u64,
}

/// What the reader of a header is about to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
}

impl Header {
    /// A header of this build's format.
    pub(crate) fn new(database: DatabaseId, file: u64) -> Header {
        Header {
            version: VERSION,
            read: 0,
            write: 0,
            ignore: 0,
            database,
            file,
        }
    }

    pub(crate) fn encode(&self, magic: &[u8; 8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(magic);
        out.extend_from_slice(&self.version.to_le_bytes());
        for mask in [self.read, self.write, self.ignore] {
            out.extend_from_slice(&mask.to_le_bytes());
        }
        out.extend_from_slice(&self.database.to_le_bytes());
        out.extend_from_slice(&self.file.to_le_bytes());
        let crc = checksum::at(self.seed(), 0, &out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// The seed of the file's checksums.
    pub(crate) fn seed(&self) -> u32 {
        Context {
            database: self.database,
            file: self.file,
        }
        .seed()
    }

    /// Reads and checks the header of file number `file` at `path`.
    pub(crate) fn decode(
        bytes: &[u8],
        magic: &[u8; 8],
        file: u64,
        path: &Path,
        purpose: Purpose,
    ) -> Result<Header> {
        let damaged = |offset, found: String| {
            Error::corruption("read the header of", path, offset, found)
                .remedy("restore the database from a backup")
        };
        let short = || damaged(0, format!("it has {} bytes of {HEADER_BYTES}", bytes.len()));
        let head = bytes.get(..HEADER_BYTES).ok_or_else(short)?;
        let found: &[u8; 8] = head.first_chunk().ok_or_else(short)?;
        if found != magic {
            return Err(damaged(
                0,
                format!(
                    "it begins with \"{}\" instead of \"{}\"",
                    found.escape_ascii(),
                    magic.escape_ascii()
                ),
            ));
        }
        let (covered, crc) = head.split_at(HEADER_BYTES - 4);
        let mut fields = Reader::new(&covered[magic.len()..]);
        let header = (|| {
            Some(Header {
                version: fields.u32()?,
                read: fields.u64()?,
                write: fields.u64()?,
                ignore: fields.u64()?,
                database: fields.u128()?,
                file: fields.u64()?,
            })
        })()
        .ok_or_else(short)?;
        if checksum::at(header.seed(), 0, covered).to_le_bytes() != crc {
            return Err(damaged(0, "its checksum is wrong".into()));
        }
        header.check_features(path, purpose)?;
        if header.file != file {
            return Err(damaged(
                0,
                format!("it is file {} under another name", header.file),
            ));
        }
        Ok(header)
    }

    fn check_features(&self, path: &Path, purpose: Purpose) -> Result<()> {
        let unsupported = |found: String| {
            Error::new(ErrorKind::Unsupported, "open", found)
                .on(path)
                .remedy("use the version of Velella that wrote it, or a newer one")
        };
        if self.version != VERSION {
            return Err(unsupported(format!(
                "it has format version {}, this build knows version {VERSION}",
                self.version
            )));
        }
        let mask = match purpose {
            Purpose::Read => self.read,
            Purpose::Write => self.read | self.write,
        };
        if mask != 0 {
            return Err(unsupported(format!(
                "it needs features {mask:#x}, which this build lacks"
            )));
        }
        Ok(())
    }
}
