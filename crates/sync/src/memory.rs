//! Memory from the system: small blocks from the allocator, large ones as pages of their own.
//!
//! Source: none. An allocator keeps what is freed in the middle of its heap, and so the process
//! would exceed its budget although every memtable kept to it; pages that were mapped for one
//! block leave the process with it.
//!
//! K1. A block is aligned to [`BLOCK_ALIGN`], one that is mapped and as large as a huge page to a
//!     huge page; it is its owner's alone until dropped.
//! K2. `size` is what the system was asked for: at least what the caller asked for.
//! K3. Where the system maps no more, a block is the allocator's, whatever its size.
//!
//! Threads: a block may be dropped by another thread than made it. Tests: below; what leaves the
//! process, in `tests/resident_memory.rs`, and memtables made of blocks, in theirs.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Alignment of every block: what every allocator gives without padding.
pub const BLOCK_ALIGN: usize = 16;

/// Bytes of a huge page, on the processors that matter here.
pub const HUGE_PAGE: usize = 2 << 20;

/// Whether large blocks are mapped at all: models and interpreters have no pages.
pub(crate) const MAPS: bool = cfg!(all(unix, not(miri), not(any(loom, shuttle))));

/// No processor we know has smaller pages.
pub(crate) const SMALLEST_PAGE: usize = 4 << 10;

/// Blocks from this size on are mapped: the system calls are few, and pages lie whole in a block.
const MAPPED_FROM: usize = 1 << 20;

/// Has the allocator give free pages back to the system, also from the middle of the process's
/// heaps. It holds the lock of one heap at a time meanwhile, a microsecond for each piece that is
/// free and larger than a page: not for every day.
pub fn give_back_free_pages() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: it touches what is free only, and may be called at any time, by any thread.
    let _given_back = unsafe { libc::malloc_trim(0) };
}

/// Memory taken from the system; given back when dropped.
#[derive(Debug)]
pub struct Block {
    start: NonNull<u8>,
    size: usize,
    is_mapped: bool,
}

// SAFETY: a block is plain memory with one owner.
unsafe impl Send for Block {}
// SAFETY: through a shared reference only its address is read.
unsafe impl Sync for Block {}

/// Asks for huge pages behind `bytes` bytes at `start`: a search's next node is rarely on a page
/// whose translation the processor still knows. Less than a huge page is left alone.
fn advise_huge_pages(start: *mut u8, bytes: usize) {
    #[cfg(all(target_os = "linux", not(miri)))]
    if bytes >= HUGE_PAGE {
        use rustix::mm::{Advice, madvise};
        let skipped = start.align_offset(SMALLEST_PAGE);
        let (start, bytes) = (start.wrapping_add(skipped), bytes - skipped);
        // SAFETY: advice on memory of the caller's; it changes no content. A refusal is harmless.
        let _refused = unsafe { madvise(start.cast(), bytes, Advice::LinuxHugepage) };
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = (start, bytes);
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, BLOCK_ALIGN).expect("a block is far smaller than isize::MAX")
}

impl Block {
    /// A block of at least `size` bytes, uninitialised. Like every allocation this one ends the
    /// process if there is no memory.
    ///
    /// # Panics
    /// `size` is zero.
    pub fn new(size: usize) -> Block {
        // SAFETY: `take` has seen that the size is not zero.
        Block::take(size, |layout| unsafe { alloc(layout) })
    }

    /// As [`Block::new`], all zero.
    ///
    /// # Panics
    /// `size` is zero.
    pub fn zeroed(size: usize) -> Block {
        // SAFETY: `take` has seen that the size is not zero.
        Block::take(size, |layout| unsafe { alloc_zeroed(layout) })
    }

    /// As [`Block::zeroed`], but mapped, however small; `None` where the system maps no more.
    pub(crate) fn map(size: usize) -> Option<Block> {
        // By whole pages, or the part above an aligned range could not be given back.
        let size = size.checked_next_multiple_of(pages::size())?;
        // Rust addresses no more from one start.
        isize::try_from(size).ok()?;
        let start = pages::map(size)?;
        advise_huge_pages(start.as_ptr(), size);
        Some(Block::mapped(start, size))
    }

    /// The block that is mapped there, to be given back when it is dropped.
    fn mapped(start: NonNull<u8>, size: usize) -> Block {
        let is_mapped = true;
        Block {
            start,
            size,
            is_mapped,
        }
    }

    /// Where it begins, for who takes over to give it back.
    pub(crate) fn into_start(self) -> NonNull<u8> {
        ManuallyDrop::new(self).start
    }

    /// Gives back a block of [`Block::map`].
    ///
    /// # Safety
    /// `into_start` said `start`, `size` is what it was asked for, and nobody refers to it any
    /// more.
    pub(crate) unsafe fn unmap(start: NonNull<u8>, size: usize) {
        drop(Block::mapped(start, size.next_multiple_of(pages::size())));
    }

    fn take(size: usize, alloc: impl FnOnce(Layout) -> *mut u8) -> Block {
        assert!(size != 0, "an empty block");
        let mapped = (MAPS && size >= MAPPED_FROM).then(|| Block::map(size));
        mapped.flatten().unwrap_or_else(|| {
            let Some(start) = NonNull::new(alloc(layout(size))) else {
                handle_alloc_error(layout(size))
            };
            advise_huge_pages(start.as_ptr(), size);
            let is_mapped = false;
            Block {
                start,
                size,
                is_mapped,
            }
        })
    }

    /// Makes it all zero.
    pub fn clear(&mut self) {
        // SAFETY: the block is as large, and its owner's alone.
        unsafe { self.start.write_bytes(0, self.size) };
    }

    /// Has the system provide all its pages, by the calling thread; what they hold then is not
    /// said.
    pub fn touch(&mut self) {
        for at in (0..self.size).step_by(SMALLEST_PAGE) {
            let page = self.start.as_ptr().wrapping_add(at);
            // SAFETY: inside of the block, which is its owner's alone.
            unsafe { page.write_volatile(0) };
        }
    }

    /// Its first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Its size in bytes (K2).
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.is_mapped {
            // SAFETY: `map` mapped these pages; they are given back once: here.
            unsafe { pages::unmap(self.start.as_ptr(), self.size) };
        } else {
            // SAFETY: `take` has it from the allocator with this layout; given back once: here.
            unsafe { dealloc(self.start.as_ptr(), layout(self.size)) };
        }
    }
}

#[cfg(all(unix, not(miri), not(any(loom, shuttle))))]
mod pages {
    use super::HUGE_PAGE;
    use super::NonNull;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    use std::ptr::null_mut;

    /// Bytes of a page of this machine.
    pub(super) fn size() -> usize {
        rustix::param::page_size()
    }

    fn map_anywhere(size: usize) -> Option<NonNull<u8>> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh private mapping where the kernel likes: it replaces nothing.
        let start = unsafe { mmap_anonymous(null_mut(), size, access, MapFlags::PRIVATE) };
        NonNull::new(start.ok()?.cast())
    }

    /// Maps `size` bytes, all zero; aligned to a huge page if they are as large as one.
    pub(super) fn map(size: usize) -> Option<NonNull<u8>> {
        let start = map_anywhere(size)?;
        let is_aligned = start.addr().get().is_multiple_of(HUGE_PAGE);
        if is_aligned || size < HUGE_PAGE {
            return Some(start);
        }
        // SAFETY: mapped just now, and nobody has seen it.
        unsafe { unmap(start.as_ptr(), size) };
        // Enough to hold an aligned range; what is before and after it goes back. The kernel puts
        // the next mapping beside this one, so that it most often is aligned by itself.
        let start = map_anywhere(size.checked_add(HUGE_PAGE)?)?.as_ptr();
        let before = start.align_offset(HUGE_PAGE);
        let aligned = start.wrapping_add(before);
        if before != 0 {
            // SAFETY: the part of the fresh mapping below the aligned range.
            unsafe { unmap(start, before) };
        }
        // SAFETY: the part of the fresh mapping above the aligned range: `before` is less than a
        // huge page.
        unsafe { unmap(aligned.wrapping_add(size), HUGE_PAGE - before) };
        NonNull::new(aligned)
    }

    /// Gives pages back.
    ///
    /// # Safety
    /// They were mapped by [`map`], and nobody refers to them any more.
    pub(super) unsafe fn unmap(start: *mut u8, size: usize) {
        // SAFETY: the caller's promise.
        let result = unsafe { munmap(start.cast(), size) };
        debug_assert!(result.is_ok(), "unmapping {size} bytes: {result:?}");
    }
}

/// Where nothing is mapped.
#[cfg(not(all(unix, not(miri), not(any(loom, shuttle)))))]
mod pages {
    use super::NonNull;

    pub(super) fn size() -> usize {
        super::SMALLEST_PAGE
    }

    pub(super) fn map(_size: usize) -> Option<NonNull<u8>> {
        unreachable!("nothing is mapped here")
    }

    /// Nothing: nothing was mapped.
    ///
    /// # Safety
    /// None needed.
    pub(super) unsafe fn unmap(_start: *mut u8, _size: usize) {}
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_every_size_are_aligned_zero_and_writable_to_the_end() {
        let mapped = [
            MAPPED_FROM - 1,
            MAPPED_FROM,
            MAPPED_FROM + 1,
            HUGE_PAGE,
            HUGE_PAGE + 64,
            3 * HUGE_PAGE,
        ];
        let large: &[usize] = if MAPS { &mapped } else { &[] };
        let sizes = [&[1, 100, 4 << 10], large].concat();
        let blocks: Vec<Block> = sizes.iter().map(|size| Block::zeroed(*size)).collect();
        for (block, size) in blocks.iter().zip(sizes.iter().copied()) {
            assert!(block.size() >= size && block.size() < size + pages::size());
            let align = if MAPS && size >= HUGE_PAGE {
                HUGE_PAGE
            } else {
                BLOCK_ALIGN
            };
            assert!(block.start().addr().get().is_multiple_of(align), "{size}");
            // SAFETY: the block is this test's, and zeroed.
            let bytes =
                unsafe { std::slice::from_raw_parts_mut(block.start().as_ptr(), block.size()) };
            assert!(bytes.iter().all(|byte| *byte == 0), "{size}");
            bytes.fill(0xab);
        }
        for (block, size) in blocks.iter().zip(sizes.iter().copied()) {
            // SAFETY: written above; nobody writes now.
            let bytes = unsafe { std::slice::from_raw_parts(block.start().as_ptr(), block.size()) };
            assert!(
                bytes.iter().all(|byte| *byte == 0xab),
                "{size}: blocks overlap"
            );
        }
    }
}
