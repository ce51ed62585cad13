//! One cursor for every kind of memtable: over keys both ways, and over the versions of a key.
//!
//! Source: JellyFish (Middleware '20) 3.3: one version a key; going back, which a singly linked
//! list cannot, by gathering a run of predecessors and handing it out from its end.
//!
//! X1. A `Key` held here, and its bytes, stay valid as long as the memtable, which the cursor keeps
//!     alive.
//! X2. In `Visible` mode values are copied under the pin if the memtable reuses versions; in `All`
//!     mode the memtable reuses nothing while the cursor exists.
//! X3. `run` holds keys that precede the current one, in order and without gaps at the time of
//!     gathering; a step forward forgets it. Keys inserted since are above the reader's time.
//!
//! Threads: a cursor has one user at a time, and may be sent. Tests: the contract suite;
//! `a_step_back_compares_little_more_than_a_step_forward` in `jellyfish/tests.rs`; the ratio of
//! their times, `memtable_bench ratio`.

use crate::counters::{Counters, Tally};
use crate::interface::{CursorMode, ReadAt, Version};
use std::sync::Arc;
use velella_base::{Cursor, Entry, Result, Stamp, ValueKind};
use velella_sync::{Guard, epoch};

/// How many steps before it is stood on a key of the run is asked for.
const AHEAD: usize = 6;

/// Bytes that outlive the call: of a key (X1), or of a value (X2).
#[derive(Debug, Clone, Copy)]
struct Kept(*const [u8]);

// SAFETY: the bytes are immutable for as long as they are kept (X1, X2).
unsafe impl Send for Kept {}

impl Kept {
    fn new(bytes: &[u8]) -> Self {
        Kept(std::ptr::from_ref(bytes))
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: the memtable lives, keys are never freed before it (X1), and a version is not
        // reused while it is kept, or it is a copy of the cursor's own (X2).
        unsafe { &*self.0 }
    }
}

/// A committed version held by a cursor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    stamp: Stamp,
    kind: ValueKind,
    value: Kept,
}

impl Item {
    pub(crate) fn new(stamp: Stamp, kind: ValueKind, value: &[u8]) -> Self {
        Item {
            stamp,
            kind,
            value: Kept::new(value),
        }
    }
}

/// A memtable as a cursor sees it. Keys are handed only to the memtable that they came from.
pub(crate) trait Keys: Send + Sync + 'static {
    /// A key's place, valid as long as the memtable.
    type Key: Copy + Send + PartialEq;

    /// Whether a value must be copied while pinned.
    const COPIES: bool;

    /// The first key.
    fn first(&self) -> Option<Self::Key>;
    /// The last key.
    fn last(&self) -> Option<Self::Key>;
    /// The first key at or above `key`.
    fn ceiling(&self, key: &[u8], tally: &mut Tally) -> Option<Self::Key>;
    /// The last key below `key`.
    fn lower(&self, key: &[u8], tally: &mut Tally) -> Option<Self::Key>;
    /// The next key.
    fn after(&self, key: Self::Key, tally: &mut Tally) -> Option<Self::Key>;
    /// Some of the keys directly before `end`, ascending, at least one if there is one; more of
    /// them with each `turn`.
    fn before(&self, end: Self::Key, run: &mut Vec<Self::Key>, turn: usize, tally: &mut Tally);
    /// The key will be stood on soon: a hint.
    fn expect(&self, key: Self::Key);
    /// Whether the key is `bytes` in the memtable's order.
    fn is_at(&self, key: Self::Key, bytes: &[u8]) -> bool;
    /// The key's bytes.
    fn bytes_of(&self, key: Self::Key) -> &[u8];
    /// The newest version the reader sees.
    fn visible<'g>(
        &'g self,
        key: Self::Key,
        at: ReadAt,
        guard: &'g Guard,
        tally: &mut Tally,
    ) -> Option<Version<'g>>;
    /// Appends all committed versions, newest first.
    fn committed(&self, key: Self::Key, guard: &Guard, items: &mut Vec<Item>);
    /// From now until `release` no version is reused.
    fn hold(&self);
    /// Ends a `hold`.
    fn release(&self);
    /// Where to count.
    fn counters(&self) -> &Counters;
}

/// A cursor over a memtable.
pub(crate) struct TableCursor<T: Keys> {
    table: Arc<T>,
    mode: CursorMode,
    key: Option<T::Key>,
    /// The bytes of `key`, and the version it stands on, if it stands on a key.
    here: Option<(Kept, Item)>,
    /// In `All` mode: all versions of `key`, and which of them is `here`.
    items: Vec<Item>,
    at: usize,
    copy: Vec<u8>,
    run: Vec<T::Key>,
    turn: usize,
}

/// Which of a key's versions to stand on.
#[derive(Clone, Copy)]
enum Enter {
    /// The newest at or below the stamp.
    From(Stamp),
    /// The oldest.
    Last,
}

impl<T: Keys> TableCursor<T> {
    pub(crate) fn new(table: Arc<T>, mode: CursorMode) -> Self {
        if mode == CursorMode::All {
            table.hold();
        }
        TableCursor {
            table,
            mode,
            key: None,
            here: None,
            items: Vec::new(),
            at: 0,
            copy: Vec::new(),
            run: Vec::new(),
            turn: 0,
        }
    }

    /// Stands on `key` if it has a version to stand on.
    fn enter(&mut self, key: T::Key, enter: Enter, guard: &Guard, tally: &mut Tally) -> bool {
        let item = match self.mode {
            CursorMode::All => {
                self.items.clear();
                self.table.committed(key, guard, &mut self.items);
                self.at = match enter {
                    Enter::From(stamp) => self.items.partition_point(|item| item.stamp > stamp),
                    Enter::Last => self.items.len().saturating_sub(1),
                };
                self.items.get(self.at).copied()
            }
            CursorMode::Visible { at, keys_only } => {
                let version = self.table.visible(key, at, guard, tally);
                let version = version.filter(|version| match enter {
                    Enter::From(stamp) => version.stamp <= stamp,
                    Enter::Last => true,
                });
                version.map(|version| {
                    let wanted = !keys_only || version.kind != ValueKind::Put;
                    let value = if wanted { version.value } else { &[] };
                    let value = if T::COPIES {
                        self.copy.clear();
                        self.copy.extend_from_slice(value);
                        &self.copy
                    } else {
                        value
                    };
                    Item::new(version.stamp, version.kind, value)
                })
            }
        };
        self.here = item.map(|item| (Kept::new(self.table.bytes_of(key)), item));
        if self.here.is_some() {
            self.key = Some(key);
        }
        self.here.is_some()
    }

    /// Stands on another version of the key.
    fn stand_at(&mut self, at: usize) {
        self.at = at;
        let bytes = self.here.map(|(bytes, _)| bytes);
        self.here = bytes.zip(self.items.get(at).copied());
    }

    /// Stands on the first entry from `key` on, or nowhere.
    fn forward(&mut self, key: Option<T::Key>, stamp: Stamp, mut tally: Tally) {
        self.run.clear();
        self.turn = 0;
        (self.key, self.here) = (None, None);
        let guard = epoch::pin();
        let mut next = key;
        let mut enter = Enter::From(stamp);
        while let Some(key) = next {
            if self.enter(key, enter, &guard, &mut tally) {
                break;
            }
            enter = Enter::From(Stamp::MAX);
            next = self.table.after(key, &mut tally);
        }
        tally.flush(self.table.counters());
    }

    /// Stands on the last entry up to `key`, or nowhere.
    fn backward(&mut self, key: Option<T::Key>, mut tally: Tally) {
        (self.key, self.here) = (None, None);
        let guard = epoch::pin();
        let mut next = key;
        while let Some(key) = next {
            if self.enter(key, Enter::Last, &guard, &mut tally) {
                break;
            }
            next = self.predecessor(key, &mut tally);
        }
        tally.flush(self.table.counters());
    }

    /// The key before `key`, which is the first of the run, or before the run (X3).
    fn predecessor(&mut self, key: T::Key, tally: &mut Tally) -> Option<T::Key> {
        if self.run.is_empty() {
            self.table.before(key, &mut self.run, self.turn, tally);
            self.turn += 1;
            for soon in self.run.iter().rev().take(AHEAD) {
                self.table.expect(*soon);
            }
        }
        let next = self.run.pop();
        if let Some(soon) = self.run.len().checked_sub(AHEAD) {
            self.table.expect(self.run[soon]);
        }
        next
    }

    fn reposition(&mut self) {
        self.run.clear();
        self.turn = 0;
    }
}

impl<T: Keys> Cursor for TableCursor<T> {
    fn seek_first(&mut self) -> Result<()> {
        self.forward(self.table.first(), Stamp::MAX, Tally::default());
        Ok(())
    }

    fn seek_last(&mut self) -> Result<()> {
        self.reposition();
        self.backward(self.table.last(), Tally::default());
        Ok(())
    }

    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        let mut tally = Tally::default();
        let Some(ceiling) = self.table.ceiling(key, &mut tally) else {
            self.forward(None, stamp, tally);
            return Ok(());
        };
        // The stamp applies to the key itself, not to one above it.
        let is_equal = self.table.is_at(ceiling, key);
        let stamp = if is_equal { stamp } else { Stamp::MAX };
        self.forward(Some(ceiling), stamp, tally);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.reposition();
        let mut tally = Tally::default();
        let lower = self.table.lower(key, &mut tally);
        self.backward(lower, tally);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        debug_assert!(self.key.is_some(), "next on an unpositioned cursor (U3)");
        let Some(key) = self.key else { return Ok(()) };
        if self.at + 1 < self.items.len() {
            self.stand_at(self.at + 1);
            return Ok(());
        }
        let mut tally = Tally::default();
        let after = self.table.after(key, &mut tally);
        self.forward(after, Stamp::MAX, tally);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.key.is_some(), "prev on an unpositioned cursor (U3)");
        let Some(key) = self.key else { return Ok(()) };
        if self.at > 0 {
            self.stand_at(self.at - 1);
            return Ok(());
        }
        let mut tally = Tally::default();
        let before = self.predecessor(key, &mut tally);
        self.backward(before, tally);
        Ok(())
    }

    /// A step from the last version above the stamp.
    fn pass(&mut self, _key: &[u8], stamp: Stamp) -> Result<()> {
        let rest = self.items.get(self.at..).unwrap_or_default();
        let passed = rest.partition_point(|item| item.stamp > stamp);
        self.at += passed.saturating_sub(1);
        self.next()
    }

    fn is_newest(&self) -> bool {
        matches!(self.mode, CursorMode::Visible { .. })
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let (key, item) = self.here.as_ref()?;
        Some(Entry {
            key: key.bytes(),
            stamp: item.stamp,
            kind: item.kind,
            value: item.value.bytes(),
        })
    }
}

impl<T: Keys> Drop for TableCursor<T> {
    fn drop(&mut self) {
        if self.mode == CursorMode::All {
            self.table.release();
        }
    }
}
