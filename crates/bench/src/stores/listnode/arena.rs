//! Things that are named by numbers and stay where they are until all go.
//!
//! R1. What a number names never moves and never changes but through its own atomics.
//! R2. A number is seen by others only after what it names is there.
//!
//! Threads: any, without locks but for the first of 65,536 things. Tests: `tests/stores.rs`.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Names nothing.
pub(super) const NONE: u32 = u32::MAX;
const CHUNK: usize = 1 << 16;
const CHUNKS: usize = 1 << 14;

/// The things.
#[derive(Debug)]
pub(super) struct Arena<T> {
    chunks: Vec<OnceLock<Box<[OnceLock<T>]>>>,
    taken: AtomicUsize,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena {
            chunks: std::iter::repeat_with(OnceLock::new).take(CHUNKS).collect(),
            taken: AtomicUsize::new(0),
        }
    }
}

impl<T> Arena<T> {
    /// Keeps `thing`; its number, or nothing where there are too many.
    pub(super) fn push(&self, thing: T) -> Option<u32> {
        // Relaxed: only the number matters; the thing is published by whoever publishes it (R2).
        let at = self.taken.fetch_add(1, Ordering::Relaxed);
        let chunk = self.chunks.get(at / CHUNK)?;
        let empty = || std::iter::repeat_with(OnceLock::new).take(CHUNK).collect();
        let slot = &chunk.get_or_init(empty)[at % CHUNK];
        slot.set(thing).ok()?;
        u32::try_from(at).ok()
    }

    /// The thing that `push` gave this number.
    #[inline]
    pub(super) fn get(&self, at: u32) -> &T {
        let at = at as usize;
        let chunk = self.chunks[at / CHUNK].get();
        let thing = chunk.and_then(|chunk| chunk[at % CHUNK].get());
        thing.expect("numbers come from push, which returns when the thing is there")
    }
}
