//! The files of the journal, opened for reading.
//!
//! U1. What cannot be read is the caller's error, and no damage: who tries again may find it.
//! U2. Where loss is accepted it is damage, as a sector of anything else would be: it reads as
//!     bytes that no checksum fits. Of a read that fails only those sectors are lost that cannot be
//!     read by themselves, and the first of them is told.
//! U3. That too many files are open is never damage.
//!
//! Tests: `tests/unreadable.rs`.

use super::report::Last;
use std::path::Path;
use std::sync::Arc;
use velella_base::{Error, ErrorKind, Result};
use velella_sync::lock::Mutex;
use velella_vfs::{ReadFile, Vfs, lacks_descriptors};

/// What devices lose at once.
const SECTOR: usize = 512;
/// Neither nothing (a zero) nor anything.
const FILLER: u8 = 0xA5;

/// See the module.
pub(super) struct Source<'a> {
    pub(super) vfs: &'a dyn Vfs,
    /// What could not be read first, where loss is accepted (U2).
    lost: Option<Arc<Lost>>,
}

type Lost = Mutex<Option<Error>>;

/// A file of which a part may be unreadable.
#[derive(Debug)]
struct Salvaged {
    file: Arc<dyn ReadFile>,
    lost: Arc<Lost>,
}

impl<'a> Source<'a> {
    pub(super) fn new(vfs: &'a dyn Vfs, accept_loss: bool) -> Self {
        Source {
            vfs,
            lost: accept_loss.then(Arc::default),
        }
    }

    pub(super) fn of(vfs: &'a dyn Vfs, last: &Last) -> Self {
        Self::new(vfs, last.accept_loss)
    }

    pub(super) fn open(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let file = self.vfs.open_read(path)?;
        Ok(match &self.lost {
            Some(lost) => Arc::new(Salvaged {
                file,
                lost: Arc::clone(lost),
            }),
            None => file,
        })
    }

    /// What could not be read first, for the report.
    pub(super) fn told(&self) -> Option<String> {
        let lost = self.lost.as_ref()?.lock().clone()?;
        Some(format!("unreadable, loss accepted: {lost}"))
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
        match self.file.read_exact_at(buffer, offset) {
            Err(error) if is_unreadable(&error) => {}
            read => return read,
        }
        let (mut rest, mut at) = (buffer, offset);
        while !rest.is_empty() {
            let within = usize::try_from(at % SECTOR as u64).expect("less than a sector");
            let (piece, behind) = rest.split_at_mut(rest.len().min(SECTOR - within));
            match self.file.read_exact_at(piece, at) {
                Err(error) if is_unreadable(&error) => {
                    piece.fill(FILLER);
                    self.lost.lock().get_or_insert(error);
                }
                read => read?,
            }
            at += piece.len() as u64;
            rest = behind;
        }
        Ok(())
    }
}

fn is_unreadable(error: &Error) -> bool {
    error.kind() == ErrorKind::Io && !lacks_descriptors(error)
}
