//! A window: one writer's own part of a mapped file.
//!
//! Source: appending to a mapped journal by `memcpy` instead of by `write(2)` is what Xyza
//! (HotStorage '18) gains from a journal per client; here the clients share the file and each
//! has a window.
//!
//! W1. No two windows of one mapping share a byte, at any time (see [`Carver`]): hence a window is
//!     exclusive, may move to another thread, and is written without a lock.
//! W2. On the real file system a write is one bounds check and one `memcpy`: no allocation, no
//!     virtual call, no system call.
//! W3. What was written before [`Window::publish_u32`] is in the file whenever the published word
//!     is, for whoever looks after the process was killed (not after a power loss: V3).
//! W4. A window keeps its mapping alive.
//! W5. A dropped window gives its pages back: a process holds in memory what it still writes, not
//!     all it ever wrote. Their bytes stay in the page cache, dirty or not.
//!
//! Threads: a window belongs to one thread at a time (`Send`, not `Sync`); carving takes a lock.
//!
//! Tests: below, over heap memory, so that Miri can run them; over real mappings in `os/tests.rs`.

use std::collections::BTreeMap;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use velella_base::{Error, Result};
// The machine's atomics: the word lies in mapped memory, outside of any loom model.
use velella_sync::atomic::machine::{AtomicU32, Ordering};
use velella_sync::lock::Mutex;

/// Receives the writes of windows that are not memory: the model's.
pub(crate) trait Sink: Send + Sync {
    /// Stores `bytes` at `offset` in the file.
    fn write(&self, offset: u64, bytes: &[u8]);

    /// Copies `len` bytes from `offset` in the file.
    fn read(&self, offset: u64, len: usize) -> Vec<u8>;
}

/// What keeps the memory behind windows mapped.
pub(crate) trait Mapping: Send + Sync {
    /// The window at `[offset, offset + len)` was written for the last time: its pages may leave
    /// the process (W5). Best effort.
    fn retire(&self, offset: u64, len: usize);
}

enum Target {
    /// The window's first byte in memory, and what keeps that memory mapped.
    Memory {
        base: NonNull<u8>,
        mapping: Arc<dyn Mapping>,
    },
    Modelled(Arc<dyn Sink>),
}

/// An exclusive, writable part of a mapped file.
pub struct Window {
    target: Target,
    offset: u64,
    len: usize,
}

// SAFETY: only `base` keeps the compiler from deriving this. The memory behind it is written
// through this window alone (W1), lives as long as the window (W4), and is not tied to a thread.
unsafe impl Send for Window {}

impl Drop for Window {
    fn drop(&mut self) {
        if let Target::Memory { mapping, .. } = &self.target {
            mapping.retire(self.offset, self.len);
        }
    }
}

impl Window {
    /// A window of `len` bytes at `base`, which are those at `offset` in the file.
    ///
    /// # Safety
    /// For as long as `mapping` lives, `base` must be valid for reads and writes of `len` bytes,
    /// and nobody else may touch them through memory of this process (W1).
    pub(crate) unsafe fn in_memory(
        base: NonNull<u8>,
        offset: u64,
        len: usize,
        mapping: Arc<dyn Mapping>,
    ) -> Window {
        let target = Target::Memory { base, mapping };
        Window {
            target,
            offset,
            len,
        }
    }

    /// A window of `len` bytes at `offset` in the file behind `sink`.
    pub(crate) fn modelled(sink: Arc<dyn Sink>, offset: u64, len: usize) -> Window {
        Window {
            target: Target::Modelled(sink),
            offset,
            len,
        }
    }

    /// Puts someone in front of what receives the writes, if that is a model.
    pub(crate) fn tell(&mut self, told: impl FnOnce(Arc<dyn Sink>) -> Arc<dyn Sink>) {
        if let Target::Modelled(sink) = &self.target {
            self.target = Target::Modelled(told(Arc::clone(sink)));
        }
    }

    /// Bytes in the window.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len as u64
    }

    /// Whether the window has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the window begins in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Stores `bytes` at `at`, counted from the window's beginning.
    ///
    /// # Panics
    /// If they do not lie in the window: the caller's arithmetic is broken.
    #[inline]
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        let at = self.index(at, bytes.len());
        match &self.target {
            Target::Memory { base, .. } => {
                // SAFETY: `at <= len`, and `base` is valid for `len` bytes (`in_memory`).
                let to = unsafe { base.add(at) };
                let from = NonNull::from(bytes).cast::<u8>();
                // SAFETY: `index` checked that all of `bytes` fits behind `to`; the two cannot
                // overlap, because no reference into a window is ever made (W1).
                unsafe { to.copy_from_nonoverlapping(from, bytes.len()) };
            }
            Target::Modelled(sink) => sink.write(self.offset + at as u64, bytes),
        }
    }

    /// Stores `len` zero bytes at `at`.
    ///
    /// # Panics
    /// As [`Window::write`].
    #[inline]
    pub fn fill_zero(&mut self, at: u64, len: u64) {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let at = self.index(at, len);
        match &self.target {
            Target::Memory { base, .. } => {
                // SAFETY: `at <= len`, and `base` is valid for `len` bytes (`in_memory`).
                let to = unsafe { base.add(at) };
                // SAFETY: `index` checked that `len` bytes fit behind `to`; they are ours (W1).
                unsafe { to.write_bytes(0, len) };
            }
            Target::Modelled(sink) => sink.write(self.offset + at as u64, &vec![0; len]),
        }
    }

    /// Stores one little-endian word, after everything written before it (W3): neither compiler
    /// nor processor may let it overtake them.
    ///
    /// # Panics
    /// As [`Window::write`], and if the word's place in the file is not a multiple of 4.
    #[inline]
    pub fn publish_u32(&mut self, at: u64, word: u32) {
        let at = self.index(at, size_of::<u32>());
        let in_file = self.offset + at as u64;
        assert!(in_file.is_multiple_of(4), "unaligned word at {in_file}");
        match &self.target {
            Target::Memory { base, .. } => {
                // SAFETY: `at <= len`, and `base` is valid for `len` bytes (`in_memory`).
                let to = unsafe { base.add(at) }.cast::<u32>();
                assert!(to.is_aligned(), "mapping not aligned to the file");
                // SAFETY: aligned (just checked), valid for 4 bytes (`index`), accessed by nobody
                // else (W1).
                let place = unsafe { AtomicU32::from_ptr(to.as_ptr()) };
                // Release: its partner is not a load but the kernel, which reads the page once
                // this process is dead, and after all that this thread stored before.
                place.store(word.to_le(), Ordering::Release);
            }
            Target::Modelled(sink) => sink.write(in_file, &word.to_le_bytes()),
        }
    }

    /// Copies `len` bytes from `at`; for tests, since journals are read back by `pread`.
    ///
    /// # Panics
    /// As [`Window::write`].
    #[must_use]
    pub fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let at = self.index(at, len);
        match &self.target {
            Target::Memory { base, .. } => {
                let mut bytes = vec![0; len];
                // SAFETY: `at <= len`, and `base` is valid for `len` bytes (`in_memory`).
                let from = unsafe { base.add(at) };
                let to = NonNull::from(bytes.as_mut_slice()).cast::<u8>();
                // SAFETY: `index` checked that `len` bytes lie behind `from`; `to` is fresh.
                unsafe { from.copy_to_nonoverlapping(to, len) };
                bytes
            }
            Target::Modelled(sink) => sink.read(self.offset + at as u64, len),
        }
    }

    /// `at` as an index, once `[at, at + len)` is known to lie in the window.
    #[inline]
    fn index(&self, at: u64, len: usize) -> usize {
        let index = usize::try_from(at).unwrap_or(usize::MAX);
        assert!(
            index.checked_add(len).is_some_and(|end| end <= self.len),
            "[{at}, +{len}) is out of a window of {} bytes",
            self.len
        );
        index
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window")
            .field("offset", &self.offset)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

/// Remembers which parts of a mapping were given out (W1). For ever: a window may be dropped
/// while what it wrote is still to be synced.
#[derive(Debug)]
pub(crate) struct Carver {
    len: u64,
    /// Begin -> end, neither overlapping nor touching.
    taken: Mutex<BTreeMap<u64, u64>>,
}

impl Carver {
    /// Nothing of a mapping of `len` bytes is taken.
    pub(crate) fn new(len: u64) -> Carver {
        Carver {
            len,
            taken: Mutex::new(BTreeMap::new()),
        }
    }

    /// Takes `[offset, offset + len)`; `InvalidInput` if it cannot be given out.
    pub(crate) fn take(&self, offset: u64, len: u64) -> Result<()> {
        let refused = |found: String| Err(Error::invalid("open a window of", found).at(offset));
        let end = match offset.checked_add(len) {
            Some(end) if end <= self.len => end,
            _ => {
                return refused(format!(
                    "{len} bytes are outside the {} mapped ones",
                    self.len
                ));
            }
        };
        if len == 0 {
            return refused("it would be empty".to_owned());
        }
        let mut taken = self.taken.lock();
        let before = taken
            .range(..end)
            .next_back()
            .map(|(&from, &to)| (from, to));
        if let Some((from, to)) = before.filter(|&(_, to)| to > offset) {
            return refused(format!(
                "{len} bytes overlap [{from}, {to}), given out before"
            ));
        }
        let begin = match before {
            Some((from, to)) if to == offset => from,
            _ => offset,
        };
        let end = taken.remove(&end).unwrap_or(end);
        taken.insert(begin, end);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
