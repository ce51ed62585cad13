//! One stream of a merge: a run of tables, without a call through a table of functions, or
//! anything else.
//!
//! Threads: one. Tests: through the layouts' and the engine's model tests.

use crate::cursor::concat::ConcatCursor;
use velella_base::{Cursor, Entry, Result, Stamp};
use velella_sst::Stretch;

/// One stream of a merge.
pub enum Source {
    /// A level, or a table of level 0.
    Run(ConcatCursor),
    /// A memtable, or what a layout makes of its files.
    Other(Box<dyn Cursor>),
}

impl Source {
    /// See [`velella_sst::TableCursor::lend`]; of anything but tables nothing is lent.
    #[inline]
    pub(crate) fn lend(&mut self, limit: Option<&[u8]>) -> Option<Stretch> {
        match self {
            Source::Run(run) => run.lend(limit),
            Source::Other(_) => None,
        }
    }

    /// See [`velella_sst::TableCursor::take_back`].
    #[inline]
    pub(crate) fn take_back(&mut self, stretch: Stretch) {
        match self {
            Source::Run(run) => run.take_back(stretch),
            Source::Other(_) => debug_assert!(false, "nothing was lent"),
        }
    }

    /// Whether a reader at `at` is known to have nothing to look for in it.
    #[must_use]
    #[inline]
    pub fn is_hidden(&self, at: Stamp) -> bool {
        matches!(self, Source::Run(run) if run.is_hidden(at))
    }
}

macro_rules! delegate {
    ($self:ident, $cursor:ident => $call:expr) => {
        match $self {
            Source::Run($cursor) => $call,
            Source::Other($cursor) => $call,
        }
    };
}

impl Cursor for Source {
    fn seek_first(&mut self) -> Result<()> {
        delegate!(self, cursor => cursor.seek_first())
    }

    fn seek_last(&mut self) -> Result<()> {
        delegate!(self, cursor => cursor.seek_last())
    }

    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        delegate!(self, cursor => cursor.seek(key, stamp))
    }

    fn aim(&mut self, key: &[u8], stamp: Stamp) {
        delegate!(self, cursor => cursor.aim(key, stamp));
    }

    fn approach(&mut self) {
        delegate!(self, cursor => cursor.approach());
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        delegate!(self, cursor => cursor.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        delegate!(self, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        delegate!(self, cursor => cursor.prev())
    }

    #[inline(always)]
    fn pass(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        delegate!(self, cursor => cursor.pass(key, stamp))
    }

    #[inline]
    fn is_newest(&self) -> bool {
        delegate!(self, cursor => cursor.is_newest())
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        delegate!(self, cursor => cursor.entry())
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        delegate!(self, cursor => cursor.key())
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Source::Run(run) => run.fmt(f),
            Source::Other(_) => f.write_str("Other"),
        }
    }
}
