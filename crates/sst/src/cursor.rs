//! Walks a table both ways.
//!
//! U1-U4 of [`velella_base::Cursor`], over the blocks of one table.
//!
//! Y1. One block is held at a time; moving within it does not touch the cache.
//! Y2. A cursor that does not fill the cache does not ask it either: it reads ahead, twice as far
//!     each time it goes on where the last read ended, so that a compaction makes few system calls.
//!
//! Y3. What a seek was aimed at is checked before it is believed: a wrong aim costs only time.
//! Y4. Nothing is kept of a read that failed: the next one asks the file again.
//!
//! Threads: one; may be sent. Tests: tests/model.rs, tests/faults.rs.

mod stretch;

pub use stretch::Stretch;

use crate::block::Malformed;
use crate::block::cursor::BlockCursor;
use crate::table::Table;
use std::sync::Arc;
use velella_base::{Cursor, Entry, Order, Result, Stamp};
use velella_sync::array::Array;

/// Versions of one key passed one by one before a seek passes the others.
const PASSED_MAX: usize = 8;

/// Entries left in a block when a walk forward asks for the memory of the next one, if that is
/// cached. Blocks lie anywhere, so that no prefetcher of the processor foresees it, and what eight
/// steps take is about what memory takes.
const LEAD: usize = 8;
/// The same in the block of a seek: who has not yet walked into a second block is a short scan,
/// most often, and asks when it is nearly there.
const LEAD_AFTER_SEEK: usize = 3;

const AHEAD_BYTES_MIN: u64 = 16 << 10;
const AHEAD_BYTES_MAX: u64 = 256 << 10;

/// A cursor over one table.
#[derive(Debug)]
pub struct TableCursor {
    table: Arc<Table>,
    /// `None`: blocks go through the cache.
    ahead: Option<Ahead>,
    /// The block in `block`, if there is one.
    number: usize,
    /// In a place of its own, so that it is quickly lent.
    block: Option<Box<BlockCursor>>,
    /// The block that a seek was aimed at.
    aimed: Option<usize>,
    /// With as many entries left in its block, a walk asks for the next one.
    asks_at: usize,
}

/// Bytes of the file read in advance (Y2).
#[derive(Debug, Default)]
struct Ahead {
    bytes: Array<u8>,
    /// As many are what the file says from `start` on.
    len: usize,
    start: u64,
    size: u64,
}

/// Where a cursor is going, and so what to read in advance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Towards {
    End,
    Start,
}

impl Table {
    /// A cursor over all versions. `fill_cache`: whether the blocks it reads enter the cache
    /// (compactions say no).
    #[must_use]
    pub fn cursor(self: &Arc<Self>, fill_cache: bool) -> TableCursor {
        TableCursor {
            table: Arc::clone(self),
            ahead: (!fill_cache).then(Ahead::default),
            number: 0,
            block: None,
            aimed: None,
            asks_at: usize::MAX,
        }
    }
}

impl TableCursor {
    /// Goes over to another table, unpositioned, with the buffers it has.
    pub fn move_to(&mut self, table: &Arc<Table>) {
        if Arc::ptr_eq(&self.table, table) {
            return;
        }
        self.table = Arc::clone(table);
        self.ahead = self.ahead.take().map(Ahead::emptied);
        self.number = usize::MAX;
        self.aimed = None;
        self.unposition();
    }

    /// Whether there is an entry.
    #[must_use]
    #[inline]
    pub fn is_positioned(&self) -> bool {
        self.block
            .as_deref()
            .is_some_and(BlockCursor::is_positioned)
    }

    /// As `pass`; whether there is an entry then.
    ///
    /// # Errors
    /// As `pass`.
    #[inline(always)]
    pub fn pass_to(&mut self, key: &[u8], stamp: Stamp) -> Result<bool> {
        // One step within the block is all, nearly always.
        let stepped = match &mut self.block {
            Some(block) if block.is_positioned() => {
                let stepped = block.next();
                if stepped.is_ok() && block.is_past(key, stamp) {
                    if block.entries_left() == self.asks_at {
                        self.table.blocks.prefetch_block(self.number + 1);
                    }
                    return Ok(true);
                }
                stepped
            }
            _ => {
                debug_assert!(false, "U7: to pass versions needs a position");
                return Ok(false);
            }
        };
        self.go_on_passing(stepped, key, stamp)
    }

    /// Passes the rest, after a step that led out of the block, or to another version.
    fn go_on_passing(
        &mut self,
        stepped: Result<(), Malformed>,
        key: &[u8],
        stamp: Stamp,
    ) -> Result<bool> {
        let mut passed = self.follow(stepped);
        for _ in 1..PASSED_MAX {
            passed?;
            if !self.block.as_ref().is_some_and(|b| b.is_newer(key, stamp)) {
                return Ok(self.is_positioned());
            }
            passed = self.next();
        }
        passed?;
        if self.block.as_ref().is_some_and(|b| b.is_newer(key, stamp)) {
            self.seek(key, stamp)?;
        }
        Ok(self.is_positioned())
    }

    /// After a step forward in the block: goes on where it led out of it, or failed.
    fn follow(&mut self, stepped: Result<(), Malformed>) -> Result<()> {
        let number = self.number;
        match (stepped, &self.block) {
            (Ok(()), Some(block)) if !block.is_positioned() => {
                self.moving(|cursor| cursor.first_of(number + 1))
            }
            (Ok(()), _) => Ok(()),
            (Err(malformed), _) => self.moving(|c| Err(c.table.malformed(number, malformed))),
        }
    }

    /// At the beginning of a block, having walked there most often: the next one is asked for on
    /// the way.
    fn walk_on(&mut self) {
        let Some(block) = self.block.as_ref().filter(|_| self.ahead.is_none()) else {
            return;
        };
        let next = self.number + 1;
        self.asks_at = LEAD;
        match block.entries_left() <= LEAD {
            true => self.table.blocks.prefetch_block(next),
            false => self.table.blocks.prefetch_slot(next),
        }
    }

    /// Runs a movement; after an error there is no position (U4).
    fn moving(&mut self, movement: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let moved = movement(self);
        if moved.is_err() {
            self.block = None;
        }
        moved
    }

    /// Holds block `number` and runs `step` on it.
    #[inline]
    fn on_block(
        &mut self,
        number: usize,
        towards: Towards,
        step: impl FnOnce(&mut BlockCursor, &Order) -> Result<(), Malformed>,
    ) -> Result<()> {
        // Field by field: an owner of the table more would be an addition to a count that all
        // threads share, at each seek (docs/decisions/0023).
        let table = &self.table;
        let malformed = |malformed| table.malformed(number, malformed);
        if self.number != number || self.block.is_none() {
            let bytes = match &mut self.ahead {
                None => table.cached_block(number)?,
                Some(ahead) => ahead.block(table, number, towards)?,
            };
            match &mut self.block {
                Some(block) => block.reset(bytes).map_err(malformed)?,
                none => *none = Some(Box::new(BlockCursor::new(bytes).map_err(malformed)?)),
            }
            self.number = number;
        }
        match &mut self.block {
            Some(block) => step(block, &table.order).map_err(malformed),
            None => Ok(()),
        }
    }

    fn unposition(&mut self) {
        if let Some(block) = &mut self.block {
            block.unposition();
        }
    }

    fn first_of(&mut self, number: usize) -> Result<()> {
        if number < self.table.index.len() {
            self.on_block(number, Towards::End, |block, _| block.seek_first())?;
            self.walk_on();
            return Ok(());
        }
        self.unposition();
        Ok(())
    }

    /// Stands on the last entry in front of block `number`.
    fn last_before(&mut self, number: usize) -> Result<()> {
        if let Some(before) = number.checked_sub(1) {
            // Going down through memory no prefetcher helps: the block in front is asked for while
            // this one is walked.
            if let (Some(next), None) = (before.checked_sub(1), &self.ahead) {
                self.table.blocks.prefetch_whole(next);
            }
            return self.on_block(before, Towards::Start, |block, _| block.seek_last());
        }
        self.unposition();
        Ok(())
    }
}

impl Cursor for TableCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.moving(|cursor| cursor.first_of(0))
    }

    fn seek_last(&mut self) -> Result<()> {
        self.moving(|cursor| cursor.last_before(cursor.table.index.len()))
    }

    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        let mut comparisons = 0;
        let moved = self.moving(|cursor| {
            if cursor.ahead.is_none() {
                cursor.asks_at = LEAD_AFTER_SEEK;
            }
            let index = &cursor.table.index;
            let aimed = cursor.aimed.take();
            let number = match aimed.filter(|&block| index.surely_finds(block, key)) {
                Some(block) => block,
                None => index.find(key, stamp, &mut comparisons),
            };
            if number == index.len() {
                cursor.unposition();
                return Ok(());
            }
            cursor.on_block(number, Towards::End, |block, order| {
                block.seek(order, key, stamp, &mut comparisons)
            })?;
            if !cursor.is_positioned() {
                return cursor.first_of(number + 1);
            }
            Ok(())
        });
        self.table.source.counters.comparisons.add(comparisons);
        moved
    }

    fn aim(&mut self, key: &[u8], stamp: Stamp) {
        self.unposition();
        let number = self.table.index.find(key, stamp, &mut 0);
        self.table.blocks.prefetch_slot(number);
        self.aimed = Some(number);
    }

    fn approach(&mut self) {
        if let (Some(number), None) = (self.aimed, &self.ahead) {
            self.table.blocks.prefetch_block(number);
        }
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let mut comparisons = 0;
        let moved = self.moving(|cursor| {
            let index = &cursor.table.index;
            let number = index.find(key, Stamp::MAX, &mut comparisons);
            if number == index.len() {
                return cursor.last_before(number);
            }
            cursor.on_block(number, Towards::Start, |block, order| {
                block.seek_before(order, key, &mut comparisons)
            })?;
            if !cursor.is_positioned() {
                cursor.last_before(number)?;
            }
            Ok(())
        });
        self.table.source.counters.comparisons.add(comparisons);
        moved
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.is_positioned(), "U3: next without a position");
        let stepped = match &mut self.block {
            Some(block) if block.is_positioned() => {
                let stepped = block.next();
                if stepped.is_ok() && block.is_positioned() {
                    if block.entries_left() == self.asks_at {
                        self.table.blocks.prefetch_block(self.number + 1);
                    }
                    return Ok(());
                }
                stepped
            }
            _ => return Ok(()),
        };
        self.follow(stepped)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.is_positioned(), "U3: prev without a position");
        let number = self.number;
        match &mut self.block {
            Some(block) if block.is_positioned() => match block.prev() {
                Ok(()) if block.is_positioned() => Ok(()),
                Ok(()) => self.moving(|cursor| cursor.last_before(number)),
                Err(malformed) => self.moving(|c| Err(c.table.malformed(number, malformed))),
            },
            _ => Ok(()),
        }
    }

    #[inline]
    fn pass(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        self.pass_to(key, stamp).map(drop)
    }

    #[inline]
    fn is_newest(&self) -> bool {
        let keys_are_bytes = self.table.order.is_bytewise();
        keys_are_bytes && self.block.as_deref().is_some_and(BlockCursor::is_newest)
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.block.as_ref()?.entry()
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.block.as_ref()?.key()
    }
}

impl Ahead {
    /// For another file, with the same buffer.
    fn emptied(mut self) -> Self {
        self.len = 0;
        self.size = 0;
        self
    }

    /// Block `number`, from what was read in advance or by reading further in advance.
    fn block(&mut self, table: &Table, number: usize, towards: Towards) -> Result<Arc<[u8]>> {
        let handle = table.index.handle(number);
        let held = self.start..self.start + self.len as u64;
        if handle.offset < held.start || handle.end() > held.end {
            // Going on where the last read ended, which may be within a block?
            let goes_on = match towards {
                Towards::End => held.contains(&handle.offset) || held.end == handle.offset,
                Towards::Start => held.contains(&handle.end()) || held.start == handle.end(),
            };
            self.size = match goes_on && self.size > 0 {
                true => (self.size * 2).min(AHEAD_BYTES_MAX),
                false => AHEAD_BYTES_MIN,
            };
            self.fill(table, handle.offset, handle.end(), towards)?;
        }
        let start = usize::try_from(handle.offset - self.start).unwrap_or(usize::MAX);
        let len = usize::try_from(handle.len).unwrap_or(usize::MAX);
        let bytes = self.bytes[..self.len].get(start..);
        let bytes = bytes.and_then(|rest| rest.get(..len));
        let decoded = table.source.decode(handle, bytes.unwrap_or_default());
        if decoded.is_err() {
            // Y4: the file may say something else the next time.
            self.len = 0;
        }
        Ok(decoded?.0)
    }

    fn fill(&mut self, table: &Table, start: u64, end: u64, towards: Towards) -> Result<()> {
        let first = table.index.handle(0).offset;
        let (start, end) = match towards {
            Towards::End => (
                start,
                end.max(start + self.size).min(table.index.data_end()),
            ),
            Towards::Start => (start.min(end.saturating_sub(self.size)).max(first), end),
        };
        // Y4: what is in the buffer after a read that failed, nobody wrote.
        self.len = 0;
        let len = table.source.len_within(start, end)?;
        if self.bytes.len() < len {
            self.bytes = Array::filled(0, len.next_power_of_two());
        }
        let file = &table.source.file;
        file.read_exact_at(&mut self.bytes[..len], start)?;
        (self.start, self.len) = (start, len);
        Ok(())
    }
}
