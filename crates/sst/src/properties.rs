//! What a table says of itself, for whoever has not read it: counts, ranges, references.
//!
//! ```text
//! properties := meta order_name:slice blocks:varint raw_block_bytes:varint bloom_bits:varint
//!               [shadowed:varint shadowed_by:varint …]
//! meta       := file:u64 bytes:u64 kinds:varint[6] smallest:slice largest:slice
//!               min_stamp:varint max_stamp:varint min_expiry max_expiry raw_bytes:varint
//!               externals:varint (difference:varint)*
//! expiry     := 0 | 1 milliseconds:varint
//! ```
//! P1. `TableMeta` has one encoding, which the manifest uses too, but for what is shadowed: that
//!     stands in the properties alone, which are read before a table is used.
//! P2. What follows the known properties is ignored: later builds may append. The first tables end
//!     with `bloom_bits`.
//! P3. External numbers ascend; they are stored as differences.
//! P4. Entries and bytes stay below 2^44 each, so that sums over a million tables do not overflow:
//!     what says more was not written by us.
//!
//! Threads: none. Tests: below.

use velella_base::codec::{Reader, put_slice, put_varint};
use velella_base::external::ExternalRef;
use velella_base::{Entry, Stamp, ValueKind};

/// See P4.
const SUM_MAX: u64 = 1 << 44;

/// What is known of a table without reading it: stands in the manifest and in the properties block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableMeta {
    /// The file's number.
    pub file: u64,
    /// The file's length in bytes.
    pub bytes: u64,
    /// Entries per kind, indexed by `kind as usize` (index 0 unused).
    pub kinds: [u64; 7],
    /// Smallest user key.
    pub smallest: Vec<u8>,
    /// Largest user key.
    pub largest: Vec<u8>,
    /// Lowest stamp.
    pub min_stamp: Stamp,
    /// Highest stamp.
    pub max_stamp: Stamp,
    /// Earliest expiry in milliseconds since 1970, if any entry expires.
    pub min_expiry_ms: Option<u64>,
    /// Latest expiry.
    pub max_expiry_ms: Option<u64>,
    /// Bytes of keys and values before compression.
    pub raw_bytes: u64,
    /// Numbers of the external values it refers to, ascending.
    pub externals: Vec<u64>,
    /// What lies beneath newer versions of the same keys; `None` where the builder did not say.
    pub shadowed: Option<Shadowed>,
}

/// The entries of a table that have a newer version of their key above them, in the same table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shadowed {
    /// How many there are.
    pub entries: u64,
    /// The highest stamp of a version right above one of them: who reads at it or later sees none.
    pub by: Stamp,
}

impl Shadowed {
    /// Counts one more, right below the version at `above`.
    pub(crate) fn count(&mut self, above: Stamp) {
        self.entries += 1;
        self.by = self.by.max(above);
    }
}

impl TableMeta {
    /// Entries of all kinds.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.kinds.iter().sum()
    }

    /// Appends the encoding (P1).
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        self.kinds[1..]
            .iter()
            .for_each(|&count| put_varint(out, count));
        put_slice(out, &self.smallest);
        put_slice(out, &self.largest);
        put_varint(out, self.min_stamp.0);
        put_varint(out, self.max_stamp.0);
        for expiry in [self.min_expiry_ms, self.max_expiry_ms] {
            out.push(u8::from(expiry.is_some()));
            expiry.into_iter().for_each(|at| put_varint(out, at));
        }
        put_varint(out, self.raw_bytes);
        put_varint(out, self.externals.len() as u64);
        let mut before = 0;
        for &number in &self.externals {
            put_varint(out, number.wrapping_sub(before));
            before = number;
        }
    }

    /// Takes an encoding off the front of `reader`; `None` if there is none.
    #[must_use]
    pub fn decode(reader: &mut Reader<'_>) -> Option<TableMeta> {
        let mut meta = TableMeta {
            file: reader.u64()?,
            bytes: reader.u64()?,
            ..TableMeta::default()
        };
        for count in &mut meta.kinds[1..] {
            *count = reader.varint()?;
        }
        meta.smallest = reader.slice()?.to_vec();
        meta.largest = reader.slice()?.to_vec();
        meta.min_stamp = Stamp::of(reader.varint()?)?;
        meta.max_stamp = Stamp::of(reader.varint()?)?;
        meta.min_expiry_ms = expiry(reader)?;
        meta.max_expiry_ms = expiry(reader)?;
        meta.raw_bytes = reader.varint()?;
        let externals = usize::try_from(reader.varint()?).ok()?;
        // Each takes a byte at least.
        if externals > reader.rest().len() {
            return None;
        }
        let mut number = 0u64;
        for _ in 0..externals {
            number = number.checked_add(reader.varint()?)?;
            meta.externals.push(number);
        }
        meta.is_summable().then_some(meta)
    }

    /// Whether sums over many tables cannot overflow: no real figure comes near (P4).
    fn is_summable(&self) -> bool {
        let entries = self
            .kinds
            .iter()
            .try_fold(0, |sum: u64, &count| sum.checked_add(count));
        [entries, Some(self.bytes), Some(self.raw_bytes)]
            .iter()
            .all(|figure| figure.is_some_and(|figure| figure < SUM_MAX))
    }

    /// Counts an entry, of the same key as the one at `above` where that is given. Keys, file and
    /// length are the caller's to set; external numbers are collected as they come. The error says
    /// what is wrong with the payload.
    pub(crate) fn count(
        &mut self,
        entry: &Entry<'_>,
        above: Option<Stamp>,
    ) -> Result<(), &'static str> {
        let expires = match entry.kind {
            ValueKind::PutExpiring => {
                let expiry = Reader::new(entry.value).u64();
                Some(expiry.ok_or("the payload of an expiring put has no expiry")?)
            }
            ValueKind::External => {
                let reference = ExternalRef::decode(entry.value)
                    .ok_or("the payload of an external value is no reference")?;
                self.externals.push(reference.file);
                Some(reference.expires_at_ms)
            }
            _ => None,
        };
        // 0 stands for never.
        if let Some(at) = expires.filter(|at| *at != 0) {
            self.min_expiry_ms = Some(self.min_expiry_ms.map_or(at, |least| least.min(at)));
            self.max_expiry_ms = Some(self.max_expiry_ms.map_or(at, |most| most.max(at)));
        }
        let shadowed = self.shadowed.get_or_insert_default();
        above.into_iter().for_each(|above| shadowed.count(above));
        let first = self.kinds == [0; 7];
        self.kinds[entry.kind as usize] += 1;
        if first || entry.stamp < self.min_stamp {
            self.min_stamp = entry.stamp;
        }
        self.max_stamp = self.max_stamp.max(entry.stamp);
        self.raw_bytes += (entry.key.len() + entry.value.len()) as u64;
        Ok(())
    }

    /// Brings the external numbers into order, each once (P3).
    pub(crate) fn sort_externals(&mut self) {
        self.externals.sort_unstable();
        self.externals.dedup();
    }
}

/// The properties block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Properties {
    /// What the manifest knows too.
    pub meta: TableMeta,
    /// Name of the order of keys.
    pub order: String,
    /// Data blocks.
    pub blocks: u64,
    /// Bytes of the data blocks before compression.
    pub raw_block_bytes: u64,
    /// Bits per key of the Bloom filter; 0: there is none.
    pub bloom_bits: u32,
}

impl Properties {
    /// The block as it stands in the file, before its trailer. Its length does not depend on
    /// `meta.bytes`.
    #[must_use]
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.meta.encode(&mut out);
        put_slice(&mut out, self.order.as_bytes());
        put_varint(&mut out, self.blocks);
        put_varint(&mut out, self.raw_block_bytes);
        put_varint(&mut out, u64::from(self.bloom_bits));
        if let Some(shadowed) = self.meta.shadowed {
            put_varint(&mut out, shadowed.entries);
            put_varint(&mut out, shadowed.by.0);
        }
        out
    }

    /// Reads the block; `None` if `bytes` are none (P2).
    #[must_use]
    pub(crate) fn decode(bytes: &[u8]) -> Option<Properties> {
        let mut reader = Reader::new(bytes);
        let mut properties = Properties {
            meta: TableMeta::decode(&mut reader)?,
            order: String::from_utf8(reader.slice()?.to_vec()).ok()?,
            blocks: reader.varint()?,
            raw_block_bytes: reader.varint()?,
            bloom_bits: u32::try_from(reader.varint()?).ok()?,
        };
        if !reader.rest().is_empty() {
            let shadowed = Shadowed {
                entries: reader.varint()?,
                by: Stamp::of(reader.varint()?)?,
            };
            if shadowed.entries > properties.meta.entries() {
                return None;
            }
            properties.meta.shadowed = Some(shadowed);
        }
        Some(properties)
    }
}

fn expiry(reader: &mut Reader<'_>) -> Option<Option<u64>> {
    match reader.u8()? {
        0 => Some(None),
        1 => reader.varint().map(Some),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties() -> Properties {
        let mut meta = TableMeta {
            file: 3,
            bytes: 1 << 40,
            smallest: b"a".to_vec(),
            largest: vec![0xff; 300],
            ..TableMeta::default()
        };
        let external = |file, expires_at_ms| {
            ExternalRef {
                file,
                length: 1,
                crc: 2,
                expires_at_ms,
            }
            .encode()
        };
        let mut above = None;
        let mut add = |kind, stamp, value: &[u8]| {
            let entry = Entry {
                key: b"key",
                stamp: Stamp(stamp),
                kind,
                value,
            };
            meta.count(&entry, above.replace(Stamp(stamp)))
        };
        add(ValueKind::Put, 9, b"value").unwrap();
        add(ValueKind::External, 7, &external(500, 0)).unwrap();
        add(ValueKind::External, 8, &external(40, 77)).unwrap();
        add(ValueKind::External, 6, &external(40, 0)).unwrap();
        add(ValueKind::PutExpiring, 5, &99u64.to_le_bytes()).unwrap();
        assert!(add(ValueKind::PutExpiring, 5, b"short").is_err());
        assert!(add(ValueKind::External, 5, b"short").is_err());
        meta.sort_externals();
        Properties {
            meta,
            order: "velella.bytewise".into(),
            blocks: 3,
            raw_block_bytes: 12_000,
            bloom_bits: 10,
        }
    }

    #[test]
    fn figures_beyond_reason_are_refused() {
        let refused = |change: fn(&mut TableMeta)| {
            let mut meta = properties().meta;
            change(&mut meta);
            let mut bytes = Vec::new();
            meta.encode(&mut bytes);
            TableMeta::decode(&mut Reader::new(&bytes)).is_none()
        };
        assert!(!refused(|meta| meta.kinds[1] = SUM_MAX - 5));
        assert!(refused(|meta| meta.kinds[1] = SUM_MAX));
        assert!(refused(|meta| meta.kinds[1..3].fill(u64::MAX)));
        assert!(refused(|meta| meta.bytes = SUM_MAX));
        assert!(refused(|meta| meta.raw_bytes = u64::MAX));
    }

    #[test]
    fn entries_are_counted_by_kind_stamp_expiry_and_reference() {
        let meta = properties().meta;
        assert_eq!(meta.entries(), 5);
        assert_eq!(meta.kinds, [0, 1, 0, 1, 0, 0, 3]);
        assert_eq!((meta.min_stamp, meta.max_stamp), (Stamp(5), Stamp(9)));
        assert_eq!(
            (meta.min_expiry_ms, meta.max_expiry_ms),
            (Some(77), Some(99))
        );
        assert_eq!(meta.externals, [40, 500]);
        assert_eq!(meta.raw_bytes, 5 * 3 + 5 + 3 * 28 + 8);
        let (entries, by) = (4, Stamp(9));
        assert_eq!(meta.shadowed, Some(Shadowed { entries, by }));
    }

    #[test]
    fn properties_round_trip_truncations_are_refused_and_additions_ignored() {
        let properties = properties();
        let mut bytes = properties.encode();
        assert_eq!(Properties::decode(&bytes), Some(properties.clone()));
        let mut first = properties.clone();
        first.meta.shadowed = None;
        let without = first.encode().len();
        for len in 0..bytes.len() {
            let expected = (len == without).then(|| first.clone());
            assert_eq!(Properties::decode(&bytes[..len]), expected, "{len}");
        }
        bytes.extend_from_slice(b"a later build's");
        assert_eq!(Properties::decode(&bytes), Some(properties));
    }
}
