//! One lane: whoever holds it appends records to it.
//!
//! Source: Xyza (HotStorage '18) 3.1, exclusive access makes locks unnecessary.
//!
//! A1. `reserve` does everything that can fail, wait or allocate. `commit` is constant time;
//!     mapped, it makes no system call and cannot fail.
//! A2. Stamps of a lane strictly increase.
//! A3. A lane leaves a 4 KiB page that a round has handed to the device: it goes on in the next one
//!     with a skip record that says where it left. Nothing is written into the page it left, except
//!     a record that was reserved before the round.
//! A4. An extent always keeps room for an end record behind its last record.
//! A5. What can take long is nearly always a reservation that begins or leaves a page, for which
//!     the system may have to make a page ready or a segment may have to be made; or a commit that
//!     is a system call. Those are timed, and long ones noted (`Waits`). The first store to a page
//!     that was synced while its lane stood in it is not.
//! A6. A lane leaves its extent once it has the next one: a record for which there is none takes
//!     nothing from smaller ones, for which there may be room.
//!
//! Threads: one holder at a time; it may be another thread each time.
//!
//! Tests: `tests/lanes.rs`, `tests/crashes.rs`.

use crate::core::Core;
use crate::extent::{self, ExtentHeader};
use crate::header::PAGE;
use crate::inventory::Extent;
use crate::large::{FILE_BYTES_MIN, FIRST, LargeFile, PAYLOAD_MAX};
use crate::ledger::{LargeSpan, Ledger, Span};
use crate::record::{self, Draft, Kind, LaneSeed, Reference};
use crate::space::Space;
use std::sync::Arc;
use velella_base::{Error, Result, Stamp};
use velella_sync::crc::crc32c_append;
use velella_sync::thread;

const ZEROS: [u8; 16] = [0; 16];
/// Bytes zeroed behind a record: the word of the one to come (R2).
const NEXT_WORD: u64 = 8;

/// One lane: whoever holds it appends records to it.
#[derive(Debug)]
pub struct Lane {
    core: Arc<Core>,
    id: u32,
    seed: LaneSeed,
    /// Larger payloads go to a large file.
    inline_max: u64,
    open: Option<Open>,
    /// Lane offset of the next record.
    next: u64,
    /// Of the next extent.
    ordinal: u64,
    reserved: Option<Reserved>,
    last: Stamp,
    large: Option<Large>,
}

/// The extent the lane writes to.
#[derive(Debug)]
struct Open {
    space: Space,
    segment: u64,
    /// Lane offset of the first record.
    start: u64,
    /// Bytes of the extent.
    len: u64,
}

/// A record that waits for its stamp.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    draft: Draft,
    /// Where it stands in the extent.
    at: u64,
    footprint: u64,
    large: bool,
}

/// The large file the lane writes to.
#[derive(Debug)]
struct Large {
    file: Arc<LargeFile>,
    /// Lane offset behind the last reference to it.
    referred: u64,
    /// The page behind the last payload that a reference refers to (L3 of large files).
    kept: u64,
    /// Where the one ends that was written last.
    end: u64,
    /// The stamp of the first reference to it.
    first: Option<Stamp>,
}

impl Open {
    /// Where lane offset `offset` stands in the extent.
    #[inline]
    fn position(&self, offset: u64) -> u64 {
        extent::HEADER + (offset - self.start)
    }

    #[inline]
    fn fits(&self, at: u64, footprint: u64) -> bool {
        at + footprint + record::HEADER <= self.len
    }

    /// Lane offset of the first of this lane's bytes in the page of `at`.
    #[inline]
    fn page_start(&self, offset: u64, at: u64) -> u64 {
        offset - (at % PAGE).min(at - extent::HEADER)
    }
}

impl Lane {
    pub(crate) fn new(core: &Arc<Core>, id: u32) -> Lane {
        let config = &core.config;
        Lane {
            core: Arc::clone(core),
            id,
            seed: LaneSeed::new(config.database, config.incarnation, id),
            inline_max: config.extent_bytes / 4,
            open: None,
            next: 0,
            ordinal: 0,
            reserved: None,
            last: Stamp::ZERO,
            large: None,
        }
    }

    /// Which lane this is, from 0.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }

    fn ledger(&self) -> &Ledger {
        &self.core.ledgers[self.id as usize]
    }

    /// Step 0 of a write: makes room, and writes the payload and its checksum at the lane's end.
    /// The record stays invisible to recovery until `commit`. A reservation that is not committed
    /// is overwritten by the next.
    ///
    /// # Errors
    /// The device is full, the journal is poisoned, or a large record could not be written.
    #[inline]
    pub fn reserve(&mut self, payload: &[&[u8]]) -> Result<()> {
        self.core.poison.check()?;
        self.reserved = None;
        let len = payload.iter().map(|part| part.len() as u64).sum();
        if len <= self.inline_max
            && let Some(at) = self.room_in_page(record::align(record::HEADER + len))
        {
            self.draft(at, Kind::Data, payload, len);
            return Ok(());
        }
        self.reserve_elsewhere(payload, len)
    }

    /// Reserves what begins or leaves a page (A5).
    #[cold]
    fn reserve_elsewhere(&mut self, payload: &[&[u8]], len: u64) -> Result<()> {
        let began = thread::now();
        let reserved = match len > self.inline_max {
            true => self.reserve_large(payload, len),
            false => self
                .room(record::align(record::HEADER + len))
                .map(|at| self.draft(at, Kind::Data, payload, len)),
        };
        self.core.waits.note_since(began);
        reserved
    }

    /// Writes the payload of a record whose room is at `at`.
    #[inline]
    fn draft(&mut self, at: u64, kind: Kind, payload: &[&[u8]], len: u64) {
        let footprint = record::align(record::HEADER + len);
        let seed = self.seed.at(self.next);
        let open = self.open.as_mut().expect("`room` opened an extent");
        open.space.begin();
        let mut crc = seed;
        let mut end = at + record::HEADER;
        for part in payload {
            crc = crc32c_append(crc, part);
            open.space.stage(end, part);
            end += part.len() as u64;
        }
        // The padding, and the word of the record to come (R2).
        let zeros = usize::try_from(at + footprint + NEXT_WORD - end).expect("8 to 15");
        open.space.stage(end, &ZEROS[..zeros]);
        let word = u32::try_from(record::HEADER + len).expect("a quarter extent at most");
        self.reserved = Some(Reserved {
            draft: Draft::new(seed, kind, word, crc),
            at,
            footprint,
            large: kind == Kind::Large,
        });
    }

    fn reserve_large(&mut self, payload: &[&[u8]], len: u64) -> Result<()> {
        if len > PAYLOAD_MAX {
            return Err(Error::invalid(
                "write a journal record",
                format!("it has {len} bytes, the limit is {PAYLOAD_MAX}"),
            )
            .remedy("write smaller batches"));
        }
        // The checksum is bound to the record's place, so the place comes first, and stays: a
        // round meanwhile does not move it.
        self.leave_old_large()?;
        let reference_len = record::REFERENCE as u64;
        let at = self.room(record::align(record::HEADER + reference_len))?;
        let crc = payload.iter().fold(self.seed.at(self.next), |crc, part| {
            crc32c_append(crc, part)
        });
        let core = Arc::clone(&self.core);
        let large = self.large_file()?;
        let write = || large.file.write(large.kept, payload);
        large.end = core.inventory.with_space(write)?;
        let reference = Reference {
            file: large.file.number,
            offset: large.kept,
            len,
            crc,
        };
        self.draft(at, Kind::Large, &[&reference.encode()], reference_len);
        Ok(())
    }

    fn large_file(&mut self) -> Result<&mut Large> {
        let large = match self.large.take() {
            Some(large) => large,
            None => self.new_large()?,
        };
        Ok(self.large.insert(large))
    }

    fn new_large(&self) -> Result<Large> {
        let core = &*self.core;
        let make = || LargeFile::make(&core.config, &core.inventory, core.seal_file, self.id);
        let file = core.wake_if_stopped(core.inventory.with_space(make))?;
        self.ledger().files().large.push(LargeSpan {
            file: Arc::clone(&file),
            closed: None,
        });
        Ok(Large {
            file,
            referred: 0,
            kept: FIRST,
            end: FIRST,
            first: None,
        })
    }

    /// Leaves a large file that is full or partly in tables, and the extent with it: the file can
    /// go only with the extents that refer to it.
    fn leave_old_large(&mut self) -> Result<()> {
        let floor = self.core.floor();
        let most = self.core.config.segment_bytes.max(FILE_BYTES_MIN);
        let old = self.large.as_ref().is_some_and(|large| {
            large.kept >= most || large.first.is_some_and(|first| first < floor)
        });
        if old {
            let taken = self.take_extent()?;
            self.close_large();
            self.close_extent()?;
            self.open_extent(taken)?;
        }
        Ok(())
    }

    /// Whether all that the lane's large file holds is in tables, and that is something.
    fn holds_flushed_large(&self) -> bool {
        let floor = self.core.floor();
        let large = self.large.as_ref().filter(|large| large.first.is_some());
        large.is_some_and(|large| large.file.stamp() < floor)
    }

    fn close_large(&mut self) {
        if let Some(large) = self.large.take() {
            large.file.cut(large.kept);
            let mut files = self.ledger().files();
            let span = files
                .large
                .iter_mut()
                .find(|span| span.file.number == large.file.number);
            if let Some(span) = span {
                span.closed = Some(large.referred);
            }
        }
    }

    /// The lane's end, if the extent has room for `footprint` bytes there and the page is still the
    /// lane's own.
    #[inline]
    fn room_at_end(&self, footprint: u64) -> Option<u64> {
        let open = self.open.as_ref()?;
        let at = open.position(self.next);
        let is_room = open.fits(at, footprint)
            && self.ledger().handed() <= open.page_start(self.next, at)
            && open.segment >= self.core.move_below();
        is_room.then_some(at)
    }

    /// As `room_at_end`, if the record and the word behind it end in the page of the last one.
    #[inline]
    fn room_in_page(&self, footprint: u64) -> Option<u64> {
        self.room_at_end(footprint)
            .filter(|at| at % PAGE + footprint + NEXT_WORD <= PAGE)
    }

    /// Where a record of `footprint` bytes goes.
    fn room(&mut self, footprint: u64) -> Result<u64> {
        match self.room_at_end(footprint) {
            Some(at) => Ok(at),
            None => self.make_room(footprint),
        }
    }

    fn make_room(&mut self, footprint: u64) -> Result<u64> {
        if let Some(open) = &self.open
            && open.segment >= self.core.move_below()
        {
            let at = open.position(self.next);
            let page = at.next_multiple_of(PAGE);
            if self.is_handed() && open.fits(page + record::SKIP, footprint) {
                return self.skip_to(at, page);
            }
        }
        let taken = self.take_extent()?;
        // A large file that is in tables with all it holds is left with the extent.
        if self.holds_flushed_large() {
            self.close_large();
        }
        self.close_extent()?;
        self.open_extent(taken)
    }

    /// The next extent, before the one at hand is left: where there is none, smaller records still
    /// fit into that.
    fn take_extent(&self) -> Result<Extent> {
        self.core.wake_if_stopped(self.core.inventory.take())
    }

    /// Whether a round has handed over the page the lane's end stands in.
    fn is_handed(&self) -> bool {
        self.open.as_ref().is_some_and(|open| {
            let at = open.position(self.next);
            self.ledger().handed() > open.page_start(self.next, at)
        })
    }

    /// Goes on at `page` (A3).
    fn skip_to(&mut self, at: u64, page: u64) -> Result<u64> {
        let offset = self.next + (page - at);
        let mut bytes = record::encode(
            self.seed.at(offset),
            Kind::Skip,
            Stamp::ZERO,
            &self.next.to_le_bytes(),
        );
        bytes.extend_from_slice(&[0; 8]);
        let open = self.open.as_mut().expect("the caller looked at it");
        let written = open.space.put(page, &bytes);
        self.core.poison_on_error(written)?;
        self.next = offset + record::SKIP;
        Ok(page + record::SKIP)
    }

    /// Leaves the open extent, with an end record if its page is the lane's own.
    fn close_extent(&mut self) -> Result<()> {
        let handed = self.is_handed();
        let Some(mut open) = self.open.take() else {
            return Ok(());
        };
        if !handed {
            let at = open.position(self.next);
            let end = record::encode(self.seed.at(self.next), Kind::End, self.last, &[]);
            let written = open.space.put(at, &end);
            self.core.poison_on_error(written)?;
            self.next += record::HEADER;
        }
        let closed = (self.next, self.last);
        if let Some(span) = self.ledger().files().spans.back_mut() {
            span.closed = Some(closed);
        }
        self.ledger().move_tail(self.next);
        let end = open.position(self.next);
        let (window, written) = open.space.into_left(end);
        self.core.inventory.left.add(window, written);
        Ok(())
    }

    fn open_extent(&mut self, taken: Extent) -> Result<u64> {
        let segment = Arc::clone(&taken.segment);
        let header = ExtentHeader {
            database: self.core.config.database,
            incarnation: self.core.config.incarnation,
            segment: taken.segment.number,
            ordinal: self.ordinal,
            lane_offset: self.next,
            lane: self.id,
        };
        let mut bytes = header.encode(taken.position).to_vec();
        bytes.extend_from_slice(&[0; 8]);
        let mut open = Open {
            segment: taken.segment.number,
            start: self.next,
            len: taken.len,
            space: Space::new(taken),
        };
        let written = open.space.put(0, &bytes);
        self.core.poison_on_error(written)?;
        self.ledger().files().spans.push_back(Span {
            segment,
            start: self.next,
            closed: None,
        });
        self.ordinal += 1;
        self.open = Some(open);
        Ok(extent::HEADER)
    }

    /// Step 10: stamps the reserved record and makes it complete. Constant time; on the mapped
    /// path it cannot fail.
    ///
    /// # Errors
    /// Only the `write` fallback: the outcome is unknown and the journal is poisoned.
    ///
    /// # Panics
    /// Without a reservation.
    #[inline]
    pub fn commit(&mut self, stamp: Stamp) -> Result<()> {
        let reserved = self.reserved.take().expect("`reserve` comes first");
        debug_assert!(stamp > self.last, "A2: {stamp} after {}", self.last);
        let header = reserved.draft.stamped(stamp);
        let open = self.open.as_mut().expect("`reserve` opened an extent");
        let began = open.space.is_written().then(thread::now);
        let committed = open.space.commit(reserved.at, &header);
        if let Some(began) = began {
            self.core.waits.note_since(began);
        }
        if let Err(error) = committed {
            return Err(self.outcome_unknown(error));
        }
        self.next += reserved.footprint;
        self.last = stamp;
        if reserved.large
            && let Some(large) = &mut self.large
        {
            large.referred = self.next;
            large.kept = large.end.next_multiple_of(PAGE);
            large.first.get_or_insert(stamp);
            large.file.refer(stamp);
        }
        velella_sync::spot(63);
        self.ledger().commit(self.next, stamp);
        Ok(())
    }

    #[cold]
    fn outcome_unknown(&self, error: Error) -> Error {
        self.core.stop(error.clone());
        error
            .with_kind(velella_base::ErrorKind::OutcomeUnknown)
            .remedy("open the database again and read the key back")
    }

    /// Closes the open extent if its segment waits to be recycled, or its large file is in tables;
    /// gives back what nothing came to refer to.
    pub(crate) fn leave_idle(&mut self) -> Result<()> {
        let old = self
            .open
            .as_ref()
            .is_some_and(|open| open.segment < self.core.move_below());
        if old || self.holds_flushed_large() {
            self.reserved = None;
            self.close_large();
            self.close_extent()?;
        }
        if let Some(large) = &self.large {
            // Nobody has the lane, so what was reserved was given up.
            self.reserved = None;
            large.file.cut(large.kept);
        }
        Ok(())
    }
}
