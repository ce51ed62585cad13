//! Payloads too large for an extent: each lane appends them to a file of its own.
//!
//! L1. A large payload is written and its checksum known before the write's window opens; the lane
//!     gets a small record that refers to it.
//! L2. The file's name is durable before anything refers to it; its content is synced by the round
//!     that covers the reference.
//! L3. A payload that nothing came to refer to is written over by the next, or cut off once its
//!     lane is idle, as is one for which there was no room: so many as are refused take the place
//!     of one, for a while. Each begins a page, so that no page which holds a durable one is
//!     written again. What was synced may be written over, and is synced again.
//!     A file that nothing refers to yet stays its lane's.
//! L4. A lane leaves its file, and with it its extent, when the file is full or some of it is in
//!     tables: so a file holds what was written between two flushes, and goes with the second.
//!
//! Threads: written by its lane, synced by the coordinator.
//!
//! Tests: `tests/large.rs`, `tests/retention.rs`.

use crate::config::Config;
use crate::header::{FileHeader, Magic, PAGE, VERSION};
use crate::inventory::{Inventory, no_number};
use crate::ordering::{Site, is_sound};
use std::path::PathBuf;
use std::sync::Arc;
use velella_base::file_name::FileName;
use velella_base::{ErrorKind, Result, Stamp};
use velella_sync::atomic::{AtomicU64, Ordering};
use velella_vfs::WriteFile;

/// Largest payload of one record: a full batch with its framing is far below.
pub(crate) const PAYLOAD_MAX: u64 = 64 << 20;
/// Where the first payload of a file begins.
pub(crate) const FIRST: u64 = PAGE;
/// A file may grow to this, however small segments are: a new one costs a sync of the directory.
pub(crate) const FILE_BYTES_MIN: u64 = 2 << 20;
const NUMBER_ATTEMPTS: usize = 1 << 16;

/// A file of large payloads.
#[derive(Debug)]
pub(crate) struct LargeFile {
    pub(crate) number: u64,
    file: Box<dyn WriteFile>,
    /// The file's length, or what it may be where a write failed.
    len: AtomicU64,
    /// How often something was written, and how much of that is synced: no lengths, since an end
    /// may come back (L3).
    writes: AtomicU64,
    synced: AtomicU64,
    /// The stamp of the last reference to it; 0 before the first.
    stamp: AtomicU64,
}

impl LargeFile {
    /// Makes the file, its name durable (L2). Of one that fails nothing is left.
    pub(crate) fn make(
        config: &Config,
        inventory: &Inventory,
        seal_file: u64,
        lane: u32,
    ) -> Result<Arc<LargeFile>> {
        for _ in 0..NUMBER_ATTEMPTS {
            let number = inventory.new_number()?;
            let path = FileName::LargeSegment(number).path(&config.dir);
            let file = match config.with_room(|| config.vfs.create(&path)) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                other => other?,
            };
            let header = FileHeader {
                magic: Magic::Large,
                version: VERSION,
                database: config.database,
                file: number,
                incarnation: config.incarnation,
                seal_file,
                parameters: [u64::from(lane), 0, 0, 0],
            };
            let made = file
                .write_at(0, &header.encode())
                .and_then(|()| inventory.sync_names());
            if let Err(error) = made {
                drop(file);
                // The first error is the one to report. What stays is tried again (I7).
                if config.vfs.remove(&path).is_err() {
                    inventory.doom(path);
                }
                return Err(error);
            }
            return Ok(Arc::new(LargeFile {
                number,
                file,
                len: AtomicU64::new(FIRST),
                writes: AtomicU64::new(1),
                synced: AtomicU64::new(0),
                stamp: AtomicU64::new(0),
            }));
        }
        Err(no_number(config))
    }

    /// Writes a payload at `start`, behind the last one that something refers to (L3); returns
    /// where it ends. Of one that fails nothing is left.
    pub(crate) fn write(&self, start: u64, payload: &[&[u8]]) -> Result<u64> {
        let mut end = start;
        let written = payload.iter().try_for_each(|part| {
            let written = self.file.write_at(end, part);
            end += part.len() as u64;
            written
        });
        // Relaxed: a figure, which the lane's holder alone writes.
        let len = self.len.load(Ordering::Relaxed).max(end);
        self.len.store(len, Ordering::Relaxed);
        if let Err(error) = written {
            self.cut(start);
            return Err(error);
        }
        // Only the lane's holder writes. Release, partner: the Acquire in `is_dirty`.
        let writes = self.writes.load(Ordering::Relaxed) + 1;
        self.writes.store(writes, Ordering::Release);
        Ok(end)
    }

    /// Gives back what lies behind `end`, if anything does, and nothing refers to. Best effort: the
    /// next payload takes its place otherwise.
    pub(crate) fn cut(&self, end: u64) {
        if self.len() > end && self.file.set_len(end).is_ok() {
            // Relaxed: as in `write`.
            self.len.store(end, Ordering::Relaxed);
        }
    }

    /// Bytes of the file.
    pub(crate) fn len(&self) -> u64 {
        // Relaxed: a figure.
        self.len.load(Ordering::Relaxed)
    }

    /// A record at `stamp` refers to it.
    pub(crate) fn refer(&self, stamp: Stamp) {
        // Relaxed: see `stamp`.
        self.stamp.store(stamp.0, Ordering::Relaxed);
    }

    /// The stamp of the last reference to it.
    pub(crate) fn stamp(&self) -> Stamp {
        // Relaxed: the lane's holder wrote it; to everybody else it is a figure. What may be
        // deleted is decided by the extents.
        Stamp(self.stamp.load(Ordering::Relaxed))
    }

    /// Whether something was written since the last sync.
    pub(crate) fn is_dirty(&self) -> bool {
        // Acquire, partner: `write`. Relaxed: only the coordinator writes `synced`.
        self.writes.load(Ordering::Acquire) != self.synced.load(Ordering::Relaxed)
    }

    pub(crate) fn sync_data(&self) -> Result<()> {
        // Acquire, partner: `write`.
        let writes = self.writes.load(Ordering::Acquire);
        self.file.sync_data()?;
        let writes = match is_sound(Site::LargeSynced) {
            true => writes,
            false => self.writes.load(Ordering::Acquire),
        };
        // Relaxed: only the coordinator reads and writes it.
        self.synced.store(writes, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.file.path().to_path_buf()
    }
}
