//! Where a path leads, and what the system does with a name there.
//!
//! P1. A path below a directory that is held is followed from that directory, wherever it was moved
//!     to; any other as the process would follow it.
//! P2. Interrupted calls are repeated (O1).
//!
//! Threads: any.

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::fs::{linkat, mkdirat, openat, renameat, statat, unlinkat};
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
}

impl<'a> Place<'a> {
    /// Where `path` leads (P1).
    pub(super) fn of(held: Option<&'a Held>, path: &'a Path) -> Place<'a> {
        let below = held.and_then(|held| Some((held, path.strip_prefix(&held.dir).ok()?)));
        match below {
            Some((held, name)) => Place {
                from: held.opened.as_fd(),
                name: match name.as_os_str().is_empty() {
                    true => Path::new("."),
                    false => name,
                },
            },
            None => Place {
                from: CWD,
                name: path,
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
        let remove = || unlinkat(self.from, self.name, AtFlags::empty());
        Ok(retry_on_intr(remove)?)
    }

    pub(super) fn rename(&self, to: &Place<'_>) -> io::Result<()> {
        let rename = || renameat(self.from, self.name, to.from, to.name);
        Ok(retry_on_intr(rename)?)
    }

    pub(super) fn link(&self, to: &Place<'_>) -> io::Result<()> {
        let link = || linkat(self.from, self.name, to.from, to.name, AtFlags::empty());
        Ok(retry_on_intr(link)?)
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
        let made = retry_on_intr(|| mkdirat(self.from, self.name, DIR_MODE));
        match made {
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
