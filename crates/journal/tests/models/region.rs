//! A file system for models: plain memory, with what a device would have after a power loss.
//!
//! R1. What is written to segments and large files while roles run becomes visible to a sync
//!     through an atomic of its own, stored and loaded Relaxed: a sync that does not happen after
//!     a write, by the orderings of the code under test, may miss it.
//! R2. Everything else is one step and orders nothing: its locks are the machine's.
//! R3. A sync that fails takes away what it was to make durable: it is read on, and no later sync
//!     brings it to the device.
//! R4. Names are durable at once; the order of renames and syncs of directories is not the
//!     business of these models.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use velella_base::{Error, ErrorKind, Result};
use velella_sync::atomic::{AtomicU32, Ordering};
use velella_vfs::{FileLock, Identity, MapFile, ReadFile, Vfs, WriteFile};

/// Writes of roles whose order is looked at; those beyond are seen at once.
const MARKS: usize = 24;

/// The file system.
#[derive(Debug, Clone, Default)]
pub(crate) struct Region(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Arc<File>>,
    /// While roles run, one for each write, made before them all: the models want it so.
    marks: Vec<Arc<AtomicU32>>,
    /// The next sync fails.
    is_failing: bool,
}

#[derive(Debug, Default)]
struct File(Mutex<Content>);

#[derive(Debug, Default)]
struct Content {
    /// What readers see.
    cache: Vec<u8>,
    device: Vec<u8>,
    /// Writes since the last sync that the device lacks, in order.
    pending: Vec<Write>,
}

#[derive(Debug)]
struct Write {
    at: usize,
    bytes: Vec<u8>,
    /// 1 once it was written; absent where no order is in question.
    seen: Option<Arc<AtomicU32>>,
}

impl Content {
    /// What a power loss would leave of the file at `path`.
    fn left(&self, survives: Survives, path: &Path) -> &[u8] {
        let keeps = match survives {
            Survives::Nothing => false,
            Survives::Everything => true,
            Survives::Seals => is_seal(path),
            Survives::Lanes => !is_seal(path),
        };
        if keeps { &self.cache } else { &self.device }
    }
}

fn is_seal(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "seal")
}

/// What survives of what was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Survives {
    Nothing,
    Everything,
    /// Only what was written to seal files.
    Seals,
    /// Only what was not.
    Lanes,
}

impl Survives {
    pub(crate) const ALL: [Survives; 4] = [
        Survives::Nothing,
        Survives::Everything,
        Survives::Seals,
        Survives::Lanes,
    ];
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Of what is mostly zeros, quickly.
fn digest(bytes: &[u8]) -> u64 {
    const PIECE: usize = 512;
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    for (at, piece) in bytes.chunks(PIECE).enumerate() {
        if piece != &[0; PIECE][..piece.len()] {
            hasher.write_usize(at);
            hasher.write(piece);
        }
    }
    hasher.finish()
}

fn put(into: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let end = at + bytes.len();
    if into.len() < end {
        into.resize(end, 0);
    }
    into[at..end].copy_from_slice(bytes);
}

impl Region {
    /// From now on roles run: their writes are seen by syncs only as far as the code orders them.
    pub(crate) fn run(&self) {
        let marks = || Arc::new(AtomicU32::new(0));
        locked(&self.0).marks = std::iter::repeat_with(marks).take(MARKS).collect();
    }

    /// The next sync fails (R3).
    pub(crate) fn fail_next_sync(&self) {
        locked(&self.0).is_failing = true;
    }

    /// What a power loss now would leave.
    pub(crate) fn image(&self, survives: Survives) -> Region {
        let image = Region::default();
        for (path, file) in &locked(&self.0).files {
            let content = locked(&file.0);
            let bytes = content.left(survives, path);
            let copy = Content {
                cache: bytes.to_vec(),
                device: bytes.to_vec(),
                pending: Vec::new(),
            };
            let copy = Arc::new(File(Mutex::new(copy)));
            locked(&image.0).files.insert(path.clone(), copy);
        }
        image
    }

    /// A number that tells what a power loss now would leave from other such pictures. Without a
    /// picture being made: nearly all were judged before.
    pub(crate) fn fingerprint(&self, survives: Survives) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        for (path, file) in &locked(&self.0).files {
            let content = locked(&file.0);
            let bytes = content.left(survives, path);
            (path, bytes.len(), digest(bytes)).hash(&mut hasher);
        }
        hasher.finish()
    }

    fn file(&self, path: &Path) -> Result<Arc<File>> {
        let found = locked(&self.0).files.get(path).cloned();
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, "open", "no such file").on(path))
    }

    fn handle(&self, path: &Path) -> Result<Handle> {
        Ok(Handle {
            region: self.clone(),
            path: path.to_path_buf(),
            len: locked(&self.file(path)?.0).cache.len() as u64,
            file: self.file(path)?,
        })
    }
}

#[derive(Debug)]
struct Handle {
    region: Region,
    path: PathBuf,
    file: Arc<File>,
    /// At opening.
    len: u64,
}

impl WriteFile for Handle {
    fn path(&self) -> &Path {
        &self.path
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let at = usize::try_from(offset).expect("models are small");
        let seen = match is_seal(&self.path) {
            true => None,
            false => locked(&self.region.0).marks.pop(),
        };
        let mut content = locked(&self.file.0);
        put(&mut content.cache, at, bytes);
        content.pending.push(Write {
            at,
            bytes: bytes.to_vec(),
            seen: seen.clone(),
        });
        drop(content);
        if let Some(seen) = seen {
            // Relaxed, partner: the load in `sync_data` (R1).
            seen.store(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let end = locked(&self.file.0).cache.len() as u64;
        self.write_at(end, bytes)
    }

    fn allocate(&self, len: u64) -> Result<()> {
        self.set_len(len)
    }

    fn set_len(&self, len: u64) -> Result<()> {
        let len = usize::try_from(len).expect("models are small");
        let mut content = locked(&self.file.0);
        content.cache.resize(len, 0);
        content.device.resize(len, 0);
        Ok(())
    }

    fn write_back(&self, _offset: u64, _len: u64) {}

    fn sync_data(&self) -> Result<()> {
        let pending = std::mem::take(&mut locked(&self.file.0).pending);
        if std::mem::take(&mut locked(&self.region.0).is_failing) {
            return Err(Error::new(ErrorKind::Io, "sync", "the device failed").on(&self.path));
        }
        let mut missed = Vec::new();
        for write in pending {
            // Relaxed, partner: the store in `write_at` (R1).
            let seen = |seen: &Arc<AtomicU32>| seen.load(Ordering::Relaxed) == 1;
            if write.seen.as_ref().is_none_or(seen) {
                put(&mut locked(&self.file.0).device, write.at, &write.bytes);
            } else {
                missed.push(write);
            }
        }
        let mut content = locked(&self.file.0);
        missed.append(&mut content.pending);
        content.pending = missed;
        Ok(())
    }

    fn sync_all(&self) -> Result<()> {
        self.sync_data()
    }
}

impl ReadFile for Handle {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let from = usize::try_from(offset).expect("models are small");
        let content = locked(&self.file.0);
        let bytes = content.cache.get(from..from + buffer.len());
        let cut = || Error::corruption("read", &self.path, offset, "the file is cut short");
        buffer.copy_from_slice(bytes.ok_or_else(cut)?);
        Ok(())
    }
}

impl Vfs for Region {
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        let before = locked(&self.0)
            .files
            .insert(path.to_path_buf(), Arc::default());
        assert!(before.is_none(), "{} is there", path.display());
        Ok(Box::new(self.handle(path)?))
    }

    fn open_write(&self, path: &Path) -> Result<Box<dyn WriteFile>> {
        Ok(Box::new(self.handle(path)?))
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(self.handle(path)?))
    }

    fn map_append(&self, path: &Path, _: u64) -> Result<Arc<dyn MapFile>> {
        Err(Error::new(ErrorKind::Unsupported, "map", "models write").on(path))
    }

    fn maps_well(&self, _: &Path) -> bool {
        false
    }

    fn create_dir_all(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let state = locked(&self.0);
        let below = state
            .files
            .keys()
            .filter(|file| file.parent() == Some(path));
        Ok(below
            .filter_map(|file| file.file_name().map(PathBuf::from))
            .collect())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.file(path)?;
        locked(&self.0).files.remove(path);
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let file = self.file(from)?;
        let mut state = locked(&self.0);
        state.files.remove(from);
        state.files.insert(to.to_path_buf(), file);
        Ok(())
    }

    fn hard_link(&self, _: &Path, to: &Path) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "link", "no model does").on(to))
    }

    fn sync_dir(&self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        Ok(self.file(path).is_ok())
    }

    fn len(&self, path: &Path) -> Result<u64> {
        Ok(locked(&self.file(path)?.0).cache.len() as u64)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        Err(Error::new(ErrorKind::Unsupported, "lock", "no model does").on(path))
    }

    fn identity(&self, _: &Path) -> Result<Identity> {
        Ok(Identity::default())
    }
}
