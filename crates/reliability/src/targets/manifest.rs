//! A manifest made of any records.
//!
//! ```text
//! input  := mode:u8 damage:(offset:u16 mask:u8) record*
//! record := length:u16 edits                           framed here, with right checksums
//! ```
//! M1. Reading ends with a state, or an error that names file and (if it is damage) offset.
//! M2. A manifest that opens for writing has the state that was read, takes an edit more, and
//!     reopens with it.
//! M3. What `salvage` saves is whole records from the start.
//!
//! Source: docs/format/manifest.md. Threads: any. Tests: `tests/corpus.rs`.

use crate::draws::Draws;
use std::path::Path;
use std::sync::Arc;
use velella_base::ErrorKind;
use velella_base::checksum::{Context, at, crc32c};
use velella_base::codec::Reader;
use velella_base::file_name::FileName;
use velella_tree::{Edit, Manifest};
use velella_vfs::{MemFs, Vfs};

const DATABASE: u128 = 0x7e11_e11a;
const FILE: u64 = 1;
const HEADER_BYTES: usize = 64;
const MASK: u8 = 0xC0;
const MARK: u32 = 0xC0C0_C0C0;

/// Records of edits.
pub fn manifest(bytes: &[u8]) {
    let dir = Path::new("/db");
    let fs = lay(dir, &file(bytes));
    let path = FileName::Manifest(FILE).path(dir);
    let replayed = Manifest::replay(&fs, dir);
    match &replayed {
        Ok(replay) => {
            let whole: u64 = replay.records.iter().map(|record| record.bytes).sum();
            let end = replay
                .torn
                .map_or_else(|| fs.len(&path).ok(), |torn| Some(torn.0));
            assert_eq!(
                Some(HEADER_BYTES as u64 + whole),
                end,
                "M1: records tile the file"
            );
            reopened(&fs, dir, &replay.state);
        }
        Err(error) => {
            let placed = error.kind() == ErrorKind::Unsupported
                || (error.kind() == ErrorKind::Corruption && error.offset().is_some());
            assert!(placed && error.file().is_some(), "M1: {error:?}");
        }
    }
    if let Ok((saved, damage)) = Manifest::salvage(&fs, &path, FILE) {
        let mut at = HEADER_BYTES as u64;
        for record in &saved.records {
            assert_eq!(record.offset, at, "M3");
            at += record.bytes;
        }
        assert_eq!(damage.is_none(), replayed.is_ok(), "M3");
    }
}

/// M2. A state may still be refused for writing, or because it has no room for an edit more.
fn reopened(fs: &MemFs, dir: &Path, state: &velella_tree::State) {
    let Ok((manifest, opened)) = Manifest::open(Arc::new(fs.clone()), dir) else {
        return;
    };
    // Opening takes file numbers in advance.
    assert!(opened.next_file >= state.next_file, "M2");
    let next_file = opened.next_file;
    let expected = velella_tree::State {
        next_file,
        ..state.clone()
    };
    assert_eq!(opened, expected, "M2");
    let ms = 1;
    let edit = Edit::WallClock { ms };
    if manifest.commit(std::slice::from_ref(&edit)).is_err() {
        return;
    }
    let after = manifest.state();
    drop(manifest);
    let again = Manifest::read(fs, dir).map(|(_, state)| state);
    assert_eq!(again.ok(), Some(after), "M2: after an edit more");
}

/// A database directory of this one manifest.
fn lay(dir: &Path, manifest: &[u8]) -> MemFs {
    let fs = MemFs::new();
    let name = format!("MANIFEST-{FILE:06}");
    let current = format!("{name} {:08x}\n", crc32c(name.as_bytes()));
    let laid = fs
        .create_dir_all(dir)
        .and_then(|()| fs.write_file(&FileName::Manifest(FILE).path(dir), manifest))
        .and_then(|()| fs.write_file(&FileName::Current.path(dir), current.as_bytes()));
    if let Err(error) = laid {
        panic!("memory refuses a file: {error}");
    }
    fs
}

/// The file that the input describes.
fn file(bytes: &[u8]) -> Vec<u8> {
    let mut draws = Draws::new(bytes);
    let (mode, place, mask) = (draws.u8(), draws.u16(), draws.u8());
    let seed = Context {
        database: DATABASE,
        file: FILE,
    }
    .seed();
    let mut out = b"VELELLAM".to_vec();
    out.extend_from_slice(&1u32.to_le_bytes());
    for mask in [0u64, u64::from(mode & 4), 0] {
        out.extend_from_slice(&mask.to_le_bytes());
    }
    out.extend_from_slice(&DATABASE.to_le_bytes());
    out.extend_from_slice(&FILE.to_le_bytes());
    let crc = at(seed, 0, &out);
    out.extend_from_slice(&crc.to_le_bytes());
    while !draws.is_empty() {
        let length = draws.u16();
        frame(&mut out, seed, draws.bytes(length.into()));
    }
    if mode & 1 == 1 {
        let place = usize::from(place) % out.len();
        out[place] ^= mask;
    }
    if mode & 2 == 2 {
        out.truncate(usize::from(place).max(HEADER_BYTES));
    }
    out
}

fn frame(out: &mut Vec<u8>, seed: u32, payload: &[u8]) {
    let offset = out.len() as u64;
    let length = u32::try_from(payload.len()).unwrap_or(0);
    let mut padded: Vec<u8> = payload.iter().map(|byte| byte ^ MASK).collect();
    padded.resize(padded.len().next_multiple_of(8), MASK);
    let frame_crc = at(seed, offset, &length.to_le_bytes());
    for word in [length, frame_crc, at(seed, offset + 16, &padded), MARK] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&padded);
}

/// The input that describes the manifest `file`, as far as its records are whole: to begin with.
#[must_use]
pub fn describe(file: &[u8]) -> Vec<u8> {
    let mut input = vec![0; 4];
    let mut rest = Reader::new(file.get(HEADER_BYTES..).unwrap_or_default());
    while let Some(length) = rest.u32() {
        let stored = rest
            .bytes(12)
            .and_then(|_| rest.bytes(usize::try_from(length).ok()?.next_multiple_of(8)));
        let (Some(stored), Ok(short)) = (stored, u16::try_from(length)) else {
            break;
        };
        input.extend_from_slice(&short.to_le_bytes());
        input.extend(stored[..usize::from(short)].iter().map(|byte| byte ^ MASK));
    }
    input
}
