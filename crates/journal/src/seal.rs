//! Seals: what each round was about to sync, and the mark that it did.
//!
//! ```text
//! A ring of slots, in a file of its own or at the end of a segment: pages of seals, and in the
//! seal file behind them pages of done markers.
//!   seal  "SEAL" u32 | lanes u32 | round u64 | frontier u64 | wall ms u64 | flags and note u64
//!         | anchor u64 | home u64 | (start u64, end u64) per lane | crc u32
//!                                                           padded to the stride of the ring
//!   done  "DONE" u32 | 0 u32 | number u64 | crc u32               padded to 512 bytes
//! ```
//! E1. The slots are a ring: a round overwrites the seal, and the marker, of the round so many
//!     before it, which no rule looks at any more.
//! E2. Seal r is written only after round r-1 completed, so an intact seal r proves round r-1.
//! E3. Seal 0 is durable before the database opens (`seal_file.rs`).
//! E4. A page that is lost takes with it neither a seal and its done marker, since an anchor has
//!     nothing else that tells of it, nor two seals next to each other: an earlier one is missed
//!     between its neighbours. A seal crosses no page unless it is longer than one.
//! E5. A seal in the seal file is an anchor: anchors are counted, and each names the segment, its
//!     home, whose strip takes the seals after it, or none. So a home that is lost is missed, and
//!     a round that writes into its home has one file to sync.
//! E6. A seal in a strip has a shadow in the seal file, written before it and not synced. After a
//!     sync that failed the segment may have lost the seal together with what it covered, and only
//!     its shadow tells that there was a round. The done marker stands with the shadow.
//!
//! Source of the cut: docs/format/journal.md. Why strips: docs/decisions/0014.
//!
//! Tests: below; `tests/lost_pages.rs` (E4); golden files in `tests/golden`.

use crate::header::{FileHeader, PAGE};
use velella_base::Stamp;
use velella_base::checksum;
use velella_base::codec::Reader;
use velella_base::seeded;

/// Anchors the seal file remembers.
pub(crate) const SLOTS: u64 = 256;
/// Rounds a segment's strip remembers: the rules look at the last two, and who accepts a loss would
/// lose less with more of them.
pub(crate) const STRIP_SLOTS: u64 = 16;
// Else the last slot and the first could share a page (E4).
const _: () = assert!(SLOTS.is_power_of_two() && STRIP_SLOTS.is_power_of_two());
/// Rounds whose shadows there are: the last one's is what counts, and it may be torn.
const SHADOW_SLOTS: u64 = 2;
const SECTOR: u64 = 512;
const SEAL: u32 = u32::from_le_bytes(*b"SEAL");
const DONE: u32 = u32::from_le_bytes(*b"DONE");
const FIXED: usize = 56;
/// Without anchor and home.
const FIXED_1: usize = 40;
const CLOSED: u64 = 1;
const FAILED: u64 = 2;
/// The note stands above the flags, in 56 bits.
const NOTE_SHIFT: u32 = 8;

/// What one round covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seal {
    pub(crate) round: u64,
    pub(crate) frontier: Stamp,
    /// Milliseconds since 1970, for people.
    pub(crate) wall_ms: u64,
    /// The database was closed with this round.
    pub(crate) closed: bool,
    /// A sync of the round failed: of what lanes hold beyond their ends, any part may be gone.
    pub(crate) failed: bool,
    /// What the caller wanted noted; 0: nothing. Only the low 56 bits are kept.
    pub(crate) note: u64,
    /// How many anchors there were before the last one, which may be this (E5).
    pub(crate) anchor: u64,
    /// The segment whose strip takes the seals after that anchor; 0: none.
    pub(crate) home: u64,
    /// `[start, end)` of each lane.
    pub(crate) lanes: Vec<(u64, u64)>,
}

/// What a slot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slot<T> {
    /// Zeros.
    Empty,
    Intact(T),
    Damaged,
}

/// What the slots of a ring are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ring {
    /// Anchors: the seal file.
    Anchors,
    /// Rounds: the strip of a segment, the shadows, or a seal file of version 1, which has all.
    Rounds,
}

/// Where the done markers of a ring are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dones {
    /// Each behind its seal, in the same slot; before version 3, and in strips never written.
    Behind,
    /// Behind all the seals (E4).
    Apart,
    /// A strip has none.
    None,
}

/// Where seals are in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    ring: Ring,
    /// Where the first slot begins.
    base: u64,
    /// Bytes of a seal before its lanes.
    fixed: usize,
    dones: Dones,
    pub(crate) lanes: u64,
    pub(crate) slots: u64,
    /// Seed of the file's checksums.
    pub(crate) seed: u32,
}

impl Layout {
    /// The layout a seal file's header tells.
    pub(crate) fn of(header: &FileHeader) -> Layout {
        let (ring, fixed) = match header.version {
            1 => (Ring::Rounds, FIXED_1),
            _ => (Ring::Anchors, FIXED),
        };
        Layout {
            ring,
            base: PAGE,
            fixed,
            dones: dones(header, Dones::Apart),
            lanes: header.parameters[0],
            slots: header.parameters[1],
            seed: header.context().seed(),
        }
    }

    /// The layout of the shadows behind the anchors of a seal file with this header; version 1 has
    /// none.
    pub(crate) fn shadows(header: &FileHeader) -> Layout {
        let anchors = Layout::of(header);
        Layout {
            ring: Ring::Rounds,
            base: anchors.end(),
            slots: SHADOW_SLOTS,
            ..anchors
        }
    }

    /// The layout of the strip that a segment's header tells, behind its extents.
    pub(crate) fn strip(header: &FileHeader) -> Layout {
        Layout {
            ring: Ring::Rounds,
            base: header.parameters[0],
            fixed: FIXED,
            dones: dones(header, Dones::None),
            lanes: header.parameters[2],
            slots: header.parameters[3],
            seed: header.context().seed(),
        }
    }

    /// Whether the numbers, which came from a file of `len` bytes, can be: then nothing here
    /// overflows, and all slots lie in the file.
    pub(crate) fn is_sane(&self, len: u64) -> bool {
        self.slots > 1
            && self.lanes <= crate::config::LANES_MAX as u64
            && self.slots <= len
            && self.base <= len
            && self.end() <= len
    }

    /// Where the ring ends in the file.
    pub(crate) fn end(&self) -> u64 {
        match self.dones {
            Dones::Apart => {
                let dones = self.slots.saturating_mul(SECTOR);
                let end = self.seals_end().saturating_add(dones);
                end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
            }
            Dones::Behind | Dones::None => self.seals_end(),
        }
    }

    /// Where the last seal ends, and if they are apart, the first done marker begins.
    fn seals_end(&self) -> u64 {
        let seals = match self.dones {
            Dones::Behind => self.slots.saturating_mul(self.stride()),
            Dones::Apart | Dones::None => self.pages().saturating_mul(self.page()),
        };
        self.base.saturating_add(seals)
    }

    /// The number by which a seal has its slot.
    pub(crate) fn number(&self, seal: &Seal) -> u64 {
        match self.ring {
            Ring::Anchors => seal.anchor,
            Ring::Rounds => seal.round,
        }
    }

    pub(crate) fn seal_len(&self) -> u64 {
        self.fixed as u64 + 16 * self.lanes + 4
    }

    /// Bytes for a seal; before version 3, with its done marker.
    fn stride(&self) -> u64 {
        let seal = self.seal_len();
        match self.dones {
            Dones::Behind => seal.next_multiple_of(SECTOR) + SECTOR,
            _ if seal > PAGE => seal.next_multiple_of(PAGE),
            _ => seal.next_power_of_two().max(SECTOR),
        }
    }

    /// Bytes that are lost together: a page, or a seal that is longer.
    fn page(&self) -> u64 {
        self.stride().max(PAGE)
    }

    /// Over how many of these the seals are spread.
    fn pages(&self) -> u64 {
        let in_a_page = self.page() / self.stride();
        self.slots.div_ceil(in_a_page).max(2)
    }

    pub(crate) fn seal_at(&self, number: u64) -> u64 {
        let (slot, stride) = (number % self.slots, self.stride());
        let place = match self.dones {
            Dones::Behind => slot * stride,
            Dones::Apart | Dones::None => {
                let pages = self.pages();
                slot % pages * self.page() + slot / pages * stride
            }
        };
        self.base + place
    }

    /// Whether done markers are ever written here, or were.
    pub(crate) fn has_dones(&self) -> bool {
        self.dones != Dones::None
    }

    /// Of a ring that has them.
    pub(crate) fn done_at(&self, number: u64) -> u64 {
        match self.dones {
            Dones::Behind => self.seal_at(number) + self.stride() - SECTOR,
            Dones::Apart | Dones::None => self.seals_end() + (number % self.slots) * SECTOR,
        }
    }

    pub(crate) fn encode_seal(&self, seal: &Seal) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + 16 * seal.lanes.len() + 4);
        bytes.extend_from_slice(&SEAL.to_le_bytes());
        let lanes = u32::try_from(seal.lanes.len()).expect("LANES_MAX is small");
        bytes.extend_from_slice(&lanes.to_le_bytes());
        let flags = [(seal.closed, CLOSED), (seal.failed, FAILED)];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
        let flags = flags.fold(seal.note << NOTE_SHIFT, |flags, (_, flag)| flags | flag);
        let words = [
            seal.round,
            seal.frontier.0,
            seal.wall_ms,
            flags,
            seal.anchor,
            seal.home,
        ];
        for word in words {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for (start, end) in &seal.lanes {
            bytes.extend_from_slice(&start.to_le_bytes());
            bytes.extend_from_slice(&end.to_le_bytes());
        }
        self.finish(bytes, self.seal_at(self.number(seal)))
    }

    pub(crate) fn encode_done(&self, number: u64) -> Vec<u8> {
        let mut bytes = DONE.to_le_bytes().to_vec();
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&number.to_le_bytes());
        self.finish(bytes, self.done_at(number))
    }

    fn finish(&self, mut bytes: Vec<u8>, at: u64) -> Vec<u8> {
        let crc = checksum::at(self.seed, at, &bytes);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Reads the seal in slot `slot`.
    pub(crate) fn decode_seal(&self, slot: u64, bytes: &[u8]) -> Slot<Seal> {
        if is_zero(bytes) {
            return Slot::Empty;
        }
        let decoded = (|| {
            let body = self.check(bytes, self.seal_at(slot))?;
            let mut reader = Reader::new(body);
            let (magic, lanes) = (reader.u32()?, u64::from(reader.u32()?));
            if lanes != self.lanes {
                return None;
            }
            let (round, frontier) = (reader.u64()?, reader.u64()?);
            let (wall_ms, flags) = (reader.u64()?, reader.u64()?);
            let (anchor, home) = match self.fixed {
                FIXED_1 => (round, 0),
                _ => (reader.u64()?, reader.u64()?),
            };
            let lanes = (0..lanes)
                .map(|_| Some((reader.u64()?, reader.u64()?)))
                .collect::<Option<Vec<_>>>()?;
            let ordered = lanes.iter().all(|(start, end)| start <= end);
            let seal = Seal {
                round,
                frontier: Stamp(frontier),
                wall_ms,
                closed: flags & CLOSED != 0,
                failed: flags & FAILED != 0,
                note: flags >> NOTE_SHIFT,
                anchor,
                home,
                lanes,
            };
            let ours = magic == SEAL && self.number(&seal) % self.slots == slot;
            (ours && ordered && frontier <= Stamp::MAX.0).then_some(seal)
        })();
        decoded.map_or(Slot::Damaged, Slot::Intact)
    }

    /// Reads the done marker in slot `slot`: the number of the seal whose round completed.
    pub(crate) fn decode_done(&self, slot: u64, bytes: &[u8]) -> Slot<u64> {
        if is_zero(bytes) {
            return Slot::Empty;
        }
        let decoded = (|| {
            let mut reader = Reader::new(self.check(bytes, self.done_at(slot))?);
            let (magic, _) = (reader.u32()?, reader.u32()?);
            let number = reader.u64()?;
            (magic == DONE && number % self.slots == slot).then_some(number)
        })();
        decoded.map_or(Slot::Damaged, Slot::Intact)
    }

    /// The bytes before their checksum, if it matches.
    fn check<'a>(&self, bytes: &'a [u8], at: u64) -> Option<&'a [u8]> {
        let (body, crc) = bytes.split_last_chunk()?;
        (checksum::at(self.seed, at, body) == u32::from_le_bytes(*crc)).then_some(body)
    }
}

/// Where the done markers are that from version 3 on are `now`. The fault makes files which only a
/// build with it reads.
fn dones(header: &FileHeader, now: Dones) -> Dones {
    let is_old = header.version < 3 || seeded("done-markers-share-the-pages-of-their-seals");
    if is_old { Dones::Behind } else { now }
}

/// Whether a slot was never used. Many at a time, with no look at each: most slots were not.
fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |all, byte| all | byte) == 0
}

/// Bytes of a done marker.
pub(crate) const DONE_LEN: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout {
            ring: Ring::Anchors,
            base: PAGE,
            fixed: FIXED,
            dones: Dones::Apart,
            lanes: 3,
            slots: 4,
            seed: 99,
        }
    }

    fn seal(round: u64) -> Seal {
        Seal {
            round,
            frontier: Stamp(70),
            wall_ms: 1,
            closed: true,
            failed: round % 4 == 2,
            note: (1 << 56) - 2,
            anchor: round + 4,
            home: 77,
            lanes: vec![(0, 1), (2, 3), (4, 4)],
        }
    }

    #[test]
    fn seals_round_trip_in_their_slot_and_every_flipped_bit_is_seen() {
        let layout = layout();
        let bytes = layout.encode_seal(&seal(6));
        assert_eq!(bytes.len() as u64, layout.seal_len());
        assert_eq!(layout.decode_seal(2, &bytes), Slot::Intact(seal(6)));
        assert_eq!(layout.decode_seal(1, &bytes), Slot::Damaged);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(layout.decode_seal(2, &bad), Slot::Damaged, "bit {bit}");
        }
        assert_eq!(layout.decode_seal(2, &vec![0; bytes.len()]), Slot::Empty);
    }

    #[test]
    fn a_strip_has_its_seals_by_round_and_the_seal_file_by_anchor() {
        let (anchors, seal) = (layout(), seal(5));
        let strip = Layout {
            ring: Ring::Rounds,
            base: 1 << 20,
            ..anchors
        };
        assert_eq!((anchors.number(&seal), strip.number(&seal)), (9, 5));
        assert_eq!(strip.seal_at(5), (1 << 20) + PAGE);
        let there = strip.encode_seal(&seal);
        assert_eq!(strip.decode_seal(1, &there), Slot::Intact(seal));
        assert_eq!(anchors.decode_seal(1, &there), Slot::Damaged);
    }

    #[test]
    fn numbers_that_reach_beyond_the_file_are_not_sane() {
        let layout = layout();
        assert!(layout.is_sane(layout.end()));
        assert!(!layout.is_sane(layout.end() - 1));
        let wild: [fn(&mut Layout); 4] = [
            |layout| layout.slots = u64::MAX,
            |layout| layout.slots = 1,
            |layout| layout.lanes = u64::MAX,
            |layout| layout.base = u64::MAX,
        ];
        for change in wild {
            let mut wild = layout;
            change(&mut wild);
            assert!(!wild.is_sane(1 << 20), "{wild:?}");
        }
        // A file with a hole may be that long.
        let many = Layout {
            slots: 1 << 60,
            ..layout
        };
        assert!(!many.is_sane(u64::MAX - 1));
    }

    #[test]
    fn done_markers_round_trip_in_their_slot() {
        let layout = layout();
        let bytes = layout.encode_done(5);
        assert_eq!(bytes.len(), DONE_LEN);
        assert_eq!(layout.decode_done(1, &bytes), Slot::Intact(5));
        assert_eq!(layout.decode_done(2, &bytes), Slot::Damaged);
        assert_eq!(layout.decode_done(1, &[0; DONE_LEN]), Slot::Empty);
    }

    /// E4; `Behind` promises no more than sectors.
    #[test]
    fn what_a_page_takes_with_it() {
        let of = |dones, lanes, slots| Layout {
            dones,
            lanes,
            slots,
            ..layout()
        };
        for lanes in [1, 3, 29, 64, 100, 251, 252, 600] {
            for slots in [2, 4, 16, 100, 256] {
                for dones in [Dones::Apart, Dones::None] {
                    is_spread(&of(dones, lanes, slots), PAGE);
                }
                is_spread(&of(Dones::Behind, lanes, slots), SECTOR);
            }
        }
    }

    /// No seal shares a piece of `unit` bytes with a done marker or with the seal next to it; no
    /// two things overlap, and all lie in the ring.
    fn is_spread(layout: &Layout, unit: u64) {
        let pieces = |at: u64, len: u64| at / unit..=(at + len - 1) / unit;
        let seals: Vec<_> = (0..layout.slots)
            .map(|number| pieces(layout.seal_at(number), layout.seal_len()))
            .collect();
        for (number, seal) in (0..).zip(&seals) {
            assert!(layout.seal_len() > unit || seal.start() == seal.end());
            let next = &seals[(number + 1) % seals.len()];
            assert!(seal.end() < next.start() || next.end() < seal.start());
        }
        let mut all: Vec<(u64, u64)> = (0..layout.slots)
            .map(|number| (layout.seal_at(number), layout.seal_len()))
            .collect();
        if layout.has_dones() {
            for number in 0..layout.slots {
                let done = (layout.done_at(number), DONE_LEN as u64);
                let own = pieces(done.0, done.1);
                assert!(seals.iter().all(|seal| !seal.contains(own.start())));
                all.push(done);
            }
        }
        all.sort_unstable();
        assert!(all.iter().all(|(at, _)| at % SECTOR == 0));
        assert!(all.is_sorted_by(|one, next| one.0 + one.1 <= next.0));
        let (first, last) = (all[0], all[all.len() - 1]);
        assert!(first.0 >= layout.base && last.0 + last.1 <= layout.end());
    }
}
