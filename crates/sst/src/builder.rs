//! Writes a table, front to back.
//!
//! T1. Entries come in order: keys ascend, within a key stamps descend. Equal stamps are admitted
//!     for entries of different kinds only (one batch may delete a range and put its first key).
//!     Anything else is refused.
//! T2. A block is closed once it reaches its target, so an entry is never split; a large one makes
//!     a large block.
//! T3. After an error the builder only repeats it; the caller deletes the file.
//! T4. The same entries and options give the same bytes.
//! T5. Before each block it gives way where it shares a processor: flushes and compactions, most of
//!     all background work, spend their time here.
//!
//! Threads: one. Tests: tests/model.rs, tests/golden.rs, tests/builder.rs.

use crate::block::builder::BlockBuilder;
use crate::block::view::common_prefix;
use crate::cache::BlockCache;
use crate::compression::{Compression, Compressor};
use crate::filter::{Filter, key_hash};
use crate::format::{FOOTER_BYTES, Footer, Handle, MAGIC, TRAILER_BYTES, VERSION, put_trailer};
use crate::hashes::Hashes;
use crate::index::IndexBuilder;
use crate::kept::KeptBlocks;
use crate::properties::{Properties, TableMeta};
use std::cmp::Ordering;
use std::sync::Arc;
use velella_base::checksum::Context;
use velella_base::limits::{BATCH_BYTES_MAX, check_key};
use velella_base::{Entry, Error, Order, Result, Stamp, ValueKind, seeded};
use velella_sync::turns::Turns;
use velella_vfs::WriteFile;

/// Bytes collected before they are appended to the file.
const WRITE_BYTES: usize = 256 << 10;
/// Largest target of a block.
const BLOCK_BYTES_MAX: usize = 16 << 20;

/// How to write a table.
#[derive(Debug, Clone)]
pub struct TableOptions {
    /// Target bytes of a data block before compression (default 4 KiB, at most 16 MiB).
    pub block_bytes: usize,
    /// How blocks are compressed.
    pub compression: Compression,
    /// Bits per key of the Bloom filter; 0 for none (default 10). A user's order, under which
    /// different bytes may be the same key, has none.
    pub bloom_bits: u32,
    /// The order of keys.
    pub order: Order,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            block_bytes: 4 << 10,
            compression: Compression::default(),
            bloom_bits: 10,
            order: Order::Bytewise,
        }
    }
}

/// Writes one table.
#[derive(Debug)]
pub struct TableBuilder {
    file: Box<dyn WriteFile>,
    context: Context,
    seed: u32,
    options: TableOptions,
    /// Bytes not yet appended to the file, and how many were.
    out: Vec<u8>,
    written: u64,
    block: BlockBuilder,
    raw: Vec<u8>,
    compressor: Compressor,
    turns: Turns,
    index: IndexBuilder,
    /// Length of the last block if its separator still waits for the next key.
    unindexed: Option<u64>,
    hashes: Hashes,
    last: Last,
    meta: TableMeta,
    raw_block_bytes: u64,
    kept: Option<KeptBlocks>,
    failed: Option<Error>,
}

/// The entry added last, without its value.
#[derive(Debug)]
struct Last {
    key: Vec<u8>,
    stamp: Stamp,
    kind: ValueKind,
    hash: u64,
}

impl TableBuilder {
    /// A builder onto an empty file.
    #[must_use]
    pub fn new(file: Box<dyn WriteFile>, context: Context, options: TableOptions) -> Self {
        let tagged = options.order.is_bytewise();
        TableBuilder {
            file,
            context,
            seed: context.seed(),
            out: MAGIC.to_vec(),
            written: 0,
            block: BlockBuilder::new(tagged),
            raw: Vec::new(),
            compressor: Compressor::new(options.compression),
            turns: Turns::default(),
            index: IndexBuilder::default(),
            unindexed: None,
            hashes: Hashes::default(),
            last: Last {
                key: Vec::new(),
                stamp: Stamp::ZERO,
                kind: ValueKind::Put,
                hash: 0,
            },
            meta: TableMeta::default(),
            raw_block_bytes: 0,
            kept: None,
            failed: None,
            options,
        }
    }

    /// Keeps blocks for `cache`, as far as that has room: [`TableBuilder::finish_keeping`] hands
    /// them out.
    #[must_use]
    pub fn keep_blocks(mut self, cache: Arc<BlockCache>) -> Self {
        self.kept = Some(KeptBlocks::new(cache));
        self
    }

    /// Appends an entry; entries come in order (T1).
    ///
    /// # Errors
    /// What the file system refused; `InvalidInput`: the entry is out of order, too long, or its
    /// payload is not what its kind promises.
    pub fn add(&mut self, entry: Entry<'_>) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let added = self.add_entry(entry);
        if let Err(error) = &added {
            self.failed = Some(error.clone());
        }
        added
    }

    /// Bytes written so far, with the open block counted uncompressed: for choosing where to split.
    #[must_use]
    pub fn estimated_bytes(&self) -> u64 {
        self.position() + self.block.raw_bytes() as u64
    }

    /// Whether nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.meta.entries() == 0
    }

    /// Writes what is left and syncs the file (its name is the caller's to sync).
    ///
    /// # Errors
    /// As [`TableBuilder::add`].
    pub fn finish(self) -> Result<TableMeta> {
        Ok(self.finish_keeping()?.0)
    }

    /// As [`TableBuilder::finish`], with the blocks kept for [`Table::warm`](crate::Table::warm).
    ///
    /// # Errors
    /// As [`TableBuilder::add`].
    pub fn finish_keeping(mut self) -> Result<(TableMeta, Option<KeptBlocks>)> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if !self.block.is_empty() {
            self.close_block()?;
        }
        if let Some(bytes) = self.unindexed.take() {
            self.index.add(&self.last.key, Stamp::ZERO, bytes);
        }
        let filter = self.write_filter();
        let index = self.plain_block(|builder, out| {
            builder.index.encode(&builder.options.order, out);
        });
        let properties = self.write_properties();
        let footer = Footer {
            version: VERSION,
            context: self.context,
            file_bytes: properties.end() + FOOTER_BYTES as u64,
            filter,
            index,
            properties,
            read_features: 0,
            write_features: 0,
            ignore_features: 0,
            compression: self.options.compression.id(),
        };
        self.out.extend_from_slice(&footer.encode());
        self.append()?;
        if !seeded("a-table-is-not-synced") {
            self.file.sync_all()?;
        }
        Ok((self.meta, self.kept))
    }

    fn add_entry(&mut self, entry: Entry<'_>) -> Result<()> {
        check_key(entry.key)?;
        if entry.stamp > Stamp::MAX {
            return Err(self.invalid(format!("stamp {} is beyond 56 bits", entry.stamp)));
        }
        if entry.value.len() > BATCH_BYTES_MAX {
            return Err(self.invalid(format!(
                "its value has {} bytes, the limit is {BATCH_BYTES_MAX}",
                entry.value.len()
            )));
        }
        let first = self.is_empty();
        let shared = common_prefix(&self.last.key, entry.key);
        let order = match first {
            true => Ordering::Less,
            false => self.compare_with_last(&entry, shared),
        };
        let repeated = match order {
            Ordering::Less => false,
            Ordering::Equal => {
                let repeats = entry.stamp == self.last.stamp && entry.kind != self.last.kind;
                if entry.stamp >= self.last.stamp && !repeats {
                    return Err(self.out_of_order(&entry));
                }
                true
            }
            Ordering::Greater => return Err(self.out_of_order(&entry)),
        };
        self.meta
            .count(&entry, repeated.then_some(self.last.stamp))
            .map_err(|found| self.invalid(found.into()))?;
        if let Some(bytes) = self.unindexed.take() {
            self.index_block(&entry, repeated, bytes);
        }
        if !repeated && self.options.order.is_bytewise() {
            self.last.hash = key_hash(entry.key);
            if self.options.bloom_bits > 0 {
                self.hashes.push(self.last.hash);
            }
        }
        if first {
            self.meta.smallest = entry.key.to_vec();
        }
        // The tag is the hash's low byte.
        self.block
            .add(entry, shared, self.last.hash.to_le_bytes()[0]);
        self.last.key.truncate(shared);
        self.last.key.extend_from_slice(&entry.key[shared..]);
        (self.last.stamp, self.last.kind) = (entry.stamp, entry.kind);
        if self.block.raw_bytes() >= self.options.block_bytes.min(BLOCK_BYTES_MAX) {
            self.close_block()?;
        }
        Ok(())
    }

    /// How the last key compares with the entry's, with which it shares the first `shared` bytes.
    fn compare_with_last(&self, entry: &Entry<'_>, shared: usize) -> Ordering {
        match &self.options.order {
            Order::Bytewise => self.last.key[shared..].cmp(&entry.key[shared..]),
            order => order.compare(&self.last.key, entry.key),
        }
    }

    /// Writes the open block; its separator waits for the next key.
    fn close_block(&mut self) -> Result<()> {
        self.turns.give_way();
        self.raw.clear();
        self.block.finish(&mut self.raw);
        self.raw_block_bytes += self.raw.len() as u64;
        if let Some(kept) = &mut self.kept {
            kept.push(&self.raw);
        }
        let (offset, start) = (self.position(), self.out.len());
        let became = self.compressor.append(&self.raw, &mut self.out);
        put_trailer(&mut self.out, start, became.id(), self.seed, offset);
        self.unindexed = Some((self.out.len() - start) as u64);
        if self.out.len() >= WRITE_BYTES {
            self.append()?;
        }
        Ok(())
    }

    /// Indexes the last block, now that the entry behind it is known.
    fn index_block(&mut self, next: &Entry<'_>, repeated: bool, bytes: u64) {
        if repeated {
            self.index.add(&self.last.key, self.last.stamp, bytes);
        } else {
            let mut separator = self.options.order.separator(&self.last.key, next.key);
            if seeded("a-separator-is-the-next-key") {
                separator = next.key.to_vec();
            }
            self.index.add(&separator, Stamp::ZERO, bytes);
        }
    }

    fn write_filter(&mut self) -> Handle {
        if self.hashes.is_empty() {
            return Handle {
                offset: self.position(),
                len: 0,
            };
        }
        let filter = Filter::build(&self.hashes, self.options.bloom_bits);
        self.plain_block(|_, out| filter.encode(out))
    }

    fn write_properties(&mut self) -> Handle {
        self.meta.file = self.context.file;
        self.meta.largest = std::mem::take(&mut self.last.key);
        self.meta.sort_externals();
        let mut properties = Properties {
            meta: std::mem::take(&mut self.meta),
            order: self.options.order.name().into(),
            blocks: self.index.len() as u64,
            raw_block_bytes: self.raw_block_bytes,
            bloom_bits: match self.hashes.is_empty() {
                true => 0,
                false => self.options.bloom_bits,
            },
        };
        // The file's length is a fixed-width field, so encoding once tells it.
        let len = properties.encode().len() + TRAILER_BYTES + FOOTER_BYTES;
        properties.meta.bytes = self.position() + len as u64;
        let handle = self.plain_block(|_, out| out.extend_from_slice(&properties.encode()));
        self.meta = properties.meta;
        handle
    }

    /// Writes an uncompressed block.
    fn plain_block(&mut self, encode: impl FnOnce(&Self, &mut Vec<u8>)) -> Handle {
        let (offset, start) = (self.position(), self.out.len());
        let mut out = std::mem::take(&mut self.out);
        encode(self, &mut out);
        put_trailer(&mut out, start, Compression::None.id(), self.seed, offset);
        self.out = out;
        Handle {
            offset,
            len: (self.out.len() - start) as u64,
        }
    }

    fn position(&self) -> u64 {
        self.written + self.out.len() as u64
    }

    fn append(&mut self) -> Result<()> {
        self.file.append(&self.out)?;
        self.written += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    fn out_of_order(&self, entry: &Entry<'_>) -> Error {
        self.invalid(format!(
            "key {:?} at stamp {} comes after key {:?} at stamp {}",
            entry.key.escape_ascii().to_string(),
            entry.stamp,
            self.last.key.escape_ascii().to_string(),
            self.last.stamp
        ))
    }

    fn invalid(&self, found: String) -> Error {
        Error::invalid("add an entry to table", found).on(self.file.path())
    }
}
