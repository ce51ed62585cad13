//! Read-modify-writes that decide on the value where it lies.
//!
//! Source: cLSM (EuroSys '15) 3.3, Algorithm 3, as `rmw`, whose R2 and R4 hold here as well.
//!
//! U1. The base was the key's newest version when the new one was installed above it: one pin holds
//!     from the look until the window is closed, and the install expects the head that the look
//!     found. Where that is not the key's any more, all of it is done again.
//! U2. So nothing is copied but what is written, and nothing is looked for twice; but while the
//!     decision runs, this thread keeps the whole database's freed memory from being given back.
//!     It holds no slot and no lane, so the decision may read and write.
//!
//! Threads: any. Tests: `rmw/tests.rs`, `tests/rmw.rs`, `read/tests.rs`.

use crate::change::Change;
use crate::commit::{Aftermath, Attempt, reserve};
use crate::core::Engine;
use crate::entry::{Decision, Lent};
use crate::keyspace_core::Core;
use crate::options::WriteOptions;
use crate::read::{Base, Reader, Said};
use crate::view::View;
use std::sync::Arc;
use velella_base::{Error, Result, Stamp, seeded};
use velella_memtable::{Head, Hint, Install, Newest, Owner};
use velella_sync::epoch::{self, Guard};

/// What an update that was tried again has found before (`rmw`, R4).
struct Doubts {
    /// Stamp of the version that was found expired.
    expired: Option<Stamp>,
    /// The tree's, before the memtables were searched.
    generation: u64,
}

impl Doubts {
    /// Whether the key may be alive after all, which `base` has no live entry of.
    fn are_raised<T>(&mut self, core: &Core, base: &Base<'_>, said: &Said<T>) -> bool {
        match said {
            Said::Live(_) => false,
            Said::Absent => base.is_overtaken(core, &mut self.generation),
            Said::Expired => self.expired.replace(base.stamp()) != Some(base.stamp()),
        }
    }
}

/// Where an update writes, and until when what it was decided on is live.
struct Aim<'g> {
    view: &'g View,
    head: Head<'g>,
    hint: Hint,
    until: Option<u64>,
}

/// What became of a try to update.
enum Tried {
    /// The key has changed, or is about to.
    Again,
    /// What was found may be out of date (`rmw`, R4).
    Doubtful,
    Kept,
    /// Its stamp, and bytes of its payload.
    Written(Stamp, Aftermath, usize),
}

impl Engine {
    /// As `rmw`, but the entry is lent where it lies, and what is decided goes above it under the
    /// same pin; the stamp of the write, if there was one.
    pub(crate) fn update<E: From<Error>>(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: WriteOptions,
        decide: &mut dyn FnMut(Option<Lent<'_>>) -> Result<Decision, E>,
    ) -> Result<Option<Stamp>, E> {
        velella_base::limits::check_key(key)?;
        self.counters.rmws.increment();
        let mut doubts = Doubts {
            expired: None,
            generation: core.tree.generation(),
        };
        loop {
            self.admit(key.len())?;
            let guard = epoch::pin();
            match self.update_once(core, key, options, &mut doubts, decide, &guard)? {
                Tried::Again => self.counters.rmw_retries.increment(),
                Tried::Doubtful => {}
                Tried::Kept => return Ok(None),
                Tried::Written(stamp, aftermath, bytes) => {
                    self.counters.writes.increment();
                    self.tidy_up(core, key, aftermath, guard);
                    // Not before: a writer waits with nothing held.
                    self.charge(bytes);
                    self.acknowledge(stamp, options)?;
                    return Ok(Some(stamp));
                }
            }
        }
    }

    fn update_once<E: From<Error>>(
        &self,
        core: &Core,
        key: &[u8],
        options: WriteOptions,
        doubts: &mut Doubts,
        decide: &mut dyn FnMut(Option<Lent<'_>>) -> Result<Decision, E>,
        guard: &Guard,
    ) -> Result<Tried, E> {
        core.check_writable()?;
        let view = core.view.load(guard);
        velella_sync::spot(2);
        let mut hint = view.cur.table.prefetch(key, guard);
        if let Some(undecided) = self.undecided_before(view, key, guard) {
            self.wait_for(&undecided)?;
            return Ok(Tried::Again);
        }
        let (head, base) = match view.cur.table.newest(key, guard) {
            Newest::Busy(undecided) => {
                self.wait_for(&undecided)?;
                return Ok(Tried::Again);
            }
            Newest::Decided(head, Some(version)) => {
                hint = head.hint();
                (head, Base::Memory(version))
            }
            Newest::Decided(head, None) => {
                let base = self.below_current(core, view, key, Reader::NEWEST.at, guard)?;
                (head, base)
            }
        };
        let mut until = None;
        let said = self.lend(core, &base, |lent| {
            until = lent.expires_at_ms;
            decide(Some(lent))
        })?;
        let decision = match said {
            Said::Live(decision) => decision?,
            said if doubts.are_raised(core, &base, &said) => return Ok(Tried::Doubtful),
            Said::Absent | Said::Expired => decide(None)?,
        };
        let Some(change) = self.change_to(key, &decision)? else {
            return Ok(Tried::Kept);
        };
        velella_sync::spot(1);
        let aim = Aim {
            view,
            head,
            hint,
            until,
        };
        let attempt = self.write_at(core, &change, aim, options, guard);
        let attempt = attempt.inspect_err(|error| change.abandon_unless_unknown(self, error))?;
        match attempt {
            Attempt::Again => {
                change.abandon(self);
                Ok(Tried::Again)
            }
            Attempt::Done(stamp, aftermath) => {
                Ok(Tried::Written(stamp, aftermath, change.payload_len()))
            }
        }
    }

    /// Installs and publishes `change` at the head that was looked at, if that is still the key's.
    fn write_at(
        &self,
        core: &Core,
        change: &Change<'_>,
        aim: Aim<'_>,
        options: WriteOptions,
        guard: &Guard,
    ) -> Result<Attempt> {
        let mut pair = self.checkout(options)?;
        // Closing waits for the pairs, then for nobody: who gets one later must not write.
        self.check()?;
        reserve(&mut pair, core, change)?;
        velella_sync::spot(5);
        let Aim {
            view,
            head,
            hint,
            until,
        } = aim;
        self.hold_external(view, change);
        let (table, owner) = (&view.cur.table, Owner::Slot(pair.index()));
        let forgotten = seeded("an-update-forgets-what-it-was-based-on");
        let expected = (!forgotten).then_some(&head);
        match table.install_near(&change.intent(), owner, expected, hint, guard) {
            Install::Busy(_) | Install::Moved => Ok(Attempt::Again),
            Install::Installed(pending) => {
                self.window(core, view, pending, &mut pair, until, guard)
            }
        }
    }
}
