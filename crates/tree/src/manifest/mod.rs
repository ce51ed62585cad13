//! The manifest: an append-only log of edits, and `CURRENT`, which names the file in force.
//!
//! Format: docs/format/manifest.md.
//!
//! N1. A commit is one record, written and synced before it returns; after a failed write or sync
//!     nothing is known, so the manifest is poisoned and every later commit says why. A full disk
//!     is no such failure: what was written of the record is cut off again, and later commits may
//!     find room.
//! N2. Opening always writes a new manifest and swaps `CURRENT`: what a dead process left in the
//!     page cache, its sync perhaps failed, is never built upon. The new file, its name, and only
//!     then `CURRENT` are synced; nothing is committed to a file before all of that is durable, and
//!     the one before it stays until then.
//! N3. File numbers are leased in blocks before they are given out, and a manifest takes a number
//!     above every file present: no number comes back.
//! N4. A directory that is neither empty nor a database is left alone.
//! N5. Once it is shut nothing is committed, no large value's file made, and nothing removed that
//!     was not needed any more: the directory may be another opening's by then.
//! N6. Names in the database's directory are synced here, for everybody: no file whose name a
//!     failed sync may have lost is ever committed.
//! N7. A manifest has one record until it is durably in force (N2). One with more that is later
//!     than the one `CURRENT` names was in force after it: `CURRENT` is what it was some time
//!     before, and is reported as damaged.
//!
//! Threads: any; commits are serial. Tests: `manifest/tests.rs`, `tests/manifest_ends.rs`,
//! `tests/manifest.rs` (golden file, power cuts, every byte flipped).

mod fault;
mod settings;
mod edit;
mod state;
mod log;
mod current;
mod directory;

pub use directory::{create_directory, unreferenced};
pub use edit::{Edit, KeyspaceRecord, LEVELS_MAX};
pub use log::{Record, Replay};
pub use settings::KeyspaceSettings;
pub use state::{KeyspaceState, State};

use crate::header::Purpose;
use crate::manifest::log::Log;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::file_name::FileName;
use velella_base::{DatabaseId, Error, ErrorKind, Result, seeded};
use velella_sync::atomic::{AtomicU64, Ordering};
use velella_sync::lock::{Mutex, RwLock};
use velella_vfs::{Names, Vfs, WriteFile, lacks_descriptors};

/// File numbers leased at once.
const FILE_LEASE: u64 = 256;
/// A manifest is rewritten when it exceeds this and four times its size after the last rewriting.
const ROLL_BYTES: u64 = 1 << 20;

/// The append-only log of edits, and `CURRENT`, which names it.
#[derive(Debug)]
pub struct Manifest {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    names: Names,
    database: DatabaseId,
    origins: Vec<(u64, DatabaseId)>,
    /// Number of the file that is durably in force.
    file: AtomicU64,
    /// Bytes of it that are durable.
    durable: AtomicU64,
    writer: Mutex<Writer>,
    /// Taken after `writer` where both are.
    numbers: Mutex<Numbers>,
    /// N5. Taken before `writer`; shared by whoever changes the directory.
    is_shut: RwLock<bool>,
}

#[derive(Debug)]
struct Writer {
    log: Log,
    state: State,
    roll_above: u64,
    /// Never rewritten before it is as long.
    roll_least: u64,
    poison: Option<Error>,
    /// The number of the file that is written to, while a loss of power may put the one before it
    /// in force again (N2).
    unsettled: Option<u64>,
}

/// The next file number, and the first that is not leased yet.
#[derive(Debug)]
struct Numbers {
    next: u64,
    leased: u64,
}

impl Manifest {
    /// Creates a database: a directory, a manifest with a new random id, `CURRENT`, all synced.
    ///
    /// # Errors
    /// `AlreadyExists`: a database, or something else, is there; `Corruption`: one without
    /// `CURRENT` is; or what the file system refused.
    pub fn create(vfs: Arc<dyn Vfs>, dir: &Path) -> Result<(Manifest, State)> {
        Self::create_with(vfs, dir, directory::random_id(), State::default())
    }

    /// Writes the manifest of a checkpoint into `dir`, which holds the tables of `state` (and
    /// nothing else): a new database id, no incarnation; the files keep `origin`'s checksums.
    ///
    /// # Errors
    /// As [`Manifest::create`].
    pub fn checkpoint(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        state: &State,
        origin: DatabaseId,
    ) -> Result<DatabaseId> {
        let mut state = state.clone();
        state.incarnation = 0;
        state.seal_file = 0;
        state.token = velella_vfs::Identity::default();
        state.origins.push((state.next_file, origin));
        let database = directory::random_id();
        vfs.create_dir_all(dir)?;
        let manifest = Self::start(vfs, dir, database, state)?;
        Ok(manifest.database())
    }

    /// Whether a database is in `dir`, which is there, or may be created in it; nothing is changed
    /// and no lock needed.
    ///
    /// # Errors
    /// As [`Manifest::create`].
    pub fn check_room(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
        match directory::leftovers(vfs, dir) {
            // Somebody may be creating one right now.
            Err(_) if Self::exists(vfs, dir)? => Ok(()),
            checked => checked.map(drop),
        }
    }

    /// Where there is no database to open: whether it is one that lost its `CURRENT`.
    #[must_use]
    pub fn lost_current(vfs: &dyn Vfs, dir: &Path) -> Option<Error> {
        let checked = Self::check_room(vfs, dir);
        let is_damage = |error: &Error| error.kind() == ErrorKind::Corruption;
        checked.err().filter(is_damage)
    }

    /// As [`Manifest::create`], under a given id (golden files, tests).
    ///
    /// # Errors
    /// As [`Manifest::create`].
    #[doc(hidden)]
    pub fn create_with(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        database: DatabaseId,
        state: State,
    ) -> Result<(Manifest, State)> {
        directory::prepare(&*vfs, dir)?;
        let manifest = Self::start(vfs, dir, database, state)?;
        let state = manifest.state();
        Ok((manifest, state))
    }

    /// Opens the manifest `CURRENT` names, replays it and writes it anew (N2). A torn tail (of an
    /// edit that was never acknowledged) is cut; damage before it is an error. Take the database's
    /// lock first.
    ///
    /// # Errors
    /// `NotFound`: no database there; `AlreadyExists`: another library's; `Corruption`;
    /// `Unsupported`: a newer format.
    pub fn open(vfs: Arc<dyn Vfs>, dir: &Path) -> Result<(Manifest, State)> {
        Self::open_if(vfs, dir, |_| Ok(()))
    }

    /// As [`Manifest::open`], if `accept` finds nothing wrong with what was read: it is asked
    /// before anything is written, and what it makes of that is written.
    ///
    /// # Errors
    /// As [`Manifest::open`], and those of `accept`.
    pub fn open_if(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        accept: impl FnOnce(&mut Replay) -> Result<()>,
    ) -> Result<(Manifest, State)> {
        let mut replay = Self::in_force(&*vfs, dir, Purpose::Write)?;
        accept(&mut replay)?;
        let manifest = Self::start(vfs, dir, replay.database, replay.state)?;
        directory::remove_stale(&*manifest.vfs, dir, manifest.file());
        let state = manifest.state();
        Ok((manifest, state))
    }

    /// Replays without writing anything.
    ///
    /// # Errors
    /// As [`Manifest::open`].
    pub fn read(vfs: &dyn Vfs, dir: &Path) -> Result<(DatabaseId, State)> {
        let replay = Self::replay(vfs, dir)?;
        Ok((replay.database, replay.state))
    }

    /// Replays without writing anything, and tells every record (see [`crate::inspect`]).
    ///
    /// # Errors
    /// As [`Manifest::open`].
    pub fn replay(vfs: &dyn Vfs, dir: &Path) -> Result<Replay> {
        Self::in_force(vfs, dir, Purpose::Read)
    }

    /// Replays the one manifest file at `path`, in force or not, as far as it is whole; the second
    /// is the damage that ended it. Writes nothing.
    ///
    /// # Errors
    /// `Corruption`, `Unsupported`: its header cannot be read; what the file system refused.
    pub fn salvage(vfs: &dyn Vfs, path: &Path, file: u64) -> Result<(Replay, Option<Error>)> {
        log::salvage(vfs, path, file)
    }

    /// Whether `CURRENT` stands in `dir`: a database, perhaps a damaged one.
    ///
    /// # Errors
    /// What the file system refused.
    pub fn exists(vfs: &dyn Vfs, dir: &Path) -> Result<bool> {
        vfs.exists(&FileName::Current.path(dir))
    }

    /// Replays the manifest that `CURRENT` names, unless a later one was in force (N7).
    fn in_force(vfs: &dyn Vfs, dir: &Path, purpose: Purpose) -> Result<Replay> {
        let file = current::read(vfs, dir)?;
        let replay = log::replay(vfs, dir, file, purpose)?;
        let Some((later, damage)) = directory::later_in_force(vfs, dir, &replay)? else {
            return Ok(replay);
        };
        // Whoever has the database open may have rewritten its manifest meanwhile.
        match current::read(vfs, dir)? == file {
            true => Err(current::put_back(dir, file, later, damage.as_ref())),
            false => Ok(replay),
        }
    }

    /// Writes `state` to a new manifest in `dir` and puts it in force.
    fn start(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        database: DatabaseId,
        mut state: State,
    ) -> Result<Manifest> {
        let file = directory::number_above(&*vfs, dir, state.next_file)?;
        let mut numbers = Numbers {
            next: file + 1,
            leased: file + 1,
        };
        state.next_file = numbers.extend();
        let names = Names::new(Arc::clone(&vfs), dir);
        let (log, staged) = begin(&*vfs, dir, database, file, &state)?;
        sync_begun(&names, &log, &*staged)?;
        current::swap(&*vfs, dir)?;
        current::settle(&names)?;
        Ok(Manifest {
            vfs,
            dir: dir.to_path_buf(),
            names,
            database,
            origins: state.origins.clone(),
            file: AtomicU64::new(file),
            durable: AtomicU64::new(log.length()),
            writer: Mutex::new(Writer {
                roll_above: roll_above(&log, ROLL_BYTES),
                roll_least: ROLL_BYTES,
                log,
                state,
                poison: None,
                unsettled: None,
            }),
            numbers: Mutex::new(numbers),
            is_shut: RwLock::new(false),
        })
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// The database under whose id `file` was written (see [`State::origin`]).
    #[must_use]
    pub fn origin(&self, file: u64) -> DatabaseId {
        self.origins
            .iter()
            .find(|(below, _)| file < *below)
            .map_or(self.database, |(_, database)| *database)
    }

    /// The structure as of the last commit.
    #[must_use]
    pub fn state(&self) -> State {
        self.writer.lock().state.clone()
    }

    /// Appends the edits as one atomic record and syncs it.
    ///
    /// # Errors
    /// What the file system refused; the manifest is poisoned then, and so says every later call.
    /// `NoSpace`: there was no room for the record; nothing has changed, nor has it if too many
    /// files were open. `Closed`: it was shut.
    pub fn commit(&self, edits: &[Edit]) -> Result<()> {
        self.while_open(|| {
            let mut writer = self.writer.lock();
            self.commit_locked(&mut writer, edits)
        })
    }

    /// Runs `change`, which changes the directory, and which being shut waits for (N5). It must not
    /// call this again, as a commit would, and sometimes who asks for a number.
    ///
    /// # Errors
    /// What `change` met; `Closed`: it was shut, and nothing was run.
    pub fn while_open<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        let is_shut = self.is_shut.read();
        if *is_shut {
            let error = Error::new(ErrorKind::Closed, "change the database", "it was closed");
            return Err(error.remedy("open it again"));
        }
        change()
    }

    /// Whether a commit that failed so has left nothing. Otherwise the next opening may find its
    /// edits.
    #[must_use]
    pub fn is_refusal(error: &Error) -> bool {
        // Only `settle` opens a file, before anything is written.
        lacks_descriptors(error)
            || matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ReadOnly | ErrorKind::Closed | ErrorKind::NoSpace
            )
    }

    /// Makes the names of new files in the database's directory durable. After a failure of it,
    /// whoever called, it fails for ever (N6).
    ///
    /// # Errors
    /// As [`Names::sync`].
    pub fn sync_names(&self) -> Result<()> {
        self.names.sync()
    }

    /// Waits for what changes the directory just now; from then on nothing does any more (N5).
    pub fn shut(&self) {
        *self.is_shut.write() = true;
    }

    /// Whether it was shut.
    #[must_use]
    pub fn is_shut(&self) -> bool {
        *self.is_shut.read()
    }

    /// Runs `remove`, which removes files that nothing durable names, unless it was shut (N5): the
    /// next opening removes them.
    pub fn unless_shut(&self, remove: impl FnOnce()) {
        let is_shut = self.is_shut.read();
        if !*is_shut {
            remove();
        }
    }

    /// Lets a short manifest be rewritten, too: once it exceeds `bytes` and four times its size
    /// after the last rewriting (tests).
    #[doc(hidden)]
    pub fn roll_early(&self, bytes: u64) {
        let mut writer = self.writer.lock();
        writer.roll_least = bytes;
        writer.roll_above = roll_above(&writer.log, bytes);
    }

    fn path(&self) -> PathBuf {
        FileName::Manifest(self.file()).path(&self.dir)
    }

    fn commit_locked(&self, writer: &mut Writer, edits: &[Edit]) -> Result<()> {
        if let Some(cause) = &writer.poison {
            let found = format!("an earlier failure left it in doubt: {cause}");
            return Err(Error::new(ErrorKind::ReadOnly, "change", found)
                .on(&self.path())
                .remedy("open the database again"));
        }
        if let Some(id) = writer.state.missing_keyspace(edits) {
            // Nothing was written: a job that outlived its keyspace is no harm.
            let found = format!("keyspace {id} does not exist (any more)");
            return Err(Error::new(ErrorKind::NotFound, "change", found).on(&self.path()));
        }
        self.settle(writer)?;
        // A lease about to run out is extended in the same record, for nothing.
        let mut all = edits.to_vec();
        let leased = self.numbers.lock().wanted();
        if let Some(until) = leased {
            all.push(Edit::FileLease { until });
        }
        if let Err(error) = writer.write(&all, &self.path()) {
            if error.kind() != ErrorKind::NoSpace {
                writer.poison = Some(error.clone());
            }
            return Err(error);
        }
        if let Some(until) = leased {
            self.numbers.lock().leased = until;
        }
        // Release, partner: the Acquire in `position`.
        self.durable.store(writer.length(), Ordering::Release);
        if writer.length() > writer.roll_above {
            self.roll(writer);
        }
        Ok(())
    }

    /// Makes sure that no loss of power puts the manifest in force that came before this one (N2).
    /// Only then is its position told: the journal takes note of it.
    fn settle(&self, writer: &mut Writer) -> Result<()> {
        let Some(file) = writer.unsettled else {
            return Ok(());
        };
        if let Err(error) = current::settle(&self.names) {
            // Where no directory could be opened, nothing was synced, and nothing lost.
            writer.poison = (!lacks_descriptors(&error)).then(|| error.clone());
            return Err(error);
        }
        writer.unsettled = None;
        let old = self.file();
        // In this order: a length read between the two belongs to neither file, and is too small
        // for both. Release, partner: the Acquire in `position`.
        self.durable.store(0, Ordering::Release);
        self.file.store(file, Ordering::Release);
        self.durable.store(writer.length(), Ordering::Release);
        // Best effort: a manifest that CURRENT does not name is removed at the next opening.
        drop(self.vfs.remove(&FileName::Manifest(old).path(&self.dir)));
        Ok(())
    }

    /// Rewrites a long manifest. The commit before it is durable whatever happens here: a failure
    /// to write the new file, or to find room for its name in `CURRENT`, leaves the old one in
    /// force. A failed sync poisons (N1): other names in the directory may be lost by it, which a
    /// later sync would call durable.
    fn roll(&self, writer: &mut Writer) {
        let file = {
            let mut numbers = self.numbers.lock();
            let Some(file) = numbers.take() else {
                return; // The next commit extends the lease.
            };
            // As far as is durable (N3): should this file not come into force, no more was leased.
            writer.state.next_file = numbers.leased;
            file
        };
        let state = &writer.state;
        let begun = begin(&*self.vfs, &self.dir, self.database, file, state);
        let synced = begun.and_then(|(log, staged)| {
            let synced = sync_begun(&self.names, &log, &*staged);
            synced
                .inspect_err(|error| {
                    // As in `settle`.
                    writer.poison = (!lacks_descriptors(error)).then(|| error.clone());
                })
                .map(|()| log)
        });
        let in_force = synced.and_then(|log| match current::swap(&*self.vfs, &self.dir) {
            Err(error) if error.kind() != ErrorKind::NoSpace || !self.is_current() => {
                writer.poison = Some(error.clone());
                Err(error)
            }
            swapped => swapped.map(|()| log),
        });
        let Ok(log) = in_force else {
            // Try again when it has doubled. The new file goes, as far as possible: there may be no
            // room for more. Not if it might be in force.
            writer.roll_above = writer.length().saturating_mul(2);
            if writer.poison.is_none() {
                drop(self.vfs.remove(&FileName::Manifest(file).path(&self.dir)));
            }
            return;
        };
        writer.roll_above = roll_above(&log, writer.roll_least);
        writer.log = log;
        writer.unsettled = Some(file);
        // If it fails, the next commit tries again, or finds the poison.
        drop(self.settle(writer));
    }

    /// Whether `CURRENT` names the file that was in force, for all that can be read.
    fn is_current(&self) -> bool {
        current::read(&*self.vfs, &self.dir).is_ok_and(|named| named == self.file())
    }

    /// A number for a new file; durable leases keep numbers from ever coming back (N3).
    ///
    /// # Errors
    /// As [`Manifest::commit`], when a lease has to be extended.
    pub fn next_file(&self) -> Result<u64> {
        loop {
            if let Some(number) = self.numbers.lock().take() {
                return Ok(number);
            }
            self.commit(&[])?;
        }
    }

    /// The manifest file in force, and how many of its bytes are durable, at least.
    #[must_use]
    pub fn position(&self) -> (u64, u64) {
        loop {
            // Acquire, partners: the stores in `settle` and `commit_locked`. The number is read
            // again, so that the length is of the same file.
            let file = self.file.load(Ordering::Acquire);
            let durable = self.durable.load(Ordering::Acquire);
            if self.file.load(Ordering::Relaxed) == file {
                return (file, durable);
            }
        }
    }

    /// The number of the manifest file itself.
    #[must_use]
    pub fn file(&self) -> u64 {
        // Relaxed: see `settle`.
        self.file.load(Ordering::Relaxed)
    }
}

impl Writer {
    fn length(&self) -> u64 {
        self.log.length()
    }

    fn write(&mut self, edits: &[Edit], path: &Path) -> Result<()> {
        let mut state = self.state.clone();
        for edit in edits {
            state.apply(edit).map_err(|found| {
                Error::invalid(format!("commit edit {}", edit.name()), found).on(path)
            })?;
        }
        velella_sync::spot(46);
        self.log.append(edits)?;
        velella_sync::spot(47);
        self.state = state;
        Ok(())
    }
}

impl Numbers {
    fn take(&mut self) -> Option<u64> {
        let number = self.next;
        (number < self.leased).then(|| {
            self.next += 1;
            number
        })
    }

    /// The lease to ask for, once more than half of the present one is used.
    fn wanted(&self) -> Option<u64> {
        let left = self.leased.saturating_sub(self.next);
        (left < FILE_LEASE / 2).then_some(self.leased + FILE_LEASE)
    }

    /// Extends the lease if need be; what it returns must be durable before numbers are taken.
    fn extend(&mut self) -> u64 {
        if let Some(until) = self.wanted() {
            self.leased = until;
        }
        self.leased
    }
}

/// Writes a new manifest and what will put it in force, and makes both and their names durable: all
/// writes first, then all syncs, so that one commit of the file system's own journal does for them.
fn begin(
    vfs: &dyn Vfs,
    dir: &Path,
    database: DatabaseId,
    file: u64,
    state: &State,
) -> Result<(Log, Box<dyn WriteFile>)> {
    let log = Log::create(vfs, dir, database, file, state)?;
    let staged = current::stage(vfs, dir, file)?;
    Ok((log, staged))
}

/// Makes what [`begin`] wrote durable, and its names.
fn sync_begun(names: &Names, log: &Log, staged: &dyn WriteFile) -> Result<()> {
    log.sync()?;
    if !seeded("current-is-not-synced") {
        staged.sync_all()?;
    }
    names.sync()
}

fn roll_above(log: &Log, least: u64) -> u64 {
    log.length().saturating_mul(4).max(least)
}

#[cfg(test)]
mod tests;
