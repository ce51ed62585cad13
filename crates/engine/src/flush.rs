//! Writing immutable memtables to tables, in the order in which they became immutable.
//!
//! Source: cLSM's merge (EuroSys '15) 3.1 and 3.2.2; `afterMerge` needs no lock here.
//!
//! F1. A group's tables are named in the manifest only once D >= W - 1: a table never holds a
//!     write that the journal could still lose while an older one is lost (without a journal: a
//!     group is all keyspaces, so the edit itself is the cut).
//! F2. The tree shows a table before the view drops its memtable: a reader meets each version at
//!     least once.
//! F3. Journal space is released only for stamps that are in tables in every keyspace.
//! F4. A flush that fails, or panics in a user's order, leaves no files, unless the manifest may
//!     name them.
//!
//! Threads: one flush at a time, whoever holds the queue's turn; workers queue for it only to
//! gather.
//! Tests: `x2_sst_ahead`, `cl11_snapshot_vs_flush`, `x3_journal_kept_for_other_keyspace`.

use crate::core::Engine;
use crate::keyspace_core::Core;
use crate::lease;
use crate::view::Mem;
use std::sync::Arc;
use velella_base::{Result, Stamp, seeded};
use velella_memtable::CursorMode;
use velella_sync::lock::MutexGuard;
use velella_sync::{epoch, thread};
use velella_tree::{Built, Edit, Manifest};

/// How many write buffers the journal may grow to before small memtables are flushed for its sake.
/// Keys that are written again and again fill the journal and no memtable; recovery passes such
/// records quickly (`recovery/piece.rs`, P2).
const JOURNAL_BUFFERS: u64 = 10;

impl Engine {
    /// Flushes the oldest group, after the flush under way; whether there was one.
    pub(crate) fn flush_next(&self) -> Result<bool> {
        self.flush_in_turn(self.flushes.turn.lock())
    }

    /// As `flush_next`, unless a flush is under way: a worker has other things to do meanwhile.
    pub(crate) fn flush_if_free(&self) -> Result<bool> {
        let turn = self.flushes.turn.try_lock();
        turn.map_or(Ok(false), |turn| self.flush_in_turn(turn))
    }

    /// As `flush_if_free`, for background work: waits with it while something is lacking, which
    /// keeps no compaction from its own.
    pub(crate) fn flush_unless_short(&self) -> Result<bool> {
        let short_of = &self.shortages.flushes;
        if !short_of.may_try() {
            return Ok(false);
        }
        let flushed = self.flush_if_free();
        if matches!(flushed, Ok(false)) && self.flushes.is_empty() {
            short_of.end();
        }
        flushed.or_else(|error| self.run_short(short_of, error))
    }

    fn flush_in_turn(&self, turn: MutexGuard<'_, ()>) -> Result<bool> {
        let front = {
            let groups = self.flushes.groups.lock();
            groups
                .front()
                .map(|group| (group.members.clone(), group.boundary))
        };
        let Some((members, boundary)) = front else {
            return Ok(false);
        };
        if self.env.manifest.is_shut() {
            // Not into a directory that may be another opening's by now.
            self.check()?;
        }
        let started = thread::now();
        let flushed = self.flush_group(&members, boundary);
        flushed.inspect_err(|error| self.halt_after_job("a flush", error))?;
        let was_short = self.shortages.flushes.end();
        self.timers.flush.note(started.elapsed());
        self.flushes.groups.lock().pop_front();
        drop(turn);
        if was_short {
            self.judge_pace();
        }
        self.reclaim();
        self.counters.flushes.increment();
        self.relief.wake_all();
        self.work.wake_all();
        self.release_journal()?;
        for (core, _) in &members {
            self.note_overtaken(core);
        }
        Ok(true)
    }

    fn flush_group(&self, members: &[(Arc<Core>, Arc<Mem>)], boundary: Stamp) -> Result<()> {
        let mut built = self.build_group(members)?;
        // Everything below W is published, so one round reaches it.
        if !seeded("a-flush-does-not-wait-for-the-journal") {
            self.make_durable_unhurried(Stamp(boundary.0.saturating_sub(1)))?;
        }
        let edits = self.edits(members, &mut built, boundary);
        velella_sync::spot(42);
        if let Err(error) = self.env.manifest.commit(&edits) {
            // F4.
            if Manifest::is_refusal(&error) {
                built.into_iter().flatten().for_each(Built::discard);
            }
            return Err(error);
        }
        velella_sync::spot(43);
        for ((core, mem), run) in members.iter().zip(built) {
            if seeded("a-memtable-leaves-before-its-table-is-there") {
                leave_view(core, mem);
            }
            if let Some(run) = run {
                // Not before: what could not be committed is written again.
                let bytes = run.tables().iter().map(|table| table.bytes).sum();
                self.counters.flush_bytes.add(bytes);
                core.tree.apply(run);
                self.sweep_resting(core);
            }
            core.set_flushed_below(boundary);
            velella_sync::spot(44);
            leave_view(core, mem);
            mem.discount(&self.memtable_bytes);
        }
        if self.journal.is_none() {
            // The boundary is no write's stamp, but may be a snapshot's.
            self.raise_installed(boundary);
        }
        Ok(())
    }

    /// Writes the tables of a group: a run for each member whose keyspace lives.
    fn build_group(&self, members: &[(Arc<Core>, Arc<Mem>)]) -> Result<Vec<Option<Built>>> {
        let build = |(core, mem): &(Arc<Core>, Arc<Mem>)| {
            // A drop waits for the turn: who lives now lives until the edit is committed.
            let run = self.lives(core).then(|| self.build_run(core, mem));
            run.transpose()
        };
        members.iter().map(build).collect()
    }

    /// The edits that name the tables of a group.
    fn edits(
        &self,
        members: &[(Arc<Core>, Arc<Mem>)],
        built: &mut [Option<Built>],
        boundary: Stamp,
    ) -> Vec<Edit> {
        let mut edits = Vec::with_capacity(2 * members.len() + 1);
        for ((core, _), run) in members.iter().zip(built) {
            let Some(run) = run else { continue };
            edits.extend(run.edits(core.id));
            edits.push(Edit::Flushed {
                keyspace: core.id,
                below: boundary,
            });
        }
        // What expired in this run stays expired in the next, wherever the wall clock is set.
        edits.push(Edit::WallClock {
            ms: self.wall.now_ms(),
        });
        edits
    }

    /// Lets go of what the last readers have left: memtables behind old views, external files.
    pub(crate) fn reclaim(&self) {
        epoch::flush();
        self.env.externals.reap();
    }

    fn build_run(&self, core: &Core, mem: &Arc<Mem>) -> Result<Built> {
        let mut run = Arc::clone(&mem.table).cursor(CursorMode::All);
        core.tree.build(&mut *run, &self.retention())
    }

    /// Switches every keyspace and waits until all of it is in tables.
    pub(crate) fn flush_all(&self, cores: &[Arc<Core>]) -> Result<()> {
        self.check()?;
        self.drain_memtables(cores)
    }

    /// As `flush_all`, also while closing.
    pub(crate) fn drain_memtables(&self, cores: &[Arc<Core>]) -> Result<()> {
        self.switch(cores);
        // Not until the queue is empty: writers may fill it faster than it drains.
        let last = self.clock.now();
        while self.flushes.begins_at_or_before(last) && self.flush_next()? {}
        Ok(())
    }

    /// Every stamp below the result is in tables in every keyspace.
    pub(crate) fn floor(&self) -> Stamp {
        // Before the views: whatever is at or below it is published, so a memtable seen empty
        // afterwards holds none of it.
        let frontier = self.slots.frontier(&self.clock);
        let unflushed = self.cores().into_iter().filter_map(|core| {
            let guard = epoch::pin();
            let view = core.view.load(&guard);
            let holds = view.immutables() > 0 || !view.cur.table.is_empty();
            holds.then(|| core.flushed_below())
        });
        unflushed.fold(lease::above(frontier), Stamp::min)
    }

    /// Gives journal space back (F3). What the device says of that counts, whoever asked for it: a
    /// flush that had reached its end, or a compaction in between.
    pub(crate) fn release_journal(&self) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let (floor, mut released) = (self.floor(), Ok(()));
        // What is released is deleted, which another opening must not be met by.
        self.env
            .manifest
            .unless_shut(|| released = journal.release(floor));
        released.inspect_err(|error| self.halt_after_job("giving back the journal's space", error))
    }

    /// Flushes the keyspaces that keep the oldest of the journal, however small, when it has grown
    /// near its bound.
    pub(crate) fn bound_journal(&self) -> Result<()> {
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let stats = journal.stats();
        // Early enough for what is written while the flush runs.
        if stats.unflushed_bytes < self.journal_bound() / 4 * 3 {
            return Ok(());
        }
        self.release_journal()?;
        let Some(oldest) = journal.stats().oldest_pinned else {
            return Ok(());
        };
        let pinning: Vec<_> = self
            .cores()
            .into_iter()
            .filter(|core| core.flushed_below() <= oldest)
            // What was switched before, perhaps for this, still waits for its flush.
            .filter(|core| core.view.load(&epoch::pin()).immutables() == 0)
            .collect();
        self.switch(&pinning);
        Ok(())
    }

    /// Most bytes of journal that are kept because their writes are not in tables yet. They are
    /// counted by whole segments, so a small write buffer would be flushed for the first of them.
    /// Each keeps files open, and a flush needs some, too: where few may be, few segments are kept.
    pub(crate) fn journal_bound(&self) -> u64 {
        let by_buffers = self.options.write_buffer.saturating_mul(JOURNAL_BUFFERS);
        let segments = (self.options.open_files as u64 / 4).max(4);
        let by_files = segments.saturating_mul(self.sizes.segment_bytes);
        by_buffers.clamp(4 * self.sizes.segment_bytes, by_files)
    }
}

/// The keyspace's view no longer has `mem`, which is in its tree (F2).
fn leave_view(core: &Core, mem: &Arc<Mem>) {
    let guard = epoch::pin();
    let publishing = core.publishing.lock();
    let view = core.view.load(&guard).without(mem);
    core.publish(view, &guard);
    drop(publishing);
}
