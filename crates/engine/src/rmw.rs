//! Read-modify-write on one key: never a lost update, no lock.
//!
//! Source: cLSM (EuroSys '15) 3.3, Algorithm 3; but the expected state is the head of the key's
//! version list, so a put with any stamp is seen (CL-1 is a lost update in the paper).
//!
//! R1. The base was the key's newest version when the new one was installed above it: right before,
//!     the newest version was found to be the one that was decided on, by its stamp, and the
//!     install expects exactly the head that was looked at for that. Or the memtable that takes
//!     the writes is the one that had no version of the key then, and the install expects none.
//! R2. If the base comes from below the current memtable, the previous one had no undecided
//!     version of the key after W was decided: nothing can appear there any more.
//! R3. The decision runs with nothing held: no pin, no slot, no lane. It may run several times.
//! R4. A base that expires before the stamp is drawn was no base: the decision runs again. One that
//!     is found expired, or absent in a tree that has changed, is looked at again (`read.rs`, G4):
//!     the decision may be to write nothing, and then nobody looks again.
//!
//! Tests: below, `read/tests.rs`, `cl1_put_under_rmw`,
//! `rmw_loses_no_update_across_switches`.

use crate::change::Change;
use crate::commit::{Aftermath, Attempt, Ended, reserve};
use crate::core::{Engine, Pair};
use crate::entry::{Decision, Entry, RmwOutcome};
use crate::keyspace_core::Core;
use crate::options::WriteOptions;
use crate::read::{Base, Reader, Said};
use crate::view::View;
use std::sync::Arc;
use velella_base::{Error, Result, Stamp, seeded};
use velella_memtable::{Hint, Identity, Install, Newest, Owner, Version};
use velella_sync::PoolGuard;
use velella_sync::epoch::{self, Guard};

/// What a decision was made on, for the write above it.
struct Basis {
    /// When the entry expires, if there was one and it does.
    until: Option<u64>,
    /// Stamp of the key's newest version, a tombstone's too; zero if there was none.
    stamp: Stamp,
    /// The memtable that took the writes, if it had no version of the key: as long as it takes
    /// them and has none, the base is the same.
    absent_in: Option<Identity>,
    /// Where the write will be, so that it need not be looked for again.
    hint: Hint,
}

/// Why a second look may find the key alive that was found absent (R4).
enum Doubt {
    Nothing,
    /// The clock was asked only then.
    Expired,
    /// What was found in memory and in the tree is not of one moment.
    Overtaken,
}

/// The key's entry, if there is one, and what a decision on it is made on.
type Looked = (Option<Entry>, Basis);

/// A published write, and what to do about it.
type Published = (Stamp, Aftermath, Guard);

impl Engine {
    /// Reads `key`, lets `decide` see its entry, and writes the decision above what it saw.
    pub(crate) fn rmw<'v, E: From<Error>>(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: WriteOptions,
        decide: &mut dyn FnMut(Option<&Entry>) -> Result<Decision<'v>, E>,
    ) -> Result<RmwOutcome<'v>, E> {
        velella_base::limits::check_key(key)?;
        self.counters.rmws.increment();
        loop {
            self.admit(key.len())?;
            let Some((old, basis)) = self.look(core, key)? else {
                self.counters.rmw_retries.increment();
                continue;
            };
            let decision = decide(old.as_ref())?;
            let Some(change) = self.change_to(key, &decision)? else {
                return Ok(RmwOutcome {
                    old,
                    decision,
                    stamp: None,
                });
            };
            velella_sync::spot(1);
            let Some(stamp) = self.finish_above(core, &change, &basis, options)? else {
                self.counters.rmw_retries.increment();
                continue;
            };
            return Ok(RmwOutcome {
                old,
                decision,
                stamp: Some(stamp),
            });
        }
    }

    /// Writes `change` above what was decided on, all of it: its stamp; `None` if that is not the
    /// key's newest any more, and nothing is left of the change.
    fn finish_above(
        &self,
        core: &Arc<Core>,
        change: &Change<'_>,
        basis: &Basis,
        options: WriteOptions,
    ) -> Result<Option<Stamp>> {
        let published = self.write_above(core, change, basis, options);
        let published =
            published.inspect_err(|error| change.abandon_unless_unknown(self, core, error))?;
        let Some((stamp, aftermath, guard)) = published else {
            change.abandon(self, core);
            return Ok(None);
        };
        self.tidy_up(core, change.key, aftermath, guard);
        // Not before: a pause between look and write is time for another's write.
        self.charge(change.payload_len());
        self.acknowledge(stamp, options)?;
        Ok(Some(stamp))
    }

    /// The key's entry, to decide on; `None` after waiting for an undecided one.
    fn look(&self, core: &Core, key: &[u8]) -> Result<Option<Looked>> {
        let (mut expired, mut generation) = (None, core.tree.generation());
        loop {
            let Some((seen, doubt)) = self.look_once(core, key, &mut generation)? else {
                return Ok(None);
            };
            match doubt {
                Doubt::Nothing => return Ok(Some(seen)),
                Doubt::Expired if expired == Some(seen.1.stamp) => return Ok(Some(seen)),
                Doubt::Expired => expired = Some(seen.1.stamp),
                Doubt::Overtaken => {}
            }
        }
    }

    /// As `look`, which began when the tree was that of `generation`; what it found is to be taken
    /// with a doubt.
    fn look_once(
        &self,
        core: &Core,
        key: &[u8],
        generation: &mut u64,
    ) -> Result<Option<(Looked, Doubt)>> {
        core.check_writable()?;
        let guard = epoch::pin();
        let view = core.view.load(&guard);
        // If tables are read first, nothing of it is left to wait for when the write comes.
        let mut hint = view.cur.table.prefetch(key, &guard);
        if let Some(undecided) = self.undecided_before(view, key, &guard) {
            self.wait_for(&undecided)?;
            return Ok(None);
        }
        let (base, absent_in) = match view.cur.table.newest(key, &guard) {
            Newest::Busy(undecided) => {
                self.wait_for(&undecided)?;
                return Ok(None);
            }
            Newest::Decided(head, Some(version)) => {
                hint = head.hint();
                (Base::Memory(version), None)
            }
            Newest::Decided(_, None) => {
                view.cur.table.approach(hint);
                let base = self.below_current(core, view, key, Reader::NEWEST.at, &guard)?;
                (base, Some(view.cur.table.identity()))
            }
        };
        let (old, doubt) = match self.entry_of(core, &base)? {
            Said::Live(entry) => (Some(entry), Doubt::Nothing),
            Said::Absent if base.is_overtaken(core, generation) => (None, Doubt::Overtaken),
            Said::Absent => (None, Doubt::Nothing),
            Said::Expired => (None, Doubt::Expired),
        };
        let basis = Basis {
            until: old.as_ref().and_then(|old| old.expires_at_ms),
            stamp: base.stamp(),
            absent_in,
            hint,
        };
        Ok(Some(((old, basis), doubt)))
    }

    /// The change that `decision` asks for, if it does.
    fn change_to<'a>(
        &self,
        key: &'a [u8],
        decision: &'a Decision<'_>,
    ) -> Result<Option<Change<'a>>> {
        match decision {
            Decision::Keep => Ok(None),
            Decision::Put(value) => Change::put(self, key, value, None).map(Some),
            Decision::PutExpiring(value, expires) => {
                Change::put(self, key, value, Some(*expires)).map(Some)
            }
            Decision::Delete => Change::delete(key).map(Some),
        }
    }

    /// Installs and publishes `change` above what was decided on; `None` if that is not the key's
    /// newest any more (R1).
    fn write_above(
        &self,
        core: &Core,
        change: &Change<'_>,
        basis: &Basis,
        options: WriteOptions,
    ) -> Result<Option<Published>> {
        let mut pair = self.checkout(options)?;
        // Closing waits for the pairs, then for nobody: who gets one later must not write.
        self.check()?;
        reserve(&mut pair, core, change)?;
        let mut is_first = true;
        loop {
            let guard = epoch::pin();
            let attempt = self.attempt_above(core, change, basis, is_first, &mut pair, &guard)?;
            is_first = false;
            match attempt {
                None => return Ok(None),
                Some(Attempt::Again) => {}
                Some(Attempt::Ended(Ended::Lost(stamp))) => {
                    drop(guard);
                    self.after_abort(core, stamp)?;
                }
                Some(Attempt::Ended(Ended::Done(stamp, aftermath))) => {
                    self.counters.writes.increment();
                    return Ok(Some((stamp, aftermath, guard)));
                }
            }
        }
    }

    /// As `write_above`, once; the first time, what was seen may be taken to be so still.
    fn attempt_above(
        &self,
        core: &Core,
        change: &Change<'_>,
        basis: &Basis,
        is_first: bool,
        pair: &mut PoolGuard<'_, Pair>,
        guard: &Guard,
    ) -> Result<Option<Attempt>> {
        let view = core.view.load(guard);
        velella_sync::spot(2);
        let head = if is_first && basis.absent_in == Some(view.cur.table.identity()) {
            // Below it all is as it was (R2), and in it the installation looks.
            view.cur.table.absent(guard)
        } else {
            if let Some(undecided) = self.undecided_before(view, change.key, guard) {
                self.wait_for(&undecided)?;
                return Ok(Some(Attempt::Again));
            }
            let newest = view.cur.table.newest_near(change.key, basis.hint, guard);
            let (head, newest) = match newest {
                Newest::Busy(undecided) => {
                    self.wait_for(&undecided)?;
                    return Ok(Some(Attempt::Again));
                }
                Newest::Decided(head, newest) => (head, newest),
            };
            if !self.is_base(core, view, change.key, newest, basis, guard)? {
                return Ok(None);
            }
            head
        };
        velella_sync::spot(5);
        self.hold_external(view, change);
        let (table, owner) = (&view.cur.table, Owner::Slot(pair.index()));
        let attempt =
            match table.install_near(&change.intent(), owner, Some(&head), basis.hint, guard) {
                // Somebody was faster: what he wrote shows in the next look.
                Install::Busy(_) | Install::Moved => Attempt::Again,
                Install::Installed(pending) => {
                    let until = basis.until;
                    Attempt::Ended(self.window(core, view, pending, pair, until, guard)?)
                }
            };
        Ok(Some(attempt))
    }

    /// Whether what was decided on is what the key says, `newest` being its newest version in the
    /// current memtable.
    fn is_base(
        &self,
        core: &Core,
        view: &View,
        key: &[u8],
        newest: Option<Version<'_>>,
        basis: &Basis,
        guard: &Guard,
    ) -> Result<bool> {
        if basis.until.is_some_and(|at| self.wall.now_ms() >= at) {
            return Ok(false);
        }
        let stamp = match newest {
            Some(version) => version.stamp,
            None if basis.absent_in == Some(view.cur.table.identity()) => return Ok(true),
            None => {
                let base = self.below_current(core, view, key, Reader::NEWEST.at, guard)?;
                base.stamp()
            }
        };
        Ok(stamp == basis.stamp || seeded("an-update-forgets-what-it-was-based-on"))
    }
}

mod update;

#[cfg(test)]
mod tests;
