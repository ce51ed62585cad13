//! A file system with someone in front of it, who sees every call and may refuse it.
//!
//! I1. Each call is asked about once, before anything happens, and reported once, after.
//! I2. A call is what may fail at any time: windows, `populate`, `fetch`, `write_back`, `maps_well`
//!     and closing are none, nor is `hold`, which comes before all else.
//! I3. Nothing is added or left out of a call that is let pass.
//! I4. Stores through windows are told as well if the mapped file is a model; those into memory
//!     are not: nothing stands between a thread and its mapping.
//!
//! Tests: below; `fault/tests.rs`, whose faults are put in here.

use crate::file::{FileLock, MapFile, ReadFile, WriteFile};
use crate::operation::Operation;
use crate::vfs::{Identity, Vfs};
use crate::window::{Sink, Window};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{Error, Result};

/// What is asked of the file system.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    /// What is done.
    pub operation: Operation,
    /// To what.
    pub path: &'c Path,
    /// The second path of a rename or link.
    pub to: Option<&'c Path>,
    /// Where in the file, or its new length.
    pub offset: Option<u64>,
    /// Bytes moved between memory and file.
    pub bytes: usize,
}

impl<'c> Call<'c> {
    fn new(operation: Operation, path: &'c Path) -> Self {
        Call {
            operation,
            path,
            to: None,
            offset: None,
            bytes: 0,
        }
    }

    fn to(mut self, to: &'c Path) -> Self {
        self.to = Some(to);
        self
    }

    fn at(mut self, offset: u64) -> Self {
        self.offset = Some(offset);
        self
    }

    fn moving(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }
}

/// What becomes of a call.
#[derive(Debug)]
pub enum Verdict {
    /// It is passed on.
    Pass,
    /// It fails, and nothing happens.
    Fail(Error),
    /// It fails after this many of its bytes.
    Cut(usize, Error),
}

/// Who stands in front of a file system.
pub trait Interceptor: Debug + Send + Sync + 'static {
    /// Decides about a call.
    fn before(&self, call: &Call<'_>) -> Verdict;

    /// Learns how it ended.
    fn after(&self, call: &Call<'_>, failed: bool);

    /// Learns that `bytes` are about to be stored at `offset` of the mapped file at `path` (I4).
    fn storing(&self, _path: &Path, _offset: u64, _bytes: &[u8]) {}
}

/// A file system with `I` in front of it. Clones share both.
#[derive(Debug)]
pub struct Intercepted<I> {
    pub(crate) inner: Arc<dyn Vfs>,
    pub(crate) by: Arc<I>,
}

impl<I> Clone for Intercepted<I> {
    fn clone(&self) -> Self {
        Intercepted {
            inner: Arc::clone(&self.inner),
            by: Arc::clone(&self.by),
        }
    }
}

/// An open file with `I` in front of it.
#[derive(Debug)]
struct Opened<F: ?Sized, I> {
    by: Arc<I>,
    inner: F,
}

/// Asks, does and reports; `cut` does the part of the call that a verdict lets through.
fn pass<I: Interceptor, T>(
    by: &I,
    call: &Call<'_>,
    cut: impl FnOnce(usize) -> Result<()>,
    whole: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let done = match by.before(call) {
        Verdict::Pass => whole(),
        Verdict::Fail(error) => Err(error),
        Verdict::Cut(bytes, error) => cut(bytes.min(call.bytes)).and(Err(error)),
    };
    by.after(call, done.is_err());
    done
}

/// As [`pass`], for a call that moves no bytes.
fn simply<I: Interceptor, T>(
    by: &I,
    call: &Call<'_>,
    whole: impl FnOnce() -> Result<T>,
) -> Result<T> {
    pass(by, call, |_| Ok(()), whole)
}

impl<I: Interceptor> Intercepted<I> {
    /// `by` in front of `inner`.
    #[must_use]
    pub fn standing(by: Arc<I>, inner: Arc<dyn Vfs>) -> Self {
        Intercepted { inner, by }
    }

    fn simply<T>(&self, call: &Call<'_>, whole: impl FnOnce(&dyn Vfs) -> Result<T>) -> Result<T> {
        simply(&*self.by, call, || whole(&*self.inner))
    }

    fn opened<F>(&self, inner: F) -> Opened<F, I> {
        let by = Arc::clone(&self.by);
        Opened { by, inner }
    }
}

impl<I: Interceptor> Vfs for Intercepted<I> {
    fn hold(&self, dir: &Path) -> Result<Option<Arc<dyn Vfs>>> {
        let held = self.inner.hold(dir)?;
        Ok(held.map(|inner| {
            let by = Arc::clone(&self.by);
            Arc::new(Intercepted { inner, by }) as _
        }))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let file = self.simply(&Call::new(Operation::Create, path), |fs| fs.create(path))?;
        Ok(Box::new(self.opened(file)))
    }

    fn open_write(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let call = Call::new(Operation::OpenWrite, path);
        let file = self.simply(&call, |fs| fs.open_write(path))?;
        Ok(Box::new(self.opened(file)))
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let call = Call::new(Operation::OpenRead, path);
        let file = self.simply(&call, |fs| fs.open_read(path))?;
        Ok(Arc::new(self.opened(file)))
    }

    fn map_append(&self, path: &Path, len: u64) -> Result<Arc<dyn MapFile>> {
        let call = Call::new(Operation::Map, path).at(len);
        let file = self.simply(&call, |fs| fs.map_append(path, len))?;
        Ok(Arc::new(self.opened(file)))
    }

    fn maps_well(&self, dir: &Path) -> bool {
        self.inner.maps_well(dir)
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        let call = Call::new(Operation::CreateDir, path);
        self.simply(&call, |fs| fs.create_dir_all(path))
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let call = Call::new(Operation::ReadDir, path);
        self.simply(&call, |fs| fs.read_dir(path))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.simply(&Call::new(Operation::Remove, path), |fs| fs.remove(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let call = Call::new(Operation::Rename, from).to(to);
        self.simply(&call, |fs| fs.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let call = Call::new(Operation::HardLink, from).to(to);
        self.simply(&call, |fs| fs.hard_link(from, to))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        let call = Call::new(Operation::SyncDir, path);
        self.simply(&call, |fs| fs.sync_dir(path))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.simply(&Call::new(Operation::Exists, path), |fs| fs.exists(path))
    }

    fn len(&self, path: &Path) -> Result<u64> {
        self.simply(&Call::new(Operation::Len, path), |fs| fs.len(path))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.simply(&Call::new(Operation::Lock, path), |fs| fs.lock(path))
    }

    fn identity(&self, path: &Path) -> Result<Identity> {
        let call = Call::new(Operation::Identity, path);
        self.simply(&call, |fs| fs.identity(path))
    }
}

impl<I: Interceptor> WriteFile for Opened<Box<dyn WriteFile>, I> {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let call = Call::new(Operation::Write, self.inner.path());
        let call = call.at(offset).moving(bytes.len());
        let write = |part: usize| self.inner.write_at(offset, &bytes[..part]);
        pass(&*self.by, &call, write, || write(bytes.len()))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let path = self.inner.path().to_path_buf();
        let call = Call::new(Operation::Append, &path).moving(bytes.len());
        let inner = std::cell::RefCell::new(&mut self.inner);
        let append = |part: usize| inner.borrow_mut().append(&bytes[..part]);
        pass(&*self.by, &call, append, || append(bytes.len()))
    }

    fn allocate(&self, len: u64) -> Result<()> {
        let call = Call::new(Operation::Allocate, self.inner.path()).at(len);
        simply(&*self.by, &call, || self.inner.allocate(len))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let call = Call::new(Operation::SetLen, self.inner.path()).at(len);
        simply(&*self.by, &call, || self.inner.set_len(len))
    }

    fn sync_data(&self) -> Result<()> {
        let call = Call::new(Operation::SyncData, self.inner.path());
        simply(&*self.by, &call, || self.inner.sync_data())
    }

    fn sync_all(&self) -> Result<()> {
        let call = Call::new(Operation::SyncAll, self.inner.path());
        simply(&*self.by, &call, || self.inner.sync_all())
    }

    fn write_back(&self, offset: u64, len: u64) {
        self.inner.write_back(offset, len);
    }
}

impl<I: Interceptor> ReadFile for Opened<Arc<dyn ReadFile>, I> {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let call = Call::new(Operation::Read, self.inner.path());
        let call = call.at(offset).moving(buffer.len());
        let verdict = self.by.before(&call);
        let done = match verdict {
            Verdict::Pass => self.inner.read_exact_at(buffer, offset),
            Verdict::Fail(error) => Err(error),
            Verdict::Cut(bytes, error) => {
                let part = bytes.min(buffer.len());
                self.inner
                    .read_exact_at(&mut buffer[..part], offset)
                    .and(Err(error))
            }
        };
        self.by.after(&call, done.is_err());
        done
    }
}

impl<I: Interceptor> MapFile for Opened<Arc<dyn MapFile>, I> {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn window(self: Arc<Self>, offset: u64, len: u64) -> Result<Window> {
        let mut window = Arc::clone(&self.inner).window(offset, len)?;
        let told = |sink| Arc::new(Told { file: self, sink }) as Arc<dyn Sink>;
        window.tell(told);
        Ok(window)
    }

    fn sync_data(&self) -> Result<()> {
        let call = Call::new(Operation::SyncMap, self.inner.path());
        simply(&*self.by, &call, || self.inner.sync_data())
    }

    fn populate(&self, offset: u64, len: u64) {
        self.inner.populate(offset, len);
    }

    fn fetch(&self, offset: u64, len: u64) {
        self.inner.fetch(offset, len);
    }
}

/// What receives a window's writes, with `I` in front of it.
struct Told<I> {
    file: Arc<Opened<Arc<dyn MapFile>, I>>,
    sink: Arc<dyn Sink>,
}

impl<I: Interceptor> Sink for Told<I> {
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.file.by.storing(self.file.path(), offset, bytes);
        self.sink.write(offset, bytes);
    }

    fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        self.sink.read(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemFs, OsFs};
    use velella_sync::lock::Mutex;

    /// Keeps what it is told of stores.
    #[derive(Debug, Default)]
    struct Stores(Mutex<Vec<(u64, Vec<u8>)>>);

    impl Interceptor for Stores {
        fn before(&self, _call: &Call<'_>) -> Verdict {
            Verdict::Pass
        }

        fn after(&self, _call: &Call<'_>, _failed: bool) {}

        fn storing(&self, path: &Path, offset: u64, bytes: &[u8]) {
            assert!(path.ends_with("journal"));
            self.0.lock().push((offset, bytes.to_vec()));
        }
    }

    /// What was told of three stores through a window of a file in `dir`.
    fn told(fs: Arc<dyn Vfs>, dir: &Path) -> Vec<(u64, Vec<u8>)> {
        let stores = Arc::new(Stores::default());
        let fs = Intercepted::standing(Arc::clone(&stores), fs);
        let path = dir.join("journal");
        fs.create(&path).unwrap().allocate(4096).unwrap();
        let file = fs.map_append(&path, 4096).unwrap();
        let mut window = file.window(1024, 64).unwrap();
        window.write(8, b"first");
        window.fill_zero(16, 2);
        window.publish_u32(4, 7);
        assert_eq!(window.read(4, 4), 7u32.to_le_bytes());
        assert_eq!(window.read(8, 5), b"first");
        let mut told = stores.0.lock();
        std::mem::take(&mut *told)
    }

    #[test]
    fn stores_into_a_model_are_told_in_their_order() {
        let told = told(Arc::new(MemFs::new()), Path::new("/"));
        let expected: [(u64, &[u8]); 3] =
            [(1032, b"first"), (1040, &[0, 0]), (1028, &[7, 0, 0, 0])];
        let expected = expected.map(|(offset, bytes)| (offset, bytes.to_vec()));
        assert_eq!(told, expected);
    }

    #[test]
    #[cfg_attr(miri, ignore = "an interpreter cannot map files")]
    fn nothing_stands_before_real_memory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(told(Arc::new(OsFs::new()), dir.path()), []);
    }
}
