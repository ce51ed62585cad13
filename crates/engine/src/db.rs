//! The handle on an open database: database-wide operations, delegated.
//!
//! H1. After `close` every read, write and change through any handle, keyspace, snapshot or
//!     iterator fails with `Closed`; nothing panics. What cannot fail tells of the end, closing
//!     again is well, and an iterator at its end stays there.
//!
//! Tests: `tests/lifecycle.rs`.

use crate::catalogue::DEFAULT_KEYSPACE;
use crate::core::Engine;
use crate::handle::Handle;
use crate::keyspace::Keyspace;
use crate::keyspace_core::Core;
use crate::options::{Builder, KeyspaceOptions, Options, WriteOptions};
use crate::snapshot::Snapshot;
use crate::stats::Stats;
use crate::verify::VerifyReport;
use crate::write_batch::WriteBatch;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use velella_base::{Error, ErrorKind, Result, Stamp};
use velella_journal::Report;

/// So many keyspaces are named in the error of one that is not there.
const NAMES_SHOWN: usize = 8;

/// An open database. Clones are handles on the same one.
///
/// It dereferences to its keyspace `default`, so `db.put(…)` and `db.get(…)` work at once.
///
/// The database is open as long as some `Db`, `Keyspace`, `Snapshot` or iterator of it lives;
/// dropping the last closes it, and hides what fails in that. [`Db::close`] closes it at once and
/// tells.
///
/// It has threads, mappings and a lock of its process: a program that forks opens it afterwards,
/// and a forked child must not touch, nor drop, what its parent has open.
#[derive(Debug, Clone)]
pub struct Db {
    default: Keyspace,
}

impl std::ops::Deref for Db {
    type Target = Keyspace;

    fn deref(&self) -> &Keyspace {
        &self.default
    }
}

impl Db {
    /// Settings for opening a database.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn open_with(builder: Builder, dir: &Path) -> Result<Db> {
        let handle = crate::open::open(builder, dir)?;
        let core = handle.engine.core_named(DEFAULT_KEYSPACE)?;
        Ok(Db {
            default: Keyspace { handle, core },
        })
    }

    fn handle(&self) -> &Arc<Handle> {
        &self.default.handle
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.default.handle.engine
    }

    /// What recovery found and did when the database was opened.
    #[must_use]
    pub fn recovery(&self) -> &Report {
        &self.engine().recovery
    }

    /// The database's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.engine().dir
    }

    /// The settings in force.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.engine().options
    }

    /// Creates a keyspace. Names have 1 to 255 bytes and no control characters.
    ///
    /// It is durable when this returns, and so is all that was written before: the call syncs the
    /// journal and the manifest, and without a journal flushes all keyspaces.
    ///
    /// # Errors
    /// `AlreadyExists`, `InvalidInput`, `ReadOnly`, `NoSpace`, `Io`, `Closed`; `OutcomeUnknown`:
    /// the next opening may find it, or not.
    pub fn create_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        let core = self.engine().create_keyspace(name, &options)?;
        Ok(Keyspace {
            handle: Arc::clone(self.handle()),
            core,
        })
    }

    /// Opens a keyspace.
    ///
    /// # Errors
    /// `NotFound`, naming some that exist; `Closed`.
    pub fn keyspace(&self, name: &str) -> Result<Keyspace> {
        self.engine().check_open()?;
        let core = self.engine().core_named(name)?;
        Ok(Keyspace {
            handle: Arc::clone(self.handle()),
            core,
        })
    }

    /// Opens a keyspace and changes its settings: those that are `Some` are stored and hold from
    /// now on, for the next memtable and for tables begun from now on (`flush` and `compact` bring
    /// everything there); those that are `None` stay what they are. The order cannot be changed; to
    /// give it is to check it.
    ///
    /// # Errors
    /// `NotFound`, naming some that exist; `InvalidInput`: a setting is outside its limits, or the
    /// keyspace has another order; `ReadOnly`, `NoSpace`, `Io`, `Closed`; `OutcomeUnknown`: the
    /// next opening may find the new settings or the old.
    pub fn open_keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<Keyspace> {
        self.engine().check_open()?;
        let core = self.engine().open_keyspace(name, &options)?;
        Ok(Keyspace {
            handle: Arc::clone(self.handle()),
            core,
        })
    }

    /// Opens a keyspace, and creates it with default settings if there is none of that name.
    ///
    /// # Errors
    /// As [`Db::create_keyspace`], but never `AlreadyExists`.
    pub fn keyspace_or_create(&self, name: &str) -> Result<Keyspace> {
        self.keyspace_or_create_with(name, KeyspaceOptions::default())
    }

    /// Opens a keyspace as [`Db::open_keyspace`] does, and creates it with the same settings if
    /// there is none of that name: either way it has those that are `Some`.
    ///
    /// # Errors
    /// As [`Db::create_keyspace`] and [`Db::open_keyspace`], but never `AlreadyExists` nor
    /// `NotFound`. `InvalidInput` also says that the keyspace has another order.
    pub fn keyspace_or_create_with(
        &self,
        name: &str,
        options: KeyspaceOptions,
    ) -> Result<Keyspace> {
        self.engine().check_open()?;
        loop {
            if self.engine().find_core(name).is_none() {
                match self.create_keyspace(name, options.clone()) {
                    // Somebody else was faster.
                    Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                    created => return created,
                }
            }
            match self.open_keyspace(name, options.clone()) {
                // And somebody dropped it.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                opened => return opened,
            }
        }
    }

    /// Drops a keyspace and its data for good. Reads and writes through what was opened on it
    /// before, snapshots and iterators too, fail with `NotFound` from then on.
    ///
    /// The drop is durable when this returns, and so is all that was written before, as for
    /// [`Db::create_keyspace`]. A flush under way is waited for. Memory and disk space of the
    /// keyspace are free once its last reader is done.
    ///
    /// # Errors
    /// `NotFound`; `InvalidInput`: the keyspace `default` stays; `NoSpace`, `Io`: it is as it was;
    /// `OutcomeUnknown`: the next opening may find it whole, or not at all; `ReadOnly`, `Closed`.
    pub fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.engine().drop_keyspace(name)
    }

    /// The names of all keyspaces, sorted.
    #[must_use]
    pub fn keyspaces(&self) -> Vec<String> {
        self.engine().keyspaces.lock().keys().cloned().collect()
    }

    /// Applies a batch: all of it, or nothing, for readers and across crashes. Of several
    /// operations on one key the last counts. It may wait as [`Keyspace::put`] does.
    ///
    /// An empty batch writes nothing; its stamp is that of what was written before. With
    /// [`WriteOptions::sync`] it makes that durable, as [`Db::persist`] does.
    ///
    /// # Errors
    /// `InvalidInput`: over a limit, or of another database or opening; `NotFound`: of a dropped
    /// keyspace; `ReadOnly`, `NoSpace`, `Io`, `Closed`; `OutcomeUnknown`: the batch may or may not
    /// survive.
    pub fn write(&self, batch: &WriteBatch) -> Result<Stamp> {
        self.write_with(batch, WriteOptions::default())
    }

    /// As [`Db::write`], with options.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_with(&self, batch: &WriteBatch, options: WriteOptions) -> Result<Stamp> {
        let written = self
            .engine()
            .write_batch(&batch.operations, None, options)?;
        Ok(written.expect("nothing was demanded that could be refused"))
    }

    /// Applies a batch only if none of its keys was written since `snapshot`; `None` if one was,
    /// and then nothing is written. With reads at the same snapshot this is a transaction under
    /// snapshot isolation: read, decide, write, and start over on `None`.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub fn write_if_unchanged(
        &self,
        batch: &WriteBatch,
        snapshot: &Snapshot,
        options: WriteOptions,
    ) -> Result<Option<Stamp>> {
        snapshot.check_origin(self.handle())?;
        self.engine()
            .write_batch(&batch.operations, Some(snapshot.stamp()), options)
    }

    /// A fixed view of all keyspaces. It costs one short lock and one clock operation. As long as
    /// it lives, the versions that it sees are kept, in memory and on disk: drop it when you are
    /// done.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(self.handle())
    }

    /// The watermark: every write with a stamp at or below it survives a power loss. It speaks of
    /// what this opening found and wrote: stamps of writes that an earlier opening gave up (see
    /// [`Db::recovery`]) lie below it, too.
    #[must_use]
    pub fn durable(&self) -> Stamp {
        self.engine().durable()
    }

    /// Returns once the write with this stamp is durable, starting a sync if need be. As
    /// [`Db::durable`], it speaks of this opening: the stamp of a write that is lost tells nothing.
    ///
    /// # Errors
    /// `Io`: the sync failed; `ReadOnly`: the database takes no more writes, also if this one is
    /// durable; `NoSpace`: without a journal, which flushes instead; `InvalidInput`: no write has
    /// this stamp yet; `Closed`.
    pub fn wait_durable(&self, stamp: Stamp) -> Result<()> {
        self.engine().check()?;
        let last = self.engine().clock.now();
        if stamp > last {
            let found = format!("stamp {stamp} has not been given out, the last is {last}");
            return Err(Error::invalid("wait for durability", found));
        }
        self.engine().make_durable(stamp, Duration::ZERO)
    }

    /// Makes everything acknowledged so far durable; returns the watermark reached. Without a
    /// journal it flushes all keyspaces.
    ///
    /// # Errors
    /// As [`Db::wait_durable`].
    pub fn persist(&self) -> Result<Stamp> {
        self.engine().check()?;
        self.engine()
            .make_durable(self.engine().clock.observe(), Duration::ZERO)?;
        Ok(self.durable())
    }

    /// Writes the memtables of all keyspaces to tables, and returns when what was written before is
    /// there: it is durable then. Readers and writers go on meanwhile. The disk needs room for the
    /// tables; the journal gives its own back afterwards.
    ///
    /// # Errors
    /// `ReadOnly`, `NoSpace`, `Io`, `Closed`.
    pub fn flush(&self) -> Result<()> {
        self.engine().flush_all(&self.engine().cores())
    }

    /// Flushes, then compacts every keyspace down to its last level. It returns when that is done,
    /// which takes as long as reading and writing everything; readers and writers go on meanwhile.
    /// What is rewritten stands on the disk twice for a while, so there must be room for that, in
    /// parts where much is rewritten. Versions that a live [`Snapshot`] or iterator sees stay.
    ///
    /// # Errors
    /// As [`Db::flush`]; `Corruption`: what is there could not be read.
    pub fn compact(&self) -> Result<()> {
        let cores = self.engine().cores();
        self.engine().compact_fully(&cores)
    }

    /// Reads every table, the values in files of their own that these refer to, the manifest, and
    /// of the journal what a power loss would leave (if it stands still long enough: the report
    /// says); checks every checksum and every invariant. After a flush that is all there is. It may
    /// run beside readers and writers, and holds nothing that they need.
    ///
    /// # Errors
    /// `Corruption`: file and offset of the first damage; `Io`; `Closed`.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(&mut |_, _| {})
    }

    /// As [`Db::verify`]; `progress` is told bytes read and bytes in all.
    ///
    /// # Errors
    /// As [`Db::verify`].
    pub fn verify_with(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<VerifyReport> {
        self.engine().check_open()?;
        self.engine().verify(progress)
    }

    /// Counters, sizes, and why writers waited: a pass over all keyspaces.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.engine().stats()
    }

    /// Closes the database: ends background work, makes everything durable, gives up the lock.
    /// Writes under way are waited for. With a journal that takes a sync, and the memtables are
    /// written to tables by the next opening; without one it is a flush, which needs room.
    ///
    /// # Errors
    /// What kept the last writes from becoming durable; closing again returns the same error, since
    /// nothing is tried twice. `Closed`: an earlier close panicked. `InvalidInput`: called by the
    /// function that the same thread gave to [`Db::transact`].
    pub fn close(&self) -> Result<()> {
        self.handle().close()
    }

    /// The keyspace `default`, as a handle of its own.
    #[must_use]
    pub fn default_keyspace(&self) -> Keyspace {
        self.default.clone()
    }
}

impl Keyspace {
    /// A handle on the database that it belongs to.
    #[must_use]
    pub fn db(&self) -> Db {
        let default = self.handle.engine.core_named(DEFAULT_KEYSPACE);
        Db {
            default: Keyspace {
                handle: Arc::clone(&self.handle),
                core: default.expect("it is there from the opening on and cannot be dropped"),
            },
        }
    }
}

impl Builder {
    /// Opens the database in `dir`, creating it if need be and allowed. What the journal of the
    /// last run holds is written to tables first, which takes time and room in proportion to it.
    ///
    /// # Errors
    /// `Locked`: it is open already, here or in another process; `NotFound`: there is none, and
    /// [`Options::create`] is false; `AlreadyExists`: something else is there; `Corruption`;
    /// `Unsupported`: the files are of a newer format, or a mapped journal was demanded where none
    /// can be; `Permission`; `InvalidInput`: a setting is outside its limits, which the builder's
    /// own methods do not check; `Io`; `NoSpace`: there is no room for what the journal holds, and
    /// all is left as it was.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Db> {
        Db::open_with(self, dir.as_ref())
    }
}

impl Engine {
    /// The keyspace of this name, if there is one.
    pub(crate) fn find_core(&self, name: &str) -> Option<Arc<Core>> {
        self.keyspaces.lock().get(name).cloned()
    }

    /// The keyspace of this name.
    pub(crate) fn core_named(&self, name: &str) -> Result<Arc<Core>> {
        self.find_core(name).ok_or_else(|| self.none_named(name))
    }

    #[cold]
    fn none_named(&self, name: &str) -> Error {
        let keyspaces = self.keyspaces.lock();
        let shown: Vec<String> = keyspaces.keys().take(NAMES_SHOWN).cloned().collect();
        let others = keyspaces.len() - shown.len();
        drop(keyspaces);
        let mut found = format!("there is none of that name, only `{}`", shown.join("`, `"));
        if others > 0 {
            found += &format!(" and {others} more");
        }
        let attempt = format!("open keyspace `{name}`");
        Error::new(ErrorKind::NotFound, attempt, found)
    }
}
