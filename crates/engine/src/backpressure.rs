//! Holding writers back before memory or compaction run away.
//!
//! A1. A writer waits before or after its write, when it holds nothing: no pair, pin or intent.
//! A2. Writers are slowed in proportion to the debt, by short sleeps spread over their bytes, long
//!     before they are stopped; every wait is counted under its cause.
//! A3. All memtables together, immutable ones included, keep to their share of the memory: before
//!     those that take writes have half of it the largest is switched; once all have all of it,
//!     writers wait until one has left. A memtable that only a reader still holds is not counted:
//!     waiting for it, a writer that holds an iterator would wait for itself.
//! A4. Nobody waits for work that lacks space or descriptors (`shortage.rs`): a write that would
//!     have to is refused with that error, and a memtable that is full takes more instead.
//!
//! Tests: `tests/full_disk.rs`, `memory_stays_within_its_budget`,
//! `a_stalled_flush_stops_writers_and_says_so`,
//! `memtables_of_many_keyspaces_stay_within_their_share_and_writers_go_on`.

use crate::budget;
use crate::core::Engine;
use crate::keyspace_core::Core;
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
                self.wait(Cause::Compaction, || !self.pace.must_stop());
                self.check()?;
                if self.pace.must_stop() {
                    self.shortage.check()?;
                }
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

    #[inline]
    fn is_memory_short(&self) -> bool {
        self.memtable_bytes.now() > budget::memtable_bytes(&self.options)
    }

    /// Waits until a memtable has left (A3).
    #[cold]
    fn wait_for_memory(&self) -> Result<()> {
        // If nothing is being flushed yet, there is something to flush now.
        self.bound_memtables();
        self.work.wake_all();
        while self.is_memory_short() {
            self.wait(Cause::Memory, || !self.is_memory_short());
            self.check()?;
            self.shortage.check()?;
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
        self.memtable_bytes.now() > budget::writing_bytes(&self.options)
    }

    /// Switches the largest of the memtables that take writes, if they have too much together (A3).
    pub(crate) fn bound_memtables(&self) {
        if self.may_bound_memtables() {
            self.switch_largest(budget::writing_bytes(&self.options));
        }
    }

    /// After a write that found its memtable full, or all together: makes it immutable, once there
    /// is room for one more immutable memtable. Every writer that comes by waits for that room.
    #[cold]
    pub(crate) fn make_room(&self, core: &Arc<Core>) -> Result<()> {
        let limit = self.immutable_limit();
        let crowded = || core.view.load(&epoch::pin()).immutables() >= limit;
        let stuck = || self.is_full(core) && crowded();
        if stuck() {
            self.work.wake_all();
            self.wait(Cause::Flush, || !stuck());
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

    fn wait(&self, cause: Cause, mut over: impl FnMut() -> bool) {
        let started = thread::now();
        self.stalls.begin(cause);
        let mut over = || over() || self.check().is_err();
        if self.alone {
            while !over() {
                self.work_alone();
                if self.shortage.is_on() {
                    break;
                }
            }
        } else {
            self.relief
                .wait_until(None, || over() || self.shortage.is_on());
        }
        self.stalls.end(cause, started.elapsed());
    }

    /// Who waits in a database without background threads does their work (`simulation.rs` I1).
    #[cold]
    fn work_alone(&self) {
        let worked = self.flush_next().and_then(|flushed| {
            let compacted = !flushed && self.compact_once()?;
            Ok(flushed || compacted)
        });
        match worked {
            Ok(true) => {}
            // Memory comes back once other threads have let go of it.
            Ok(false) => thread::yield_now(),
            Err(error) => {
                let _ = self.run_short(error).map_err(|error| self.halt(error));
            }
        }
        self.judge_pace();
        self.reclaim();
    }

    /// Takes note of what background work lacks, and lets go of who waits for it (A4); an error of
    /// another kind is given back.
    pub(crate) fn run_short(&self, error: Error) -> Result<()> {
        self.shortage.note(error)?;
        self.counters.shortages.increment();
        self.relief.wake_all();
        Ok(())
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

    /// Whether writers wait, or work has piled up towards where they are slowed or stopped.
    pub(crate) fn is_lagging(&self) -> bool {
        self.are_flushes_lagging() || self.cores().iter().any(|core| core.tree.pressure().is_high)
    }

    /// The same of flushes alone, without a lock but the queue's.
    pub(crate) fn are_flushes_lagging(&self) -> bool {
        let high = budget::memtable_bytes(&self.options) / 4 * 3;
        self.relief.is_awaited() || self.flushes.len() > 1 || self.memtable_bytes.now() > high
    }

    /// Judges the brake anew from the pressure of all trees.
    pub(crate) fn judge_pace(&self) {
        let brake = self
            .cores()
            .iter()
            .map(|core| core.tree.pressure().brake)
            .fold(0.0, f64::max);
        self.pace.set(brake);
        self.relief.wake_all();
    }
}

#[cfg(test)]
mod tests;
