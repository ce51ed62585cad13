//! What the rounds of the last incarnation left: anchors in the seal file, and the seals between
//! them in the strips of their homes.
//!
//! D1. `newest` is the intact seal with the highest round. Every seal its ring still holds before
//!     it must be intact, since it was durable before `newest` was written: otherwise damage.
//! D2. A done marker for a round whose seal is not intact is damage: it is written once the seal is
//!     durable. So are an anchor and its marker after the newest seal that both are something, but
//!     not intact: a seal in flight, behind a marker of a round long ago that rotted unseen, is
//!     refused with it. A missing done marker says nothing.
//! D3. The home that the newest anchor names was durable before the anchor was written: without its
//!     strip, what was acknowledged since may be missing, which is damage. So is a seal in any
//!     strip that follows an anchor which is not intact.
//! D4. Seals that older homes still hold are taken as they are: they may be overwritten in part,
//!     but what is intact tells of a round of this incarnation, and of no other.
//! D5. A shadow is as good as the seal itself: it too was written after the round before completed.
//!
//! Tests: `tests/damage.rs`, `tests/lost_pages.rs`, `tests/rounds.rs` (the rings).

use super::report::Last;
use super::source::Source;
use crate::header::{FileHeader, HEADER, Magic, NoHeader};
use crate::seal::{DONE_LEN, Layout, Seal, Slot};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use velella_base::file_name::{FileName, JOURNAL_DIR};
use velella_base::{DatabaseId, Error, ErrorKind, Result, seeded};
use velella_vfs::{ReadFile, Vfs};

pub(super) const ATTEMPT: &str = "recover the journal from";

/// The seals of an incarnation.
#[derive(Debug)]
pub(super) struct Seals {
    pub(super) extent_bytes: u64,
    pub(super) segment_bytes: u64,
    pub(super) lanes: usize,
    /// The intact seals by round, each with its file and place there.
    intact: BTreeMap<u64, (Seal, PathBuf, u64)>,
    /// The highest round with a done marker.
    done: Option<u64>,
    /// Where durable seals are damaged (D1, D2, D3).
    pub(super) damage: Option<Error>,
    /// The slot after the newest seal holds something, but no seal.
    pub(super) torn: bool,
    /// Where the seal after the newest would stand, unless it is an anchor behind one with a home.
    next: Option<(PathBuf, u64)>,
    /// Where shadows stand in the seal file; version 1 had none.
    shadows: Option<Layout>,
}

/// Whose seals are read, and from where.
struct Journal<'a> {
    source: &'a Source<'a>,
    dir: &'a Path,
    /// As the header of the seal file says.
    header: FileHeader,
}

/// Stands beside the newest seal for who recovers next while the page cache is the same: a sync
/// failed after it (J1).
#[derive(Debug)]
pub(super) struct Word {
    path: PathBuf,
    at: u64,
    bytes: Vec<u8>,
}

impl Word {
    /// If that fails too, nothing is left to try.
    pub(super) fn leave(&self, vfs: &dyn Vfs) {
        let file = vfs.open_write(&self.path);
        let _ = file.and_then(|file| file.write_at(self.at, &self.bytes));
    }
}

impl Seals {
    pub(super) fn read(
        source: &Source<'_>,
        dir: &Path,
        database: DatabaseId,
        last: &Last,
    ) -> Result<Seals> {
        let path = FileName::Seal(last.start.seal_file).path(dir);
        let file = source.open(&path).map_err(|error| {
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
            ..header
        };
        if header != expected {
            return Err(foreign(&path));
        }
        Self::collect(
            &*file,
            &Journal {
                source,
                dir,
                header,
            },
        )
    }

    fn collect(file: &dyn ReadFile, journal: &Journal<'_>) -> Result<Seals> {
        let [lanes, _, segment_bytes, extent_bytes] = journal.header.parameters;
        let layout = Layout::of(&journal.header);
        if !layout.is_sane(file.len()) {
            return Err(cut_short(file));
        }
        let mut seals = Seals {
            extent_bytes,
            segment_bytes,
            lanes: usize::try_from(lanes).expect("bounded by LANES_MAX"),
            intact: BTreeMap::new(),
            done: None,
            damage: None,
            torn: false,
            next: None,
            shadows: None,
        };
        let anchors = Ring::read(file, layout)?;
        let Some(newest) = anchors.newest() else {
            seals.damage = anchors.broken(0, "no seal is intact");
            return Ok(seals);
        };
        seals.damage = anchors.damage(0);
        seals.torn = anchors.is_torn(0);
        let newest = newest.clone();
        let shadows = Layout::shadows(&journal.header);
        let shadows = match journal.header.version {
            1 => None,
            _ if !shadows.is_sane(file.len()) => return Err(cut_short(file)),
            _ => Some(Ring::read(file, shadows)?),
        };
        seals.shadows = shadows.as_ref().map(|ring| ring.layout);
        seals.add_strips(journal, &newest, &anchors, shadows)?;
        seals.take(anchors);
        Ok(seals)
    }

    /// Adds what the strips and the shadows hold (D3, D4, D5).
    fn add_strips(
        &mut self,
        journal: &Journal<'_>,
        newest: &Seal,
        anchors: &Ring,
        shadows: Option<Ring>,
    ) -> Result<()> {
        let mut home = None;
        for name in journal
            .source
            .vfs
            .read_dir(&journal.dir.join(JOURNAL_DIR))?
        {
            let Some(FileName::Segment(number)) = name.to_str().and_then(FileName::parse) else {
                continue;
            };
            let is_home = newest.home != 0 && newest.home == number;
            let strip = match journal.strip(number) {
                Ok(strip) => strip,
                Err(error) if error.kind() != ErrorKind::Corruption => return Err(error),
                Err(error) => {
                    self.note_damage(Some(error).filter(|_| is_home));
                    continue;
                }
            };
            let last = strip.intact.values().map(|seal| seal.anchor).max();
            if let Some(last) = last.filter(|&last| last > newest.anchor) {
                let found = "the seal is not intact although seals of its home follow it";
                self.note_damage(anchors.broken(last, found));
            }
            match is_home {
                true => home = Some(strip),
                false => self.take(strip),
            }
        }
        self.next = Some((
            anchors.path.clone(),
            anchors.layout.seal_at(newest.anchor.saturating_add(1)),
        ));
        match home {
            Some(strip) => {
                let after = strip.after(newest, shadows.as_ref());
                let last = after.newest().unwrap_or(newest);
                let at = strip.layout.seal_at(last.round.saturating_add(1));
                self.next = Some((strip.path.clone(), at));
                let first = newest.round.saturating_add(1);
                self.note_damage(after.damage(first));
                self.torn |= after.is_torn(first);
                self.take(strip);
            }
            None if newest.home != 0 => {
                let path = FileName::Segment(newest.home).path(journal.dir);
                let found = format!("seals after {} are missing with the segment", newest.round);
                self.note_damage(Some(Error::corruption(ATTEMPT, &path, 0, found)));
            }
            None => {}
        }
        if let Some(shadows) = shadows {
            let done = shadows.done;
            self.take(shadows);
            // It tells of the round, whichever of its two seals is intact.
            self.done = self
                .done
                .max(done.filter(|done| self.intact.contains_key(done)));
        }
        Ok(())
    }

    /// The first damage is the one to report.
    fn note_damage(&mut self, damage: Option<Error>) {
        self.damage = self.damage.take().or(damage);
    }

    /// Takes the seals of a ring. Of a failed round the shadow says more than any other.
    fn take(&mut self, ring: Ring) {
        let done = ring.done.and_then(|number| ring.get(number));
        self.done = self.done.max(done.map(|seal| seal.round));
        for (number, seal) in ring.intact {
            if self.get(seal.round).is_some_and(|known| known.failed) {
                continue;
            }
            let at = ring.layout.seal_at(number);
            self.intact
                .insert(seal.round, (seal, ring.path.clone(), at));
        }
    }

    /// What to say in `seal_file` should a sync of recovery's fail.
    pub(super) fn word(&self, seal_file: &Path) -> Option<Word> {
        let (newest, shadows) = (self.newest()?, self.shadows.as_ref()?);
        let failed = Seal {
            closed: false,
            failed: true,
            ..newest.clone()
        };
        Some(Word {
            path: seal_file.to_path_buf(),
            at: shadows.seal_at(failed.round),
            bytes: shadows.encode_seal(&failed),
        })
    }

    pub(super) fn newest(&self) -> Option<&Seal> {
        self.newest_first().next()
    }

    pub(super) fn get(&self, round: u64) -> Option<&Seal> {
        self.intact.get(&round).map(|(seal, ..)| seal)
    }

    /// The file and the place of the seal after the newest.
    pub(super) fn next(&self) -> Option<(&Path, u64)> {
        self.next.as_ref().map(|(path, at)| (path.as_path(), *at))
    }

    /// The file and the place of the seal of `round`.
    pub(super) fn place(&self, round: u64) -> Option<(&Path, u64)> {
        let (_, path, at) = self.intact.get(&round)?;
        Some((path, *at))
    }

    /// The intact seals, newest first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Seal> {
        self.intact.values().rev().map(|(seal, ..)| seal)
    }

    /// Whether it is noted that `round` completed.
    pub(super) fn is_done(&self, round: u64) -> bool {
        self.done.is_some_and(|done| done >= round)
    }
}

impl Journal<'_> {
    /// The strip of segment `number`.
    fn strip(&self, number: u64) -> Result<Ring> {
        let path = FileName::Segment(number).path(self.dir);
        let file = self.source.open(&path)?;
        let header = read_header(&*file)?;
        let expected = FileHeader {
            magic: Magic::Segment,
            file: number,
            parameters: header.parameters,
            ..self.header
        };
        let layout = Layout::strip(&header);
        if header != expected || layout.lanes != self.header.parameters[0] {
            return Err(foreign(file.path()));
        }
        if !layout.is_sane(file.len()) {
            return Err(cut_short(&*file));
        }
        Ring::read(&*file, layout)
    }
}

/// The slots of one file, by their numbers.
struct Ring {
    path: PathBuf,
    layout: Layout,
    intact: BTreeMap<u64, Seal>,
    /// The highest done marker.
    done: Option<u64>,
    /// Slots that hold something, but no seal.
    damaged: Vec<bool>,
    /// Slots where neither seal nor done marker is intact, and both were something (D2).
    lost: Vec<bool>,
}

impl Ring {
    /// Reads all slots; the layout is sane.
    fn read(file: &dyn ReadFile, layout: Layout) -> Result<Ring> {
        let mut ring = Ring {
            path: file.path().to_path_buf(),
            layout,
            intact: BTreeMap::new(),
            done: None,
            damaged: Vec::new(),
            lost: Vec::new(),
        };
        let mut seal = vec![0; usize::try_from(layout.seal_len()).expect("bounded")];
        let mut done = [0; DONE_LEN];
        for slot in 0..layout.slots {
            file.read_exact_at(&mut seal, layout.seal_at(slot))?;
            let seal = layout.decode_seal(slot, &seal);
            let done = match layout.has_dones() {
                true => {
                    file.read_exact_at(&mut done, layout.done_at(slot))?;
                    layout.decode_done(slot, &done)
                }
                false => Slot::Empty,
            };
            ring.damaged.push(seal == Slot::Damaged);
            let is_lost = seal == Slot::Damaged && done == Slot::Damaged;
            let is_told = !seeded("what-is-left-of-a-done-marker-tells-nothing");
            ring.lost.push(is_lost && is_told);
            if let Slot::Intact(seal) = seal {
                ring.intact.insert(layout.number(&seal), seal);
            }
            if let Slot::Intact(number) = done {
                ring.done = ring.done.max(Some(number));
            }
        }
        Ok(ring)
    }

    /// Of this strip what follows `anchor`, with what the shadows know of it.
    fn after(&self, anchor: &Seal, shadows: Option<&Ring>) -> Ring {
        let follows = |seal: &Seal| seal.anchor == anchor.anchor && seal.round > anchor.round;
        let seals = |ring: &Ring| -> BTreeMap<u64, Seal> {
            let seals = ring.intact.iter().filter(|(_, seal)| follows(seal));
            seals.map(|(round, seal)| (*round, seal.clone())).collect()
        };
        let mut intact = shadows.map(seals).unwrap_or_default();
        intact.extend(seals(self));
        Ring {
            path: self.path.clone(),
            layout: self.layout,
            intact,
            done: shadows.and_then(|shadows| shadows.done),
            damaged: self.damaged.clone(),
            // Of what follows an anchor no done marker stands in a strip.
            lost: Vec::new(),
        }
    }

    fn newest(&self) -> Option<&Seal> {
        self.intact.values().next_back()
    }

    fn get(&self, number: u64) -> Option<&Seal> {
        self.intact.get(&number)
    }

    fn broken(&self, number: u64, found: impl Into<String>) -> Option<Error> {
        let at = self.layout.seal_at(number);
        Some(Error::corruption(ATTEMPT, &self.path, at, found.into()))
    }

    /// D1, D2, of a ring whose first number is `first`.
    fn damage(&self, first: u64) -> Option<Error> {
        let newest = self.intact.keys().next_back().copied();
        let done = self
            .done
            .filter(|&done| done >= first && Some(done) > newest);
        if let Some(done) = done {
            let found = format!("round {done} completed but its seal is not intact");
            return self.broken(done, found);
        }
        let next = newest.map_or(first, |newest| newest.saturating_add(1));
        if self.says(&self.lost, next) {
            let found = "neither the seal nor its done marker is intact";
            return self.broken(next, found);
        }
        // What is in flight, newest + 1, may have overwritten the slot of newest + 1 - slots.
        let newest = newest?;
        let oldest = newest.saturating_add(2).saturating_sub(self.layout.slots);
        let hole = (oldest.max(first)..newest).find(|number| !self.intact.contains_key(number))?;
        let found = format!("seal {hole} is not intact although seal {newest} follows it");
        self.broken(hole, found)
    }

    /// Whether what comes after the newest seal, or would be the `first`, was being written.
    fn is_torn(&self, first: u64) -> bool {
        let newest = self.intact.keys().next_back();
        let next = newest.map_or(first, |newest| newest.saturating_add(1));
        self.says(&self.damaged, next)
    }

    /// What `slots` say of the slot of `number`.
    fn says(&self, slots: &[bool], number: u64) -> bool {
        let slot = usize::try_from(number % self.layout.slots).unwrap_or(usize::MAX);
        slots.get(slot).copied().unwrap_or(false)
    }
}

fn foreign(path: &Path) -> Error {
    let found = "the file belongs to another database, incarnation or place";
    Error::corruption(ATTEMPT, path, 0, found)
}

fn cut_short(file: &dyn ReadFile) -> Error {
    let found = format!("the file has {} bytes: it is cut short", file.len());
    Error::corruption(ATTEMPT, file.path(), file.len(), found)
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
