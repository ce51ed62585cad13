//! Holding writers back before memory or compaction run away.
//!
//! A1. A writer waits before or after its write, when it holds nothing: no pair, pin or intent; but
//!     for the pin of an update whose decision writes, which no flush waits for (`rmw/update.rs`).
//! A2. Writers are slowed in proportion to the debt, by short sleeps spread over their bytes, long
//!     before they are stopped; every wait is counted under its cause.
//! A3. All memtables together, immutable ones included, keep to their share of the memory, which
//!     shrinks where filters and indexes outgrow the cache's (`budget.rs` B2): before
//!     those that take writes have half of it the largest is switched; once all have all of it,
//!     writers wait until one has left. A memtable that only a reader still holds is not counted:
//!     waiting for it, a writer that holds an iterator would wait for itself.
//! A4. Nobody waits for work that lacks space or descriptors (`shortage.rs`): a write that would
//!     have to is refused with that error, and a memtable that is full takes more instead.
//!
//! Tests: `tests/full_disk.rs`, `writers_stay_within_the_budget_whatever_they_write`,
//! `a_stalled_flush_stops_writers_and_says_so`,
//! `memtables_of_many_keyspaces_stay_within_their_share_and_writers_go_on`,
//! `memtables_give_way_to_filters_that_outgrow_the_cache`.

use crate::budget;
use crate::core::Engine;
use crate::keyspace_core::Core;
use crate::shortage::{Shortage, Shortages};
use crate::stalls::Cause;
use crate::view::Mem;
use std::sync::Arc;
use std::time::Duration;
use velella_base::{Error, Result};
use velella_sync::atomic::Ordering;
use velella_sync::{epoch, thread};

/// A paced writer sleeps once it owes this much: shorter sleeps cost more than they wait.
const PACE_QUANTUM: Duration = Duration::from_millis(1);

/// What a write costs beside its bytes, for pacing.
const WRITE_OVERHEAD_BYTES: u64 = 64;

impl Engine {
    /// Before step 0 of a write of `bytes`: lets it pass, slows it down, or makes it wait (A1).
    #[inline]
    pub(crate) fn admit(&self, bytes: usize) -> Result<()> {
        self.check()?;
        // Relaxed: a hint, see `Pace::set`.
        if self.pace.nanos_per_kib.load(Ordering::Relaxed) != 0 {
            self.owe(bytes as u64 + WRITE_OVERHEAD_BYTES);
            if self.pace.must_stop() {
                self.wait_for_calm()?;
            }
        }
        if self.is_memory_short() {
            return self.wait_for_memory();
        }
        Ok(())
    }

    /// For bytes that were not known when their write was let in: slows it down for them, too.
    #[inline]
    pub(crate) fn charge(&self, bytes: usize) {
        // Relaxed: a hint, see `Pace::set`.
        if self.pace.nanos_per_kib.load(Ordering::Relaxed) != 0 {
            self.owe(bytes as u64);
        }
    }

    /// Refuses what `admit` would refuse, before it takes space.
    pub(crate) fn refuse_if_stuck(&self) -> Result<()> {
        if self.is_memory_short() {
            self.shortages.flushes.check("memory is full")?;
        }
        if self.pace.must_stop() {
            self.shortages
                .compactions
                .check("too much waits for background work")?;
        }
        Ok(())
    }

    /// Bytes that memtables may take now, all together.
    #[inline]
    fn memtable_share(&self) -> u64 {
        budget::memtable_bytes(&self.options, self.env.cache.table_bytes())
    }

    /// Bytes that those which take writes may have now.
    #[inline]
    fn writing_share(&self) -> u64 {
        budget::writing_bytes(&self.options, self.env.cache.table_bytes())
    }

    #[inline]
    fn is_memory_short(&self) -> bool {
        self.memtable_bytes.now() > self.memtable_share()
    }

    /// Waits until no tree, nor a journal that is stuck (`judge_pace`), stops writers.
    #[cold]
    fn wait_for_calm(&self) -> Result<()> {
        let Shortages {
            flushes,
            compactions,
        } = &self.shortages;
        let calm = || !self.pace.must_stop();
        while !calm() {
            self.wait(Cause::Compaction, compactions, || {
                calm() || self.is_journal_stuck()
            });
            self.check()?;
            let short_of = match self.is_journal_stuck() {
                true => flushes,
                false => compactions,
            };
            if !calm() {
                short_of.check("too much waits for background work")?;
            }
        }
        Ok(())
    }

    /// Waits until a memtable has left (A3).
    #[cold]
    fn wait_for_memory(&self) -> Result<()> {
        // If nothing is being flushed yet, there is something to flush now.
        self.bound_memtables();
        self.work.wake_all();
        let short_of = &self.shortages.flushes;
        while self.is_memory_short() {
            self.wait(Cause::Memory, short_of, || !self.is_memory_short());
            self.check()?;
            if self.is_memory_short() {
                short_of.check("memory is full")?;
            }
        }
        Ok(())
    }

    /// After a write to `mem`: whether something is to be switched.
    #[inline]
    pub(crate) fn fills(&self, mem: &Mem) -> bool {
        let grown = mem.count(&self.memtable_bytes);
        mem.is_full(self.options.write_buffer) || (grown && self.may_bound_memtables())
    }

    fn may_bound_memtables(&self) -> bool {
        self.memtable_bytes.now() > self.writing_share()
    }

    /// Switches the largest of the memtables that take writes, if they have too much together (A3).
    pub(crate) fn bound_memtables(&self) {
        if self.may_bound_memtables() {
            self.switch_largest(self.writing_share());
        }
    }

    /// After a write that found its memtable full, or all together: makes it immutable, once there
    /// is room for one more immutable memtable. Every writer that comes by waits for that room; but
    /// where a batch keeps switches off, the next one makes it immutable.
    #[cold]
    pub(crate) fn make_room(&self, core: &Arc<Core>) -> Result<()> {
        let limit = self.immutable_limit();
        let crowded = || core.view.load(&epoch::pin()).immutables() >= limit;
        let stuck = || self.is_full(core) && crowded();
        let short_of = &self.shortages.flushes;
        if stuck() && !short_of.is_on() {
            self.work.wake_all();
            self.wait(Cause::Flush, short_of, || !stuck());
        }
        self.check()?;
        if stuck() {
            // A shortage ended the wait (A4).
            return Ok(());
        }
        self.switch_if_full(core);
        self.bound_memtables();
        Ok(())
    }

    /// Whether the memtable that takes the writes of `core` should be switched.
    pub(crate) fn is_full(&self, core: &Core) -> bool {
        let guard = epoch::pin();
        core.view
            .load(&guard)
            .cur
            .is_full(self.options.write_buffer)
    }

    /// How many immutable memtables a keyspace may have: what fits a third of the memory.
    fn immutable_limit(&self) -> usize {
        let fit = self.options.memory / 3 / self.options.write_buffer;
        usize::try_from(fit).unwrap_or(usize::MAX).clamp(1, 8)
    }

    /// Waits until it is `over`, or the work that would bring that about is `short_of` something.
    fn wait(&self, cause: Cause, short_of: &Shortage, mut over: impl FnMut() -> bool) {
        let started = thread::now();
        self.stalls.begin(cause);
        let mut over = || over() || self.check().is_err();
        if self.alone {
            while !over() {
                self.work_alone();
                if short_of.is_on() {
                    break;
                }
            }
        } else {
            self.relief.wait_until(None, || over() || short_of.is_on());
        }
        self.stalls.end(cause, started.elapsed());
    }

    /// Who waits in a database without background threads does their work (`simulation.rs` I1).
    #[cold]
    fn work_alone(&self) {
        let Shortages {
            flushes,
            compactions,
        } = &self.shortages;
        // Again where it could not: a batch may have kept switches off.
        self.bound_memtables();
        let flushed = self.flush_next();
        let flushed = flushed.or_else(|error| self.run_short(flushes, error));
        let worked = flushed.and_then(|flushed| match flushed {
            true => Ok(true),
            false => self
                .compact_once()
                .or_else(|error| self.run_short(compactions, error)),
        });
        match worked {
            Ok(true) => {}
            // Memory comes back once other threads have let go of it.
            Ok(false) => thread::yield_now(),
            Err(error) => self.halt(error),
        }
        self.judge_pace();
        self.reclaim();
    }

    /// Takes note of what work is `short_of`, and lets go of who waits for it (A4): nothing was
    /// done. An error of another kind is given back.
    pub(crate) fn run_short(&self, short_of: &Shortage, error: Error) -> Result<bool> {
        short_of.note(error)?;
        self.counters.shortages.increment();
        self.relief.wake_all();
        Ok(false)
    }

    /// Adds to what writers owe, and sleeps it off once it is worth a sleep (A2).
    fn owe(&self, bytes: u64) {
        // Relaxed: sums of hints.
        let nanos = self.pace.nanos_per_kib.load(Ordering::Relaxed) * bytes / 1024;
        let owed = self.pace.owed_nanos.fetch_add(nanos, Ordering::Relaxed) + nanos;
        if Duration::from_nanos(owed) < PACE_QUANTUM {
            return;
        }
        let mine = Duration::from_nanos(self.pace.owed_nanos.swap(0, Ordering::Relaxed));
        let started = thread::now();
        thread::sleep(mine.min(Duration::from_millis(20)));
        self.stalls.note(Cause::Compaction, started.elapsed());
    }

    /// Whether the journal has reached its bound while flushes lack something.
    fn is_journal_stuck(&self) -> bool {
        self.shortages.flushes.is_on()
            && self.journal.as_ref().is_some_and(|journal| {
                let unflushed = journal.stats().unflushed_bytes;
                unflushed >= self.journal_bound()
            })
    }

    /// Whether writers wait, or work has piled up towards where they are slowed or stopped.
    pub(crate) fn is_lagging(&self) -> bool {
        self.are_flushes_lagging() || self.cores().iter().any(|core| core.tree.pressure().is_high)
    }

    /// The same of flushes alone, without a lock but the queue's.
    pub(crate) fn are_flushes_lagging(&self) -> bool {
        let high = self.memtable_share() / 4 * 3;
        self.relief.is_awaited() || self.flushes.len() > 1 || self.memtable_bytes.now() > high
    }

    /// Judges the brake anew from the pressure of all trees; and of a journal that no flush can
    /// shorten, lest it take what room is made for flushes.
    pub(crate) fn judge_pace(&self) {
        let cores = self.cores();
        let brakes = cores.iter().map(|core| core.tree.pressure().brake);
        let stuck = if self.is_journal_stuck() { 1.0 } else { 0.0 };
        self.pace.set(brakes.fold(stuck, f64::max));
        self.relief.wake_all();
    }
}

#[cfg(test)]
mod tests;
