//! Reads blocks of one file: from disk to checked, decompressed bytes.
//!
//! R1. A block is returned only if its checksum holds for this file at this offset.
//! R2. The caller's handle lies within the file: it is the footer's or the index's, both checked
//!     against the file's length.
//!
//! Threads: any. Tests: tests/damage.rs.

use crate::block::Malformed;
use crate::compression::{Compression, RAW_BYTES_MAX, decompress};
use crate::counters::Counters;
use crate::format::{Handle, TRAILER_BYTES, check_block};
use std::sync::Arc;
use velella_base::{Error, ErrorKind, Result};
use velella_sync::array::Array;
use velella_vfs::ReadFile;

/// A table file, and what its checksums start from.
#[derive(Debug)]
pub(crate) struct Source {
    /// The file.
    pub file: Arc<dyn ReadFile>,
    /// Its number.
    pub number: u64,
    /// Seed of its checksums.
    pub seed: u32,
    /// What reading it counts.
    pub counters: Arc<Counters>,
}

impl Source {
    /// Reads a data block.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub(crate) fn read(&self, handle: Handle) -> Result<Arc<[u8]>> {
        Ok(self.read_with_compression(handle)?.0)
    }

    /// Reads a data block, and says how it was compressed.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub(crate) fn read_with_compression(&self, handle: Handle) -> Result<(Arc<[u8]>, Compression)> {
        let mut bytes = vec![0; self.len_within(handle.offset, handle.end())?];
        self.file.read_exact_at(&mut bytes, handle.offset)?;
        self.decode(handle, &bytes)
    }

    /// Reads a block that is never compressed: filter, index, properties.
    ///
    /// # Errors
    /// `Corruption`, `Io`.
    pub(crate) fn read_plain(&self, handle: Handle) -> Result<Array<u8>> {
        let mut bytes = Array::filled(0, self.len_within(handle.offset, handle.end())?);
        self.file.read_exact_at(&mut bytes, handle.offset)?;
        self.count(handle);
        let (payload, compression) = check_block(&bytes, self.seed, handle.offset)
            .map_err(|found| self.corruption(handle.offset, found))?;
        if compression != 0 {
            return Err(self.corruption(handle.offset, "the block is compressed"));
        }
        let len = payload.len();
        bytes.truncate(len);
        Ok(bytes)
    }

    /// Checks and decompresses a data block already read, and says how it was compressed.
    ///
    /// # Errors
    /// `Corruption`.
    pub(crate) fn decode(&self, handle: Handle, bytes: &[u8]) -> Result<(Arc<[u8]>, Compression)> {
        self.count(handle);
        check_block(bytes, self.seed, handle.offset)
            .and_then(|(payload, id)| {
                let compression = Compression::from_id(id)
                    .ok_or_else(|| format!("compression type {id} is unknown to this build"))?;
                Ok((decompress(compression, payload)?, compression))
            })
            .map_err(|found| self.corruption(handle.offset, found))
    }

    /// The error for damage at `offset`.
    #[must_use]
    pub(crate) fn corruption(&self, offset: u64, found: impl Into<String>) -> Error {
        Error::corruption("read table", self.file.path(), offset, found)
            .remedy("restore this file from a backup")
    }

    /// The error for a block at `offset` that does not parse.
    #[must_use]
    #[cold]
    pub(crate) fn malformed(&self, offset: u64, malformed: Malformed) -> Error {
        match malformed {
            Malformed::Shape(found) => self.corruption(offset, format!("malformed block: {found}")),
            Malformed::Kind(number) => Error::new(
                ErrorKind::Unsupported,
                "read table",
                format!("an entry has kind {number}, unknown to this build"),
            )
            .on(self.file.path())
            .at(offset)
            .remedy("open it with the version of Velella that wrote it, or a newer one"),
        }
    }

    /// Bytes from `start` to `end`.
    ///
    /// # Errors
    /// `Corruption`: the file is shorter.
    pub(crate) fn len_within(&self, start: u64, end: u64) -> Result<usize> {
        usize::try_from(end.saturating_sub(start))
            .ok()
            .filter(|_| end <= self.file.len())
            .ok_or_else(|| self.corruption(start, "a block reaches beyond the file"))
    }

    fn count(&self, handle: Handle) {
        self.counters.blocks_read.increment();
        self.counters.block_bytes_read.add(handle.len);
    }
}

/// Whether a data block can be that long.
#[must_use]
pub(crate) fn is_plausible(handle: Handle) -> bool {
    handle.len <= (RAW_BYTES_MAX + TRAILER_BYTES) as u64
}
