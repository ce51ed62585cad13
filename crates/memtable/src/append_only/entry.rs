//! One version of one key, with a tower of its own.
//!
//! Source: RocksDB's InlineSkipList, as the JellyFish paper (Middleware '20) describes it under
//! AOC: links, key and value in one allocation.
//!
//! ```text
//! | next[height - 1] .. next[0] | word 8 | len 4 | tag 4 | key length 8 | key, padded | value |
//!                               ^ where pointers point
//! ```
//! E1. A link is null or points to an initialised entry of the same list, which lives until the
//!     list's arena is freed. An entry is reached at a level only if it is that high.
//! E2. Key and value never change after publication.

use crate::interface::Intent;
use crate::probe::Probe;
use crate::record::{Depth, Record, tag};
use std::cmp::Ordering as Compared;
use std::marker::PhantomData;
use std::ptr::{NonNull, null_mut};
use velella_sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Most levels.
pub(crate) const LEVELS: usize = match (cfg!(loom), cfg!(shuttle)) {
    (true, _) => 2,
    (_, true) => 4,
    _ => 13,
};

/// The fixed part of an entry.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct EntryHead {
    record: Record,
    key_len: usize,
}

type Link = AtomicPtr<EntryHead>;

/// Bytes that a key takes.
fn key_bytes(key_len: usize) -> usize {
    key_len.max(8).next_multiple_of(8)
}

/// Bytes that an entry takes.
pub(crate) fn entry_bytes(height: usize, key_len: usize, len: u32) -> usize {
    height * size_of::<Link>() + size_of::<EntryHead>() + key_bytes(key_len) + len as usize
}

/// An entry of a list that lives during `'l`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry<'l> {
    raw: NonNull<EntryHead>,
    life: PhantomData<&'l EntryHead>,
}

// SAFETY: what an entry refers to is shared by all threads anyway: through atomics, or immutable.
unsafe impl Send for Entry<'_> {}

impl<'l> Entry<'l> {
    /// The entry at `raw`, unless that is null.
    ///
    /// # Safety
    /// `raw` is null or an entry of a list that lives during `'l` (E1).
    #[inline]
    pub(crate) unsafe fn from_raw(raw: *mut EntryHead) -> Option<Entry<'l>> {
        let raw = NonNull::new(raw)?;
        Some(Entry {
            raw,
            life: PhantomData,
        })
    }

    /// Writes an entry of `height` levels at `block`, linked nowhere yet.
    ///
    /// # Safety
    /// `block` is aligned, nobody else's, holds `entry_bytes` bytes, and lives in `'l`.
    pub(crate) unsafe fn write(block: NonNull<u8>, height: usize, intent: &Intent<'_>) -> Self {
        let links = block.cast::<Link>();
        for level in 0..height {
            // SAFETY: the block begins with room for `height` links.
            let link = unsafe { links.add(level) };
            // SAFETY: in bounds, aligned, and nobody else's.
            unsafe { link.write(AtomicPtr::new(null_mut())) };
        }
        // SAFETY: the head follows the links in the same block.
        let raw = unsafe { links.add(height) }.cast::<EntryHead>();
        let head = EntryHead {
            record: Record {
                word: AtomicU64::new(0),
                len: intent.payload_len(),
                tag: tag(intent.kind, Depth(0)),
            },
            key_len: intent.key.len(),
        };
        // SAFETY: in bounds, aligned, and nobody else's.
        unsafe { raw.write(head) };
        let entry = Entry {
            raw,
            life: PhantomData,
        };
        let key = entry.key_start().cast_mut();
        if intent.key.len() < 8 {
            // SAFETY: at least eight bytes are there for the key.
            unsafe { key.write_bytes(0, 8) };
        }
        // SAFETY: `entry_bytes` made room for the key; fresh memory overlaps nothing.
        unsafe { key.copy_from_nonoverlapping(intent.key.as_ptr(), intent.key.len()) };
        // SAFETY: the value follows the key in the same block.
        let value = unsafe { key.add(key_bytes(intent.key.len())) };
        // SAFETY: `entry_bytes` made room for the payload.
        unsafe { intent.write_payload(value) };
        entry
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut EntryHead {
        self.raw.as_ptr()
    }

    /// The same entry, for whoever keeps its list alive by other means.
    ///
    /// # Safety
    /// The list lives during `'m`.
    pub(crate) unsafe fn extend<'m>(self) -> Entry<'m> {
        Entry {
            raw: self.raw,
            life: PhantomData,
        }
    }

    #[inline]
    fn fields(self) -> &'l EntryHead {
        // SAFETY: E1; the fixed part is written through atomics only.
        unsafe { self.raw.as_ref() }
    }

    /// State, length and kind.
    #[inline]
    pub(crate) fn record(self) -> &'l Record {
        &self.fields().record
    }

    #[inline]
    fn key_start(self) -> *const u8 {
        // SAFETY: the key follows the head in the same block.
        unsafe { self.as_ptr().cast::<u8>().add(size_of::<EntryHead>()) }
    }

    /// The key.
    #[inline]
    pub(crate) fn key(self) -> &'l [u8] {
        // SAFETY: as many bytes were written there before publication and never change (E2).
        unsafe { std::slice::from_raw_parts(self.key_start(), self.fields().key_len) }
    }

    /// The payload.
    #[inline]
    pub(crate) fn value(self) -> &'l [u8] {
        // SAFETY: the value follows the key in the same block.
        let start = unsafe { self.key_start().add(key_bytes(self.fields().key_len)) };
        // SAFETY: as many bytes were written there before publication and never change (E2).
        unsafe { std::slice::from_raw_parts(start, self.record().len as usize) }
    }

    /// How this entry's key stands to the one searched for.
    #[inline]
    pub(crate) fn compare(self, probe: &Probe<'_>) -> Compared {
        // SAFETY: at least eight bytes are there, zero-padded, and never change (E2).
        let prefix = unsafe { self.key_start().cast::<[u8; 8]>().read() };
        probe.compare(u64::from_be_bytes(prefix), || self.key())
    }

    /// The link at `level`.
    ///
    /// # Safety
    /// The entry is higher than `level`: it was reached there, is the list's head, or is the
    /// caller's own (E1).
    #[inline]
    pub(crate) unsafe fn link(self, level: usize) -> &'l Link {
        let link = self.as_ptr().cast::<Link>().wrapping_sub(level + 1);
        // SAFETY: the caller's promise; links are initialised before publication.
        unsafe { &*link }
    }

    /// The next entry at `level`.
    ///
    /// # Safety
    /// As [`Entry::link`].
    #[inline]
    pub(crate) unsafe fn next_at(self, level: usize) -> Option<Entry<'l>> {
        // SAFETY: the caller's promise.
        let link = unsafe { self.link(level) };
        // Acquire, partner: the Release of the CAS that linked it: its key and value are complete.
        let next = link.load(Ordering::Acquire);
        // SAFETY: E1.
        unsafe { Entry::from_raw(next) }
    }

    /// The next entry at the bottom.
    #[inline]
    pub(crate) fn next(self) -> Option<Entry<'l>> {
        // SAFETY: every entry has a bottom level.
        unsafe { self.next_at(0) }
    }
}
