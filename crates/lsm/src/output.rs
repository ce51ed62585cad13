//! Tables being written by a flush or a compaction.
//!
//! O1. A table's file is synced when it is finished, its name when all are; only then may a
//!     manifest edit refer to them.
//! O2. What is not handed on is removed: dropping an unfinished output leaves no files behind
//!     unless a crash interrupts it (then they are unreferenced, and found at the next opening).
//! O3. What is written is kept for the cache only while the cache could hold the whole tree, if it
//!     had no other: else these blocks are no more likely to be read than others.
//!
//! Threads: one. Tests: `tests/crash.rs`, `tests/levels.rs`.

use crate::tree::Shared;
use std::sync::Arc;
use velella_base::checksum::Context;
use velella_base::file_name::FileName;
use velella_base::{Entry, Result, seeded};
use velella_sst::{KeptBlocks, TableBuilder, TableMeta, TableOptions};
use velella_tree::TableFile;

/// A run of tables being written.
pub(crate) struct Output<'a> {
    shared: &'a Shared,
    options: TableOptions,
    /// Whether blocks are kept for the cache (O3).
    keeps: bool,
    open: Option<TableBuilder>,
    done: Vec<(TableMeta, Option<KeptBlocks>)>,
    /// Files begun, to be removed unless they are handed on (O2).
    begun: Vec<u64>,
}

impl<'a> Output<'a> {
    /// Tables for `level`.
    pub(crate) fn new(shared: &'a Shared, level: usize) -> Self {
        let now = shared.options_now();
        let mut options = now.table;
        if level <= 1 {
            options.compression = now.upper_compression;
        }
        Output {
            shared,
            options,
            keeps: shared.bytes() <= shared.env.cache.capacity(),
            open: None,
            done: Vec::new(),
            begun: Vec::new(),
        }
    }

    /// Bytes of the open table so far.
    #[inline]
    pub(crate) fn open_bytes(&self) -> u64 {
        self.open.as_ref().map_or(0, TableBuilder::estimated_bytes)
    }

    /// Appends an entry to the open table, beginning one if none is.
    #[inline]
    pub(crate) fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        match &mut self.open {
            Some(builder) => builder.add(entry),
            None => self.begin()?.add(entry),
        }
    }

    fn begin(&mut self) -> Result<&mut TableBuilder> {
        let env = &self.shared.env;
        let number = env.manifest.next_file()?;
        let path = FileName::Table(number).path(&env.dir);
        let file = env.files.with_room(|| env.vfs.create(&path))?;
        self.begun.push(number);
        let context = Context {
            database: env.database,
            file: number,
        };
        let mut builder = TableBuilder::new(file, context, self.options.clone());
        if self.keeps {
            builder = builder.keep_blocks(Arc::clone(&env.cache));
        }
        Ok(self.open.insert(builder))
    }

    /// Finishes the open table; the next entry begins another. Call it only between keys.
    pub(crate) fn split(&mut self) -> Result<()> {
        if let Some(builder) = self.open.take() {
            self.done.push(builder.finish_keeping()?);
        }
        Ok(())
    }

    /// Finishes all, syncs their names (O1) and opens them. They are kept only if `keep` is called
    /// on the result.
    pub(crate) fn finish(mut self) -> Result<Finished<'a>> {
        self.split()?;
        let env = &self.shared.env;
        if !self.done.is_empty() && !seeded("the-names-of-tables-are-not-synced") {
            env.manifest.sync_names()?;
        }
        let open = |(meta, kept): (TableMeta, Option<KeptBlocks>)| {
            let order = &self.shared.options.table.order;
            let file = TableFile::open(env, order, meta)?;
            if let Some(kept) = kept {
                file.table().warm(kept);
            }
            Ok(file)
        };
        let files = self.done.drain(..).map(open).collect::<Result<_>>()?;
        Ok(Finished {
            files,
            output: self,
        })
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        // Best effort (O2).
        drop(self.open.take());
        let (env, begun) = (&self.shared.env, std::mem::take(&mut self.begun));
        env.manifest.unless_shut(|| {
            for number in begun {
                drop(env.vfs.remove(&FileName::Table(number).path(&env.dir)));
            }
        });
    }
}

/// Tables written, synced and open.
pub(crate) struct Finished<'a> {
    files: Vec<Arc<TableFile>>,
    output: Output<'a>,
}

impl Finished<'_> {
    /// The tables.
    pub(crate) fn files(&self) -> &[Arc<TableFile>] {
        &self.files
    }

    /// Keeps the files: a manifest edit names them, or may.
    pub(crate) fn keep(mut self) -> Vec<Arc<TableFile>> {
        self.output.begun.clear();
        std::mem::take(&mut self.files)
    }
}
