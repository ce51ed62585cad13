//! Where a path leads, and what the system does with a name there.
//!
//! P1. A path below a directory that is held is followed from that directory, wherever it was moved
//!     to; any other as the process would follow it.
//! P2. Where opening or looking is interrupted, it is repeated (O1); what changes names is not, as
//!     in the standard library: it may have happened.
//! P3. To sync the directory that is held takes no descriptor.
//!
//! Threads: any.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::fs::{fsync, linkat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::retry_on_intr;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const DIR_MODE: Mode = Mode::from_raw_mode(0o700);

/// A directory that is held open, and the path that led to it.
#[derive(Debug)]
pub(super) struct Held {
    dir: PathBuf,
    opened: OwnedFd,
}

impl Held {
    pub(super) fn new(dir: &Path) -> io::Result<Held> {
        let opened = Place::of(None, dir).open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(Held {
            dir: dir.to_path_buf(),
            opened: opened.into(),
        })
    }
}

/// A name, and the directory from which it is followed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) from: BorrowedFd<'a>,
    pub(super) name: &'a Path,
    /// It is the directory that is held.
    is_held: bool,
}

impl<'a> Place<'a> {
    /// Where `path` leads (P1).
    pub(super) fn of(held: Option<&'a Held>, path: &'a Path) -> Place<'a> {
        let below = held.and_then(|held| Some((held, path.strip_prefix(&held.dir).ok()?)));
        match below {
            Some((held, name)) => {
                let is_held = name.as_os_str().is_empty();
                Place {
                    from: held.opened.as_fd(),
                    name: if is_held { Path::new(".") } else { name },
                    is_held,
                }
            }
            None => Place {
                from: CWD,
                name: path,
                is_held: false,
            },
        }
    }

    pub(super) fn open(&self, flags: OFlags) -> io::Result<File> {
        let opened = || openat(self.from, self.name, flags | OFlags::CLOEXEC, FILE_MODE);
        Ok(File::from(retry_on_intr(opened)?))
    }

    pub(super) fn create_new(&self) -> io::Result<File> {
        self.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// What stands there; of a link, that itself or what it leads to.
    pub(super) fn stat(&self, follows: bool) -> io::Result<Stat> {
        let flags = match follows {
            true => AtFlags::empty(),
            false => AtFlags::SYMLINK_NOFOLLOW,
        };
        Ok(retry_on_intr(|| statat(self.from, self.name, flags))?)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(unlinkat(self.from, self.name, AtFlags::empty())?)
    }

    pub(super) fn rename(&self, to: &Place<'_>) -> io::Result<()> {
        Ok(renameat(self.from, self.name, to.from, to.name)?)
    }

    pub(super) fn link(&self, to: &Place<'_>) -> io::Result<()> {
        let flags = AtFlags::empty();
        Ok(linkat(self.from, self.name, to.from, to.name, flags)?)
    }

    /// Makes the names in a directory durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        if self.is_held {
            return Ok(retry_on_intr(|| fsync(self.from))?);
        }
        self.open(OFlags::RDONLY)?.sync_all()
    }

    /// Makes a directory, and those that it lies in.
    pub(super) fn make_dirs(&self) -> io::Result<()> {
        match self.make_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let Some(name) = self.name.parent() else {
                    return Err(error);
                };
                Place { name, ..*self }.make_dirs()?;
                self.make_dir()
            }
            made => made,
        }
    }

    fn make_dir(&self) -> io::Result<()> {
        match mkdirat(self.from, self.name, DIR_MODE) {
            Err(error) if !self.stat(true).is_ok_and(|there| is_dir(&there)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The names in a directory, in no order.
    pub(super) fn names(&self) -> io::Result<Vec<PathBuf>> {
        let dir = self.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(PathBuf::from(OsStr::from_bytes(name)));
            }
        }
        Ok(names)
    }
}

fn is_dir(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_dir()
}
