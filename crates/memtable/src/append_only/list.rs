//! The skip list of versions: sorted by key, and for one key newest first.
//!
//! Source: RocksDB's InlineSkipList; RocksDB orders by (key, sequence number) and so must know the
//! number at insertion, which a pending version does not have. Here a version goes in front of its
//! key's group, by a bottom-level CAS on exactly the pair (last entry below the key, first entry
//! at or above it): so it stands above every version that was there, as the protocol demands.
//!
//! A1. The bottom level is sorted by key; a key's entries stand newest first. On upper levels,
//!     entries of one key may stand in any order: searches there rely on what is strictly before
//!     the goal, and that holds for any entry passed.
//! A2. Nothing is ever unlinked.
//!
//! Threads: any; lock-free. Tests: the contract suite.

use super::entry::{Entry, EntryHead, LEVELS, entry_bytes};
use crate::arena::Arena;
use crate::counters::Tally;
use crate::interface::Intent;
use crate::ordering::{Site, release};
use crate::probe::Probe;
use crate::spare::Supply;
use std::cmp::Ordering as Compared;
use std::ptr::{NonNull, null_mut};
use velella_base::{Stamp, ValueKind};
use velella_mvcc::Word;
use velella_sync::Guard;
use velella_sync::atomic::{AtomicUsize, Ordering};

/// Which of a key's entries a search stops at.
#[derive(Clone, Copy)]
pub(crate) enum Goal<'a> {
    /// The first.
    Newest,
    /// The first that is not committed above the stamp.
    At(Stamp, &'a Guard),
    /// The first entry above the key.
    After,
}

/// The last entry before a goal, and the first at or after it.
pub(crate) type Gap<'l> = (Entry<'l>, Option<Entry<'l>>);

/// The gaps on every level that a search went through.
pub(crate) struct Splice<'l> {
    height: usize,
    levels: [Option<Gap<'l>>; LEVELS],
}

impl<'l> Splice<'l> {
    pub(crate) fn new() -> Self {
        Splice {
            height: 0,
            levels: [None; LEVELS],
        }
    }
}

/// The skip list.
#[derive(Debug)]
pub(crate) struct List {
    /// Before every entry, of full height.
    head: NonNull<EntryHead>,
    height: AtomicUsize,
    arena: Arena,
}

// SAFETY: entries are shared through atomics or immutable; the arena is `Sync`.
unsafe impl Send for List {}
// SAFETY: as for Send.
unsafe impl Sync for List {}

/// Whether a search for `goal` passes over `entry`.
#[inline]
fn is_before(entry: Entry<'_>, probe: &Probe<'_>, goal: Goal<'_>) -> bool {
    match entry.compare(probe) {
        Compared::Less => true,
        Compared::Greater => false,
        Compared::Equal => match goal {
            Goal::Newest => false,
            Goal::After => true,
            Goal::At(stamp, guard) => matches!(
                Word::decode(entry.record().state(guard)),
                Word::Committed(at, _) if at > stamp
            ),
        },
    }
}

impl List {
    /// An empty list.
    pub(crate) fn new(supply: &Supply) -> Self {
        let arena = Arena::new(supply.clone());
        let intent = Intent {
            key: b"",
            kind: ValueKind::Put,
            payload: [b"", b""],
        };
        let block = arena.alloc(entry_bytes(LEVELS, 0, 0));
        // SAFETY: fresh memory of the right size.
        let head = unsafe { Entry::write(block, LEVELS, &intent) };
        List {
            head: NonNull::new(head.as_ptr()).expect("an entry has an address"),
            height: AtomicUsize::new(1),
            arena,
        }
    }

    /// Bytes taken from the system.
    pub(crate) fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// Of those, the chunk taken last.
    pub(crate) fn newest_chunk(&self) -> usize {
        self.arena.newest_chunk()
    }

    /// The entry before all others.
    #[inline]
    pub(crate) fn head(&self) -> Entry<'_> {
        // SAFETY: written by `new`, lives as long as the list.
        unsafe { Entry::from_raw(self.head.as_ptr()) }.expect("never null")
    }

    /// The gap before the goal.
    #[inline]
    pub(crate) fn find(&self, probe: &Probe<'_>, goal: Goal<'_>, tally: &mut Tally) -> Gap<'_> {
        self.descend(probe, goal, None, tally)
    }

    /// As [`List::find`], noting the way for [`List::raise`].
    pub(crate) fn find_splice<'l>(
        &'l self,
        probe: &Probe<'_>,
        splice: &mut Splice<'l>,
        tally: &mut Tally,
    ) -> Gap<'l> {
        self.descend(probe, Goal::Newest, Some(splice), tally)
    }

    #[inline(always)]
    fn descend<'l>(
        &'l self,
        probe: &Probe<'_>,
        goal: Goal<'_>,
        mut splice: Option<&mut Splice<'l>>,
        tally: &mut Tally,
    ) -> Gap<'l> {
        // Relaxed: a level that is missed costs time only.
        let height = self.height.load(Ordering::Relaxed);
        let mut before = self.head();
        let mut above = None;
        let mut next = None;
        for level in (0..height).rev() {
            // SAFETY: the head, or reached on this level or a higher one.
            next = unsafe { before.next_at(level) };
            while let Some(candidate) = next
                && next != above
            {
                tally.comparisons += 1;
                if !is_before(candidate, probe, goal) {
                    above = next;
                    break;
                }
                before = candidate;
                // SAFETY: reached on this level.
                next = unsafe { before.next_at(level) };
            }
            if let Some(splice) = &mut splice {
                splice.levels[level] = Some((before, next));
            }
        }
        if let Some(splice) = splice {
            splice.height = height;
        }
        (before, next)
    }

    /// The gap for the key at `level`, from an entry below the key on.
    pub(crate) fn walk<'l>(
        &'l self,
        mut before: Entry<'l>,
        level: usize,
        probe: &Probe<'_>,
        tally: &mut Tally,
    ) -> Gap<'l> {
        loop {
            // SAFETY: the head, or reached on this level or a higher one.
            let next = unsafe { before.next_at(level) };
            let Some(candidate) = next else {
                return (before, None);
            };
            tally.comparisons += 1;
            if candidate.compare(probe) != Compared::Less {
                return (before, next);
            }
            before = candidate;
        }
    }

    /// An entry for `intent`, linked nowhere yet.
    pub(crate) fn allocate(&self, height: usize, intent: &Intent<'_>) -> Entry<'_> {
        let bytes = entry_bytes(height, intent.key.len(), intent.payload_len());
        // SAFETY: fresh memory of the right size, which lives as long as the list.
        unsafe { Entry::write(self.arena.alloc(bytes), height, intent) }
    }

    /// Links `entry` into exactly `gap` at `level`, or says that the gap is gone.
    pub(crate) fn link<'l>(
        &'l self,
        entry: Entry<'l>,
        level: usize,
        gap: Gap<'l>,
        tally: &mut Tally,
    ) -> bool {
        let (before, after) = gap;
        let after = after.map_or(null_mut(), Entry::as_ptr);
        // SAFETY: the entry is higher than `level`.
        let own = unsafe { entry.link(level) };
        // Relaxed: published by the CAS below.
        own.store(after, Ordering::Relaxed);
        // SAFETY: `before` is the head or was reached on this level.
        let link = unsafe { before.link(level) };
        tally.cas_attempts += 1;
        // Release, partner: the Acquire in `Entry::next_at`: the entry is complete. Relaxed on
        // failure: the caller searches again.
        let linked = link
            .compare_exchange(
                after,
                entry.as_ptr(),
                release(Site::NodeLink),
                Ordering::Relaxed,
            )
            .is_ok();
        tally.cas_failures += u64::from(!linked);
        linked
    }

    /// Links the upper levels of an entry that is at the bottom already.
    pub(crate) fn raise<'l>(
        &'l self,
        entry: Entry<'l>,
        height: usize,
        probe: &Probe<'_>,
        splice: &Splice<'l>,
        tally: &mut Tally,
    ) {
        if height == 1 {
            return;
        }
        tally.towers += 1;
        // Relaxed: see `descend`.
        self.height.fetch_max(height, Ordering::Relaxed);
        for level in 1..height {
            let mut gap = match splice.levels[level] {
                Some(gap) if level < splice.height => gap,
                _ => self.walk(self.head(), level, probe, tally),
            };
            while !self.link(entry, level, gap, tally) {
                gap = self.walk(gap.0, level, probe, tally);
            }
        }
    }

    /// The last entry, or the head.
    pub(crate) fn last(&self) -> Entry<'_> {
        let mut entry = self.head();
        for level in (0..LEVELS).rev() {
            // SAFETY: the head, or reached on this level or a higher one.
            while let Some(next) = unsafe { entry.next_at(level) } {
                entry = next;
            }
        }
        entry
    }
}
