//! Writing into an extent: through a window, or staged and written by one call.
//!
//! S1. Mapped, `commit` is two copies: no system call, no lock, no allocation, and it cannot fail.
//!     So is `stage`, but for one call in [`FAULTED_BYTES`]: pages are faulted in by parts, since a
//!     writer would wait for a whole extent's, and since what is faulted in is dirty: the next sync
//!     writes it, and stores after that fault again.
//! S2. Written, everything staged reaches the file in the one `write_at` of `commit`, or in two if
//!     it lies in more than one page.
//! S3. Whatever is put into an extent begins with a word that is not zero, and that word is the
//!     last of it to be in the file: who looks after the process was killed, or after a write that
//!     failed, finds all of it or a word of zero. Mapped, the word is published; in recycled space
//!     it is wiped first. Written, a kill ends a `write_at` between two pages, hence the second
//!     call; after an error the word is taken back. So recovery knows damage at a lane's end from
//!     what was never completed.
//!
//! Positions count from the extent's beginning.
//!
//! Threads: belongs to a lane, and so to its holder.
//!
//! Tests: `tests/lanes.rs`, both ways.

use crate::header::PAGE;
use crate::inventory::Extent;
use crate::left;
use crate::record;
use crate::segment::{Piece, Segment};
use std::sync::Arc;
use velella_base::Result;
use velella_sync::atomic::{Ordering, fence};
use velella_vfs::Window;

/// Bytes of a mapped extent that are faulted in at once.
const FAULTED_BYTES: u64 = 128 << 10;
/// How often to try to take the word back.
const TAKE_BACK_TRIES: u32 = 3;
/// Bytes of the word that comes last (S3).
const WORD: usize = 4;

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

    /// Writes `bytes`, their word last (S3).
    fn publish(&mut self, at: u64, bytes: &[u8]) {
        let (word, rest) = split(bytes);
        // Recycled space may hold the same word. Published, so that no compiler takes it for a
        // store in vain, whatever becomes of what lies in between.
        self.fault_in(at + bytes.len() as u64);
        self.window.publish_u32(at, 0);
        // Release, partner: the kernel, as in `publish_u32`. The language orders no plain store
        // after a fence; what compilers and processors make of one does, and the zero is stored
        // before the rest.
        fence(Ordering::Release);
        self.write(at + WORD as u64, rest);
        self.window.publish_u32(at, u32::from_le_bytes(*word));
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

impl Written {
    /// Writes `bytes`, their word last (S3).
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let at = self.base + at;
        let in_one_page = at % PAGE + bytes.len() as u64 <= PAGE;
        let (word, rest) = split(bytes);
        let written = match in_one_page {
            true => self.segment.write_at(at, bytes),
            false => self
                .segment
                .write_at(at + WORD as u64, rest)
                .and_then(|()| self.segment.write_at(at, word)),
        };
        if written.is_err() {
            // The first error is the one to report. What cannot be taken back looks damaged, and
            // recovery gives up what no round covered: so not after one try.
            let mut tries = 0..TAKE_BACK_TRIES;
            tries.any(|_| self.segment.write_at(at, &[0; WORD]).is_ok());
        }
        written
    }
}

/// The word, and what is written before it.
fn split(bytes: &[u8]) -> (&[u8; WORD], &[u8]) {
    bytes
        .split_first_chunk()
        .expect("whatever is put has a header")
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

    /// Whether `commit` makes a system call.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self, Space::Written(_))
    }

    /// What its lane leaves: the window, of one that is mapped, and what was written up to `end`.
    pub(crate) fn into_left(self, end: u64) -> (Option<Window>, left::Written) {
        let (segment, position, window) = match self {
            Space::Mapped(mapped) => (mapped.segment, mapped.base, Some(mapped.window)),
            Space::Written(written) => (written.segment, written.base, None),
        };
        let written = left::Written {
            segment: Arc::downgrade(&segment),
            position,
            len: end,
        };
        (window, written)
    }

    /// Writes now, the first word last (S3).
    pub(crate) fn put(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Space::Mapped(mapped) => {
                mapped.publish(at, bytes);
                Ok(())
            }
            Space::Written(written) => written.write(at, bytes),
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

    /// Writes the header of the record at `at`, its word last (S1, S2, S3).
    #[inline]
    pub(crate) fn commit(&mut self, at: u64, header: &[u8; record::HEADER_LEN]) -> Result<()> {
        match self {
            Space::Mapped(mapped) => {
                mapped.window.write(at + 4, &header[4..]);
                velella_sync::spot(62);
                let [a, b, c, d, ..] = *header;
                mapped
                    .window
                    .publish_u32(at, u32::from_le_bytes([a, b, c, d]));
                Ok(())
            }
            Space::Written(written) => {
                written.staged[..record::HEADER_LEN].copy_from_slice(header);
                written.write(at, &written.staged)
            }
        }
    }
}
