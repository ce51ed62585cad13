//! The database that is measured: made in a directory of its own, and removed.
//!
//! D1. Nothing is removed but what was made here: the directory's name is new, and its own.
//!
//! Tests: `tests/bench.rs`.

use super::Load;
use crate::failure::Failure;
use crate::scratch;
use std::path::{Path, PathBuf};
use velella::{Db, Error, ErrorKind, Result};

/// A directory for measurements, and the database in it.
#[derive(Debug)]
pub(super) struct Scratch {
    dir: PathBuf,
    load: Load,
    db: Option<Db>,
}

impl Scratch {
    /// Makes a directory in `parent`.
    pub(super) fn new(parent: &Path, load: &Load) -> Result<Self, Failure> {
        let dir = scratch::create(parent, "velella-bench")
            .map_err(|error| Error::io("create a directory", parent, error))?;
        Ok(Scratch {
            dir,
            load: load.clone(),
            db: None,
        })
    }

    /// Where it is.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The database, opened if it is not yet.
    pub(super) fn db(&mut self) -> Result<&Db> {
        if self.db.is_none() {
            let db = Db::builder()
                .memory(self.load.memory)
                .write_buffer(self.load.write_buffer)
                .bloom_bits(self.load.bloom_bits)
                .open(self.dir.join("velella"))?;
            self.db = Some(db);
        }
        self.db
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::Closed, "measure", "it is closed"))
    }

    /// Throws the database away; the next is empty.
    pub(super) fn empty(&mut self) -> Result<(), Failure> {
        self.close()?;
        let dir = self.dir.join("velella");
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", &dir, error).into())
            }
            _ => Ok(()),
        }
    }

    /// Closes the database and removes the directory.
    pub(super) fn remove(mut self) -> Result<(), Failure> {
        Ok(self.close()?)
    }

    fn close(&mut self) -> Result<()> {
        self.db.take().map_or(Ok(()), |db| db.close())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // After an error, too: gigabytes left behind help nobody, and the error is told already.
        drop(self.db.take());
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
