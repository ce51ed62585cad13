//! Disjoint ascending tables end to end: one level, or one output run.
//!
//! E1. At most one table cursor is open; a table is opened when the walk reaches it.
//! E2. The open table's cursor moves from table to table with its buffers.
//! E3. No table is empty, so stepping over a border always lands on an entry.
//!
//! Threads: one. Tests: through the layouts' model tests and `contract`.

use crate::table_file::TableFile;
use std::cmp::Ordering;
use std::sync::Arc;
use velella_base::{Cursor, Entry, Order, Result, Stamp};
use velella_sst::{Stretch, TableCursor};

/// A cursor over disjoint tables in ascending order. It keeps their files alive.
pub struct ConcatCursor {
    tables: Tables,
    order: Order,
    open: Option<TableCursor>,
    /// The number of the open table.
    at: usize,
    fill_cache: bool,
}

/// What a cursor runs over.
enum Tables {
    Many(Arc<[Arc<TableFile>]>),
    One(Arc<TableFile>),
}

impl Tables {
    #[inline]
    fn as_slice(&self) -> &[Arc<TableFile>] {
        match self {
            Tables::Many(tables) => tables,
            Tables::One(table) => std::slice::from_ref(table),
        }
    }
}

impl ConcatCursor {
    /// A cursor over `tables`, which ascend and are disjoint in `order`.
    #[must_use]
    pub fn new(tables: Arc<[Arc<TableFile>]>, order: Order, fill_cache: bool) -> Self {
        Self::over(Tables::Many(tables), order, fill_cache)
    }

    /// A cursor over one table.
    #[must_use]
    pub fn of_one(table: Arc<TableFile>, order: Order, fill_cache: bool) -> Self {
        Self::over(Tables::One(table), order, fill_cache)
    }

    /// Whether a reader at `at` has nothing to look for in any of the tables.
    #[must_use]
    #[inline]
    pub fn is_hidden(&self, at: Stamp) -> bool {
        self.tables
            .as_slice()
            .iter()
            .all(|table| table.is_hidden(at))
    }

    fn over(tables: Tables, order: Order, fill_cache: bool) -> Self {
        ConcatCursor {
            tables,
            order,
            open: None,
            at: 0,
            fill_cache,
        }
    }

    /// See [`TableCursor::lend`].
    #[inline]
    pub(crate) fn lend(&mut self, limit: Option<&[u8]>) -> Option<Stretch> {
        self.open.as_mut()?.lend(limit)
    }

    /// See [`TableCursor::take_back`].
    #[inline]
    pub(crate) fn take_back(&mut self, stretch: Stretch) {
        debug_assert!(self.open.is_some(), "it was lent by the open table");
        if let Some(cursor) = &mut self.open {
            cursor.take_back(stretch);
        }
    }

    /// The first table with entries at or above `key`, or their number.
    fn find(&self, key: &[u8]) -> usize {
        let order = &self.order;
        let tables = self.tables.as_slice();
        if self.open.is_some() && tables[self.at].overlaps(order, key, key) {
            return self.at;
        }
        tables.partition_point(|table| order.compare(&table.meta().largest, key) == Ordering::Less)
    }

    /// Opens table `index` and lets `seek` position it; off the ends, the cursor is unpositioned.
    fn open(
        &mut self,
        index: Option<usize>,
        seek: impl FnOnce(&mut TableCursor) -> Result<()>,
    ) -> Result<()> {
        let tables = self.tables.as_slice();
        let Some((index, table)) = index.and_then(|i| Some((i, tables.get(i)?.table()))) else {
            self.open = None;
            return Ok(());
        };
        let cursor = self
            .open
            .get_or_insert_with(|| table.cursor(self.fill_cache));
        cursor.move_to(table);
        self.at = index;
        seek(cursor)
    }

    /// After a step or seek: walks over the border where the open table has no entry left.
    fn settle(&mut self, forward: bool) -> Result<()> {
        if self.open.as_ref().is_none_or(TableCursor::is_positioned) {
            return Ok(());
        }
        let index = self.at;
        if forward {
            self.open(Some(index + 1), TableCursor::seek_first)
        } else {
            self.open(index.checked_sub(1), TableCursor::seek_last)
        }
    }

    /// Unpositions on an error (U4).
    fn unpositioned<T>(&mut self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.open = None;
        }
        result
    }
}

impl Cursor for ConcatCursor {
    fn seek_first(&mut self) -> Result<()> {
        let opened = self.open(Some(0), TableCursor::seek_first);
        self.unpositioned(opened)
    }

    fn seek_last(&mut self) -> Result<()> {
        let last = self.tables.as_slice().len().checked_sub(1);
        let opened = self.open(last, TableCursor::seek_last);
        self.unpositioned(opened)
    }

    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        let index = self.find(key);
        let sought = self
            .open(Some(index), |cursor| cursor.seek(key, stamp))
            .and_then(|()| self.settle(true));
        self.unpositioned(sought)
    }

    fn aim(&mut self, key: &[u8], stamp: Stamp) {
        let aimed = self.open(Some(self.find(key)), |cursor| {
            cursor.aim(key, stamp);
            Ok(())
        });
        debug_assert!(aimed.is_ok(), "nothing was read");
    }

    fn approach(&mut self) {
        if let Some(cursor) = &mut self.open {
            cursor.approach();
        }
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let order = &self.order;
        let tables = self.tables.as_slice();
        let below = tables
            .partition_point(|table| order.compare(&table.meta().smallest, key) == Ordering::Less);
        let sought = self
            .open(below.checked_sub(1), |cursor| cursor.seek_before(key))
            .and_then(|()| self.settle(false));
        self.unpositioned(sought)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.open else {
            debug_assert!(false, "U3: a step needs a position");
            return Ok(());
        };
        let stepped = cursor.next();
        if stepped.is_ok() && cursor.is_positioned() {
            return Ok(());
        }
        let stepped = stepped.and_then(|()| self.settle(true));
        self.unpositioned(stepped)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let Some(cursor) = &mut self.open else {
            debug_assert!(false, "U3: a step needs a position");
            return Ok(());
        };
        let stepped = cursor.prev();
        if stepped.is_ok() && cursor.is_positioned() {
            return Ok(());
        }
        let stepped = stepped.and_then(|()| self.settle(false));
        self.unpositioned(stepped)
    }

    #[inline(always)]
    fn pass(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        let Some(cursor) = &mut self.open else {
            debug_assert!(false, "U7: to pass versions needs a position");
            return Ok(());
        };
        let passed = cursor.pass_to(key, stamp);
        if matches!(passed, Ok(true)) {
            return Ok(());
        }
        let passed = passed.and_then(|_| self.settle(true));
        self.unpositioned(passed)
    }

    #[inline]
    fn is_newest(&self) -> bool {
        matches!(&self.open, Some(cursor) if cursor.is_newest())
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.open.as_ref()?.entry()
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.open.as_ref()?.key()
    }
}

impl std::fmt::Debug for ConcatCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConcatCursor")
            .field("tables", &self.tables.as_slice().len())
            .field("open", &self.open.as_ref().map(|_| self.at))
            .finish_non_exhaustive()
    }
}
