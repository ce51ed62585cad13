//! What the journal's files begin with: one page, the same for segments, large files and seals.
//!
//! ```text
//!  0  [u8; 8]  magic: which kind of file
//!  8  u32      format version
//! 12  u32 x 3  features: needed to read, needed to write, ignorable
//! 24  u128     database          40  u64  file number
//! 48  u64      incarnation       56  u64  seal file of that incarnation
//! 64  u64 x 4  parameters: segment: bytes, extent bytes, lanes, slots of its strip; large: lane;
//!              seal: lanes, slots, segment bytes, extent bytes
//! 96  u32      crc, seeded with database, file number and offset
//! ```
//! Version 1 had no strips: all its seals are in the seal file. Up to version 2 a done marker stood
//! behind its seal (`seal.rs`, E4).
//!
//! H1. A file of a newer version, or with a feature this build does not know, is `Unsupported`, not
//!     damaged.
//!
//! Tests: below; golden files in `tests/golden`.

use velella_base::DatabaseId;
use velella_base::checksum::{self, Context};
use velella_base::codec::Reader;

/// Bytes of the page a header stands in; what follows begins here.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of a header.
pub(crate) const HEADER: usize = 100;
const CRC_AT: usize = 96;
/// What is written now; 1 and 2 are still read.
pub(crate) const VERSION: u32 = 3;

/// Which file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Magic {
    Segment,
    Large,
    Seal,
}

impl Magic {
    const ALL: [Magic; 3] = [Magic::Segment, Magic::Large, Magic::Seal];

    fn bytes(self) -> &'static [u8; 8] {
        match self {
            Magic::Segment => b"vellSEGM",
            Magic::Large => b"vellLRGE",
            Magic::Seal => b"vellSEAL",
        }
    }
}

/// A file's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub(crate) magic: Magic,
    /// Of the format.
    pub(crate) version: u32,
    pub(crate) database: DatabaseId,
    pub(crate) file: u64,
    pub(crate) incarnation: u64,
    /// Number of the seal file of the same incarnation.
    pub(crate) seal_file: u64,
    pub(crate) parameters: [u64; 4],
}

/// Why bytes are not a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoHeader {
    /// All zero: never written.
    Zero,
    /// Damaged, or another file's.
    Damaged(&'static str),
    /// Written by a newer build (H1).
    Unsupported(String),
}

impl NoHeader {
    /// What was found, for messages.
    pub(crate) fn found(&self) -> String {
        match self {
            NoHeader::Zero => "the file header was never written".to_owned(),
            NoHeader::Damaged(found) => (*found).to_owned(),
            NoHeader::Unsupported(found) => found.clone(),
        }
    }
}

impl FileHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend_from_slice(self.magic.bytes());
        for word in [self.version, 0, 0, 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.database.to_le_bytes());
        for word in [self.file, self.incarnation, self.seal_file] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for word in self.parameters {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let crc = checksum::at(self.context().seed(), 0, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        let mut out = [0; HEADER];
        out.copy_from_slice(&bytes);
        out
    }

    /// Reads a header; it says itself which database and file it belongs to, the caller compares.
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Result<FileHeader, NoHeader> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Err(NoHeader::Zero);
        }
        let mut reader = Reader::new(bytes);
        Self::fields(&mut reader, bytes).unwrap_or(Err(NoHeader::Damaged("too short")))
    }

    fn fields(reader: &mut Reader<'_>, bytes: &[u8]) -> Option<Result<FileHeader, NoHeader>> {
        let magic = reader.bytes(8)?;
        let Some(magic) = Magic::ALL.into_iter().find(|m| magic == m.bytes()) else {
            return Some(Err(NoHeader::Damaged("the file header's magic is wrong")));
        };
        let (version, read, _write, _ignore) =
            (reader.u32()?, reader.u32()?, reader.u32()?, reader.u32()?);
        let header = FileHeader {
            magic,
            version,
            database: reader.u128()?,
            file: reader.u64()?,
            incarnation: reader.u64()?,
            seal_file: reader.u64()?,
            parameters: [reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?],
        };
        let crc = checksum::at(header.context().seed(), 0, &bytes[..CRC_AT]);
        if reader.u32()? != crc {
            return Some(Err(NoHeader::Damaged(
                "the file header's checksum does not match",
            )));
        }
        if version == 0 || version > VERSION || read != 0 {
            return Some(Err(NoHeader::Unsupported(format!(
                "format version {version} with features {read:#x} is unknown to this build"
            ))));
        }
        Some(Ok(header))
    }

    pub(crate) fn context(&self) -> Context {
        Context {
            database: self.database,
            file: self.file,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> FileHeader {
        FileHeader {
            magic: Magic::Seal,
            version: VERSION,
            database: 77,
            file: 5,
            incarnation: 3,
            seal_file: 5,
            parameters: [1, 2, 3, 4],
        }
    }

    #[test]
    fn headers_round_trip_and_every_flipped_bit_is_seen() {
        let bytes = sample().encode();
        assert_eq!(FileHeader::decode(&bytes), Ok(sample()));
        for bit in 0..HEADER * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(FileHeader::decode(&bad).is_err(), "bit {bit}");
        }
        assert_eq!(FileHeader::decode(&[0; HEADER]), Err(NoHeader::Zero));
    }

    #[test]
    fn a_newer_version_is_unsupported_and_not_damage() {
        let mut bytes = sample().encode();
        bytes[8..12].copy_from_slice(&(VERSION + 1).to_le_bytes());
        let crc = checksum::at(sample().context().seed(), 0, &bytes[..CRC_AT]);
        bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        assert!(matches!(
            FileHeader::decode(&bytes),
            Err(NoHeader::Unsupported(_))
        ));
    }
}
