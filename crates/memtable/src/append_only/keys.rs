//! The list as a cursor sees it: groups of entries of one key.
//!
//! A key is represented by the newest of its entries at the time the cursor came by.

use super::AppendOnly;
use super::entry::Entry;
use super::list::Goal;
use crate::counters::{Counters, Tally};
use crate::cursor::Keys;
use crate::interface::{ReadAt, Version};
use velella_sync::Guard;

impl AppendOnly {
    /// Entries for a cursor that keeps the memtable alive by itself.
    fn kept(entry: Entry<'_>) -> Entry<'static> {
        // SAFETY: `TableCursor` holds an `Arc` of the memtable for as long as it holds entries,
        // and hands them to this memtable only.
        unsafe { entry.extend() }
    }

    /// The newest entry of the key of `entry`.
    fn group(&self, entry: Entry<'_>, tally: &mut Tally) -> Option<Entry<'static>> {
        if entry == self.list.head() {
            return None;
        }
        let probe = self.probe(entry.key());
        let (_, first) = self.list.find(&probe, Goal::Newest, tally);
        first.map(Self::kept)
    }
}

impl Keys for AppendOnly {
    type Key = Entry<'static>;

    /// Nothing is ever reused.
    const COPIES: bool = false;

    fn first(&self) -> Option<Self::Key> {
        self.list.head().next().map(Self::kept)
    }

    fn last(&self) -> Option<Self::Key> {
        self.group(self.list.last(), &mut Tally::default())
    }

    fn ceiling(&self, key: &[u8], tally: &mut Tally) -> Option<Self::Key> {
        let (_, at) = self.list.find(&self.probe(key), Goal::Newest, tally);
        at.map(Self::kept)
    }

    fn expect(&self, _key: Self::Key) {}

    fn lower(&self, key: &[u8], tally: &mut Tally) -> Option<Self::Key> {
        let (before, _) = self.list.find(&self.probe(key), Goal::Newest, tally);
        self.group(before, tally)
    }

    fn after(&self, key: Self::Key, tally: &mut Tally) -> Option<Self::Key> {
        let probe = self.probe(key.key());
        let mut entry = key.next();
        let mut steps = 0;
        while let Some(candidate) = entry {
            tally.comparisons += 1;
            if candidate.compare(&probe).is_ne() {
                break;
            }
            tally.skipped += 1;
            steps += 1;
            if Some(steps) == self.reseek_after {
                return self.list.find(&probe, Goal::After, tally).1.map(Self::kept);
            }
            entry = candidate.next();
        }
        entry
    }

    fn before(&self, end: Self::Key, run: &mut Vec<Self::Key>, _turn: usize, tally: &mut Tally) {
        run.extend(self.lower(end.key(), tally));
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
        let probe = self.probe(key.key());
        AppendOnly::visible(self, Some(key), &probe, at, guard, tally)
    }

    fn is_undecided(&self, key: Self::Key, guard: &Guard) -> bool {
        key.record().is_undecided(guard)
    }

    fn committed(&self, key: Self::Key, guard: &Guard, mut show: impl FnMut(Version<'_>)) {
        let probe = self.probe(key.key());
        let mut entry = Some(key);
        while let Some(current) = entry.filter(|entry| entry.compare(&probe).is_eq()) {
            if let Some(stamp) = current.record().committed(guard) {
                show(Version {
                    stamp,
                    kind: current.record().kind(),
                    value: current.value(),
                });
            }
            entry = current.next();
        }
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn hold(&self) {}

    fn release(&self) {}
}
