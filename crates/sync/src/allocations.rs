//! Counting a thread's allocations, for tests that claim there are none, or not too many bytes.
//!
//! A test binary makes [`Counting`] its global allocator and asks [`allocations`] or [`peak_bytes`]
//! about a piece of work. What one thread allocates and another frees counts for the first. Not
//! part of the product: behind the feature `allocations`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a count per thread.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes allocated less bytes freed.
    static BYTES: Cell<i64> = const { Cell::new(0) };
    /// The most that were, since somebody asked.
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

fn note() {
    // A thread that is ending has no counter any more, and nobody asks for it.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

/// So many bytes less, so many more.
fn change(less: usize, more: usize) {
    let signed = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    let _ = BYTES.try_with(|bytes| {
        bytes.set(
            bytes
                .get()
                .saturating_add(signed(more))
                .saturating_sub(signed(less)),
        );
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(bytes.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        change(0, layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        change(layout.size(), 0);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        change(layout.size(), size);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}

/// How often this thread allocated during `work`.
pub fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

/// The most bytes that this thread held during `work`, above what it held before; and what `work`
/// returned.
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = BYTES.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    let result = work();
    let most = PEAK.with(Cell::get) - before;
    (result, u64::try_from(most).unwrap_or(0))
}
