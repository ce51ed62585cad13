//! Memory that a freed memtable leaves to the next one.
//!
//! Source: none. The system clears pages before it hands them out, by the processor that touches
//! them first: that was an eighth of what writers did. Memtables follow each other, each as large
//! as the one before, so the chunks of the last one are kept for the next.
//!
//! F1. Only whole chunks of the largest size are kept, and never more than `most` bytes of them.
//! F2. A chunk is a memtable's or kept, never both: what is kept is counted by no memtable.
//!
//! Threads: any; the lock is taken once per chunk. Tests: below; `tests/spare.rs`.

use crate::counters::Counters;
use crate::hardware::HUGE_PAGE;
use crate::memory::Block;
use std::sync::Arc;
use velella_sync::lock::Mutex;

/// Size of the chunks that are kept: the largest an arena takes.
pub(crate) const CHUNK_MAX: usize = HUGE_PAGE;

/// Chunks without a memtable.
#[derive(Debug, Default)]
pub struct Spare {
    most: usize,
    chunks: Mutex<Vec<Block>>,
}

impl Spare {
    /// Keeps at most `bytes`; with less than a chunk's, nothing.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Spare {
            most: bytes / CHUNK_MAX,
            chunks: Mutex::new(Vec::new()),
        }
    }

    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        self.chunks.lock().len() * CHUNK_MAX
    }

    /// A kept chunk, with whatever its last owner left in it.
    pub(crate) fn take(&self) -> Option<Block> {
        self.chunks.lock().pop()
    }

    /// Keeps a block that nobody refers to any more, or gives it back to the system (F1).
    pub(crate) fn give(&self, block: Block) {
        if block.size() == CHUNK_MAX {
            let mut chunks = self.chunks.lock();
            if chunks.len() < self.most {
                chunks.push(block);
            }
        }
    }
}

/// What arenas take memory from, and count it in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Supply {
    pub(crate) counters: Arc<Counters>,
    pub(crate) spare: Arc<Spare>,
}

impl From<&Arc<Counters>> for Supply {
    /// Counts, and keeps nothing.
    fn from(counters: &Arc<Counters>) -> Self {
        Supply {
            counters: Arc::clone(counters),
            spare: Arc::default(),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn whole_chunks_are_kept_up_to_the_bound_and_handed_out_again() {
        let spare = Spare::new(2 * CHUNK_MAX + 1);
        assert!(spare.take().is_none());
        spare.give(Block::new(CHUNK_MAX / 2));
        assert_eq!(spare.bytes(), 0, "not a whole chunk");
        let chunks: Vec<Block> = (0..3).map(|_| Block::new(CHUNK_MAX)).collect();
        let starts: Vec<_> = chunks.iter().map(Block::start).collect();
        for chunk in chunks {
            spare.give(chunk);
        }
        assert_eq!(spare.bytes(), 2 * CHUNK_MAX, "F1");
        let again = [spare.take().unwrap(), spare.take().unwrap()];
        assert!(again.iter().all(|chunk| starts.contains(&chunk.start())));
        assert_ne!(again[0].start(), again[1].start(), "F2");
        assert!(spare.take().is_none(), "F2");
    }
}
