//! A key's record: the key, and the head of its list of versions, which never moves.
//!
//! Source: JellyFish (Middleware '20) 3.1: one pointer to a list of versions a key.
//!
//! ```text
//! node   | head 8 | key length 4 | prune 4 | next 8 | key, zero-padded to at least 8 |
//! ```
//! N1. A pointer in `next` is null or points to an initialised node of the same list, which lives
//!     until the list's arenas are freed.
//! N2. The key never changes after publication.

use crate::chains::version::VersionHead;
use crate::probe::Probe;
use crate::record::Depth;
use std::cmp::Ordering as Compared;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use velella_sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use velella_sync::prefetch::prefetch_at;

/// Versions a key's list may grow by before it is worth a first pruning.
pub(crate) const PRUNE_STEP: u32 = 32;

/// The fixed part of a node; the key follows.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct NodeHead {
    pub(crate) head: AtomicPtr<VersionHead>,
    key_len: u32,
    /// `depth << 8 | busy`: at which depth the list is to be pruned, and whether somebody is at it.
    pub(crate) prune: AtomicU32,
    pub(crate) next: AtomicPtr<NodeHead>,
}

/// How many bytes a node with a key of `key_len` bytes takes.
pub(crate) fn node_bytes(key_len: usize) -> usize {
    size_of::<NodeHead>() + key_len.max(8).next_multiple_of(8)
}

/// A node of a list that lives during `'l`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Node<'l> {
    raw: NonNull<NodeHead>,
    life: PhantomData<&'l NodeHead>,
}

// SAFETY: what a node refers to is shared by all threads anyway: through atomics, or immutable.
unsafe impl Send for Node<'_> {}

impl<'l> Node<'l> {
    /// The node at `raw`, unless that is null.
    ///
    /// # Safety
    /// `raw` is null or a node of a list that lives during `'l` (N1).
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut NodeHead) -> Option<Node<'l>> {
        let raw = NonNull::new(raw)?;
        Some(Node {
            raw,
            life: PhantomData,
        })
    }

    /// Writes a node for `key` at `block`, without a version or a successor.
    ///
    /// # Safety
    /// `block` is aligned, nobody else's, holds `node_bytes(key.len())` bytes, and lives in `'l`.
    pub(crate) unsafe fn write(block: NonNull<u8>, key: &[u8]) -> Node<'l> {
        let raw = block.cast::<NodeHead>();
        let head = NodeHead {
            head: AtomicPtr::new(null_mut()),
            key_len: u32::try_from(key.len()).expect("a key is at most 64 KiB"),
            prune: AtomicU32::new(Depth(PRUNE_STEP).0 << 8),
            next: AtomicPtr::new(null_mut()),
        };
        // SAFETY: the caller's promise.
        unsafe { raw.write(head) };
        // SAFETY: the key's place follows the head in the same block.
        let target = unsafe { block.as_ptr().add(size_of::<NodeHead>()) };
        if key.len() < 8 {
            // SAFETY: at least eight bytes are there for the key.
            unsafe { target.write_bytes(0, 8) };
        }
        // SAFETY: `node_bytes` made room for the key; fresh memory overlaps nothing.
        unsafe { target.copy_from_nonoverlapping(key.as_ptr(), key.len()) };
        Node {
            raw,
            life: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut NodeHead {
        self.raw.as_ptr()
    }

    /// The same node, for whoever keeps its list alive by other means.
    ///
    /// # Safety
    /// The list lives during `'m`.
    pub(crate) unsafe fn extend<'m>(self) -> Node<'m> {
        Node {
            raw: self.raw,
            life: PhantomData,
        }
    }

    #[inline]
    pub(crate) fn fields(self) -> &'l NodeHead {
        // SAFETY: N1; the fixed part is written through atomics only.
        unsafe { self.raw.as_ref() }
    }

    #[inline]
    fn key_start(self) -> *const u8 {
        // SAFETY: the key follows the head in the same block.
        unsafe { self.as_ptr().cast::<u8>().add(size_of::<NodeHead>()) }
    }

    /// The key.
    #[inline]
    pub(crate) fn key(self) -> &'l [u8] {
        let len = self.fields().key_len as usize;
        // SAFETY: `len` bytes were written there before publication and never change (N2).
        unsafe { std::slice::from_raw_parts(self.key_start(), len) }
    }

    /// The key's prefix word.
    #[inline]
    pub(crate) fn prefix(self) -> u64 {
        // SAFETY: at least eight bytes are there, zero-padded, and never change (N2).
        let bytes = unsafe { self.key_start().cast::<[u8; 8]>().read() };
        u64::from_be_bytes(bytes)
    }

    /// How this node's key stands to the one searched for.
    #[inline]
    pub(crate) fn compare(self, probe: &Probe<'_>) -> Compared {
        probe.compare(self.prefix(), || self.key())
    }

    /// Asks for the node's version, which most often lies behind it, and for its successor.
    #[inline]
    pub(crate) fn prefetch(self) {
        let start = self.as_ptr().cast::<u8>();
        prefetch_at(start.wrapping_add(64));
        prefetch_at(start.wrapping_add(128));
        // Relaxed: a hint.
        prefetch_at(self.fields().next.load(Ordering::Relaxed));
    }

    /// Asks for the node's fixed part.
    #[inline]
    pub(crate) fn prefetch_start(self) {
        prefetch_at(self.as_ptr());
    }

    /// Asks for the node and its version; a value of 100 bytes ends on the fourth line.
    #[inline]
    pub(crate) fn prefetch_all(self) {
        let start = self.as_ptr().cast::<u8>();
        prefetch_at(start);
        prefetch_at(start.wrapping_add(64));
        prefetch_at(start.wrapping_add(128));
        prefetch_at(start.wrapping_add(192));
    }

    /// Asks for the newest version, unless that lies behind the node, where the first one does. The
    /// node itself should have arrived.
    #[inline]
    pub(crate) fn prefetch_newest(self) {
        if cfg!(any(loom, shuttle)) {
            return;
        }
        // Relaxed: a hint.
        let newest = self.fields().head.load(Ordering::Relaxed).cast::<u8>();
        let first = self.as_ptr().cast::<u8>();
        let first = first.wrapping_add(node_bytes(self.fields().key_len as usize));
        if newest != first {
            prefetch_at(newest);
            prefetch_at(newest.wrapping_add(64));
            prefetch_at(newest.wrapping_add(128));
        }
    }

    /// The next node of the bottom level.
    #[inline]
    pub(crate) fn next(self) -> Option<Node<'l>> {
        // Acquire, partner: the Release of the CAS that linked it: its key is complete.
        let next = self.fields().next.load(Ordering::Acquire);
        // SAFETY: N1.
        unsafe { Node::from_raw(next) }
    }
}
