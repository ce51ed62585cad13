//! Where and how to keep a journal.
//!
//! F1. Sizes are checked once, here; the rest of the crate relies on them.
//!
//! Tests: below.

use std::path::PathBuf;
use std::sync::Arc;
use velella_base::{DatabaseId, Error, Result};
use velella_vfs::{Vfs, lacks_descriptors};

/// Most lanes: a seal names them all, and is written whole.
pub const LANES_MAX: usize = 4096;
/// Largest extent.
pub(crate) const EXTENT_BYTES_MAX: u64 = 1 << 20;
const EXTENT_BYTES: std::ops::RangeInclusive<u64> = 8 << 10..=EXTENT_BYTES_MAX;
/// Largest segment; a few are mapped at a time.
const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// How records reach the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// By mapping where the file system is fit for it, else by `write`.
    #[default]
    Auto,
    /// By copying into a mapped segment: no system call.
    Mapped,
    /// By one `write` a record.
    Write,
}

/// Gives out numbers for new files (never reused).
pub type NextFile = Arc<dyn Fn() -> Result<u64> + Send + Sync>;

/// What the caller wants noted in each seal: 56 bits, 0 for nothing.
pub type Note = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Closes files that can be opened again; whether there were any.
pub type MakeRoom = Arc<dyn Fn() -> bool + Send + Sync>;

/// Where and how to keep a journal.
#[derive(Clone)]
pub struct Config {
    /// The file system.
    pub vfs: Arc<dyn Vfs>,
    /// The database directory; the journal's files lie in its `journal` folder.
    pub dir: PathBuf,
    /// The database.
    pub database: DatabaseId,
    /// This run of the database: one more than the last.
    pub incarnation: u64,
    /// How many lanes.
    pub lanes: usize,
    /// Bytes of a segment (default 16 MiB): a multiple of `extent_bytes`.
    pub segment_bytes: u64,
    /// Bytes of an extent (default 256 KiB; 8 KiB to 1 MiB, a multiple of 4 KiB).
    pub extent_bytes: u64,
    /// How records reach the page cache.
    pub access: Access,
    /// `done` is synced before D moves (closes the one gap of the cut rule, for a second sync).
    pub ack_after_done: bool,
    /// Numbers for new files.
    pub next_file: NextFile,
    /// Noted in each seal, and read back by [`crate::evidence`]: how far the caller's own log was
    /// durable before the round. `None`: nothing.
    pub note: Option<Note>,
    /// Closes files that the caller can open again; whether there were any. Asked where the process
    /// may open no more. `None`: there are none.
    pub make_room: Option<MakeRoom>,
}

impl Config {
    /// Default of [`Config::segment_bytes`].
    pub const SEGMENT_BYTES: u64 = 16 << 20;
    /// Default of [`Config::extent_bytes`].
    pub const EXTENT_BYTES: u64 = 256 << 10;

    /// Opens or creates a file, once more if too many were open and room could be made.
    pub(crate) fn with_room<T>(&self, open: impl Fn() -> Result<T>) -> Result<T> {
        match open() {
            Err(error) if lacks_descriptors(&error) => match &self.make_room {
                Some(make_room) if make_room() => open(),
                _ => Err(error),
            },
            opened => opened,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refused = |found: String| Err(Error::invalid("start the journal", found));
        if self.lanes == 0 || self.lanes > LANES_MAX {
            return refused(format!("{} lanes are not 1 to {LANES_MAX}", self.lanes));
        }
        let (extent, segment) = (self.extent_bytes, self.segment_bytes);
        if !EXTENT_BYTES.contains(&extent) || !extent.is_multiple_of(crate::header::PAGE) {
            return refused(format!(
                "an extent of {extent} bytes is not 8 KiB to 1 MiB in pages of 4 KiB"
            ));
        }
        if segment == 0 || !segment.is_multiple_of(extent) || segment > SEGMENT_BYTES_MAX {
            return refused(format!(
                "a segment of {segment} bytes is not some extents of {extent}, up to 1 GiB"
            ));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config")
            .field("dir", &self.dir)
            .field("incarnation", &self.incarnation)
            .field("lanes", &self.lanes)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
impl Config {
    /// A journal of one lane in small mapped segments of the file system `vfs`, for tests.
    pub(crate) fn small(vfs: &velella_vfs::MemFs) -> Config {
        use velella_sync::atomic::machine::{AtomicU64, Ordering};
        let next = AtomicU64::new(1);
        Config {
            vfs: Arc::new(vfs.clone()),
            dir: PathBuf::from("/db"),
            database: 1,
            incarnation: 1,
            lanes: 1,
            segment_bytes: 32 << 10,
            extent_bytes: 8 << 10,
            access: Access::Mapped,
            ack_after_done: false,
            // Relaxed: any number will do that nobody else has.
            next_file: Arc::new(move || Ok(next.fetch_add(1, Ordering::Relaxed))),
            note: None,
            make_room: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_out_of_range_are_refused() {
        let good = Config {
            segment_bytes: Config::SEGMENT_BYTES,
            extent_bytes: Config::EXTENT_BYTES,
            ..Config::small(&velella_vfs::MemFs::new())
        };
        good.check().unwrap();
        let change: [fn(&mut Config); 6] = [
            |config| config.lanes = 0,
            |config| config.lanes = LANES_MAX + 1,
            |config| config.extent_bytes = 4 << 10,
            |config| config.extent_bytes = (64 << 10) + 8,
            |config| config.segment_bytes = 0,
            |config| config.segment_bytes += 4096,
        ];
        for change in change {
            let mut bad = good.clone();
            change(&mut bad);
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
