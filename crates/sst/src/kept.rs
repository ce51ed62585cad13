//! The blocks of a table being written, kept for the cache while that has room.
//!
//! A table that was just written is read soon: by gets of what was just put, by scans after a
//! compaction that took the cached blocks of its inputs away. Reading a block back costs a dozen
//! cached gets (docs/decisions/0012); keeping it costs one copy.
//!
//! N1. Nothing is evicted for it: a block is kept only if the cache has room for it now.
//! N2. What is kept counts against the cache's capacity from the first byte, as what tables pin
//!     does, until it is in the cache or dropped.
//! N3. The blocks kept are the first ones of the table, without a gap.
//! N4. Memory for some thirty blocks at a time is asked of the allocator and given back at once.
//!     glibc's heap of a thread grows by exactly what is asked for, by a call of `mprotect`: for
//!     each block, it would hold up whatever the process's other threads ask of the system, and
//!     have their processors forget translations (docs/decisions/0019).
//!
//! Threads: one. Tests: `tests/kept.rs`, N4 in `tests/allocations.rs`; memory with it, the engine's
//! `tests/memory.rs`.

use crate::cache::{BlockCache, TableBlocks, weight};
use std::hint::black_box;
use std::sync::Arc;

/// What is asked of the allocator at once (N4): below the 128 KiB from which glibc maps each
/// allocation by itself, and from which on it gives the end of a heap back.
const AHEAD_BYTES: usize = 120 << 10;

/// The first blocks of a table being written (N3).
pub struct KeptBlocks {
    cache: Arc<BlockCache>,
    blocks: Vec<Arc<[u8]>>,
    bytes: u64,
    /// What is left of the memory asked for last (N4).
    ahead: u64,
    /// A block found no room, so none behind it is kept.
    full: bool,
}

impl KeptBlocks {
    /// None yet.
    pub(crate) fn new(cache: Arc<BlockCache>) -> Self {
        KeptBlocks {
            cache,
            blocks: Vec::new(),
            bytes: 0,
            ahead: 0,
            full: false,
        }
    }

    /// Keeps the next block, if there is room (N1).
    pub(crate) fn push(&mut self, block: &[u8]) {
        let bytes = weight(block);
        self.full |= self.cache.room() < bytes;
        if !self.full {
            self.cache.keep(bytes, 0);
            self.bytes += bytes;
            self.ahead = match self.ahead.checked_sub(bytes) {
                Some(left) => left,
                None => make_room().saturating_sub(bytes),
            };
            self.blocks.push(Arc::from(block));
        }
    }

    /// Moves them into the table's slots, as far as the table has left room by what it pins.
    pub(crate) fn fill(mut self, slots: &Arc<TableBlocks>) {
        let blocks = std::mem::take(&mut self.blocks);
        let cache = Arc::clone(&self.cache);
        // Gives their bytes back, for the slots to count.
        drop(self);
        for (number, block) in blocks.into_iter().enumerate() {
            if cache.room() < weight(&block) {
                break;
            }
            slots.insert(number, &block);
        }
    }
}

/// Has the allocator get memory for the next blocks by one call (N4); says how much.
fn make_room() -> u64 {
    drop(black_box(Vec::<u8>::with_capacity(AHEAD_BYTES)));
    AHEAD_BYTES as u64
}

impl Drop for KeptBlocks {
    fn drop(&mut self) {
        self.cache.keep(0, self.bytes);
    }
}

impl std::fmt::Debug for KeptBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeptBlocks({}, {} bytes)", self.blocks.len(), self.bytes)
    }
}
