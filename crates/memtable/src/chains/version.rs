//! A version in a key's list, and the reuse of versions that were pruned.
//!
//! Source: JellyFish (Middleware '20) 3.1, with one change: the first version of a key is an
//! ordinary element of its list (finding JF-1).
//!
//! ```text
//! | word 8 | len 4 | tag 4 | next 8 | payload, padded to its size class |
//! ```
//! L1. `next` of a reachable version is null or an older version of the same key; it changes only
//!     by pruning, to an older one still.
//! L2. A block on a free list is nobody else's, and got there when every thread that could have
//!     held it had unpinned. Blocks leave a list only under a pin; so while a thread tries to take
//!     one, that one cannot come back, and a compare-and-swap on the list is free of ABA.
//! L3. `next` of a free block is the list's link, and is only ever accessed atomically: a thread
//!     that lost the race for a block may still read it.
//!
//! Threads: any. Tests: the contract suite; `overwrites_stay_bounded` in `tests/pruning.rs`.

use crate::arena::ALIGN;
use crate::record::{Depth, Record, tag};
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use velella_base::ValueKind;
use velella_sync::Guard;
use velella_sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use velella_sync::prefetch::prefetch_at;

/// The fixed part of a version; the payload follows.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct VersionHead {
    pub(crate) record: Record,
    pub(crate) next: AtomicPtr<VersionHead>,
}

/// Bytes before the payload.
const HEAD_BYTES: usize = size_of::<VersionHead>();

/// A reachable version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VersionRef<'g> {
    raw: NonNull<VersionHead>,
    life: PhantomData<&'g VersionHead>,
}

impl<'g> VersionRef<'g> {
    /// The version at `raw`, unless that is null.
    ///
    /// # Safety
    /// `raw` was read from a head or a `next` that the thread could reach in `'g`, during which it
    /// is pinned (or the memtable is held, or exclusively owned).
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut VersionHead) -> Option<VersionRef<'g>> {
        let raw = NonNull::new(raw)?;
        Some(VersionRef {
            raw,
            life: PhantomData,
        })
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut VersionHead {
        self.raw.as_ptr()
    }

    #[inline]
    fn head(self) -> &'g VersionHead {
        // SAFETY: a reachable version is initialised, and written through atomics only until it is
        // reused, which is not in 'g (L2).
        unsafe { self.raw.as_ref() }
    }

    /// State, length and kind.
    #[inline]
    pub(crate) fn record(self) -> &'g Record {
        &self.head().record
    }

    /// The next older version.
    #[inline]
    pub(crate) fn next(self) -> Option<VersionRef<'g>> {
        // Acquire, partners: the Release of the head's CAS that published it, and of `set_next`.
        let next = self.head().next.load(Ordering::Acquire);
        // SAFETY: L1; a version reachable in 'g has its successors reachable in 'g.
        unsafe { VersionRef::from_raw(next) }
    }

    /// Unlinks what lies between this version and `next`. For the one pruner of the key.
    pub(crate) fn set_next(self, next: Option<VersionRef<'g>>) {
        // Release, partner: `next`. What `next` points to was read with Acquire by this thread.
        self.head().next.store(
            next.map_or(null_mut(), VersionRef::as_ptr),
            Ordering::Release,
        );
    }

    /// The payload.
    #[inline]
    pub(crate) fn value(self) -> &'g [u8] {
        let len = self.record().len as usize;
        // SAFETY: the payload follows the head in one allocation.
        let start = unsafe { self.as_ptr().cast::<u8>().add(HEAD_BYTES) };
        // SAFETY: `len` bytes were written there before the version was published, and are not
        // written again in 'g (L2).
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// Asks for the lines behind the first, in which a value of a quarter of a KiB ends.
    #[inline]
    pub(crate) fn prefetch_value(self) {
        let start = self.as_ptr().cast::<u8>();
        for line in 1..=4 {
            prefetch_at(start.wrapping_add(64 * line));
        }
    }

    /// Follows aborted versions to the first that is not.
    pub(crate) fn first_not_aborted(self, guard: &Guard) -> Option<VersionRef<'g>> {
        let mut version = Some(self);
        while let Some(candidate) = version
            && candidate.record().state(guard) == velella_mvcc::word::ABORTED
        {
            version = candidate.next();
        }
        version
    }
}

/// A version of the caller's, not yet reachable by anyone else.
#[derive(Debug)]
pub(crate) struct Draft {
    raw: NonNull<VersionHead>,
}

impl Draft {
    /// Makes fresh memory a version.
    ///
    /// # Safety
    /// `block` is aligned, nobody else's, and holds `version_bytes(len)` bytes.
    pub(crate) unsafe fn fresh(block: NonNull<u8>, kind: ValueKind, len: u32) -> Draft {
        let raw = block.cast::<VersionHead>();
        let head = VersionHead {
            record: Record {
                word: AtomicU64::new(0),
                len,
                tag: tag(kind, Depth(0)),
            },
            next: AtomicPtr::new(null_mut()),
        };
        // SAFETY: the caller's promise.
        unsafe { raw.write(head) };
        Draft { raw }
    }

    /// Makes a block from a free list a version again, field by field (L3).
    fn reused(raw: NonNull<VersionHead>, kind: ValueKind, len: u32) -> Draft {
        let draft = Draft { raw };
        // SAFETY: the block is this draft's alone (L2); `len` is never read through a free block.
        let field = unsafe { &raw mut (*raw.as_ptr()).record.len };
        // SAFETY: in bounds and aligned, as a field of the block.
        unsafe { field.write(len) };
        draft.set_tag(tag(kind, Depth(0)));
        draft
    }

    fn set_tag(&self, tag: u32) {
        // SAFETY: a draft is its holder's alone; `tag` is never read through a free block.
        let field = unsafe { &raw mut (*self.raw.as_ptr()).record.tag };
        // SAFETY: in bounds and aligned, as a field of the block.
        unsafe { field.write(tag) };
    }

    /// Where the payload goes.
    pub(crate) fn payload(&self) -> *mut u8 {
        // SAFETY: the payload follows the head in one allocation.
        unsafe { self.raw.as_ptr().cast::<u8>().add(HEAD_BYTES) }
    }

    /// Sets state and successor: the last thing before it is published.
    pub(crate) fn complete(&self, kind: ValueKind, word: u64, below: Option<VersionRef<'_>>) {
        let depth = below.map_or(Depth(0), |below| below.record().depth().plus(1));
        self.set_tag(tag(kind, depth));
        // SAFETY: the draft's block is an initialised version; only the atomic field is borrowed.
        let state = unsafe { &(*self.raw.as_ptr()).record.word };
        // Relaxed: published by the head's CAS.
        state.store(word, Ordering::Relaxed);
        // SAFETY: as above.
        let next = unsafe { &(*self.raw.as_ptr()).next };
        // Relaxed: published by the head's CAS.
        next.store(
            below.map_or(null_mut(), VersionRef::as_ptr),
            Ordering::Relaxed,
        );
    }

    pub(crate) fn as_ptr(&self) -> *mut VersionHead {
        self.raw.as_ptr()
    }

    /// The version, now that it was published.
    pub(crate) fn published<'g>(self) -> VersionRef<'g> {
        VersionRef {
            raw: self.raw,
            life: PhantomData,
        }
    }

    /// The version, given up unpublished; it may be recycled as if it had been reachable.
    pub(crate) fn abandoned(self) -> Retired {
        Retired(self.raw)
    }
}

/// A version that was unlinked; reusable once nobody who could have seen it is pinned.
#[derive(Debug)]
pub(crate) struct Retired(NonNull<VersionHead>);

// SAFETY: a retired version has one owner, whichever thread that is on.
unsafe impl Send for Retired {}

impl Retired {
    /// The version behind `unlinked`.
    ///
    /// # Safety
    /// The caller has made it unreachable, and retires it once.
    pub(crate) unsafe fn new(unlinked: VersionRef<'_>) -> Retired {
        Retired(unlinked.raw)
    }

    /// How many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        // SAFETY: whoever retires it holds its store; a version's length is never written again.
        version_bytes(unsafe { (*self.0.as_ptr()).record.len })
    }
}

/// Blocks up to this are classed by their exact size.
const EXACT_MAX: usize = 1 << 10;
const EXACT_CLASSES: usize = EXACT_MAX / 8 + 1;
/// Larger ones in eight steps per doubling, up to 2 GiB.
const STEPS: usize = 8;
const CLASSES: usize = EXACT_CLASSES + 21 * STEPS;

/// The size class of a version with `bytes` bytes, and what a block of that class holds.
fn size_class(bytes: usize) -> (usize, usize) {
    if bytes <= EXACT_MAX {
        let bytes = bytes.next_multiple_of(8);
        return (bytes / 8, bytes);
    }
    // `bytes` lies in (2^k, 2^(k+1)], which is divided into eight equal steps.
    let k = (bytes - 1).ilog2();
    let step = 1usize << (k - 3);
    let nth = (bytes - (1 << k)).div_ceil(step);
    let doubling = (k - EXACT_MAX.ilog2()) as usize;
    (
        EXACT_CLASSES + doubling * STEPS + nth - 1,
        (1 << k) + nth * step,
    )
}

/// How many bytes a version with `len` bytes of payload takes.
#[inline]
pub(crate) fn version_bytes(len: u32) -> usize {
    size_class(HEAD_BYTES + len as usize)
        .1
        .next_multiple_of(ALIGN)
}

/// Free lists of versions, one per size class.
#[derive(Debug)]
pub(crate) struct Recycler {
    lists: Box<[AtomicPtr<VersionHead>]>,
}

impl Recycler {
    /// Empty lists.
    pub(crate) fn new() -> Self {
        // Under loom nothing is ever reclaimed, so nothing is ever reused.
        let count = if cfg!(loom) { 0 } else { CLASSES };
        Recycler {
            lists: (0..count).map(|_| AtomicPtr::new(null_mut())).collect(),
        }
    }

    /// A version from the free list of its class, if there is one; the payload is garbage.
    #[inline]
    pub(crate) fn reuse(&self, kind: ValueKind, len: u32, _pinned: &Guard) -> Option<Draft> {
        let (class, _) = size_class(HEAD_BYTES + len as usize);
        let list = self.lists.get(class)?;
        // Acquire, partner: the Release in `give`: the block's link.
        let mut first = list.load(Ordering::Acquire);
        loop {
            let block = NonNull::new(first)?;
            // SAFETY: a block that was on the list is a version for ever; only the atomic field is
            // borrowed, which is all that may be touched if another thread has taken it (L3).
            let link = unsafe { &(*block.as_ptr()).next };
            // Relaxed: if it is stale the CAS fails (L2).
            let second = link.load(Ordering::Relaxed);
            // Acquire twice, partner: `give`.
            match list.compare_exchange_weak(first, second, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(Draft::reused(block, kind, len)),
                Err(current) => first = current,
            }
        }
    }

    /// Puts a version on the free list of its class.
    ///
    /// # Safety
    /// No thread pinned now was pinned when it was retired.
    pub(crate) unsafe fn give(&self, retired: Retired) {
        let block = retired.0.as_ptr();
        // SAFETY: the block is ours alone; `len` is what its class was computed from.
        let len = unsafe { (*block).record.len };
        let (class, _) = size_class(HEAD_BYTES + len as usize);
        let Some(list) = self.lists.get(class) else {
            return;
        };
        // SAFETY: as above; only the atomic field is borrowed.
        let link = unsafe { &(*block).next };
        // Relaxed: a first guess, confirmed by the CAS.
        let mut first = list.load(Ordering::Relaxed);
        loop {
            // Relaxed: published by the CAS.
            link.store(first, Ordering::Relaxed);
            // Release, partner: the Acquire in `reuse`. Relaxed on failure: see above.
            match list.compare_exchange_weak(first, block, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(current) => first = current,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_a_class_holds_every_size_of_that_class() {
        let mut previous = (0, 0);
        for bytes in (HEAD_BYTES..5000).chain([1 << 16, (1 << 16) + 1, 1 << 20, (1 << 30) + 5]) {
            let (class, holds) = size_class(bytes);
            assert!(class < CLASSES);
            assert!(
                holds >= bytes && holds - bytes <= 8.max(bytes / 8),
                "{bytes} {holds}"
            );
            assert!(class >= previous.0 && (class != previous.0 || holds == previous.1));
            previous = (class, holds);
        }
    }
}
