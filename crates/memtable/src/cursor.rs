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
//! X4. `items` follow each other in the cursor's order, without gaps in the same sense: in `All`
//!     mode versions of one key, in `Visible` mode keys. Of these a walk forward takes more at a
//!     time the longer it lasts, so that what is done once each time is spread over them, and
//!     their cache misses overlap.
//! X5. Copies that have bytes do not move while items refer to them: what finds no room ends the
//!     gathering.
//! X6. Nobody pays for a key that is not stood on with more than a look: where its newest version
//!     is undecided, or none is for the reader, the gathering ends.
//!
//! Threads: a cursor has one user at a time, and may be sent. Tests: the contract suite; that of X5
//! below; those of X4 and X6 in `s3/tests.rs` and `contract/cursors.rs` (`a_walk_*`);
//! `a_step_back_compares_little_more_than_a_step_forward` in `jellyfish/tests.rs`; the ratio of
//! their times, `memtable_bench ratio`.

use crate::counters::{Counters, Tally};
use crate::interface::{CursorMode, ReadAt, Version};
use std::sync::Arc;
use velella_base::{Cursor, Entry, Result, Stamp, ValueKind};
use velella_sync::{Guard, epoch};

/// How many steps before it is stood on a key of the run is asked for.
const AHEAD: usize = 6;

/// Most items gathered at a time going forward, in `Visible` mode.
const GATHERED: usize = 8;

/// A walk gathers as many items as a part of those before, so that what it gathers in vain, when
/// it ends, is a small part of it too. (With 3 and then 8 at a time, walks of four steps took 1.4
/// to 2.1 times as long.)
const PART: usize = 4;

/// Bytes of copies gathered at a time; the first item may have more.
const COPIED: usize = 1 << 10;

/// Bytes that outlive the call: of a key (X1), or of a value (X2).
#[derive(Debug, Clone, Copy)]
struct Kept(*const [u8]);

// SAFETY: the bytes are immutable for as long as they are kept (X1, X2, X5).
unsafe impl Send for Kept {}

impl Kept {
    fn new(bytes: &[u8]) -> Self {
        Kept(std::ptr::from_ref(bytes))
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: the memtable lives, keys are never freed before it (X1), and a version is not
        // reused while it is kept (X2), or it is a copy that stays where it is (X5).
        unsafe { &*self.0 }
    }
}

/// A committed version held by a cursor, with its key.
#[derive(Debug, Clone, Copy)]
struct Item<K> {
    key: K,
    bytes: Kept,
    stamp: Stamp,
    kind: ValueKind,
    value: Kept,
}

/// Copied values, which stay where they are until all are forgotten (X5).
#[derive(Debug, Default)]
struct Copies(Vec<u8>);

impl Copies {
    /// A copy, unless there are others and no room for one more.
    #[inline]
    fn add(&mut self, value: &[u8]) -> Option<Kept> {
        let start = self.0.len();
        if start == 0 {
            self.0.reserve(value.len().max(COPIED));
        } else if start + value.len() > COPIED {
            return None;
        }
        self.0.extend_from_slice(value);
        Some(Kept::new(&self.0[start..]))
    }
}

/// A memtable as a cursor sees it. Keys are handed only to the memtable that they came from.
pub(crate) trait Keys: Send + Sync + 'static {
    /// A key's place, valid as long as the memtable.
    type Key: Copy + Send;

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
    /// Whether the newest version is undecided: who looks for one that it sees may have to wait.
    fn is_undecided(&self, key: Self::Key, guard: &Guard) -> bool;
    /// Shows all committed versions, newest first.
    fn committed(&self, key: Self::Key, guard: &Guard, show: impl FnMut(Version<'_>));
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
    /// What was gathered (X4), and which of it the cursor stands on; nowhere if there is none.
    items: Vec<Item<T::Key>>,
    at: usize,
    /// Items gathered since the walk forward began.
    walked: usize,
    copies: Copies,
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

/// What became of a key that was to be gathered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entered {
    /// It is among the items.
    There,
    /// It has nothing to stand on.
    Nothing,
    /// It is left for the next time (X5, X6).
    Later,
}

impl<T: Keys> TableCursor<T> {
    pub(crate) fn new(table: Arc<T>, mode: CursorMode) -> Self {
        if mode == CursorMode::All {
            table.hold();
        }
        TableCursor {
            table,
            mode,
            items: Vec::with_capacity(GATHERED),
            at: 0,
            walked: 0,
            copies: Copies::default(),
            run: Vec::new(),
            turn: 0,
        }
    }

    /// Nothing is gathered, and the cursor stands nowhere.
    #[inline]
    fn forget(&mut self) {
        self.items.clear();
        self.copies.0.clear();
        self.at = 0;
    }

    /// Gathers `key` if it has a version to stand on.
    #[inline]
    fn enter(&mut self, key: T::Key, enter: Enter, guard: &Guard, tally: &mut Tally) -> Entered {
        match self.mode {
            CursorMode::All => self.enter_all(key, enter, guard),
            CursorMode::Visible { at, keys_only } => {
                if !self.items.is_empty() && self.table.is_undecided(key, guard) {
                    return Entered::Later;
                }
                let Some(version) = self.table.visible(key, at, guard, tally) else {
                    return Entered::Nothing;
                };
                if let Enter::From(stamp) = enter
                    && version.stamp > stamp
                {
                    return Entered::Nothing;
                }
                let is_wanted = !keys_only || version.kind != ValueKind::Put;
                let value = if is_wanted { version.value } else { &[] };
                let value = match T::COPIES {
                    true => self.copies.add(value),
                    false => Some(Kept::new(value)),
                };
                let Some(value) = value else {
                    return Entered::Later;
                };
                self.items.push(Item {
                    key,
                    bytes: Kept::new(self.table.bytes_of(key)),
                    stamp: version.stamp,
                    kind: version.kind,
                    value,
                });
                Entered::There
            }
        }
    }

    /// Gathers all versions of `key`, and stands on one of them.
    fn enter_all(&mut self, key: T::Key, enter: Enter, guard: &Guard) -> Entered {
        let (items, bytes) = (&mut self.items, Kept::new(self.table.bytes_of(key)));
        self.table.committed(key, guard, |version| {
            items.push(Item {
                key,
                bytes,
                stamp: version.stamp,
                kind: version.kind,
                value: Kept::new(version.value),
            });
        });
        self.at = match enter {
            Enter::From(stamp) => items.partition_point(|item| item.stamp > stamp),
            Enter::Last => items.len().saturating_sub(1),
        };
        if self.at < items.len() {
            return Entered::There;
        }
        self.forget();
        Entered::Nothing
    }

    /// Gathers items from `key` on, and stands on the first of them, or nowhere.
    fn forward(&mut self, key: Option<T::Key>, stamp: Stamp, mut tally: Tally) {
        self.reposition();
        self.forget();
        let wanted = match self.mode {
            CursorMode::All => 1,
            CursorMode::Visible { .. } => (self.walked / PART).clamp(1, GATHERED),
        };
        let guard = epoch::pin();
        let mut next = key;
        let mut enter = Enter::From(stamp);
        while let Some(key) = next {
            match self.enter(key, enter, &guard, &mut tally) {
                Entered::There if self.items.len() < wanted => {}
                // Before the first item there may be many.
                Entered::Nothing if self.items.is_empty() => {}
                Entered::There | Entered::Nothing | Entered::Later => break,
            }
            enter = Enter::From(Stamp::MAX);
            next = self.table.after(key, &mut tally);
        }
        self.walked += self.items.len();
        tally.flush(self.table.counters());
    }

    /// Begins a walk forward.
    fn seek_forward(&mut self, key: Option<T::Key>, stamp: Stamp, tally: Tally) {
        self.walked = 0;
        self.forward(key, stamp, tally);
    }

    /// Stands on the last entry up to `key`, or nowhere.
    fn backward(&mut self, key: Option<T::Key>, mut tally: Tally) {
        self.forget();
        self.walked = 0;
        let guard = epoch::pin();
        let mut next = key;
        while let Some(key) = next {
            if self.enter(key, Enter::Last, &guard, &mut tally) == Entered::There {
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
        self.seek_forward(self.table.first(), Stamp::MAX, Tally::default());
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
            self.seek_forward(None, stamp, tally);
            return Ok(());
        };
        // The stamp applies to the key itself, not to one above it.
        let is_equal = self.table.is_at(ceiling, key);
        let stamp = if is_equal { stamp } else { Stamp::MAX };
        self.seek_forward(Some(ceiling), stamp, tally);
        Ok(())
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.reposition();
        let mut tally = Tally::default();
        let lower = self.table.lower(key, &mut tally);
        self.backward(lower, tally);
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(
            !self.items.is_empty(),
            "next on an unpositioned cursor (U3)"
        );
        if self.at + 1 < self.items.len() {
            self.at += 1;
            return Ok(());
        }
        let Some(item) = self.items.last() else {
            return Ok(());
        };
        let mut tally = Tally::default();
        let after = self.table.after(item.key, &mut tally);
        self.forward(after, Stamp::MAX, tally);
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        debug_assert!(
            !self.items.is_empty(),
            "prev on an unpositioned cursor (U3)"
        );
        if self.at > 0 {
            self.at -= 1;
            return Ok(());
        }
        let Some(item) = self.items.first() else {
            return Ok(());
        };
        let mut tally = Tally::default();
        let before = self.predecessor(item.key, &mut tally);
        self.backward(before, tally);
        Ok(())
    }

    /// A step from the last version above the stamp.
    #[inline]
    fn pass(&mut self, _key: &[u8], stamp: Stamp) -> Result<()> {
        if self.mode == CursorMode::All {
            let rest = self.items.get(self.at..).unwrap_or_default();
            let passed = rest.partition_point(|item| item.stamp > stamp);
            self.at += passed.saturating_sub(1);
        }
        self.next()
    }

    fn is_newest(&self) -> bool {
        matches!(self.mode, CursorMode::Visible { .. })
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let item = self.items.get(self.at)?;
        Some(Entry {
            key: item.bytes.bytes(),
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

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn copies_keep_to_their_bytes_whatever_one_had_before() {
        let mut copies = Copies::default();
        let large = vec![1; 100 * COPIED];
        let kept = copies.add(&large).expect("the first has room");
        assert_eq!(kept.bytes(), large);
        assert!(copies.add(b"x").is_none(), "behind a large one");
        copies.0.clear();
        // There is room for all of these, but not the right to it (X5).
        let half = [2; COPIED / 2];
        let first = copies.add(&half).expect("the first has room");
        assert!(copies.add(&half).is_some());
        assert!(copies.add(b"x").is_none());
        assert_eq!(first.bytes(), half);
    }
}
