//! The log of edits in one manifest file: framing, replay, and what counts as torn.
//!
//! ```text
//! file    := header record*                       header: see crates/tree/src/header.rs
//! record  := length:u32 frame_crc:u32 payload_crc:u32 mark:u32 payload padding
//! payload := edit*                                stored masked, padded to eight bytes
//! ```
//! Both checksums also cover database, file and offset; `frame_crc` covers `length`, so the extent
//! of a record is known even where its payload is damaged. Payload and padding are stored XOR 0xC0,
//! and records start at multiples of eight, so that no word of a whole record is zero (but for keys
//! of eight 0xC0 in a row).
//!
//! F1. A record is synced before the next is written, so only the last can be torn.
//! F2. A bad record is torn, and cut, only if it is last and looks like an append whose words did
//!     not all arrive: the file ends early, or an aligned eight-byte word is zero. Anything else is
//!     damage to acknowledged edits: `Corruption`, never skipped.
//! F3. A file is read in pieces, and for a payload only what its frame vouches for: memory is for
//!     what was written, however long a damaged file is.
//!
//! Tests: `manifest/tests.rs`.

use super::edit::Edit;
use super::fault::Fault;
use super::state::State;
use crate::header::{HEADER_BYTES, Header, Purpose};
use std::path::Path;
use velella_base::codec::Reader;
use velella_base::file_name::FileName;
use velella_base::{DatabaseId, Error, ErrorKind, Result, checksum, seeded};
use velella_vfs::{ReadFile, Vfs, WriteFile, lacks_descriptors};

/// What a manifest begins with.
pub(crate) const MAGIC: &[u8; 8] = b"VELELLAM";
const FRAME_BYTES: usize = 16;
/// The last word of a frame: keeps it from being zero.
const MARK: u32 = 0xC0C0_C0C0;
/// What payloads are stored with, by XOR.
const MASK: u8 = 0xC0;
/// What devices do not tear.
const WORD: usize = 8;
/// What is read at once.
const PIECE_BYTES: u64 = 1 << 20;

/// A record of the log: where it stands and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Byte offset in the manifest.
    pub offset: u64,
    /// Bytes, frame included.
    pub bytes: u64,
    /// Its edits, which hold together or not at all.
    pub edits: Vec<Edit>,
}

/// A manifest file, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// The database.
    pub database: DatabaseId,
    /// The manifest's file number.
    pub file: u64,
    /// All whole records.
    pub records: Vec<Record>,
    /// Where a torn tail was cut, and how many bytes it has.
    pub torn: Option<(u64, u64)>,
    /// What the records add up to.
    pub state: State,
}

/// Reads the manifest `file` of the database directory `dir`.
pub(crate) fn replay(vfs: &dyn Vfs, dir: &Path, file: u64, purpose: Purpose) -> Result<Replay> {
    let path = FileName::Manifest(file).path(dir);
    let source = vfs.open_read(&path)?;
    Pieces::of(&*source, source.len()).decode(file, purpose)
}

/// Whose manifest the one at `path` is, without reading more than its header.
pub(crate) fn database_of(vfs: &dyn Vfs, path: &Path, file: u64) -> Result<DatabaseId> {
    let source = vfs.open_read(path)?;
    let length = usize::try_from(source.len()).unwrap_or(HEADER_BYTES);
    let mut head = vec![0; length.min(HEADER_BYTES)];
    source.read_exact_at(&mut head, 0)?;
    Header::decode(&head, MAGIC, file, path, Purpose::Read).map(|header| header.database)
}

/// Reads the manifest at `path` as far as it is whole; the second is the damage that ended it.
pub(crate) fn salvage(vfs: &dyn Vfs, path: &Path, file: u64) -> Result<(Replay, Option<Error>)> {
    let source = vfs.open_read(path)?;
    let damage = match Pieces::of(&*source, source.len()).decode(file, Purpose::Read) {
        Ok(replay) => return Ok((replay, None)),
        Err(error) => error,
    };
    // Everything before the damaged record is whole: the same bytes without it.
    let whole = damage.offset().unwrap_or_default().min(source.len());
    match Pieces::of(&*source, whole).decode(file, Purpose::Read) {
        Ok(replay) => Ok((replay, Some(damage))),
        Err(_) => Err(damage),
    }
}

/// A manifest that is being read (F3).
struct Pieces<'a> {
    source: &'a dyn ReadFile,
    /// Where it ends, or is to end.
    end: u64,
    /// The piece in memory, and where it begins.
    piece: Vec<u8>,
    from: u64,
    seed: u32,
}

impl<'a> Pieces<'a> {
    fn of(source: &'a dyn ReadFile, end: u64) -> Self {
        Pieces {
            source,
            end,
            piece: Vec::new(),
            from: 0,
            seed: 0,
        }
    }

    /// The bytes at `offset`, if there are so many.
    fn get(&mut self, offset: u64, length: u64) -> Result<Option<&[u8]>> {
        let left = self.end.saturating_sub(offset);
        let Some(bytes) = usize::try_from(length).ok().filter(|_| length <= left) else {
            return Ok(None);
        };
        let held = self.from..self.from + self.piece.len() as u64;
        if offset < held.start || offset + length > held.end {
            let wanted = length.max(left.min(PIECE_BYTES));
            self.piece.clear();
            self.piece
                .resize(usize::try_from(wanted).unwrap_or(bytes), 0);
            self.from = offset;
            self.source.read_exact_at(&mut self.piece, offset)?;
        }
        let at = usize::try_from(offset - self.from).expect("it lies in the piece");
        Ok(Some(&self.piece[at..at + bytes]))
    }

    fn decode(mut self, file: u64, purpose: Purpose) -> Result<Replay> {
        let path = self.source.path().to_path_buf();
        let head = self.get(0, self.end.min(HEADER_BYTES as u64))?;
        let head = head.unwrap_or_default();
        let header = Header::decode(head, MAGIC, file, &path, purpose)?;
        self.seed = header.seed();
        let mut replay = Replay {
            database: header.database,
            file,
            records: Vec::new(),
            torn: None,
            state: State::default(),
        };
        let mut offset = HEADER_BYTES as u64;
        while offset < self.end {
            let Some(payload) = self.payload(offset)? else {
                self.judge_tail(offset, &path)?;
                replay.torn = Some((offset, self.end - offset));
                break;
            };
            let edits = decode_payload(&payload, &path, offset)?;
            for edit in &edits {
                let applied = replay.state.apply(edit);
                applied.map_err(|found| damaged(&path, offset, found))?;
            }
            let bytes = extent(payload.len() as u64);
            replay.records.push(Record {
                offset,
                bytes,
                edits,
            });
            offset += bytes;
        }
        if replay.records.is_empty() {
            let found = "its first record is missing".into();
            return Err(damaged(&path, HEADER_BYTES as u64, found));
        }
        Ok(replay)
    }

    /// The length a whole frame at `offset` declares.
    fn frame_length(&mut self, offset: u64) -> Result<Option<u64>> {
        let seed = self.seed;
        let Some(frame) = self.get(offset, 8)? else {
            return Ok(None);
        };
        let (length, crc) = frame.split_at(4);
        if checksum::at(seed, offset, length).to_le_bytes() != *crc {
            return Ok(None);
        }
        let length = length.try_into().map(u32::from_le_bytes);
        Ok(length.ok().map(u64::from))
    }

    /// The payload of the whole record at `offset`, or `None`.
    fn payload(&mut self, offset: u64) -> Result<Option<Vec<u8>>> {
        let Some(length) = self.frame_length(offset)? else {
            return Ok(None);
        };
        let seed = self.seed;
        let Some(record) = self.get(offset, extent(length))? else {
            return Ok(None);
        };
        let (frame, padded) = record.split_at(FRAME_BYTES);
        let place = offset + FRAME_BYTES as u64;
        let mut frame = Reader::new(&frame[8..]);
        let (crc, mark) = (frame.u32(), frame.u32());
        let (stored, padding) = padded.split_at(usize::try_from(length).unwrap_or(padded.len()));
        let is_whole = mark == Some(MARK)
            && (Some(checksum::at(seed, place, padded)) == crc
                || seeded("the-manifest's-checksum-is-ignored"))
            && padding.iter().all(|byte| *byte == MASK);
        Ok(is_whole.then(|| stored.iter().map(|byte| byte ^ MASK).collect()))
    }

    /// Decides whether the bad bytes from `offset` on are a torn append (F2); an error if not.
    fn judge_tail(&mut self, offset: u64, path: &Path) -> Result<()> {
        let tail = self.end - offset;
        if tail > extent(u32::MAX.into()) {
            let found = format!("{tail} bytes follow that are no record, and more than one has");
            return Err(damaged(path, offset, found));
        }
        let (mut lacks_word, mut at) = (false, offset);
        while at < self.end {
            if at > offset && self.payload(at)?.is_some() {
                let found = format!("a record is damaged, and an intact one follows at {at}");
                return Err(damaged(path, offset, found));
            }
            let length = (self.end - at).min(WORD as u64);
            let word = self.get(at, length)?.unwrap_or_default();
            lacks_word |= word.iter().all(|byte| *byte == 0);
            at += length;
        }
        let length = self.frame_length(offset)?.map(extent);
        if length.is_some_and(|length| length < tail) {
            let found = "a record is damaged, and more follows it".into();
            return Err(damaged(path, offset, found));
        }
        let ends_early = length.is_some_and(|length| length > tail) || tail < FRAME_BYTES as u64;
        if ends_early || lacks_word {
            return Ok(());
        }
        let found = "the last record is complete, but its checksum is wrong".into();
        Err(damaged(path, offset, found))
    }
}

fn damaged(path: &Path, offset: u64, found: String) -> Error {
    Error::corruption("replay", path, offset, found).remedy("restore the database from a backup")
}

/// Bytes of a record with a payload of `length`.
fn extent(length: u64) -> u64 {
    FRAME_BYTES as u64 + length.next_multiple_of(WORD as u64)
}

fn decode_payload(payload: &[u8], path: &Path, offset: u64) -> Result<Vec<Edit>> {
    let mut reader = Reader::new(payload);
    let mut edits = Vec::new();
    while !reader.is_empty() {
        edits.push(Edit::decode(&mut reader).map_err(|fault| {
            match fault {
                Fault::Damaged(found) => damaged(path, offset, found),
                Fault::Unknown(found) => Error::new(ErrorKind::Unsupported, "replay", found)
                    .on(path)
                    .at(offset)
                    .remedy("use the version of Velella that wrote it, or a newer one"),
            }
        })?);
    }
    Ok(edits)
}

/// A manifest being written.
#[derive(Debug)]
pub(crate) struct Log {
    file: Box<dyn WriteFile>,
    seed: u32,
    length: u64,
    buffer: Vec<u8>,
}

impl Log {
    /// Writes a new manifest that holds `state`; it and its name are the caller's to sync.
    pub(crate) fn create(
        vfs: &dyn Vfs,
        dir: &Path,
        database: DatabaseId,
        file: u64,
        state: &State,
    ) -> Result<Log> {
        let path = FileName::Manifest(file).path(dir);
        let header = Header::new(database, file);
        let mut log = Log {
            file: vfs.create(&path)?,
            seed: header.seed(),
            length: 0,
            buffer: Vec::new(),
        };
        let bytes = header.encode(MAGIC);
        log.file.write_at(0, &bytes)?;
        log.length = bytes.len() as u64;
        log.write(&state.edits())?;
        Ok(log)
    }

    /// Appends one record and syncs it (F1). `NoSpace` tells of no other failure than this: there
    /// was no room, and nothing of the record is in the file, durably so.
    pub(crate) fn append(&mut self, edits: &[Edit]) -> Result<()> {
        // Nothing that `Manifest::is_refusal` knows, whatever the system called it.
        let unclear = |error: Error| match error.kind() {
            _ if lacks_descriptors(&error) => {
                Error::new(ErrorKind::Io, "write the manifest", error.to_string())
            }
            ErrorKind::NoSpace | ErrorKind::NotFound | ErrorKind::ReadOnly | ErrorKind::Closed => {
                error.with_kind(ErrorKind::Io)
            }
            _ => error,
        };
        match self.write(edits) {
            Ok(()) => self.sync().map_err(unclear),
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                // Synced, since the next record may be shorter than what is there of this one.
                let cut = self.file.set_len(self.length);
                let cut = cut.and_then(|()| self.file.sync_data());
                cut.map_err(unclear)?;
                Err(error)
            }
            Err(error) => Err(unclear(error)),
        }
    }

    /// Syncs what is written.
    pub(crate) fn sync(&self) -> Result<()> {
        match seeded("the-manifest-is-not-synced") {
            true => Ok(()),
            false => self.file.sync_data(),
        }
    }

    fn write(&mut self, edits: &[Edit]) -> Result<()> {
        let buffer = &mut self.buffer;
        buffer.clear();
        buffer.resize(FRAME_BYTES, 0);
        for edit in edits {
            edit.encode(buffer);
        }
        let length = u32::try_from(buffer.len() - FRAME_BYTES).map_err(|_| {
            Error::invalid("write a record of the manifest", "its edits exceed 4 GiB")
        })?;
        buffer.resize(buffer.len().next_multiple_of(WORD), 0);
        buffer[FRAME_BYTES..]
            .iter_mut()
            .for_each(|byte| *byte ^= MASK);
        let length = length.to_le_bytes();
        let frame_crc = checksum::at(self.seed, self.length, &length);
        let place = self.length + FRAME_BYTES as u64;
        let payload_crc = checksum::at(self.seed, place, &buffer[FRAME_BYTES..]);
        buffer[..4].copy_from_slice(&length);
        buffer[4..8].copy_from_slice(&frame_crc.to_le_bytes());
        buffer[8..12].copy_from_slice(&payload_crc.to_le_bytes());
        buffer[12..FRAME_BYTES].copy_from_slice(&MARK.to_le_bytes());
        self.file.write_at(self.length, buffer)?;
        self.length += buffer.len() as u64;
        Ok(())
    }

    /// Bytes of the manifest.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}
