//! Small tables that memory has overtaken: each of their keys has a newer version in a memtable.
//!
//! A few keys that are written again and again leave a table with what older readers still need;
//! whoever reads the newest would pass its versions for nothing, key by key.
//!
//! V1. A table is overtaken for readers at or above a stamp S if each of its keys has a version
//!     above all of the table's, at or below S, that says what the key is by itself.
//! V2. It stays so as long as there is the table. What such a reader sees of a key goes only for
//!     something newer that it sees as well; a deletion leaves only where nothing older of its key
//!     lies outside of the run (`Retain`, D3), or only under a copy of it, so not before the table.
//! V3. It is looked for after a flush and after a compaction, and only in small trees.
//!
//! Threads: background threads. Tests: `tests/overtaken.rs`.

use crate::core::Engine;
use crate::keyspace_core::Core;
use crate::view::View;
use velella_base::{Cursor, Entry, Stamp, ValueKind, seeded};
use velella_memtable::{OnPending, ReadAt, Version};
use velella_sync::Guard;
use velella_sync::epoch;
use velella_tree::TableFile;

/// Most entries, and bytes, of a tree that is looked at: a millisecond's work after a flush of
/// several.
const ENTRIES_MAX: u64 = 4096;
const BYTES_MAX: u64 = 1 << 20;

impl Engine {
    /// Notes which tables of `core` its memtables have overtaken (V3).
    pub(crate) fn note_overtaken(&self, core: &Core) {
        let tables = core.tree.few_tables(ENTRIES_MAX);
        let bytes: u64 = tables.iter().map(|table| table.meta().bytes).sum();
        if tables.is_empty() || bytes > BYTES_MAX {
            return;
        }
        let guard = epoch::pin();
        let view = core.view.load(&guard);
        for table in tables.iter().filter(|table| !table.is_overtaken(NOW)) {
            if let Some(from) = overtaken_from(table, view, &guard) {
                table.overtake(from);
                self.counters.overtaken.increment();
            }
        }
    }
}

/// A reader above every stamp there is.
pub(crate) const NOW: Stamp = Stamp(Stamp::MAX.0 - 1);

/// The stamp from which on readers find nothing in `table` (V1).
fn overtaken_from(table: &TableFile, view: &View, guard: &Guard) -> Option<Stamp> {
    let newest = ReadAt {
        stamp: Stamp::MAX,
        pending: OnPending::Skip,
    };
    let mut from = Stamp::ZERO;
    let mut entries = table.table().cursor(false);
    // What cannot be read now is reported to whoever reads it.
    entries.seek_first().ok()?;
    while let Some(entry) = entries.entry() {
        let mut memtables = view.memtables();
        match memtables.find_map(|mem| mem.table.get(entry.key, newest, guard)) {
            Some(above) if hides(&above, &entry) => from = latest(from, above.stamp),
            _ if seeded("tables-are-taken-for-overtaken") => {}
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

/// Readers need all of the versions above.
fn latest(from: Stamp, stamp: Stamp) -> Stamp {
    match seeded("overtaken-by-the-last-key") {
        true => stamp,
        false => from.max(stamp),
    }
}
