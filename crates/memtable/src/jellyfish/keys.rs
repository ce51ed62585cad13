//! The list as a cursor sees it: keys one after the other, forwards and backwards.
//!
//! Nodes are never freed before the memtable, so a node is a position that lasts (M4).

use super::{Jellyfish, newest_version};
use crate::counters::{Counters, Tally};
use crate::cursor::{Item, Keys};
use crate::interface::{ReadAt, Version};
use crate::jellyfish::list::Place;
use crate::jellyfish::node::Node;
use velella_sync::{Guard, epoch};

/// How many times a run of predecessors may quadruple: runs of 16, 64, then 256 nodes.
const RUN_LEVELS: std::ops::RangeInclusive<usize> = 1..=3;

impl Jellyfish {
    /// Node pointers for a cursor that keeps the memtable alive by itself.
    fn kept(node: Node<'_>) -> Node<'static> {
        // SAFETY: `TableCursor` holds an `Arc` of the memtable for as long as it holds nodes, and
        // hands them to this memtable only.
        unsafe { node.extend() }
    }
}

impl Keys for Jellyfish {
    type Key = Node<'static>;

    /// Pruned versions are reused, so a value is valid under the pin only.
    const COPIES: bool = true;

    fn first(&self) -> Option<Self::Key> {
        self.list.head().next().map(Self::kept)
    }

    fn last(&self) -> Option<Self::Key> {
        let last = self.list.last();
        (last != self.list.head()).then(|| Self::kept(last))
    }

    fn ceiling(&self, key: &[u8], tally: &mut Tally) -> Option<Self::Key> {
        if let Some(node) = self.indexed(key, tally) {
            return Some(Self::kept(node));
        }
        match self.list.find(&self.probe(key), &epoch::pin(), tally) {
            Place::Found(node) => Some(Self::kept(node)),
            Place::Between(_, after) => after.map(Self::kept),
        }
    }

    fn after(&self, key: Self::Key, _tally: &mut Tally) -> Option<Self::Key> {
        let next = key.next();
        if let Some(next) = next {
            next.prefetch();
        }
        next
    }

    fn before(&self, end: Self::Key, run: &mut Vec<Self::Key>, turn: usize, tally: &mut Tally) {
        let level = (RUN_LEVELS.start() + turn).min(*RUN_LEVELS.end());
        let probe = self.probe(end.key());
        self.list
            .gather(end, &probe, level, &epoch::pin(), tally, |node| {
                run.push(Self::kept(node))
            });
        tally.gathered += run.len() as u64;
    }

    fn expect(&self, key: Self::Key) {
        key.prefetch_all();
    }

    fn lower(&self, key: &[u8], tally: &mut Tally) -> Option<Self::Key> {
        let below = self.list.lower(&self.probe(key), &epoch::pin(), tally);
        (below != self.list.head()).then(|| Self::kept(below))
    }

    fn is_at(&self, key: Self::Key, bytes: &[u8]) -> bool {
        key.compare(&self.probe(bytes)).is_eq()
    }

    fn bytes_of(&self, key: Self::Key) -> &[u8] {
        key.key()
    }

    fn visible<'g>(
        &'g self,
        key: Self::Key,
        at: ReadAt,
        guard: &'g Guard,
        tally: &mut Tally,
    ) -> Option<Version<'g>> {
        Jellyfish::visible(self, key, at, guard, tally)
    }

    fn committed(&self, key: Self::Key, guard: &Guard, items: &mut Vec<Item>) {
        let mut version = newest_version(key, guard);
        while let Some(current) = version {
            if let Some(stamp) = current.record().committed(guard) {
                items.push(Item::new(stamp, current.record().kind(), current.value()));
            }
            version = current.next();
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn hold(&self) {
        self.gate.hold();
    }

    fn release(&self) {
        self.gate.release();
    }
}
