//! Which compaction to do next: a pure function of the tables' metadata.
//!
//! Source: scores and levels as in LevelDB; the table with the least overlap in the next level per
//! byte goes first, RocksDB's `kMinOverlappingRatio`.
//!
//! P1. A choice from level 0 holds every level 0 table that overlaps another of the choice: an
//!     older version never stays above a newer one.
//! P2. A choice holds every table of the output level that overlaps its key range, so the level
//!     stays disjoint; two running jobs never share an input, nor overlap in an output level.
//! P3. When level 0 is due and cannot start for tables of level 1 that are taken, no other job
//!     takes tables of level 1, but for P6: otherwise it could wait for ever.
//! P4. What is rewritten in its place loses by it whatever it was chosen for, so it is not chosen
//!     again.
//! P5. Where flushes are small and their keys ascend, tables move down and meet nothing. Such that
//!     are small are merged with their neighbours, in their level, once they are many and none is
//!     most of them: so an entry is written once more each time that its table doubles. What
//!     becomes of them is small as well, since keys that come between them later meet all of it.
//! P6. While level 1 is due, its tables go before those of level 0, until these are so many that
//!     writers will soon be braked: level 0 takes all of level 1 along, and while that lasts
//!     nothing leaves level 1. If none of level 1 can start, level 0 does.
//! P7. Once writers are braked for the tables of level 0, these and level 1 go before deeper
//!     levels: a tree that was made with larger ones has some that are far more over their targets.
//! P8. With nothing due, level 0 goes down for what it deletes, if that is most of what it holds
//!     and worth what it meets: where nobody writes any more, nothing else would take it along.
//!
//! Tests: `picker/tests.rs`, what leaves in `picker/tests/leaving.rs`.

use crate::pressure::{is_level0_due, target};
use std::collections::HashSet;
use velella_base::{Order, ValueKind, seeded};
use velella_mvcc::Retention;
use velella_sst::TableMeta;
use velella_tree::TreeOptions;

/// The tables of a tree by level: level 0 newest first, deeper ones ascending.
pub(crate) type Shape<'a> = [Vec<&'a TableMeta>];

/// A range of keys in a level, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) level: usize,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

/// What running jobs have taken.
#[derive(Debug, Default)]
pub(crate) struct Busy {
    /// Their inputs, by file number.
    pub(crate) files: HashSet<u64>,
    /// Where they write.
    pub(crate) outputs: Vec<Span>,
}

/// What a compaction is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The level whose tables go down.
    pub(crate) level: usize,
    /// File numbers of the inputs at `level`.
    pub(crate) upper: Vec<u64>,
    /// File numbers of the inputs at the output level; none when that is `level`.
    pub(crate) lower: Vec<u64>,
    /// Where the result goes.
    pub(crate) output: Span,
    /// The one input only changes its level: nothing is read or written.
    pub(crate) is_move: bool,
}

impl Choice {
    /// Every input.
    pub(crate) fn files(&self) -> impl Iterator<Item = u64> {
        self.upper.iter().chain(&self.lower).copied()
    }
}

/// Crumbs are at most this share of level 1: 256 KiB of 256 MiB.
const CRUMBS_SHARE: u64 = 1024;
/// So many neighbours become one table at least, and at most (P5).
const NEIGHBOURS: usize = 8;
const NEIGHBOURS_MAX: usize = 64;
/// They have at most this share of a table of their level: 1 MiB of 16 MiB.
const NEIGHBOURS_SHARE: u64 = 16;
/// More of the entries of a last table than one in so many are deletes, or lie where nobody sees
/// them, where it is rewritten without them. What three snapshots saw of a deleted range is three
/// values under each delete.
const LAST_SHARE: u64 = 5;
/// Level 0 goes down for what it deletes if that is as much as one in so many of what it meets.
const EMPTIED_SHARE: u64 = 4;
/// An output may overlap so much of the level below its own as this many tables of its own level
/// have; then it is split.
pub(crate) const GRANDPARENT_TABLES: u64 = 10;

struct Picker<'a> {
    shape: &'a Shape<'a>,
    busy: &'a Busy,
    options: &'a TreeOptions,
}

/// The most useful compaction that can start now; `retention` says what nobody needs any more.
pub(crate) fn pick(
    shape: &Shape<'_>,
    busy: &Busy,
    options: &TreeOptions,
    retention: &Retention,
) -> Option<Choice> {
    let picker = Picker {
        shape,
        busy,
        options,
    };
    let mut due: Vec<(f64, usize)> = (0..shape.len())
        .map(|level| (picker.score(level), level))
        .filter(|(score, _)| *score >= 1.0)
        .collect();
    // P7.
    let may_wait = |level: usize| level > 1 && picker.is_level0_braking();
    due.sort_by(|a, b| {
        let by_need = may_wait(a.1).cmp(&may_wait(b.1));
        by_need.then(b.0.total_cmp(&a.0))
    });
    let level0_due = due.iter().any(|(_, level)| *level == 0);
    let from_level0 = level0_due.then(|| picker.level0_choice(|_| true)).flatten();
    let level1_first = due.iter().any(|(_, level)| *level == 1) && picker.may_level0_wait();
    for (_, level) in due {
        let choice = match level {
            // P6.
            0 if level1_first => picker.level_choice(1, |_| true).or(from_level0.clone()),
            0 => from_level0.clone(),
            // P3.
            1 if level0_due && from_level0.is_none() => None,
            _ => picker.level_choice(level, |_| true),
        };
        if choice.is_some() {
            return choice;
        }
    }
    // P3: here, level 0 is due only if it could not start.
    let from = if level0_due { 2 } else { 1 };
    let upper = picker.crumbs().or_else(|| picker.worth());
    let upper = upper.or_else(|| picker.emptied(retention));
    upper
        .or_else(|| picker.tombstones(from, retention))
        .or_else(|| picker.expired(from, retention))
        .or_else(|| picker.neighbours(from))
}

/// Level 0 goes down, however little it is: one level is left to search instead of its tables.
pub(crate) fn pick_gathering(
    shape: &Shape<'_>,
    busy: &Busy,
    options: &TreeOptions,
) -> Option<Choice> {
    let picker = Picker {
        shape,
        busy,
        options,
    };
    picker.level0_choice(|_| true)
}

/// The next step of a full compaction of the tables in `pending`: the uppermost level that holds
/// some goes down, and at the last level each is rewritten once, neighbours that fit into one table
/// together.
pub(crate) fn pick_full(
    shape: &Shape<'_>,
    busy: &Busy,
    pending: &HashSet<u64>,
    options: &TreeOptions,
) -> Option<Choice> {
    let picker = Picker {
        shape,
        busy,
        options,
    };
    let last = shape.len().saturating_sub(1).max(1);
    let is_pending = |table: &TableMeta| pending.contains(&table.file);
    let level = shape
        .iter()
        .position(|tables| tables.iter().any(|table| is_pending(table)))?;
    match level {
        0 => picker.level0_choice(is_pending),
        level if level < last => picker.level_choice(level, is_pending),
        level => picker.rewrite(level, is_pending),
    }
}

impl Picker<'_> {
    fn order(&self) -> &Order {
        &self.options.table.order
    }

    fn tables(&self, level: usize) -> &[&TableMeta] {
        self.shape.get(level).map_or(&[], |tables| tables)
    }

    fn is_busy(&self, table: &TableMeta) -> bool {
        self.busy.files.contains(&table.file)
    }

    /// How much `level` needs a compaction: from 1 on it is due.
    #[expect(
        clippy::cast_precision_loss,
        reason = "scores are compared, not summed"
    )]
    fn score(&self, level: usize) -> f64 {
        let free = self
            .tables(level)
            .iter()
            .filter(|table| !self.is_busy(table));
        let tables = free.clone().count();
        let bytes: u64 = free.map(|table| table.bytes).sum();
        if level == 0 {
            let below = self.tables(1).iter().map(|table| table.bytes).sum();
            let is_due = is_level0_due(tables, bytes, below, self.options);
            let score = tables as f64 / self.options.level0_start.max(1) as f64;
            return if is_due { score } else { 0.0 };
        }
        bytes as f64 / target(level, self.options).max(1) as f64
    }

    /// Whether level 0 is not yet halfway from where it goes down at the latest to where writers
    /// are braked for it (P6).
    fn may_level0_wait(&self) -> bool {
        let TreeOptions {
            level0_latest,
            level0_slow,
            ..
        } = *self.options;
        self.tables(0).len() < level0_latest.midpoint(level0_slow)
    }

    fn is_level0_braking(&self) -> bool {
        self.tables(0).len() >= self.options.level0_slow
    }

    fn overlaps(&self, table: &TableMeta, span: &Span) -> bool {
        let order = self.order();
        order.compare(&table.smallest, &span.largest).is_le()
            && order.compare(&span.smallest, &table.largest).is_le()
    }

    fn widen(&self, span: &mut Span, table: &TableMeta) {
        let order = self.order();
        if order.compare(&table.smallest, &span.smallest).is_lt() {
            span.smallest.clone_from(&table.smallest);
        }
        if order.compare(&table.largest, &span.largest).is_gt() {
            span.largest.clone_from(&table.largest);
        }
    }

    /// The first choice that starts with a wanted table of level 0.
    fn level0_choice(&self, wanted: impl Fn(&TableMeta) -> bool) -> Option<Choice> {
        self.level0_choices(wanted).next()
    }

    /// Choices that start with a wanted table of level 0, oldest first (P1).
    fn level0_choices(&self, wanted: impl Fn(&TableMeta) -> bool) -> impl Iterator<Item = Choice> {
        let tables = self.tables(0);
        let seeds = tables.iter().rev().filter(move |table| wanted(table));
        seeds.copied().filter_map(move |seed| {
            let mut span = span_of(seed, 1);
            let mut inputs = vec![seed];
            loop {
                let before = inputs.len();
                for &table in tables {
                    let known = inputs.iter().any(|input| input.file == table.file);
                    if !known && self.overlaps(table, &span) {
                        self.widen(&mut span, table);
                        inputs.push(table);
                    }
                }
                if inputs.len() == before {
                    break;
                }
            }
            self.choose(0, &inputs, span)
        })
    }

    /// A choice of one wanted table of a deeper level, the one with the least overlap first.
    fn level_choice(&self, level: usize, wanted: impl Fn(&TableMeta) -> bool) -> Option<Choice> {
        let mut ranked: Vec<(u64, &TableMeta)> = self
            .tables(level)
            .iter()
            .filter(|table| wanted(table) && !self.is_busy(table))
            .map(|table| (self.overlap_ratio(level, table), *table))
            .collect();
        ranked.sort_by_key(|(ratio, table)| (*ratio, table.file));
        ranked
            .into_iter()
            .find_map(|(_, table)| self.choose(level, &[table], span_of(table, level + 1)))
    }

    /// Bytes met in the next level per 1024 bytes of the table.
    fn overlap_ratio(&self, level: usize, table: &TableMeta) -> u64 {
        let span = span_of(table, level + 1);
        let met: u64 = self
            .overlapping(&span)
            .iter()
            .map(|table| table.bytes)
            .sum();
        met.saturating_mul(1024) / table.bytes.max(1)
    }

    /// The tables of a deeper level that overlap the span.
    fn overlapping(&self, span: &Span) -> &[&TableMeta] {
        let order = self.order();
        let tables = self.tables(span.level);
        let from =
            tables.partition_point(|table| order.compare(&table.largest, &span.smallest).is_lt());
        let to = tables.partition_point(|table| {
            let ordering = order.compare(&table.smallest, &span.largest);
            match seeded("a-compaction-misses-a-touching-table") {
                true => ordering.is_lt(),
                false => ordering.is_le(),
            }
        });
        tables.get(from..to).unwrap_or(&[])
    }

    /// Completes a choice with the tables of the output level (P2), unless something is busy.
    fn choose(&self, level: usize, upper: &[&TableMeta], mut span: Span) -> Option<Choice> {
        let lower = self.overlapping(&span).to_vec();
        if upper.iter().chain(&lower).any(|table| self.is_busy(table)) {
            return None;
        }
        for table in &lower {
            self.widen(&mut span, table);
        }
        if self.is_written(&span) {
            return None;
        }
        let recompresses =
            level == 1 && self.options.upper_compression != self.options.table.compression;
        Some(Choice {
            level,
            upper: upper.iter().map(|table| table.file).collect(),
            lower: lower.iter().map(|table| table.file).collect(),
            is_move: upper.len() == 1 && lower.is_empty() && !recompresses,
            output: span,
        })
    }

    /// Whether a running job writes into the span.
    fn is_written(&self, span: &Span) -> bool {
        let order = self.order();
        self.busy.outputs.iter().any(|other| {
            other.level == span.level
                && order.compare(&other.smallest, &span.largest).is_le()
                && order.compare(&span.smallest, &other.largest).is_le()
        })
    }

    /// Rewrites a wanted table of the last level in its place, to drop what nobody reads, with
    /// wanted ones that follow it as far as they fit into one table.
    fn rewrite(&self, level: usize, wanted: impl Fn(&TableMeta) -> bool) -> Option<Choice> {
        let tables = self.tables(level);
        let table_bytes = self.options.table_bytes_at(level);
        (0..tables.len()).find_map(|from| {
            let run = self.run(&tables[from..], table_bytes, &wanted);
            self.rewrite_run(level, run)
                .or_else(|| self.rewrite_run(level, run.get(..1)?))
        })
    }

    /// The first table and those that follow it, while they are wanted and free, and have at most
    /// so many bytes together.
    fn run<'t>(
        &self,
        tables: &'t [&TableMeta],
        bytes_max: u64,
        wanted: impl Fn(&TableMeta) -> bool,
    ) -> &'t [&'t TableMeta] {
        let mut bytes = 0u64;
        let ends = |table: &&TableMeta| {
            let is_first = bytes == 0;
            bytes = bytes.saturating_add(table.bytes.max(1));
            let fits = is_first || bytes <= bytes_max;
            !fits || !wanted(table) || self.is_busy(table)
        };
        &tables[..tables.iter().position(ends).unwrap_or(tables.len())]
    }

    /// Rewrites neighbours in their place, unless somebody writes between them.
    fn rewrite_run(&self, level: usize, run: &[&TableMeta]) -> Option<Choice> {
        let (first, last) = (run.first()?, run.last()?);
        let output = Span {
            level,
            smallest: first.smallest.clone(),
            largest: last.largest.clone(),
        };
        (!self.is_written(&output)).then(|| Choice {
            level,
            upper: run.iter().map(|table| table.file).collect(),
            lower: Vec::new(),
            output,
            is_move: false,
        })
    }

    /// With nothing due: neighbours of level `from` or deeper that are small (P5).
    fn neighbours(&self, from: usize) -> Option<Choice> {
        (from..self.shape.len()).find_map(|level| {
            let tables = self.tables(level);
            (0..tables.len()).find_map(|first| self.small_run(level, &tables[first..]))
        })
    }

    /// The most of the first tables that are to be merged.
    fn small_run(&self, level: usize, tables: &[&TableMeta]) -> Option<Choice> {
        let table_bytes = self.options.table_bytes_at(level);
        let near = &tables[..tables.len().min(NEIGHBOURS_MAX)];
        let mut run = self.run(near, table_bytes / NEIGHBOURS_SHARE, |_| true);
        // What meets more would be written as so many tables again (P4).
        let most_met = table_bytes.saturating_mul(GRANDPARENT_TABLES);
        loop {
            run = &run[..longest_even(run)?];
            let choice = self.rewrite_run(level, run)?;
            let below = Span {
                level: level + 1,
                ..choice.output.clone()
            };
            let met = self.overlapping(&below).iter().map(|table| table.bytes);
            if met.sum::<u64>() < most_met {
                return Some(choice);
            }
            run = &run[..run.len() / 2];
        }
    }

    /// With nothing due: what is so little at level 0, with what it meets below, that each reader
    /// pays more for searching it than one merge costs.
    fn crumbs(&self) -> Option<Choice> {
        let choice = self.level0_choice(|_| true)?;
        let tables = self.tables(0).iter().chain(self.tables(1));
        let inputs = tables.filter(|table| choice.files().any(|file| file == table.file));
        let bytes: u64 = inputs.map(|table| table.bytes).sum();
        (bytes <= self.options.level_bytes / CRUMBS_SHARE).then_some(choice)
    }

    /// With nothing due: tables of level 0 that are worth it by themselves, beside what they meet,
    /// though all of them beside all of level 1 are not.
    fn worth(&self) -> Option<Choice> {
        let bytes = |level: usize, files: &[u64]| -> u64 {
            let tables = self.tables(level).iter();
            let chosen = tables.filter(|table| files.contains(&table.file));
            chosen.map(|table| table.bytes).sum()
        };
        let free = self.tables(0).iter().filter(|table| !self.is_busy(table));
        let free = free.count();
        let is_worth = |choice: &Choice| {
            let (upper, lower) = (bytes(0, &choice.upper), bytes(1, &choice.lower));
            is_level0_due(free, upper, lower, self.options)
        };
        self.level0_choices(|_| true).find(is_worth)
    }

    /// With nothing due: tables of level 0 that are mostly tombstones, or have expired, and have a
    /// quarter as many of them as there is in what they meet (P8).
    fn emptied(&self, retention: &Retention) -> Option<Choice> {
        let leaving = |table: &TableMeta| leaving_from_level0(table, retention);
        let choices = self.level0_choices(|table| is_most(leaving(table), table));
        let mut worth = choices.filter(|choice| {
            let sum = |level: usize, files: &[u64], of: &dyn Fn(&TableMeta) -> u64| -> u64 {
                let tables = self.tables(level).iter();
                let chosen = tables.filter(|table| files.contains(&table.file));
                chosen.map(|table| of(table)).sum()
            };
            let leave = sum(0, &choice.upper, &leaving);
            let entries = sum(0, &choice.upper, &TableMeta::entries);
            let met = sum(1, &choice.lower, &TableMeta::entries);
            leave > entries / 2 && leave >= met / EMPTIED_SHARE
        });
        worth.next()
    }

    /// With nothing due: a table that is mostly tombstones goes down, to take what it deletes
    /// along. In the last level one is rewritten without them once nobody reads below them, and
    /// for fewer: they came there without meeting anything, or beside what snapshots saw of their
    /// keys, which goes with them. So does what snapshots saw of keys that were put again. Under a
    /// merge operand, or above a range delete, some stay: where such are, it takes most as well
    /// (P4).
    fn tombstones(&self, from: usize, retention: &Retention) -> Option<Choice> {
        let deletes = |table: &TableMeta| table.kinds[ValueKind::Delete as usize];
        let is_deleted = |table: &TableMeta| is_most(deletes(table), table);
        self.down_from(from, is_deleted, |table| {
            let keeps = [ValueKind::RangeDelete, ValueKind::Merge];
            let is_plain = keeps.iter().all(|kind| table.kinds[*kind as usize] == 0);
            let is_past = table.max_stamp <= retention.oldest();
            let deleted = if is_past { deletes(table) } else { 0 };
            let leaving = deleted.saturating_add(unseen(table, retention));
            is_past && is_deleted(table) || is_plain && leaving > table.entries() / LAST_SHARE
        })
    }

    /// With nothing due either: a table of which most has expired goes down, or is rewritten where
    /// it is the last.
    fn expired(&self, from: usize, retention: &Retention) -> Option<Choice> {
        let now_ms = retention.now_ms();
        let is_expired = |table: &TableMeta| {
            let is_past = table.max_expiry_ms.is_some_and(|latest| latest < now_ms);
            is_past && is_most(expiring(table), table)
        };
        self.down_from(from, is_expired, is_expired)
    }

    /// The first table of level `from` or deeper that `goes_down`, or that `is_rewritten` in the
    /// last level.
    fn down_from(
        &self,
        from: usize,
        goes_down: impl Fn(&TableMeta) -> bool,
        is_rewritten: impl Fn(&TableMeta) -> bool,
    ) -> Option<Choice> {
        let last = self.shape.len().saturating_sub(1);
        let rewrite = || self.rewrite(last, is_rewritten);
        (from..last)
            .find_map(|level| self.level_choice(level, &goes_down))
            .or_else(|| (from <= last).then(rewrite).flatten())
    }
}

/// The most of the first tables, at least [`NEIGHBOURS`], of which none is larger than the others
/// together (P5).
fn longest_even(run: &[&TableMeta]) -> Option<usize> {
    let (mut bytes, mut largest, mut longest) = (0u64, 0, None);
    for (count, table) in (1..).zip(run) {
        bytes = bytes.saturating_add(table.bytes);
        largest = largest.max(table.bytes);
        if count >= NEIGHBOURS && largest <= bytes - largest {
            longest = Some(count);
        }
    }
    longest
}

/// How many entries of a table of level 0 are worth taking down for what they take along: deletes
/// that nobody reads below, and what has expired. A large value may be one that never does.
fn leaving_from_level0(table: &TableMeta, retention: &Retention) -> u64 {
    let is_past = table.max_stamp <= retention.oldest();
    let deletes = table.kinds[ValueKind::Delete as usize];
    let now_ms = retention.now_ms();
    let is_expired = table.max_expiry_ms.is_some_and(|latest| latest < now_ms);
    let expired = table.kinds[ValueKind::PutExpiring as usize];
    let of = |is: bool, entries: u64| if is { entries } else { 0 };
    of(is_past, deletes) + of(is_expired, expired)
}

/// Entries of the table that may expire.
fn expiring(table: &TableMeta) -> u64 {
    let kinds = [ValueKind::PutExpiring, ValueKind::External];
    kinds.iter().map(|kind| table.kinds[*kind as usize]).sum()
}

/// Whether `count` of the table's entries are most of them.
fn is_most(count: u64, table: &TableMeta) -> bool {
    count > table.entries() / 2
}

/// How many of the table's entries nobody sees, since newer ones of their keys are in everybody's
/// past.
fn unseen(table: &TableMeta, retention: &Retention) -> u64 {
    let shadowed = table.shadowed.unwrap_or_default();
    match shadowed.by <= retention.oldest() {
        true => shadowed.entries,
        false => 0,
    }
}

fn span_of(table: &TableMeta, level: usize) -> Span {
    Span {
        level,
        smallest: table.smallest.clone(),
        largest: table.largest.clone(),
    }
}

#[cfg(test)]
mod tests;
