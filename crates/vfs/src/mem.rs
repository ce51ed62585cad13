//! A file system in memory that can lose power.
//!
//! It keeps what the contract promises and nothing more: what was synced, and of everything else
//! any legal part, chosen by a seed. The same calls and the same seed give the same crash.
//!
//! K1. What was synced survives (V1, V2); of the rest any part may (V3), in the way of the mode.
//! K2. A name is lost with the directory it is in; a directory's own name is its parent's matter.
//! K3. After a crash every old handle is dead: calls fail, windows write nowhere.
//! K4. Writes to one file are seen at once by every handle, as in one page cache.
//!
//! Paths are the same with and without a leading `/`; there are no links to follow, and `..` is
//! refused. Memory: what was written since a file's last sync is kept a second time.
//!
//! Threads: any number, one lock for all.
//!
//! Tests: `mem/tests.rs` (what a crash may and may not do), and the contract.

mod crash;
mod sector;
mod pages;
mod content;
mod names;
mod machine;
mod handles;

use crate::file::{FileLock, MapFile, ReadFile, WriteFile};
use crate::vfs::{Identity, Vfs};
use content::to_index;
pub use crash::CrashMode;
use handles::{Handle, MemLock, MemMapFile, MemReadFile, MemWriteFile};
use machine::{Machine, refuse};
use names::{Node, ROOT, components};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{ErrorKind, Result};
use velella_sync::lock::{Mutex, MutexGuard};

/// A file system in memory. Clones are the same file system.
#[derive(Clone)]
pub struct MemFs {
    machine: Arc<Mutex<Machine>>,
}

impl MemFs {
    /// An empty file system: a root directory, no space limit, fit for mapping.
    #[must_use]
    pub fn new() -> Self {
        MemFs::of(Machine::new())
    }

    fn of(machine: Machine) -> Self {
        MemFs {
            machine: Arc::new(Mutex::new(machine)),
        }
    }

    /// Ends this machine, and starts the one that comes up after it. Calling it again chooses
    /// another outcome of the same crash.
    #[must_use]
    pub fn crash(&self, seed: u64, mode: CrashMode) -> MemFs {
        let mut machine = self.machine.lock();
        machine.end(mode);
        MemFs::of(machine.after_crash(seed, mode))
    }

    /// What [`MemFs::crash`] would leave, without the crash: this machine runs on.
    #[must_use]
    pub fn image(&self, seed: u64, mode: CrashMode) -> MemFs {
        MemFs::of(self.machine.lock().after_crash(seed, mode))
    }

    /// Limits the space of all files together (4 KiB blocks); `None` lifts the limit.
    pub fn set_space_max(&self, bytes: Option<u64>) {
        self.machine.lock().space_max = bytes;
    }

    /// Bytes of space taken by files that are named or open.
    #[must_use]
    pub fn space_used(&self) -> u64 {
        self.machine.lock().space_used()
    }

    /// Says whether it is fit for mapping.
    pub fn set_maps_well(&self, maps_well: bool) {
        self.machine.lock().maps_well = maps_well;
    }

    /// From now on every sync says that it is done, whether it is (`false`) or not: a device that
    /// breaks the contract. A crash ends it.
    pub fn set_syncs_lie(&self, lie: bool) {
        self.machine.lock().lies = lie;
    }

    /// Leaves a file or directory as a failed sync does (V4): every page marked clean, and by
    /// `seed` written, lost, or readable until the power goes; every name as it is, and some
    /// never to become durable.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn fail_sync(&self, path: &Path, seed: u64) -> Result<()> {
        let attempt = "fail the sync of";
        let mut machine = self.running(attempt, path)?;
        let node = machine.names.find(path);
        let missing = || refuse(ErrorKind::NotFound, attempt, path, "no such file");
        machine.fail_sync(node.ok_or_else(missing)?, seed);
        Ok(())
    }

    /// A file's content, as a reader sees it.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let (mut machine, number) = self.file("read", path)?;
        Ok(machine.file(number).content.bytes().to_vec())
    }

    /// Puts a durable file with this content at `path`, over what stands there; its directory
    /// must exist.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn write_file(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let mut machine = self.running("write", path)?;
        let entry = machine.find_entry("write", path)?;
        machine.settle(entry, bytes);
        Ok(())
    }

    /// Offset and bytes of the file's last [`MapFile::fetch`] since this was asked before.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn take_fetched(&self, path: &Path) -> Result<Option<(u64, u64)>> {
        let (mut machine, number) = self.file("look at", path)?;
        Ok(machine.file(number).fetched.take())
    }

    /// Offset and bytes of the file's last [`WriteFile::write_back`] since this was asked before.
    /// That does nothing else: what is not synced may be on the device anyway.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn take_written_back(&self, path: &Path) -> Result<Option<(u64, u64)>> {
        let (mut machine, number) = self.file("look at", path)?;
        Ok(machine.file(number).written_back.take())
    }

    /// Flips the bits of `mask` in one byte, on the device and in every copy of it.
    ///
    /// # Errors
    /// `NotFound`; `InvalidInput` if the file is shorter.
    pub fn flip_byte(&self, path: &Path, offset: u64, mask: u8) -> Result<()> {
        let attempt = "flip a byte of";
        let (mut machine, number) = self.file(attempt, path)?;
        let content = &mut machine.file(number).content;
        if to_index(offset) >= content.len() {
            let found = "the file is shorter";
            return Err(refuse(ErrorKind::InvalidInput, attempt, path, found).at(offset));
        }
        content.flip(to_index(offset), mask);
        Ok(())
    }

    /// The path of every file, from the root, sorted.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let machine = self.machine.lock();
        let mut files = Vec::new();
        let mut dirs = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, dir)) = dirs.pop() {
            for (name, node) in machine.names.list(dir) {
                match node {
                    Node::File(_) => files.push(path.join(name)),
                    Node::Dir(number) => dirs.push((path.join(name), number)),
                }
            }
        }
        files.sort();
        files
    }

    fn running(&self, attempt: &str, path: &Path) -> Result<MutexGuard<'_, Machine>> {
        let machine = self.machine.lock();
        machine.check(attempt, path)?;
        Ok(machine)
    }

    fn file(&self, attempt: &str, path: &Path) -> Result<(MutexGuard<'_, Machine>, u64)> {
        let machine = self.running(attempt, path)?;
        let number = machine.find_file(attempt, path)?;
        Ok((machine, number))
    }

    fn dir(&self, attempt: &str, path: &Path) -> Result<(MutexGuard<'_, Machine>, u64)> {
        let machine = self.running(attempt, path)?;
        match machine.names.find(path) {
            Some(Node::Dir(number)) => Ok((machine, number)),
            Some(Node::File(_)) => Err(refuse(ErrorKind::Io, attempt, path, "not a directory")),
            None => {
                let found = "no such directory";
                Err(refuse(ErrorKind::NotFound, attempt, path, found))
            }
        }
    }

    fn open(&self, attempt: &str, path: &Path) -> Result<(Handle, usize)> {
        let (mut machine, number) = self.file(attempt, path)?;
        let handle = Handle::new(&self.machine, &mut machine, path, number);
        Ok((handle, machine.file(number).content.len()))
    }
}

impl Vfs for MemFs {
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let attempt = "create";
        let mut machine = self.running(attempt, path)?;
        let entry = machine.find_entry(attempt, path)?;
        if machine.names.at(&entry).is_some() {
            let found = "something stands there";
            return Err(refuse(ErrorKind::AlreadyExists, attempt, path, found));
        }
        let number = machine.create(entry);
        let handle = Handle::new(&self.machine, &mut machine, path, number);
        Ok(Box::new(MemWriteFile::new(handle, 0)))
    }

    fn open_write(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let (handle, len) = self.open("open for writing", path)?;
        Ok(Box::new(MemWriteFile::new(handle, len)))
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let (handle, len) = self.open("open for reading", path)?;
        Ok(Arc::new(MemReadFile::new(handle, len)))
    }

    fn map_append(&self, path: &Path, len: u64) -> Result<Arc<dyn MapFile>> {
        let (mut machine, number) = self.file("map", path)?;
        if !machine.maps_well {
            let found = "this file system is said to be unfit for it";
            return Err(refuse(ErrorKind::Unsupported, "map", path, found));
        }
        let content = &machine.file(number).content;
        let bytes = to_index(len);
        if len == 0 || bytes > content.len() || !content.is_allocated(bytes) {
            let found = "the file is shorter, or lacks the space";
            return Err(refuse(ErrorKind::InvalidInput, "map", path, found));
        }
        let handle = Handle::new(&self.machine, &mut machine, path, number);
        Ok(Arc::new(MemMapFile::new(handle, len)))
    }

    fn maps_well(&self, _dir: &Path) -> bool {
        self.machine.lock().maps_well
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let attempt = "create directory";
        let mut machine = self.running(attempt, path)?;
        let unfit = |found| refuse(ErrorKind::Io, attempt, path, found);
        let names = components(path).ok_or_else(|| unfit("`..` leads nowhere here"))?;
        let mut dir = ROOT;
        for name in names {
            let entry = (dir, name.into());
            dir = match machine.names.at(&entry) {
                Some(Node::Dir(number)) => number,
                Some(Node::File(_)) => return Err(unfit("a file stands on the way")),
                None => {
                    let number = machine.number();
                    let at = machine.tick();
                    let change = vec![(entry, Some(Node::Dir(number)))];
                    machine.names.change(at, change);
                    number
                }
            };
        }
        Ok(())
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let (machine, number) = self.dir("list directory", path)?;
        let names = machine.names.list(number);
        Ok(names.map(|(name, _)| PathBuf::from(name)).collect())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let (mut machine, _) = self.file("remove", path)?;
        let entry = machine.find_entry("remove", path)?;
        let at = machine.tick();
        machine.names.change(at, vec![(entry, None)]);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let attempt = format!("rename to {} the file", to.display());
        let mut machine = self.running(&attempt, from)?;
        let node = machine.names.find(from).ok_or_else(|| {
            let found = "no such file or directory";
            refuse(ErrorKind::NotFound, &attempt, from, found)
        })?;
        let source = machine.find_entry(&attempt, from)?;
        let target = machine.find_entry(&attempt, to)?;
        let under = machine.names.at(&target);
        if under == Some(node) {
            return Ok(());
        }
        if matches!(under, Some(Node::Dir(_))) || (under.is_some() && node.is_dir()) {
            let found = "a directory is one of the two";
            return Err(refuse(ErrorKind::Io, &attempt, from, found));
        }
        let is_below = components(to).zip(components(from));
        if node.is_dir() && is_below.is_some_and(|(to, from)| to.starts_with(&from)) {
            let found = "a directory cannot be moved below itself";
            return Err(refuse(ErrorKind::Io, &attempt, from, found));
        }
        let at = machine.tick();
        let change = vec![(source, None), (target, Some(node))];
        machine.names.change(at, change);
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let attempt = format!("link as {} the file", to.display());
        let (mut machine, number) = self.file(&attempt, from)?;
        let target = machine.find_entry(&attempt, to)?;
        if machine.names.at(&target).is_some() {
            let found = "something stands there";
            return Err(refuse(ErrorKind::AlreadyExists, &attempt, from, found));
        }
        let at = machine.tick();
        let change = vec![(target, Some(Node::File(number)))];
        machine.names.change(at, change);
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let (mut machine, number) = self.dir("sync directory", path)?;
        if !machine.lies {
            machine.names.sync(number);
            machine.collect();
        }
        Ok(())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let machine = self.running("look for", path)?;
        Ok(machine.names.find(path).is_some())
    }

    fn len(&self, path: &Path) -> Result<u64> {
        let (mut machine, number) = self.file("measure", path)?;
        Ok(machine.file(number).content.len() as u64)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let mut machine = self.running("lock", path)?;
        let number = match machine.names.find(path) {
            Some(_) => machine.find_file("lock", path)?,
            None => {
                let entry = machine.find_entry("lock", path)?;
                machine.create(entry)
            }
        };
        if !machine.lock(number) {
            let found = "another handle of this file system holds it";
            return Err(refuse(ErrorKind::Locked, "lock", path, found)
                .remedy("close the database there first"));
        }
        let handle = Handle::new(&self.machine, &mut machine, path, number);
        Ok(Box::new(MemLock(handle)))
    }

    fn identity(&self, path: &Path) -> Result<Identity> {
        let (machine, number) = self.file("identify", path)?;
        Ok(machine.identity(number))
    }
}

impl Default for MemFs {
    fn default() -> Self {
        MemFs::new()
    }
}

impl fmt::Debug for MemFs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemFs").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
