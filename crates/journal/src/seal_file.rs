//! The seal file of a running journal.
//!
//! It takes anchors, and shadows of the other seals (`seal.rs`, E5, E6).
//!
//! E3. Seal 0 is durable before the database opens.
//!
//! Threads: whoever holds the rounds.
//!
//! Tests: `tests/rounds.rs`; golden file in `tests/golden`.

use crate::config::Config;
use crate::header::{FileHeader, Magic, VERSION};
use crate::seal::{Layout, SLOTS, Seal};
use crate::segment::fill;
use velella_base::file_name::FileName;
use velella_base::{Result, Stamp};
use velella_vfs::WriteFile;

/// The seal file of a running journal.
#[derive(Debug)]
pub(crate) struct SealFile {
    file: Box<dyn WriteFile>,
    layout: Layout,
    shadows: Layout,
}

impl SealFile {
    /// Makes the file with seal 0: nothing in the lanes, everything up to `durable` in tables (E3).
    /// The caller syncs it, and the directory.
    pub(crate) fn make(config: &Config, number: u64, durable: Stamp) -> Result<SealFile> {
        let header = FileHeader {
            magic: Magic::Seal,
            version: VERSION,
            database: config.database,
            file: number,
            incarnation: config.incarnation,
            seal_file: number,
            parameters: [
                config.lanes as u64,
                SLOTS,
                config.segment_bytes,
                config.extent_bytes,
            ],
        };
        let (layout, shadows) = (Layout::of(&header), Layout::shadows(&header));
        let path = FileName::Seal(number).path(&config.dir);
        let made = SealFile {
            file: config.with_room(|| config.vfs.create(&path))?,
            layout,
            shadows,
        };
        let first = Seal {
            round: 0,
            frontier: durable,
            wall_ms: velella_sync::thread::wall_ms(),
            closed: false,
            failed: false,
            note: 0,
            anchor: 0,
            home: 0,
            lanes: vec![(0, 0); config.lanes],
        };
        if let Err(error) = made.fill(&header, &first) {
            drop(made);
            // The first error is the one to report; what stays goes at the next opening.
            let _ = config.vfs.remove(&path);
            return Err(error);
        }
        Ok(made)
    }

    fn fill(&self, header: &FileHeader, first: &Seal) -> Result<()> {
        self.file.allocate(self.shadows.end())?;
        fill(&*self.file, 0, self.shadows.end())?;
        self.file.write_at(0, &header.encode())?;
        self.write(first)
    }

    /// Makes a new seal file durable.
    pub(crate) fn sync_new(&self) -> Result<()> {
        self.file.sync_all()
    }

    /// Writes an anchor into its slot.
    pub(crate) fn write(&self, seal: &Seal) -> Result<()> {
        self.file.write_at(
            self.layout.seal_at(seal.anchor),
            &self.layout.encode_seal(seal),
        )
    }

    /// Writes the shadow of a seal that stands in a strip.
    pub(crate) fn write_shadow(&self, seal: &Seal) -> Result<()> {
        self.file.write_at(
            self.shadows.seal_at(seal.round),
            &self.shadows.encode_seal(seal),
        )
    }

    /// Notes that `round` completed, whose seal stands in a strip.
    pub(crate) fn write_shadow_done(&self, round: u64) -> Result<()> {
        self.file.write_at(
            self.shadows.done_at(round),
            &self.shadows.encode_done(round),
        )
    }

    /// Notes that the round of anchor `number` completed.
    pub(crate) fn write_done(&self, number: u64) -> Result<()> {
        self.file.write_at(
            self.layout.done_at(number),
            &self.layout.encode_done(number),
        )
    }

    pub(crate) fn sync_data(&self) -> Result<()> {
        self.file.sync_data()
    }
}
