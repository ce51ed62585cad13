//! Which extents of the last incarnation there are, and where.
//!
//! C1. Extents are found by their own headers, lane by lane in the order of their ordinals.
//! C2. What cannot be an extent but is not empty either is remembered: where a lane breaks off, it
//!     is the likely cause.
//! C3. Of that, what stands in a sound segment of the incarnation is damage, and never what the
//!     death of the process left: a segment has its whole length before its header, its extents
//!     stand at the same places whenever it is recycled, and the word of an extent's header comes
//!     last. So is the header of a segment, unless nothing of it was written.
//! C4. Only what was read and is wrong is damage: a file that cannot be opened or read, or is of a
//!     newer version, is the caller's error (but see `source` U2).
//!
//! Tests: `tests/damage.rs`, `tests/damage_after_kill.rs`, `tests/errors.rs`.

use super::seals::{ATTEMPT, Seals, read_header};
use super::source::Source;
use crate::extent::{self, ExtentHeader, Found};
use crate::header::{HEADER, PAGE};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use velella_base::file_name::{FileName, JOURNAL_DIR};
use velella_base::{DatabaseId, Error, ErrorKind, Result};
use velella_vfs::ReadFile;

use super::report::Last;

/// An extent.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    pub(super) file: Arc<dyn ReadFile>,
    pub(super) header: ExtentHeader,
    /// Where it begins and ends in the file; the end is not beyond the file's.
    pub(super) position: u64,
    pub(super) end: u64,
    /// Where its segment's file header is damaged, if it is.
    pub(super) segment_damage: Option<Error>,
}

/// The extents and large files of an incarnation.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub(super) lanes: Vec<Vec<Extent>>,
    pub(super) large: BTreeMap<u64, Arc<dyn ReadFile>>,
    /// Places that are damaged or cut short (C2).
    pub(super) suspects: Vec<Error>,
    /// The first of them that is damage (C3).
    pub(super) damage: Option<Error>,
}

/// What every extent of the incarnation says of itself.
struct Ours<'a> {
    database: DatabaseId,
    last: &'a Last,
    seals: &'a Seals,
}

impl Catalog {
    pub(super) fn read(
        source: &Source<'_>,
        dir: &Path,
        database: DatabaseId,
        last: &Last,
        seals: &Seals,
    ) -> Result<Catalog> {
        let ours = Ours {
            database,
            last,
            seals,
        };
        let mut catalog = Catalog {
            lanes: vec![Vec::new(); seals.lanes],
            ..Catalog::default()
        };
        for name in source.vfs.read_dir(&dir.join(JOURNAL_DIR))? {
            let path = dir.join(JOURNAL_DIR).join(&name);
            match name.to_str().and_then(FileName::parse) {
                Some(FileName::Segment(number)) => {
                    catalog.add_segment(source.open(&path)?, number, &ours)?;
                }
                Some(FileName::LargeSegment(number)) => {
                    catalog.large.insert(number, source.open(&path)?);
                }
                _ => {}
            }
        }
        for lane in &mut catalog.lanes {
            lane.sort_by_key(|extent| extent.header.ordinal);
        }
        Ok(catalog)
    }

    fn add_segment(&mut self, file: Arc<dyn ReadFile>, number: u64, ours: &Ours<'_>) -> Result<()> {
        // Its own length, and the usual one where it cannot be read.
        let mut bytes = ours.seals.segment_bytes;
        let segment_damage = match read_header(&*file) {
            Ok(header) if header.incarnation != ours.last.incarnation => return Ok(()),
            Ok(header) if header.database != ours.database => return Ok(()),
            Ok(header) if header.seal_file != ours.last.start.seal_file => return Ok(()),
            Ok(header) => {
                bytes = header.parameters[0].min(bytes);
                None
            }
            Err(error) if error.kind() == ErrorKind::Corruption => Some(error),
            Err(error) => return Err(error),
        };
        if let Some(damage) = &segment_damage {
            match is_unwritten(&*file)? {
                true => self.suspects.push(damage.clone()),
                false => self.note_damage(damage.clone()),
            }
        } else if file.len() < bytes {
            let found = format!(
                "the file has {} bytes instead of {bytes}: it is cut short",
                file.len(),
            );
            let damage = Error::corruption(ATTEMPT, file.path(), file.len(), found);
            self.note_damage(damage);
        }
        let extent_bytes = ours.seals.extent_bytes.max(PAGE + extent::HEADER);
        let count = file.len().min(bytes).div_ceil(extent_bytes);
        for index in 0..count {
            let (position, len) = extent::place(index, extent_bytes);
            self.add_extent(&file, number, position, len, ours, segment_damage.as_ref())?;
        }
        Ok(())
    }

    fn add_extent(
        &mut self,
        file: &Arc<dyn ReadFile>,
        number: u64,
        position: u64,
        len: u64,
        ours: &Ours<'_>,
        segment_damage: Option<&Error>,
    ) -> Result<()> {
        if position + extent::HEADER > file.len() {
            return Ok(());
        }
        let mut bytes = [0; extent::HEADER_LEN];
        file.read_exact_at(&mut bytes, position)?;
        match ExtentHeader::decode(&bytes, position) {
            Found::Nothing => {}
            Found::Damaged => {
                let found = "the extent header's checksum does not match";
                let damage = Error::corruption(ATTEMPT, file.path(), position, found);
                match segment_damage {
                    None => self.note_damage(damage),
                    Some(_) => self.suspects.push(damage),
                }
            }
            Found::Header(header) => {
                let lane = usize::try_from(header.lane).unwrap_or(usize::MAX);
                let is_ours = header.database == ours.database
                    && header.incarnation == ours.last.incarnation
                    && header.segment == number;
                if let Some(extents) = self.lanes.get_mut(lane).filter(|_| is_ours) {
                    extents.push(Extent {
                        file: Arc::clone(file),
                        header,
                        position,
                        end: (position + len).min(file.len()),
                        segment_damage: segment_damage.cloned(),
                    });
                }
            }
        }
        Ok(())
    }

    fn note_damage(&mut self, damage: Error) {
        self.suspects.push(damage.clone());
        self.damage.get_or_insert(damage);
    }
}

/// Whether nothing of its header is there: it was being made.
fn is_unwritten(file: &dyn ReadFile) -> Result<bool> {
    let len = usize::try_from(file.len()).map_or(HEADER, |len| len.min(HEADER));
    let mut bytes = [0; HEADER];
    file.read_exact_at(&mut bytes[..len], 0)?;
    Ok(bytes == [0; HEADER] && (len == 0 || len == HEADER))
}
