//! Read-modify-write on one key: never a lost update, no lock.
//!
//! Source: cLSM (EuroSys '15) 3.3, Algorithm 3; but the expected state is the head of the key's
//! version list, so a put with any stamp is seen (CL-1 is a lost update in the paper).
//!
//! R1. The base was the key's newest version when the new one was installed above it: the install
//!     expects exactly the head the base was read under.
//! R2. If the base comes from below the current memtable, the previous one had no undecided
//!     version of the key after W was decided: nothing can appear there any more.
//! R3. The decision runs with no slot announced and no lane reserved; it may run several times.
//!
//! Tests: `cl1_put_under_rmw`, `rmw_loses_no_update`, `rmw_across_switches`.

use crate::change::Change;
use crate::commit::{Aftermath, Attempt, reserve};
use crate::core::Engine;
use crate::entry::{Decision, Entry, RmwOutcome};
use crate::keyspace_core::Core;
use crate::options::WriteOptions;
use crate::read::{Base, Reader};
use crate::view::View;
use std::sync::Arc;
use velella_base::{Error, Result, Stamp};
use velella_memtable::{Head, Install, Newest, Owner};
use velella_sync::epoch::{self, Guard};

enum Step {
    /// Nothing was to be written.
    Kept(RmwOutcome),
    Written(RmwOutcome, Stamp, Aftermath),
    Again,
}

impl Engine {
    /// Reads `key`, lets `decide` see its entry, and writes the decision above what it saw.
    pub(crate) fn rmw<E: From<Error>>(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: WriteOptions,
        decide: &mut dyn FnMut(Option<&Entry>) -> Result<Decision, E>,
    ) -> Result<RmwOutcome, E> {
        velella_base::limits::check_key(key)?;
        self.counters.rmws.increment();
        loop {
            self.admit(key.len())?;
            let guard = epoch::pin();
            match self.rmw_attempt(core, key, decide, &guard)? {
                Step::Again => self.counters.rmw_retries.increment(),
                Step::Kept(outcome) => return Ok(outcome),
                Step::Written(outcome, stamp, aftermath) => {
                    self.tidy_up(core, key, aftermath, guard);
                    self.acknowledge(stamp, options)?;
                    return Ok(outcome);
                }
            }
        }
    }

    fn rmw_attempt<E: From<Error>>(
        &self,
        core: &Core,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&Entry>) -> Result<Decision, E>,
        guard: &Guard,
    ) -> Result<Step, E> {
        let view = core.view.load(guard);
        if let Some(undecided) = self.undecided_before(view, key, guard) {
            self.wait_for(&undecided)?;
            return Ok(Step::Again);
        }
        let (head, newest) = match view.cur.table.newest(key, guard) {
            Newest::Busy(undecided) => {
                self.wait_for(&undecided)?;
                return Ok(Step::Again);
            }
            Newest::Decided(head, newest) => (head, newest),
        };
        let base = match newest {
            Some(version) => Base::Memory(version),
            None => self.below_current(core, view, key, Reader::NEWEST.at, guard)?,
        };
        let old = self.entry_of(core, &base, None)?;
        let decision = decide(old.as_ref())?;
        let change = match &decision {
            Decision::Keep => {
                return Ok(Step::Kept(RmwOutcome {
                    old,
                    decision,
                    stamp: None,
                }));
            }
            Decision::Put(value) => Change::put(self, key, value, None)?,
            Decision::PutExpiring(value, expires) => Change::put(self, key, value, Some(*expires))?,
            Decision::Delete => Change::delete(key)?,
        };
        let attempt = self.install_above(core, view, &change, &head, guard);
        match attempt.inspect_err(|error| change.abandon_unless_unknown(self, error))? {
            Attempt::Again => {
                change.abandon(self);
                Ok(Step::Again)
            }
            Attempt::Done(stamp, aftermath) => {
                let outcome = RmwOutcome {
                    old,
                    decision,
                    stamp: Some(stamp),
                };
                Ok(Step::Written(outcome, stamp, aftermath))
            }
        }
    }

    /// Installs and publishes `change` if the key's newest version is still `head` (R1).
    fn install_above<'g>(
        &self,
        core: &Core,
        view: &'g View,
        change: &Change<'_>,
        head: &Head<'g>,
        guard: &'g Guard,
    ) -> Result<Attempt> {
        let mut pair = self.checkout();
        // Closing waits for the pairs, then for nobody: who gets one later must not write.
        self.check()?;
        reserve(&mut pair, core, change)?;
        self.counters.writes.increment();
        self.hold_external(view, change);
        let owner = Owner::Slot(pair.index());
        match view
            .cur
            .table
            .install(&change.intent(), owner, Some(head), guard)
        {
            Install::Busy(_) | Install::Moved => Ok(Attempt::Again),
            Install::Installed(pending) => self.window(core, view, pending, &mut pair, guard),
        }
    }
}
