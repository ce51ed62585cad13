//! What a get hands out: a value pinned in its block.
//!
//! G1. A slice keeps its whole block alive by a count; callers that hold values for long copy them.
//!
//! Threads: may be sent anywhere. Tests: tests/model.rs.

use std::ops::{Deref, Range};
use std::sync::Arc;
use velella_base::{Stamp, ValueKind};

/// A value found in a table: pinned in its block.
#[derive(Debug, Clone)]
pub struct Found {
    /// When it was written.
    pub stamp: Stamp,
    /// What it says.
    pub kind: ValueKind,
    /// The payload.
    pub value: BlockSlice,
}

/// Bytes of a cached block, kept alive by a count (G1).
#[derive(Clone)]
pub struct BlockSlice {
    block: Arc<[u8]>,
    /// Within `block`.
    range: Range<usize>,
}

impl BlockSlice {
    /// The part `range` of `block`; `None` if it lies outside.
    #[inline]
    pub(crate) fn new(block: Arc<[u8]>, range: Range<usize>) -> Option<Self> {
        block.get(range.clone())?;
        Some(BlockSlice { block, range })
    }

    /// The slice without its first `bytes` bytes; `None` if it has fewer. An expiring put's value
    /// stands behind its expiry.
    #[must_use]
    pub fn skip(&self, bytes: usize) -> Option<Self> {
        (bytes <= self.range.len()).then(|| BlockSlice {
            block: Arc::clone(&self.block),
            range: self.range.start + bytes..self.range.end,
        })
    }
}

impl Deref for BlockSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.block[self.range.clone()]
    }
}

impl std::fmt::Debug for BlockSlice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "BlockSlice({} of {} bytes)",
            self.range.len(),
            self.block.len()
        )
    }
}
