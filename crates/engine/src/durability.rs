//! Sync rounds: how a write gets from the page cache to the device, together with its company.
//!
//! Source: group commit as in Xyza (HotStorage '18) 3.1, over lanes instead of files.
//!
//! D1. A round registers D as a lower bound before it reads its frontier, says what that is, and
//!     stays registered until D has moved: a collector that ran in between would drop what is
//!     newest at the D to come. One that waits for its turn is not registered yet; the one that
//!     closes the journal is not at all, since nobody writes any more.
//! D2. Whoever needs D first runs the round; the others wait for the same round or the next.
//! D3. A failed round poisons the database; it is never tried again.
//! D4. A round for a stamp gives writers that are within their windows a few turns to leave them:
//!     with the frontier below the stamp it would be a round for nothing.
//! D5. Nobody waits for the rounds of flushes and the one each second: they take no processor from
//!     a writer (`Urgency`).
//!
//! Tests: `threads_that_go_on_writing_share_every_round_and_not_every_other`,
//! `a_failed_sync_poisons_and_reads_go_on`.

use crate::core::Engine;
use std::cell::RefCell;
use std::time::Duration;
use velella_base::{Error, ErrorKind, Result, Stamp};
use velella_journal::Journal;
use velella_mvcc::Round;
use velella_sync::thread;

/// Turns given away before a round that will not reach what it is for (D4).
const YIELDS_MAX: usize = if cfg!(any(loom, shuttle)) { 1 } else { 64 };

/// Whether somebody waits for a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// A caller does, who wants something to be durable.
    Awaited,
    /// Only background work does, if nobody comes meanwhile (D5).
    Unhurried,
}

impl Engine {
    /// Returns once `stamp` is durable; waits up to `company` for others before it syncs.
    pub(crate) fn make_durable(&self, stamp: Stamp, company: Duration) -> Result<()> {
        let Some(journal) = &self.journal else {
            return self.install_to_be_durable(stamp);
        };
        if !company.is_zero() && journal.wait_durable(stamp, Some(company))? {
            return Ok(());
        }
        self.rounds_for(journal, stamp, Urgency::Awaited)
    }

    /// As `make_durable`, for background work, where there is a journal (D5).
    pub(crate) fn make_durable_unhurried(&self, stamp: Stamp) -> Result<()> {
        match &self.journal {
            Some(journal) => self.rounds_for(journal, stamp, Urgency::Unhurried),
            None => Ok(()),
        }
    }

    /// Rounds until `stamp` is durable.
    fn rounds_for(&self, journal: &Journal, stamp: Stamp, urgency: Urgency) -> Result<()> {
        // A round's frontier is held back by open windows, which last microseconds, and by the
        // creation or drop of a keyspace, which syncs the manifest.
        for turn in 0u32.. {
            if journal.durable() >= stamp {
                return Ok(());
            }
            match turn {
                0 => {}
                1 => thread::yield_now(),
                _ => thread::sleep(Duration::from_micros(20)),
            }
            self.round(stamp, urgency)?;
        }
        unreachable!("the loop ends only by returning")
    }

    /// One sync round, unless the one before it covered `stamp`; returns D.
    pub(crate) fn round(&self, stamp: Stamp, urgency: Urgency) -> Result<Stamp> {
        let Some(journal) = &self.journal else {
            return Ok(self.durable());
        };
        let started = thread::now();
        let registered = RefCell::new(None);
        let frontier = || self.registered(journal, &registered, || self.frontier_for(stamp));
        let durable = match urgency {
            Urgency::Awaited => journal.round_for(stamp, frontier),
            Urgency::Unhurried => journal.unhurried_round_for(stamp, frontier),
        };
        self.timers.round.note(started.elapsed());
        durable.inspect_err(|error| self.halt_after("a sync", error))
    }

    /// A round's frontier, `read` while it is `registered` (D1).
    fn registered(
        &self,
        journal: &Journal,
        registered: &RefCell<Option<Round>>,
        read: impl FnOnce() -> Stamp,
    ) -> Stamp {
        let mut round = self.snapshots.register_round(|| journal.durable());
        let frontier = read();
        round.aim(frontier);
        // One that was read before stays until there is this one.
        registered.replace(Some(round));
        frontier
    }

    /// D4.
    fn frontier_for(&self, stamp: Stamp) -> Stamp {
        for _ in 0..YIELDS_MAX {
            let frontier = self.slots.frontier(&self.clock);
            if frontier >= stamp {
                return frontier;
            }
            thread::yield_now();
        }
        self.slots.frontier(&self.clock)
    }

    /// A round for the journal's own sake: what was flushed since the last one still takes space.
    /// Does nothing where there is nothing to give back.
    pub(crate) fn exclude_flushed(&self) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let registered = RefCell::new(None);
        let frontier =
            || self.registered(journal, &registered, || self.slots.frontier(&self.clock));
        let round = journal.unhurried_round(frontier);
        round
            .map(drop)
            .inspect_err(|error| self.halt_after("a sync", error))
    }

    /// Ends writing after `step` failed: later writes are refused, whatever became of this one.
    pub(crate) fn halt_after(&self, step: &str, error: &Error) {
        let cause = Error::new(
            ErrorKind::ReadOnly,
            "write",
            format!("{step} failed earlier ({error}), the database is read-only"),
        );
        self.halt(cause.remedy("mend the device, then open the database again"));
    }

    /// Without a journal only tables are durable.
    fn install_to_be_durable(&self, stamp: Stamp) -> Result<()> {
        if self.durable() < stamp {
            self.flush_all(&self.cores())?;
            // Stamps of which no version is left move no flush, nor does it them.
            self.raise_installed(Stamp(self.floor().0.saturating_sub(1)));
        }
        Ok(())
    }
}
