//! A stretch of a block, lent by the cursor over its table to whoever walks it.
//!
//! Between a scan and the block that it walks lie a merge, a level and a table, each of which is
//! asked at each step, and has little to say: as long as no other stream has a key in between, the
//! next pair is the next entry. So the block's cursor is lent up to where one of them has a say.
//!
//! L1. While it is lent the table's cursor stands nowhere and is not to be moved; it goes on where
//!     the stretch ended once that is returned.
//! L2. A stretch ends in front of anything but a plain value that its reader sees, the first of its
//!     key; in front of a key that another stream may have something at or before; and where the
//!     table's cursor asks for its next block.
//!
//! Threads: one. Tests: below, tests/hints.rs, `block/tests.rs`; scans, in the
//! engine's `tests/iterator_walks.rs`.

use super::TableCursor;
use crate::block::cursor::BlockCursor;
use velella_base::Stamp;

/// A stretch of a block (L2), standing on a plain value.
#[derive(Debug)]
pub struct Stretch {
    block: Box<BlockCursor>,
    /// With as many entries left in the block, the table's cursor asks for the next one: the step
    /// that comes there is to be its own.
    asks_at: usize,
}

impl Stretch {
    /// Moves to the next pair, if that belongs to the stretch for a reader at `at`; whether it
    /// does.
    #[inline]
    pub fn hop(&mut self, at: Stamp) -> bool {
        let next_asks = self.block.entries_left() == self.asks_at.wrapping_add(1);
        !next_asks && self.block.hop(at)
    }

    /// The key it stands on.
    #[must_use]
    #[inline]
    pub fn key(&self) -> &[u8] {
        self.block.forward_key()
    }

    /// Its value.
    #[must_use]
    #[inline]
    pub fn value(&self) -> &[u8] {
        self.block.forward_value()
    }
}

impl TableCursor {
    /// Lends what is left of the block, as far as keys are below `limit`, if there is one (L1);
    /// `None` if it does not stand in a block that it walks forward, or its keys are not in the
    /// bytewise order.
    #[inline]
    pub fn lend(&mut self, limit: Option<&[u8]>) -> Option<Stretch> {
        let walks = |block: &mut Box<BlockCursor>| block.is_positioned() && block.goes_forward();
        if !self.table.order.is_bytewise() {
            return None;
        }
        let mut block = self.block.take_if(walks)?;
        block.limit(limit);
        Some(Stretch {
            block,
            asks_at: self.asks_at,
        })
    }

    /// Takes back what was lent (L1).
    #[inline]
    pub fn take_back(&mut self, stretch: Stretch) {
        debug_assert!(self.block.is_none(), "L1: it was not moved meanwhile");
        self.block = Some(stretch.block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::builder::BlockBuilder;
    use velella_base::{Entry, ValueKind};

    /// On the first of sixteen keys.
    fn stretch(limit: Option<&[u8]>, asks_at: usize) -> Stretch {
        let mut builder = BlockBuilder::new(false);
        for key in 0..16 {
            let entry = Entry {
                key: &[key],
                stamp: Stamp(1),
                kind: ValueKind::Put,
                value: &[key; 3],
            };
            builder.add(entry, 0, 0);
        }
        let mut bytes = Vec::new();
        builder.finish(&mut bytes);
        let mut block = Box::new(BlockCursor::new(bytes.into()).unwrap());
        block.seek_first().unwrap();
        block.limit(limit);
        Stretch { block, asks_at }
    }

    /// The key on which it ends.
    fn end(mut stretch: Stretch) -> u8 {
        while stretch.hop(Stamp::MAX) {}
        stretch.key()[0]
    }

    #[test]
    fn it_ends_where_another_has_a_say() {
        assert_eq!(end(stretch(None, usize::MAX)), 15);
        assert_eq!(end(stretch(Some(&[9]), usize::MAX)), 8);
        assert_eq!(end(stretch(Some(&[9, 0, 1]), usize::MAX)), 9);
        assert_eq!(end(stretch(Some(&[]), usize::MAX)), 0);
        // With five entries left, key ten, the next block is asked for.
        assert_eq!(end(stretch(None, 5)), 9);
        assert_eq!(end(stretch(None, 14)), 0);
    }
}
