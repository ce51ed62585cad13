//! The file system in memory does what the machine's does: the same calls, drawn, on both, have
//! the same outcomes and leave the same names and bytes.
//!
//! All campaigns run on the one in memory, so what they show is worth as much as this. Every random
//! choice comes from the seed named when one fails.
#![cfg(not(miri))]
#![allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::{ErrorKind, Result};
use velella_sync::rng::Rng;
use velella_vfs::{MemFs, OsFs, ReadFile, Vfs, WriteFile};

const SEEDS: u32 = 60;
const STEPS: usize = 150;

/// A file system, the directory of the test in it, and what is open.
struct Side<'a> {
    fs: &'a dyn Vfs,
    root: &'a Path,
    writers: Vec<Box<dyn WriteFile>>,
    readers: Vec<Arc<dyn ReadFile>>,
}

/// What a call came to: bytes or a number, if any; or why not.
type Outcome = Result<Vec<u8>, ErrorKind>;

/// One call, with paths below the root.
#[derive(Debug, Clone)]
enum Call {
    Create(PathBuf),
    OpenWrite(PathBuf),
    OpenRead(PathBuf),
    CreateDir(PathBuf),
    List(PathBuf),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Exists(PathBuf),
    Len(PathBuf),
    Write(usize, u64, Vec<u8>),
    Append(usize, Vec<u8>),
    Allocate(usize, u64),
    SetLen(usize, u64),
    Read(usize, u64, usize),
    CloseWriter(usize),
    CloseReader(usize),
}

/// Few names, some of directories, some below what may be a file.
fn path(rng: &mut Rng) -> PathBuf {
    const NAMES: [&str; 9] = ["a", "b", "c.tmp", "d", "d/a", "d/b", "d/e", "d/e/f", "a/x"];
    PathBuf::from(NAMES[pick(rng, NAMES.len())])
}

fn pick(rng: &mut Rng, below: usize) -> usize {
    usize::try_from(rng.below(below as u64)).unwrap()
}

fn bytes(rng: &mut Rng) -> Vec<u8> {
    let lens = [0, 1, 7, 511, 512, 513, 4_095, 4_096, 4_097, 9_000];
    vec![rng.next_u64().to_le_bytes()[0]; lens[pick(rng, 10)]]
}

fn call(rng: &mut Rng, writers: usize, readers: usize) -> Call {
    let offset = [0, 1, 500, 4_090, 4_096, 12_000][pick(rng, 6)];
    match rng.below(22) {
        0 | 1 => Call::Create(path(rng)),
        2 | 3 => Call::OpenWrite(path(rng)),
        4 | 5 => Call::OpenRead(path(rng)),
        6 => Call::CreateDir(path(rng)),
        7 => Call::List(path(rng)),
        8 => Call::Remove(path(rng)),
        9 => Call::Rename(path(rng), path(rng)),
        10 => Call::Link(path(rng), path(rng)),
        11 => Call::Exists(path(rng)),
        12 => Call::Len(path(rng)),
        13 | 14 if writers > 0 => Call::Write(pick(rng, writers), offset, bytes(rng)),
        15 | 16 if writers > 0 => Call::Append(pick(rng, writers), bytes(rng)),
        17 if writers > 0 => Call::Allocate(pick(rng, writers), offset),
        18 if writers > 0 => Call::SetLen(pick(rng, writers), offset),
        19 | 20 if readers > 0 => Call::Read(pick(rng, readers), offset, bytes(rng).len()),
        21 if writers > 3 => Call::CloseWriter(pick(rng, writers)),
        _ if readers > 3 => Call::CloseReader(pick(rng, readers)),
        _ => Call::Create(path(rng)),
    }
}

impl Side<'_> {
    fn run(&mut self, call: &Call) -> Outcome {
        let done = |outcome: Result<()>| outcome.map(|()| Vec::new());
        let at = |path: &PathBuf| self.root.join(path);
        let is_dir = |path: &PathBuf| self.fs.read_dir(&at(path)).is_ok();
        let number = |number: u64| number.to_le_bytes().to_vec();
        let outcome = match call {
            Call::Create(path) => {
                let opened = self.fs.create(&at(path));
                opened
                    .map(|file| self.writers.push(file))
                    .map(|()| Vec::new())
            }
            Call::OpenWrite(path) => {
                let opened = self.fs.open_write(&at(path));
                opened
                    .map(|file| self.writers.push(file))
                    .map(|()| Vec::new())
            }
            Call::OpenRead(path) => self.fs.open_read(&at(path)).map(|file| {
                let len = file.len();
                self.readers.push(file);
                number(len)
            }),
            Call::CreateDir(path) => done(self.fs.create_dir_all(&at(path))),
            Call::List(path) => self
                .fs
                .read_dir(&at(path))
                .map(|names| format!("{names:?}").into()),
            Call::Remove(path) => done(self.fs.remove(&at(path))),
            // A file goes over a file: what a directory does to another, the trait leaves open.
            Call::Rename(from, to) if is_dir(from) && is_dir(to) => Ok(Vec::new()),
            Call::Rename(from, to) => done(self.fs.rename(&at(from), &at(to))),
            Call::Link(from, to) => done(self.fs.hard_link(&at(from), &at(to))),
            Call::Exists(path) => self.fs.exists(&at(path)).map(|is| vec![u8::from(is)]),
            // Of a directory nobody asks it.
            Call::Len(path) if is_dir(path) => Ok(Vec::new()),
            Call::Len(path) => self.fs.len(&at(path)).map(number),
            Call::Write(file, offset, bytes) => done(self.writers[*file].write_at(*offset, bytes)),
            Call::Append(file, bytes) => done(self.writers[*file].append(bytes)),
            Call::Allocate(file, len) => done(self.writers[*file].allocate(*len)),
            Call::SetLen(file, len) => done(self.writers[*file].set_len(*len)),
            Call::Read(file, offset, len) => {
                let mut buffer = vec![0; *len];
                let read = self.readers[*file].read_exact_at(&mut buffer, *offset);
                read.map(|()| buffer)
            }
            Call::CloseWriter(file) => {
                drop(self.writers.swap_remove(*file));
                Ok(Vec::new())
            }
            Call::CloseReader(file) => {
                drop(self.readers.swap_remove(*file));
                Ok(Vec::new())
            }
        };
        outcome.map_err(|error| error.kind())
    }

    /// Every name below the root with its content, directories without.
    fn tree(&self) -> Vec<(PathBuf, Option<Vec<u8>>)> {
        let (mut tree, mut dirs) = (Vec::new(), vec![PathBuf::new()]);
        while let Some(dir) = dirs.pop() {
            for name in self.fs.read_dir(&self.root.join(&dir)).unwrap() {
                let path = dir.join(name);
                let Ok(file) = self.fs.open_read(&self.root.join(&path)) else {
                    tree.push((path.clone(), None));
                    dirs.push(path);
                    continue;
                };
                let mut content = vec![0; usize::try_from(file.len()).unwrap()];
                file.read_exact_at(&mut content, 0).unwrap();
                tree.push((path, Some(content)));
            }
        }
        tree.sort();
        tree
    }
}

/// Whether two outcomes are as good as the same: systems have many words for a name that cannot be
/// what is asked of it, and all of them are plain errors to a program.
fn are_alike(a: &Outcome, b: &Outcome) -> bool {
    let is_plain = |outcome: &Outcome| {
        let plain = [
            ErrorKind::Io,
            ErrorKind::NotFound,
            ErrorKind::AlreadyExists,
            ErrorKind::Permission,
        ];
        outcome.as_ref().is_err_and(|kind| plain.contains(kind))
    };
    a == b || (is_plain(a) && is_plain(b) && [a, b].iter().any(|o| **o == Err(ErrorKind::Io)))
}

#[test]
fn the_model_and_the_machine_are_told_apart_by_no_call() {
    let mut succeeded = 0;
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed.into());
        let dir = tempfile::tempdir().unwrap();
        let (mem, os) = (MemFs::new(), OsFs::new());
        mem.create_dir_all(Path::new("/db")).unwrap();
        let side = |fs, root| Side {
            fs,
            root,
            writers: Vec::new(),
            readers: Vec::new(),
        };
        let (mut model, mut machine) = (
            side(&mem as &dyn Vfs, Path::new("/db")),
            side(&os, dir.path()),
        );
        for step in 0..STEPS {
            let call = call(&mut rng, model.writers.len(), model.readers.len());
            let (expected, found) = (machine.run(&call), model.run(&call));
            assert!(
                are_alike(&expected, &found),
                "seed {seed}, step {step}: {call:?}: the machine {expected:?}, the model {found:?}"
            );
            succeeded += usize::from(found.is_ok());
        }
        assert!(
            model.tree() == machine.tree(),
            "seed {seed}: names or bytes differ"
        );
    }
    let calls = usize::try_from(SEEDS).unwrap() * STEPS;
    assert!(
        (calls / 2..calls * 9 / 10).contains(&succeeded),
        "{succeeded} of {calls}"
    );
}
