//! One sector between two syncs: what it held before, and each change since.
//!
//! Changes are kept as the bytes they brought, so that remembering costs what writing did.

/// What a device writes as a whole.
pub(super) const SECTOR: usize = 512;
/// Aligned bytes that are never torn.
const WORD: usize = 8;

/// The bytes of a sector.
pub(super) type Sector = [u8; SECTOR];

/// The part of a write that fell into this sector.
#[derive(Clone)]
struct Change {
    at: u64,
    begin: usize,
    bytes: Box<[u8]>,
}

impl Change {
    fn apply(&self, sector: &mut Sector) {
        sector[self.begin..][..self.bytes.len()].copy_from_slice(&self.bytes);
    }
}

/// A sector that the cache holds and the device may not.
#[derive(Clone)]
pub(super) struct Dirty {
    /// The cached value before the first change. Not the durable one if a sync failed before.
    before: Box<Sector>,
    changes: Vec<Change>,
}

impl Dirty {
    /// The sector before its first change.
    pub(super) fn new(before: &Sector) -> Dirty {
        Dirty {
            before: Box::new(*before),
            changes: Vec::new(),
        }
    }

    /// `bytes` were stored at `begin` at time `at`.
    pub(super) fn push(&mut self, at: u64, begin: usize, bytes: &[u8]) {
        let bytes = Box::from(bytes);
        self.changes.push(Change { at, begin, bytes });
    }

    /// When each change was made.
    pub(super) fn times(&self) -> impl ExactSizeIterator<Item = u64> {
        self.changes.iter().map(|change| change.at)
    }

    /// The value after the first `kept` changes (`durable` after none), into which the words of
    /// `torn` were copied from the value that followed.
    pub(super) fn value(&self, durable: &Sector, kept: usize, torn: u64) -> Sector {
        let mut cached = *self.before;
        for change in &self.changes[..kept] {
            change.apply(&mut cached);
        }
        let mut sector = if kept == 0 { *durable } else { cached };
        if let Some(next) = self.changes.get(kept) {
            next.apply(&mut cached);
            let words = sector.chunks_exact_mut(WORD).zip(cached.chunks_exact(WORD));
            for (number, (word, next)) in words.enumerate() {
                if torn >> number & 1 == 1 {
                    word.copy_from_slice(next);
                }
            }
        }
        sector
    }

    /// Changes a byte wherever it is remembered.
    pub(super) fn flip(&mut self, place: usize, mask: u8) {
        self.before[place] ^= mask;
        for change in &mut self.changes {
            let within = place.checked_sub(change.begin);
            if let Some(byte) = within.and_then(|within| change.bytes.get_mut(within)) {
                *byte ^= mask;
            }
        }
    }
}
