//! The state word of a version: undecided, committed at a stamp, or aborted.
//!
//! ```text
//! COMMITTED(stamp, kind)   stamp << 8 | kind << 2 | 0
//! PENDING(slot)            slot << 8 | 1          its owner's slot
//! CELL(pointer)            pointer | 2            one of a batch: look at the batch's cell
//! ABORTED                  3
//! ```
//! A batch's cell holds the same words, never CELL; its COMMITTED carries no kind, because each
//! version of the batch has its own.
//!
//! W1. Only the owner turns PENDING into COMMITTED or ABORTED, once.
//! W2. CELL turns into the cell's decided word (with the version's kind); anyone may do that, and
//!     all write the same.

use velella_base::{Stamp, ValueKind};

/// A decoded state word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Visible to readers at or after the stamp. The kind is `None` only in a batch's cell.
    Committed(Stamp, Option<ValueKind>),
    /// Undecided; the owner's slot tells whether a stamp may have been drawn.
    Pending(usize),
    /// One of a batch; the address of its cell.
    Cell(u64),
    /// Never visible.
    Aborted,
}

/// The word of an aborted version.
pub const ABORTED: u64 = 3;

impl Word {
    /// Encodes the word.
    #[must_use]
    #[inline]
    pub fn encode(self) -> u64 {
        match self {
            Word::Committed(stamp, kind) => {
                stamp.0 << 8 | kind.map_or(0, |kind| (kind as u64) << 2)
            }
            Word::Pending(slot) => (slot as u64) << 8 | 1,
            Word::Cell(address) => {
                debug_assert_eq!(address & 3, 0, "cells are aligned");
                address | 2
            }
            Word::Aborted => ABORTED,
        }
    }

    /// Decodes a word that [`Word::encode`] made.
    #[must_use]
    #[inline]
    pub fn decode(word: u64) -> Word {
        match word & 3 {
            0 => {
                let kind = (word >> 2 & 0x3f) as usize;
                Word::Committed(
                    Stamp(word >> 8),
                    kind.checked_sub(1)
                        .and_then(|i| ValueKind::ALL.get(i))
                        .copied(),
                )
            }
            1 => Word::Pending((word >> 8) as usize),
            2 => Word::Cell(word & !3),
            _ => Word::Aborted,
        }
    }

    /// Neither committed nor aborted yet.
    #[must_use]
    #[inline]
    pub fn is_undecided(word: u64) -> bool {
        matches!(word & 3, 1 | 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for kind in ValueKind::ALL {
            for stamp in [Stamp(1), Stamp(77), Stamp::MAX] {
                let word = Word::Committed(stamp, Some(kind));
                assert_eq!(Word::decode(word.encode()), word);
                assert!(!Word::is_undecided(word.encode()));
            }
        }
        for word in [
            Word::Committed(Stamp(5), None),
            Word::Pending(0),
            Word::Pending(1023),
            Word::Cell(0xffff_1230),
            Word::Aborted,
        ] {
            assert_eq!(Word::decode(word.encode()), word);
        }
        assert!(Word::is_undecided(Word::Pending(3).encode()));
        assert!(Word::is_undecided(Word::Cell(64).encode()));
        assert!(!Word::is_undecided(ABORTED));
    }
}
