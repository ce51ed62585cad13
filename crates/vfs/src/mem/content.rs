//! One file's bytes: what readers see, what the device has, and everything in between.
//!
//! Source: the union of what ALICE (OSDI '14), LazyFS and "Can Applications Recover from fsync
//! Failures?" (ATC '20) found file systems to do.
//!
//! C1. `cache` is what every reader sees; `durable` is what a power loss is certain to leave.
//! C2. A sector whose cached value may differ from the durable one *and is going to be written* is
//!     in `dirty`, with every change since the last sync. A sector that differs without
//!     being there is a page the kernel marked clean after a failed write: no later sync writes
//!     it (V4).
//! C3. Length and data survive separately: a longer file may show zeros.
//! C4. A surviving cut forgets what lay behind it before: it never shows again.
//! C5. Bytes are shared by an image and what it was taken from until one of them changes.
//! C6. A write that changes no byte, neither of the cache nor of the device, is not remembered:
//!     whether it survives makes no difference.

use crate::mem::crash::Choice;
use crate::mem::pages::Pages;
use crate::mem::sector::{Dirty, SECTOR};
use std::collections::BTreeMap;
use std::sync::Arc;
use velella_sync::rng::Rng;

/// Unit of space.
pub(super) const BLOCK: u64 = 4096;
/// A length the file got.
#[derive(Clone, Copy)]
struct Length {
    at: u64,
    len: usize,
    /// Whether it was longer before.
    cut: bool,
}

/// A file's content.
#[derive(Clone, Default)]
pub(super) struct Content {
    cache: Arc<Pages>,
    durable: Arc<Pages>,
    dirty: BTreeMap<usize, Arc<Dirty>>,
    /// Changes of the length since the last sync.
    lengths: Vec<Length>,
    /// Which blocks have space.
    blocks: Vec<bool>,
    /// Whether sectors may differ that are not in `dirty` (C2).
    is_split: bool,
}

impl Content {
    /// Bytes, as readers see them.
    pub(super) fn len(&self) -> usize {
        self.cache.len()
    }

    /// The bytes, as readers see them.
    pub(super) fn bytes(&self) -> &Pages {
        &self.cache
    }

    /// Time of the oldest change that a power loss could lose.
    pub(super) fn first_unsynced(&self) -> Option<u64> {
        let sectors = self.dirty.values().filter_map(|dirty| dirty.times().next());
        let lengths = self.lengths.first().map(|length| length.at);
        sectors.chain(lengths).min()
    }

    /// Stores `bytes` at `offset`, at time `at`.
    pub(super) fn write(&mut self, at: u64, offset: usize, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let end = offset + bytes.len();
        if end > self.cache.len() {
            Arc::make_mut(&mut self.cache).resize(end);
            self.lengths.push(Length {
                at,
                len: end,
                cut: false,
            });
        }
        let mut rest = bytes;
        let mut begin = offset;
        while begin < end {
            let (number, within) = (begin / SECTOR, begin % SECTOR);
            let mut len = rest.len().min(SECTOR - within);
            match self.len_of_nothing(begin, rest) {
                0 => self.write_sector(at, number, within, &rest[..len]),
                zeros => len = zeros,
            }
            (rest, begin) = (&rest[len..], begin + len);
        }
    }

    /// How many of these bytes are zeros where a page has nothing else anywhere (C6).
    fn len_of_nothing(&self, begin: usize, bytes: &[u8]) -> usize {
        let len = self.cache.hole(begin).min(self.durable.hole(begin));
        let len = len.min(bytes.len());
        let sectors = begin / SECTOR..(begin + len).div_ceil(SECTOR);
        let is_nothing = len > 0
            && Pages::are_zeros(&bytes[..len])
            && self.dirty.range(sectors).next().is_none();
        if is_nothing { len } else { 0 }
    }

    /// Stores a part of a sector.
    fn write_sector(&mut self, at: u64, number: usize, within: usize, part: &[u8]) {
        if let Some(dirty) = self.dirty.get_mut(&number) {
            Arc::make_mut(dirty).push(at, within, part);
        } else {
            let cached = self.cache.sector(number);
            // C6.
            if cached[within..within + part.len()] == *part && self.is_same(number) {
                return;
            }
            let mut dirty = Dirty::new(cached);
            dirty.push(at, within, part);
            self.dirty.insert(number, Arc::new(dirty));
        }
        Arc::make_mut(&mut self.cache).write(number * SECTOR + within, part);
    }

    /// Whether the device has of a sector what the cache has.
    fn is_same(&self, number: usize) -> bool {
        let (cached, durable) = (self.cache.sector(number), self.durable.sector(number));
        std::ptr::eq(cached, durable) || cached == durable
    }

    /// Cuts or extends, at time `at`.
    pub(super) fn set_len(&mut self, at: u64, len: usize) {
        let cut = len < self.cache.len();
        if len == self.cache.len() {
            return;
        }
        Arc::make_mut(&mut self.cache).resize(len);
        self.lengths.push(Length { at, len, cut });
        if cut {
            self.blocks.truncate(blocks_of(len));
            for (number, dirty) in self.dirty.range_mut(len / SECTOR..) {
                let begin = len.saturating_sub(number * SECTOR);
                Arc::make_mut(dirty).push(at, begin, &[0; SECTOR][begin..]);
            }
        }
    }

    /// Everything written becomes durable.
    pub(super) fn sync(&mut self) {
        if self.lengths.is_empty() && self.dirty.is_empty() {
            return;
        }
        if !self.is_split {
            self.durable = Arc::clone(&self.cache);
            self.lengths.clear();
            self.dirty.clear();
            return;
        }
        let durable = Arc::make_mut(&mut self.durable);
        if let Some(shortest) = shortest(&self.lengths) {
            durable.resize(shortest.min(durable.len()));
            durable.resize(self.cache.len());
        }
        self.lengths.clear();
        for number in std::mem::take(&mut self.dirty).into_keys() {
            durable.put_sector(number, self.cache.sector(number));
        }
    }

    /// A sync fails: of each page, the device got it, or the cache lost it, or the cache keeps it
    /// until the power goes; all are marked clean (C2).
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        self.lengths.clear();
        self.is_split = true;
        let (cache, durable) = (
            Arc::make_mut(&mut self.cache),
            Arc::make_mut(&mut self.durable),
        );
        for number in std::mem::take(&mut self.dirty).into_keys() {
            match rng.below(3) {
                0 => durable.put_sector(number, cache.sector(number)),
                1 => cache.put_sector(number, durable.sector(number)),
                _ => {}
            }
        }
    }

    /// What the device has after a power loss, as a new file.
    pub(super) fn after_crash(&self, choice: &mut Choice) -> Content {
        let survived = choice.prefix(self.lengths.iter().map(|length| length.at));
        let (lengths, lost) = self.lengths.split_at(survived);
        let len = lengths.last().map_or(self.durable.len(), |last| last.len);
        let len = choice.between(len, lost.first().map_or(len, |next| next.len));
        let mut shared = Arc::clone(&self.durable);
        if self.dirty.is_empty() && lengths.is_empty() && len == shared.len() {
            return self.image(shared, len);
        }
        let image = Arc::make_mut(&mut shared);
        let least = shortest(lengths).unwrap_or(usize::MAX);
        image.resize(least.min(image.len()));
        image.resize(len);
        for (&number, dirty) in &self.dirty {
            let (kept, torn) = (choice.prefix(dirty.times()), choice.torn_words());
            if kept == 0 && torn == 0 {
                continue;
            }
            let mut bytes = dirty.value(image.sector(number), kept, torn);
            // C4: what was written before a surviving cut is gone behind it.
            let last = kept.checked_sub(1).and_then(|last| dirty.times().nth(last));
            let cuts = lengths
                .iter()
                .filter(|length| length.cut && Some(length.at) > last);
            if let Some(end) = cuts.map(|cut| cut.len).min() {
                let end = end.saturating_sub(number * SECTOR).min(SECTOR);
                bytes[end..].fill(0);
            }
            image.put_sector(number, &bytes);
        }
        self.image(shared, len)
    }

    /// A file of which nothing but `bytes` is left.
    fn image(&self, bytes: Arc<Pages>, len: usize) -> Content {
        let mut blocks = self.blocks.clone();
        blocks.truncate(blocks_of(len));
        Content {
            cache: Arc::clone(&bytes),
            durable: bytes,
            blocks,
            ..Content::default()
        }
    }

    /// A file that was always there.
    pub(super) fn settled(bytes: &[u8]) -> Content {
        let len = bytes.len();
        let bytes = Arc::new(Pages::of(bytes));
        Content {
            cache: Arc::clone(&bytes),
            durable: bytes,
            blocks: vec![true; blocks_of(len)],
            ..Content::default()
        }
    }

    /// Changes a byte everywhere it is remembered, as a failing device does.
    pub(super) fn flip(&mut self, offset: usize, mask: u8) {
        if let Some(dirty) = self.dirty.get_mut(&(offset / SECTOR)) {
            Arc::make_mut(dirty).flip(offset % SECTOR, mask);
        }
        // Where the file was extended since, only the cache has the byte.
        self.is_split |= !self.lengths.is_empty();
        for image in [&mut self.cache, &mut self.durable] {
            let mut byte = [0];
            if image.read(offset, &mut byte) {
                Arc::make_mut(image).write(offset, &[byte[0] ^ mask]);
            }
        }
    }

    /// Whether the first `len` bytes have space.
    pub(super) fn is_allocated(&self, len: usize) -> bool {
        let blocks = self.blocks.get(..blocks_of(len));
        blocks.is_some_and(|blocks| blocks.iter().all(|&has| has))
    }

    /// Bytes of space the file takes.
    pub(super) fn space(&self) -> u64 {
        self.blocks.iter().filter(|&&has| has).count() as u64 * BLOCK
    }

    /// Gives `[from, to)` space, out of `free` bytes; says up to where it reached.
    pub(super) fn claim(&mut self, from: usize, to: usize, free: &mut u64) -> usize {
        let block_bytes = to_index(BLOCK);
        let end = blocks_of(to);
        if self.blocks.len() < end {
            self.blocks.resize(end, false);
        }
        for block in from / block_bytes..end {
            if self.blocks[block] {
                continue;
            }
            if *free < BLOCK {
                return (block * block_bytes).max(from);
            }
            *free -= BLOCK;
            self.blocks[block] = true;
        }
        to
    }
}

fn shortest(lengths: &[Length]) -> Option<usize> {
    lengths.iter().map(|length| length.len).min()
}

fn blocks_of(len: usize) -> usize {
    len.div_ceil(to_index(BLOCK))
}

/// An offset as an index; the model has no file that does not fit in memory.
pub(super) fn to_index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
