//! The files of the model: sectors, what the page cache and the device hold of each, and what
//! crashes and failed syncs leave.
//!
//! S1. After a loss of power a sector has what was there at the last sync, any value written since,
//!     or, if it was torn, nothing that validates, which reads as nothing.
//! S2. A failed sync leaves each sector it was to write clean: written, lost from the page cache,
//!     or readable there until the power goes. No later sync writes it.

/// Rounds of a run, and records of a lane.
pub(crate) const ROUNDS: usize = 3;
pub(crate) const RECORDS: usize = 2;
pub(crate) const LANES: usize = 2;

/// Files: a segment for each lane with a strip at its end, and the seal file.
pub(crate) const SEALS: usize = LANES;
pub(crate) const FILES: usize = LANES + 1;

const STRIPS: usize = LANES * RECORDS;
const ANCHORS: usize = STRIPS + LANES * (ROUNDS + 1);
const ANCHOR_DONE: usize = ANCHORS + ROUNDS + 1;
const SHADOWS: usize = ANCHOR_DONE + ROUNDS + 1;
const SHADOW_DONE: usize = SHADOWS + 2;
const SECTORS: usize = SHADOW_DONE + 2;

/// What a round writes down (`seal.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Seal {
    pub(crate) round: u8,
    pub(crate) frontier: u8,
    pub(crate) failed: bool,
    pub(crate) anchor: u8,
    /// One more than the segment; 0: none.
    pub(crate) home: u8,
    pub(crate) ends: [u8; LANES],
}

impl Seal {
    /// So many bits each: round 2, frontier 3, failed 1, anchor 2, home 2, ends 2 and 2, and one
    /// that is set.
    fn pack(self) -> u16 {
        let parts = [
            (self.round, 2),
            (self.frontier, 3),
            (u8::from(self.failed), 1),
            (self.anchor, 2),
            (self.home, 2),
            (self.ends[0], 2),
            (self.ends[1], 2),
        ];
        parts.into_iter().fold(1, |word, (part, bits)| {
            assert!(part < 1 << bits, "{self:?} is too large");
            word << bits | u16::from(part)
        })
    }

    fn unpack(mut word: u16) -> Option<Seal> {
        if word == 0 {
            return None;
        }
        let mut part = |bits: u16| {
            let part = word & ((1 << bits) - 1);
            word >>= bits;
            u8::try_from(part).expect("a few bits")
        };
        let ends = [part(2), part(2)];
        let (home, anchor, failed) = (part(2), part(2), part(1) == 1);
        let [ends1, ends0] = ends;
        Some(Seal {
            frontier: part(3),
            round: part(2),
            failed,
            anchor,
            home,
            ends: [ends0, ends1],
        })
    }
}

/// A sector (S1); 0 is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Sector {
    device: u16,
    /// A value between the device's and the last one.
    between: u16,
    cache: u16,
    dirty: bool,
}

/// All files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Disk([Sector; SECTORS]);

/// Where a record, a seal or a done marker stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Record(usize, u8),
    Strip(usize, u8),
    Anchor(u8),
    AnchorDone(u8),
    Shadow(u8),
    ShadowDone(u8),
}

impl Place {
    fn sector(self) -> usize {
        let (base, at) = match self {
            Place::Record(lane, at) => (lane * RECORDS, at),
            Place::Strip(lane, round) => (STRIPS + lane * (ROUNDS + 1), round),
            Place::Anchor(number) => (ANCHORS, number),
            Place::AnchorDone(number) => (ANCHOR_DONE, number),
            Place::Shadow(round) => (SHADOWS, round % 2),
            Place::ShadowDone(round) => (SHADOW_DONE, round % 2),
        };
        base + usize::from(at)
    }
}

fn file_of(sector: usize) -> usize {
    match sector {
        0..STRIPS => sector / RECORDS,
        STRIPS..ANCHORS => (sector - STRIPS) / (ROUNDS + 1),
        _ => SEALS,
    }
}

impl Disk {
    /// With seal 0 on the device (E3).
    pub(crate) fn new() -> Disk {
        let mut disk = Disk([Sector::default(); SECTORS]);
        let first = Seal {
            round: 0,
            frontier: 0,
            failed: false,
            anchor: 0,
            home: 0,
            ends: [0; LANES],
        };
        disk.seal(Place::Anchor(0), first);
        disk.sync(SEALS);
        disk
    }

    pub(crate) fn write(&mut self, place: Place, value: u16) {
        let sector = &mut self.0[place.sector()];
        let last = match sector.dirty {
            true => sector.cache,
            false => sector.device,
        };
        assert!(
            !sector.dirty || sector.between == sector.device,
            "a third value of {place:?}"
        );
        (sector.between, sector.cache, sector.dirty) = (last, value, true);
    }

    pub(crate) fn seal(&mut self, place: Place, seal: Seal) {
        self.write(place, seal.pack());
    }

    /// What a reader sees.
    pub(crate) fn read(&self, place: Place) -> u16 {
        self.0[place.sector()].cache
    }

    pub(crate) fn read_seal(&self, place: Place) -> Option<Seal> {
        Seal::unpack(self.read(place))
    }

    pub(crate) fn sync(&mut self, file: usize) {
        for at in self.dirty_of(file) {
            let sector = &mut self.0[at];
            *sector = settled(sector.cache);
        }
    }

    fn dirty_of(&self, file: usize) -> Vec<usize> {
        let dirty = |at: &usize| self.0[*at].dirty && file_of(*at) == file;
        (0..SECTORS).filter(dirty).collect()
    }

    /// All that a failed sync may leave (S2).
    pub(crate) fn failed_syncs(&self, file: usize) -> Vec<Disk> {
        let outcomes = |sector: &Sector| {
            let kept = Sector {
                between: sector.device,
                dirty: false,
                ..*sector
            };
            vec![settled(sector.cache), settled(sector.device), kept]
        };
        self.every(&self.dirty_of(file), outcomes)
    }

    /// All that a loss of power may leave (S1).
    pub(crate) fn power_losses(&self) -> Vec<Disk> {
        let mut lost = *self;
        for sector in lost.0.iter_mut().filter(|sector| !sector.dirty) {
            *sector = settled(sector.device);
        }
        let dirty: Vec<usize> = (0..SECTORS).filter(|at| self.0[*at].dirty).collect();
        let outcomes = |sector: &Sector| {
            let mut values = vec![sector.device, sector.between, sector.cache, 0];
            values.sort_unstable();
            values.dedup();
            values.into_iter().map(settled).collect()
        };
        lost.every(&dirty, outcomes)
    }

    /// Every combination of what may become of `sectors`.
    fn every(&self, sectors: &[usize], outcomes: impl Fn(&Sector) -> Vec<Sector>) -> Vec<Disk> {
        let mut all = vec![*self];
        for &at in sectors {
            let outcomes = outcomes(&self.0[at]);
            let with = |disk: &Disk| {
                let disk = *disk;
                let put = move |sector: &Sector| {
                    let mut disk = disk;
                    disk.0[at] = *sector;
                    disk
                };
                outcomes.iter().map(put).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
        }
        all
    }
}

/// The same in the page cache and on the device.
fn settled(value: u16) -> Sector {
    Sector {
        device: value,
        between: value,
        cache: value,
        dirty: false,
    }
}
