//! A memtable of nodes as a cursor sees it: keys one after the other, forwards and backwards.
//!
//! Nodes are never freed before the memtable, so a place is a position that lasts (M4).

use super::index::hash;
use super::sorted::Sorted;
use super::{Chained, newest_version};
use crate::counters::{Counters, Tally};
use crate::cursor::Keys;
use crate::interface::{ReadAt, Version};
use velella_sync::{Guard, epoch};

impl<L: Sorted> Keys for Chained<L> {
    type Key = L::Place;

    /// Pruned versions are reused, so a value is valid under the pin only.
    const COPIES: bool = true;

    fn first(&self) -> Option<Self::Key> {
        self.list.first()
    }

    fn last(&self) -> Option<Self::Key> {
        self.list.last()
    }

    fn ceiling(&self, key: &[u8], tally: &mut Tally) -> Option<Self::Key> {
        if L::IS_PLACED
            && let Some(place) = self.indexed(key, hash(key), tally).and_then(L::place)
        {
            return Some(place);
        }
        self.list.ceiling(&self.probe(key), &epoch::pin(), tally)
    }

    fn after(&self, key: Self::Key, tally: &mut Tally) -> Option<Self::Key> {
        self.list.after(key, tally)
    }

    fn before(&self, end: Self::Key, run: &mut Vec<Self::Key>, turn: usize, tally: &mut Tally) {
        let probe = self.probe(L::node(end).key());
        self.list
            .before(end, &probe, turn, &epoch::pin(), tally, run);
        tally.gathered += run.len() as u64;
    }

    fn expect(&self, key: Self::Key) {
        L::node(key).prefetch_all();
    }

    fn lower(&self, key: &[u8], tally: &mut Tally) -> Option<Self::Key> {
        self.list.lower(&self.probe(key), &epoch::pin(), tally)
    }

    fn is_at(&self, key: Self::Key, bytes: &[u8]) -> bool {
        L::node(key).compare(&self.probe(bytes)).is_eq()
    }

    fn bytes_of(&self, key: Self::Key) -> &[u8] {
        L::node(key).key()
    }

    fn visible<'g>(
        &'g self,
        key: Self::Key,
        at: ReadAt,
        guard: &'g Guard,
        tally: &mut Tally,
    ) -> Option<Version<'g>> {
        Chained::visible(self, L::node(key), at, guard, tally)
    }

    fn is_undecided(&self, key: Self::Key, guard: &Guard) -> bool {
        let newest = newest_version(L::node(key), guard);
        newest.is_some_and(|newest| newest.record().is_undecided(guard))
    }

    fn committed(&self, key: Self::Key, guard: &Guard, mut show: impl FnMut(Version<'_>)) {
        let mut version = newest_version(L::node(key), guard);
        while let Some(current) = version {
            if let Some(stamp) = current.record().committed(guard) {
                show(Version {
                    stamp,
                    kind: current.record().kind(),
                    value: current.value(),
                });
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
