//! Replacing the memtables that take the writes, without stopping a writer.
//!
//! Source: cLSM's `beforeMerge` (EuroSys '15) 3.1 without its exclusive lock: a split stamp W is
//! drawn after the new views are published; a write belongs to the side its stamp says.
//!
//! S1. The new views of all keyspaces of a switch are published before its W can be drawn.
//! S2. A switch is over when every window that could hold a stamp below W has closed; the next
//!     begins after that.
//!
//! Threads: one switch at a time (`switching`); the switcher has no pair checked out, so the
//! windows it waits for cannot be its own.
//! Tests: `cl10_switch_inversion`, `switch_storm`.

use crate::core::Engine;
use crate::flush_queue::Group;
use crate::keyspace_core::Core;
use crate::view::{Mem, Split};
use std::sync::Arc;
use velella_sync::{epoch, thread};

impl Engine {
    /// Makes the memtables of `cores` immutable and queues them for flush, where they are not
    /// empty. Without a journal all keyspaces switch together: only one W for all of them leaves
    /// a prefix of the writes on disk.
    pub(crate) fn switch(&self, cores: &[Arc<Core>]) {
        let switching = self.switching.lock();
        let all;
        let cores = if self.journal.is_none() {
            all = self.cores();
            &all
        } else {
            cores
        };
        self.switch_locked(cores);
        drop(switching);
    }

    /// As `switch` for one keyspace, unless another thread is switching: then it is being done.
    pub(crate) fn switch_if_full(&self, core: &Arc<Core>) {
        let switching = self.switching.lock();
        if self.is_full(core) {
            if self.journal.is_none() {
                self.switch_locked(&self.cores());
            } else {
                self.switch_locked(std::slice::from_ref(core));
            }
        }
        drop(switching);
    }

    fn switch_locked(&self, cores: &[Arc<Core>]) {
        let started = thread::now();
        let split = Arc::new(Split::default());
        let mut members = Vec::new();
        // Without a journal D becomes W - 1 for all keyspaces at once: one that is empty now may
        // be written to before W is drawn, so all of them switch, or none.
        let together = self.journal.is_none();
        if together && cores.iter().all(|core| is_empty(core)) {
            return;
        }
        for core in cores {
            let guard = epoch::pin();
            let publishing = core.publishing.lock();
            let view = core.view.load(&guard);
            if view.cur.table.is_empty() && !together {
                continue;
            }
            let next = Mem::new(velella_memtable::new(&self.memtable_options(core)));
            members.push((Arc::clone(core), Arc::clone(&view.cur)));
            core.publish(view.switched(next, Arc::clone(&split)), &guard);
            drop(publishing);
        }
        // S1: from here on anybody may decide W.
        split.open();
        if members.is_empty() {
            return;
        }
        let boundary = split.quiesce(&self.clock, &self.slots);
        self.timers.switch.note(started.elapsed());
        self.flushes.push(Group { members, boundary });
        self.work.wake_all();
    }
}

fn is_empty(core: &Core) -> bool {
    core.view.load(&epoch::pin()).cur.table.is_empty()
}
