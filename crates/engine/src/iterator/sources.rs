//! Where an iterator reads: the memtables and files of a keyspace, merged.
//!
//! Threads: one, as the iterator. Tests: `tests/iterators.rs`.

use super::options::IterOptions;
use crate::keyspace_core::Core;
use crate::read::Reader;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use velella_base::seeded;
use velella_memtable::CursorMode;
use velella_sync::epoch;
use velella_tree::{MergeCursor, Source};

/// Sources for which room is made at once: a memtable, a table of level 0, a level. More are rare,
/// and room for many costs every short scan an allocation that is not quick.
const SOURCES: usize = 3;

/// All versions of a keyspace that a snapshot may see, newest source first.
pub(super) type Merged = MergeCursor<Source>;

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
    let mut cursors: Vec<Source> = Vec::with_capacity(SOURCES);
    let tree_first = seeded("an-iterator-takes-the-tree-first");
    if tree_first {
        core.tree
            .sources(options.fill_cache, at.stamp, &mut cursors);
        velella_sync::thread::yield_now();
    }
    let view = core.view.load(&guard);
    // An old view finds everything in the tree: what memtables hold was written later.
    let is_flushed = snapshot.stamp() < core.flushed_below();
    if !is_flushed {
        let memtables = view.memtables().filter(|mem| !mem.table.is_empty());
        cursors.extend(memtables.map(|mem| Source::Other(Arc::clone(&mem.table).cursor(mode))));
    }
    velella_sync::spot(23);
    // The tree after the view: data moves that way.
    if !tree_first {
        core.tree
            .sources(options.fill_cache, at.stamp, &mut cursors);
    }
    (MergeCursor::new(cursors, core.order.clone()), generation)
}
