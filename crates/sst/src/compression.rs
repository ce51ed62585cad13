//! How block payloads are compressed.
//!
//! ```text
//! payload := raw bytes                          type 0
//!          | raw_bytes:u32 compressed bytes     type 1 (LZ4 block), type 2 (Zstandard frame)
//! ```
//! Z1. A payload that does not shrink by an eighth is stored raw: decoding it must pay.
//! Z2. No more than the length the payload promises is allocated, and no more than
//!     [`RAW_BYTES_MAX`]; LZ4 also not more than 255 times its input, its largest ratio.
//! Z3. A `Compressor` allocates nothing for a block of less than 65,535 bytes, once its buffer is
//!     as large.
//!
//! Threads: decoding contexts are per thread. Tests: `compression/tests.rs`; Z3 in
//! `tests/allocations.rs`.

use lz4_flex::block::{
    CompressTable, compress_into, compress_into_with_table, get_maximum_output_size,
};
use std::cell::RefCell;
use std::sync::Arc;

/// Most bytes a block may have before compression: a block is closed once it reaches its target,
/// so this is the largest target plus the largest entry, generously.
pub(crate) const RAW_BYTES_MAX: usize = 64 << 20;

const ZSTD_LEVEL: i32 = 3;
const LZ4_RATIO_MAX: usize = 255;

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Compression {
    /// Not at all.
    None,
    /// LZ4: fast.
    #[default]
    Lz4,
    /// Zstandard at level 3: dense.
    Zstd,
}

impl Compression {
    /// The number that stands for it in files.
    #[must_use]
    pub fn id(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Lz4 => 1,
            Compression::Zstd => 2,
        }
    }

    /// What a number in a file stands for.
    #[must_use]
    pub fn from_id(id: u8) -> Option<Compression> {
        match id {
            0 => Some(Compression::None),
            1 => Some(Compression::Lz4),
            2 => Some(Compression::Zstd),
            _ => None,
        }
    }

    /// Its name in `inspect`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

/// Compresses one block after another with the same context.
pub(crate) struct Compressor {
    compression: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    /// For blocks of less than 65,535 bytes: others take a table of their own, of another kind.
    lz4: Option<CompressTable>,
    buffer: Vec<u8>,
}

impl Compressor {
    /// A compressor of this kind. Where Zstandard cannot be set up, blocks stay raw.
    #[must_use]
    pub(crate) fn new(compression: Compression) -> Self {
        let zstd = match compression {
            Compression::Zstd => zstd::bulk::Compressor::new(ZSTD_LEVEL).ok(),
            Compression::None | Compression::Lz4 => None,
        };
        Compressor {
            compression,
            zstd,
            lz4: (compression == Compression::Lz4).then(CompressTable::small),
            buffer: Vec::new(),
        }
    }

    /// Appends the payload for `raw` to `out` and returns what it became (Z1).
    pub(crate) fn append(&mut self, raw: &[u8], out: &mut Vec<u8>) -> Compression {
        if let Some(len) = self.compress(raw)
            && len + 4 <= raw.len() - raw.len() / 8
            && let Ok(raw_len) = u32::try_from(raw.len())
        {
            out.extend_from_slice(&raw_len.to_le_bytes());
            out.extend_from_slice(&self.buffer[..len]);
            return self.compression;
        }
        out.extend_from_slice(raw);
        Compression::None
    }

    /// Compresses into the buffer; `None`: not possible, or not wanted.
    fn compress(&mut self, raw: &[u8]) -> Option<usize> {
        match self.compression {
            Compression::None => None,
            Compression::Lz4 => {
                let bound = get_maximum_output_size(raw.len());
                if self.buffer.len() < bound {
                    self.buffer.resize(bound, 0);
                }
                let table = self.lz4.as_mut();
                let table = table.filter(|_| raw.len() < usize::from(u16::MAX));
                let compressed = match table {
                    Some(table) => compress_into_with_table(raw, &mut self.buffer, table),
                    None => compress_into(raw, &mut self.buffer),
                };
                compressed.ok()
            }
            Compression::Zstd => {
                // What does not shrink need not fit.
                if self.buffer.len() < raw.len() {
                    self.buffer.resize(raw.len(), 0);
                }
                let buffer = self.buffer.as_mut_slice();
                self.zstd.as_mut()?.compress_to_buffer(raw, buffer).ok()
            }
        }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compressor({})", self.compression.name())
    }
}

thread_local! {
    static ZSTD: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The raw bytes of a payload. The error says what was found.
///
/// # Errors
/// The payload does not decode to the length it promises (Z2).
pub(crate) fn decompress(compression: Compression, payload: &[u8]) -> Result<Arc<[u8]>, String> {
    if compression == Compression::None {
        return Ok(payload.into());
    }
    let Some((raw_len, compressed)) = payload.split_first_chunk() else {
        return Err("the payload is shorter than its length field".into());
    };
    let raw_len = u32::from_le_bytes(*raw_len) as usize;
    let most = match compression {
        Compression::Lz4 => compressed.len().saturating_mul(LZ4_RATIO_MAX),
        Compression::None | Compression::Zstd => RAW_BYTES_MAX,
    };
    if raw_len > most.min(RAW_BYTES_MAX) {
        return Err(format!(
            "the payload of {} bytes claims {raw_len} before compression",
            payload.len()
        ));
    }
    let mut raw: Arc<[u8]> = std::iter::repeat_n(0, raw_len).collect();
    let buffer = Arc::get_mut(&mut raw).expect("the count of a new Arc is one");
    let decoded = match compression {
        Compression::Zstd => unzstd(compressed, buffer),
        Compression::None | Compression::Lz4 => {
            lz4_flex::block::decompress_into(compressed, buffer).ok()
        }
    };
    match decoded {
        Some(len) if len == raw_len => Ok(raw),
        _ => Err(format!("the payload is not {} data", compression.name())),
    }
}

fn unzstd(compressed: &[u8], buffer: &mut [u8]) -> Option<usize> {
    let mut decode = |context: &mut Option<zstd::bulk::Decompressor<'static>>| {
        if context.is_none() {
            *context = zstd::bulk::Decompressor::new().ok();
        }
        let context = context.as_mut()?;
        context.decompress_to_buffer(compressed, buffer).ok()
    };
    // A thread that ends may have given up its own, and its user's destructors may yet read.
    match ZSTD.try_with(|context| decode(&mut context.borrow_mut())) {
        Ok(decoded) => decoded,
        Err(_) => decode(&mut None),
    }
}

#[cfg(test)]
mod tests;
