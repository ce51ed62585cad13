//! The tree itself: the contract of a layout, kept.
//!
//! Readers pin and load one immutable version; flushes and jobs publish a new one under a lock.
//! Dead files are closed and deleted by upkeep, never by a reader's last step.
//!
//! Threads: reads from any; publishing under one lock. Tests: `tests/`, `velella_tree::contract`.

use crate::compaction::Compaction;
use crate::flush;
use crate::picker::{pick, pick_full, pick_gathering};
use crate::pressure;
use crate::tree::Shared;
use crate::version::Version;
use std::sync::Arc;
use velella_base::file_name::FileName;
use velella_base::{Cursor, Error, Result, Stamp};
use velella_mvcc::Retention;
use velella_sst::{Found, TableMeta, Tally};
use velella_sync::atomic::{AtomicU64, Ordering};
use velella_tree::{
    Built, ConcatCursor, Env, Job, KeyspaceState, Level, MergeCursor, Pressure, Source, TableFile,
    TableStyle, Tree, TreeOptions, Wanted,
};

/// Opens the tables of a keyspace.
///
/// # Errors
/// `Corruption`, `Io`: a table named by the manifest cannot be opened; `InvalidInput`: the
/// keyspace has another order.
pub fn open(env: Env, options: TreeOptions, state: &KeyspaceState) -> Result<Arc<dyn Tree>> {
    let order = &options.table.order;
    if state.record.order != order.name() {
        let found = format!("its order is {}, not {}", state.record.order, order.name());
        let attempt = format!("open keyspace \"{}\"", state.record.name);
        return Err(Error::invalid(attempt, found).remedy("give the order it was created with"));
    }
    let open = |meta: &TableMeta| TableFile::open(&env, order, meta.clone());
    let levels = state
        .levels
        .iter()
        .map(|tables| tables.iter().map(open).collect::<Result<Vec<_>>>())
        .collect::<Result<Vec<_>>>()?;
    let version = Version::new(levels, order);
    check_order(&env, &version)?;
    let inherited = pressure::of(version.sizes(), &options, 0).debt_bytes;
    let shared = Shared::new(env, options, version);
    Ok(Arc::new(Lsm {
        shared: Arc::new(shared),
        inherited: AtomicU64::new(inherited),
    }))
}

fn check_order(env: &Env, version: &Version) -> Result<()> {
    let Some((level, low, high)) = version.overlap() else {
        return Ok(());
    };
    let (low, high) = (low.meta().file, high.meta().file);
    let path = FileName::Manifest(env.manifest.file()).path(&env.dir);
    let found = format!("tables {low:06} and {high:06} of level {level} overlap");
    Err(Error::corruption("open the tables of", &path, 0, found)
        .remedy("restore the database from a backup"))
}

/// A leveled tree.
#[derive(Debug)]
struct Lsm {
    shared: Arc<Shared>,
    /// What is left of the debt with which it was opened: also of what writers had brought about
    /// before, who are not told apart.
    inherited: AtomicU64,
}

impl Lsm {
    /// What a merge of all tables would merge, newest first, less tables that are `hidden`; whether
    /// that is all.
    fn sources_but(
        &self,
        fill_cache: bool,
        hidden: impl Fn(&TableFile) -> bool,
        sources: &mut Vec<Source>,
    ) -> bool {
        let order = &self.shared.options.table.order;
        let one = |file: &Arc<TableFile>| {
            ConcatCursor::of_one(Arc::clone(file), order.clone(), fill_cache)
        };
        let run = |files: &Arc<[Arc<TableFile>]>| {
            ConcatCursor::new(Arc::clone(files), order.clone(), fill_cache)
        };
        self.shared.with_version(|version| {
            let Some((upper, deeper)) = version.levels().split_first() else {
                return true;
            };
            let levels = deeper.iter().filter(|tables| !tables.files().is_empty());
            let (before, runs) = (sources.len(), upper.files().len() + levels.count());
            let upper = upper.files().iter().filter(|file| !hidden(file));
            sources.extend(upper.map(|file| Source::Run(one(file))));
            let levels = deeper.iter().map(|tables| tables.files());
            // Hardly ever is even the first table of a level hidden.
            let levels = levels.filter(|files| !files.iter().all(|file| hidden(file)));
            sources.extend(levels.map(|files| Source::Run(run(files))));
            sources.len() - before == runs
        })
    }
}

impl Tree for Lsm {
    #[inline]
    fn get(&self, key: &[u8], hash: u64, at: Stamp) -> Result<Option<Found>> {
        let mut tally = Tally::default();
        let found = self
            .shared
            .with_version(|version| version.get(key, hash, at, &mut tally));
        tally.flush(&self.shared.env.counters);
        found
    }

    fn cursor(&self, fill_cache: bool) -> Box<dyn Cursor> {
        let mut sources = Vec::new();
        self.sources_but(fill_cache, |_| false, &mut sources);
        let order = self.shared.options.table.order.clone();
        Box::new(MergeCursor::new(sources, order))
    }

    fn sources(&self, fill_cache: bool, at: Stamp, sources: &mut Vec<Source>) -> bool {
        self.sources_but(fill_cache, |file| file.is_hidden(at), sources)
    }

    fn few_tables(&self, entries: u64) -> Vec<Arc<TableFile>> {
        self.shared.with_version(|version| {
            let sum: u64 = version.sizes().iter().map(|level| level.entries).sum();
            match sum <= entries {
                true => version.all().map(Arc::clone).collect(),
                false => Vec::new(),
            }
        })
    }

    fn generation(&self) -> u64 {
        self.shared.generation()
    }

    fn build(&self, run: &mut dyn Cursor, retention: &Retention) -> Result<Built> {
        flush::build(&self.shared, run, retention)
    }

    fn apply(&self, built: Built) {
        debug_assert!(built.is_kept(), "what is shown is durable");
        self.shared.add(built.files().to_vec());
        self.shared.env.externals.discard(&built.dropped_externals);
    }

    fn next_job(&self, wanted: Wanted, retention: &Retention) -> Option<Box<dyn Job>> {
        self.shared.clean();
        let mut upkeep = self.shared.upkeep();
        let version = self.shared.version();
        let shape: Vec<Vec<&TableMeta>> = version
            .levels()
            .iter()
            .map(|tables| tables.files().iter().map(|file| file.meta()).collect())
            .collect();
        let options = self.shared.options_now();
        let choice = match wanted {
            Wanted::Due => pick(&shape, &upkeep.busy, &options, retention),
            Wanted::Gathering => pick_gathering(&shape, &upkeep.busy, &options),
            Wanted::Everything | Wanted::Rest => {
                let begun = upkeep.pending.take().filter(|_| wanted == Wanted::Rest);
                let all = || version.all().map(|file| file.meta().file).collect();
                let pending = begun.unwrap_or_else(all);
                let choice = pick_full(&shape, &upkeep.busy, &pending, &options);
                let finished = pending.is_empty() || shape.is_empty();
                upkeep.pending = (!finished).then_some(pending);
                choice
            }
        }?;
        upkeep.busy.files.extend(choice.files());
        upkeep.busy.outputs.push(choice.output.clone());
        drop(upkeep);
        let job = Compaction::new(Arc::clone(&self.shared), &version, choice);
        Some(Box::new(job))
    }

    fn pressure(&self) -> Pressure {
        let options = &self.shared.options;
        // Relaxed, also below: a hint, which only falls.
        let inherited = self.inherited.load(Ordering::Relaxed);
        let pressure = self
            .shared
            .with_version(|version| pressure::of(version.sizes(), options, inherited));
        self.inherited
            .fetch_min(pressure.debt_bytes, Ordering::Relaxed);
        pressure
    }

    fn restyle(&self, style: TableStyle) {
        self.shared.restyle(style);
    }

    fn verify(&self, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let version = self.shared.version();
        check_order(&self.shared.env, &version)?;
        let mut bytes = 0;
        for file in version.all() {
            file.table().verify()?;
            bytes += file.meta().bytes;
            progress(bytes);
        }
        Ok(())
    }

    fn levels(&self) -> Vec<Level> {
        self.shared.with_version(|version| version.sizes().to_vec())
    }

    fn drop_files(&self) {
        self.shared.drop_files();
    }

    fn clean(&self) {
        self.shared.clean();
    }
}
