//! The paper's memtable: a skip list of distinct keys, each with its own list of versions.
//!
//! Source: JellyFish (Middleware '20) 3, with S3's (VLDB '19) guards over the list.
//!
//! Threads: all methods from any thread. Tests: `tests.rs` beside; `tests/loom.rs`.

pub(crate) mod tower;
mod directory;
mod chooser;
mod draft;
mod guides;
pub(crate) mod list;
mod runs;

use crate::chains::Chained;
use crate::chains::node::Node;
use crate::chains::sorted::Sorted;
use crate::chains::store::Store;
use crate::counters::{Counters, Tally};
use crate::guards::GuardOptions;
use crate::heights::random_height;
use crate::probe::Probe;
use crate::spare::Supply;
use list::{List, Place, Splice};
use std::sync::Arc;
use tower::LEVELS;
use velella_base::Order;
use velella_sync::Guard;

/// The JellyFish memtable.
pub(crate) type Jellyfish = Chained<List>;

/// How many times a run of predecessors may quadruple: runs of 16, 64, then 256 nodes.
const RUN_LEVELS: std::ops::RangeInclusive<usize> = 1..=3;

/// Node pointers for a cursor that keeps the memtable alive by itself.
fn kept(node: Node<'_>) -> Node<'static> {
    // SAFETY: `TableCursor` holds an `Arc` of the memtable for as long as it holds nodes, and
    // hands them to this memtable only.
    unsafe { node.extend() }
}

impl Sorted for List {
    type Place = Node<'static>;
    type Gap<'l> = (Node<'l>, Option<Node<'l>>, Splice<'l>);

    const IS_INDEXED: bool = true;
    const IS_PLACED: bool = true;

    fn new(_order: &Order, guards: GuardOptions, supply: &Supply) -> Self {
        List::new(guards, supply)
    }

    fn store(&self) -> &Arc<Store> {
        &self.store
    }

    fn bytes(&self) -> usize {
        List::bytes(self)
    }

    fn is_empty(&self) -> bool {
        self.head().next().is_none()
    }

    #[inline]
    fn prefetch<'l>(
        &'l self,
        probe: &Probe<'_>,
        guard: &Guard,
        _tally: &mut Tally,
    ) -> Option<Node<'l>> {
        List::prefetch(self, probe, guard);
        None
    }

    #[inline]
    fn renew(&self, guard: &Guard, waited_for: bool, counters: &Counters) {
        if self.is_renewal_due() && self.renew_guides(guard, waited_for) {
            counters.directories.increment();
        }
    }

    #[inline]
    fn find<'l>(&'l self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Option<Node<'l>> {
        match List::find(self, probe, guard, tally) {
            Place::Found(node) => Some(node),
            Place::Between(..) => None,
        }
    }

    #[inline]
    fn gap<'l>(&'l self) -> Self::Gap<'l> {
        (self.head(), None, Splice::new())
    }

    #[inline]
    fn find_gap<'l>(
        &'l self,
        probe: &Probe<'_>,
        _start: Option<Node<'l>>,
        gap: &mut Self::Gap<'l>,
        guard: &Guard,
        tally: &mut Tally,
    ) -> Option<Node<'l>> {
        match self.find_splice(probe, &mut gap.2, guard, tally) {
            Place::Found(node) => Some(node),
            Place::Between(before, after) => {
                (gap.0, gap.1) = (before, after);
                None
            }
        }
    }

    #[inline]
    fn link<'l>(
        &'l self,
        node: Node<'l>,
        probe: &Probe<'_>,
        gap: &mut Self::Gap<'l>,
        tally: &mut Tally,
    ) -> Result<(), Node<'l>> {
        List::link(self, node, probe, (gap.0, gap.1), tally)
    }

    #[inline]
    fn raise<'l>(
        &'l self,
        node: Node<'l>,
        probe: &Probe<'_>,
        gap: &mut Self::Gap<'l>,
        _guard: &Guard,
        tally: &mut Tally,
    ) {
        List::raise(self, node, probe, &mut gap.2, random_height(LEVELS), tally);
    }

    fn node(place: Self::Place) -> Node<'static> {
        place
    }

    fn place(node: Node<'_>) -> Option<Self::Place> {
        Some(kept(node))
    }

    fn first(&self) -> Option<Self::Place> {
        self.head().next().map(kept)
    }

    fn last(&self) -> Option<Self::Place> {
        let last = List::last(self);
        (last != self.head()).then(|| kept(last))
    }

    fn ceiling(&self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Option<Self::Place> {
        match List::find(self, probe, guard, tally) {
            Place::Found(node) => Some(kept(node)),
            Place::Between(_, after) => after.map(kept),
        }
    }

    fn lower(&self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Option<Self::Place> {
        let below = List::lower(self, probe, guard, tally);
        (below != self.head()).then(|| kept(below))
    }

    #[inline]
    fn after(&self, place: Self::Place, _tally: &mut Tally) -> Option<Self::Place> {
        let next = place.next();
        if let Some(next) = next {
            next.prefetch();
        }
        next
    }

    fn before(
        &self,
        end: Self::Place,
        probe: &Probe<'_>,
        turn: usize,
        guard: &Guard,
        tally: &mut Tally,
        run: &mut Vec<Self::Place>,
    ) {
        let level = (RUN_LEVELS.start() + turn).min(*RUN_LEVELS.end());
        self.gather(end, probe, level, guard, tally, |node| run.push(kept(node)));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
