//! Memory for nodes and versions: taken in chunks, handed out by a bump, freed as a whole.
//!
//! Source: the arena of LevelDB and RocksDB, with one chunk per group of threads, so that a bump
//! is an uncontended addition.
//!
//! R1. Every allocation is aligned to [`ALIGN`], disjoint from every other, and stays valid until
//!     the arena drops.
//! R2. `bytes` counts every chunk and every allocation of its own whole.
//! R3. A request above a quarter of its chunk gets an allocation of its own, so at most a quarter
//!     of a chunk is left unused.
//! R4. Chunks grow with the arena: a small one is not full of chunks that hardly hold anything, of
//!     a large one most lies in huge pages.
//!
//! Threads: any. The lock is taken once per chunk. Tests: below.

use crate::spare::{CHUNK_MAX, Supply};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use velella_sync::CachePadded;
use velella_sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use velella_sync::lock::Mutex;
use velella_sync::memory::{BLOCK_ALIGN, Block};
use velella_sync::prefetch::prefetch_at;

/// Alignment of every allocation.
pub(crate) const ALIGN: usize = align_of::<AtomicPtr<u8>>();

const CHUNK_MIN: usize = 4 << 10;
/// Below this, eight threads' chunks together are at most half of the arena; from it on, what is
/// left unused in chunks is little beside what such an arena may take.
const FINE_BELOW: usize = 1 << 20;
const _: () = assert!(ALIGN <= BLOCK_ALIGN && align_of::<Chunk>() <= BLOCK_ALIGN);

#[cfg(not(any(loom, shuttle)))]
const STRIPES: usize = 8;
#[cfg(any(loom, shuttle))]
const STRIPES: usize = 1;

static NEXT_STRIPE: velella_sync::atomic::machine::AtomicUsize =
    velella_sync::atomic::machine::AtomicUsize::new(0);

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Which chunk this thread allocates from.
#[inline]
#[cfg_attr(
    any(loom, shuttle),
    expect(clippy::modulo_one, reason = "a model has one stripe")
)]
fn stripe() -> usize {
    let stripe = STRIPE.get();
    if stripe != usize::MAX {
        return stripe;
    }
    // Relaxed: only spreads threads over chunks.
    let stripe =
        NEXT_STRIPE.fetch_add(1, velella_sync::atomic::machine::Ordering::Relaxed) % STRIPES;
    STRIPE.set(stripe);
    stripe
}

/// The head of a chunk; the bytes it hands out follow.
struct Chunk {
    /// Offset of the first byte not handed out; beyond `size` once the chunk is full.
    used: AtomicUsize,
    size: usize,
}

/// A source of memory that is freed as a whole.
pub(crate) struct Arena {
    current: Box<[CachePadded<AtomicPtr<Chunk>>]>,
    blocks: Mutex<Vec<Block>>,
    bytes: AtomicUsize,
    newest: AtomicUsize,
    supply: Supply,
}

impl Arena {
    /// An arena that has taken no memory yet.
    pub(crate) fn new(supply: Supply) -> Self {
        Arena {
            current: (0..STRIPES)
                .map(|_| CachePadded::new(AtomicPtr::new(null_mut())))
                .collect(),
            blocks: Mutex::new(Vec::new()),
            bytes: AtomicUsize::new(0),
            newest: AtomicUsize::new(0),
            supply,
        }
    }

    /// Bytes taken, fresh from the system or spare (R2).
    pub(crate) fn bytes(&self) -> usize {
        // Relaxed: a figure, it guards nothing.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the chunk taken last, which is begun at most.
    pub(crate) fn newest_chunk(&self) -> usize {
        // Relaxed: see `bytes`.
        self.newest.load(Ordering::Relaxed)
    }

    /// Memory for `size` bytes, uninitialised (R1).
    #[inline]
    pub(crate) fn alloc(&self, size: usize) -> NonNull<u8> {
        let size = size.next_multiple_of(ALIGN);
        let current = &self.current[stripe()];
        loop {
            // Acquire, partner: the Release in `refill`; the chunk's head is initialised.
            let chunk = current.load(Ordering::Acquire);
            if let Some(start) = bump(chunk, size) {
                return start;
            }
            if let Some(start) = self.refill(current, chunk, size) {
                return start;
            }
        }
    }

    /// Asks for the memory that this thread is handed out next.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if cfg!(any(loom, shuttle)) {
            return;
        }
        // Acquire, partner: the Release in `refill`; the chunk's head is initialised.
        let chunk = self.current[stripe()].load(Ordering::Acquire);
        // SAFETY: null, or published by `refill` after its head was written; freed on drop only.
        let Some(head) = (unsafe { chunk.as_ref() }) else {
            return;
        };
        // Relaxed: a hint.
        let next = chunk
            .cast::<u8>()
            .wrapping_add(head.used.load(Ordering::Relaxed));
        for line in 0..4 {
            prefetch_at(next.wrapping_add(64 * line));
        }
    }

    /// Replaces the full chunk `seen`, unless another thread has; or serves a large request.
    #[cold]
    fn refill(
        &self,
        current: &AtomicPtr<Chunk>,
        seen: *mut Chunk,
        size: usize,
    ) -> Option<NonNull<u8>> {
        let mut blocks = self.blocks.lock();
        let chunk_size = chunk_size(self.bytes());
        if size > chunk_size / 4 {
            return Some(self.take(&mut blocks, size));
        }
        // Relaxed: chunks are replaced under the lock only.
        if current.load(Ordering::Relaxed) != seen {
            return None;
        }
        let start = self.take(&mut blocks, chunk_size);
        // Relaxed: see `bytes`.
        self.newest.store(chunk_size, Ordering::Relaxed);
        let head = Chunk {
            used: AtomicUsize::new(size_of::<Chunk>().next_multiple_of(ALIGN)),
            size: chunk_size,
        };
        let chunk = start.cast::<Chunk>();
        // SAFETY: the block is aligned, larger than the head, and nobody else's yet.
        unsafe { chunk.write(head) };
        // Release, partner: the Acquire in `alloc`.
        current.store(chunk.as_ptr(), Ordering::Release);
        None
    }

    /// Takes `size` bytes: a spare chunk if it is one, else from the system.
    fn take(&self, blocks: &mut Vec<Block>, size: usize) -> NonNull<u8> {
        let kept = (size == CHUNK_MAX).then(|| self.supply.spare.take());
        let block = kept.flatten().unwrap_or_else(|| Block::new(size));
        let start = block.start();
        // Relaxed: see `bytes`.
        self.bytes.fetch_add(block.size(), Ordering::Relaxed);
        self.supply.counters.bytes.add(block.size() as u64);
        blocks.push(block);
        start
    }
}

/// How large the next chunk of an arena of so many bytes is (R4).
fn chunk_size(bytes: usize) -> usize {
    let part = if bytes < FINE_BELOW { 32 } else { 4 };
    let size = (bytes / part).clamp(CHUNK_MIN, CHUNK_MAX);
    size.next_power_of_two()
}

impl Drop for Arena {
    fn drop(&mut self) {
        for block in self.blocks.get_mut().drain(..) {
            self.supply.spare.give(block);
        }
    }
}

/// Hands out the next `size` bytes of `chunk`, if it is a chunk, large enough, and not full.
#[inline]
fn bump(chunk: *mut Chunk, size: usize) -> Option<NonNull<u8>> {
    // SAFETY: null, or published by `refill` after its head was written; freed on drop only.
    let head = unsafe { chunk.as_ref() }?;
    if size > head.size / 4 {
        return None;
    }
    // Relaxed: the addition alone makes the ranges disjoint; what is written into one is published
    // by whoever links it.
    let offset = head.used.fetch_add(size, Ordering::Relaxed);
    if offset > head.size - size {
        return None;
    }
    // SAFETY: offset + size lies inside the chunk's block.
    let start = unsafe { chunk.cast::<u8>().add(offset) };
    NonNull::new(start)
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Arena({} bytes)", self.bytes())
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn arena() -> Arena {
        Arena::new(Supply::default())
    }

    #[test]
    fn allocations_of_racing_threads_are_aligned_and_disjoint() {
        let arena = arena();
        let each = if cfg!(miri) { 50 } else { 20_000 };
        let mut ranges: Vec<(usize, usize)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let arena = &arena;
                    scope.spawn(move || {
                        (0..each)
                            .map(|turn| {
                                let size = 1 + (turn * 7 + thread) % 200;
                                let start = arena.alloc(size);
                                // SAFETY: `size` bytes at `start` are ours (R1).
                                unsafe { start.write_bytes(0xab, size) };
                                (start.as_ptr().addr(), size)
                            })
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        ranges.sort_unstable();
        assert!(ranges.iter().all(|(start, _)| start % ALIGN == 0));
        assert!(
            ranges
                .windows(2)
                .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
        );
        assert!(arena.bytes() >= ranges.iter().map(|(_, size)| size).sum());
    }

    #[test]
    fn a_large_request_gets_an_allocation_of_its_own_and_is_counted_exactly() {
        let arena = arena();
        arena.alloc(8);
        assert_eq!(arena.bytes(), CHUNK_MIN);
        assert_eq!(arena.newest_chunk(), CHUNK_MIN);
        arena.alloc(CHUNK_MIN / 2);
        assert_eq!(arena.bytes(), CHUNK_MIN + CHUNK_MIN / 2);
        arena.alloc(8);
        assert_eq!(
            arena.bytes(),
            CHUNK_MIN + CHUNK_MIN / 2,
            "the chunk goes on"
        );
        assert_eq!(arena.newest_chunk(), CHUNK_MIN, "what is full is not begun");
        assert_eq!(arena.supply.counters.bytes.sum(), arena.bytes() as u64);
    }
}
