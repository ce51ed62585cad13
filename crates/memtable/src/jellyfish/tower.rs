//! The upper levels of a key in the list: for one node in four, its tower.
//!
//! Source: JellyFish (Middleware '20) 3.1: array towers. They lie apart from the nodes, densely, as
//! in Java's ConcurrentSkipListMap but as arrays: all that a search reads above the bottom level
//! fits the outer caches.
//!
//! ```text
//! tower  | prefix word 8 | node 8 | next 8 * height |
//! ```
//! T1. A pointer in `next` or `node` is null or points to an initialised tower or node of the same
//!     list, which lives until the list's arenas are freed.
//! T2. Prefix and `node` never change after publication.
//! T3. A tower is reached at a level only after it was linked there; it is linked bottom-up.

use crate::chains::node::{Node, NodeHead};
use crate::probe::{Probe, prefix_word};
use std::cmp::Ordering as Compared;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use velella_sync::atomic::{AtomicPtr, Ordering};
use velella_sync::prefetch::prefetch_at;

/// Most levels above the bottom: enough for 4^13 keys.
pub(crate) const LEVELS: usize = match (cfg!(loom), cfg!(shuttle)) {
    (true, _) => 1,
    (_, true) => 3,
    _ => 12,
};

/// The fixed part of a tower; its links follow.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct TowerHead {
    prefix: u64,
    node: *mut NodeHead,
}

/// How many bytes a tower of `height` levels takes.
pub(crate) fn tower_bytes(height: usize) -> usize {
    size_of::<TowerHead>() + height * size_of::<AtomicPtr<TowerHead>>()
}

/// A tower of a list that lives during `'l`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tower<'l> {
    raw: NonNull<TowerHead>,
    life: PhantomData<&'l TowerHead>,
}

impl<'l> Tower<'l> {
    /// The tower at `raw`, unless that is null.
    ///
    /// # Safety
    /// `raw` is null or a tower of a list that lives during `'l` (T1).
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut TowerHead) -> Option<Tower<'l>> {
        let raw = NonNull::new(raw)?;
        Some(Tower {
            raw,
            life: PhantomData,
        })
    }

    /// Writes a tower over `node` at `block`, linked nowhere yet.
    ///
    /// # Safety
    /// `block` is aligned, nobody else's, holds `tower_bytes(height)` bytes, and lives in `'l`.
    pub(crate) unsafe fn write(block: NonNull<u8>, node: Node<'l>, height: usize) -> Tower<'l> {
        let raw = block.cast::<TowerHead>();
        let head = TowerHead {
            prefix: prefix_word(node.key()),
            node: node.as_ptr(),
        };
        // SAFETY: the caller's promise.
        unsafe { raw.write(head) };
        let tower = Tower {
            raw,
            life: PhantomData,
        };
        for level in 0..height {
            // SAFETY: `level` is below the height that the block was sized for.
            unsafe { tower.link_ptr(level).write(AtomicPtr::new(null_mut())) };
        }
        tower
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut TowerHead {
        self.raw.as_ptr()
    }

    /// The same tower, for whoever keeps its list alive by other means.
    ///
    /// # Safety
    /// The list lives during `'m`.
    pub(crate) unsafe fn extend<'m>(self) -> Tower<'m> {
        Tower {
            raw: self.raw,
            life: PhantomData,
        }
    }

    #[inline]
    fn link_ptr(self, level: usize) -> *mut AtomicPtr<TowerHead> {
        let links = self.as_ptr().wrapping_add(1).cast::<AtomicPtr<TowerHead>>();
        links.wrapping_add(level)
    }

    #[inline]
    fn fields(self) -> &'l TowerHead {
        // SAFETY: T1, T2.
        unsafe { self.raw.as_ref() }
    }

    /// The link at `level` above the bottom.
    ///
    /// # Safety
    /// The tower is higher than `level`: it was reached there, is the list's head, or is the
    /// caller's own (T3).
    #[inline]
    pub(crate) unsafe fn link(self, level: usize) -> &'l AtomicPtr<TowerHead> {
        // SAFETY: the caller's promise; links are initialised before publication.
        unsafe { &*self.link_ptr(level) }
    }

    /// The next tower at `level`.
    ///
    /// # Safety
    /// As [`Tower::link`].
    #[inline]
    pub(crate) unsafe fn next(self, level: usize) -> Option<Tower<'l>> {
        // SAFETY: the caller's promise.
        let link = unsafe { self.link(level) };
        // Acquire, partner: the Release of the CAS that linked it: prefix and node are complete.
        let next = link.load(Ordering::Acquire);
        // SAFETY: T1.
        unsafe { Tower::from_raw(next) }
    }

    /// Asks for what a search meets next if it goes down here: it arrives together with the next
    /// tower on this level, which decides that.
    ///
    /// # Safety
    /// As [`Tower::link`].
    #[inline]
    pub(crate) unsafe fn prefetch_below(self, level: usize) {
        let Some(below) = level.checked_sub(1) else {
            prefetch_at(self.fields().node);
            return;
        };
        // SAFETY: the caller's promise: a tower has all levels below one it has.
        let link = unsafe { self.link(below) };
        // Relaxed: a hint.
        prefetch_at(link.load(Ordering::Relaxed));
    }

    /// Asks for it.
    #[inline]
    pub(crate) fn prefetch(self) {
        prefetch_at(self.as_ptr());
    }

    /// The prefix word of its key.
    #[inline]
    pub(crate) fn prefix(self) -> u64 {
        self.fields().prefix
    }

    /// The node this tower stands on.
    #[inline]
    pub(crate) fn node(self) -> Node<'l> {
        // SAFETY: T1.
        unsafe { Node::from_raw(self.fields().node) }.expect("written from a node")
    }

    /// How this tower's key stands to the one searched for.
    #[inline]
    pub(crate) fn compare(self, probe: &Probe<'_>) -> Compared {
        probe.compare(self.fields().prefix, || self.node().key())
    }
}
