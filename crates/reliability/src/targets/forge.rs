//! Journal files made by the written format alone, from a recipe of bytes.
//!
//! Source: docs/format/journal.md. It shares no code with the crate that reads them, so that the
//! two can disagree. Every checksum is right unless the recipe says to damage something, so odd
//! fields are believed and reach the code behind the checksums.
//!
//! G1. A recipe without oddities makes a journal whose recovery is known: `Forged::expected`.
//!
//! Threads: none. Tests: `tests/corpus.rs`, `targets/journal.rs`.

use crate::draws::Draws;
use std::path::Path;
use velella_base::checksum::{Context, at, crc32c, crc32c_append};
use velella_base::file_name::FileName;
use velella_vfs::{MemFs, Vfs};

pub(super) const DATABASE: u128 = 0x7e11_e11a;
pub(super) const INCARNATION: u64 = 3;
pub(super) const SEAL: u64 = 9;
const SEGMENT: u64 = 7;
const LARGE: u64 = 8;
const PAGE: usize = 4096;
const EXTENT: usize = 8192;
const EXTENTS: usize = 6;
const SLOTS: u64 = 4;
const LANES: usize = 2;
const SECTOR: usize = 512;
/// Slots of the segment's strip, and of the shadows.
const STRIP: u64 = 16;
const SHADOWS: u64 = 2;

/// What a recipe made.
pub(super) struct Forged {
    pub(super) fs: MemFs,
    /// Take it as after a power loss.
    pub(super) power_loss: bool,
    pub(super) accept_loss: bool,
    /// What recovery must find, if nothing odd was asked for.
    pub(super) expected: Option<Vec<(u64, Vec<u8>)>>,
    /// Bytes of all files.
    pub(super) bytes: usize,
}

/// Where a lane's next record goes.
#[derive(Clone, Copy)]
struct Lane {
    /// In the segment, and where its extent ends; both 0 before the first.
    position: usize,
    end: usize,
    offset: u64,
    start: u64,
    ordinal: u64,
}

struct Forge {
    /// Of the format.
    version: u32,
    segment: Vec<u8>,
    seal: Vec<u8>,
    large: Vec<u8>,
    lanes: [Lane; LANES],
    extents: usize,
    round: u64,
    /// Of the next anchor.
    anchor: u64,
    /// Whether the last anchor named the segment as home.
    at_home: bool,
    clock: u64,
    records: Vec<(u64, Vec<u8>)>,
    /// The frontier of the newest seal, and whether it covers all there is.
    sealed: u64,
    odd: bool,
}

/// Follows the recipe.
pub(super) fn forge(recipe: &[u8]) -> Forged {
    let mut draws = Draws::new(recipe);
    let flags = draws.u8();
    let mut forge = Forge::new(match flags & 48 {
        0 => 3,
        32 => 2,
        _ => 1,
    });
    if flags & 1 == 1 {
        forge.odd = true;
        for lane in &mut forge.lanes {
            (lane.offset, lane.ordinal) = (draws.u64(), draws.u64());
            lane.start = lane.offset;
        }
        (forge.round, forge.anchor) = (draws.u64(), draws.u64());
    }
    forge.seal(false, true, None);
    for _ in 0..200 {
        if draws.is_empty() {
            break;
        }
        forge.step(&mut draws);
    }
    if flags & 2 == 2 {
        forge.seal(true, true, None);
    }
    forge.finish(flags)
}

impl Forge {
    fn new(version: u32) -> Forge {
        let lane = Lane {
            position: 0,
            end: 0,
            offset: 0,
            start: 0,
            ordinal: 0,
        };
        let size = (EXTENT * EXTENTS) as u64;
        let mut large = header(version, b"vellLRGE", LARGE, [0; 4]);
        large.resize(PAGE, 0);
        let (strip_lanes, strip) = match version {
            1 => (0, 0),
            _ => (LANES as u64, STRIP),
        };
        let parameters = [size, EXTENT as u64, strip_lanes, strip];
        let mut segment = header(version, b"vellSEGM", SEGMENT, parameters);
        segment.resize(Ring::of(version, EXTENT * EXTENTS, strip).end(), 0);
        let parameters = [LANES as u64, SLOTS, size, EXTENT as u64];
        let mut seal = header(version, b"vellSEAL", SEAL, parameters);
        // Behind the ring, where there are strips, the shadows of what is in them.
        let last = if version == 1 {
            Ring::anchors
        } else {
            Ring::shadows
        };
        seal.resize(last(version).end(), 0);
        Forge {
            version,
            segment,
            seal,
            large,
            lanes: [lane; LANES],
            extents: 0,
            round: 0,
            anchor: 0,
            at_home: false,
            clock: 0,
            records: Vec::new(),
            sealed: 0,
            odd: false,
        }
    }

    fn step(&mut self, draws: &mut Draws<'_>) {
        let lane = draws.below(LANES);
        match draws.u8() % 9 {
            0..=2 => {
                let len = draws.below(256);
                let payload = draws.bytes(len).to_vec();
                self.record(lane, 1, None, &payload, None);
            }
            3 => {
                let len = draws.below(256);
                self.large(lane, draws.bytes(len), None);
            }
            4 => self.leave_page(lane),
            5 => self.leave_extent(lane, draws.flag()),
            6 => self.seal(false, draws.flag(), None),
            7 => self.damage(draws),
            _ => self.oddity(lane, draws),
        }
    }

    /// A record with right checksums, in a new extent if this one is full.
    fn record(
        &mut self,
        lane: usize,
        kind: u8,
        stamp: Option<u64>,
        bytes: &[u8],
        word: Option<u32>,
    ) {
        let whole = (24 + bytes.len()).next_multiple_of(8);
        if self.lanes[lane].position + whole > self.lanes[lane].end && !self.open_extent(lane) {
            return;
        }
        let stamped = stamp.unwrap_or_else(|| {
            self.clock += 1;
            self.clock
        });
        let Lane {
            position, offset, ..
        } = self.lanes[lane];
        let seed = seed(lane, offset);
        let word = word.unwrap_or(u32::try_from(24 + bytes.len()).unwrap_or(0));
        let mut head = word.to_le_bytes().to_vec();
        head.extend_from_slice(&[kind, 0, 0, 0]);
        head.extend_from_slice(&crc32c_append(seed, bytes).to_le_bytes());
        let crc = crc32c_append(crc32c_append(seed, &head), &stamped.to_le_bytes());
        head.extend_from_slice(&crc.to_le_bytes());
        head.extend_from_slice(&stamped.to_le_bytes());
        head.extend_from_slice(bytes);
        self.segment[position..position + head.len()].copy_from_slice(&head);
        self.lanes[lane].position += whole;
        self.lanes[lane].offset = offset.wrapping_add(whole as u64);
        if kind == 1 && stamp.is_none() {
            self.records.push((stamped, bytes.to_vec()));
        }
    }

    fn open_extent(&mut self, lane: usize) -> bool {
        if self.extents == EXTENTS {
            return false;
        }
        let from = if self.extents == 0 {
            PAGE
        } else {
            self.extents * EXTENT
        };
        self.extents += 1;
        let (at_lane, context) = (
            &mut self.lanes[lane],
            Context {
                database: DATABASE,
                file: SEGMENT,
            },
        );
        let mut head = b"vellEXTN".to_vec();
        head.extend_from_slice(&DATABASE.to_le_bytes());
        for word in [INCARNATION, SEGMENT, at_lane.ordinal, at_lane.offset] {
            head.extend_from_slice(&word.to_le_bytes());
        }
        head.extend_from_slice(&u32::try_from(lane).unwrap_or(0).to_le_bytes());
        let crc = at(context.seed(), from as u64, &head);
        head.extend_from_slice(&crc.to_le_bytes());
        self.segment[from..from + 64].copy_from_slice(&head);
        at_lane.position = from + 64;
        at_lane.end = self.extents * EXTENT;
        at_lane.ordinal = at_lane.ordinal.wrapping_add(1);
        true
    }

    /// A payload in the large file, and a reference to it, or to wherever `reference` says.
    fn large(&mut self, lane: usize, payload: &[u8], reference: Option<[u64; 3]>) {
        if self.lanes[lane].position + 56 > self.lanes[lane].end && !self.open_extent(lane) {
            return;
        }
        let at = self.large.len() as u64;
        self.large.extend_from_slice(payload);
        let [file, offset, len] = reference.unwrap_or([LARGE, at, payload.len() as u64]);
        let mut bytes = Vec::new();
        for word in [file, offset, len] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        let seed = seed(lane, self.lanes[lane].offset);
        bytes.extend_from_slice(&crc32c_append(seed, payload).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        self.record(lane, 2, None, &bytes, None);
        self.records.push((self.clock, payload.to_vec()));
    }

    /// As after a round that handed the page to the device.
    fn leave_page(&mut self, lane: usize) {
        let Lane {
            position,
            end,
            offset,
            ..
        } = self.lanes[lane];
        let page = (position + 1).next_multiple_of(PAGE);
        if position == 0 || page + 32 > end {
            return;
        }
        self.lanes[lane].position = page;
        self.lanes[lane].offset = offset.wrapping_add((page - position) as u64);
        self.record(lane, 3, Some(0), &offset.to_le_bytes(), None);
    }

    fn leave_extent(&mut self, lane: usize, marked: bool) {
        let Lane { position, end, .. } = self.lanes[lane];
        if position == 0 || self.extents == EXTENTS {
            return;
        }
        if marked && position + 24 <= end {
            let stamp = self.clock;
            self.record(lane, 4, Some(stamp), &[], None);
        }
        self.open_extent(lane);
    }

    /// A round: its seal, and whether it was noted that it completed.
    fn seal(&mut self, closed: bool, done: bool, frontier: Option<u64>) {
        let is_anchor = self.version == 1 || closed || !self.at_home;
        if is_anchor {
            self.at_home = self.version > 1 && !closed && self.extents > 0;
            self.anchor = self.anchor.wrapping_add(1);
        }
        // Version 1 has all its seals in the seal file, by round.
        let anchor = self.anchor.wrapping_sub(1);
        let (file, ring, number) = match (self.version, is_anchor) {
            (1, _) => (SEAL, Ring::anchors(1), self.round),
            (version, true) => (SEAL, Ring::anchors(version), anchor),
            (version, false) => (
                SEGMENT,
                Ring::of(version, EXTENT * EXTENTS, STRIP),
                self.round,
            ),
        };
        let shadows = Ring::shadows(self.version);
        let mut bytes = b"SEAL".to_vec();
        bytes.extend_from_slice(&u32::try_from(LANES).unwrap_or(0).to_le_bytes());
        let frontier = frontier.unwrap_or(self.clock);
        let home = if self.at_home { SEGMENT } else { 0 };
        let words = [self.round, frontier, 1, u64::from(closed), anchor, home];
        let words = &words[..if self.version == 1 { 4 } else { 6 }];
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for lane in &self.lanes {
            bytes.extend_from_slice(&lane.start.to_le_bytes());
            bytes.extend_from_slice(&lane.offset.to_le_bytes());
        }
        let dones = if file == SEGMENT { &shadows } else { &ring };
        self.clear(file, &ring, number);
        if file == SEGMENT {
            self.clear(SEAL, &shadows, number);
            self.put_sealed(SEAL, shadows.seal_at(number), bytes.clone());
        }
        self.put_sealed(file, ring.seal_at(number), bytes);
        if done {
            let mut bytes = b"DONE\0\0\0\0".to_vec();
            bytes.extend_from_slice(&number.to_le_bytes());
            self.put_sealed(SEAL, dones.done_at(number), bytes);
        }
        self.round = self.round.wrapping_add(1);
        self.sealed = frontier;
    }

    fn file(&mut self, number: u64) -> &mut Vec<u8> {
        match number {
            SEGMENT => &mut self.segment,
            _ => &mut self.seal,
        }
    }

    /// A slot as a new file has it.
    fn clear(&mut self, file: u64, ring: &Ring, number: u64) {
        for place in [ring.seal_at(number), ring.done_at(number)] {
            self.file(file)[place..place + SECTOR].fill(0);
        }
    }

    fn put_sealed(&mut self, file: u64, place: usize, mut bytes: Vec<u8>) {
        let context = Context {
            database: DATABASE,
            file,
        };
        let crc = at(context.seed(), place as u64, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        self.file(file)[place..place + bytes.len()].copy_from_slice(&bytes);
    }

    fn damage(&mut self, draws: &mut Draws<'_>) {
        self.odd = true;
        let file = match draws.u8() % 3 {
            0 => &mut self.segment,
            1 => &mut self.seal,
            _ => &mut self.large,
        };
        let place = draws.below(file.len());
        file[place] ^= draws.u8();
    }

    /// Something that no writer writes, with right checksums.
    fn oddity(&mut self, lane: usize, draws: &mut Draws<'_>) {
        self.odd = true;
        match draws.u8() % 5 {
            0 => {
                let (kind, stamp) = (draws.u8(), draws.u64());
                let word = u32::try_from(draws.u64() & 0xffff_ffff).ok();
                self.record(lane, kind, Some(stamp), draws.bytes(40), word);
            }
            1 => {
                let reference = [LARGE ^ u64::from(draws.flag()), draws.u64(), draws.u64()];
                self.large(lane, draws.bytes(16), Some(reference));
            }
            2 => self.seal(draws.flag(), draws.flag(), Some(draws.u64())),
            3 => {
                self.lanes[lane].start = draws.u64();
                self.round = draws.u64();
            }
            _ => {
                let parameters: [u64; 4] = std::array::from_fn(|_| draws.u64());
                let (magic, number) = match parameters[3] % 2 {
                    0 => (b"vellSEAL", SEAL),
                    _ => (b"vellSEGM", SEGMENT),
                };
                let head = header(self.version, magic, number, parameters);
                self.file(number)[..100].copy_from_slice(&head);
            }
        }
    }

    fn finish(mut self, flags: u8) -> Forged {
        let power_loss = flags & 4 == 4;
        let sealed = self.sealed;
        self.records
            .retain(|(stamp, _)| !power_loss && flags & 2 == 0 || *stamp <= sealed);
        let fs = MemFs::new();
        let dir = Path::new("/db/journal");
        let mut written = fs.create_dir_all(dir);
        let mut bytes = 0;
        for (name, content) in [
            (FileName::Seal(SEAL), &self.seal),
            (FileName::Segment(SEGMENT), &self.segment),
            (FileName::LargeSegment(LARGE), &self.large),
        ] {
            bytes += content.len();
            written = written.and_then(|()| fs.write_file(&name.path(Path::new("/db")), content));
        }
        if let Err(error) = written {
            panic!("memory refuses a file: {error}");
        }
        Forged {
            fs,
            power_loss,
            accept_loss: flags & 8 == 8,
            expected: (!self.odd).then_some(self.records),
            bytes,
        }
    }
}

/// Where the seals of a ring stand, and its done markers.
struct Ring {
    seals: usize,
    /// Over how many pages the seals are spread; before version 3, over none.
    pages: usize,
    slots: u64,
}

impl Ring {
    fn of(version: u32, base: usize, slots: u64) -> Ring {
        let count = usize::try_from(slots).unwrap_or(0);
        Ring {
            seals: base,
            pages: match version {
                1 | 2 => 0,
                _ => (count * SECTOR).div_ceil(PAGE).max(2),
            },
            slots,
        }
    }

    fn anchors(version: u32) -> Ring {
        Ring::of(version, PAGE, SLOTS)
    }

    fn shadows(version: u32) -> Ring {
        Ring::of(version, Ring::anchors(version).end(), SHADOWS)
    }

    fn slot(&self, number: u64) -> usize {
        usize::try_from(number % self.slots).unwrap_or(0)
    }

    fn seal_at(&self, number: u64) -> usize {
        let slot = self.slot(number);
        self.seals
            + match self.pages {
                0 => slot * 2 * SECTOR,
                pages => slot % pages * PAGE + slot / pages * SECTOR,
            }
    }

    fn done_at(&self, number: u64) -> usize {
        match self.pages {
            0 => self.seal_at(number) + SECTOR,
            pages => self.seals + pages * PAGE + self.slot(number) * SECTOR,
        }
    }

    /// Where it ends in its file, if it has done markers.
    fn end(&self) -> usize {
        match (self.pages, self.slots) {
            (_, 0) => self.seals,
            (0, slots) => self.done_at(slots - 1) + SECTOR,
            (_, slots) => (self.done_at(slots - 1) + SECTOR).next_multiple_of(PAGE),
        }
    }
}

fn header(version: u32, magic: &[u8; 8], file: u64, parameters: [u64; 4]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    for word in [version, 0, 0, 0] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(&DATABASE.to_le_bytes());
    for word in [file, INCARNATION, SEAL] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    for word in parameters {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    let context = Context {
        database: DATABASE,
        file,
    };
    let crc = at(context.seed(), 0, &bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn seed(lane: usize, offset: u64) -> u32 {
    let seed = crc32c_append(crc32c(&DATABASE.to_le_bytes()), &INCARNATION.to_le_bytes());
    let lane = u32::try_from(lane).unwrap_or(0);
    let seed = crc32c_append(seed, &lane.to_le_bytes());
    crc32c_append(seed, &offset.to_le_bytes())
}
