//! Open files: written, read, mapped, locked.
//!
//! The traits behind [`crate::Vfs`]; the durability contract V1-V5 is the crate's.
//!
//! Threads: every handle may be shared, except that appending needs it exclusively.
//!
//! Tests: [`crate::contract`].

use crate::window::Window;
use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use velella_base::{Error, Result};

/// A file being written. Dropping it closes it without syncing.
#[expect(clippy::missing_errors_doc, reason = "said once, for all methods")]
pub trait WriteFile: Send + Sync + Debug {
    /// Where the file was when it was opened.
    fn path(&self) -> &Path;

    /// Writes all of `bytes` at `offset`, growing the file if need be. After an error any part of
    /// them may have been written.
    ///
    /// # Errors
    /// What the file system refused, naming the path; so for every method here.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Writes all of `bytes` at the end of what this handle has appended (from the file's length
    /// at opening). After an error that end has not moved, although bytes behind it may have
    /// been written.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Reserves space up to `len` and sets the file's length to it (V5). What lies behind the
    /// old length reads as zeros.
    fn allocate(&self, len: u64) -> Result<()>;

    /// Cuts the file, or extends it by zeros that have no space reserved.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Makes the content durable (V1), and the length if it changed.
    fn sync_data(&self) -> Result<()>;

    /// As [`WriteFile::sync_data`], with all metadata.
    fn sync_all(&self) -> Result<()>;

    /// Has the device begin with what was written to `[offset, offset + len)`, through a mapping
    /// too, so that the next sync finds less to do (best effort). Nothing is durable by it. It does
    /// not wait for what is written, but may wait until the device takes the request.
    fn write_back(&self, offset: u64, len: u64);
}

/// A file being read, from any thread at any offset.
pub trait ReadFile: Send + Sync + Debug {
    /// Where the file was when it was opened.
    fn path(&self) -> &Path;

    /// The file's length in bytes when it was opened.
    fn len(&self) -> u64;

    /// Whether the file was empty when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset`; an early end of the file is a `Corruption` error, after
    /// which the buffer's content is undefined.
    ///
    /// # Errors
    /// `Io`, `Corruption`, naming path and offset.
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;
}

/// A file mapped for writing. Many threads write, each in a window of its own.
pub trait MapFile: Send + Sync + Debug {
    /// Where the file was when it was mapped.
    fn path(&self) -> &Path;

    /// Bytes mapped.
    fn len(&self) -> u64;

    /// Whether nothing is mapped.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives out the window `[offset, offset + len)`. It must not be empty, nor overlap one given
    /// out before from this mapping, whether or not that one was dropped since.
    ///
    /// # Errors
    /// `InvalidInput`: it is empty, overlaps, or lies outside the mapping.
    fn window(self: Arc<Self>, offset: u64, len: u64) -> Result<Window>;

    /// Makes what was written through the mapping durable (V1).
    ///
    /// # Errors
    /// What the file system refused (V4).
    fn sync_data(&self) -> Result<()>;

    /// Faults the pages of `[offset, offset + len)` in, so that the first write of each does not
    /// (best effort). They count as written at the next sync, so nobody wants more of them than are
    /// soon used.
    fn populate(&self, offset: u64, len: u64);

    /// Has those pages of `[offset, offset + len)` read that the system keeps no more (best
    /// effort): whoever first writes to one that is not there waits for the device. It does not
    /// wait for what is read, but may wait until the device takes the request.
    fn fetch(&self, offset: u64, len: u64);
}

/// Held while a process has a database open; dropping it releases the lock.
pub trait FileLock: Send + Sync + Debug {}

/// The file has fewer bytes than were asked of it.
pub(crate) fn ends_early(path: &Path, offset: u64, wanted: usize) -> Error {
    let found = format!("the file ends before {wanted} bytes were read");
    Error::corruption("read", path, offset, found)
}
