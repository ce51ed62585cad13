//! Table files that are open at once: at most so many, however many tables there are.
//!
//! Source: LevelDB's table cache; who is closed is chosen by a second chance.
//!
//! D1. Between reads at most `most` files are open, or those that are read again as soon as they
//!     are looked at. A read holds the file that it reads, and a file is opened before another is
//!     closed for it.
//! D2. A file that was closed is opened again by its path when it is read next: its owner keeps it
//!     from being deleted (Y1). That it is the same file its length says, and every checksum. Once
//!     the database is closed another opening may have deleted it: who misses it then is told so.
//! D3. A read takes a shared lock of its own file. The lock of all is taken by whoever opens or
//!     gives up a file, and no system call is made under it.
//! D4. Where a file cannot be opened or created because too many are open, that of an external
//!     value included, some of these are closed, and it is tried once more.
//!
//! Threads: any. Tests: below; `crates/engine/tests/open_files.rs`.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use velella_base::{Error, ErrorKind, Result};
use velella_sync::atomic::{AtomicBool, Ordering};
use velella_sync::counter::Counter;
use velella_sync::lock::{Mutex, RwLock};
use velella_vfs::{ReadFile, Vfs, lacks_descriptors};

/// The open files of a database's tables.
#[derive(Debug)]
pub struct OpenFiles {
    vfs: Arc<dyn Vfs>,
    most: usize,
    /// What is open, in the order in which it is looked at when there are too many.
    open: Mutex<VecDeque<Weak<Lent>>>,
    /// Files that had to be opened again.
    reopened: Counter,
    /// The database is closed (D2).
    is_shut: AtomicBool,
}

/// A file that may be closed between two reads.
#[derive(Debug)]
struct Lent {
    path: PathBuf,
    len: u64,
    file: RwLock<Option<Arc<dyn ReadFile>>>,
    /// It was read since it was looked at last.
    was_read: AtomicBool,
}

/// What the owner of a table has in hand.
#[derive(Debug)]
struct Loan {
    lent: Arc<Lent>,
    files: Arc<OpenFiles>,
}

impl OpenFiles {
    /// None open; at most `most` ever, at least one.
    #[must_use]
    pub fn new(vfs: Arc<dyn Vfs>, most: usize) -> Arc<Self> {
        Arc::new(OpenFiles {
            vfs,
            most: most.max(1),
            open: Mutex::default(),
            reopened: Counter::default(),
            is_shut: AtomicBool::new(false),
        })
    }

    /// Opens the file at `path`; it may be closed whenever it is not being read.
    ///
    /// # Errors
    /// What the file system refused.
    pub fn open(self: &Arc<Self>, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let file = self.with_room(|| self.vfs.open_read(path))?;
        let lent = Arc::new(Lent {
            path: path.to_path_buf(),
            len: file.len(),
            file: RwLock::new(Some(file)),
            was_read: AtomicBool::new(false),
        });
        self.enter(&lent);
        let files = Arc::clone(self);
        Ok(Arc::new(Loan { lent, files }))
    }

    /// Where they are.
    #[must_use]
    pub fn vfs(&self) -> &Arc<dyn Vfs> {
        &self.vfs
    }

    /// Opens or creates a file, once more if too many were open (D4).
    ///
    /// # Errors
    /// Those of `open`.
    pub fn with_room<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        match open() {
            Err(error) if lacks_descriptors(&error) && self.make_room() => open(),
            opened => opened,
        }
    }

    /// The database is being closed: from now on others may delete its files (D2).
    pub fn shut(&self) {
        // Release, partner: `reopen`.
        self.is_shut.store(true, Ordering::Release);
    }

    /// Opens what was closed.
    fn reopen(&self, lent: &Lent) -> Result<Arc<dyn ReadFile>> {
        let opened = self.with_room(|| self.vfs.open_read(&lent.path));
        opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => self
                .closed(&lent.path)
                .unwrap_or_else(|| lent.is_another("it is not there any more".to_owned())),
            _ => error,
        })
    }

    /// Why `path`, which was missed, may be gone: the database was closed (D2).
    pub(crate) fn closed(&self, path: &Path) -> Option<Error> {
        // Acquire, partner: `shut`. Asked after the file was missed, which was there before.
        let is_shut = self.is_shut.load(Ordering::Acquire);
        is_shut.then(|| Error::new(ErrorKind::Closed, "read", "the database was closed").on(path))
    }

    /// Closes half of what is open; whether that was anything.
    pub fn make_room(&self) -> bool {
        let mut open = self.open.lock();
        let half = open.len().div_ceil(2);
        let some: Vec<_> = open
            .drain(..half)
            .filter_map(|first| first.upgrade())
            .collect();
        let closed: Vec<_> = some.iter().map(|of| of.file.write().take()).collect();
        drop(open);
        !closed.is_empty()
    }

    /// How many are open.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// How many had to be opened again, so far.
    #[must_use]
    pub fn reopened(&self) -> &Counter {
        &self.reopened
    }

    /// Enters an open file, and closes others for it (D1).
    fn enter(&self, lent: &Arc<Lent>) {
        // Closed when the lock is given back (D3).
        let mut closed = Vec::new();
        let mut open = self.open.lock();
        open.push_back(Arc::downgrade(lent));
        // Twice round: then nobody has another chance left, unless it was read meanwhile.
        for _ in 0..2 * open.len() {
            if open.len() <= self.most {
                break;
            }
            let Some(first) = open.pop_front() else { break };
            let Some(of) = first.upgrade() else { continue };
            // Relaxed: a hint.
            if of.was_read.swap(false, Ordering::Relaxed) {
                open.push_back(first);
            } else {
                closed.push(of.file.write().take());
            }
        }
        drop(open);
        drop(closed);
    }
}

impl Lent {
    fn is_another(&self, found: String) -> Error {
        Error::corruption("open the table again", &self.path, 0, found)
            .remedy("restore this file from a backup")
    }
}

impl Loan {
    /// The file, opened again if it was closed (D2).
    fn file(&self) -> Result<Arc<dyn ReadFile>> {
        let lent = &*self.lent;
        // Relaxed: a hint. Looked at first: most are read again and again by many.
        if !lent.was_read.load(Ordering::Relaxed) {
            lent.was_read.store(true, Ordering::Relaxed);
        }
        if let Some(file) = &*lent.file.read() {
            return Ok(Arc::clone(file));
        }
        let file = self.files.reopen(lent)?;
        if file.len() != lent.len {
            let found = format!("it has {} bytes now and had {}", file.len(), lent.len);
            return Err(lent.is_another(found));
        }
        let mut slot = lent.file.write();
        if let Some(other) = &*slot {
            return Ok(Arc::clone(other));
        }
        *slot = Some(Arc::clone(&file));
        drop(slot);
        self.files.reopened.increment();
        self.files.enter(&self.lent);
        Ok(file)
    }
}

impl ReadFile for Loan {
    fn path(&self) -> &Path {
        &self.lent.path
    }

    fn len(&self) -> u64 {
        self.lent.len
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.file()?.read_exact_at(buffer, offset)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let is_this = |other: &Weak<Lent>| std::ptr::eq(other.as_ptr(), Arc::as_ptr(&self.lent));
        self.files.open.lock().retain(|other| !is_this(other));
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use velella_vfs::fault::{Fault, Rule};
    use velella_vfs::{FaultFs, MemFs, Operation};

    fn written(names: &[&str]) -> (MemFs, Vec<PathBuf>) {
        let fs = MemFs::new();
        let paths: Vec<_> = names.iter().map(PathBuf::from).collect();
        for path in &paths {
            fs.write_file(path, path.to_str().unwrap().as_bytes())
                .unwrap();
        }
        (fs, paths)
    }

    fn read(file: &dyn ReadFile) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(file.len()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn however_many_are_read_no_more_are_open_than_may_be() {
        let names: Vec<String> = (0..10).map(|n| format!("/{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (fs, paths) = written(&names);
        let files = OpenFiles::new(Arc::new(fs), 3);
        let open: Vec<_> = paths.iter().map(|path| files.open(path).unwrap()).collect();
        for _ in 0..3 {
            for (file, name) in open.iter().zip(&names) {
                assert_eq!(read(&**file), name.as_bytes());
                assert!(files.count() <= 3);
            }
        }
        assert!(files.reopened().sum() >= 20);
        drop(open);
        assert_eq!(files.count(), 0);
    }

    #[test]
    fn what_is_read_stays_open_before_what_is_not() {
        let (fs, paths) = written(&["/hot", "/a", "/b", "/c", "/d"]);
        let files = OpenFiles::new(Arc::new(fs), 2);
        let hot = files.open(&paths[0]).unwrap();
        for path in &paths[1..] {
            read(&*hot);
            drop(files.open(path).unwrap());
            let other = files.open(path).unwrap();
            read(&*hot);
            drop(other);
        }
        assert_eq!(files.reopened().sum(), 0);
    }

    #[test]
    fn a_file_that_became_another_is_told() {
        let (fs, paths) = written(&["/a", "/b"]);
        let files = OpenFiles::new(Arc::new(fs.clone()), 1);
        let first = files.open(&paths[0]).unwrap();
        let _second = files.open(&paths[1]).unwrap();
        fs.write_file(&paths[0], b"longer").unwrap();
        let error = first.read_exact_at(&mut [0], 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        fs.remove(&paths[0]).unwrap();
        let error = first.read_exact_at(&mut [0], 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
        files.shut();
        let error = first.read_exact_at(&mut [0], 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }

    #[test]
    fn files_make_room_for_one_that_cannot_be_opened() {
        let (fs, paths) = written(&["/a", "/b", "/c", "/d"]);
        let faulty = FaultFs::over_mem(&fs);
        let files = OpenFiles::new(Arc::new(faulty.clone()), 10);
        let fault = |fault| Rule::every(fault).of(Operation::OpenRead).times(1);
        let full = || fault(Fault::TooManyFiles);
        faulty.inject(full());
        files.open(&paths[0]).unwrap_err();
        let open: Vec<_> = paths.iter().map(|path| files.open(path).unwrap()).collect();
        faulty.inject(fault(Fault::Io));
        files.open(&paths[0]).unwrap_err();
        assert_eq!(files.count(), 4, "it was not for them");
        faulty.inject(full());
        let again = files.open(&paths[0]).unwrap();
        assert_eq!(files.count(), 3, "two of four made room");
        for (file, path) in open.iter().zip(&paths) {
            assert_eq!(read(&**file), path.to_str().unwrap().as_bytes());
        }
        assert_eq!(read(&*again), b"/a");
    }
}
