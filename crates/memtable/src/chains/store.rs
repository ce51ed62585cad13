//! The memory of nodes and versions, fresh and reused.
//!
//! L2 and L3 of `version` are kept here: a version is reused when nobody can be looking at it.
//!
//! O1. What was deferred keeps no memory from a memtable that is gone: a thread that defers seldom
//!     holds on to what it deferred for ever.
//! O2. Large versions are handed to all threads at once, so that they are reused before the
//!     memtable is full of their like.
//!
//! Threads: any. Tests: the contract suite; `overwrites_stay_bounded` in `tests/pruning.rs`;
//! `what_a_quiet_thread_pruned_keeps_no_memory`.

use crate::arena::Arena;
use crate::chains::node::node_bytes;
use crate::chains::version::{Recycler, Retired, version_bytes};
use crate::ordering::{Site, is_sound};
use crate::spare::Supply;
use std::ptr::NonNull;
use std::sync::Arc;
use velella_sync::Guard;

/// Retired versions of so many bytes together do not wait for the thread to retire more (O2).
const LARGE: usize = 64 << 10;

/// Arena and free lists.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) arena: Arena,
    pub(crate) recycler: Recycler,
}

impl Store {
    /// No memory taken yet.
    pub(crate) fn new(supply: &Supply) -> Self {
        Store {
            arena: Arena::new(supply.clone()),
            recycler: Recycler::new(),
        }
    }

    /// Memory for a node and its first version, side by side; neither is written.
    pub(crate) fn allocate(&self, key: &[u8], len: u32) -> (NonNull<u8>, NonNull<u8>) {
        let node = node_bytes(key.len());
        let block = self.arena.alloc(node + version_bytes(len));
        // SAFETY: the block is larger than a node.
        (block, unsafe { block.add(node) })
    }

    /// Gives `retired` versions back when every thread that is pinned now has unpinned.
    pub(crate) fn retire(self: &Arc<Self>, retired: Vec<Retired>, guard: &Guard) {
        if !is_sound(Site::Retire) {
            for version in retired {
                // SAFETY: none: this is what the model's control spoils.
                unsafe { self.recycler.give(version) };
            }
            return;
        }
        let bytes: usize = retired.iter().map(Retired::bytes).sum();
        // With the store's word three, which the collector keeps in place; a vector would make
        // them four, and those it puts in a box.
        let retired = retired.into_boxed_slice();
        let store = Arc::downgrade(self);
        guard.defer(move || {
            // O1. Without it there is nobody to give them to.
            let Some(store) = store.upgrade() else {
                return;
            };
            for version in retired {
                // SAFETY: this runs after every thread pinned at the time has unpinned.
                unsafe { store.recycler.give(version) };
            }
        });
        if bytes >= LARGE {
            guard.flush();
        }
    }
}
