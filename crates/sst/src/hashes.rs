//! The hashes of a table's keys while it is written, for its filter.
//!
//! H1. They are kept in pieces of 128 KiB, which are mapped. A vector that doubles would leave
//!     holes of megabytes in its thread's heap, and once it is freed, glibc takes twice its size
//!     for what each heap may keep (decision 0019).
//!
//! Threads: one. Tests: below.

use velella_sync::array::Array;

/// Hashes of a piece.
const PIECE: usize = (128 << 10) / size_of::<u64>();

/// Key hashes in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Hashes {
    pieces: Vec<Array<u64>>,
}

impl Hashes {
    /// Appends one.
    #[inline]
    pub(crate) fn push(&mut self, hash: u64) {
        match self.pieces.last_mut() {
            Some(last) if last.len() < PIECE => last.push(hash),
            _ => {
                let mut piece = Array::with_capacity(PIECE);
                piece.push(hash);
                self.pieces.push(piece);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.pieces.iter().flat_map(|piece| piece.iter().copied())
    }
}

impl FromIterator<u64> for Hashes {
    fn from_iter<I: IntoIterator<Item = u64>>(hashes: I) -> Self {
        let mut collected = Hashes::default();
        hashes.into_iter().for_each(|hash| collected.push(hash));
        collected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_come_back_in_their_order_across_pieces() {
        for count in [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE] {
            let hashes: Hashes = (0..count as u64).collect();
            assert_eq!(hashes.len(), count);
            assert_eq!(hashes.is_empty(), count == 0);
            assert!(hashes.iter().eq(0..count as u64));
            assert!(hashes.pieces.iter().all(|piece| piece.capacity() == PIECE));
        }
    }
}
