//! The machine under the in-memory file system: names, files, space, locks, and its end.
//!
//! One lock guards all of it, so that a crash finds every file at the same moment.

use crate::mem::content::{BLOCK, Content, to_index};
use crate::mem::crash::{Choice, CrashMode};
use crate::mem::names::{Entry, Names, Node, ROOT};
use crate::vfs::Identity;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use velella_base::{Error, ErrorKind, Result};
use velella_sync::rng::Rng;

/// A file, named or only open.
#[derive(Default)]
pub(super) struct File {
    pub(super) content: Content,
    /// Handles on it.
    pub(super) open: usize,
    /// Offset and bytes that were last to be fetched.
    pub(super) fetched: Option<(u64, u64)>,
    /// Offset and bytes that were last to be written back.
    pub(super) written_back: Option<(u64, u64)>,
    born: u64,
}

/// Everything a crash can take.
pub(super) struct Machine {
    pub(super) names: Names,
    files: BTreeMap<u64, File>,
    locks: BTreeSet<u64>,
    /// Why it no longer runs.
    ended: Option<&'static str>,
    boot: u64,
    /// Time: one per change.
    clock: u64,
    /// The number of the youngest file or directory; numbers are not used again.
    youngest: u64,
    pub(super) space_max: Option<u64>,
    pub(super) maps_well: bool,
    /// Syncs return without having done anything.
    pub(super) lies: bool,
}

impl Machine {
    pub(super) fn new() -> Machine {
        Machine {
            names: Names::default(),
            files: BTreeMap::new(),
            locks: BTreeSet::new(),
            ended: None,
            boot: 1,
            clock: 0,
            youngest: ROOT,
            space_max: None,
            maps_well: true,
            lies: false,
        }
    }

    /// Whether it still runs; an error of `attempt` on `path` if not.
    pub(super) fn check(&self, attempt: &str, path: &Path) -> Result<()> {
        match self.ended {
            None => Ok(()),
            Some(end) => Err(Error::new(ErrorKind::Io, attempt, end).on(path)),
        }
    }

    /// Whether it still runs.
    pub(super) fn runs(&self) -> bool {
        self.ended.is_none()
    }

    /// The time of a new change.
    pub(super) fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A number for a new file or directory.
    pub(super) fn number(&mut self) -> u64 {
        self.youngest += 1;
        self.youngest
    }

    /// Puts a new file at `entry`.
    pub(super) fn create(&mut self, entry: Entry) -> u64 {
        let number = self.number();
        let at = self.tick();
        let file = File {
            born: at,
            ..File::default()
        };
        self.files.insert(number, file);
        self.names
            .change(at, vec![(entry, Some(Node::File(number)))]);
        number
    }

    /// Puts a file with durable content at `entry`, over what stands there.
    pub(super) fn settle(&mut self, entry: Entry, bytes: &[u8]) {
        let number = self.number();
        let file = File {
            content: Content::settled(bytes),
            born: self.tick(),
            ..File::default()
        };
        self.files.insert(number, file);
        self.names.settle(entry, Node::File(number));
    }

    /// The file of this number; handles and names refer only to files that are there.
    pub(super) fn file(&mut self, number: u64) -> &mut File {
        self.files.entry(number).or_default()
    }

    /// The file at `path`.
    pub(super) fn find_file(&self, attempt: &str, path: &Path) -> Result<u64> {
        match self.names.find(path) {
            Some(Node::File(number)) => Ok(number),
            Some(Node::Dir(_)) => Err(refuse(ErrorKind::Io, attempt, path, "is a directory")),
            None => Err(refuse(ErrorKind::NotFound, attempt, path, "no such file")),
        }
    }

    /// The place of `path` in its directory.
    pub(super) fn find_entry(&self, attempt: &str, path: &Path) -> Result<Entry> {
        let missing = || refuse(ErrorKind::NotFound, attempt, path, "no such directory");
        self.names.entry(path).ok_or_else(missing)
    }

    /// Writes as far as the space reaches; says how far that was.
    pub(super) fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> usize {
        let at = self.tick();
        let begin = to_index(offset);
        let reached = self.claim(number, begin, begin + bytes.len());
        let part = &bytes[..reached.saturating_sub(begin)];
        self.file(number).content.write(at, begin, part);
        part.len()
    }

    /// Gives `[from, to)` of a file space; says how far it reached.
    pub(super) fn claim(&mut self, number: u64, from: usize, to: usize) -> usize {
        let mut free = u64::MAX;
        if let Some(max) = self.space_max {
            free = max.saturating_sub(self.space_used());
        }
        self.file(number).content.claim(from, to, &mut free)
    }

    /// Bytes of space taken by files that are named or open.
    pub(super) fn space_used(&self) -> u64 {
        let named = self.names.named_files();
        let counted =
            |number: &u64, file: &File| file.open > 0 || named.binary_search(number).is_ok();
        let files = self.files.iter();
        let counted = files.filter(|(number, file)| counted(number, file));
        counted.map(|(_, file)| file.content.space()).sum()
    }

    /// Forgets files that nothing can lead to any more.
    pub(super) fn collect(&mut self) {
        let reachable = self.names.reachable_files();
        self.files
            .retain(|number, file| file.open > 0 || reachable.binary_search(number).is_ok());
    }

    /// Fails a sync (V4).
    pub(super) fn fail_sync(&mut self, node: Node, seed: u64) {
        let mut rng = Rng::new(seed);
        match node {
            Node::File(number) => self.file(number).content.fail_sync(&mut rng),
            Node::Dir(number) => self.names.fail_sync(number, &mut rng),
        }
    }

    /// Takes the lock of a file; whether it was free.
    pub(super) fn lock(&mut self, number: u64) -> bool {
        self.locks.insert(number)
    }

    /// Gives the lock of a file back.
    pub(super) fn unlock(&mut self, number: u64) {
        self.locks.remove(&number);
    }

    pub(super) fn identity(&self, number: u64) -> Identity {
        let mut boot = [0; 16];
        boot[..8].copy_from_slice(&self.boot.to_le_bytes());
        Identity {
            boot,
            device: 1,
            file_system: 1,
            inode: number,
            born_ns: self.files.get(&number).map_or(0, |file| file.born),
            mount_namespace: 1,
            mount: 1,
        }
    }

    /// Ends this machine for everyone who still has a handle on it.
    pub(super) fn end(&mut self, mode: CrashMode) {
        self.ended = self.ended.or(Some(match mode {
            CrashMode::KeepAll => "the process was killed",
            _ => "the machine lost power",
        }));
    }

    /// The machine that comes up after a crash now.
    pub(super) fn after_crash(&self, seed: u64, mode: CrashMode) -> Machine {
        let contents = self.files.values().map(|file| &file.content);
        let unsynced = contents.filter_map(Content::first_unsynced);
        let first = unsynced.chain(self.names.first_unsynced()).min();
        let first = first.unwrap_or(self.clock);
        let choice = &mut Choice::new(mode, seed, first, self.clock);
        let killed = mode == CrashMode::KeepAll;
        let names = if killed {
            self.names.clone()
        } else {
            self.names.after_crash(choice)
        };
        let reachable = names.reachable_files();
        let mut files = BTreeMap::new();
        for (number, file) in &self.files {
            if reachable.binary_search(number).is_err() {
                continue;
            }
            let content = if killed {
                file.content.clone()
            } else {
                file.content.after_crash(choice)
            };
            let born = file.born;
            let file = File {
                content,
                born,
                ..File::default()
            };
            files.insert(*number, file);
        }
        Machine {
            names,
            files,
            locks: BTreeSet::new(),
            ended: None,
            boot: self.boot + u64::from(!killed),
            clock: self.clock,
            youngest: self.youngest,
            space_max: self.space_max,
            maps_well: self.maps_well,
            lies: false,
        }
    }
}

/// Whether the space for `len` bytes of a file can ever be counted.
pub(super) fn fits_in_memory(offset: u64, len: u64) -> bool {
    let end = offset
        .checked_add(len)
        .and_then(|end| end.checked_add(BLOCK));
    end.is_some_and(|end| end <= isize::MAX as u64)
}

/// An error of this file system.
pub(super) fn refuse(kind: ErrorKind, attempt: &str, path: &Path, found: &str) -> Error {
    Error::new(kind, attempt, found).on(path)
}
