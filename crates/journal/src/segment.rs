//! Segments: preallocated files that lanes take extents from.
//!
//! G1. Every byte of a segment was written and synced, its name too (by the inventory), before a
//!     lane gets an extent of it: no append can run out of space, and `fdatasync` has no metadata
//!     to write.
//! G2. A recycled segment is one of this journal's own: its space is still its own. It keeps its
//!     bytes and gets a new number, under which none of them validate; its strip of seals is wiped,
//!     so that what stands there is this journal's.
//! G3. The system may give up the pages of a segment that waits to be reused, or is ready, and then
//!     a store waits until the device has read them. So they are asked for while lanes still write
//!     to those in front of them: best effort, and not before the first writes after a pause.
//!
//! Threads: made by one thread at a time; synced by the coordinator; lanes only touch their extent.
//!
//! Tests: `tests/retention.rs`, `tests/lanes.rs`.

use crate::config::{Access, Config};
use crate::extent;
use crate::header::{FileHeader, HEADER, Magic, VERSION};
use crate::seal::{Layout, STRIP_SLOTS, Seal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella_base::file_name::FileName;
use velella_base::{ErrorKind, Result};
use velella_sync::atomic::{AtomicU64, Ordering};
use velella_vfs::{MapFile, Window, WriteFile};

/// How much is written at once when a new file is filled with zeros: one page. Larger writes make
/// larger folios in the page cache, and then each first store to a page after a sync, and each
/// `write`, costs the kernel a walk over its whole folio (Linux 6.18, ext4, 1 MiB at once: 380
/// instead of 130 ns a mapped record, 3.5 instead of 1.0 us a written one).
const FILL_BYTES: usize = 4096;

/// A segment ready for use.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Its file number; later segments have higher ones.
    pub(crate) number: u64,
    file: Box<dyn WriteFile>,
    /// How lanes write, if not through the file.
    map: Option<Arc<dyn MapFile>>,
    /// Its length without the strip.
    pub(crate) bytes: u64,
    strip: Layout,
    extents: u64,
    extent_bytes: u64,
    /// Extents given out whose bytes recovery might still need.
    held: AtomicU64,
}

/// A piece of a segment that belongs to one lane.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Write through this.
    Mapped(Window),
    /// Write at `segment`'s file, from this position on.
    Written(u64),
}

impl Segment {
    /// Makes a new segment file of `bytes`, or turns the `retired` one, which has as many, into a
    /// new segment (G1, G2). `None`: it was `cancelled` half-way, and nothing is left of it.
    pub(crate) fn make(
        config: &Config,
        seal_file: u64,
        number: u64,
        bytes: u64,
        retired: Option<u64>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Option<Segment>> {
        let path = FileName::Segment(number).path(&config.dir);
        let header = Self::header(config, seal_file, number, bytes);
        let strip = Layout::strip(&header);
        let file = match retired {
            Some(old) => {
                let old = FileName::Segment(old).path(&config.dir);
                config.vfs.rename(&old, &path)?;
                let file = config.with_room(|| config.vfs.open_write(&path))?;
                fill(&*file, bytes, strip.end())?;
                file
            }
            None => {
                let file = config.with_room(|| config.vfs.create(&path))?;
                file.allocate(strip.end())?;
                if !fill_unless(&*file, 0, strip.end(), cancelled)? {
                    drop(file);
                    config.vfs.remove(&path)?;
                    return Ok(None);
                }
                file
            }
        };
        file.write_at(0, &header.encode()).inspect_err(|_| {
            // Taken back, lest a part of it be taken for damage: perhaps the file cannot be
            // removed either. The first error is the one to report.
            let _ = file.write_at(0, &[0; HEADER]);
        })?;
        file.sync_all()?;
        Ok(Some(Segment {
            number,
            map: Self::map(config, &path, bytes)?,
            file,
            bytes,
            strip,
            extents: bytes / config.extent_bytes,
            extent_bytes: config.extent_bytes,
            held: AtomicU64::new(0),
        }))
    }

    fn header(config: &Config, seal_file: u64, number: u64, bytes: u64) -> FileHeader {
        FileHeader {
            magic: Magic::Segment,
            version: VERSION,
            database: config.database,
            file: number,
            incarnation: config.incarnation,
            seal_file,
            parameters: [bytes, config.extent_bytes, config.lanes as u64, STRIP_SLOTS],
        }
    }

    /// The extents mapped, if they are to be written so.
    fn map(config: &Config, path: &Path, bytes: u64) -> Result<Option<Arc<dyn MapFile>>> {
        let wanted = match config.access {
            Access::Write => false,
            Access::Mapped => true,
            Access::Auto => config.vfs.maps_well(&config.dir),
        };
        if !wanted {
            return Ok(None);
        }
        match config.with_room(|| config.vfs.map_append(path, bytes)) {
            Ok(map) => Ok(Some(map)),
            Err(error)
                if config.access == Access::Auto && error.kind() == ErrorKind::Unsupported =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(crate) fn extents(&self) -> u64 {
        self.extents
    }

    pub(crate) fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    /// Where extent `index` begins in the file, its bytes, and the means to write them.
    pub(crate) fn piece(&self, index: u64) -> Result<(u64, u64, Piece)> {
        let (position, len) = extent::place(index, self.extent_bytes);
        let piece = match &self.map {
            Some(map) => Piece::Mapped(Arc::clone(map).window(position, len)?),
            None => Piece::Written(position),
        };
        Ok((position, len, piece))
    }

    /// Has pages faulted in that will be written soon, if the segment is mapped.
    pub(crate) fn populate(&self, position: u64, len: u64) {
        if let Some(map) = &self.map {
            map.populate(position, len);
        }
    }

    /// Has the pages of `extents` read that the system keeps no more (G3), if they are mapped.
    pub(crate) fn fetch(&self, extents: std::ops::Range<u64>) {
        if let Some(map) = &self.map {
            let [from, to] = [extents.start, extents.end].map(|index| index * self.extent_bytes);
            map.fetch(from, to - from);
        }
    }

    /// Has the device begin with bytes that were written, by either way.
    pub(crate) fn write_back(&self, position: u64, len: u64) {
        self.file.write_back(position, len);
    }

    /// Writes through the file: the fallback's way, and only it.
    pub(crate) fn write_at(&self, position: u64, bytes: &[u8]) -> Result<()> {
        debug_assert!(!self.is_mapped(), "a mapped segment is written by windows");
        self.file.write_at(position, bytes)
    }

    /// Writes a seal into its slot of the strip.
    pub(crate) fn write_seal(&self, seal: &Seal) -> Result<()> {
        let position = self.strip.seal_at(seal.round);
        self.file.write_at(position, &self.strip.encode_seal(seal))
    }

    pub(crate) fn sync_data(&self) -> Result<()> {
        match &self.map {
            Some(map) => map.sync_data(),
            None => self.file.sync_data(),
        }
    }

    /// One more extent recovery might need.
    pub(crate) fn hold(&self) {
        // Relaxed: counted under the inventory's lock.
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    /// A completed round excludes one of its extents.
    pub(crate) fn let_go(&self) {
        // Release, partner: the Acquire in `is_held`: the lane's last write to the extent comes
        // before whatever is done to the file next.
        self.held.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn is_held(&self) -> bool {
        // Acquire, partner: `let_go`.
        self.held.load(Ordering::Acquire) != 0
    }
}

/// The directory of the journal's files.
pub(crate) fn journal_dir(config: &Config) -> PathBuf {
    config.dir.join(velella_base::file_name::JOURNAL_DIR)
}

/// Writes zeros in `[from, to)`: allocated but unwritten space would cost metadata at every sync of
/// a new piece.
pub(crate) fn fill(file: &dyn WriteFile, from: u64, to: u64) -> Result<()> {
    fill_unless(file, from, to, &|| false).map(|_| ())
}

/// As `fill`; `false`: it was cancelled.
fn fill_unless(
    file: &dyn WriteFile,
    from: u64,
    to: u64,
    cancelled: &dyn Fn() -> bool,
) -> Result<bool> {
    let zeros = [0; FILL_BYTES];
    let mut at = from;
    while at < to {
        if cancelled() {
            return Ok(false);
        }
        let part = usize::try_from(to - at).map_or(FILL_BYTES, |left| left.min(FILL_BYTES));
        file.write_at(at, &zeros[..part])?;
        at += part as u64;
    }
    Ok(true)
}
