//! Running the trees' upkeep: in the background bit by bit, or fully when the user asks.
//!
//! C1. A full compaction has the trees for itself: a background job that began before, with an
//!     older idea of what is still read, would hold tables back from it.
//! C2. Under a brake a full compaction stops to relieve the writers first, of whichever keyspace:
//!     nobody else can meanwhile (C1). But by a few jobs between two of its own, and in all by so
//!     many for each table there was: those who write as fast as they may are always braked a
//!     little, and what relieves them of level 0 gives what it was merged with anew to the full
//!     compaction.
//! C3. A job that outlived its keyspace fails in vain, and harms nobody; what it was told by the
//!     device counts.
//! C4. A flush does not wait for a compaction: who runs one flushes in between, since writers wait
//!     for flushes, and a compaction may take many seconds.
//! C5. Keyspaces come in the order of their need: those that brake all writers, then the others by
//!     their names. So no worker is busy with what can wait while writers do.
//!
//! Threads: background jobs run side by side under a shared hold of `compacting`; a full compaction
//! takes it whole.
//! Tests: beside; `a_compaction_flushes_in_between`, `tests/expiry.rs`, `tests/iterators.rs`,
//! `tests/keyspaces.rs`.

use crate::core::Engine;
use crate::keyspace_core::Core;
use crate::shortage::Shortages;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use velella_base::{Error, Result};
use velella_sync::thread;
use velella_tree::{Job, Wanted};
use velella_vfs::is_of_the_device;

/// The journal's bound is looked at each time a job has asked so often whether to go on.
const BOUND_EVERY: u32 = 64;
/// Jobs that a full compaction does for writers of a keyspace between two of its own (C2).
const RELIEVING_JOBS: usize = 8;

impl Engine {
    /// Runs one background job if some tree has one; whether it did. A shortage is over where none
    /// has one any more.
    pub(crate) fn compact_once(&self) -> Result<bool> {
        let compacted = self.compact_next();
        let short_of = &self.shortages.compactions;
        if matches!(compacted, Ok(false)) && short_of.is_on() && self.nothing_to_compact() {
            short_of.end();
        }
        compacted
    }

    fn compact_next(&self) -> Result<bool> {
        let Some(_shared) = self.compacting.try_read() else {
            return Ok(false);
        };
        let retention = self.retention();
        let mut short = None;
        for core in self.cores_by_need() {
            if let Some(job) = core.tree.next_job(Wanted::Due, &retention) {
                match self.run_job(&core, job) {
                    Ok(()) => {
                        if let Some(error) = short {
                            self.run_short(&self.shortages.compactions, error)?;
                        }
                        return Ok(!self.is_stopping());
                    }
                    // Another keyspace's may need less.
                    Err(error) if Shortages::is_one(&error) => short = Some(error),
                    Err(error) => return Err(error),
                }
            }
        }
        short.map_or(Ok(false), Err)
    }

    /// As `compact_once`, for background work: waits with it while something is lacking.
    pub(crate) fn compact_unless_short(&self) -> Result<bool> {
        let short_of = &self.shortages.compactions;
        if !short_of.may_try() {
            return Ok(false);
        }
        self.compact_once()
            .or_else(|error| self.run_short(short_of, error))
    }

    /// Whether no keyspace has a job, and none is running.
    fn nothing_to_compact(&self) -> bool {
        self.compacting.try_write().is_some_and(|_alone| {
            let retention = self.retention();
            let has_none = |core: Arc<Core>| core.tree.next_job(Wanted::Due, &retention).is_none();
            self.cores().into_iter().all(has_none)
        })
    }

    /// C5.
    fn cores_by_need(&self) -> Vec<Arc<Core>> {
        // Asked once: other workers change it, and a sort wants one order.
        let cores = self.cores().into_iter();
        let mut cores: Vec<_> = cores
            .map(|core| (core.tree.pressure().brake, core))
            .collect();
        cores.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        cores.into_iter().map(|(_, core)| core).collect()
    }

    /// Flushes, then compacts `cores` until nothing is left to do.
    pub(crate) fn compact_fully(&self, cores: &[Arc<Core>]) -> Result<()> {
        self.flush_all(cores)?;
        let whole = self.compacting.write();
        // It may have been waited for until the database was closed.
        self.check()?;
        for core in cores {
            let tables: usize = core.tree.levels().iter().map(|level| level.tables).sum();
            let (mut wanted, mut relief) = (Wanted::Everything, RELIEVING_JOBS * (1 + tables));
            while let Some(job) = core.tree.next_job(wanted, &self.retention()) {
                self.run_job(core, job)?;
                self.check()?;
                self.relieve(&mut relief)?;
                wanted = Wanted::Rest;
            }
        }
        drop(whole);
        self.judge_pace();
        Ok(())
    }

    /// C2, by as many jobs as are `left`.
    fn relieve(&self, left: &mut usize) -> Result<()> {
        for core in self.cores() {
            for _ in 0..RELIEVING_JOBS.min(*left) {
                if core.tree.pressure().brake <= 0.0 {
                    break;
                }
                *left -= 1;
                let Some(job) = core.tree.next_job(Wanted::Due, &self.retention()) else {
                    break;
                };
                self.run_job(&core, job)?;
                // A job that the close cut off leaves the brake as it was.
                self.check()?;
            }
        }
        Ok(())
    }

    /// C4. Whether a job goes on that has `asked` so often: does meanwhile what the work loop does
    /// between jobs.
    fn goes_on(&self, asked: u32) -> Result<bool> {
        if self.is_stopping() {
            return Ok(false);
        }
        self.check()?;
        if self.flushes.is_due() && self.flush_unless_short()? {
            self.judge_pace();
        }
        self.bound_memtables();
        if asked.is_multiple_of(BOUND_EVERY) {
            self.bound_journal()?;
            self.bound_cache();
            self.judge_pace();
        }
        Ok(!self.is_stopping())
    }

    /// After the tree's version was replaced: nothing of an earlier one rests, nor its files.
    pub(crate) fn sweep_resting(&self, core: &Core) {
        if self.resting.sweep(core) {
            core.tree.clean();
        }
    }

    pub(crate) fn run_job(&self, core: &Core, job: Box<dyn Job>) -> Result<()> {
        let started = thread::now();
        let (asked, failed) = (Cell::new(0), RefCell::new(None));
        let sweeps = Sweeps::new(self, core);
        let goes_on = || {
            asked.set(asked.get() + 1);
            sweeps.again();
            let answer = self.goes_on(asked.get());
            answer.inspect_err(|error| *failed.borrow_mut() = Some(error.clone()))
        };
        let report = job.run(&|| self.retention(), &goes_on);
        drop(sweeps);
        // What failed in between may be of another keyspace.
        if let Some(error) = failed.into_inner() {
            return Err(error);
        }
        // One whose drop is not decided may yet be there again: what it lacks is lacking.
        let is_short = |error: &Error| !core.is_gone() && Shortages::is_one(error);
        let ended =
            |error: &Error| core.is_dropped() && !is_of_the_device(error) && !is_short(error);
        if self.is_stopping() || report.as_ref().is_err_and(ended) {
            return Ok(());
        }
        let report = report.inspect_err(|error| self.halt_after_job("a compaction", error))?;
        self.shortages.compactions.end();
        self.timers.compaction.note(started.elapsed());
        let counters = &self.counters;
        counters.compactions.increment();
        counters.compaction_bytes_read.add(report.bytes_read);
        counters.compaction_bytes_written.add(report.bytes_written);
        self.note_overtaken(core);
        Ok(())
    }
}

/// Sweeps what rests of a tree's earlier versions (`resting.rs`): part by part of a job, and at its
/// end, also where a user's order panics in it.
struct Sweeps<'a> {
    engine: &'a Engine,
    core: &'a Core,
    /// The tree's generation at the last time.
    swept: Cell<u64>,
}

impl<'a> Sweeps<'a> {
    fn new(engine: &'a Engine, core: &'a Core) -> Self {
        let swept = Cell::new(core.tree.generation());
        Sweeps {
            engine,
            core,
            swept,
        }
    }

    fn again(&self) {
        let now = self.core.tree.generation();
        if self.swept.replace(now) != now {
            self.engine.sweep_resting(self.core);
        }
    }
}

impl Drop for Sweeps<'_> {
    fn drop(&mut self) {
        self.again();
    }
}

#[cfg(test)]
mod tests;
