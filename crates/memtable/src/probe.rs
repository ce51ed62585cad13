//! A key being searched for, with what makes comparing it cheap.
//!
//! Q1. In bytewise order, the first eight bytes as a big-endian number, zero-padded, decide
//!     whenever they differ; in any other order whole keys are compared.

use std::cmp::Ordering;
use velella_base::Order;

/// The first eight bytes of a key as a number that sorts as they do, zero-padded.
#[inline]
pub(crate) fn prefix_word(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(padded)
}

/// How the first of two keys stands to the second, by their prefix words or, on a tie, whole.
#[inline]
pub(crate) fn compare<'k>(
    order: &Order,
    is_bytewise: bool,
    prefixes: (u64, u64),
    keys: impl FnOnce() -> (&'k [u8], &'k [u8]),
) -> Ordering {
    if is_bytewise && prefixes.0 != prefixes.1 {
        return prefixes.0.cmp(&prefixes.1);
    }
    let (first, second) = keys();
    order.compare(first, second)
}

/// A key being searched for.
#[derive(Clone, Copy)]
pub(crate) struct Probe<'a> {
    pub(crate) key: &'a [u8],
    prefix: u64,
    order: &'a Order,
    bytewise: bool,
}

impl<'a> Probe<'a> {
    /// A search for `key` in `order`.
    #[inline]
    pub(crate) fn new(key: &'a [u8], order: &'a Order) -> Self {
        Probe {
            key,
            prefix: prefix_word(key),
            order,
            bytewise: order.is_bytewise(),
        }
    }

    /// The key's prefix word.
    #[inline]
    pub(crate) fn prefix(&self) -> u64 {
        self.prefix
    }

    /// How the other key stands to the one searched for; `key` is asked for on a tie only.
    #[inline]
    pub(crate) fn compare<'k>(&self, prefix: u64, key: impl FnOnce() -> &'k [u8]) -> Ordering {
        if self.bytewise {
            match prefix.cmp(&self.prefix) {
                Ordering::Equal => key().cmp(self.key),
                decided => decided,
            }
        } else {
            self.order.compare(key(), self.key)
        }
    }
}
