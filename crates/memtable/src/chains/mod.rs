//! A memtable of distinct keys, each with its own list of versions, whatever keeps the keys in
//! order.
//!
//! Source: JellyFish (Middleware '20) 3; see `version` and `node` for what differs.
//!
//! J1. A key's list begins, at its head, with at most one undecided or aborted version; below the
//!     first committed one all are committed. (An installation needs a decided head, and links
//!     past aborted ones.)
//! J2. What lies above the first committed version is unlinked by installations only, what lies
//!     below by the key's one pruner only: no version is retired twice.
//!
//! Threads: all methods from any thread. Tests: those of each kind; `tests/loom.rs`.

pub(crate) mod version;
pub(crate) mod node;
pub(crate) mod store;
pub(crate) mod sorted;
pub(crate) mod index;
mod prune;
mod trend;
mod keys;

use crate::counters::{Counters, Tally};
use crate::cursor::TableCursor;
use crate::guards::GuardOptions;
use crate::identity::Identity;
use crate::interface::{
    CursorMode, Head, Hint, Install, Intent, Memtable, Near, Newest, Owner, Place, ReadAt, Version,
};
use crate::ordering::{Site, is_sound, swap_in};
use crate::probe::Probe;
use crate::record::{Pending, Undecided};
use crate::spare::Supply;
use crate::visibility::Reader;
use index::{KeyIndex, hash};
use node::{Node, NodeHead};
use prune::Gate;
use sorted::Sorted;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::Arc;
use trend::Trend;
use velella_base::order::same_bytes;
use velella_base::{Cursor, Order};
use velella_mvcc::{Retention, Slots};
use velella_sync::atomic::Ordering;
use velella_sync::counter::Counter;
use velella_sync::{Guard, spot};
use version::{Draft, Retired, VersionHead, VersionRef, version_bytes};

/// A memtable whose keys `L` keeps in order.
#[derive(Debug)]
pub(crate) struct Chained<L> {
    identity: Identity,
    /// Before the list: its tables are to be kept first, of what a freed memtable leaves.
    index: KeyIndex,
    pub(crate) list: L,
    order: Order,
    slots: Arc<Slots>,
    counters: Arc<Counters>,
    pub(crate) nodes: Counter,
    gate: Gate,
    trend: Trend,
}

impl<L: Sorted> Chained<L> {
    /// An empty memtable.
    pub(crate) fn new(
        order: Order,
        slots: Arc<Slots>,
        supply: &Supply,
        guards: impl Into<GuardOptions>,
    ) -> Self {
        // Words are in order only if keys are in the order of their bytes.
        let guards = match order.is_bytewise() {
            true => guards.into(),
            false => GuardOptions::from(0),
        };
        Chained {
            identity: Identity::fresh(),
            list: L::new(&order, guards, supply),
            index: KeyIndex::new(L::IS_INDEXED && order.is_bytewise(), supply),
            order,
            slots,
            counters: Arc::clone(&supply.counters),
            nodes: Counter::new(),
            gate: Gate::new(),
            trend: Trend::new(),
        }
    }

    /// The same, which is still empty, with an index made for about so many keys.
    pub(crate) fn expecting(mut self, keys: usize) -> Self {
        self.index.expect(keys);
        self
    }

    fn probe<'a>(&'a self, key: &'a [u8]) -> Probe<'a> {
        Probe::new(key, &self.order)
    }

    /// The key's node, if there is one.
    #[inline]
    fn lookup<'g>(&'g self, key: &[u8], guard: &Guard, tally: &mut Tally) -> Option<Node<'g>> {
        if self.index.is_complete() {
            return self.indexed(key, hash(key), tally);
        }
        self.list.find(&self.probe(key), guard, tally)
    }

    /// The key's node, if the index has it; `hash` is the key's.
    #[inline]
    fn indexed<'g>(&'g self, key: &[u8], hash: u64, tally: &mut Tally) -> Option<Node<'g>> {
        if !L::IS_INDEXED {
            return None;
        }
        let comparisons = Cell::new(0);
        let found = self.index.find(hash, |node| {
            comparisons.set(comparisons.get() + 1);
            same_bytes(node.key(), key)
        });
        tally.comparisons += comparisons.get();
        found
    }

    /// As [`Jellyfish::lookup`], an operation of its own.
    fn counted_lookup<'g>(&'g self, key: &[u8], guard: &Guard) -> Option<Node<'g>> {
        let mut tally = Tally::default();
        let node = self.lookup(key, guard, &mut tally);
        tally.flush(&self.counters);
        node
    }

    /// The newest version the reader sees.
    #[inline]
    fn visible<'g>(
        &'g self,
        node: Node<'g>,
        at: ReadAt,
        guard: &'g Guard,
        tally: &mut Tally,
    ) -> Option<Version<'g>> {
        let reader = Reader {
            at,
            slots: &self.slots,
            guard,
        };
        let mut version = newest_version(node, guard);
        while let Some(candidate) = version {
            match reader.examine(candidate.record(), || candidate.next()) {
                Ok(stamp) => {
                    return Some(Version {
                        stamp,
                        kind: candidate.record().kind(),
                        value: candidate.value(),
                    });
                }
                Err(next) => version = next,
            }
            tally.skipped += 1;
        }
        None
    }

    /// Enters a node that the list has and the index has not: its inserter is between the two, and
    /// may have lost the processor there. Who updates the key would until then look in vain for
    /// what keeps it from installing. It may be entered twice: the first entry is the one found.
    fn help(&self, node: Node<'_>, hash: u64) {
        if self.index.is_complete() && is_sound(Site::Help) {
            self.index.insert(hash, node);
        }
    }

    /// Installs on an existing node (steps 5 and 6), `draft` if there is one already.
    fn install_on<'g>(
        &'g self,
        node: Node<'g>,
        draft: Option<Draft>,
        write: &Write<'_, 'g>,
        tally: &mut Tally,
    ) -> Install<'g> {
        spot(4);
        let mut draft = draft;
        let head = &node.fields().head;
        let outcome = loop {
            let newest = newest_version(node, write.guard);
            let seen = newest.map_or(null_mut(), VersionRef::as_ptr);
            if write.expected.is_some_and(|expected| expected != seen) {
                break Install::Moved;
            }
            if let Some(newest) = newest
                && newest.record().is_undecided(write.guard)
                && is_sound(Site::Undecided)
            {
                break Install::Busy(Undecided::new(newest.record(), write.guard));
            }
            let below = newest.and_then(|newest| newest.first_not_aborted(write.guard));
            let new = draft.take().unwrap_or_else(|| self.draft(write));
            new.complete(write.intent.kind, write.owner.enlist(), below);
            spot(14);
            tally.cas_attempts += 1;
            // Release, partner: the Acquire in `newest_version`: the version is complete.
            if swap_in(Site::HeadCas, head, seen, new.as_ptr()) {
                tally.versions += 1;
                let (version, prune) = (new.published().record(), &node.fields().prune);
                // Before others' deferred work runs below, which may panic: whoever installed a
                // version has to decide it, or nobody does.
                let pending = Pending::new(version, Some(prune));
                self.retire_between(newest, below, write.guard);
                return Install::Installed(pending);
            }
            tally.cas_failures += 1;
            write.owner.delist();
            draft = Some(new);
        };
        if let Some(unused) = draft {
            self.list
                .store()
                .retire(vec![unused.abandoned()], write.guard);
        }
        outcome
    }

    /// Retires the aborted versions from `newest` down to `below`, which the caller's CAS has just
    /// unlinked (J2).
    fn retire_between<'g>(
        &self,
        newest: Option<VersionRef<'g>>,
        below: Option<VersionRef<'g>>,
        guard: &Guard,
    ) {
        if newest == below {
            return;
        }
        let mut retired = Vec::new();
        let mut version = newest;
        while let Some(aborted) = version
            && version != below
        {
            version = aborted.next();
            // SAFETY: unlinked by the caller's CAS, which only one thread can have won.
            retired.push(unsafe { Retired::new(aborted) });
        }
        self.list.store().retire(retired, guard);
    }

    /// The node of a hint, if that is this memtable's.
    #[inline]
    fn node_at(&self, place: Place) -> Option<Node<'_>> {
        if place.table != self.identity {
            return None;
        }
        // SAFETY: of this memtable (`identity` I1), whose nodes are freed with it.
        unsafe { Node::from_raw(place.node.cast::<NodeHead>().cast_mut()) }
    }

    /// The key's node, if a hint says it.
    #[inline]
    fn found<'g>(&'g self, key: &[u8], hint: Hint) -> Option<Node<'g>> {
        let Near::At(place) = hint.0 else {
            return None;
        };
        let node = self.node_at(place)?;
        let is_keys = node.compare(&self.probe(key)).is_eq();
        debug_assert!(is_keys, "the hint is for another key");
        is_keys.then_some(node)
    }

    /// Where a hint lets the search begin, and how many comparisons it took to find that.
    #[inline]
    fn near(&self, hint: Hint) -> Option<(Node<'_>, u64)> {
        let Near::From(place, comparisons) = hint.0 else {
            return None;
        };
        Some((self.node_at(place)?, comparisons))
    }

    /// The same node, if it is not above the key; what it took to find it is counted now.
    #[inline]
    fn start<'g>(&'g self, hint: Hint, probe: &Probe<'_>, tally: &mut Tally) -> Option<Node<'g>> {
        let (node, comparisons) = self.near(hint)?;
        if node.compare(probe).is_gt() {
            debug_assert!(false, "the hint is for another key");
            return None;
        }
        tally.probes += 1;
        tally.comparisons += comparisons;
        Some(node)
    }

    /// A version with the intent's payload, in recycled or fresh memory.
    fn draft(&self, write: &Write<'_, '_>) -> Draft {
        let len = write.intent.payload_len();
        let store = self.list.store();
        let draft = store
            .recycler
            .reuse(write.intent.kind, len, write.guard)
            .unwrap_or_else(|| {
                let block = store.arena.alloc(version_bytes(len));
                // SAFETY: fresh memory of the right size.
                unsafe { Draft::fresh(block, write.intent.kind, len) }
            });
        // SAFETY: a draft has room for its payload, and nobody else sees it.
        unsafe { write.intent.write_payload(draft.payload()) };
        draft
    }

    /// Inserts a node with its first version (steps 4 to 6 at once), or installs on the node that
    /// another thread inserted meanwhile.
    fn insert<'g>(
        &'g self,
        gap: &mut L::Gap<'g>,
        write: &Write<'_, 'g>,
        tally: &mut Tally,
    ) -> Install<'g> {
        let Intent { key, kind, .. } = *write.intent;
        let len = write.intent.payload_len();
        let (node_block, version_block) = self.list.store().allocate(key, len);
        // SAFETY: fresh memory of the right size, which lives as long as the list.
        let node = unsafe { Node::write(node_block, key) };
        // SAFETY: fresh memory of the right size.
        let draft = unsafe { Draft::fresh(version_block, kind, len) };
        // SAFETY: a draft has room for its payload, and nobody else sees it.
        unsafe { write.intent.write_payload(draft.payload()) };
        draft.complete(kind, write.owner.enlist(), None);
        // SAFETY: the draft is not null, and lives as long as the list.
        let first = unsafe { VersionRef::from_raw(draft.as_ptr()) }.expect("never null");
        let probe = self.probe(key);
        // Relaxed: published by the CAS that links the node.
        node.fields().head.store(first.as_ptr(), Ordering::Relaxed);
        match self.list.link(node, &probe, gap, tally) {
            Ok(()) => {
                // Before the order is asked again: if it panics, this takes the version back.
                let pending = Pending::new(first.record(), Some(&node.fields().prune));
                tally.versions += 1;
                self.nodes.increment();
                spot(15);
                self.list.raise(node, &probe, gap, write.guard, tally);
                if L::IS_INDEXED {
                    self.index.insert(write.hash, node);
                }
                Install::Installed(pending)
            }
            Err(other) => {
                write.owner.delist();
                self.install_on(other, Some(draft), write, tally)
            }
        }
    }
}

/// What a writer wants, and under which circumstances.
struct Write<'a, 'g> {
    intent: &'a Intent<'a>,
    /// Of its key.
    hash: u64,
    owner: Owner<'a>,
    /// The newest version must be this one (or null: none).
    expected: Option<*mut VersionHead>,
    guard: &'g Guard,
}

/// The key's newest version, whatever its state.
#[inline]
fn newest_version<'g>(node: Node<'g>, _pinned: &'g Guard) -> Option<VersionRef<'g>> {
    // Acquire, partner: the Release of the CAS that installed it.
    let newest = node.fields().head.load(Ordering::Acquire);
    // SAFETY: read from a head while pinned.
    unsafe { VersionRef::from_raw(newest) }
}

impl<L: Sorted> Memtable for Chained<L> {
    fn identity(&self) -> Identity {
        self.identity
    }

    fn install_near<'g>(
        &'g self,
        intent: &Intent<'_>,
        owner: Owner<'_>,
        expected: Option<&Head<'g>>,
        hint: Hint,
        guard: &'g Guard,
    ) -> Install<'g> {
        let mut tally = Tally::default();
        let probe = self.probe(intent.key);
        let mut node = None;
        if let Some(head) = expected {
            if head.table != self.identity {
                debug_assert!(false, "the expected head is another memtable's");
                return Install::Moved;
            }
            // SAFETY: a token of this memtable (checked) holds null or a node of its list.
            node = unsafe { Node::from_raw(head.node.cast::<NodeHead>().cast_mut()) };
            if node.is_some_and(|node| node.compare(&probe).is_ne()) {
                debug_assert!(false, "the expected head is another key's");
                return Install::Moved;
            }
        }
        let write = Write {
            intent,
            hash: hash(intent.key),
            owner,
            expected: expected.map(|head| head.version.cast::<VersionHead>().cast_mut()),
            guard,
        };
        if node.is_none() {
            // What it asks for arrives during the look into the index. Who had time has done it.
            self.approach(hint);
            node = self.indexed(intent.key, write.hash, &mut tally);
        }
        self.trend.note(write.hash, node.is_none());
        // An update as well: searches may have grown long where only updates follow. But loom would
        // explore that for each of them.
        if node.is_none() || !cfg!(loom) {
            self.list
                .renew(guard, owner.is_waited_for(), &self.counters);
        }
        let outcome = if let Some(node) = node {
            self.install_on(node, None, &write, &mut tally)
        } else {
            let mut gap = self.list.gap();
            let start = self.start(hint, &probe, &mut tally);
            match self
                .list
                .find_gap(&probe, start, &mut gap, guard, &mut tally)
            {
                Some(node) => {
                    self.help(node, write.hash);
                    self.install_on(node, None, &write, &mut tally)
                }
                None => self.insert(&mut gap, &write, &mut tally),
            }
        };
        tally.flush(&self.counters);
        outcome
    }

    #[inline]
    fn prefetch(&self, key: &[u8], guard: &Guard) -> Hint {
        if L::IS_INDEXED {
            self.index.prefetch(hash(key));
        }
        self.list.store().arena.prefetch();
        if !self.trend.is_inserting() {
            return Hint::NONE;
        }
        let mut tally = Tally::default();
        let start = self.list.prefetch(&self.probe(key), guard, &mut tally);
        start.map_or(Hint::NONE, |node| {
            let place = Place {
                table: self.identity,
                node: node.as_ptr().cast_const().cast(),
            };
            Hint(Near::From(place, tally.comparisons))
        })
    }

    #[inline]
    fn approach(&self, hint: Hint) {
        if let Some((start, _)) = self.near(hint) {
            self.list.approach(start);
        }
    }

    #[inline]
    fn prefetch_get(&self, key: &[u8]) {
        // In a model it finds nothing, by one more load to explore.
        if L::IS_INDEXED && !cfg!(any(loom, shuttle)) {
            self.index.prefetch(hash(key));
        }
    }

    fn newest_near<'g>(&'g self, key: &[u8], hint: Hint, guard: &'g Guard) -> Newest<'g> {
        let node = self
            .found(key, hint)
            .or_else(|| self.counted_lookup(key, guard));
        let newest = node.and_then(|node| newest_version(node, guard));
        if let Some(newest) = newest {
            // Most often its value is read next, and its first line is waited for first.
            newest.prefetch_value();
        }
        if let Some(newest) = newest
            && newest.record().is_undecided(guard)
        {
            return Newest::Busy(Undecided::new(newest.record(), guard));
        }
        let head = Head {
            table: self.identity,
            node: node.map_or(null_mut(), Node::as_ptr).cast_const().cast(),
            version: newest
                .map_or(null_mut(), VersionRef::as_ptr)
                .cast_const()
                .cast(),
            life: PhantomData,
        };
        let committed = newest.and_then(|newest| newest.first_not_aborted(guard));
        let version = committed.and_then(|version| {
            Some(Version {
                stamp: version.record().committed(guard)?,
                kind: version.record().kind(),
                value: version.value(),
            })
        });
        Newest::Decided(head, version)
    }

    fn undecided<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<Undecided<'g>> {
        let newest = newest_version(self.counted_lookup(key, guard)?, guard)?;
        newest
            .record()
            .is_undecided(guard)
            .then(|| Undecided::new(newest.record(), guard))
    }

    fn get<'g>(&'g self, key: &[u8], at: ReadAt, guard: &'g Guard) -> Option<Version<'g>> {
        let mut tally = Tally::default();
        let node = self.lookup(key, guard, &mut tally);
        let version = node.and_then(|node| self.visible(node, at, guard, &mut tally));
        tally.flush(&self.counters);
        version
    }

    fn prune(&self, key: &[u8], retention: &Retention, guard: &Guard) -> usize {
        let Some(node) = self.counted_lookup(key, guard) else {
            return 0;
        };
        let Some(_pass) = self.gate.enter() else {
            return 0;
        };
        let retired = prune::prune(node, retention, guard);
        let dropped = retired.len();
        if dropped != 0 {
            self.list.store().retire(retired, guard);
            self.counters.pruned.add(dropped as u64);
        }
        dropped
    }

    fn cursor(self: Arc<Self>, mode: CursorMode) -> Box<dyn Cursor> {
        Box::new(TableCursor::new(self, mode))
    }

    fn bytes(&self) -> usize {
        self.list.bytes() + self.index.bytes()
    }

    fn newest_chunk(&self) -> usize {
        self.list.store().arena.newest_chunk()
    }

    fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    fn nodes(&self) -> usize {
        usize::try_from(self.nodes.sum()).unwrap_or(usize::MAX)
    }
}
