//! What is loaded when a table is opened: footer, properties, index, filter.
//!
//! L1. Everything is checked against everything: owner, order, the file's length, and that header,
//!     data blocks, filter, index, properties and footer tile the file.
//!
//! Threads: loaded by one, read by any. Tests: tests/damage.rs.

use crate::counters::Counters;
use crate::filter::Filter;
use crate::format::{FOOTER_BYTES, Footer, Handle, MAGIC};
use crate::index::Index;
use crate::properties::Properties;
use crate::source::{Source, is_plausible};
use std::cmp::Ordering;
use std::sync::Arc;
use velella_base::checksum::Context;
use velella_base::order::BYTEWISE_NAME;
use velella_base::{Error, Order, Result};
use velella_vfs::ReadFile;

/// The parts of a table that stay in memory.
#[derive(Debug)]
pub(crate) struct Parts {
    /// The footer.
    pub footer: Footer,
    /// The properties.
    pub properties: Properties,
    /// The index.
    pub index: Index,
    /// The filter, if there is one.
    pub filter: Option<Filter>,
}

impl Parts {
    /// Loads the parts of `file`. `context` is whose table it should be, `order` the order it
    /// should have; `None` believes the file.
    ///
    /// # Errors
    /// `Corruption`, with file and offset; `Unsupported`; `InvalidInput`: another order; `Io`.
    pub(crate) fn load(
        file: Arc<dyn ReadFile>,
        context: Option<Context>,
        order: Option<Order>,
        counters: Arc<Counters>,
    ) -> Result<(Source, Parts)> {
        let footer = load_footer(&*file, context)?;
        let source = Source {
            number: footer.context.file,
            seed: footer.context.seed(),
            file,
            counters,
        };
        let properties = source.read_plain(footer.properties)?;
        let properties = Properties::decode(&properties)
            .ok_or_else(|| bad(&source, footer.properties, "the properties do not parse"))?;
        let order = match order {
            Some(order) => check_order(&source, &properties, order)?,
            None => named(&properties.order),
        };
        check_meta(&source, &footer, &properties, &order)?;
        let index = Index::decode(&source.read_plain(footer.index)?, order)
            .ok_or_else(|| bad(&source, footer.index, "the index does not parse"))?;
        check_index(&source, &footer, &properties, &index)?;
        let filter = match footer.filter.len {
            0 => None,
            _ => Some(
                Filter::decode(&source.read_plain(footer.filter)?)
                    .ok_or_else(|| bad(&source, footer.filter, "the filter does not parse"))?,
            ),
        };
        let parts = Parts {
            footer,
            properties,
            index,
            filter,
        };
        Ok((source, parts))
    }
}

/// Reads header and footer.
fn load_footer(file: &dyn ReadFile, context: Option<Context>) -> Result<Footer> {
    let len = file.len().min(FOOTER_BYTES as u64);
    let mut end = vec![0; usize::try_from(len).unwrap_or(FOOTER_BYTES)];
    file.read_exact_at(&mut end, file.len() - len)?;
    let footer = Footer::decode(&end, file.len(), file.path(), context)?;
    let mut magic = [0; MAGIC.len()];
    file.read_exact_at(&mut magic, 0)?;
    if magic != MAGIC {
        let found = "the header is not that of a Velella table";
        return Err(Error::corruption("open table", file.path(), 0, found));
    }
    Ok(footer)
}

fn check_order(source: &Source, properties: &Properties, order: Order) -> Result<Order> {
    if properties.order == order.name() {
        return Ok(order);
    }
    Err(Error::invalid(
        "open table",
        format!(
            "its keys are ordered by {:?}, not {:?}",
            properties.order,
            order.name()
        ),
    )
    .on(source.file.path())
    .remedy("open the keyspace with the order it was created with"))
}

/// The bytewise order, or one of this name that knows nothing: for a table that is only printed.
fn named(name: &str) -> Order {
    match name {
        BYTEWISE_NAME => Order::Bytewise,
        _ => Order::custom(name, |_, _| Ordering::Equal),
    }
}

fn check_meta(
    source: &Source,
    footer: &Footer,
    properties: &Properties,
    order: &Order,
) -> Result<()> {
    let meta = &properties.meta;
    let whose = meta.file == footer.context.file && meta.bytes == footer.file_bytes;
    let ranges = order.compare(&meta.smallest, &meta.largest).is_le()
        && meta.min_stamp <= meta.max_stamp
        && meta.min_expiry_ms <= meta.max_expiry_ms
        && meta.min_expiry_ms.is_some() == meta.max_expiry_ms.is_some();
    if whose && ranges {
        return Ok(());
    }
    Err(bad(
        source,
        footer.properties,
        "the properties contradict themselves or the footer",
    ))
}

fn check_index(
    source: &Source,
    footer: &Footer,
    properties: &Properties,
    index: &Index,
) -> Result<()> {
    let blocks = index.len();
    let whole = index.data_end() == footer.filter.offset
        && properties.blocks == blocks as u64
        && (blocks == 0) == (properties.meta.entries() == 0)
        && (0..blocks).all(|block| is_plausible(index.handle(block)));
    if whole {
        return Ok(());
    }
    Err(bad(
        source,
        footer.index,
        "the index describes other blocks than there are",
    ))
}

fn bad(source: &Source, handle: Handle, found: &str) -> Error {
    source.corruption(handle.offset, found)
}
