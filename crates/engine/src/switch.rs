//! Replacing the memtables that take the writes, without stopping a writer.
//!
//! Source: cLSM's `beforeMerge` (EuroSys '15) 3.1 without its exclusive lock: a split stamp W is
//! drawn after the new views are published; a write belongs to the side its stamp says.
//!
//! S1. The new views of all keyspaces of a switch are published before its W can be drawn. A writer
//!     that needs W in between waits in its window; so everything is made ready and locked before
//!     the first view, and between first and last nothing waits, allocates or frees.
//! S2. A switch is over when every window that could hold a stamp below W has closed; the next
//!     begins after that.
//!
//! Threads: one switch at a time (`switching`), and none while a batch keeps them off or, where
//! there is no journal, a keyspace is created; the switcher has no pair checked out, so the windows
//! it waits for cannot be its own.
//! Tests: `cl10_switch_inversion`, `switch_storm`.

use crate::core::Engine;
use crate::flush_queue::Group;
use crate::keyspace_core::Core;
use crate::stalls::Cause;
use crate::view::{Mem, Split, View};
use std::sync::Arc;
use velella_base::seeded;
use velella_sync::atomic::Ordering;
use velella_sync::epoch::{self, Guard};
use velella_sync::lock::MutexGuard;
use velella_sync::{Replaced, thread};

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

    /// As `switch` for one keyspace, unless its memtable is not full (any more), or a batch keeps
    /// switches off: then the next writer to find it full comes here.
    pub(crate) fn switch_if_full(&self, core: &Arc<Core>) {
        // Relaxed: a hint. Who misses the change waits for an attempt of the batch.
        if self.switches_off.load(Ordering::Relaxed) {
            return;
        }
        // Who comes while another thread switches waits: to write on would be to overrun the limit.
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

    /// Switches the largest of the memtables that take writes if they have more than `limit` bytes
    /// together, unless another thread is switching.
    pub(crate) fn switch_largest(&self, limit: u64) {
        let Some(switching) = self.switching.try_lock() else {
            return;
        };
        let cores = self.cores();
        // What is immutable already is on its way, and cannot be switched.
        let sizes = cores.iter().map(|core| {
            let guard = epoch::pin();
            let cur = &core.view.load(&guard).cur;
            if cur.table.is_empty() {
                0
            } else {
                cur.table.bytes() as u64
            }
        });
        let sizes: Vec<u64> = sizes.collect();
        let largest = cores.iter().zip(&sizes).max_by_key(|(_, bytes)| **bytes);
        if sizes.iter().sum::<u64>() > limit
            && let Some((largest, _)) = largest
        {
            if self.journal.is_none() {
                self.switch_locked(&cores);
            } else {
                self.switch_locked(std::slice::from_ref(largest));
            }
        }
        drop(switching);
    }

    fn switch_locked(&self, cores: &[Arc<Core>]) {
        // Without a journal D becomes W for all keyspaces at once: one that is empty now may
        // be written to before W is drawn, so all of them switch, or none.
        let passes_over = seeded("a-switch-passes-over-empty-keyspaces");
        let together = self.journal.is_none() && !passes_over;
        if cores.iter().all(|core| is_empty(core)) {
            return;
        }
        let full = cores.iter().filter(|core| together || !is_empty(core));
        let started = thread::now();
        let split = Arc::new(Split::default());
        let guard = epoch::pin();
        let mut steps = self.prepare(full, &split, &guard);
        velella_sync::spot(40);
        if seeded("a-switch-draws-before-it-publishes") {
            split.decide(&self.clock);
        }
        publish(&mut steps, &split);
        velella_sync::spot(41);
        let members = steps.into_iter().map(|step| step.finish(&guard)).collect();
        drop(guard);
        let boundary = split.quiesce(&self.clock, &self.slots);
        self.timers.switch.note(started.elapsed());
        self.flushes.push(Group { members, boundary });
        self.work.wake_all();
    }

    /// Everything of a switch that takes time or waits (S1).
    fn prepare<'a>(
        &self,
        cores: impl Iterator<Item = &'a Arc<Core>>,
        split: &Arc<Split>,
        guard: &Guard,
    ) -> Vec<Step<'a>> {
        let with_table = |core: &'a Arc<Core>| {
            let next = Mem::new(velella_memtable::new(&self.memtable_options(core, guard)));
            (core, next)
        };
        // All memtables before the first lock: a flush waits for that.
        let tables: Vec<_> = cores.map(with_table).collect();
        let lock = |(core, next): (&'a Arc<Core>, _)| {
            let publishing = core.publishing.lock();
            let view = core.view.load(guard);
            Step {
                core,
                full: Arc::clone(&view.cur),
                next: Some(Arc::new(view.switched(next, Arc::clone(split)))),
                replaced: None,
                publishing,
            }
        };
        tables.into_iter().map(lock).collect()
    }
}

/// While it lives no memtable is switched.
pub(crate) struct SwitchesOff<'a> {
    engine: &'a Engine,
    _switching: MutexGuard<'a, ()>,
}

impl Engine {
    /// Waits until no memtable is being switched, and lets none be. Who asks for it has installed
    /// nothing.
    #[cold]
    pub(crate) fn keep_switches_off(&self) -> SwitchesOff<'_> {
        let switching = self.switching.try_lock().unwrap_or_else(|| {
            let started = thread::now();
            let switching = self.switching.lock();
            self.stalls.note(Cause::Switch, started.elapsed());
            switching
        });
        // Relaxed: see `switch_if_full`.
        self.switches_off.store(true, Ordering::Relaxed);
        SwitchesOff {
            engine: self,
            _switching: switching,
        }
    }
}

impl Drop for SwitchesOff<'_> {
    fn drop(&mut self) {
        // Relaxed: see `switch_if_full`.
        self.engine.switches_off.store(false, Ordering::Relaxed);
    }
}

/// A keyspace in the middle of a switch.
struct Step<'a> {
    core: &'a Arc<Core>,
    full: Arc<Mem>,
    next: Option<Arc<View>>,
    replaced: Option<Replaced<View>>,
    publishing: MutexGuard<'a, ()>,
}

impl Step<'_> {
    fn finish(self, guard: &Guard) -> (Arc<Core>, Arc<Mem>) {
        drop(self.publishing);
        if let Some(replaced) = self.replaced {
            replaced.retire(guard);
        }
        (Arc::clone(self.core), self.full)
    }
}

/// Publishes all views, then lets W be drawn: writers wait in their windows meanwhile (S1).
fn publish(steps: &mut [Step<'_>], split: &Split) {
    for step in &mut *steps {
        step.replaced = step.next.take().map(|view| step.core.exchange(view));
    }
    split.open();
}

fn is_empty(core: &Core) -> bool {
    core.view.load(&epoch::pin()).cur.table.is_empty()
}

#[cfg(test)]
mod tests;
