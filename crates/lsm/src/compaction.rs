//! A compaction: merge, retain, split; for each part a durable edit, then the version changes.
//!
//! Z1. Inputs are deleted only after the edit that replaces them is durable and in force.
//! Z2. A key's versions are never split over two tables.
//! Z3. The entries read are those the inputs were said to hold, and those written are those the
//!     outputs say they hold: a lost or doubled entry is found here, before the inputs go.
//! Z4. A large job hands over part by part, in the order of keys: what it has written takes the
//!     place of the lower inputs it has passed, so that no more than a part stands on the disk
//!     twice. The upper inputs stay to the end. Until then, and after a crash until the next job,
//!     versions of theirs are in both levels, the same at the same stamps (`Retain`, D5): a reader
//!     finds no other state, and what the upper ones delete stays deleted by them.
//! Z5. What a part drops of its lower inputs' external values is discarded with it, unless the
//!     upper inputs refer to it: of theirs, what no part has kept is discarded with them.
//! Z6. What expired in a part stays expired, wherever the wall clock is set: its edit notes the
//!     time that the part was judged by, or others that expired then would come back without it.
//!
//! Threads: one per job; several jobs at once. Tests: `tests/model.rs`, `tests/crash.rs`,
//! `tests/parts.rs`.

use crate::output::Output;
use crate::picker::{Choice, GRANDPARENT_TABLES};
use crate::tree::{Inputs, Shared};
use crate::version::{Change, Version};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use velella_base::file_name::FileName;
use velella_base::{Cursor, Entry, Error, ErrorKind, Order, Result, Stamp, seeded};
use velella_mvcc::Retention;
use velella_sst::TableMeta;
use velella_tree::{
    ConcatCursor, Edit, Job, JobReport, Manifest, MergeCursor, Retain, Retained, TableFile,
};

/// Entries between two questions whether to go on: that many, or fewer that are large.
const ASK_EVERY: u64 = 1024;
/// Bytes that count as an entry more: 4 MiB of them are a question.
const ENTRY_BYTES: u64 = 4 << 10;
/// Tables' worth of lower inputs that a part replaces (Z4): fewer would end in small tables.
const PART_TABLES: u64 = 2;

/// A compaction that can run.
pub(crate) struct Compaction {
    shared: Arc<Shared>,
    choice: Choice,
    inputs: Inputs,
    /// Bytes and entries of all inputs.
    bytes: u64,
    entries: u64,
    is_done: bool,
}

/// A part of a job (Z4).
#[derive(Debug, Default)]
struct Part {
    /// Where its keys begin, if not with the first of all.
    from: Option<Vec<u8>>,
    /// The lower inputs that it replaces.
    lower: Vec<Arc<TableFile>>,
}

impl Part {
    fn files(&self) -> Vec<u64> {
        self.lower.iter().map(|file| file.meta().file).collect()
    }
}

/// What a part has read and written.
struct Merged {
    retained: Retained,
    /// Entries that were read of its lower inputs.
    of_lower: u64,
}

/// The external values of a job (Z5).
#[derive(Debug)]
struct Externals {
    /// Those of the upper inputs.
    upper: BTreeSet<u64>,
    /// Those of all outputs so far.
    kept: BTreeSet<u64>,
}

impl Externals {
    fn of(upper: &[Arc<TableFile>]) -> Self {
        Externals {
            upper: numbers(upper).collect(),
            kept: BTreeSet::new(),
        }
    }

    /// `outputs` take the place of `lower`, and of the upper inputs if it is the last part: what
    /// nobody refers to any more.
    fn pass(
        &mut self,
        lower: &[Arc<TableFile>],
        outputs: &[Arc<TableFile>],
        is_last: bool,
    ) -> Vec<u64> {
        self.kept.extend(numbers(outputs));
        let is_gone = |number: &u64| !self.kept.contains(number);
        let of_lower = numbers(lower).filter(|number| !self.upper.contains(number));
        let of_upper = self.upper.iter().copied().filter(|_| is_last);
        of_lower.chain(of_upper).filter(is_gone).collect()
    }
}

fn numbers(files: &[Arc<TableFile>]) -> impl Iterator<Item = u64> {
    let each = files.iter().flat_map(|file| &file.meta().externals);
    each.copied()
}

impl Compaction {
    /// A job whose inputs, tables of `version`, the caller has marked busy.
    pub(crate) fn new(shared: Arc<Shared>, version: &Version, choice: Choice) -> Self {
        let inputs = shared.inputs(version, &choice);
        Compaction {
            shared,
            choice,
            bytes: inputs.metas().map(|meta| meta.bytes).sum(),
            entries: inputs.metas().map(TableMeta::entries).sum(),
            inputs,
            is_done: false,
        }
    }

    /// The level changes, the file stays.
    fn relocate(&self) -> Result<JobReport> {
        let moved = self.inputs.upper.clone();
        let leaving: Vec<u64> = self.choice.files().collect();
        self.exchange(moved, &leaving, None, || ())?;
        Ok(JobReport::default())
    }

    fn merge(
        &mut self,
        retention: &Retention,
        goes_on: &dyn Fn() -> Result<bool>,
    ) -> Result<JobReport> {
        for file in self.inputs.all() {
            file.table().check_rewritable()?;
        }
        let mut report = JobReport {
            bytes_read: self.bytes,
            ..JobReport::default()
        };
        let mut externals = Externals::of(&self.inputs.upper);
        // Of the whole job, however small its parts are.
        let passed = Cell::new(0);
        let goes_on = |bytes: usize| {
            passed.set(passed.get() + 1 + bytes as u64 / ENTRY_BYTES);
            if passed.get() < ASK_EVERY {
                return Ok(true);
            }
            passed.set(0);
            goes_on()
        };
        let mut parts = self.parts().into_iter().peekable();
        while let Some(part) = parts.next() {
            let until = parts.peek().and_then(|next| next.from.as_deref());
            let mut output = Output::new(&self.shared, self.choice.output.level);
            let merged = self.write(&mut output, &part, until, retention, &goes_on)?;
            report.entries_in += merged.retained.entries_in;
            report.entries_out += merged.retained.entries_out;
            self.check_read(&part, &merged, until.is_none().then_some(report.entries_in))?;
            let finished = output.finish()?;
            check_count(finished.files(), merged.retained.entries_out)?;
            let mut leaving = part.files();
            if until.is_none() {
                leaving.extend(&self.choice.upper);
            }
            if seeded("inputs-go-before-the-edit-that-drops-them") {
                self.remove_early(&leaving);
            }
            let files = finished.files().to_vec();
            // From the commit on the manifest may name them: they go only if it is certain not to.
            let keep = || drop(finished.keep());
            if let Err(error) = self.exchange(files.clone(), &leaving, Some(retention), keep) {
                if Manifest::is_refusal(&error) {
                    files.iter().for_each(|file| file.mark_obsolete());
                    drop(files);
                    self.shared.clean();
                }
                return Err(error);
            }
            report.bytes_written += files.iter().map(|file| file.meta().bytes).sum::<u64>();
            let gone = externals.pass(&part.lower, &files, until.is_none());
            // What it replaces is freed now, not when the job ends.
            drop(part);
            self.shared.clean();
            self.shared.env.externals.discard(&gone);
        }
        Ok(report)
    }

    /// What a compaction must not do, for the fault of that name.
    fn remove_early(&self, files: &[u64]) {
        let env = &self.shared.env;
        for file in files {
            drop(env.vfs.remove(&FileName::Table(*file).path(&env.dir)));
        }
    }

    /// What is to be done, in the order of keys (Z4); takes the lower inputs.
    fn parts(&mut self) -> Vec<Part> {
        let table_bytes = self.shared.options.table_bytes_at(self.choice.output.level);
        let each = PART_TABLES.saturating_mul(table_bytes);
        let mut parts = vec![Part::default()];
        let mut bytes = 0;
        for file in std::mem::take(&mut self.inputs.lower) {
            if bytes >= each {
                parts.push(Part {
                    from: Some(file.meta().smallest.clone()),
                    lower: Vec::new(),
                });
                bytes = 0;
            }
            bytes += file.meta().bytes;
            if let Some(part) = parts.last_mut() {
                part.lower.push(file);
            }
        }
        parts
    }

    /// All entries of the part's lower inputs were read, and of the upper ones after the last part,
    /// when `in_all` were (Z3).
    fn check_read(&self, part: &Part, merged: &Merged, in_all: Option<u64>) -> Result<()> {
        let entries = |files: &[Arc<TableFile>]| -> u64 {
            files.iter().map(|file| file.meta().entries()).sum()
        };
        let expected = entries(&part.lower);
        if merged.of_lower != expected {
            let found = format!("read {} entries of {expected}", merged.of_lower);
            return Err(self.miscounted(found));
        }
        match in_all {
            Some(read) if read != self.entries => {
                let found = format!("read {read} entries of {}", self.entries);
                Err(self.miscounted(found))
            }
            _ => Ok(()),
        }
    }

    fn write(
        &self,
        output: &mut Output<'_>,
        part: &Part,
        until: Option<&[u8]>,
        retention: &Retention,
        goes_on: &impl Fn(usize) -> Result<bool>,
    ) -> Result<Merged> {
        let order = &self.shared.options.table.order;
        // As of now: the tables that earlier parts replaced are to be freed.
        let version = self.shared.version();
        let target = self.choice.output.level;
        let bottom = |key: &[u8]| !version.lies_below(target, key);
        let mut retain = Retain::new(retention, order.clone());
        let mut splitter = Splitter::new(&self.shared, &version, target);
        let mut sink = |entry: Entry<'_>, first_of_key: bool| {
            // Z2: only in front of a key.
            if (first_of_key || seeded("an-output-is-split-within-a-key"))
                && splitter.is_due(entry.key, output.open_bytes())
            {
                output.split()?;
            }
            output.add(entry)
        };
        let mut run = self.run_of_inputs(part, order);
        match &part.from {
            None => run.seek_first()?,
            Some(from) => run.seek(from, Stamp::MAX)?,
        }
        let lower = self.inputs.sources(self.choice.level);
        let mut of_lower = 0;
        while let Some(entry) = run.entry() {
            if until.is_some_and(|until| order.compare(entry.key, until).is_ge()) {
                break;
            }
            of_lower += u64::from(run.source() == Some(lower));
            let bytes = entry.key.len() + entry.value.len();
            retain.offer(entry, &bottom, &mut sink)?;
            if !goes_on(bytes)? {
                return Err(Error::new(
                    ErrorKind::Closed,
                    self.describe(),
                    "it was cancelled",
                ));
            }
            run.next()?;
        }
        Ok(Merged {
            retained: retain.finish(),
            of_lower,
        })
    }

    /// The inputs as one stream, newest sources first, without filling the cache; of the lower ones
    /// those of `part`.
    fn run_of_inputs(&self, part: &Part, order: &Order) -> MergeCursor<ConcatCursor> {
        let run =
            |files: Vec<Arc<TableFile>>| ConcatCursor::new(files.into(), order.clone(), false);
        let mut sources: Vec<ConcatCursor> = if self.choice.level == 0 {
            let single = |file: &Arc<TableFile>| run(vec![Arc::clone(file)]);
            self.inputs.upper.iter().map(single).collect()
        } else {
            vec![run(self.inputs.upper.clone())]
        };
        if !part.lower.is_empty() {
            sources.push(run(part.lower.clone()));
        }
        MergeCursor::new(sources, order.clone())
    }

    /// Makes the exchange of `leaving` for `files` durable, with the time that `retention` judged
    /// by (Z6), and puts it in force. `keep` is called when nothing but the commit can fail.
    fn exchange(
        &self,
        files: Vec<Arc<TableFile>>,
        leaving: &[u64],
        retention: Option<&Retention>,
        keep: impl FnOnce(),
    ) -> Result<()> {
        let keyspace = self.shared.options.keyspace;
        let level = self.choice.output.level;
        let mut edits = vec![Edit::RemoveTables {
            keyspace,
            files: leaving.to_vec(),
        }];
        if !files.is_empty() {
            edits.push(Edit::AddTables {
                keyspace,
                level: u32::try_from(level).unwrap_or(u32::MAX),
                tables: files.iter().map(|file| file.meta().clone()).collect(),
            });
        }
        edits.extend(retention.map(|retention| Edit::WallClock {
            ms: retention.now_ms(),
        }));
        let change = Change {
            level,
            joining: files,
            leaving: leaving.iter().copied().collect(),
        };
        let commit = || {
            keep();
            self.shared.env.manifest.commit(&edits)
        };
        self.shared.exchange(change, commit)
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
        let mib = self.bytes >> 20;
        if *level == into && upper.len() > 1 {
            let count = upper.len();
            return format!("merge {count} neighbouring tables of level {level} ({mib} MiB)");
        }
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
    /// Whether a key was seen: what lies in front of the first is not overlapped.
    has_begun: bool,
}

impl<'a> Splitter<'a> {
    fn new(shared: &'a Shared, version: &'a Version, level: usize) -> Self {
        Splitter {
            order: &shared.options.table.order,
            table_bytes: shared.options.table_bytes_at(level).max(1),
            grandparents: version.files(level + 1),
            next: 0,
            passed_bytes: 0,
            has_begun: false,
        }
    }

    /// Whether the output of `open_bytes` ends in front of `key`.
    #[inline]
    fn is_due(&mut self, key: &[u8], open_bytes: u64) -> bool {
        let mut passed = false;
        while let Some(table) = self.grandparents.get(self.next)
            && self.order.compare(&table.meta().largest, key).is_lt()
        {
            self.next += 1;
            if self.has_begun {
                self.passed_bytes += table.meta().bytes;
                passed = true;
            }
        }
        self.has_begun = true;
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
