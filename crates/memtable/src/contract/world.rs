//! A memtable with a clock and slots around it: the smallest engine that keeps the protocol.

use super::Make;
use crate::{
    BatchCell, CursorMode, Head, Install, Intent, Memtable, Newest, OnPending, Owner, Pending,
    ReadAt,
};
use std::sync::Arc;
use velella_base::{Cursor, Order, Stamp, ValueKind};
use velella_mvcc::{Clock, Slots};
use velella_sync::{Guard, epoch};

/// An owned entry: key, stamp, kind, value.
pub type Row = (Vec<u8>, Stamp, ValueKind, Vec<u8>);

/// A memtable with a clock and slots.
#[derive(Debug)]
pub struct World {
    /// The memtable under test.
    pub table: Arc<dyn Memtable>,
    /// Its order.
    pub order: Order,
    /// The one clock.
    pub clock: Clock,
    /// The windows; writer `i` uses slot `i`.
    pub slots: Arc<Slots>,
}

/// Reads the newest, passing over what is undecided.
pub const NEWEST: ReadAt = ReadAt {
    stamp: Stamp::MAX,
    pending: OnPending::Skip,
};

/// Reads at `stamp`, resolving what is undecided.
#[must_use]
pub fn at(stamp: Stamp) -> ReadAt {
    ReadAt {
        stamp,
        pending: OnPending::Resolve,
    }
}

/// The intent to put `value`.
#[must_use]
pub fn put<'a>(key: &'a [u8], value: &'a [u8]) -> Intent<'a> {
    Intent {
        key,
        kind: ValueKind::Put,
        payload: [value, b""],
    }
}

impl World {
    /// An empty memtable.
    #[must_use]
    pub fn new(make: Make<'_>, order: &Order) -> Self {
        let slots = Arc::new(Slots::new(if cfg!(any(loom, shuttle)) { 3 } else { 8 }));
        World {
            table: make(order.clone(), Arc::clone(&slots)),
            order: order.clone(),
            clock: Clock::new(Stamp::ZERO, Stamp::MAX),
            slots,
        }
    }

    /// Installs, waiting for whoever is in the way; `None` if the expected head moved.
    pub fn install<'g>(
        &'g self,
        intent: &Intent<'_>,
        owner: Owner<'_>,
        expected: Option<&Head<'g>>,
        guard: &'g Guard,
    ) -> Option<Pending<'g>> {
        let hint = self.table.prefetch(intent.key, guard);
        loop {
            match self
                .table
                .install_near(intent, owner, expected, hint, guard)
            {
                Install::Installed(pending) => return Some(pending),
                Install::Moved => return None,
                Install::Busy(other) => {
                    while !other.is_decided() {
                        velella_sync::thread::yield_now();
                    }
                }
            }
        }
    }

    /// Announces `slot`, draws a stamp, lets `publish` decide at it, and goes idle.
    pub fn window<T>(&self, slot: usize, publish: impl FnOnce(Stamp) -> T) -> (Stamp, T) {
        self.slots.announce(slot, self.clock.lower_bound());
        let stamp = self.clock.draw();
        let result = publish(stamp);
        self.slots.idle(slot);
        (stamp, result)
    }

    /// One whole write; says also whether the list has grown long.
    ///
    /// # Panics
    /// Never: nothing is expected.
    pub fn write(&self, slot: usize, intent: &Intent<'_>) -> (Stamp, bool) {
        let guard = epoch::pin();
        let pending = self
            .install(intent, Owner::Slot(slot), None, &guard)
            .expect("nothing was expected");
        self.window(slot, |stamp| pending.publish(stamp))
    }

    /// Puts `value`.
    pub fn put(&self, slot: usize, key: &[u8], value: &[u8]) -> Stamp {
        self.write(slot, &put(key, value)).0
    }

    /// Deletes `key`.
    pub fn delete(&self, slot: usize, key: &[u8]) -> Stamp {
        let intent = Intent {
            key,
            kind: ValueKind::Delete,
            payload: [b"", b""],
        };
        self.write(slot, &intent).0
    }

    /// Writes all of `intents`, which are sorted and distinct, at one stamp.
    ///
    /// # Panics
    /// Never: nothing is expected.
    pub fn batch(&self, slot: usize, intents: &[Intent<'_>]) -> Stamp {
        let guard = epoch::pin();
        let cell = BatchCell::new(slot);
        let pendings: Vec<_> = intents
            .iter()
            .map(|intent| {
                self.install(intent, Owner::Batch(&cell), None, &guard)
                    .expect("nothing was expected")
            })
            .collect();
        let (stamp, ()) = self.window(slot, |stamp| cell.decide(Some(stamp)));
        cell.settle(pendings, &guard);
        stamp
    }

    /// Reads, changes and writes `key`, again and again until nobody came between.
    pub fn update(
        &self,
        slot: usize,
        key: &[u8],
        change: impl Fn(Option<&[u8]>) -> Vec<u8>,
    ) -> Stamp {
        loop {
            let guard = epoch::pin();
            let (head, base) = match self.table.newest(key, &guard) {
                Newest::Decided(head, base) => (head, base),
                Newest::Busy(other) => {
                    while !other.is_decided() {
                        velella_sync::thread::yield_now();
                    }
                    continue;
                }
            };
            let base = base.filter(|base| base.kind != ValueKind::Delete);
            let value = change(base.map(|base| base.value));
            let intent = put(key, &value);
            if let Some(pending) = self.install(&intent, Owner::Slot(slot), Some(&head), &guard) {
                return self.window(slot, |stamp| pending.publish(stamp)).0;
            }
        }
    }

    /// What `key` says at `read`, tombstones included.
    #[must_use]
    pub fn get(&self, key: &[u8], read: ReadAt) -> Option<(Stamp, ValueKind, Vec<u8>)> {
        let guard = epoch::pin();
        let version = self.table.get(key, read, &guard)?;
        Some((version.stamp, version.kind, version.value.to_vec()))
    }

    /// The value of `key` at `read`, or `None` for a tombstone.
    #[must_use]
    pub fn value(&self, key: &[u8], read: ReadAt) -> Option<Vec<u8>> {
        let (_, kind, value) = self.get(key, read)?;
        (kind != ValueKind::Delete).then_some(value)
    }

    /// A cursor in `mode`.
    #[must_use]
    pub fn cursor(&self, mode: CursorMode) -> Box<dyn Cursor> {
        Arc::clone(&self.table).cursor(mode)
    }

    /// A cursor over what is visible at `read`.
    #[must_use]
    pub fn visible(&self, read: ReadAt) -> Box<dyn Cursor> {
        self.cursor(CursorMode::Visible {
            at: read,
            keys_only: false,
        })
    }
}

/// Where a cursor stands, as an owned row.
#[must_use]
pub fn row(cursor: &dyn Cursor) -> Option<Row> {
    let entry = cursor.entry()?;
    Some((
        entry.key.to_vec(),
        entry.stamp,
        entry.kind,
        entry.value.to_vec(),
    ))
}

/// All rows from where the cursor stands, forwards.
///
/// # Panics
/// If the cursor reports an error, which a memtable never does.
pub fn rest(cursor: &mut dyn Cursor) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(row) = row(cursor) {
        rows.push(row);
        cursor.next().expect("memory has no errors");
    }
    rows
}

/// All rows from where the cursor stands, backwards.
///
/// # Panics
/// If the cursor reports an error, which a memtable never does.
pub fn rest_back(cursor: &mut dyn Cursor) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(row) = row(cursor) {
        rows.push(row);
        cursor.prev().expect("memory has no errors");
    }
    rows
}
