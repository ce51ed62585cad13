//! What keeps the keys of a memtable in order, as the write protocol sees it.
//!
//! Y1. A node that was linked is found by every search that begins afterwards, for as long as the
//!     structure lives; at most one node is ever linked for a key.
//! Y2. From a place one comes to all nodes that were linked before the place was given out, in
//!     order, each once; later ones may be missed.
//!
//! Threads: any; lock-free. Tests: the contract suite.

use crate::chains::node::Node;
use crate::chains::store::Store;
use crate::counters::{Counters, Tally};
use crate::guards::GuardOptions;
use crate::probe::Probe;
use crate::spare::Supply;
use std::fmt::Debug;
use std::sync::Arc;
use velella_base::Order;
use velella_sync::Guard;

/// A sorted set of nodes that only grows.
pub(crate) trait Sorted: Debug + Send + Sync + Sized + 'static {
    /// Where a key stands, for a cursor that keeps the memtable alive by itself.
    type Place: Copy + Send;
    /// What a search learned of the neighbourhood of a key that is not there.
    type Gap<'l>;

    /// Whether a hash index beside it finds single keys.
    const IS_INDEXED: bool;
    /// Whether `place` tells the places of nodes.
    const IS_PLACED: bool;

    /// No nodes yet.
    fn new(order: &Order, guards: GuardOptions, supply: &Supply) -> Self;
    /// Where nodes and versions lie.
    fn store(&self) -> &Arc<Store>;
    /// Bytes taken from the system.
    fn bytes(&self) -> usize;
    /// Whether no node was ever linked.
    fn is_empty(&self) -> bool;

    /// Asks for the memory that a search for the key's place reads first; a node not above the key
    /// at which that may begin, if it came by one.
    fn prefetch<'l>(
        &'l self,
        probe: &Probe<'_>,
        guard: &Guard,
        tally: &mut Tally,
    ) -> Option<Node<'l>>;
    /// Asks for what a search from `start`, which `prefetch` gave, reads next: some time after it.
    fn approach(&self, _start: Node<'_>) {}
    /// Work that is due from time to time, done by a writer before it installs its key. One that
    /// others may be waiting for, since it has installed others, leaves what takes long.
    fn renew(&self, guard: &Guard, waited_for: bool, counters: &Counters);
    /// The key's node, if there is one.
    fn find<'l>(&'l self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Option<Node<'l>>;
    /// Nothing searched yet.
    fn gap<'l>(&'l self) -> Self::Gap<'l>;
    /// As [`Sorted::find`], from `start` if `prefetch` gave that; where there is none, `gap` then
    /// says where it belongs.
    fn find_gap<'l>(
        &'l self,
        probe: &Probe<'_>,
        start: Option<Node<'l>>,
        gap: &mut Self::Gap<'l>,
        guard: &Guard,
        tally: &mut Tally,
    ) -> Option<Node<'l>>;
    /// Links `node`, whose head is set, unless the key has a node by now: that is then the error.
    fn link<'l>(
        &'l self,
        node: Node<'l>,
        probe: &Probe<'_>,
        gap: &mut Self::Gap<'l>,
        tally: &mut Tally,
    ) -> Result<(), Node<'l>>;
    /// Makes the way to the node that was linked shorter.
    fn raise<'l>(
        &'l self,
        node: Node<'l>,
        probe: &Probe<'_>,
        gap: &mut Self::Gap<'l>,
        guard: &Guard,
        tally: &mut Tally,
    );

    /// The node at a place.
    fn node(place: Self::Place) -> Node<'static>;
    /// The place of a node that was found otherwise, if that is easily told (`IS_PLACED`).
    fn place(node: Node<'_>) -> Option<Self::Place>;
    /// The first place.
    fn first(&self) -> Option<Self::Place>;
    /// The last place.
    fn last(&self) -> Option<Self::Place>;
    /// The first place at or above the key.
    fn ceiling(&self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Option<Self::Place>;
    /// The last place below the key.
    fn lower(&self, probe: &Probe<'_>, guard: &Guard, tally: &mut Tally) -> Option<Self::Place>;
    /// The next place.
    fn after(&self, place: Self::Place, tally: &mut Tally) -> Option<Self::Place>;
    /// Some of the places directly before `end`, whose key `probe` is, ascending, at least one if
    /// there is one; more of them with each `turn`.
    fn before(
        &self,
        end: Self::Place,
        probe: &Probe<'_>,
        turn: usize,
        guard: &Guard,
        tally: &mut Tally,
        run: &mut Vec<Self::Place>,
    );
}
