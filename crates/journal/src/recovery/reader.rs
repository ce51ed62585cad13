//! One lane, record by record, from where a seal says it starts.
//!
//! W1. A record is passed only if header and payload validate in this place of this lane and its
//!     stamp is above the one before.
//! W2. At a zero word the lane may go on in two ways, both of which name this very offset: a skip
//!     record on the next page, or the next extent's header. Otherwise it ends here.
//! W3. The walk ends at the limit exactly: a record across it is damage, and what stands behind it
//!     is none, be it the header of the segment that the lane goes on in.
//! W4. What follows a hole has a stamp above the last one passed, since a lane's stamps ascend. A
//!     stale record of a recycled segment may fit its place by chance, one in 2^32: both checksums
//!     start from one seed. But a segment is recycled once all its stamps are below the floor, and
//!     a lane that took an extent of it writes stamps at or above: once it has passed one of those,
//!     no stale record follows anything.
//!
//! Tests: `recovery/tests.rs`, `tests/damage.rs`, `tests/crashes.rs`.

use super::catalog::Extent;
use super::seals::ATTEMPT;
use crate::extent;
use crate::header::PAGE;
use crate::record::{self, Decoded, Header, Kind, LaneSeed, Reference};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use velella_base::{Error, Result, Stamp};
use velella_sync::crc::crc32c_append;
use velella_vfs::ReadFile;

/// Bytes read at once.
const CHUNK: u64 = 32 << 10;
/// The same of a large payload that is only checked.
const PIECE: usize = 256 << 10;

/// How a lane's walk ended.
#[derive(Debug, Clone)]
pub(super) enum Tail {
    /// At the limit.
    Limit,
    /// At a place where nothing was committed.
    Clean,
    /// At bytes that do not validate.
    Damaged(Error),
}

/// Walks one lane.
#[derive(Debug)]
pub(super) struct LaneReader {
    seed: LaneSeed,
    extents: Vec<Extent>,
    large: BTreeMap<u64, Arc<dyn ReadFile>>,
    /// The extent the walk is in.
    at: usize,
    /// Where it is in that extent's file, and in the lane.
    position: u64,
    offset: u64,
    limit: u64,
    last: Stamp,
    current: Option<Header>,
    chunk: Chunk,
    pub(super) tail: Option<Tail>,
}

/// What was read last.
#[derive(Debug, Default)]
struct Chunk {
    extent: usize,
    position: u64,
    bytes: Vec<u8>,
}

impl LaneReader {
    /// A walk over `[start, limit)` of the lane whose extents these are.
    pub(super) fn new(
        seed: LaneSeed,
        extents: &[Extent],
        large: &BTreeMap<u64, Arc<dyn ReadFile>>,
        start: u64,
        limit: u64,
    ) -> LaneReader {
        let first = extents.partition_point(|extent| extent.header.lane_offset < start);
        let mut reader = LaneReader {
            seed,
            extents: extents[first..].to_vec(),
            large: large.clone(),
            at: 0,
            position: 0,
            offset: start,
            limit,
            last: Stamp::ZERO,
            current: None,
            chunk: Chunk::default(),
            tail: None,
        };
        if limit > start {
            reader.enter(0);
        }
        reader
    }

    /// The lane offset behind the last record passed.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes from where the walk is to its limit, if it goes on.
    pub(super) fn bytes_left(&self) -> u64 {
        match self.tail {
            Some(_) => 0,
            None => self.limit.saturating_sub(self.offset),
        }
    }

    /// Whether the walk has come to the limit.
    pub(super) fn is_at_limit(&self) -> bool {
        self.offset == self.limit
    }

    /// Up to which stamp the walk has shown all that the lane holds: below that of a record whose
    /// payload is damaged, else to that of the last record passed.
    pub(super) fn sound_up_to(&self) -> Stamp {
        self.current.map_or(self.last, |damaged| {
            Stamp(damaged.stamp.0.saturating_sub(1))
        })
    }

    /// Ends the walk where it is.
    pub(super) fn end(&mut self) {
        self.tail.get_or_insert(Tail::Clean);
    }

    /// Goes on beyond the limit, as far as records validate.
    pub(super) fn lift_limit(&mut self) {
        if matches!(self.tail, Some(Tail::Limit)) {
            self.limit = u64::MAX;
            self.tail = None;
            if self.position == 0 {
                self.enter(0);
            }
        }
    }

    /// Enters extent `index` if it begins where the lane is.
    fn enter(&mut self, index: usize) -> bool {
        let Some(extent) = self.extents.get(index) else {
            return false;
        };
        let follows = index == 0
            || Some(extent.header.ordinal) == self.extents[index - 1].header.ordinal.checked_add(1);
        if extent.header.lane_offset != self.offset || !follows {
            return false;
        }
        self.at = index;
        self.position = extent.position + extent::HEADER;
        // An end record may be the last that the limit covers (W3).
        if let Some(damage) = &extent.segment_damage
            && self.offset < self.limit
        {
            self.tail = Some(Tail::Damaged(damage.clone()));
        }
        true
    }

    /// Moves to the next record and returns its stamp; its payload is not checked yet. `None` at
    /// the tail.
    pub(super) fn advance(&mut self) -> Result<Option<Stamp>> {
        if let Some(passed) = self.current.take() {
            self.step(passed.footprint());
            self.last = passed.stamp;
        }
        while self.tail.is_none() {
            if self.offset >= self.limit {
                self.tail = Some(Tail::Limit);
            } else if self.position == 0 {
                // The lane does not begin where it should.
                self.tail = Some(Tail::Clean);
            } else if let Some(stamp) = self.look()? {
                return Ok(Some(stamp));
            }
        }
        Ok(None)
    }

    fn step(&mut self, bytes: u64) {
        self.position += bytes;
        // Wraps only where a file was forged; then the lane does not end where its seal says.
        self.offset = self.offset.wrapping_add(bytes);
    }

    /// Looks at what stands here: a record of a caller, or a move, or the tail.
    fn look(&mut self) -> Result<Option<Stamp>> {
        let decoded = match self.header_at(self.position, self.offset) {
            Ok(decoded) => decoded,
            Err(error) => return self.damaged(error),
        };
        match decoded {
            Decoded::Nothing => self.leave_page()?,
            Decoded::Invalid(found) => return self.damaged(self.corruption(found)),
            Decoded::Header(header) => match header.kind {
                Kind::Data | Kind::Large => return self.accept(header),
                Kind::Skip => {
                    return self.damaged(self.corruption("a skip record stands off its place"));
                }
                Kind::End => {
                    self.step(record::HEADER);
                    if !self.enter(self.at + 1) {
                        self.tail.get_or_insert(Tail::Clean);
                    }
                }
            },
        }
        Ok(None)
    }

    fn accept(&mut self, header: Header) -> Result<Option<Stamp>> {
        if header.stamp <= self.last {
            return self.damaged(self.corruption("the record's stamp is not above the last one's"));
        }
        if header.kind == Kind::Large && header.payload != record::REFERENCE as u64 {
            return self.damaged(self.corruption("the reference to a large file has a wrong size"));
        }
        if self.offset.saturating_add(header.footprint()) > self.limit {
            return self.damaged(self.corruption("the record reaches across the end of its seal"));
        }
        self.current = Some(header);
        Ok(Some(header.stamp))
    }

    /// W2.
    fn leave_page(&mut self) -> Result<()> {
        let page = (self.position + 1).next_multiple_of(PAGE);
        let offset = self.offset.wrapping_add(page - self.position);
        if page + record::SKIP <= self.extents[self.at].end
            && let Decoded::Header(header) = self.header_at(page, offset)?
            && header.kind == Kind::Skip
            && header.payload == 8
        {
            let seed = self.seed.at(offset);
            let from = self.offset.to_le_bytes();
            let payload = self.view(page + record::HEADER, 8)?;
            if payload == from && crc32c_append(seed, payload) == header.payload_crc {
                self.position = page + record::SKIP;
                self.offset = offset.wrapping_add(record::SKIP);
                return Ok(());
            }
        }
        if !self.enter(self.at + 1) {
            self.tail.get_or_insert(Tail::Clean);
        }
        Ok(())
    }

    fn header_at(&mut self, position: u64, offset: u64) -> Result<Decoded> {
        let room = self.extents[self.at].end.saturating_sub(position);
        if room < record::HEADER {
            return Ok(Decoded::Nothing);
        }
        let seed = self.seed.at(offset);
        let mut header = [0; record::HEADER_LEN];
        header.copy_from_slice(self.view(position, record::HEADER)?);
        Ok(record::decode(seed, &header, room))
    }

    /// `len` bytes at `position` of the current extent's file; within the extent.
    fn view(&mut self, position: u64, len: u64) -> Result<&[u8]> {
        let have = self.chunk.position + self.chunk.bytes.len() as u64;
        let covered = self.chunk.extent == self.at
            && position >= self.chunk.position
            && position + len <= have;
        if !covered {
            let extent = &self.extents[self.at];
            let wanted = len.max(CHUNK).min(extent.end - position);
            let wanted = usize::try_from(wanted.max(len)).expect("within an extent");
            self.chunk.bytes.clear();
            self.chunk.bytes.resize(wanted, 0);
            let read = extent.file.read_exact_at(&mut self.chunk.bytes, position);
            if let Err(error) = read {
                self.chunk.bytes.clear();
                return Err(error);
            }
            (self.chunk.extent, self.chunk.position) = (self.at, position);
        }
        let from = usize::try_from(position - self.chunk.position).expect("within the chunk");
        let len = usize::try_from(len).expect("within the chunk");
        Ok(&self.chunk.bytes[from..from + len])
    }

    /// The payload of the current record, checked; a large one is read into `large`.
    ///
    /// # Errors
    /// `Corruption`: it does not validate. `Io`.
    pub(super) fn payload<'a>(&'a mut self, large: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        match self.check_record()? {
            None => {
                let header = self.current.expect("it was just checked");
                self.view(self.position + record::HEADER, header.payload)
            }
            Some(payload) => payload.read(large),
        }
    }

    /// Checks the payload of the current record, a large one a piece at a time.
    ///
    /// # Errors
    /// As `payload`.
    pub(super) fn check(&mut self, piece: &mut Vec<u8>) -> Result<()> {
        match self.check_record()? {
            None => Ok(()),
            Some(payload) => payload.check(piece),
        }
    }

    /// Checks what stands in the lane of the current record; says where the rest is.
    fn check_record(&mut self) -> Result<Option<LargePayload>> {
        let header = self.current.expect("the caller advanced to a record");
        let seed = self.seed.at(self.offset);
        let whole = header.footprint() - record::HEADER;
        let payload_len = usize::try_from(header.payload).expect("within an extent");
        let bytes = self.view(self.position + record::HEADER, whole)?;
        let (payload, padding) = bytes.split_at(payload_len);
        if crc32c_append(seed, payload) != header.payload_crc {
            return Err(self.corruption("the payload's checksum does not match"));
        }
        if padding.iter().any(|&byte| byte != 0) {
            return Err(self.corruption("the padding behind the payload is not zero"));
        }
        if header.kind == Kind::Data {
            return Ok(None);
        }
        let Some(reference) = Reference::decode(payload) else {
            return Err(self.corruption("the reference to a large file has a wrong size"));
        };
        match self.large.get(&reference.file) {
            Some(file) => LargePayload::new(Arc::clone(file), reference, seed).map(Some),
            None => Err(self.corruption("the large file it refers to is missing")),
        }
    }

    /// Bytes of the current record's payload, without reading a large one.
    pub(super) fn payload_len(&mut self) -> Result<u64> {
        let header = self.current.expect("the caller advanced to a record");
        if header.kind == Kind::Data {
            return Ok(header.payload);
        }
        let bytes = self.view(self.position + record::HEADER, header.payload)?;
        Ok(Reference::decode(bytes).map_or(0, |reference| reference.len))
    }

    /// Whether anything valid stands behind the tail: then this is a hole and not the end (W4).
    pub(super) fn has_follower(&mut self) -> Result<bool> {
        if self.position == 0 {
            return Ok(!self.extents.is_empty());
        }
        if self.at + 1 < self.extents.len() {
            return Ok(true);
        }
        let (mut position, mut offset) = (self.position, self.offset);
        while position + 8 + record::HEADER <= self.extents[self.at].end {
            (position, offset) = (position + 8, offset.wrapping_add(8));
            if let Decoded::Header(header) = self.header_at(position, offset)?
                && header.kind != Kind::Skip
                && header.stamp > self.last
            {
                let seed = self.seed.at(offset);
                let payload = self.view(position + record::HEADER, header.payload)?;
                if crc32c_append(seed, payload) == header.payload_crc {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The file the walk is in, and where there.
    pub(super) fn place(&self) -> Option<(&Path, u64)> {
        let extent = self.extents.get(self.at)?;
        let at = match self.position {
            0 => extent.position,
            entered => entered,
        };
        Some((extent.file.path(), at))
    }

    /// An error at the place the walk is at.
    pub(super) fn corruption(&self, found: &str) -> Error {
        match self.place() {
            Some((path, at)) => Error::corruption(ATTEMPT, path, at, found),
            None => Error::new(velella_base::ErrorKind::Corruption, ATTEMPT, found),
        }
    }

    /// Ends the walk with damage; any other error is the caller's.
    fn damaged<T>(&mut self, error: Error) -> Result<Option<T>> {
        if error.kind() != velella_base::ErrorKind::Corruption {
            return Err(error);
        }
        self.tail = Some(Tail::Damaged(error));
        Ok(None)
    }
}

/// A payload in a large file, within the file.
struct LargePayload {
    file: Arc<dyn ReadFile>,
    reference: Reference,
    seed: u32,
}

impl LargePayload {
    fn new(file: Arc<dyn ReadFile>, reference: Reference, seed: u32) -> Result<LargePayload> {
        let payload = LargePayload {
            file,
            reference,
            seed,
        };
        let end = reference.offset.checked_add(reference.len);
        let fits = end.is_some_and(|end| end <= payload.file.len());
        match fits && reference.len <= crate::large::PAYLOAD_MAX {
            true => Ok(payload),
            false => Err(payload.corruption("the file is cut short")),
        }
    }

    fn corruption(&self, found: &str) -> Error {
        Error::corruption(ATTEMPT, self.file.path(), self.reference.offset, found)
    }

    fn len(&self) -> usize {
        usize::try_from(self.reference.len).expect("PAYLOAD_MAX fits memory")
    }

    fn read<'a>(&self, into: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        self.check_in_pieces(into, self.len())?;
        Ok(into)
    }

    fn check(&self, piece: &mut Vec<u8>) -> Result<()> {
        self.check_in_pieces(piece, self.len().min(PIECE))
    }

    /// Reads it in pieces of `len` bytes, the last of which stays in `piece`.
    fn check_in_pieces(&self, piece: &mut Vec<u8>, len: usize) -> Result<()> {
        let (mut crc, mut left) = (self.seed, self.len());
        let mut at = self.reference.offset;
        piece.clear();
        while left > 0 {
            piece.resize(left.min(len), 0);
            self.file.read_exact_at(piece, at)?;
            crc = crc32c_append(crc, piece);
            at += piece.len() as u64;
            left -= piece.len();
        }
        match crc == self.reference.crc {
            true => Ok(()),
            false => Err(self.corruption("the large payload's checksum does not match")),
        }
    }
}
