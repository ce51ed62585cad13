//! The seal file of a running journal.
//!
//! E3. Seal 0 is durable before the database opens.
//!
//! Threads: whoever holds the rounds.
//!
//! Tests: `tests/rounds.rs`; golden file in `tests/golden`.

use crate::config::Config;
use crate::header::{FileHeader, Magic};
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
}

impl SealFile {
    /// Makes the file with seal 0: nothing in the lanes, everything up to `durable` in tables (E3).
    /// The caller syncs it, and the directory.
    pub(crate) fn make(config: &Config, number: u64, durable: Stamp) -> Result<SealFile> {
        let header = FileHeader {
            magic: Magic::Seal,
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
        let layout = Layout::of(&header);
        let file = config
            .vfs
            .create(&FileName::Seal(number).path(&config.dir))?;
        file.allocate(layout.file_len())?;
        fill(&*file, layout.file_len())?;
        file.write_at(0, &header.encode())?;
        let made = SealFile { file, layout };
        made.write(&Seal {
            round: 0,
            frontier: durable,
            wall_ms: velella_sync::thread::wall_ms(),
            closed: false,
            note: 0,
            lanes: vec![(0, 0); config.lanes],
        })?;
        Ok(made)
    }

    /// Makes a new seal file durable.
    pub(crate) fn sync_new(&self) -> Result<()> {
        self.file.sync_all()
    }

    /// Writes a seal into its slot.
    pub(crate) fn write(&self, seal: &Seal) -> Result<()> {
        self.file.write_at(
            self.layout.seal_at(seal.round),
            &self.layout.encode_seal(seal),
        )
    }

    /// Notes that `round` completed.
    pub(crate) fn write_done(&self, round: u64) -> Result<()> {
        self.file
            .write_at(self.layout.done_at(round), &self.layout.encode_done(round))
    }

    pub(crate) fn sync_data(&self) -> Result<()> {
        self.file.sync_data()
    }
}
