//! The files of the journal, opened for reading.
//!
//! U1. What cannot be read is the caller's error, and no damage: who tries again may find it.
//! U2. Where loss is accepted, what the device says is gone is damage: it reads as bytes that no
//!     checksum fits. Of a read that fails only those sectors are lost that cannot be read by
//!     themselves. The first is told, and the page cache is not believed (J1): what is gone might
//!     have been all of a lane's last records.
//! U3. Only reads are forgiven, and only what the system calls a failure of the device. A device
//!     that is away for a moment looks the same: a sector is lost if it cannot be read twice.
//! U4. Of a file that is open a lost sector is not asked for again. In a file that has lost
//!     [`SECTORS_MAX`] a read is lost from the next one on.
//!
//! Tests: `tests/unreadable.rs`.

use super::report::Last;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use velella_base::{Error, Result};
use velella_sync::lock::Mutex;
use velella_vfs::{ReadFile, Vfs, is_unreadable};

/// What devices lose at once.
const SECTOR: usize = 512;
const SECTORS_MAX: usize = 1024;
/// In the place of a lost byte: not the zero that says that nothing was written.
const FILLER: u8 = 0xA5;

/// See the module.
pub(super) struct Source<'a> {
    pub(super) vfs: &'a dyn Vfs,
    /// What could not be read first, where loss is accepted (U2).
    first: Option<Arc<Mutex<Option<Error>>>>,
}

/// A file of which a part may be unreadable.
#[derive(Debug)]
struct Salvaged {
    file: Arc<dyn ReadFile>,
    first: Arc<Mutex<Option<Error>>>,
    /// The numbers of lost sectors (U4).
    lost: Mutex<BTreeSet<u64>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(vfs: &'a dyn Vfs, accept_loss: bool) -> Self {
        Source {
            vfs,
            first: accept_loss.then(Arc::default),
        }
    }

    pub(super) fn of(vfs: &'a dyn Vfs, last: &Last) -> Self {
        Self::new(vfs, last.accept_loss)
    }

    pub(super) fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let file = self.vfs.open_read(path)?;
        Ok(match &self.first {
            Some(first) => Arc::new(Salvaged {
                file,
                first: Arc::clone(first),
                lost: Mutex::default(),
            }),
            None => file,
        })
    }

    /// What could not be read first, for the report.
    pub(super) fn told(&self) -> Option<String> {
        let first = self.first.as_ref()?.lock().clone()?;
        Some(format!("unreadable, loss accepted: {first}"))
    }
}

impl ReadFile for Salvaged {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let end = offset + buffer.len() as u64;
        let sectors = offset / SECTOR as u64..end.div_ceil(SECTOR as u64);
        let meets_known = self.lost.lock().range(sectors).next().is_some();
        if !meets_known {
            match self.file.read_exact_at(buffer, offset) {
                Err(error) if is_unreadable(&error) => {}
                read => return read,
            }
        }
        self.read_sectors(buffer, offset)
    }
}

impl Salvaged {
    /// Sector by sector, those that are known to be lost not at all (U4).
    fn read_sectors(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let (mut rest, mut at) = (buffer, offset);
        while !rest.is_empty() {
            let within = usize::try_from(at % SECTOR as u64).expect("less than a sector");
            let (piece, behind) = rest.split_at_mut(rest.len().min(SECTOR - within));
            let sector = at / SECTOR as u64;
            at += piece.len() as u64;
            rest = behind;
            if self.lost.lock().contains(&sector) {
                piece.fill(FILLER);
                continue;
            }
            match self.file.read_exact_at(piece, at - piece.len() as u64) {
                Err(error) if is_unreadable(&error) => {
                    self.first.lock().get_or_insert(error);
                }
                read => {
                    read?;
                    continue;
                }
            }
            piece.fill(FILLER);
            let mut lost = self.lost.lock();
            if lost.len() >= SECTORS_MAX {
                rest.fill(FILLER);
                return Ok(());
            }
            lost.insert(sector);
        }
        Ok(())
    }
}
