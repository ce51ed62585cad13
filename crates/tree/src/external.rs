//! External values: one file each, written once, never rewritten by a compaction.
//!
//! Format: docs/format/external.md (the 64-byte header, then the value).
//!
//! X1. A file is removed only when it was discarded (no version refers to it) and nobody holds it:
//!     tables and memtables that name it do.
//! X2. Removing happens in [`ExternalStore::reap`] and [`ExternalStore::discard`], called by
//!     background work, never where a hold drops: that may be in the middle of a write; and not
//!     once the database was closed (N5 of the manifest).
//! X3. Nor is one made then: closing waits for a file that is being written, and the next opening
//!     finds it.
//!
//! Threads: any. Tests: `external/tests.rs`.

use crate::header::{HEADER_BYTES, Header, Purpose};
use crate::manifest::Manifest;
use crate::open_files::OpenFiles;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::checksum::{crc32c, crc32c_append};
use velella_base::external::ExternalRef;
use velella_base::file_name::FileName;
use velella_base::{DatabaseId, Error, ErrorKind, Result};
use velella_sync::lock::Mutex;
use velella_vfs::{ReadFile, Vfs, WriteFile};

const MAGIC: &[u8; 8] = b"VELELLAX";
/// Bytes read at once where a value is only checked.
const PIECE_BYTES: usize = 64 << 10;

/// External values: one file each, written once, never rewritten by a compaction.
#[derive(Debug)]
pub struct ExternalStore {
    vfs: Arc<dyn Vfs>,
    /// Those of tables, some of which are closed where a value finds no descriptor.
    tables: Arc<OpenFiles>,
    dir: PathBuf,
    database: DatabaseId,
    manifest: Arc<Manifest>,
    files: Arc<Mutex<Files>>,
}

/// What is known of external files.
#[derive(Debug, Default)]
struct Files {
    known: HashMap<u64, External>,
    /// Discarded and held by nobody: to be removed (X2).
    doomed: Vec<u64>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct External {
    holds: usize,
    discarded: bool,
    bytes: u64,
}

/// Keeps one external file from being removed.
#[derive(Debug)]
pub struct ExternalHold {
    files: Arc<Mutex<Files>>,
    file: u64,
}

impl ExternalStore {
    /// The store of a database directory, whose `tables` are open.
    #[must_use]
    pub fn new(
        tables: Arc<OpenFiles>,
        dir: PathBuf,
        database: DatabaseId,
        manifest: Arc<Manifest>,
    ) -> Self {
        ExternalStore {
            vfs: Arc::clone(tables.vfs()),
            tables,
            dir,
            database,
            manifest,
            files: Arc::default(),
        }
    }

    /// Writes a value to a new file, not yet synced: the journal syncs the returned file with the
    /// next round, before the write can be durable, and the database directory with it.
    ///
    /// # Errors
    /// `NoSpace`, `Io`; the file is removed. `Closed`: it was closed, and none was made (X3).
    pub fn write(
        &self,
        value: &[u8],
        expires_at_ms: u64,
    ) -> Result<(ExternalRef, Box<dyn WriteFile>)> {
        let file = self.manifest.next_file()?;
        let target = self.manifest.while_open(|| self.make(file, value))?;
        let length = value.len() as u64;
        let mut files = self.files.lock();
        files.bytes += length;
        files.known.entry(file).or_default().bytes = length;
        drop(files);
        let reference = ExternalRef {
            file,
            length,
            crc: crc32c(value),
            expires_at_ms,
        };
        Ok((reference, target))
    }

    /// Makes the file of a value; of one that fails nothing is left.
    fn make(&self, file: u64, value: &[u8]) -> Result<Box<dyn WriteFile>> {
        let path = FileName::External(file).path(&self.dir);
        let target = self.tables.with_room(|| self.vfs.create(&path))?;
        let header = Header::new(self.database, file).encode(MAGIC);
        let written = target
            .write_at(0, &header)
            .and_then(|()| target.write_at(HEADER_BYTES as u64, value));
        if let Err(error) = written {
            drop(target);
            drop(self.vfs.remove(&path));
            return Err(error);
        }
        Ok(target)
    }

    /// Reads a value and checks it.
    ///
    /// # Errors
    /// `Corruption`, `Io`; `Closed`: the file is gone since the database was closed.
    pub fn read(&self, reference: &ExternalRef) -> Result<Vec<u8>> {
        let (source, length) = self.open(reference)?;
        let mut value = vec![0; length];
        source.read_exact_at(&mut value, HEADER_BYTES as u64)?;
        check_crc(&*source, reference, crc32c(&value))?;
        Ok(value)
    }

    /// Checks a value as [`ExternalStore::read`] does, and keeps none of it; returns its bytes.
    ///
    /// # Errors
    /// As [`ExternalStore::read`].
    pub fn verify(&self, reference: &ExternalRef) -> Result<u64> {
        let (source, _) = self.open(reference)?;
        let (_, crc) = scan(&*source, reference.file)?;
        check_crc(&*source, reference, crc)?;
        Ok(reference.length)
    }

    /// Opens the file that `reference` names, and checks all but the value; its length.
    fn open(&self, reference: &ExternalRef) -> Result<(Arc<dyn ReadFile>, usize)> {
        let path = FileName::External(reference.file).path(&self.dir);
        let opened = self.tables.with_room(|| self.vfs.open_read(&path));
        let source = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.tables.closed(&path).unwrap_or_else(|| {
                damaged(&path, 0, "a version names it, but it is not there".into())
            }),
            _ => error,
        })?;
        // The length is checked against the file before anything is allocated for it.
        let expected = (HEADER_BYTES as u64).saturating_add(reference.length);
        if source.len() != expected {
            let found = format!(
                "the file has {} bytes, its header and value {expected}",
                source.len()
            );
            return Err(damaged(&path, 0, found));
        }
        let header = read_header(&*source, reference.file)?;
        if header.database != self.manifest.origin(reference.file) {
            return Err(damaged(&path, 0, "it belongs to another database".into()));
        }
        let length = usize::try_from(reference.length)
            .map_err(|_| damaged(&path, 0, "it is longer than memory".into()))?;
        Ok((source, length))
    }

    /// Holds the file alive even if it becomes garbage meanwhile (one per table or memtable).
    #[must_use]
    pub fn hold(&self, file: u64) -> ExternalHold {
        let mut files = self.files.lock();
        if !files.known.contains_key(&file) {
            // Written by an earlier process: its size is on disk. Unreadable counts as empty; the
            // reader of the value will say what is wrong.
            let path = FileName::External(file).path(&self.dir);
            let length = self.vfs.len(&path).unwrap_or(0);
            let bytes = length.saturating_sub(HEADER_BYTES as u64);
            files.bytes += bytes;
            files.known.entry(file).or_default().bytes = bytes;
        }
        files.known.entry(file).or_default().holds += 1;
        ExternalHold {
            files: Arc::clone(&self.files),
            file,
        }
    }

    /// No version refers to these files any more: each is removed once the last hold drops (X1).
    pub fn discard(&self, files: &[u64]) {
        let mut all = self.files.lock();
        for &file in files {
            let external = all.known.entry(file).or_default();
            let first = !std::mem::replace(&mut external.discarded, true);
            if first && external.holds == 0 {
                all.doomed.push(file);
            }
        }
        drop(all);
        self.reap();
    }

    /// Removes what was discarded and is no longer held (X2). Best effort: what cannot be removed
    /// is found again at the next opening.
    pub fn reap(&self) {
        let doomed = {
            let mut files = self.files.lock();
            let doomed = std::mem::take(&mut files.doomed);
            for file in &doomed {
                let bytes = files
                    .known
                    .remove(file)
                    .map_or(0, |external| external.bytes);
                files.bytes -= bytes;
            }
            doomed
        };
        if doomed.is_empty() {
            return;
        }
        self.manifest.unless_shut(|| {
            for file in doomed {
                drop(self.vfs.remove(&FileName::External(file).path(&self.dir)));
            }
        });
    }

    /// Bytes of values on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.lock().bytes
    }
}

/// Reads the file of an external value piece by piece: its header, and the value's checksum.
pub(crate) fn scan(source: &dyn ReadFile, file: u64) -> Result<(Header, u32)> {
    let header = read_header(source, file)?;
    let (mut at, mut crc) = (HEADER_BYTES as u64, crc32c(&[]));
    let mut piece = vec![0; PIECE_BYTES];
    while at < source.len() {
        let left = usize::try_from(source.len() - at).unwrap_or(usize::MAX);
        let piece = &mut piece[..left.min(PIECE_BYTES)];
        source.read_exact_at(piece, at)?;
        crc = crc32c_append(crc, piece);
        at += piece.len() as u64;
    }
    Ok((header, crc))
}

fn read_header(source: &dyn ReadFile, file: u64) -> Result<Header> {
    let mut head = [0; HEADER_BYTES];
    source.read_exact_at(&mut head, 0)?;
    Header::decode(&head, MAGIC, file, source.path(), Purpose::Read)
}

fn check_crc(source: &dyn ReadFile, reference: &ExternalRef, crc: u32) -> Result<()> {
    if crc == reference.crc {
        return Ok(());
    }
    let found = "its checksum is not the one its reference has".into();
    Err(damaged(source.path(), HEADER_BYTES as u64, found))
}

fn damaged(path: &Path, offset: u64, found: String) -> Error {
    Error::corruption("read the external value", path, offset, found)
        .remedy("restore this file from a backup")
}

impl Drop for ExternalHold {
    fn drop(&mut self) {
        let mut files = self.files.lock();
        if let Some(external) = files.known.get_mut(&self.file) {
            external.holds -= 1;
            if external.holds == 0 && external.discarded {
                files.doomed.push(self.file);
            }
        }
    }
}

#[cfg(test)]
mod tests;
