//! Disjoint ascending tables end to end: one level, or one output run.
//!
//! E1. At most one table cursor is open; a table is opened when the walk reaches it.
//! E2. No table is empty, so stepping over a border always lands on an entry.
//!
//! Threads: one. Tests: through the layouts' model tests and `contract`.

use crate::table_file::TableFile;
use std::cmp::Ordering;
use std::sync::Arc;
use velella_base::{Cursor, Entry, Order, Result, Stamp};
use velella_sst::TableCursor;

/// A cursor over disjoint tables in ascending order. It keeps their files alive.
pub struct ConcatCursor {
    tables: Arc<[Arc<TableFile>]>,
    order: Order,
    fill_cache: bool,
    open: Option<(usize, TableCursor)>,
}

impl ConcatCursor {
    /// A cursor over `tables`, which ascend and are disjoint in `order`.
    #[must_use]
    pub fn new(tables: Arc<[Arc<TableFile>]>, order: Order, fill_cache: bool) -> Self {
        ConcatCursor {
            tables,
            order,
            fill_cache,
            open: None,
        }
    }

    /// Opens table `index` and lets `seek` position it; off the ends, the cursor is unpositioned.
    fn open(
        &mut self,
        index: Option<usize>,
        seek: impl FnOnce(&mut TableCursor) -> Result<()>,
    ) -> Result<()> {
        let reusable = self.open.take();
        let Some((index, table)) = index.and_then(|i| Some((i, self.tables.get(i)?))) else {
            return Ok(());
        };
        let mut cursor = match reusable {
            Some((open, cursor)) if open == index => cursor,
            _ => table.table().cursor(self.fill_cache),
        };
        seek(&mut cursor)?;
        self.open = Some((index, cursor));
        Ok(())
    }

    /// After a step or seek: walks over the border where the open table has no entry left.
    fn settle(&mut self, forward: bool) -> Result<()> {
        let Some((index, cursor)) = &self.open else {
            return Ok(());
        };
        if cursor.entry().is_some() {
            return Ok(());
        }
        let index = *index;
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
        self.open(Some(0), TableCursor::seek_first)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.open(self.tables.len().checked_sub(1), TableCursor::seek_last)
    }

    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        let order = &self.order;
        let index = self
            .tables
            .partition_point(|table| order.compare(&table.meta().largest, key) == Ordering::Less);
        self.open(Some(index), |cursor| cursor.seek(key, stamp))?;
        let settled = self.settle(true);
        self.unpositioned(settled)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let order = &self.order;
        let below = self
            .tables
            .partition_point(|table| order.compare(&table.meta().smallest, key) == Ordering::Less);
        self.open(below.checked_sub(1), |cursor| cursor.seek_before(key))?;
        let settled = self.settle(false);
        self.unpositioned(settled)
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let Some((_, cursor)) = &mut self.open else {
            debug_assert!(false, "U3: a step needs a position");
            return Ok(());
        };
        let stepped = cursor.next();
        if stepped.is_ok() && cursor.entry().is_some() {
            return Ok(());
        }
        let stepped = stepped.and_then(|()| self.settle(true));
        self.unpositioned(stepped)
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        let Some((_, cursor)) = &mut self.open else {
            debug_assert!(false, "U3: a step needs a position");
            return Ok(());
        };
        let stepped = cursor.prev();
        if stepped.is_ok() && cursor.entry().is_some() {
            return Ok(());
        }
        let stepped = stepped.and_then(|()| self.settle(false));
        self.unpositioned(stepped)
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.open.as_ref()?.1.entry()
    }
}

impl std::fmt::Debug for ConcatCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConcatCursor")
            .field("tables", &self.tables.len())
            .field("open", &self.open.as_ref().map(|(index, _)| index))
            .finish_non_exhaustive()
    }
}
