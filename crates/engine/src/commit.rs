//! How a write becomes visible: install, stamp, journal, publish.
//!
//! Source: cLSM (EuroSys '15) 3.2 without its locks and its rollback, on JellyFish's version lists
//! (Middleware '20) without its dropped puts. docs/concurrency.md has the argument, the models and
//! the orderings; the numbers are its steps.
//!
//! ```text
//!  0  check, admit, check out a (slot, lane) pair, reserve journal space, write the payload there
//!  1  pin
//!  2  load the view                                                    <- restart point
//!  3  while the previous memtable is not final: decide W, wait for an undecided version there
//!  4-6 install a pending version as the key's newest (one CAS), waiting for an undecided one
//!  -- window: constant, no wait, no call into anything that can fail --
//!  7  announce     8  draw the stamp     9  re-check the view: another memtable now? abort, goto 2
//! 10  complete the journal record       11  publish (the linearisation point)      12  idle
//!  --
//! 13  unpin, prune a long chain, wait until durable if asked, acknowledge
//! ```
//! C1. Whoever has drawn or observed the clock value c can reach every version at or below c.
//! C2. A record is complete in the lane before its version is published.
//! C3. Between 7 and 12 nothing blocks, fails, allocates or runs user code. A panic there poisons
//!     the database, and nobody waits for what it left: its version is aborted, its slot idle. A
//!     panic of the user's order before 7 only takes the version back.
//! C4. A version is published only in the memtable that owns its stamp: below W in `prev`, at or
//!     above it in `cur`.
//!
//! Tests: `tests/regressions.rs` (cl1, cl10, x4, jf2), loom models in `memtable`.

use crate::change::Change;
use crate::core::{Engine, Pair};
use crate::keyspace_core::Core;
use crate::options::{Durability, WriteOptions};
use crate::stalls::Cause;
use crate::view::View;
use std::sync::Arc;
use std::time::Duration;
use velella_base::{Error, ErrorKind, Result, Stamp, seeded};
use velella_journal::batch;
use velella_memtable::{Hint, Install, Owner, Pending, Undecided};
use velella_sync::epoch::{self, Guard};
use velella_sync::{PoolGuard, spot, thread};

/// How an attempt between pin and unpin ended.
pub(crate) enum Attempt {
    /// With a window.
    Ended(Ended),
    /// Waited, or somebody else was faster: try again.
    Again,
}

/// How a window ended.
pub(crate) enum Ended {
    /// Published.
    Done(Stamp, Aftermath),
    /// Step 9 said no to this stamp: unpin, see to it (`after_abort`), then try again.
    Lost(Stamp),
}

/// What a published write leaves to do, once its pair and pin are given back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aftermath {
    /// The key's chain has grown long: prune it.
    pub(crate) long_chain: bool,
    /// The memtable is full, or all of them are: switch one.
    pub(crate) full: bool,
}

impl Engine {
    /// Writes one change; returns its stamp once it is as durable as asked.
    pub(crate) fn write_one(
        &self,
        core: &Arc<Core>,
        change: &Change<'_>,
        options: WriteOptions,
    ) -> Result<Stamp> {
        let written = self.write_buffered(core, change, options);
        let stamp =
            written.inspect_err(|error| change.abandon_unless_unknown(self, core, error))?;
        self.acknowledge(stamp, options)?;
        Ok(stamp)
    }

    fn write_buffered(
        &self,
        core: &Arc<Core>,
        change: &Change<'_>,
        options: WriteOptions,
    ) -> Result<Stamp> {
        self.admit(change.key.len() + change.payload_len())?;
        let mut pair = self.checkout(options)?;
        // Closing waits for the pairs, then for nobody: who gets one later must not write.
        self.check()?;
        let hint = core.prefetch(change.key);
        reserve(&mut pair, core, change)?;
        loop {
            let guard = epoch::pin();
            match self.attempt(core, change, hint, &mut pair, &guard)? {
                Attempt::Ended(Ended::Done(stamp, aftermath)) => {
                    self.counters.writes.increment();
                    drop(pair);
                    self.tidy_up(core, change.key, aftermath, guard);
                    return Ok(stamp);
                }
                Attempt::Again => {}
                Attempt::Ended(Ended::Lost(stamp)) => {
                    drop(guard);
                    self.after_abort(core, stamp)?;
                }
            }
        }
    }

    /// Steps 2 to 12, once.
    fn attempt(
        &self,
        core: &Core,
        change: &Change<'_>,
        hint: Hint,
        pair: &mut PoolGuard<'_, Pair>,
        guard: &Guard,
    ) -> Result<Attempt> {
        let view = core.view.load(guard);
        spot(2);
        if let Some(undecided) = self.undecided_before(view, change.key, guard) {
            self.wait_for(&undecided)?;
            return Ok(Attempt::Again);
        }
        spot(3);
        self.hold_external(view, change);
        let (table, owner) = (&view.cur.table, Owner::Slot(pair.index()));
        match table.install_near(&change.intent(), owner, None, hint, guard) {
            Install::Busy(undecided) => {
                self.wait_for(&undecided)?;
                Ok(Attempt::Again)
            }
            Install::Moved => unreachable!("nothing was expected"),
            Install::Installed(pending) => {
                let ended = self.window(core, view, pending, pair, None, guard)?;
                Ok(Attempt::Ended(ended))
            }
        }
    }

    /// Step 3: an undecided version of `key` in a previous memtable that is not final yet. Every
    /// writer waits for it: a put would overtake a batch, a read-modify-write would miss it (and
    /// looks before it decides).
    #[inline]
    pub(crate) fn undecided_before<'g>(
        &self,
        view: &'g View,
        key: &[u8],
        guard: &'g Guard,
    ) -> Option<Undecided<'g>> {
        let (prev, split) = view.prev.as_ref()?;
        if split.is_quiesced() || seeded("a-write-does-not-look-below-a-switch") {
            return None;
        }
        // W first: whoever is undecided below it is then in our sight, later ones will abort.
        split.decide(&self.clock);
        prev.table.undecided(key, guard)
    }

    /// Steps 7 to 12 for a single version; `until` is when what it was decided on expires. Looking
    /// at the wall clock after the draw, it knows that no snapshot below its stamp saw that expire.
    #[inline]
    pub(crate) fn window(
        &self,
        core: &Core,
        view: &View,
        pending: Pending<'_>,
        pair: &mut PoolGuard<'_, Pair>,
        until: Option<u64>,
        guard: &Guard,
    ) -> Result<Ended> {
        spot(6);
        let window = Window::open(self, pair.index());
        spot(7);
        let stamp = self.clock.draw();
        spot(8);
        let expired = until.is_some_and(|at| self.wall.now_ms() >= at);
        if expired || !self.owns(core, view, stamp, guard) || stamp > self.clock.lease() {
            pending.abort();
            window.close();
            return Ok(Ended::Lost(stamp));
        }
        spot(9);
        if seeded("a-version-is-published-before-its-record") {
            let long_chain = pending.publish(stamp);
            thread::sleep(Duration::from_millis(1));
            let _ = complete(pair, stamp);
            window.close();
            let full = self.fills(&view.cur);
            return Ok(Ended::Done(stamp, Aftermath { long_chain, full }));
        }
        if let Err(error) = complete(pair, stamp) {
            pending.abort();
            window.close();
            self.halt_after("a write to the journal", &error);
            return Err(error.with_kind(ErrorKind::OutcomeUnknown));
        }
        spot(10);
        let long_chain = pending.publish(stamp);
        spot(11);
        window.close();
        spot(12);
        let full = self.fills(&view.cur);
        Ok(Ended::Done(stamp, Aftermath { long_chain, full }))
    }

    /// Step 9: whether the memtable that `view` writes to owns `stamp` (C4).
    #[inline]
    pub(crate) fn owns(&self, core: &Core, view: &View, stamp: Stamp, guard: &Guard) -> bool {
        let now = core.view.load(guard);
        if Arc::ptr_eq(&now.cur, &view.cur) || seeded("a-write-does-not-look-at-the-view-again") {
            return !core.is_dropped();
        }
        let before = now
            .prev
            .as_ref()
            .filter(|(prev, _)| Arc::ptr_eq(prev, &view.cur));
        before.is_some_and(|(_, split)| stamp < split.decide(&self.clock)) && !core.is_dropped()
    }

    /// What to do before the next attempt after step 9 said no; unpinned, since the lease may have
    /// to be extended, which waits for the device.
    #[cold]
    pub(crate) fn after_abort(&self, core: &Core, stamp: Stamp) -> Result<()> {
        self.counters.switch_aborts.increment();
        self.check()?;
        core.check_writable()?;
        if stamp > self.clock.lease() {
            let started = thread::now();
            self.extend_lease(stamp)?;
            self.stalls.note(Cause::Lease, started.elapsed());
        }
        Ok(())
    }

    /// Waits for the owner of an undecided version: a constant window, or the rest of a batch's
    /// installs. The caller tries again afterwards, with a new pin; unless writing has ended.
    #[cold]
    pub(crate) fn wait_for(&self, undecided: &Undecided<'_>) -> Result<()> {
        for _ in 0..100 {
            if undecided.is_decided() {
                return Ok(());
            }
            velella_sync::atomic::spin();
        }
        let started = thread::now();
        for turn in 0..50 {
            if undecided.is_decided() {
                break;
            }
            // Its owner may have lost its processor in the middle of its window.
            if turn < 10 {
                thread::yield_now()
            } else {
                thread::sleep(Duration::from_micros(20))
            }
        }
        self.stalls.note(Cause::Key, started.elapsed());
        self.check()
    }

    /// An external value lives at least as long as the memtable that refers to it. Taken before
    /// the version is installed: it takes locks, and whoever wants the key then would wait.
    #[inline]
    pub(crate) fn hold_external(&self, view: &View, change: &Change<'_>) {
        if let Some(file) = change.external {
            let external = self.env.externals.hold(file);
            view.cur.hold(file, external, change.external_bytes);
        }
    }

    /// What a published write leaves to do.
    #[inline]
    pub(crate) fn tidy_up(&self, core: &Arc<Core>, key: &[u8], aftermath: Aftermath, guard: Guard) {
        if aftermath.long_chain {
            self.prune([(core, key)], &guard);
        }
        drop(guard);
        if aftermath.full {
            // The write has happened; what stops writers now is the next one's business.
            let _ = self.make_room(core);
        }
    }

    /// Drops from the lists of `keys` what nobody reads any more.
    #[cold]
    pub(crate) fn prune<'a>(
        &self,
        keys: impl IntoIterator<Item = (&'a Arc<Core>, &'a [u8])>,
        guard: &Guard,
    ) {
        let retention = self.retention();
        for (core, key) in keys {
            self.counters.prunes.increment();
            let view = core.view.load(guard);
            spot(25);
            view.cur.table.prune(key, &retention, guard);
        }
    }

    /// Step 13: returns once `stamp` is as durable as the caller asked.
    #[inline]
    pub(crate) fn acknowledge(&self, stamp: Stamp, options: WriteOptions) -> Result<()> {
        spot(13);
        let acknowledged = self.wait_as_asked(stamp, options);
        // It is in the journal, and was read by others: nobody may take it for refused.
        acknowledged.map_err(|error| error.with_kind(ErrorKind::OutcomeUnknown))
    }

    /// Returns once `stamp` is as durable as a write with these options is to be.
    pub(crate) fn wait_as_asked(&self, stamp: Stamp, options: WriteOptions) -> Result<()> {
        match options.durability.unwrap_or(self.options.durability) {
            _ if seeded("a-sync-write-does-not-wait") => Ok(()),
            Durability::Buffered => Ok(()),
            Durability::Sync => self.make_durable(stamp, Duration::ZERO),
            Durability::Group(wait) => self.make_durable(stamp, wait),
        }
    }
}

/// An open window; it must be closed by hand. Dropped by a panic it poisons the database (C3):
/// the record may be complete, so the write may come back when the database is opened again.
pub(crate) struct Window<'a> {
    engine: &'a Engine,
    slot: usize,
}

impl<'a> Window<'a> {
    /// Step 7.
    #[inline]
    pub(crate) fn open(engine: &'a Engine, slot: usize) -> Self {
        if !seeded("a-window-is-not-announced") {
            engine.slots.announce(slot, engine.clock.lower_bound());
        }
        Window { engine, slot }
    }

    /// Step 12.
    #[inline]
    pub(crate) fn close(self) {
        self.engine.slots.idle(self.slot);
        std::mem::forget(self);
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        self.engine.halt(
            Error::new(
                ErrorKind::ReadOnly,
                "go on writing",
                "a write panicked in its window",
            )
            .remedy("open the database again, and report this"),
        );
        // After the journal was poisoned: D stays below the stamp. The version is aborted by the
        // same panic, and a reader that finds it pending meanwhile passes over it for good.
        self.engine.slots.idle(self.slot);
    }
}

/// Step 0 for a single change: the payload goes to the lane's end, invisible to recovery.
#[inline]
pub(crate) fn reserve(pair: &mut Pair, core: &Core, change: &Change<'_>) -> Result<()> {
    let Some(lane) = pair else { return Ok(()) };
    let mut buffer = [0; batch::HEADER_BYTES_MAX];
    let [head, tail] = change.payload();
    let header = batch::single_header(
        &mut buffer,
        core.id,
        change.kind,
        change.key.len(),
        head.len() + tail.len(),
    );
    lane.reserve(&[header, change.key, head, tail])
}

/// Step 10.
#[inline]
pub(crate) fn complete(pair: &mut Pair, stamp: Stamp) -> Result<()> {
    match pair {
        Some(_) if seeded("every-16th-record-stays-incomplete") && stamp.0.is_multiple_of(16) => {
            Ok(())
        }
        Some(lane) => lane.commit(stamp),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
