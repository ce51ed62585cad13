//! The baseline: one tower per version, as most stores have it.
//!
//! Source: what the JellyFish paper (Middleware '20) calls AOC, RocksDB's memtable: an update is
//! an insertion, a scan steps over obsolete versions and seeks anew after eight of them.
//!
//! Pruning is not possible in it: nothing is ever unlinked from a skip list of towers, so `prune`
//! drops nothing, and memory grows with every overwrite. That is one of the differences measured.
//!
//! Threads: all methods from any thread. Tests: the contract suite.

mod entry;
mod list;
mod keys;

use crate::counters::{Counters, Tally};
use crate::cursor::TableCursor;
use crate::heights::random_height;
use crate::identity::Identity;
use crate::interface::{
    CursorMode, Head, Hint, Install, Intent, Memtable, Newest, Owner, ReadAt, Version,
};
use crate::probe::Probe;
use crate::record::{Pending, Undecided};
use crate::spare::Supply;
use crate::visibility::Reader;
use entry::{Entry, LEVELS};
use list::{Goal, List, Splice};
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::Arc;
use velella_base::{Cursor, Order};
use velella_mvcc::{Retention, Slots};
use velella_sync::atomic::Ordering;
use velella_sync::counter::Counter;
use velella_sync::{Guard, spot};

/// Obsolete versions stepped over before a search is cheaper: RocksDB's default.
pub(crate) const RESEEK_AFTER: usize = 8;

/// The append-only memtable.
#[derive(Debug)]
pub(crate) struct AppendOnly {
    identity: Identity,
    list: List,
    order: Order,
    slots: Arc<Slots>,
    counters: Arc<Counters>,
    nodes: Counter,
    /// Steps before a seek; `None` steps on for ever, as LevelDB did.
    reseek_after: Option<usize>,
}

impl AppendOnly {
    /// An empty memtable.
    pub(crate) fn new(
        order: Order,
        slots: Arc<Slots>,
        supply: &Supply,
        reseek_after: Option<usize>,
    ) -> Self {
        AppendOnly {
            identity: Identity::fresh(),
            list: List::new(supply),
            order,
            slots,
            counters: Arc::clone(&supply.counters),
            nodes: Counter::new(),
            reseek_after,
        }
    }

    fn probe<'a>(&'a self, key: &'a [u8]) -> Probe<'a> {
        Probe::new(key, &self.order)
    }

    /// The newest entry of the key.
    fn lookup<'g>(&'g self, probe: &Probe<'_>, tally: &mut Tally) -> Option<Entry<'g>> {
        let (_, at) = self.list.find(probe, Goal::Newest, tally);
        at.filter(|entry| entry.compare(probe).is_eq())
    }

    /// The newest version the reader sees, from `first` on, which is of the key.
    fn visible<'g>(
        &'g self,
        first: Option<Entry<'g>>,
        probe: &Probe<'_>,
        at: ReadAt,
        guard: &'g Guard,
        tally: &mut Tally,
    ) -> Option<Version<'g>> {
        let reader = Reader {
            at,
            slots: &self.slots,
            guard,
        };
        let mut entry = first;
        let mut steps = 0;
        while let Some(candidate) = entry {
            match reader.examine(candidate.record(), || candidate.next()) {
                Ok(stamp) => {
                    return Some(Version {
                        stamp,
                        kind: candidate.record().kind(),
                        value: candidate.value(),
                    });
                }
                Err(next) => entry = next,
            }
            tally.skipped += 1;
            steps += 1;
            if Some(steps) == self.reseek_after {
                let goal = Goal::At(at.stamp, guard);
                entry = self.list.find(probe, goal, tally).1;
            }
            tally.comparisons += 1;
            entry = entry.filter(|entry| entry.compare(probe).is_eq());
        }
        None
    }

    fn install_at<'g>(
        &'g self,
        intent: &Intent<'_>,
        owner: Owner<'_>,
        expected: Option<&Head<'g>>,
        guard: &'g Guard,
        tally: &mut Tally,
    ) -> Install<'g> {
        let probe = self.probe(intent.key);
        let mut splice = Splice::new();
        let mut gap = self.list.find_splice(&probe, &mut splice, tally);
        let height = random_height(LEVELS - 1) + 1;
        let mut draft = None;
        loop {
            let newest = gap.1.filter(|entry| entry.compare(&probe).is_eq());
            let seen = newest.map_or(null_mut(), Entry::as_ptr);
            if expected.is_some_and(|head| head.version != seen.cast_const().cast()) {
                return Install::Moved;
            }
            if let Some(newest) = newest
                && newest.record().is_undecided(guard)
            {
                return Install::Busy(Undecided::new(newest.record(), guard));
            }
            // A draft that loses its race and then finds the key busy stays unused in the arena.
            let entry = *draft.get_or_insert_with(|| self.list.allocate(height, intent));
            // Relaxed: published by the CAS in `link`.
            entry.record().word.store(owner.enlist(), Ordering::Relaxed);
            spot(14);
            if self.list.link(entry, 0, gap, tally) {
                // Before the order is asked again: if it panics, this takes the version back.
                let pending = Pending::new(entry.record(), None);
                tally.versions += 1;
                self.nodes.increment();
                spot(15);
                self.list.raise(entry, height, &probe, &splice, tally);
                return Install::Installed(pending);
            }
            owner.delist();
            gap = self.list.walk(gap.0, 0, &probe, tally);
        }
    }
}

impl Memtable for AppendOnly {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn install_near<'g>(
        &'g self,
        intent: &Intent<'_>,
        owner: Owner<'_>,
        expected: Option<&Head<'g>>,
        _hint: Hint,
        guard: &'g Guard,
    ) -> Install<'g> {
        if expected.is_some_and(|head| head.table != self.identity) {
            debug_assert!(false, "the expected head is another memtable's");
            return Install::Moved;
        }
        let mut tally = Tally::default();
        let outcome = self.install_at(intent, owner, expected, guard, &mut tally);
        tally.flush(&self.counters);
        outcome
    }

    fn newest_near<'g>(&'g self, key: &[u8], _hint: Hint, guard: &'g Guard) -> Newest<'g> {
        let mut tally = Tally::default();
        let probe = self.probe(key);
        let newest = self.lookup(&probe, &mut tally);
        let mut version = newest;
        let committed = loop {
            let Some(entry) = version.filter(|entry| entry.compare(&probe).is_eq()) else {
                break None;
            };
            if entry.record().is_undecided(guard) {
                break Some(Err(entry));
            }
            if let Some(stamp) = entry.record().committed(guard) {
                break Some(Ok((entry, stamp)));
            }
            version = entry.next();
        };
        tally.flush(&self.counters);
        let version = match committed {
            Some(Err(entry)) => return Newest::Busy(Undecided::new(entry.record(), guard)),
            Some(Ok((entry, stamp))) => Some(Version {
                stamp,
                kind: entry.record().kind(),
                value: entry.value(),
            }),
            None => None,
        };
        let head = Head {
            table: self.identity,
            node: null_mut::<()>(),
            version: newest.map_or(null_mut(), Entry::as_ptr).cast_const().cast(),
            life: PhantomData,
        };
        Newest::Decided(head, version)
    }

    fn undecided<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<Undecided<'g>> {
        let mut tally = Tally::default();
        let newest = self.lookup(&self.probe(key), &mut tally);
        tally.flush(&self.counters);
        let record = newest?.record();
        record
            .is_undecided(guard)
            .then(|| Undecided::new(record, guard))
    }

    fn get<'g>(&'g self, key: &[u8], at: ReadAt, guard: &'g Guard) -> Option<Version<'g>> {
        let mut tally = Tally::default();
        let probe = self.probe(key);
        let (_, first) = self
            .list
            .find(&probe, Goal::At(at.stamp, guard), &mut tally);
        let first = first.filter(|entry| entry.compare(&probe).is_eq());
        let version = self.visible(first, &probe, at, guard, &mut tally);
        tally.flush(&self.counters);
        version
    }

    fn prune(&self, _key: &[u8], _retention: &Retention, _guard: &Guard) -> usize {
        0
    }

    fn cursor(self: Arc<Self>, mode: CursorMode) -> Box<dyn Cursor> {
        Box::new(TableCursor::new(self, mode))
    }

    fn bytes(&self) -> usize {
        self.list.bytes()
    }

    fn newest_chunk(&self) -> usize {
        self.list.newest_chunk()
    }

    fn is_empty(&self) -> bool {
        self.list.head().next().is_none()
    }

    fn nodes(&self) -> usize {
        usize::try_from(self.nodes.sum()).unwrap_or(usize::MAX)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
