//! The shape of a sorted stream of versions: memtables, tables, levels and merges all have it.
//!
//! U1. Entries come by key ascending, and within a key by stamp descending: newest first.
//! U2. A cursor starts unpositioned. `entry` is `None` before the first positioning call and past
//!     either end.
//! U3. `prev` after `next` returns to the same entry, and the reverse; `next` past the last entry
//!     and `prev` past the first leave the cursor unpositioned, where both are errors of the caller
//!     (debug-asserted).
//! U4. After an error the cursor is unpositioned.
//! U5. `aim` and `approach` are hints before a `seek`: they unposition, and change no result.
//! U6. `is_newest` may always say no.
//! U7. `pass` ends where `seek` with the same arguments would, but may stop early at a version
//!     whose key is spelled differently; it always gets ahead.

use crate::{Result, Stamp, ValueKind};

/// One version of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The user's key.
    pub key: &'a [u8],
    /// When it was written.
    pub stamp: Stamp,
    /// What it says.
    pub kind: ValueKind,
    /// The payload; its meaning depends on `kind`.
    pub value: &'a [u8],
}

/// A sorted stream of versions that can be walked both ways (U1-U4).
pub trait Cursor: Send {
    /// Moves to the first entry.
    ///
    /// # Errors
    /// `Io`, `Corruption`: a table could not be read.
    fn seek_first(&mut self) -> Result<()>;

    /// Moves to the last entry.
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    fn seek_last(&mut self) -> Result<()>;

    /// Moves to the first entry at or after `(key, stamp)` in U1's order: with `Stamp::MAX`, the
    /// newest version of the first key at or above `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()>;

    /// Announces `seek(key, stamp)`: finds out where it will look and asks for that memory, without
    /// waiting for it (U5). Several cursors aimed before one of them seeks wait together.
    fn aim(&mut self, _key: &[u8], _stamp: Stamp) {}

    /// After `aim`, and some other work: asks for the memory behind that (U5).
    fn approach(&mut self) {}

    /// Moves to the last entry whose key is below `key`.
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    fn seek_before(&mut self, key: &[u8]) -> Result<()>;

    /// Moves one entry forward.
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    fn next(&mut self) -> Result<()>;

    /// Moves one entry back.
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    fn prev(&mut self) -> Result<()>;

    /// From a version of `key` above `stamp`: past all of them, to the first entry at or after
    /// `(key, stamp)` (U7). With `Stamp::ZERO`: to the next key.
    ///
    /// # Errors
    /// As [`Cursor::seek_first`].
    fn pass(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        self.seek(key, stamp)
    }

    /// Going backward: whether it is known, without moving, that the entry is the newest of its
    /// key (U6). Who needs the newest can then stay on it instead of copying it and looking on.
    fn is_newest(&self) -> bool {
        false
    }

    /// Where the cursor stands.
    fn entry(&self) -> Option<Entry<'_>>;

    /// The key it stands on: that of `entry`.
    fn key(&self) -> Option<&[u8]> {
        self.entry().map(|entry| entry.key)
    }
}

impl<C: Cursor + ?Sized> Cursor for Box<C> {
    fn seek_first(&mut self) -> Result<()> {
        (**self).seek_first()
    }
    fn seek_last(&mut self) -> Result<()> {
        (**self).seek_last()
    }
    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        (**self).seek(key, stamp)
    }
    fn aim(&mut self, key: &[u8], stamp: Stamp) {
        (**self).aim(key, stamp);
    }
    fn approach(&mut self) {
        (**self).approach();
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        (**self).seek_before(key)
    }
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }
    fn pass(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        (**self).pass(key, stamp)
    }
    fn is_newest(&self) -> bool {
        (**self).is_newest()
    }
    fn entry(&self) -> Option<Entry<'_>> {
        (**self).entry()
    }
    fn key(&self) -> Option<&[u8]> {
        (**self).key()
    }
}
