//! Small tables in the shadow of memtables: each of their keys has a newer version in memory.
//!
//! A few keys that are written again and again leave a table with what older readers still need;
//! whoever reads the newest would pass its versions for nothing, key by key.
//!
//! H1. A table is in the shadow for readers at or above a stamp S if each of its keys has a version
//!     above all of the table's, at or below S, that says what the key is by itself. It stays so:
//!     a version that such a reader sees goes only for a newer one that it sees as well, and data
//!     moves from memory to tables above this one.
//! H2. It is looked for after a flush and after a compaction, and only in trees of few entries.
//!
//! Threads: background threads. Tests: `tests/shadow.rs`.

use crate::core::Engine;
use crate::keyspace_core::Core;
use crate::view::View;
use velella_base::{Cursor, Entry, Stamp, ValueKind, seeded};
use velella_memtable::{OnPending, ReadAt, Version};
use velella_sync::Guard;
use velella_sync::epoch;
use velella_tree::TableFile;

/// Most entries of a tree that is looked at: a millisecond's work after a flush of several.
const ENTRIES_MAX: u64 = 4096;

impl Engine {
    /// Marks the tables of `core` that are in the shadow of its memtables (H2).
    pub(crate) fn note_shadows(&self, core: &Core) {
        let tables = core.tree.few_tables(ENTRIES_MAX);
        if tables.is_empty() {
            return;
        }
        let guard = epoch::pin();
        let view = core.view.load(&guard);
        for table in tables {
            if let Some(from) = shadowed_from(&table, view, &guard) {
                table.shadow(from);
                self.counters.shadows.increment();
            }
        }
    }
}

/// The stamp from which on readers find nothing in `table` (H1).
fn shadowed_from(table: &TableFile, view: &View, guard: &Guard) -> Option<Stamp> {
    let newest = ReadAt {
        stamp: Stamp::MAX,
        pending: OnPending::Skip,
    };
    let mut from = Stamp::ZERO;
    let mut entries = table.table().cursor(true);
    // What cannot be read now is reported to whoever reads it.
    entries.seek_first().ok()?;
    while let Some(entry) = entries.entry() {
        let mut memtables = view.memtables();
        match memtables.find_map(|mem| mem.table.get(entry.key, newest, guard)) {
            Some(above) if hides(&above, &entry) => from = from.max(above.stamp),
            _ if seeded("a-shadow-is-taken-for-granted") => {}
            _ => return None,
        }
        entries.next().ok()?;
    }
    Some(from)
}

/// Whether no reader that sees `above` needs `entry`.
fn hides(above: &Version<'_>, entry: &Entry<'_>) -> bool {
    let by_itself = !matches!(above.kind, ValueKind::Merge | ValueKind::RangeDelete);
    by_itself && above.stamp > entry.stamp && entry.kind != ValueKind::RangeDelete
}
