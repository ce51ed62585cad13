//! What the manifest stores of a keyspace's settings, and its encoding.
//!
//! ```text
//! settings := count:varint (tag:varint value:slice)*      tags ascending
//! ```
//! T1. A setting says how later files and memtables are made, never how existing ones are read:
//!     what would change that needs an edit kind of its own. So a build that does not know a tag
//!     loses nothing by ignoring it.
//! T2. A tag this build does not know is kept with its value, and written again.
//! T3. A setting that is not there is the database's, whatever that is at each opening.
//!
//! Pure. Tests: `manifest/tests.rs`; golden file in `tests/`.

use super::fault::Fault;
use std::fmt::Write;
use velella_base::codec::{Reader, put_slice, put_varint};
use velella_sst::Compression;

const MEMTABLE: u64 = 1;
const COMPRESSION: u64 = 2;
const BLOOM_BITS: u64 = 3;

/// Settings of a keyspace, as far as it has its own (T3).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyspaceSettings {
    /// Name of the structure of its memtables.
    pub memtable: Option<String>,
    /// Compression of its tables.
    pub compression: Option<Compression>,
    /// Bits per key of its filters.
    pub bloom_bits: Option<u32>,
    /// What a newer build stored (T2): tags, ascending, and values.
    pub unknown: Vec<(u64, Vec<u8>)>,
}

impl KeyspaceSettings {
    /// Whether everything is the database's.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == KeyspaceSettings::default()
    }

    /// In one line, as listings print it.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut text = Vec::new();
        text.extend(
            self.memtable
                .as_ref()
                .map(|name| format!("memtable={name}")),
        );
        text.extend(
            self.compression
                .map(|kind| format!("compression={}", kind.name())),
        );
        text.extend(self.bloom_bits.map(|bits| format!("bloom_bits={bits}")));
        for (tag, value) in &self.unknown {
            let mut hex = String::new();
            for byte in value {
                // Writing to a string does not fail.
                let _ = write!(hex, "{byte:02x}");
            }
            text.push(format!("setting {tag}={hex}"));
        }
        text.join(" ")
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut known: Vec<(u64, Vec<u8>)> = Vec::new();
        known.extend(
            self.memtable
                .as_ref()
                .map(|name| (MEMTABLE, name.clone().into_bytes())),
        );
        known.extend(self.compression.map(|kind| (COMPRESSION, vec![kind.id()])));
        if let Some(bits) = self.bloom_bits {
            let mut value = Vec::new();
            put_varint(&mut value, u64::from(bits));
            known.push((BLOOM_BITS, value));
        }
        known.extend(self.unknown.iter().cloned());
        known.sort_by_key(|(tag, _)| *tag);
        put_varint(out, known.len() as u64);
        for (tag, value) in &known {
            put_varint(out, *tag);
            put_slice(out, value);
        }
    }

    /// `None`: malformed.
    pub(super) fn decode(body: &mut Reader<'_>) -> Result<Option<KeyspaceSettings>, Fault> {
        let mut settings = KeyspaceSettings::default();
        let mut last = None;
        let Some(count) = body.varint() else {
            return Ok(None);
        };
        for _ in 0..count {
            // Not allocated ahead: a count beyond the bytes that are left ends here.
            let Some((tag, value)) = body.varint().zip(body.slice()) else {
                return Ok(None);
            };
            if last.is_some_and(|last| tag <= last) {
                return Ok(None);
            }
            last = Some(tag);
            if settings.set(tag, value)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(settings))
    }

    fn set(&mut self, tag: u64, value: &[u8]) -> Result<Option<()>, Fault> {
        match tag {
            MEMTABLE => {
                let Ok(name) = std::str::from_utf8(value) else {
                    return Ok(None);
                };
                self.memtable = Some(name.to_owned());
            }
            COMPRESSION => {
                let [id] = *value else {
                    return Ok(None);
                };
                let unknown =
                    || Fault::Unknown(format!("compression {id} is unknown to this build"));
                self.compression = Some(Compression::from_id(id).ok_or_else(unknown)?);
            }
            BLOOM_BITS => {
                let mut value = Reader::new(value);
                let bits = value.varint().and_then(|bits| u32::try_from(bits).ok());
                let Some(bits) = bits.filter(|_| value.is_empty()) else {
                    return Ok(None);
                };
                self.bloom_bits = Some(bits);
            }
            _ => self.unknown.push((tag, value.to_vec())),
        }
        Ok(Some(()))
    }
}
