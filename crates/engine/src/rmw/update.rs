//! Read-modify-writes that decide on the value where it lies.
//!
//! Source: cLSM (EuroSys '15) 3.3, Algorithm 3, as `rmw`, whose R2 and R4 hold here as well.
//!
//! U1. The base was the key's newest version when the new one was installed above it: one pin holds
//!     from the look until the window is closed, and the install expects the head that the look
//!     found. So nothing is copied but what is written, and nothing is looked for twice.
//! U2. Where the head is not the key's any more, all of it is done again. What else keeps it from
//!     writing at once ends in `rmw`'s way, without this pin: the memtable takes no writes any
//!     more, no pair is free, or the new value goes to a file of its own. That compares stamps
//!     (R1), so no switch has a decision repeated.
//! U3. While the decision runs, this thread keeps the whole database's freed memory from being
//!     given back; and while lane space is reserved, which takes long only for a new extent or a
//!     large record. It holds no slot and no lane, so the decision may read and write; a write in
//!     it that waits for memory waits for a flush, which needs no pin to end (`backpressure.rs`,
//!     A3).
//!
//! Threads: any. Tests: `rmw/tests.rs`, `tests/rmw.rs`, `read/tests.rs`.

use super::Basis;
use crate::commit::{Aftermath, Ended, reserve};
use crate::core::Engine;
use crate::entry::{Decision, EntryInfo, Lent};
use crate::keyspace_core::Core;
use crate::options::WriteOptions;
use crate::read::{Base, Reader, Said, Seen};
use crate::view::View;
use std::sync::Arc;
use velella_base::{Error, Result, Stamp, seeded};
use velella_memtable::{Head, Install, Newest, Owner};
use velella_sync::epoch::{self, Guard};

/// What an update that looks again has found before (`rmw`, R4).
struct Doubts {
    /// Stamp of the version that was found expired.
    expired: Option<Stamp>,
    /// The tree's, before the memtables were searched.
    generation: u64,
}

impl Doubts {
    /// Notes what was found without a live entry; whether the key may have one after all.
    fn raise<T>(&mut self, core: &Core, base: &Base<'_>, said: &Said<T>) -> bool {
        match said {
            Said::Live(_) => false,
            Said::Absent => base.is_overtaken(core, &mut self.generation),
            Said::Expired => self.expired.replace(base.stamp()) != Some(base.stamp()),
        }
    }
}

/// Where a key was found, as long as the pin holds.
struct Found<'g> {
    view: &'g View,
    head: Head<'g>,
    base: Base<'g>,
    /// Without the time when its entry expires, until that has been seen.
    basis: Basis,
}

/// What became of a try to write at once.
enum AtOnce {
    /// The stamp, what it leaves to do, and bytes of its payload.
    Written(Stamp, Aftermath, usize),
    /// The head that was found is not the key's any more.
    Moved,
    /// It ends in another way (U2), once what step 9 refused is seen to.
    PutOff { lost: Option<Stamp> },
}

impl Engine {
    /// As `rmw`, but the entry is lent where it lies, and what is decided goes above it under the
    /// same pin; the stamp of the write, if there was one.
    pub(crate) fn update<'v, E: From<Error>>(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: WriteOptions,
        decide: &mut dyn FnMut(Option<Lent<'_>>) -> Result<Decision<'v>, E>,
    ) -> Result<Option<Stamp>, E> {
        self.update_seen(core, key, options, |seen| match seen {
            Some(seen) => self.lend_seen(seen, |lent| decide(Some(lent)))?,
            None => decide(None),
        })
    }

    /// As `update`, but the value is not read: `decide` is told of it.
    pub(crate) fn update_unread<'v, E: From<Error>>(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: WriteOptions,
        decide: &mut dyn FnMut(Option<EntryInfo>) -> Result<Decision<'v>, E>,
    ) -> Result<Option<Stamp>, E> {
        self.update_seen(core, key, options, |seen| decide(seen.map(Seen::info)))
    }

    fn update_seen<'v, E: From<Error>>(
        &self,
        core: &Arc<Core>,
        key: &[u8],
        options: WriteOptions,
        mut decide: impl FnMut(Option<&Seen<'_>>) -> Result<Decision<'v>, E>,
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
            let Some(mut found) = self.find_to_update(core, key, &guard)? else {
                self.counters.rmw_retries.increment();
                continue;
            };
            let said = self.seen(core, &found.base)?;
            if doubts.raise(core, &found.base, &said) {
                continue;
            }
            let decision = match &said {
                Said::Live(seen) => {
                    found.basis.until = seen.expires_at_ms;
                    decide(Some(seen))?
                }
                Said::Absent | Said::Expired => decide(None)?,
            };
            if decision == Decision::Keep {
                return Ok(None);
            }
            velella_sync::spot(1);
            match self.write_at_once(core, key, &decision, &found, options, &guard)? {
                AtOnce::Written(stamp, aftermath, bytes) => {
                    self.counters.writes.increment();
                    drop(found);
                    self.tidy_up(core, key, aftermath, guard);
                    // Not before: a writer waits with nothing held.
                    self.charge(bytes);
                    self.acknowledge(stamp, options)?;
                    return Ok(Some(stamp));
                }
                AtOnce::Moved => {}
                AtOnce::PutOff { lost } => {
                    let Found { base, basis, .. } = found;
                    // With what it holds of a table, and what the pin holds of all else.
                    drop(base);
                    drop(guard);
                    if let Some(stamp) = lost {
                        self.after_abort(core, stamp)?;
                    }
                    if let Some(change) = self.change_to(key, &decision)?
                        && let Some(stamp) = self.finish_above(core, &change, &basis, options)?
                    {
                        return Ok(Some(stamp));
                    }
                }
            }
            self.counters.rmw_retries.increment();
        }
    }

    /// Where the key's newest version is; `None` after waiting for an undecided one.
    fn find_to_update<'g>(
        &self,
        core: &'g Core,
        key: &[u8],
        guard: &'g Guard,
    ) -> Result<Option<Found<'g>>> {
        core.check_writable()?;
        let view = core.view.load(guard);
        velella_sync::spot(2);
        let mut hint = view.cur.table.prefetch(key, guard);
        if let Some(undecided) = self.undecided_before(view, key, guard) {
            self.wait_for(&undecided)?;
            return Ok(None);
        }
        let (head, base, absent_in) = match view.cur.table.newest(key, guard) {
            Newest::Busy(undecided) => {
                self.wait_for(&undecided)?;
                return Ok(None);
            }
            Newest::Decided(head, Some(version)) => {
                hint = head.hint();
                (head, Base::Memory(version), None)
            }
            Newest::Decided(head, None) => {
                // As in `look_once`.
                view.cur.table.approach(hint);
                let base = self.below_current(core, view, key, Reader::NEWEST.at, guard)?;
                (head, base, Some(view.cur.table.identity()))
            }
        };
        let basis = Basis {
            until: None,
            stamp: base.stamp(),
            absent_in,
            hint,
        };
        Ok(Some(Found {
            view,
            head,
            base,
            basis,
        }))
    }

    /// Writes what was decided at the head that was found, if that can be done at once (U2).
    fn write_at_once(
        &self,
        core: &Core,
        key: &[u8],
        decision: &Decision<'_>,
        found: &Found<'_>,
        options: WriteOptions,
        guard: &Guard,
    ) -> Result<AtOnce> {
        if decision.value_bytes() > self.sizes.inline_value_bytes {
            return Ok(AtOnce::PutOff { lost: None });
        }
        let Some(change) = self.change_to(key, decision)? else {
            return Ok(AtOnce::PutOff { lost: None });
        };
        debug_assert!(change.external.is_none(), "nobody would hold or abandon it");
        let Some(mut pair) = self.checkout_now(options) else {
            return Ok(AtOnce::PutOff { lost: None });
        };
        // Closing waits for the pairs, then for nobody: who gets one later must not write.
        self.check()?;
        reserve(&mut pair, core, &change)?;
        velella_sync::spot(5);
        let Found {
            view, head, basis, ..
        } = found;
        let (table, owner) = (&view.cur.table, Owner::Slot(pair.index()));
        let forgotten = seeded("an-update-forgets-what-it-was-based-on");
        let expected = (!forgotten).then_some(head);
        let installed = table.install_near(&change.intent(), owner, expected, basis.hint, guard);
        let Install::Installed(pending) = installed else {
            return Ok(AtOnce::Moved);
        };
        Ok(
            match self.window(core, view, pending, &mut pair, basis.until, guard)? {
                Ended::Lost(stamp) => AtOnce::PutOff { lost: Some(stamp) },
                Ended::Done(stamp, aftermath) => {
                    AtOnce::Written(stamp, aftermath, change.payload_len())
                }
            },
        )
    }
}
