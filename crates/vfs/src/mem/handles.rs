//! Open files of the in-memory file system.
//!
//! A handle outlives the file's name, and is dead once its machine has ended: every call fails,
//! and what a window writes goes nowhere, as it does in a machine without power.

use crate::file::{FileLock, MapFile, ReadFile, WriteFile, ends_early};
use crate::mem::content::to_index;
use crate::mem::machine::{Machine, fits_in_memory, refuse};
use crate::window::{Carver, Sink, Window};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{Error, ErrorKind, Result};
use velella_sync::lock::{Mutex, MutexGuard};

/// One open file, counted by its machine.
pub(super) struct Handle {
    machine: Arc<Mutex<Machine>>,
    path: PathBuf,
    number: u64,
}

impl Handle {
    /// Opens file `number`; `machine` is locked by the caller as `held`.
    pub(super) fn new(
        machine: &Arc<Mutex<Machine>>,
        held: &mut Machine,
        path: &Path,
        number: u64,
    ) -> Handle {
        held.file(number).open += 1;
        Handle {
            machine: Arc::clone(machine),
            path: path.to_path_buf(),
            number,
        }
    }

    fn running(&self, attempt: &str) -> Result<MutexGuard<'_, Machine>> {
        let machine = self.machine.lock();
        machine.check(attempt, &self.path)?;
        Ok(machine)
    }

    fn write(&self, attempt: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        if !fits_in_memory(offset, bytes.len() as u64) {
            return Err(self.too_large(attempt, offset));
        }
        let written = self.running(attempt)?.write(self.number, offset, bytes);
        if written == bytes.len() {
            return Ok(());
        }
        Err(self.no_space(attempt, offset + written as u64))
    }

    fn set_len(&self, attempt: &str, len: u64) -> Result<()> {
        if !fits_in_memory(len, 0) {
            return Err(self.too_large(attempt, len));
        }
        let mut machine = self.running(attempt)?;
        let at = machine.tick();
        let file = machine.file(self.number);
        file.content.set_len(at, to_index(len));
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        let mut machine = self.running("sync")?;
        if !machine.lies {
            machine.file(self.number).content.sync();
        }
        Ok(())
    }

    fn no_space(&self, attempt: &str, offset: u64) -> Error {
        let found = "no space left on device";
        refuse(ErrorKind::NoSpace, attempt, &self.path, found).at(offset)
    }

    fn too_large(&self, attempt: &str, offset: u64) -> Error {
        refuse(ErrorKind::Io, attempt, &self.path, "file too large").at(offset)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.machine.lock().file(self.number).open -= 1;
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (file {})", self.path.display(), self.number)
    }
}

/// A file open for writing.
#[derive(Debug)]
pub(super) struct MemWriteFile {
    handle: Handle,
    /// Where the next `append` goes.
    end: u64,
}

impl MemWriteFile {
    /// `len` is the file's length now.
    pub(super) fn new(handle: Handle, len: usize) -> Self {
        MemWriteFile {
            handle,
            end: len as u64,
        }
    }
}

impl WriteFile for MemWriteFile {
    fn path(&self) -> &Path {
        &self.handle.path
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.handle.write("write to", offset, bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.handle.write("append to", self.end, bytes)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let attempt = "allocate space for";
        if !fits_in_memory(len, 0) {
            return Err(self.handle.too_large(attempt, len));
        }
        let number = self.handle.number;
        let mut machine = self.handle.running(attempt)?;
        let reached = machine.claim(number, 0, to_index(len));
        drop(machine);
        if reached < to_index(len) {
            return Err(self.handle.no_space(attempt, len));
        }
        self.handle.set_len(attempt, len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.handle.set_len("set the length of", len)
    }

    fn sync_data(&self) -> Result<()> {
        self.handle.sync()
    }

    fn sync_all(&self) -> Result<()> {
        self.handle.sync()
    }

    fn write_back(&self, offset: u64, len: u64) {
        let mut machine = self.handle.machine.lock();
        if machine.runs() {
            machine.file(self.handle.number).written_back = Some((offset, len));
        }
    }
}

/// A file open for reading.
#[derive(Debug)]
pub(super) struct MemReadFile {
    handle: Handle,
    len: u64,
}

impl MemReadFile {
    /// `len` is the file's length now.
    pub(super) fn new(handle: Handle, len: usize) -> Self {
        MemReadFile {
            handle,
            len: len as u64,
        }
    }
}

impl ReadFile for MemReadFile {
    fn path(&self) -> &Path {
        &self.handle.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let mut machine = self.handle.running("read")?;
        let bytes = machine.file(self.handle.number).content.bytes();
        if buffer.is_empty() || bytes.read(to_index(offset), buffer) {
            return Ok(());
        }
        Err(ends_early(&self.handle.path, offset, buffer.len()))
    }
}

/// A file "mapped" for writing.
#[derive(Debug)]
pub(super) struct MemMapFile {
    handle: Handle,
    len: u64,
    carver: Carver,
}

impl MemMapFile {
    /// Maps the first `len` bytes.
    pub(super) fn new(handle: Handle, len: u64) -> Self {
        MemMapFile {
            handle,
            len,
            carver: Carver::new(len),
        }
    }
}

impl MapFile for MemMapFile {
    fn path(&self) -> &Path {
        &self.handle.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn window(self: Arc<Self>, offset: u64, len: u64) -> Result<Window> {
        self.carver
            .take(offset, len)
            .map_err(|e| e.on(&self.handle.path))?;
        Ok(Window::modelled(self, offset, to_index(len)))
    }

    fn sync_data(&self) -> Result<()> {
        self.handle.sync()
    }

    fn populate(&self, _offset: u64, _len: u64) {}

    fn fetch(&self, offset: u64, len: u64) {
        let mut machine = self.handle.machine.lock();
        if machine.runs() {
            machine.file(self.handle.number).fetched = Some((offset, len));
        }
    }
}

impl Sink for MemMapFile {
    fn write(&self, offset: u64, bytes: &[u8]) {
        let mut machine = self.handle.machine.lock();
        if machine.runs() {
            machine.write(self.handle.number, offset, bytes);
        }
    }

    fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut machine = self.handle.machine.lock();
        let content = &machine.file(self.handle.number).content;
        let mut bytes = vec![0; len];
        let reached = content.bytes().read(to_index(offset), &mut bytes);
        assert!(reached, "a window lies within its file");
        bytes
    }
}

/// A lock, held until dropped or until its machine ends.
#[derive(Debug)]
pub(super) struct MemLock(pub(super) Handle);

impl FileLock for MemLock {}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.0.machine.lock().unlock(self.0.number);
    }
}
