//! The engine as the campaigns of `velella-reliability` run it: tiny, without threads of its own,
//! one step of background work at a time.
//!
//! I1. A simulated database starts no thread: what threads would do happens in [`step`], or in the
//!     write that would wait for it.
//! I2. Sizes change nothing but how soon something happens: formats and protocols are the same.
//!
//! No promise of stability: this is not for users. Tests: crates/reliability.

use crate::core::Engine;
use crate::db::Db;
use crate::durability::Urgency;
use crate::options::Builder;
use crate::shortage::{Shortage, Shortages};
use velella_base::Result;

pub use crate::sizes::Sizes;
pub use velella_sync::simulation::Simulation;

impl Builder {
    /// Opens without background threads, with these sizes.
    #[doc(hidden)]
    pub fn simulated(mut self, sizes: Sizes) -> Self {
        self.simulated = Some(sizes);
        self
    }
}

/// One piece of background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Flushes the oldest memtable that waits for it.
    Flush,
    /// Runs one compaction, if a tree has one.
    Compact,
    /// Gathers what seeks look for in many places, as if they had paid for it.
    Gather,
    /// Makes everything published durable.
    Round,
    /// Notes durably that the last round completed.
    NoteDone,
    /// Lets lanes that nobody uses leave old segments.
    CloseIdleLanes,
    /// Makes journal segments ahead of need, and deletes those no longer needed.
    Prepare,
    /// Switches what keeps the journal long.
    BoundJournal,
    /// Removes files that nobody reads any more.
    Reclaim,
}

impl Step {
    /// Every step.
    pub const ALL: [Step; 9] = [
        Step::Flush,
        Step::Compact,
        Step::Gather,
        Step::Round,
        Step::NoteDone,
        Step::CloseIdleLanes,
        Step::Prepare,
        Step::BoundJournal,
        Step::Reclaim,
    ];
}

/// Does what a background thread would do next; an error halts the database, or
/// not, as it does there.
///
/// # Errors
/// What the step met.
pub fn step(db: &Db, step: Step) -> Result<()> {
    db.engine().step(step)
}

/// Replaces the memtables that take the writes; what was in them is flushed some other time.
#[cfg(loom)]
pub fn switch(db: &Db) {
    db.engine().switch(&db.engine().cores());
}

impl Engine {
    fn step(&self, step: Step) -> Result<()> {
        self.check()?;
        let done = match step {
            Step::Flush => return self.told(&self.shortages.flushes, self.flush_next()),
            Step::Compact => return self.told(&self.shortages.compactions, self.compact_once()),
            Step::Gather => self.gather_all(),
            Step::Round => self.round(self.clock.now(), Urgency::Unhurried).map(drop),
            Step::NoteDone => self.note_done(),
            Step::CloseIdleLanes => self.close_idle_lanes(),
            Step::Prepare => self
                .journal
                .as_ref()
                .map_or(Ok(()), |journal| journal.prepare(|| false)),
            Step::BoundJournal => self.bound_journal(),
            Step::Reclaim => {
                self.reclaim();
                Ok(())
            }
        };
        done.inspect_err(|error| {
            let is_passed_over = matches!(step, Step::Prepare | Step::Gather | Step::BoundJournal)
                && Shortages::is_one(error);
            if !is_passed_over {
                self.halt(crate::jobs::failed("a step", error));
            }
        })
    }

    /// Passes the outcome of a step on that may be `short_of` something.
    fn told(&self, short_of: &Shortage, done: Result<bool>) -> Result<()> {
        done.map(drop).inspect_err(|error| {
            let short = self.run_short(short_of, error.clone());
            let _ = short.map_err(|error| self.halt(crate::jobs::failed("a step", &error)));
        })
    }
}
