//! Writing into an extent: through a window, or staged and written by one call.
//!
//! S1. Mapped, `commit` is two copies: no system call, no lock, no allocation, and it cannot fail.
//!     So is `stage`, but for one call in [`FAULTED_BYTES`]: pages are faulted in by parts, since a
//!     writer would wait for a whole extent's, and since what is faulted in is dirty: the next sync
//!     writes it, and stores after that fault again.
//! S2. Written, everything staged reaches the file in the one `write_at` of `commit`.
//!
//! Positions count from the extent's beginning.
//!
//! Threads: belongs to a lane, and so to its holder.
//!
//! Tests: `tests/lanes.rs`, both ways.

use crate::inventory::Extent;
use crate::record;
use crate::segment::{Piece, Segment};
use std::sync::Arc;
use velella_base::Result;
use velella_vfs::Window;

/// Bytes of a mapped extent that are faulted in at once.
const FAULTED_BYTES: u64 = 128 << 10;

/// A lane's open extent, to write to.
#[derive(Debug)]
pub(crate) enum Space {
    Mapped(Mapped),
    Written(Written),
}

/// The extent of a mapped segment.
#[derive(Debug)]
pub(crate) struct Mapped {
    window: Window,
    segment: Arc<Segment>,
    /// Where the extent begins in the segment, and its bytes.
    base: u64,
    len: u64,
    /// Bytes that have been faulted in.
    faulted: u64,
}

impl Mapped {
    #[inline]
    fn write(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        if end > self.faulted {
            self.fault_in(end);
        }
        self.window.write(at, bytes);
    }

    /// Faults in what is needed up to `end`, by whole parts.
    #[cold]
    fn fault_in(&mut self, end: u64) {
        let end = end.next_multiple_of(FAULTED_BYTES).min(self.len);
        if end > self.faulted {
            let from = self.base + self.faulted;
            self.segment.populate(from, end - self.faulted);
            self.faulted = end;
        }
    }
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
    pub(crate) fn new(extent: Extent) -> Space {
        match extent.piece {
            Piece::Mapped(window) => Space::Mapped(Mapped {
                window,
                segment: extent.segment,
                base: extent.position,
                len: extent.len,
                faulted: 0,
            }),
            Piece::Written(base) => Space::Written(Written {
                segment: extent.segment,
                base,
                staged: Vec::new(),
            }),
        }
    }

    /// Writes now.
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Space::Mapped(mapped) => {
                mapped.write(at, bytes);
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
            Space::Mapped(mapped) => mapped.write(at, bytes),
            Space::Written(written) => written.staged.extend_from_slice(bytes),
        }
    }

    /// Writes the header of the record at `at`, its word last (S1, S2).
    #[inline]
    pub(crate) fn commit(&mut self, at: u64, header: &[u8; record::HEADER_LEN]) -> Result<()> {
        match self {
            Space::Mapped(mapped) => {
                mapped.window.write(at + 4, &header[4..]);
                let [a, b, c, d, ..] = *header;
                mapped
                    .window
                    .publish_u32(at, u32::from_le_bytes([a, b, c, d]));
                Ok(())
            }
            Space::Written(written) => {
                written.staged[..record::HEADER_LEN].copy_from_slice(header);
                written.segment.write_at(written.base + at, &written.staged)
            }
        }
    }
}
