//! A database directory in memory with one keyspace: what the cases work on.

use crate::{
    Built, Edit, Env, ExternalStore, Graveyard, KeyspaceRecord, Manifest, OpenFiles, Tree,
    TreeOptions, Wanted,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{Cursor, Entry, KeyspaceId, Order, Result, Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_sst::{BlockCache, Compression, Counters, TableOptions, key_hash};
use velella_vfs::Vfs;

/// Opens a tree of the layout under test.
pub type OpenTree = fn(Env, TreeOptions, &crate::KeyspaceState) -> Result<Arc<dyn Tree>>;

/// One version: key, stamp, kind, payload.
pub type Run = Vec<(Vec<u8>, u64, ValueKind, Vec<u8>)>;

/// The keyspace the cases use.
pub(super) const KEYSPACE: KeyspaceId = 1;

/// A sorted run as a cursor.
#[derive(Debug)]
pub struct VecCursor {
    run: Run,
    order: Order,
    at: Option<usize>,
}

/// A database with one keyspace and its tree.
pub struct Bench {
    /// The file system.
    pub vfs: Arc<dyn Vfs>,
    /// What the tree was given.
    pub env: Env,
    /// How the keyspace is laid out.
    pub options: TreeOptions,
    /// The tree.
    pub tree: Arc<dyn Tree>,
    open: OpenTree,
}

impl Bench {
    /// Small tables and levels, so that little data makes many of them.
    #[must_use]
    pub fn small_options(order: Order) -> TreeOptions {
        let table = TableOptions {
            block_bytes: 256,
            compression: Compression::Lz4,
            order,
            ..TableOptions::default()
        };
        TreeOptions {
            table_bytes: 2 << 10,
            level_bytes: 6 << 10,
            ..TreeOptions::new(KEYSPACE, table)
        }
    }

    /// A new database on `vfs`, in order.
    ///
    /// # Errors
    /// What the file system refused.
    pub fn create(vfs: Arc<dyn Vfs>, order: Order, open: OpenTree) -> Result<Bench> {
        let (manifest, _) = Manifest::create(Arc::clone(&vfs), &Self::dir())?;
        manifest.commit(&[Edit::CreateKeyspace(KeyspaceRecord {
            id: KEYSPACE,
            name: "default".into(),
            layout: "under-test".into(),
            order: order.name().into(),
            merge_operator: String::new(),
            prefix_extractor: String::new(),
            created: Stamp(1),
        })])?;
        Self::with(vfs, manifest, order, open)
    }

    /// The database on `vfs`, opened (again), with orphaned files removed as the engine does.
    ///
    /// # Errors
    /// `Corruption`; what the file system refused.
    pub fn reopen(vfs: Arc<dyn Vfs>, order: Order, open: OpenTree) -> Result<Bench> {
        let (manifest, state) = Manifest::open(Arc::clone(&vfs), &Self::dir())?;
        for name in crate::unreferenced(&*vfs, &Self::dir(), &state, &Default::default())? {
            vfs.remove(&name.path(&Self::dir()))?;
        }
        Self::with(vfs, manifest, order, open)
    }

    fn with(vfs: Arc<dyn Vfs>, manifest: Manifest, order: Order, open: OpenTree) -> Result<Bench> {
        let dir = Self::dir();
        let manifest = Arc::new(manifest);
        let database = manifest.database();
        // So few that they are closed and opened again.
        let files = OpenFiles::new(Arc::clone(&vfs), 2);
        let externals = ExternalStore::new(
            Arc::clone(&files),
            dir.clone(),
            database,
            Arc::clone(&manifest),
        );
        let env = Env {
            vfs: Arc::clone(&vfs),
            files,
            graveyard: Graveyard::new(Arc::clone(&vfs), Arc::clone(&manifest)),
            dir,
            database,
            cache: BlockCache::new(1 << 20),
            counters: Arc::new(Counters::default()),
            manifest,
            externals: Arc::new(externals),
        };
        let options = Self::small_options(order);
        let state = env.manifest.state();
        let keyspace = state.keyspace(KEYSPACE).ok_or_else(|| {
            velella_base::Error::invalid("open the keyspace", "it does not exist")
        })?;
        let tree = open(env.clone(), options.clone(), keyspace)?;
        Ok(Bench {
            vfs,
            env,
            options,
            tree,
            open,
        })
    }

    /// Closes and opens again on the same file system.
    ///
    /// # Errors
    /// As [`Bench::reopen`].
    pub fn restart(self) -> Result<Bench> {
        let Bench {
            vfs,
            env,
            options,
            tree,
            open,
        } = self;
        drop((env, tree));
        Self::reopen(vfs, options.table.order, open)
    }

    /// Where the database is.
    #[must_use]
    pub fn dir() -> PathBuf {
        Path::new("/db").to_path_buf()
    }

    /// Flushes a run as the engine does: build, commit, apply.
    ///
    /// # Errors
    /// What the file system refused.
    pub fn flush(&self, run: Run, retention: &Retention) -> Result<()> {
        let below = run.iter().map(|version| version.1 + 1).max().unwrap_or(0);
        let mut built = self.build(run, retention)?;
        let mut edits = built.edits(KEYSPACE);
        edits.push(Edit::Flushed {
            keyspace: KEYSPACE,
            below: Stamp(below),
        });
        self.env.manifest.commit(&edits)?;
        self.tree.apply(built);
        Ok(())
    }

    /// The first half of a flush.
    ///
    /// # Errors
    /// What the file system refused.
    pub fn build(&self, run: Run, retention: &Retention) -> Result<Built> {
        let mut cursor = VecCursor::new(run, self.options.table.order.clone());
        self.tree.build(&mut cursor, retention)
    }

    /// Runs one job, if one is offered.
    ///
    /// # Errors
    /// The job's.
    pub fn work(&self, wanted: Wanted, retention: &Retention) -> Result<bool> {
        let Some(job) = self.tree.next_job(wanted, retention) else {
            return Ok(false);
        };
        job.run(&|| retention.clone(), &|| Ok(true))?;
        Ok(true)
    }

    /// Runs jobs until none is offered.
    ///
    /// # Errors
    /// A job's.
    ///
    /// # Panics
    /// If upkeep does not come to an end.
    pub fn work_all(&self, mut wanted: Wanted, retention: &Retention) -> Result<usize> {
        let mut jobs = 0;
        while self.work(wanted, retention)? {
            jobs += 1;
            if wanted == Wanted::Everything {
                wanted = Wanted::Rest;
            }
            assert!(jobs < 10_000, "upkeep goes on for ever");
        }
        Ok(jobs)
    }

    /// The newest version of `key` at or below `at`: stamp, kind, payload.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn get(&self, key: &[u8], at: u64) -> Result<Option<(u64, ValueKind, Vec<u8>)>> {
        let found = self.tree.get(key, key_hash(key), Stamp(at))?;
        Ok(found.map(|found| (found.stamp.0, found.kind, found.value.to_vec())))
    }

    /// All versions, by a walk forward.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub fn all(&self) -> Result<Run> {
        let mut cursor = self.tree.cursor(true);
        let mut run = Run::new();
        cursor.seek_first()?;
        while let Some(entry) = cursor.entry() {
            run.push(owned(entry));
            cursor.next()?;
        }
        Ok(run)
    }

    /// Names of table and external files on disk.
    ///
    /// # Errors
    /// What the file system refused.
    pub fn files(&self) -> Result<Vec<String>> {
        let names = self.vfs.read_dir(&Self::dir())?;
        let names = names.iter().filter_map(|path| path.file_name()?.to_str());
        Ok(names
            .filter(|name| name.contains(".sst") || name.contains(".ext"))
            .map(str::to_owned)
            .collect())
    }
}

/// An entry with bytes of its own.
#[must_use]
pub(super) fn owned(entry: Entry<'_>) -> (Vec<u8>, u64, ValueKind, Vec<u8>) {
    (
        entry.key.to_vec(),
        entry.stamp.0,
        entry.kind,
        entry.value.to_vec(),
    )
}

impl VecCursor {
    /// A cursor over versions, which it sorts.
    #[must_use]
    pub fn new(mut run: Run, order: Order) -> Self {
        run.sort_by(|a, b| order.compare(&a.0, &b.0).then(b.1.cmp(&a.1)));
        VecCursor {
            run,
            order,
            at: None,
        }
    }

    fn stand(&mut self, at: Option<usize>) -> Result<()> {
        self.at = at.filter(|at| *at < self.run.len());
        Ok(())
    }
}

impl Cursor for VecCursor {
    fn seek_first(&mut self) -> Result<()> {
        self.stand(Some(0))
    }
    fn seek_last(&mut self) -> Result<()> {
        self.stand(self.run.len().checked_sub(1))
    }
    fn seek(&mut self, key: &[u8], stamp: Stamp) -> Result<()> {
        let at = self.run.partition_point(|version| {
            let keys = self.order.compare(&version.0, key);
            keys.then(stamp.0.cmp(&version.1)).is_lt()
        });
        self.stand(Some(at))
    }
    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        let below = |version: &(Vec<u8>, u64, ValueKind, Vec<u8>)| {
            self.order.compare(&version.0, key).is_lt()
        };
        self.stand(self.run.partition_point(below).checked_sub(1))
    }
    fn next(&mut self) -> Result<()> {
        self.stand(self.at.map(|at| at + 1))
    }
    fn prev(&mut self) -> Result<()> {
        self.stand(self.at.and_then(|at| at.checked_sub(1)))
    }
    fn entry(&self) -> Option<Entry<'_>> {
        let (key, stamp, kind, value) = self.run.get(self.at?)?;
        Some(Entry {
            key,
            stamp: Stamp(*stamp),
            kind: *kind,
            value,
        })
    }
}
