//! The settings of a keyspace: what it has of its own, and what the database lends it.
//!
//! S1. The manifest holds what was said for the keyspace, and only that; the rest is the
//!     database's, whatever that is at each opening.
//! S2. What a newer build stored is passed on untouched.
//!
//! Pure. Tests: below; `tests/settings.rs`.

use crate::options::{KeyspaceOptions, Options, check_bloom_bits};
use velella_base::order::BYTEWISE_NAME;
use velella_base::{Error, ErrorKind, KeyspaceId, Order, Result};
use velella_memtable::MemtableKind;
use velella_sst::{Compression, TableOptions};
use velella_tree::{KeyspaceSettings, TableStyle, TreeOptions};

/// Bounds of [`table_bytes`].
const TABLE_BYTES_MIN: u64 = 2 << 20;
const TABLE_BYTES_MAX: u64 = 16 << 20;

/// The settings of a keyspace, nothing left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effective {
    pub(crate) memtable: MemtableKind,
    pub(crate) compression: Compression,
    pub(crate) bloom_bits: u32,
}

impl Effective {
    /// What the keyspace `name` has of its own, and else the database's (S1).
    pub(crate) fn of(options: &Options, own: &KeyspaceSettings, name: &str) -> Result<Effective> {
        let memtable = match &own.memtable {
            None => options.memtable,
            Some(kind) => MemtableKind::from_name(kind).ok_or_else(|| {
                let attempt = format!("open keyspace `{name}`");
                let found = format!("its memtables are `{kind}`, which this build does not have");
                Error::new(ErrorKind::Unsupported, attempt, found)
                    .remedy("open the database with the version that wrote it")
            })?,
        };
        Ok(Effective {
            memtable,
            compression: own.compression.unwrap_or(options.compression),
            bloom_bits: own.bloom_bits.unwrap_or(options.bloom_bits),
        })
    }

    pub(crate) fn style(&self) -> TableStyle {
        let upper_compression = match self.compression {
            Compression::None => Compression::None,
            // The upper levels are rewritten soon: the cheap one.
            Compression::Lz4 | Compression::Zstd => Compression::Lz4,
        };
        TableStyle {
            compression: self.compression,
            upper_compression,
            bloom_bits: self.bloom_bits,
        }
    }

    /// How the tables of a keyspace are written and arranged.
    pub(crate) fn tree_options(
        &self,
        options: &Options,
        id: KeyspaceId,
        order: Order,
    ) -> TreeOptions {
        let table = TableOptions {
            block_bytes: options.block_bytes,
            compression: self.compression,
            bloom_bits: self.bloom_bits,
            order,
        };
        TreeOptions {
            table_bytes: table_bytes(options.write_buffer),
            level_bytes: 4 * options.write_buffer,
            ..TreeOptions::new(id, table)
        }
        .styled(self.style())
    }
}

/// Target bytes of a table in the upper levels: a quarter of a write buffer, no more than that, and
/// within the bounds that syncs of many small files set, and what a compaction holds twice.
fn table_bytes(write_buffer: u64) -> u64 {
    (write_buffer / 4).clamp(TABLE_BYTES_MIN.min(write_buffer), TABLE_BYTES_MAX)
}

/// `stored` with what `own` says instead.
pub(crate) fn merged(stored: &KeyspaceSettings, own: &KeyspaceOptions) -> KeyspaceSettings {
    let mut settings = stored.clone();
    if let Some(kind) = own.memtable {
        settings.memtable = Some(kind.name().to_owned());
    }
    settings.compression = own.compression.or(settings.compression);
    settings.bloom_bits = own.bloom_bits.or(settings.bloom_bits);
    settings
}

/// An order of the user's has a name of the user's: by its name alone the next opening would take
/// it for the bytewise one, and read tables wrongly.
pub(crate) fn check_order(attempt: &str, order: &Order) -> Result<()> {
    if order.is_bytewise() || order.name() != BYTEWISE_NAME {
        return Ok(());
    }
    let found = format!("an order that is not bytewise is named `{BYTEWISE_NAME}`");
    Err(Error::invalid(attempt, found).remedy("give it a name of its own"))
}

/// Checks what does not depend on the keyspace.
pub(crate) fn check(attempt: &str, own: &KeyspaceOptions) -> Result<()> {
    own.order
        .as_ref()
        .map_or(Ok(()), |order| check_order(attempt, order))?;
    own.bloom_bits
        .map_or(Ok(()), |bits| check_bloom_bits(attempt, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_a_quarter_of_a_write_buffer_within_bounds() {
        let own = KeyspaceSettings::default();
        let of = |kib: u64| {
            let options = Options {
                write_buffer: kib << 10,
                ..Options::default()
            };
            let effective = Effective::of(&options, &own, "k").unwrap();
            let tree = effective.tree_options(&options, 1, Order::Bytewise);
            tree.table_bytes >> 10
        };
        assert_eq!(of(256), 256, "no more than a write buffer");
        assert_eq!(of(3 << 10), 2 << 10, "the least");
        assert_eq!(of(48 << 10), 12 << 10);
        assert_eq!(of(64 << 10), 16 << 10, "the default");
        assert_eq!(of(1 << 20), 16 << 10, "the most");
    }
}
