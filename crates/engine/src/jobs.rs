//! The background threads: flush and compaction, sync rounds, journal segments.
//!
//! J1. A thread's failure halts the database with its cause; threads never die silently. That space
//!     or descriptors are lacking is no failure: the work waits (`shortage.rs`).
//! J2. Threads hold the engine; `stop` ends and joins them, so the engine outlives them all.
//! J3. They run at the user's priority: writers wait for flushes, so a flush that has to wait for
//!     a busy machine would stop them (seen: 23 s beside a test run, at nice 19).
//! J4. Not all of them work at once unless writers lag (`crew.rs`).
//! J5. An opening that cannot start one of them ends the others, and with them goes the lock.
//!
//! Threads: `velella-work-n` (options.background_threads of them), `velella-sync`,
//! `velella-segment`.

use crate::core::Engine;
use crate::durability::Urgency;
use crate::shortage::Shortages;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use velella_base::{Error, ErrorKind, Result};
use velella_sync::atomic::Ordering;
use velella_sync::memory;
use velella_sync::thread::{self, JoinHandle};
use velella_vfs::is_of_the_device;

/// A power loss takes at most what was written within this time (`Buffered`).
const SYNC_EVERY: Duration = Duration::from_secs(1);
/// An idle journal notes after this time that its last round completed.
const NOTE_DONE_AFTER: Duration = Duration::from_millis(100);
/// How long nobody prepares segments, or renews the lease, after there was no room for it.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// How often background threads look around unasked.
const TICK: Duration = Duration::from_millis(100);

/// The background threads of a database.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts them: all, or none and an error (J5).
    pub(crate) fn start(engine: &Arc<Engine>) -> Result<Workers> {
        let mut workers = Workers::default();
        let started = workers.start_all(engine);
        if started.is_err() {
            workers.stop(engine);
        }
        started.map(|()| workers)
    }

    fn start_all(&mut self, engine: &Arc<Engine>) -> Result<()> {
        for index in 0..engine.options.background_threads {
            self.spawn(engine, &format!("velella-work-{index}"), Engine::work_loop)?;
        }
        self.spawn(engine, "velella-sync", Engine::sync_loop)?;
        if engine.journal.is_some() {
            self.spawn(engine, "velella-segment", Engine::segment_loop)?;
        }
        Ok(())
    }

    fn spawn(
        &mut self,
        engine: &Arc<Engine>,
        name: &str,
        body: fn(&Engine) -> Result<()>,
    ) -> Result<()> {
        let engine = Arc::clone(engine);
        let role = name.to_owned();
        let thread = start(name, move || {
            // J1. A panic is our own fault, but the user must learn of it.
            let outcome = catch_unwind(AssertUnwindSafe(|| body(&engine)));
            let panicked = |_| Err(Error::new(ErrorKind::ReadOnly, "go on", "it panicked"));
            if let Err(error) = outcome.unwrap_or_else(panicked) {
                engine.halt(failed(&role, &error));
            }
        });
        let thread = thread.map_err(|source| {
            Error::new(
                ErrorKind::Io,
                format!("start thread {name}"),
                source.to_string(),
            )
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Ends and joins them.
    pub(crate) fn stop(&mut self, engine: &Engine) {
        // Release, partner: the Acquire in `is_stopping`.
        engine.stopping.store(true, Ordering::Release);
        engine.work.wake_all();
        engine.sync_bell.wake_all();
        engine.relief.wake_all();
        if let Some(journal) = &engine.journal {
            journal.wake_preparer();
        }
        for thread in self.threads.drain(..) {
            // Its panic, if any, was turned into a halt.
            let _ = thread.join();
        }
    }
}

pub(crate) fn failed(role: &str, error: &Error) -> Error {
    let found = format!("background work failed in {role}: {error}");
    Error::new(ErrorKind::ReadOnly, "write", found)
        .remedy("mend the cause, then open the database again; reads still work")
}

#[cfg(not(test))]
use thread::spawn as start;

#[cfg(test)]
thread_local! {
    /// Threads that this one can still start before it is refused one; 0: any number.
    static REFUSE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// As `spawn`, refused when a test says so.
#[cfg(test)]
fn start(name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let left = REFUSE.get();
    REFUSE.set(left.saturating_sub(1));
    if left == 1 {
        return Err(std::io::Error::other("no more threads"));
    }
    thread::spawn(name, body)
}

impl Engine {
    /// A worker halts on any error but a shortage. An error of the device ends writing also where a
    /// caller of `flush` or `compact` met it: what it says of the device is the same.
    pub(crate) fn halt_after_job(&self, job: &str, error: &Error) {
        if is_of_the_device(error) {
            self.halt(failed(job, error));
        }
    }

    fn is_over(&self) -> bool {
        self.is_stopping() || self.check().is_err()
    }

    /// Takes from the cache what tables have taken of its room, and its holes from the allocator.
    pub(crate) fn bound_cache(&self) {
        self.env.cache.trim();
        if self.env.cache.take_holes() {
            memory::give_back_free_pages();
        }
    }

    /// Flushes first, then compacts: memory is scarcer than read amplification. What seeks would
    /// like comes last.
    fn work_loop(&self) -> Result<()> {
        while !self.is_over() {
            let hand = self.crew.join(|| self.is_lagging());
            let worked = hand.is_some()
                && (self.flush_unless_short()?
                    || self.compact_unless_short()?
                    || self.gather_once()?);
            drop(hand);
            self.judge_pace();
            // Also while there is always something to do.
            self.bound_journal().or_else(unless_short)?;
            self.bound_memtables();
            self.bound_cache();
            if worked {
                continue;
            }
            self.reclaim();
            self.work
                .wait_until(Some(TICK), || self.is_over() || self.is_flush_due());
        }
        Ok(())
    }

    /// Whether there is a flush that one more thread may run. Asked under the parker's lock.
    fn is_flush_due(&self) -> bool {
        self.flushes.is_due()
            && self.shortages.flushes.may_try()
            && self.crew.has_room(|| self.are_flushes_lagging())
    }

    /// Runs a round every second while something is not durable yet.
    fn sync_loop(&self) -> Result<()> {
        let mut last_round = thread::now();
        let (mut rounds, mut noted) = (self.rounds(), true);
        // When a renewal of the lease last found no room.
        let mut renewed = None;
        while !self.is_over() {
            let behind = self.durable() < self.clock.now();
            if self.rounds() != rounds {
                // Writers that want to be durable, and flushes, run rounds of their own.
                (rounds, noted, last_round) = (self.rounds(), false, thread::now());
            }
            if self.journal.is_some() && last_round.elapsed() >= SYNC_EVERY {
                if behind {
                    self.round(self.clock.now(), Urgency::Unhurried)?;
                } else {
                    // What was flushed since still takes space.
                    self.exclude_flushed()?;
                }
                (rounds, noted, last_round) = (self.rounds(), false, thread::now());
            } else if !noted && last_round.elapsed() >= NOTE_DONE_AFTER {
                self.note_done()?;
                noted = true;
            }
            // Writers that meet the end of the lease ask for themselves, and are told.
            if renewed.is_none_or(|at: Instant| at.elapsed() >= SHORT_PAUSE) {
                let done = self.renew_lease();
                renewed = done.is_err().then(thread::now);
                done.or_else(unless_short)?;
            }
            self.close_idle_lanes()?;
            self.spare.prepare();
            self.sync_bell
                .wait_until(Some(self.nap(last_round, noted)), || self.is_over());
        }
        Ok(())
    }

    /// How many rounds the journal has completed.
    fn rounds(&self) -> u64 {
        self.journal
            .as_ref()
            .map_or(0, |journal| journal.stats().rounds)
    }

    fn nap(&self, last_round: Instant, noted: bool) -> Duration {
        let until = if noted { SYNC_EVERY } else { NOTE_DONE_AFTER };
        until
            .saturating_sub(last_round.elapsed())
            .clamp(TICK / 10, TICK)
    }

    pub(crate) fn note_done(&self) -> Result<()> {
        self.journal
            .as_ref()
            .map_or(Ok(()), |journal| journal.sync_done())
    }

    /// Lanes that nobody uses must not pin old segments.
    pub(crate) fn close_idle_lanes(&self) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        for index in 0..self.pairs.len() {
            if let Some(mut pair) = self.pairs.try_checkout(index)
                && let Some(lane) = &mut *pair
            {
                journal.close_idle(lane)?;
            }
        }
        Ok(())
    }

    /// Makes journal segments ahead of need.
    fn segment_loop(&self) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        // Not at once: who closes again soon needs no more than the first.
        journal.wait_for_preparation(TICK, || self.is_over());
        while !self.is_over() {
            // Writers that need a segment make it themselves, and are told.
            let prepared = if self.shortages.flushes.is_on() {
                journal.forgo()
            } else {
                journal.prepare(|| self.is_over())
            };
            let pause = if prepared.is_err() { SHORT_PAUSE } else { TICK };
            prepared.or_else(unless_short)?;
            journal.wait_for_preparation(pause, || self.is_over());
        }
        Ok(())
    }
}

/// Lets a shortage pass: it is tried again.
fn unless_short(error: Error) -> Result<()> {
    if Shortages::is_one(&error) {
        Ok(())
    } else {
        Err(error)
    }
}

#[cfg(test)]
mod tests;
