//! A compaction: merge, retain, split, one durable edit, then the version changes.
//!
//! Z1. Inputs are deleted only after the edit that replaces them is durable and in force.
//! Z2. A key's versions are never split over two tables.
//! Z3. The entries read are those the inputs were said to hold, and those written are those the
//!     outputs say they hold: a lost or doubled entry is found here, before the inputs go.
//!
//! Threads: one per job; several jobs at once. Tests: `tests/model.rs`, `tests/crash.rs`.

use crate::output::Output;
use crate::picker::Choice;
use crate::tree::{Change, Inputs, Shared};
use crate::version::Version;
use std::collections::BTreeSet;
use std::sync::Arc;
use velella_base::{Cursor, Entry, Error, ErrorKind, Order, Result, seeded};
use velella_mvcc::Retention;
use velella_tree::{ConcatCursor, Edit, Job, JobReport, MergeCursor, Retain, Retained, TableFile};

/// Entries between two questions whether to go on.
const ASK_EVERY: u64 = 1024;
/// An output may overlap this many tables' worth of the level below its own.
const GRANDPARENT_TABLES: u64 = 10;

/// A compaction that can run.
pub(crate) struct Compaction {
    shared: Arc<Shared>,
    version: Arc<Version>,
    choice: Choice,
    inputs: Inputs,
    is_done: bool,
}

impl Compaction {
    /// A job whose inputs the caller has marked busy.
    pub(crate) fn new(shared: Arc<Shared>, version: Arc<Version>, choice: Choice) -> Self {
        let inputs = shared.inputs(&version, &choice);
        Compaction {
            shared,
            version,
            choice,
            inputs,
            is_done: false,
        }
    }

    fn bytes_in(&self) -> u64 {
        self.inputs.metas().map(|meta| meta.bytes).sum()
    }

    /// The level changes, the file stays.
    fn relocate(&self) -> Result<JobReport> {
        let moved = self.inputs.upper.clone();
        self.commit(&moved)?;
        self.install(moved);
        Ok(JobReport::default())
    }

    fn merge(
        &self,
        retention: &Retention,
        goes_on: &dyn Fn() -> Result<bool>,
    ) -> Result<JobReport> {
        for file in self.inputs.all() {
            file.table().check_rewritable()?;
        }
        self.shared.note_wall(retention);
        let mut output = Output::new(&self.shared, self.choice.output.level);
        let retained = self.write(&mut output, retention, goes_on)?;
        let expected: u64 = self.inputs.metas().map(|meta| meta.entries()).sum();
        if retained.entries_in != expected {
            let found = format!("read {} entries of {expected}", retained.entries_in);
            return Err(self.miscounted(found));
        }
        let finished = output.finish()?;
        check_count(finished.files(), retained.entries_out)?;
        if let Err(error) = self.commit(finished.files()) {
            // Unless the manifest refused without writing, the edit may be durable, and the files
            // are not ours to remove.
            let refused = matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ReadOnly);
            if !refused {
                drop(finished.keep());
            }
            return Err(error);
        }
        let files = finished.keep();
        let bytes_written = files.iter().map(|file| file.meta().bytes).sum();
        self.install(files);
        Ok(JobReport {
            bytes_read: self.bytes_in(),
            bytes_written,
            entries_in: retained.entries_in,
            entries_out: retained.entries_out,
        })
    }

    fn write(
        &self,
        output: &mut Output<'_>,
        retention: &Retention,
        goes_on: &dyn Fn() -> Result<bool>,
    ) -> Result<Retained> {
        let order = &self.shared.options.table.order;
        let target = self.choice.output.level;
        let bottom = |key: &[u8]| !self.version.lies_below(target, key);
        let mut retain = Retain::new(retention, order.clone());
        let mut splitter = Splitter::new(&self.shared, &self.version, target);
        let mut sink = |entry: Entry<'_>, first_of_key: bool| {
            // Z2: only in front of a key.
            if (first_of_key || seeded("an-output-is-split-within-a-key"))
                && splitter.is_due(entry.key, output.open_bytes())
            {
                output.split()?;
            }
            output.add(entry)
        };
        let mut run = self.run_of_inputs(order);
        run.seek_first()?;
        let mut count = 0u64;
        while let Some(entry) = run.entry() {
            retain.offer(entry, &bottom, &mut sink)?;
            count += 1;
            if count.is_multiple_of(ASK_EVERY) && !goes_on()? {
                return Err(Error::new(
                    ErrorKind::Closed,
                    self.describe(),
                    "it was cancelled",
                ));
            }
            run.next()?;
        }
        Ok(retain.finish())
    }

    /// The inputs as one stream, newest sources first, without filling the cache.
    fn run_of_inputs(&self, order: &Order) -> MergeCursor<ConcatCursor> {
        let run =
            |files: Vec<Arc<TableFile>>| ConcatCursor::new(files.into(), order.clone(), false);
        let mut sources: Vec<ConcatCursor> = if self.choice.level == 0 {
            let single = |file: &Arc<TableFile>| run(vec![Arc::clone(file)]);
            self.inputs.upper.iter().map(single).collect()
        } else {
            vec![run(self.inputs.upper.clone())]
        };
        if !self.inputs.lower.is_empty() {
            sources.push(run(self.inputs.lower.clone()));
        }
        MergeCursor::new(sources, order.clone())
    }

    /// Makes the exchange of the inputs for `files` durable.
    fn commit(&self, files: &[Arc<TableFile>]) -> Result<()> {
        let keyspace = self.shared.options.keyspace;
        let mut edits = vec![Edit::RemoveTables {
            keyspace,
            files: self.choice.files().collect(),
        }];
        if !files.is_empty() {
            edits.push(Edit::AddTables {
                keyspace,
                level: u32::try_from(self.choice.output.level).unwrap_or(u32::MAX),
                tables: files.iter().map(|file| file.meta().clone()).collect(),
            });
        }
        self.shared.env.manifest.commit(&edits)
    }

    /// Puts the durable exchange in force.
    fn install(&self, joining: Vec<Arc<TableFile>>) {
        let kept: BTreeSet<u64> = joining
            .iter()
            .flat_map(|file| file.meta().externals.iter().copied())
            .collect();
        let dropped: Vec<u64> = self
            .inputs
            .metas()
            .flat_map(|meta| meta.externals.iter().copied())
            .filter(|external| !kept.contains(external))
            .collect();
        self.shared.install(Change {
            level: self.choice.output.level,
            joining,
            leaving: self.choice.files().collect(),
        });
        self.shared.env.externals.discard(&dropped);
    }

    fn miscounted(&self, found: String) -> Error {
        let error = Error::new(ErrorKind::Corruption, self.describe(), found);
        match self.inputs.all().next() {
            Some(file) => error.on(file.path()),
            None => error,
        }
    }
}

impl Job for Compaction {
    fn describe(&self) -> String {
        let Choice {
            level,
            upper,
            lower,
            output,
            is_move,
        } = &self.choice;
        let into = output.level;
        if *is_move {
            return format!(
                "move table {:06} of level {level} to level {into}",
                upper[0]
            );
        }
        let mib = self.bytes_in() >> 20;
        if *level == into {
            return format!("rewrite table {:06} of level {level} ({mib} MiB)", upper[0]);
        }
        format!(
            "compact {} tables of level {level} with {} of level {into} ({mib} MiB)",
            upper.len(),
            lower.len()
        )
    }

    fn run(
        mut self: Box<Self>,
        retention: &dyn Fn() -> Retention,
        goes_on: &dyn Fn() -> Result<bool>,
    ) -> Result<JobReport> {
        let report = if self.choice.is_move {
            self.relocate()?
        } else {
            self.merge(&retention(), goes_on)?
        };
        self.is_done = true;
        let shared = Arc::clone(&self.shared);
        // The inputs' last owner may be this job.
        drop(self);
        shared.clean();
        Ok(report)
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        let mut upkeep = self.shared.upkeep();
        for file in self.choice.files() {
            upkeep.busy.files.remove(&file);
        }
        let output = &self.choice.output;
        if let Some(at) = upkeep.busy.outputs.iter().position(|span| span == output) {
            upkeep.busy.outputs.swap_remove(at);
        }
        if !self.is_done {
            // A full compaction that was interrupted starts over.
            upkeep.pending = None;
        }
    }
}

/// The tables hold as many entries as were written (Z3).
pub(crate) fn check_count(files: &[Arc<TableFile>], written: u64) -> Result<()> {
    let held: u64 = files.iter().map(|file| file.meta().entries()).sum();
    if held == written {
        return Ok(());
    }
    let found = format!("{written} entries were written, the tables hold {held}");
    let error = Error::new(ErrorKind::Corruption, "write tables", found);
    Err(match files.first() {
        Some(file) => error.on(file.path()),
        None => error,
    })
}

/// Where an output is split: at its size, and before it would overlap too much of the level below
/// its own, which would make its own compaction expensive.
struct Splitter<'a> {
    order: &'a Order,
    table_bytes: u64,
    grandparents: &'a [Arc<TableFile>],
    next: usize,
    passed_bytes: u64,
}

impl<'a> Splitter<'a> {
    fn new(shared: &'a Shared, version: &'a Version, level: usize) -> Self {
        Splitter {
            order: &shared.options.table.order,
            table_bytes: shared.options.table_bytes.max(1),
            grandparents: version.files(level + 1),
            next: 0,
            passed_bytes: 0,
        }
    }

    /// Whether the output of `open_bytes` ends in front of `key`.
    #[inline]
    fn is_due(&mut self, key: &[u8], open_bytes: u64) -> bool {
        let mut passed = false;
        while let Some(table) = self.grandparents.get(self.next)
            && self.order.compare(&table.meta().largest, key).is_lt()
        {
            self.passed_bytes += table.meta().bytes;
            self.next += 1;
            passed = true;
        }
        // A border below is a good place to split an output that is nearly full.
        let nearly_full = passed && open_bytes >= self.table_bytes / 4 * 3;
        let overlaps = self.passed_bytes >= self.table_bytes.saturating_mul(GRANDPARENT_TABLES);
        let due = open_bytes >= self.table_bytes || nearly_full || overlaps;
        if due {
            self.passed_bytes = 0;
        }
        due
    }
}
