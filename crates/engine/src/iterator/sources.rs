//! Where an iterator reads: the memtables and files of a keyspace, merged.
//!
//! Threads: one, as the iterator. Tests: `tests/iterators.rs`.

use super::options::IterOptions;
use crate::keyspace_core::Core;
use crate::read::Reader;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use velella_base::Cursor;
use velella_memtable::CursorMode;
use velella_sync::epoch;
use velella_tree::cursor::MergeCursor;

/// All versions of a keyspace that a snapshot may see, newest source first.
pub(super) type Merged = MergeCursor<Box<dyn Cursor>>;

/// The memtables and files as they stand now, merged; and their generation, read before them.
pub(super) fn sources(
    core: &Core,
    options: &IterOptions,
    snapshot: &Snapshot,
) -> (Merged, (u64, u64)) {
    let generation = core.generation();
    let at = Reader::snapshot(snapshot.stamp(), snapshot.now_ms()).at;
    let mode = CursorMode::Visible {
        at,
        keys_only: options.keys_only,
    };
    let guard = epoch::pin();
    let view = core.view.load(&guard);
    let mut cursors: Vec<Box<dyn Cursor>> = view
        .memtables()
        .filter(|mem| !mem.table.is_empty())
        .map(|mem| Arc::clone(&mem.table).cursor(mode))
        .collect();
    // The tree after the view: data moves that way.
    cursors.push(core.tree.cursor(options.fill_cache));
    (MergeCursor::new(cursors, core.order.clone()), generation)
}
