//! What the rounds of the last incarnation left in its seal file.
//!
//! D1. `newest` is the intact seal with the highest number. Every seal the ring still holds before
//!     it must be intact, since it was durable before `newest` was written: otherwise damage.
//! D2. A done marker for a round whose seal is not intact is damage. A missing done marker says
//!     nothing.
//!
//! Tests: `tests/damage.rs`, `tests/rounds.rs` (the ring).

use super::report::Last;
use crate::header::{FileHeader, HEADER, Magic, NoHeader};
use crate::seal::{DONE_LEN, Layout, Seal, Slot};
use std::collections::BTreeMap;
use std::path::Path;
use velella_base::file_name::FileName;
use velella_base::{DatabaseId, Error, ErrorKind, Result};
use velella_vfs::{ReadFile, Vfs};

pub(super) const ATTEMPT: &str = "recover the journal from";

/// The seals of an incarnation.
#[derive(Debug)]
pub(super) struct Seals {
    pub(super) extent_bytes: u64,
    pub(super) segment_bytes: u64,
    pub(super) lanes: usize,
    pub(super) layout: Layout,
    /// The intact seals, by round.
    intact: BTreeMap<u64, Seal>,
    /// The highest done marker.
    done: Option<u64>,
    /// Where durable seals are damaged (D1, D2).
    pub(super) damage: Option<Error>,
    /// The slot after the newest seal holds something, but no seal.
    pub(super) torn: bool,
}

impl Seals {
    pub(super) fn read(
        vfs: &dyn Vfs,
        dir: &Path,
        database: DatabaseId,
        last: &Last,
    ) -> Result<Seals> {
        let path = FileName::Seal(last.start.seal_file).path(dir);
        let file = vfs.open_read(&path).map_err(|error| {
            if error.kind() == ErrorKind::NotFound {
                Error::corruption(ATTEMPT, &path, 0, "the seal file is missing")
            } else {
                error
            }
        })?;
        let header = read_header(&*file)?;
        let expected = FileHeader {
            magic: Magic::Seal,
            database,
            file: last.start.seal_file,
            incarnation: last.incarnation,
            seal_file: last.start.seal_file,
            parameters: header.parameters,
        };
        if header != expected {
            let found = "the file belongs to another database, incarnation or place";
            return Err(Error::corruption(ATTEMPT, &path, 0, found));
        }
        Self::scan(&*file, &header)
    }

    fn scan(file: &dyn ReadFile, header: &FileHeader) -> Result<Seals> {
        let layout = Layout::of(header);
        let [lanes, slots, segment_bytes, extent_bytes] = header.parameters;
        // The header's checksum matched, so these are what was written; they are still bounded.
        let sane = slots > 1
            && lanes <= crate::config::LANES_MAX as u64
            && slots <= file.len()
            && layout.file_len() <= file.len();
        if !sane {
            let found = format!("the file has {} bytes: it is cut short", file.len());
            return Err(Error::corruption(ATTEMPT, file.path(), file.len(), found));
        }
        let mut seals = Seals {
            extent_bytes,
            segment_bytes,
            lanes: usize::try_from(lanes).expect("bounded by LANES_MAX"),
            layout,
            intact: BTreeMap::new(),
            done: None,
            damage: None,
            torn: false,
        };
        let mut damaged = vec![false; usize::try_from(slots).expect("bounded by the file")];
        let mut seal = vec![0; usize::try_from(layout.seal_len()).expect("bounded")];
        let mut done = [0; DONE_LEN];
        for (slot, damaged) in (0..slots).zip(&mut damaged) {
            file.read_exact_at(&mut seal, layout.seal_at(slot))?;
            match layout.decode_seal(slot, &seal) {
                Slot::Intact(seal) => drop(seals.intact.insert(seal.round, seal)),
                Slot::Empty => {}
                Slot::Damaged => *damaged = true,
            }
            file.read_exact_at(&mut done, layout.done_at(slot))?;
            if let Slot::Intact(round) = layout.decode_done(slot, &done) {
                seals.done = seals.done.max(Some(round));
            }
        }
        seals.judge(file.path(), &layout, &damaged);
        Ok(seals)
    }

    /// D1, D2.
    fn judge(&mut self, path: &Path, layout: &Layout, damaged: &[bool]) {
        let broken = |round: u64, found: String| {
            Some(Error::corruption(
                ATTEMPT,
                path,
                layout.seal_at(round),
                found,
            ))
        };
        let Some(newest) = self.newest().map(|seal| seal.round) else {
            self.damage = broken(0, "no seal is intact".to_owned());
            return;
        };
        // The round in flight, newest + 1, may have overwritten the slot of newest + 1 - slots.
        let oldest = newest.saturating_add(2).saturating_sub(layout.slots);
        if let Some(hole) = (oldest..newest).find(|round| !self.intact.contains_key(round)) {
            let found = format!("seal {hole} is not intact although seal {newest} follows it");
            self.damage = broken(hole, found);
        } else if let Some(done) = self.done.filter(|&done| done > newest) {
            let found = format!("round {done} completed but its seal is not intact");
            self.damage = broken(done, found);
        }
        let next = usize::try_from(newest.saturating_add(1) % layout.slots).unwrap_or(usize::MAX);
        self.torn = damaged.get(next).copied().unwrap_or(false);
    }

    pub(super) fn newest(&self) -> Option<&Seal> {
        self.intact.values().next_back()
    }

    pub(super) fn get(&self, round: u64) -> Option<&Seal> {
        self.intact.get(&round)
    }

    /// The intact seals, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Seal> {
        self.intact.values().rev()
    }

    /// Whether it is noted that `round` completed.
    pub(super) fn is_done(&self, round: u64) -> bool {
        self.done.is_some_and(|done| done >= round)
    }
}

/// Reads a file's header; damage names the file.
pub(super) fn read_header(file: &dyn ReadFile) -> Result<FileHeader> {
    let mut bytes = [0; HEADER];
    if file.len() < HEADER as u64 {
        let found = "the file is cut short";
        return Err(Error::corruption(ATTEMPT, file.path(), file.len(), found));
    }
    file.read_exact_at(&mut bytes, 0)?;
    FileHeader::decode(&bytes).map_err(|no| match no {
        NoHeader::Unsupported(found) => Error::new(ErrorKind::Unsupported, ATTEMPT, found)
            .on(file.path())
            .remedy("open the database with the version of Velella that wrote it, or a newer one"),
        other => Error::corruption(ATTEMPT, file.path(), 0, other.found()),
    })
}
