//! A table file with a life: checked once, shared, deleted when obsolete and no longer reachable.
//!
//! Y1. The file is deleted only after it was marked obsolete and its last owner let go: a version
//!     of the tree, a cursor, a job (L2).
//! Y2. The last owner may be whichever thread runs an epoch's deferred work, perhaps in the middle
//!     of a write: so dropping only lays the table in the graveyard, and background work buries it.
//!     A database has one, which work of any tree buries.
//! Y3. Or it may be who kept an iterator beyond the close: what is buried then is left for the next
//!     opening to remove (N5 of the manifest).
//!
//! Threads: any. Tests: the contract (`an old cursor keeps its files`), crash tests of layouts.

use crate::external::{ExternalHold, ExternalStore};
use crate::manifest::Manifest;
use crate::open_files::OpenFiles;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::checksum::Context;
use velella_base::file_name::FileName;
use velella_base::{DatabaseId, Error, ErrorKind, Order, Result, Stamp};
use velella_sst::{BlockCache, Counters, Table, TableMeta};
use velella_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella_sync::lock::Mutex;
use velella_vfs::Vfs;

/// What every layout is given at opening.
#[derive(Clone, Debug)]
pub struct Env {
    /// The file system.
    pub vfs: Arc<dyn Vfs>,
    /// The database directory.
    pub dir: PathBuf,
    /// The database.
    pub database: DatabaseId,
    /// Decoded blocks of all tables.
    pub cache: Arc<BlockCache>,
    /// What tables count.
    pub counters: Arc<Counters>,
    /// The log of edits.
    pub manifest: Arc<Manifest>,
    /// External values.
    pub externals: Arc<ExternalStore>,
    /// Files of tables that are open.
    pub files: Arc<OpenFiles>,
    /// Where obsolete tables go.
    pub graveyard: Arc<Graveyard>,
}

/// Tables waiting to be closed and deleted (Y2): those of all trees of a database, since a dropped
/// keyspace has no work of its own that would bury what its last reader leaves.
#[derive(Debug)]
pub struct Graveyard {
    vfs: Arc<dyn Vfs>,
    manifest: Arc<Manifest>,
    dead: Mutex<Vec<(Arc<Table>, PathBuf)>>,
}

impl Graveyard {
    /// An empty graveyard.
    #[must_use]
    pub fn new(vfs: Arc<dyn Vfs>, manifest: Arc<Manifest>) -> Arc<Self> {
        Arc::new(Graveyard {
            vfs,
            manifest,
            dead: Mutex::default(),
        })
    }

    /// Closes and deletes what lies here; says how many. Best effort: what cannot be deleted is
    /// unreferenced and found again at the next opening.
    pub fn bury(&self) -> usize {
        let dead = std::mem::take(&mut *self.dead.lock());
        self.manifest.unless_shut(|| {
            for (_table, path) in &dead {
                drop(self.vfs.remove(path));
            }
        });
        dead.len()
    }
}

/// Above every stamp.
const NEVER: u64 = u64::MAX;

/// An open table of a tree.
#[derive(Debug)]
pub struct TableFile {
    meta: TableMeta,
    table: Arc<Table>,
    path: PathBuf,
    obsolete: AtomicBool,
    /// See `overtake`; `NEVER` while it is not.
    overtaken_from: AtomicU64,
    graveyard: Arc<Graveyard>,
    /// The external values it names live as long as it.
    _externals: Vec<ExternalHold>,
}

impl TableFile {
    /// Opens the table that `meta` describes and checks that it is that table.
    ///
    /// # Errors
    /// `Corruption`: the file is not what the manifest says; `Unsupported`; `Io`.
    pub fn open(env: &Env, order: &Order, mut meta: TableMeta) -> Result<Arc<TableFile>> {
        let path = FileName::Table(meta.file).path(&env.dir);
        let file = env.files.open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                let found = "the manifest names it, but it is not there".to_owned();
                mismatch(&path, 0, found)
            }
            _ => error,
        })?;
        if file.len() != meta.bytes {
            let found = format!(
                "it has {} bytes, the manifest says {}",
                file.len(),
                meta.bytes
            );
            return Err(mismatch(&path, file.len().min(meta.bytes), found));
        }
        let context = Context {
            database: env.manifest.origin(meta.file),
            file: meta.file,
        };
        let table = Table::open(
            file,
            context,
            order.clone(),
            Arc::clone(&env.cache),
            Arc::clone(&env.counters),
        )?;
        // The manifest does not say.
        meta.shadowed = table.meta().shadowed;
        if *table.meta() != meta {
            let found = "its properties are not those in the manifest".to_owned();
            return Err(mismatch(&path, 0, found));
        }
        let externals = meta
            .externals
            .iter()
            .map(|file| env.externals.hold(*file))
            .collect();
        Ok(Arc::new(TableFile {
            meta,
            table,
            path,
            obsolete: AtomicBool::new(false),
            overtaken_from: AtomicU64::new(NEVER),
            graveyard: Arc::clone(&env.graveyard),
            _externals: externals,
        }))
    }

    /// What is known of it.
    #[must_use]
    #[inline]
    pub fn meta(&self) -> &TableMeta {
        &self.meta
    }

    /// The open table.
    #[must_use]
    #[inline]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the keys of this table and `[smallest, largest]` meet.
    #[must_use]
    pub fn overlaps(&self, order: &Order, smallest: &[u8], largest: &[u8]) -> bool {
        order.compare(&self.meta.smallest, largest).is_le()
            && order.compare(smallest, &self.meta.largest).is_le()
    }

    /// Readers at or above `from` find a newer version of each of its keys elsewhere, from now on
    /// for as long as there is this table.
    pub fn overtake(&self, from: Stamp) {
        // Relaxed: a fact about stamps, true whoever learns of it when.
        self.overtaken_from.fetch_min(from.0, Ordering::Relaxed);
    }

    /// Whether a reader at `at` finds nothing here but what is newer elsewhere.
    #[must_use]
    #[inline]
    pub fn is_overtaken(&self, at: Stamp) -> bool {
        // Relaxed: see `overtake`.
        self.overtaken_from.load(Ordering::Relaxed) <= at.0
    }

    /// Whether a reader at `at` has nothing to look for here: it is newer, or newer elsewhere.
    #[must_use]
    #[inline]
    pub fn is_hidden(&self, at: Stamp) -> bool {
        self.meta.min_stamp > at || self.is_overtaken(at)
    }

    /// Where it goes once it is obsolete.
    pub(crate) fn graveyard(&self) -> Arc<Graveyard> {
        Arc::clone(&self.graveyard)
    }

    /// Nothing durable names the file any more: it goes when its last owner does (Y1).
    pub fn mark_obsolete(&self) {
        // Release, partner: the Acquire in `drop`, which the last owner runs.
        self.obsolete.store(true, Ordering::Release);
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        // Acquire, partner: `mark_obsolete`.
        if self.obsolete.load(Ordering::Acquire) {
            let table = Arc::clone(&self.table);
            let path = std::mem::take(&mut self.path);
            self.graveyard.dead.lock().push((table, path));
        }
    }
}

fn mismatch(path: &Path, offset: u64, found: String) -> Error {
    Error::corruption("open the table", path, offset, found)
        .remedy("restore this file from a backup")
}
