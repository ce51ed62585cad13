//! A file of the real file system, mapped for appending.
//!
//! M1. The mapping is shared and starts at the file's first byte; it never moves or grows.
//! M2. Every mapped byte has space before it is mapped (checked), so that no store meets a full
//!     device, and a failed one refuses none while the page is in memory (`facts.rs`). A store into
//!     a page that has to be read from it first, or into a file that someone else cut, is the one
//!     fault no process can catch in order: SIGBUS ends it, and recovery follows.
//! M3. No reference into the mapping is ever made: windows write through pointers, and the file
//!     is read by `pread`.
//! M4. Before a file is synced, its pages leave the process, by one call. Of each page that is in
//!     it, Linux tells every processor before it writes it, and a thread that stores to the next
//!     pages meanwhile is interrupted each time (seen: for 15 to 35 ms, of some thousand pages, in
//!     which its puts took more than twice as long).

use crate::file::MapFile;
use crate::os::facts;
use crate::window::{Carver, Mapping, Window};
use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use velella_base::{Error, ErrorKind, Result};

/// Unit of a file's block count, whatever the file system's block is.
const BLOCK_BYTES: u64 = 512;

/// Pages are this large or a multiple of it; of larger ones the range may take a neighbour's part,
/// which loses nothing either.
const PAGE_BYTES: usize = 4096;

/// How much is asked for at once: of more, Linux reads only as much as it reads ahead, often
/// 128 KiB.
const FETCH_BYTES: usize = 128 << 10;

/// A mapped file.
#[derive(Debug)]
pub(super) struct OsMapFile {
    path: PathBuf,
    file: File,
    mapping: Arc<Pages>,
    carver: Carver,
}

/// The mapped pages.
#[derive(Debug)]
struct Pages(MmapRaw);

impl Mapping for Pages {
    fn retire(&self, offset: u64, len: usize) {
        let Ok(offset) = usize::try_from(offset) else {
            return;
        };
        // Only whole pages that are the window's alone; a page it shares belongs to a neighbour.
        let first = offset.next_multiple_of(PAGE_BYTES);
        let end = (offset + len) / PAGE_BYTES * PAGE_BYTES;
        self.leave(first, end);
    }
}

impl Pages {
    /// Has the pages in `[first, end)` leave the process, for the page cache. Who stores to one
    /// that is still in use faults it in again.
    fn leave(&self, first: usize, end: usize) {
        if first >= end {
            return;
        }
        // SAFETY: the mapping is shared and of a file, so dropping pages from the process loses
        // nothing: the next access finds them in the page cache. A store that another thread makes
        // meanwhile goes to the page before it is dropped, which is noted as dirty then, or faults
        // it in again. Nobody holds a reference into it (M3).
        #[cfg(target_os = "linux")]
        let _ = unsafe {
            self.0
                .unchecked_advise_range(UncheckedAdvice::DontNeed, first, end - first)
        };
    }
}

impl OsMapFile {
    /// Maps the first `len` bytes of a file that is open for reading and writing.
    pub(super) fn of(path: &Path, file: File, len: u64) -> Result<Self> {
        let attempt = |e: io::Error| Error::io("map", path, e);
        if !facts::file_maps_well(&file) {
            let found = "this file system is not known to write mapped pages safely";
            return Err(Error::new(ErrorKind::Unsupported, "map", found).on(path));
        }
        let metadata = file.metadata().map_err(attempt)?;
        let bytes = usize::try_from(len).ok().filter(|&bytes| bytes > 0);
        let (Some(bytes), true) = (bytes, metadata.len() >= len) else {
            let found = format!("{len} bytes cannot be mapped of {}", metadata.len());
            return Err(Error::invalid("map", found).on(path));
        };
        let space = metadata.blocks().saturating_mul(BLOCK_BYTES);
        if space < len {
            let found = format!("only {space} of {len} bytes have space allocated");
            return Err(Error::invalid("map", found).on(path));
        }
        let mapping = MmapOptions::new()
            .len(bytes)
            .map_raw(&file)
            .map_err(attempt)?;
        Ok(OsMapFile {
            path: path.to_path_buf(),
            file,
            mapping: Arc::new(Pages(mapping)),
            carver: Carver::new(len),
        })
    }
}

impl MapFile for OsMapFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> u64 {
        self.mapping.0.len() as u64
    }

    fn window(self: Arc<Self>, offset: u64, len: u64) -> Result<Window> {
        self.carver
            .take(offset, len)
            .map_err(|e| e.on(&self.path))?;
        let index = |n: u64| usize::try_from(n).expect("the carver allows only mapped bytes");
        let first = NonNull::new(self.mapping.0.as_mut_ptr()).expect("no mapping begins at null");
        // SAFETY: the carver checked that `offset` lies in the mapping, which is one allocation.
        let base = unsafe { first.add(index(offset)) };
        let mapping = Arc::<Pages>::clone(&self.mapping);
        // SAFETY: `[offset, offset + len)` is mapped for reading and writing while `mapping`
        // lives, and the carver gives it out once (W1).
        Ok(unsafe { Window::in_memory(base, offset, index(len), mapping) })
    }

    /// `fdatasync` writes pages dirtied through a mapping as it does those of `write`: the kernel
    /// keeps no difference between them. They leave the process first (M4).
    fn sync_data(&self) -> Result<()> {
        self.mapping.leave(0, self.mapping.0.len());
        self.file
            .sync_data()
            .map_err(|e| Error::io("sync", &self.path, e))
    }

    fn populate(&self, offset: u64, len: u64) {
        // Kernels before 5.14 refuse it, and then the first store of each page pays.
        #[cfg(target_os = "linux")]
        self.advise(Advice::PopulateWrite, offset, len);
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, len);
    }

    fn fetch(&self, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len());
        for part in (offset..end).step_by(FETCH_BYTES) {
            let bytes = (end - part).min(FETCH_BYTES as u64);
            self.advise(Advice::WillNeed, part, bytes);
        }
    }
}

impl OsMapFile {
    /// Gives the kernel advice on that part of the range which is mapped.
    fn advise(&self, advice: Advice, offset: u64, len: u64) {
        let end = offset.saturating_add(len).min(self.len());
        let bytes = end.saturating_sub(offset);
        if let (Ok(offset), Ok(bytes)) = (usize::try_from(offset), usize::try_from(bytes)) {
            // It is no more than advice.
            let _ = self.mapping.0.advise_range(advice, offset, bytes);
        }
    }
}
