//! Where an iterator reads: the memtables and files of a keyspace, merged.
//!
//! Threads: one, as the iterator. Tests: `tests/iterators.rs`.

use super::options::IterOptions;
use crate::core::Engine;
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

/// All versions of a keyspace that a snapshot may see.
pub(super) struct Sources {
    /// Newest source first.
    pub(super) merged: MergeCursor<Source>,
    /// That of the keyspace, read before its memtables and files.
    pub(super) generation: (u64, u64),
    /// Those of tables are what any other reader needs.
    are_whole: bool,
}

impl Sources {
    /// The memtables and files as they stand now.
    pub(super) fn take(core: &Core, options: &IterOptions, snapshot: &Snapshot) -> Self {
        let generation = core.generation();
        let at = Reader::snapshot(snapshot.stamp(), snapshot.now_ms()).at;
        let guard = epoch::pin();
        let tree_first = seeded("an-iterator-takes-the-tree-first");
        let early = tree_first.then(|| runs(core, options, snapshot));
        if tree_first {
            velella_sync::thread::yield_now();
        }
        let view = core.view.load(&guard);
        // An old view finds everything in the tree: what memtables hold was written later.
        let is_flushed = snapshot.stamp() < core.flushed_below();
        velella_sync::spot(23);
        // The tree after the view, and after what is said to be in it: data moves that way.
        let (mut sources, are_whole) = early.unwrap_or_else(|| runs(core, options, snapshot));
        if !is_flushed {
            let mode = CursorMode::Visible {
                at,
                keys_only: options.keys_only,
            };
            let memtables = view.memtables().filter(|mem| !mem.table.is_empty());
            for (place, mem) in memtables.enumerate() {
                sources.insert(place, Source::Other(Arc::clone(&mem.table).cursor(mode)));
            }
        }
        Sources {
            merged: MergeCursor::new(sources, core.order.clone()),
            generation,
            are_whole,
        }
    }

    /// Makes them another generation's than any keyspace's: they are to be taken anew.
    pub(super) fn disown(&mut self) {
        self.generation = (u64::MAX, u64::MAX);
    }

    /// Leaves those of tables to the next iterator, if they may be of use to it: none of them is to
    /// be used afterwards.
    pub(super) fn leave(&mut self, engine: &Engine, core: &Core) {
        if self.are_whole {
            let mut sources = self.merged.take_sources();
            sources.retain(|source| matches!(source, Source::Run(_)));
            engine.resting.leave(core, self.generation.1, sources);
        }
    }
}

/// Cursors over the tables: left by another iterator, or new ones; and whether they are what any
/// reader needs.
fn runs(core: &Core, options: &IterOptions, snapshot: &Snapshot) -> (Vec<Source>, bool) {
    let (at, fill_cache) = (snapshot.stamp(), options.fill_cache);
    let rested = fill_cache.then(|| snapshot.engine().resting.take(core, at));
    if let Some(runs) = rested.flatten() {
        return (runs, true);
    }
    let mut runs = Vec::with_capacity(SOURCES);
    let are_whole = core.tree.sources(fill_cache, at, &mut runs);
    (runs, are_whole && fill_cache)
}
