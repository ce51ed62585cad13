//! The file system itself: names, and the doors to open files.
//!
//! Paths are taken as they are. Those below a directory that is held lead there wherever it is
//! moved to, and whatever the current directory is; nobody above changes that.
//!
//! Threads: any number.
//!
//! Tests: [`crate::contract`].

use crate::file::{FileLock, MapFile, ReadFile, WriteFile};
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{Error, ErrorKind, Result};

/// A file system.
#[expect(clippy::missing_errors_doc, reason = "said once, for all methods")]
pub trait Vfs: Send + Sync + Debug {
    /// This file system, for which `dir` stays the directory that it is now: if it is moved, paths
    /// below `dir` go on to lead into it, and not into what stands in its place. `None`: nobody
    /// moves directories here.
    fn hold(&self, dir: &Path) -> Result<Option<Arc<dyn Vfs>>> {
        let _ = dir;
        Ok(None)
    }

    /// Creates a new, empty file for writing, readable by its owner only (mode 0600).
    ///
    /// # Errors
    /// `AlreadyExists`, `NotFound` (the directory), or what else the file system refused, naming
    /// `path`; so for every method here.
    fn create(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// Opens an existing file for writing, its content kept. A symbolic link is refused.
    fn open_write(&self, path: &Path) -> Result<Box<dyn WriteFile>>;

    /// Opens an existing file for reading.
    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>>;

    /// Maps the first `len` bytes of an existing file for writing; the file must be as long, and
    /// its space allocated: a store into a page without space would kill the process.
    ///
    /// # Errors
    /// `Unsupported` where this file system is not fit for it (see [`Vfs::maps_well`]);
    /// `InvalidInput`: too short, not allocated, or no bytes at all.
    fn map_append(&self, path: &Path, len: u64) -> Result<Arc<dyn MapFile>>;

    /// Whether appending through a mapping is safe and fast in `dir`: false on XFS, btrfs, ZFS,
    /// NFS, FUSE and 9p, and where it is not known.
    fn maps_well(&self, dir: &Path) -> bool;

    /// Creates a directory and its missing parents (mode 0700 for those it creates).
    fn create_dir_all(&self, path: &Path) -> Result<()>;

    /// The names in a directory (the last component each, not joined to `path`), sorted.
    fn read_dir(&self, path: &Path) -> Result<Vec<PathBuf>>;

    /// Removes a file's name; who has it open keeps the content.
    fn remove(&self, path: &Path) -> Result<()>;

    /// Renames a file over whatever file stands at `to`, atomically.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Gives a file a second name; copies and syncs it where the file system cannot.
    ///
    /// # Errors
    /// `AlreadyExists` if something stands at `to`.
    fn hard_link(&self, from: &Path, to: &Path) -> Result<()>;

    /// Makes the names in a directory durable (V2).
    fn sync_dir(&self, path: &Path) -> Result<()>;

    /// Whether something stands at `path`.
    fn exists(&self, path: &Path) -> Result<bool>;

    /// A file's length in bytes.
    fn len(&self, path: &Path) -> Result<u64>;

    /// Takes the exclusive lock at `path`, creating the file. The lock goes with the process,
    /// however that ends; the file stays.
    ///
    /// # Errors
    /// `Locked` if another process, or this one, has it.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;

    /// What tells this file, on this mount, in this boot, from any other (the page-cache token).
    ///
    /// # Errors
    /// `Unsupported` where the system does not tell: the caller assumes a power loss then.
    fn identity(&self, path: &Path) -> Result<Identity>;
}

/// What tells a file on this mount in this boot from any other. Equal identities mean that the
/// page cache of then may still be the page cache of now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// The kernel's boot id.
    pub boot: [u8; 16],
    /// Device number of the file system.
    pub device: u64,
    /// The file system's id.
    pub file_system: u64,
    /// Inode number of the file.
    pub inode: u64,
    /// Birth time of the file, nanoseconds since 1970; 0 where unknown.
    pub born_ns: u64,
    /// Mount namespace of the process; 0 where unknown.
    pub mount_namespace: u64,
    /// Mount id, unique in this boot where the kernel has such (6.8); meaningful only within the
    /// same mount namespace; 0 where unknown.
    pub mount: u64,
}

/// Whether a read failed as it does where the device cannot read its medium, and not for want of
/// memory, descriptors, rights or an answer in time. Whether the device is there at all, the
/// system does not always tell apart.
#[must_use]
pub fn is_unreadable(error: &Error) -> bool {
    const CODES: &[i32] = &[
        libc::EIO,
        libc::ENODATA,
        libc::EBADMSG,
        libc::EILSEQ,
        #[cfg(target_os = "linux")]
        libc::EUCLEAN,
        #[cfg(target_os = "linux")]
        libc::EREMOTEIO,
    ];
    system_code(error).is_some_and(|code| CODES.contains(&code))
}

/// Whether a file could not be opened because the process, or the system, has too many open.
#[must_use]
pub fn lacks_descriptors(error: &Error) -> bool {
    system_code(error).is_some_and(|code| [libc::EMFILE, libc::ENFILE].contains(&code))
}

/// Whether an error says something of the device; that too many files are open does not.
#[must_use]
pub fn is_of_the_device(error: &Error) -> bool {
    error.kind() == ErrorKind::Io && !lacks_descriptors(error)
}

/// What the system said.
fn system_code(error: &Error) -> Option<i32> {
    let source = std::error::Error::source(error);
    let source = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    source.and_then(std::io::Error::raw_os_error)
}
