//! Atomic batches over any keys of any keyspaces, and their conditional form.
//!
//! Source: neither cLSM (its batches stop every writer, and gets see half of one: CL-6, CL-7) nor
//! JellyFish (which drops members: JF-2). Here all versions of a batch share one commit cell.
//!
//! B1. Keys are installed in one global order (keyspace, then key), each once: two batches cannot
//!     wait for each other, a batch cannot wait for itself.
//! B2. One stamp, one journal record, one store to the cell: every reader sees all or nothing.
//! B3. A batch that waits is not announced: it holds back writers of its keys, nobody else.
//! B4. Conditional: an intent freezes its key, so the newest committed version below it decides;
//!     first committer wins (snapshot isolation).
//! B5. Keyspaces of another database, or of an earlier opening of this one, are refused before
//!     anything happens: their memtables are not ours.
//! B6. It begins anew at most once for a switch: having lost an attempt, it keeps switches off in
//!     the next. A batch larger than the write buffer would else bring about the next one itself.
//!     Writers that find their memtable full meanwhile go on in it.
//!
//! Tests: `cl6_torn_batch`, `batches_in_opposite_order_…`, `batch_overtaken_by_put`,
//! `a_batch_larger_than_the_write_buffer_ends_beside_other_writers`.

use crate::change::Change;
use crate::commit::{Window, complete};
use crate::core::{Engine, Pair};
use crate::keyspace_core::Core;
use crate::options::WriteOptions;
use crate::read::Reader;
use crate::switch::SwitchesOff;
use crate::view::View;
use std::sync::Arc;
use velella_base::limits::{BATCH_BYTES_MAX, BATCH_OPERATIONS_MAX};
use velella_base::{Error, ErrorKind, Result, Stamp, seeded};
use velella_memtable::{BatchCell, Hint, Install, Owner, Pending};
use velella_sync::PoolGuard;
use velella_sync::epoch::{self, Guard};

/// How many keys of a batch ahead a key's place is asked for (decision 0013).
const AHEAD: usize = 4;
/// How many ahead what is behind that: it has arrived by then.
const NEAR: usize = AHEAD / 2;

/// One operation of a batch, as the user gave it.
#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) core: Arc<Core>,
    pub(crate) key: Vec<u8>,
    /// `None`: delete.
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) expires_at_ms: Option<u64>,
}

/// Changes in the order in which they are installed (B1).
pub(crate) struct Plan<'a> {
    changes: Vec<(&'a Arc<Core>, Change<'a>)>,
}

impl Plan<'_> {
    /// Bytes of keys and payloads.
    pub(crate) fn bytes(&self) -> usize {
        let changes = self.changes.iter();
        changes
            .map(|(_, change)| change.key.len() + change.payload_len())
            .sum()
    }
}

/// What became of one try.
enum Try<'a> {
    Committed(Stamp),
    /// A condition failed; nothing was written.
    Refused,
    /// The stamp was not of the memtable of this keyspace, or above the lease.
    Lost(&'a Core, Stamp),
}

impl Engine {
    /// Applies `operations` as one. With `unchanged_since`, only if none of their keys was written
    /// after that stamp; `None` if one was.
    pub(crate) fn write_batch(
        &self,
        operations: &[Operation],
        unchanged_since: Option<Stamp>,
        options: WriteOptions,
    ) -> Result<Option<Stamp>> {
        self.check()?;
        if operations.is_empty() {
            // After all that was written, which is made as durable as this is to be.
            let stamp = self.clock.observe();
            self.wait_as_asked(stamp, options)?;
            return Ok(Some(stamp));
        }
        let plan = self.plan(operations)?;
        let committed = self.commit_plan(&plan, unchanged_since, options);
        self.conclude(&plan, committed, options)
    }

    /// What is left to do once a batch was `committed` or not, and its pair given back.
    pub(crate) fn conclude(
        &self,
        plan: &Plan<'_>,
        committed: Result<Option<Stamp>>,
        options: WriteOptions,
    ) -> Result<Option<Stamp>> {
        match &committed {
            Ok(Some(_)) => {}
            Ok(None) => abandon_all(self, &plan.changes),
            Err(error) => {
                let changes = plan.changes.iter();
                changes.for_each(|(core, change)| change.abandon_unless_unknown(self, core, error));
            }
        }
        // What was refused, or failed, is in the memtables all the same.
        let mut cores: Vec<&Arc<Core>> = plan.changes.iter().map(|(core, _)| *core).collect();
        cores.dedup_by_key(|core| core.id);
        // A dropped keyspace's are nobody's any more.
        for core in cores.into_iter().filter(|core| !core.is_dropped()) {
            let fills = self.fills(&core.view.load(&epoch::pin()).cur);
            if fills {
                // What stops writers now is the next one's business.
                let _ = self.make_room(core);
            }
        }
        // Others may have found too much in memory while this one kept switches off.
        self.bound_memtables();
        let Some(stamp) = committed? else {
            return Ok(None);
        };
        self.acknowledge(stamp, options)?;
        Ok(Some(stamp))
    }

    /// Sorts, keeps the last operation on each key, and checks the limits.
    pub(crate) fn plan<'a>(&self, operations: &'a [Operation]) -> Result<Plan<'a>> {
        if operations.len() > BATCH_OPERATIONS_MAX {
            let found = format!(
                "{} operations, at most {BATCH_OPERATIONS_MAX}",
                operations.len()
            );
            return Err(Error::invalid("write a batch", found).remedy("split it"));
        }
        if let Some(stranger) = operations.iter().find(|of| !of.core.is_of(&self.slots)) {
            return Err(foreign(&stranger.core));
        }
        let mut cores = operations.iter().map(|of| &of.core);
        cores.try_for_each(|core| core.check_writable())?;
        let mut order: Vec<&Operation> = operations.iter().collect();
        // Stable, so of several operations on a key the last given comes last.
        if !seeded("a-batch-takes-its-keys-as-they-come") {
            order.sort_by(|a, b| {
                a.core
                    .id
                    .cmp(&b.core.id)
                    .then_with(|| a.core.order.compare(&a.key, &b.key))
            });
        }
        let mut last: Vec<&Operation> = Vec::with_capacity(order.len());
        for operation in order {
            match last.last_mut() {
                Some(before)
                    if before.core.id == operation.core.id
                        && operation
                            .core
                            .order
                            .compare(&before.key, &operation.key)
                            .is_eq() =>
                {
                    *before = operation;
                }
                _ => last.push(operation),
            }
        }
        let mut changes = Vec::with_capacity(last.len());
        let mut bytes = 0;
        for operation in last {
            let change = match &operation.value {
                None => Change::delete(&operation.key),
                Some(value) => Change::put(self, &operation.key, value, operation.expires_at_ms),
            };
            let change = change.inspect_err(|_| abandon_all(self, &changes))?;
            bytes += change.key.len() + change.payload_len();
            changes.push((&operation.core, change));
        }
        if bytes > BATCH_BYTES_MAX {
            abandon_all(self, &changes);
            let found = format!("{bytes} bytes of keys and values, at most {BATCH_BYTES_MAX}");
            return Err(Error::invalid("write a batch", found).remedy("split it"));
        }
        Ok(Plan { changes })
    }

    fn commit_plan(
        &self,
        plan: &Plan<'_>,
        since: Option<Stamp>,
        options: WriteOptions,
    ) -> Result<Option<Stamp>> {
        self.admit(plan.bytes())?;
        let mut pair = self.checkout(options)?;
        // Closing waits for the pairs, then for nobody: who gets one later must not write.
        self.check()?;
        self.commit_in(plan, since, &mut pair)
    }

    /// As `commit_plan`, with a pair that the caller has.
    pub(crate) fn commit_in(
        &self,
        plan: &Plan<'_>,
        since: Option<Stamp>,
        pair: &mut PoolGuard<'_, Pair>,
    ) -> Result<Option<Stamp>> {
        if let Some(lane) = &mut **pair {
            let mut record = Vec::new();
            plan.changes
                .iter()
                .for_each(|(core, change)| change.encode(core.id, &mut record));
            lane.reserve(&[&record])?;
        }
        self.counters.batches.increment();
        let mut unswitched: Option<SwitchesOff<'_>> = None;
        loop {
            // Not in the match: the pin would last as long as what follows a loss.
            let tried = self.try_batch(plan, since, pair, &epoch::pin())?;
            match tried {
                Try::Committed(stamp) => break Ok(Some(stamp)),
                Try::Refused => break Ok(None),
                Try::Lost(core, stamp) => {
                    // Without the lock: the lease takes others.
                    drop(unswitched.take());
                    self.after_abort(core, stamp)?;
                    unswitched = Some(self.keep_switches_off());
                }
            }
        }
    }

    fn try_batch<'a>(
        &self,
        plan: &Plan<'a>,
        since: Option<Stamp>,
        pair: &mut PoolGuard<'_, Pair>,
        guard: &Guard,
    ) -> Result<Try<'a>> {
        let cell = BatchCell::new(pair.index());
        let mut pendings = Vec::with_capacity(plan.changes.len());
        let mut views: Vec<(&'a Arc<Core>, &View)> = Vec::new();
        let mut hints = [Hint::NONE; AHEAD];
        for (at, (core, change)) in plan.changes.iter().enumerate() {
            let hint = ask_ahead(plan, at, &mut hints, guard);
            if views.last().is_none_or(|(last, _)| last.id != core.id) {
                views.push((core, core.view.load(guard)));
            }
            let (_, view) = views.last().expect("one was just pushed");
            match self.install_intent(view, change, hint, &cell, guard) {
                Ok(pending) => pendings.push(pending),
                Err(error) => {
                    cell.abort(pendings, guard);
                    return Err(error);
                }
            }
        }
        let refused = since.map_or(Ok(false), |since| self.conflicts(plan, since));
        if !matches!(refused, Ok(false)) {
            cell.abort(pendings, guard);
            return refused.map(|_| Try::Refused);
        }
        self.commit_cell(plan, cell, pendings, &views, pair, guard)
    }

    /// Installs one version of the batch, waiting for an undecided one in its place.
    fn install_intent<'g>(
        &self,
        view: &'g View,
        change: &Change<'_>,
        hint: Hint,
        cell: &BatchCell,
        guard: &'g Guard,
    ) -> Result<Pending<'g>> {
        self.hold_external(view, change);
        loop {
            if let Some(undecided) = self.undecided_before(view, change.key, guard) {
                self.wait_for(&undecided)?;
                continue;
            }
            velella_sync::spot(3);
            let (table, owner) = (&view.cur.table, Owner::Batch(cell));
            match table.install_near(&change.intent(), owner, None, hint, guard) {
                Install::Busy(undecided) => self.wait_for(&undecided)?,
                Install::Moved => unreachable!("nothing was expected"),
                Install::Installed(pending) => return Ok(pending),
            }
        }
    }

    /// Whether a key of the plan has a committed version above `since` below its intent (B4).
    fn conflicts(&self, plan: &Plan<'_>, since: Stamp) -> Result<bool> {
        for (core, change) in &plan.changes {
            // The intent on top is passed over; nothing else can be undecided there.
            if self.newest_stamp(core, change.key, Reader::NEWEST.at)? > since {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The window of a batch (steps 7 to 12) over all its keyspaces.
    fn commit_cell<'a, 'g>(
        &self,
        plan: &Plan<'a>,
        cell: BatchCell,
        pendings: Vec<Pending<'g>>,
        views: &[(&'a Arc<Core>, &View)],
        pair: &mut PoolGuard<'_, Pair>,
        guard: &'g Guard,
    ) -> Result<Try<'a>> {
        velella_sync::spot(6);
        let window = Window::open(self, pair.index());
        velella_sync::spot(7);
        let stamp = self.clock.draw();
        velella_sync::spot(8);
        let stranger = views
            .iter()
            .find(|(core, view)| !self.owns(core, view, stamp, guard));
        if stranger.is_some() || stamp > self.clock.lease() {
            let core = stranger.map_or(plan.changes[0].0, |(core, _)| *core);
            cell.decide(None);
            window.close();
            cell.settle(pendings, guard);
            return Ok(Try::Lost(core, stamp));
        }
        velella_sync::spot(9);
        if let Err(error) = complete(pair, stamp) {
            cell.decide(None);
            window.close();
            cell.settle(pendings, guard);
            self.halt_after("a write to the journal", &error);
            return Err(error.with_kind(ErrorKind::OutcomeUnknown));
        }
        velella_sync::spot(10);
        cell.decide(Some(stamp));
        velella_sync::spot(11);
        window.close();
        velella_sync::spot(12);
        let versions = plan.changes.iter().zip(&pendings);
        let long = versions.filter(|(_, pending)| pending.is_list_long());
        let long: Vec<_> = long
            .map(|((core, change), _)| (*core, change.key))
            .collect();
        // Rewriting the versions' words is not part of the window: the cell has decided them.
        cell.settle(pendings, guard);
        if !long.is_empty() {
            self.prune(long, guard);
        }
        self.counters.writes.add(plan.changes.len() as u64);
        Ok(Try::Committed(stamp))
    }
}

/// The error of a batch that names a keyspace of somebody else (B5).
#[cold]
fn foreign(core: &Core) -> Error {
    let found = format!("keyspace `{}` is of another opening or database", core.name);
    Error::invalid("write a batch", found).remedy("fill it with keyspaces of this `Db`")
}

fn abandon_all(engine: &Engine, changes: &[(&Arc<Core>, Change<'_>)]) {
    changes
        .iter()
        .for_each(|(core, change)| change.abandon(engine, core));
}

/// Asks for memory of keys behind key `at`, whose hint it returns; `hints` keeps those of the next
/// keys, each at its number modulo `AHEAD`.
fn ask_ahead(plan: &Plan<'_>, at: usize, hints: &mut [Hint; AHEAD], guard: &Guard) -> Hint {
    let ahead = |by: usize| plan.changes.get(at + by);
    let soon = ahead(AHEAD).map_or(Hint::NONE, |(core, change)| {
        core.view.load(guard).cur.table.prefetch(change.key, guard)
    });
    let hint = std::mem::replace(&mut hints[at % AHEAD], soon);
    if let Some((core, _)) = ahead(NEAR) {
        let near = hints[(at + NEAR) % AHEAD];
        core.view.load(guard).cur.table.approach(near);
    }
    hint
}
