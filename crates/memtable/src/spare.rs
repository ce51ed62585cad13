//! Memory that a freed memtable leaves to the next one.
//!
//! Source: none. The system clears pages before it hands them out, by the processor that touches
//! them first: that was an eighth of what writers did. Memtables follow each other, each as large
//! as the one before, so the chunks of the last one are kept for the next.
//!
//! F1. Only whole chunks of the largest size and zeroed tables that are not small are kept, and
//!     never more than `most` bytes of them together.
//! F2. A block is a memtable's or kept, never both: what is kept is counted by no memtable.
//! F3. A table is cleared when it is given, by who frees, so that who takes it need not wait for
//!     that: a huge page fresh from a machine's host can take milliseconds, and a page that was
//!     read before it is first written makes all processors flush it.
//! F4. `prepare` makes chunks ahead, at most as many as were taken since the last time, for the
//!     same reason: a database that takes none has none made.
//!
//! Threads: any; the lock is taken once per chunk. Tests: below; `tests/spare.rs`.

use crate::counters::Counters;
use std::sync::Arc;
use velella_sync::lock::Mutex;
use velella_sync::memory::{Block, HUGE_PAGE};

/// Size of the chunks that are kept: the largest an arena takes.
pub(crate) const CHUNK_MAX: usize = HUGE_PAGE;

/// Size of the smallest tables that are kept.
const TABLE_MIN: usize = 256 << 10;
/// Chunks made ahead at a time: who makes them has other things to do.
const AHEAD_MAX: usize = 16;

/// Blocks without a memtable.
#[derive(Debug, Default)]
pub struct Spare {
    most: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: usize,
    chunks: Vec<Block>,
    /// Chunks asked for since `prepare`, kept ones or not (F4).
    wanted: usize,
    /// All zero (F3).
    tables: Vec<Block>,
}

impl Spare {
    /// Keeps at most `bytes`; with less than a chunk's, nothing.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Spare {
            most: bytes,
            kept: Mutex::default(),
        }
    }

    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }

    /// A kept chunk, with whatever its last owner left in it.
    pub(crate) fn take(&self) -> Option<Block> {
        let mut kept = self.kept.lock();
        kept.wanted += 1;
        let block = kept.chunks.pop()?;
        kept.bytes -= block.size();
        Some(block)
    }

    /// Makes chunks for memtables to come, and touches them, so that no writer has to (F4).
    pub fn prepare(&self) {
        let wanted = std::mem::take(&mut self.kept.lock().wanted);
        for _ in 0..wanted.min(AHEAD_MAX) {
            if !self.is_wanting(wanted) {
                break;
            }
            let mut block = Block::new(CHUNK_MAX);
            block.touch();
            self.give(block);
        }
    }

    /// Whether there are fewer chunks than `wanted`, and room for one.
    fn is_wanting(&self, wanted: usize) -> bool {
        let kept = self.kept.lock();
        kept.chunks.len() < wanted && kept.bytes + CHUNK_MAX <= self.most
    }

    /// A block of at least `size` bytes, all zero: a kept table of that size, else a fresh one.
    pub(crate) fn take_zeroed(&self, size: usize) -> Block {
        self.take_table(size).unwrap_or_else(|| Block::zeroed(size))
    }

    fn take_table(&self, size: usize) -> Option<Block> {
        if size < TABLE_MIN {
            return None;
        }
        let mut kept = self.kept.lock();
        // None is much larger: the sizes of tables are powers of two, or nearly.
        let fits = |block: &Block| (size..size + size / 2).contains(&block.size());
        let at = kept.tables.iter().position(fits)?;
        let block = kept.tables.swap_remove(at);
        kept.bytes -= block.size();
        Some(block)
    }

    /// Keeps a block that nobody refers to any more, or gives it back to the system (F1).
    pub(crate) fn give(&self, block: Block) {
        if block.size() == CHUNK_MAX {
            self.keep(block, |kept| &mut kept.chunks);
        }
    }

    /// As [`Spare::give`], for one that was taken zeroed.
    pub(crate) fn give_table(&self, mut block: Block) {
        // A hint: others may give or take meanwhile.
        if block.size() >= TABLE_MIN && self.bytes() + block.size() <= self.most {
            block.clear();
            self.keep(block, |kept| &mut kept.tables);
        }
    }

    fn keep(&self, block: Block, of: impl FnOnce(&mut Kept) -> &mut Vec<Block>) {
        let mut kept = self.kept.lock();
        if kept.bytes + block.size() <= self.most {
            kept.bytes += block.size();
            of(&mut kept).push(block);
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

    #[test]
    fn as_many_chunks_are_made_ahead_as_were_taken_since_the_last_time() {
        let spare = Spare::new(3 * CHUNK_MAX);
        spare.prepare();
        assert_eq!(spare.bytes(), 0, "nobody takes any");
        for (taken, ahead) in [(2, 2), (1, 1), (0, 1), (9, 3), (0, 3), (2, 2)] {
            (0..taken).for_each(|_| drop(spare.take()));
            spare.prepare();
            assert_eq!(spare.bytes(), ahead * CHUNK_MAX, "after {taken}");
        }
    }

    #[test]
    fn tables_are_kept_unless_they_are_small() {
        let spare = Spare::new(CHUNK_MAX);
        spare.give_table(spare.take_zeroed(TABLE_MIN / 2));
        assert_eq!(spare.bytes(), 0, "F1");
        let table = spare.take_zeroed(TABLE_MIN);
        let (start, size) = (table.start(), table.size());
        spare.give_table(table);
        assert_eq!(spare.bytes(), size, "F1");
        assert_eq!(spare.take_zeroed(TABLE_MIN).start(), start);
        assert_eq!(spare.bytes(), 0, "F2");
    }

    #[test]
    fn a_kept_table_is_handed_out_again_zeroed_to_who_needs_its_size() {
        let size = CHUNK_MAX + 64;
        let spare = Spare::new(3 * CHUNK_MAX);
        spare.give(Block::new(CHUNK_MAX));
        let table = spare.take_zeroed(size);
        let start = table.start();
        // SAFETY: the block is this test's.
        unsafe { start.write_bytes(0xab, table.size()) };
        spare.give_table(table);
        spare.give_table(Block::zeroed(CHUNK_MAX));
        assert!(spare.bytes() <= 3 * CHUNK_MAX, "F1");
        let other = spare.take_zeroed(2 * CHUNK_MAX);
        assert_ne!(other.start(), start, "too small for that");
        let again = spare.take_zeroed(size);
        assert_eq!(again.start(), start, "F2");
        // SAFETY: as above, and it was written.
        let bytes = unsafe { std::slice::from_raw_parts(start.as_ptr(), again.size()) };
        let step = if cfg!(miri) { 61 } else { 1 };
        assert!(bytes.iter().step_by(step).all(|byte| *byte == 0), "F3");
        assert_ne!(spare.take_zeroed(size).start(), start, "F2");
        assert_eq!(spare.bytes(), CHUNK_MAX, "the chunk is left");
    }
}
