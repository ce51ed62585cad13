//! The real file system.
//!
//! O1. Every interrupted call is repeated and every short transfer continued, here and nowhere
//!     above.
//! O2. A failed sync is reported, never repeated (V4).
//! O3. Files are created for their owner only, never through a symbolic link, and close on exec.
//! O4. A directory that is held is the same one for as long, whatever its path leads to meanwhile.
//!
//! Linux in full. Other Unix: no mapping and no identity, so the layers above append by `pwrite`
//! and take every start for one after a power loss.
//!
//! Threads: any; there is no state but the directory that is held.
//!
//! Tests: `os/tests.rs`, the contract, and `tests/kill.rs`.

mod place;
mod facts;
mod files;
mod map;

use crate::file::{FileLock, MapFile, ReadFile, WriteFile};
use crate::vfs::{Identity, Vfs};
use files::{OsReadFile, OsWriteFile};
use map::OsMapFile;
use place::{Held, Place};
use rustix::fs::{OFlags, fstat};
use rustix::process::{Resource, getrlimit};
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{Error, ErrorKind, Result};

/// How often a lock file may be replaced under us before we give up.
const LOCK_ATTEMPTS: usize = 16;

/// The file system of the machine.
#[derive(Debug, Clone, Default)]
pub struct OsFs {
    held: Option<Arc<Held>>,
}

impl OsFs {
    /// The file system of the machine.
    #[must_use]
    pub fn new() -> Self {
        OsFs::default()
    }

    fn at<'p>(&'p self, path: &'p Path) -> Place<'p> {
        Place::of(self.held.as_deref(), path)
    }

    /// How many files this process may have open, as far as that is limited.
    #[must_use]
    pub fn files_allowed() -> usize {
        let limit = getrlimit(Resource::Nofile).current;
        limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        })
    }
}

impl Vfs for OsFs {
    fn hold(&self, dir: &Path) -> Result<Option<Arc<dyn Vfs>>> {
        let held = Held::new(dir).map_err(|e| Error::io("hold directory", dir, e))?;
        Ok(Some(Arc::new(OsFs {
            held: Some(Arc::new(held)),
        })))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = self.at(path).create_new();
        let file = file.map_err(|e| Error::io("create", path, e))?;
        Ok(Box::new(OsWriteFile::new(path, file, 0)))
    }

    fn open_write(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let attempt = |e| Error::io("open for writing", path, e);
        let file = self.at(path).open(OFlags::WRONLY | OFlags::NOFOLLOW);
        let file = file.map_err(attempt)?;
        let len = file.metadata().map_err(attempt)?.len();
        Ok(Box::new(OsWriteFile::new(path, file, len)))
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let attempt = |e| Error::io("open for reading", path, e);
        let file = self.at(path).open(OFlags::RDONLY).map_err(attempt)?;
        let metadata = file.metadata().map_err(attempt)?;
        if metadata.is_dir() {
            return Err(attempt(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        Ok(Arc::new(OsReadFile::new(path, file, metadata.len())))
    }

    fn map_append(&self, path: &Path, len: u64) -> Result<Arc<dyn MapFile>> {
        let file = self.at(path).open(OFlags::RDWR | OFlags::NOFOLLOW);
        let file = file.map_err(|e| Error::io("map", path, e))?;
        Ok(Arc::new(OsMapFile::of(path, file, len)?))
    }

    fn maps_well(&self, dir: &Path) -> bool {
        facts::maps_well(&self.at(dir))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let made = self.at(path).make_dirs();
        made.map_err(|e| Error::io("create directory", path, e))
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let names = self.at(path).names();
        let mut names = names.map_err(|e| Error::io("list directory", path, e))?;
        names.sort();
        Ok(names)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let removed = self.at(path).remove();
        removed.map_err(|e| Error::io("remove", path, e))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let renamed = self.at(from).rename(&self.at(to));
        renamed.map_err(|e| Error::io(format!("rename to {} the file", to.display()), from, e))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let attempt = |e| Error::io(format!("link as {} the file", to.display()), from, e);
        match self.at(from).link(&self.at(to)) {
            Ok(()) => Ok(()),
            Err(error) if cannot_link(&error) => {
                copy(&self.at(from), &self.at(to)).map_err(attempt)
            }
            Err(error) => Err(attempt(error)),
        }
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let synced = self.at(path).sync();
        synced.map_err(|e| Error::io("sync directory", path, e))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match self.at(path).stat(false) {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
                _ => Err(Error::io("look for", path, error)),
            },
        }
    }

    fn len(&self, path: &Path) -> Result<u64> {
        let stat = self.at(path).stat(true);
        let stat = stat.map_err(|e| Error::io("measure", path, e))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        for _ in 0..LOCK_ATTEMPTS {
            let file = self
                .at(path)
                .open(OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW)
                .map_err(|e| cannot_open_lock(path, e))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(locked(path)),
                Err(TryLockError::Error(e)) => return Err(Error::io("lock", path, e)),
            }
            // Whoever removed the file between our opening and locking it left us a lock that
            // no one else would ever meet.
            let there = is_still(&self.at(path), &file);
            if there.map_err(|e| Error::io("look at lock file", path, e))? {
                return Ok(Box::new(OsLock::of(file)));
            }
        }
        Err(Error::new(ErrorKind::Io, "lock", "it is replaced again and again").on(path))
    }

    fn identity(&self, path: &Path) -> Result<Identity> {
        facts::identity(&self.at(path), path)
    }
}

/// `flock` belongs to the open file description, of which a process that is just being started by
/// another thread has a duplicate: the last one closed would release the lock, so it is given up by
/// name; not by a process that was forked with it, whose parent's it is.
#[derive(Debug)]
struct OsLock {
    file: File,
    process: u32,
}

impl OsLock {
    fn of(file: File) -> Self {
        OsLock {
            file,
            process: std::process::id(),
        }
    }
}

impl FileLock for OsLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // Should it fail, the file is closed all the same.
            drop(self.file.unlock());
        }
    }
}

fn locked(path: &Path) -> Error {
    Error::new(
        ErrorKind::Locked,
        "lock",
        "another process, or this one, holds it",
    )
    .on(path)
    .remedy("close the database there first; do not remove the file")
}

/// The lock file is the first thing that an opening writes, so what is met there says what to do
/// about a place that cannot be written.
fn cannot_open_lock(path: &Path, error: io::Error) -> Error {
    let is_read_only = error.kind() == io::ErrorKind::ReadOnlyFilesystem;
    let error = Error::io("open lock file", path, error);
    match is_read_only {
        true => error.remedy(
            "an opening writes: copy the directory to where that is possible, and open the copy; \
             only `velella inspect` reads it where it is",
        ),
        false => error,
    }
}

fn is_still(place: &Place<'_>, file: &File) -> io::Result<bool> {
    let ours = fstat(file)?;
    match place.stat(false) {
        Ok(there) => Ok((there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether `link` failed because these file systems do not do it, rather than for these names.
fn cannot_link(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EXDEV | libc::EPERM | libc::EMLINK | libc::ENOSYS | libc::EOPNOTSUPP)
    )
}

/// A second file with the same, durable content; nothing is left at `to` if that fails.
fn copy(from: &Place<'_>, to: &Place<'_>) -> io::Result<()> {
    let mut source = from.open(OFlags::RDONLY)?;
    let mut target = to.create_new()?;
    let done = io::copy(&mut source, &mut target).and_then(|_| target.sync_all());
    if done.is_err() {
        // The copy's error is the one to report; a remainder is found and named at the next open.
        let _ = to.remove();
    }
    done
}

// Miri has no mappings and no foreign file systems.
#[cfg(test)]
#[cfg(not(miri))]
mod tests;
