//! Writing into an extent: through a window, or staged and written by one call.
//!
//! S1. Mapped, `commit` is two copies: no system call, no lock, no allocation, and it cannot fail.
//! S2. Written, everything staged reaches the file in the one `write_at` of `commit`.
//!
//! Positions count from the extent's beginning.
//!
//! Threads: belongs to a lane, and so to its holder.
//!
//! Tests: `tests/lanes.rs`, both ways.

use crate::record;
use crate::segment::{Piece, Segment};
use std::sync::Arc;
use velella_base::Result;
use velella_vfs::Window;

/// A lane's open extent, to write to.
#[derive(Debug)]
pub(crate) enum Space {
    Mapped(Window),
    Written(Written),
}

/// The extent of the `write` fallback.
#[derive(Debug)]
pub(crate) struct Written {
    segment: Arc<Segment>,
    /// Where the extent begins in the segment.
    base: u64,
    /// The record being made: header, payload, padding and the next word.
    staged: Vec<u8>,
}

impl Space {
    pub(crate) fn new(segment: &Arc<Segment>, piece: Piece) -> Space {
        match piece {
            Piece::Mapped(window) => Space::Mapped(window),
            Piece::Written(base) => Space::Written(Written {
                segment: Arc::clone(segment),
                base,
                staged: Vec::new(),
            }),
        }
    }

    /// Writes now.
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Space::Mapped(window) => {
                window.write(at, bytes);
                Ok(())
            }
            Space::Written(written) => written.segment.write_at(written.base + at, bytes),
        }
    }

    /// Begins a record: what is staged next stands behind its header.
    #[inline]
    pub(crate) fn begin(&mut self) {
        if let Space::Written(written) = self {
            written.staged.clear();
            written.staged.resize(record::HEADER_LEN, 0);
        }
    }

    /// Adds the next part of the record, which stands at `at`.
    #[inline]
    pub(crate) fn stage(&mut self, at: u64, bytes: &[u8]) {
        match self {
            Space::Mapped(window) => window.write(at, bytes),
            Space::Written(written) => written.staged.extend_from_slice(bytes),
        }
    }

    /// Writes the header of the record at `at`, its word last (S1, S2).
    #[inline]
    pub(crate) fn commit(&mut self, at: u64, header: &[u8; record::HEADER_LEN]) -> Result<()> {
        match self {
            Space::Mapped(window) => {
                window.write(at + 4, &header[4..]);
                let [a, b, c, d, ..] = *header;
                window.publish_u32(at, u32::from_le_bytes([a, b, c, d]));
                Ok(())
            }
            Space::Written(written) => {
                written.staged[..record::HEADER_LEN].copy_from_slice(header);
                written.segment.write_at(written.base + at, &written.staged)
            }
        }
    }
}
