//! Which table of a level holds a key: a search over eight-byte words instead of keys.
//!
//! A level's keys often begin alike, so what all share is taken off first; the next eight bytes of
//! each table's largest key, as a big-endian word, then decide almost every comparison within one
//! array, without touching a table.
//!
//! Words preserve the order of bytes (not strictly): only ties need full comparisons. Orders other
//! than bytewise have no words and are searched by their own comparison.
//!
//! Tests: below.

use velella_base::Order;
use velella_base::order::{without_prefix, word};
use velella_sst::TableMeta;

/// The search words of one level.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fences {
    /// What every key of the level begins with.
    shared: Vec<u8>,
    /// Words of the tables' largest keys, after `shared`; empty unless bytewise.
    largest: Box<[u64]>,
    count: usize,
}

impl Fences {
    /// The words of tables that ascend and are disjoint. Asks nothing of the order.
    pub(crate) fn new<'a>(
        tables: impl ExactSizeIterator<Item = &'a TableMeta>,
        order: &Order,
    ) -> Self {
        let tables: Vec<&TableMeta> = tables.collect();
        let mut fences = Fences {
            count: tables.len(),
            ..Fences::default()
        };
        if let (true, Some(first), Some(last)) =
            (order.is_bytewise(), tables.first(), tables.last())
        {
            let ends = first.smallest.iter().zip(&last.largest);
            let shared = ends.take_while(|(a, b)| a == b).count();
            fences.shared = first.smallest[..shared].to_vec();
            let words = tables
                .iter()
                .map(|table| word(table.largest.get(shared..).unwrap_or(&[])));
            fences.largest = words.collect();
        }
        fences
    }

    /// The table whose range holds `key`; `meta` gives the tables the fences were made of.
    #[inline]
    pub(crate) fn find<'a>(
        &self,
        key: &[u8],
        order: &Order,
        meta: impl Fn(usize) -> Option<&'a TableMeta>,
    ) -> Option<usize> {
        let (mut low, mut high) = (0, self.count);
        if order.is_bytewise() {
            // A key that begins otherwise is outside the level.
            let rest = without_prefix(key, &self.shared)?;
            let word = word(rest);
            low = self.largest.partition_point(|fence| *fence < word);
            high = low;
            while self.largest.get(high) == Some(&word) {
                high += 1;
            }
            // Beyond the ties lies the first table whose largest key is surely above.
            high = (high + 1).min(self.count);
        }
        while low < high {
            let middle = low.midpoint(high);
            if order.compare(&meta(middle)?.largest, key).is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let table = meta(low)?;
        order.compare(&table.smallest, key).is_le().then_some(low)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]
    use super::*;
    use velella_sync::rng::Rng;

    fn table(smallest: &[u8], largest: &[u8]) -> TableMeta {
        TableMeta {
            smallest: smallest.to_vec(),
            largest: largest.to_vec(),
            ..TableMeta::default()
        }
    }

    fn check(tables: &[TableMeta], keys: &[Vec<u8>], order: &Order) {
        let fences = Fences::new(tables.iter(), order);
        for key in keys {
            let expected = tables.iter().position(|table| {
                order.compare(&table.smallest, key).is_le()
                    && order.compare(key, &table.largest).is_le()
            });
            let found = fences.find(key, order, |index| tables.get(index));
            assert_eq!(found, expected, "{key:?} in {tables:?}");
        }
    }

    #[test]
    fn every_key_finds_its_table_or_none() {
        let mut rng = Rng::new(7);
        for round in 0..200 {
            // Long shared beginnings and few stems of a word's length make ties.
            let prefix: &[u8] = if round % 2 == 0 {
                b"user/profile/"
            } else {
                b""
            };
            let mut keys: Vec<Vec<u8>> = (0..40)
                .map(|_| {
                    let stem = [&b"aaaaaaaa"[..], b"bbbbbbbb", b""][rng.below(3) as usize];
                    let length = rng.below(8);
                    let tail = (0..length).map(|_| b'a' + (rng.below(2) as u8));
                    let tail: Vec<u8> = tail.collect();
                    [prefix, stem, &tail].concat()
                })
                .collect();
            keys.sort();
            keys.dedup();
            let tables: Vec<TableMeta> = keys
                .chunks(3)
                .filter(|chunk| chunk.len() > 1)
                .map(|chunk| table(&chunk[0], &chunk[1]))
                .collect();
            keys.extend([
                b"".to_vec(),
                b"user".to_vec(),
                b"v".to_vec(),
                vec![0xff; 20],
            ]);
            check(&tables, &keys, &Order::Bytewise);
            let reversed = Order::custom("reversed", |a, b| b.cmp(a));
            let turned: Vec<TableMeta> = tables
                .iter()
                .rev()
                .map(|t| table(&t.largest, &t.smallest))
                .collect();
            check(&turned, &keys, &reversed);
        }
    }
}
