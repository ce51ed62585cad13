//! The tables of a tree at one moment: immutable, shared, read without a lock.
//!
//! V1. Level 0 is ordered newest first by highest stamp; its tables may overlap in keys, and in
//!     stamps where one manifest edit installed several (a recovery).
//! V2. The tables of a deeper level ascend and are disjoint by user key: all versions of a key in
//!     a level are in one table.
//! V3. For one key, every version in a level is newer than every version in a deeper one, or the
//!     same once more: while a compaction hands over, and after it was cut off.
//!
//! Threads: immutable. Tests: `tests/model.rs`.

use crate::search::Fences;
use std::collections::HashSet;
use std::sync::Arc;
use velella_base::{Order, Result, Stamp, seeded};
use velella_sst::{Found, Tally};
use velella_tree::{Level, TableFile};

/// One level: its tables, and for the deeper ones how to find a key's.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    files: Arc<[Arc<TableFile>]>,
    fences: Fences,
}

/// Tables that join one level and tables that leave any.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) level: usize,
    pub(crate) joining: Vec<Arc<TableFile>>,
    pub(crate) leaving: HashSet<u64>,
}

/// An immutable set of tables per level.
#[derive(Debug)]
pub(crate) struct Version {
    levels: Vec<Tables>,
    sizes: Vec<Level>,
    order: Order,
}

impl Tables {
    fn new(mut files: Vec<Arc<TableFile>>, level: usize, order: &Order) -> Self {
        if level == 0 {
            files.sort_by_key(|file| {
                let meta = file.meta();
                std::cmp::Reverse((meta.max_stamp, meta.file))
            });
        } else {
            files.sort_by(|a, b| order.compare(&a.meta().smallest, &b.meta().smallest));
        }
        let fences = Fences::new(files.iter().map(|file| file.meta()), order);
        Tables {
            files: files.into(),
            fences,
        }
    }

    /// Without those of `leaving`. They stay in order, so the order is not asked.
    fn without(&self, leaving: &HashSet<u64>, order: &Order) -> Tables {
        let stays = |file: &&Arc<TableFile>| !leaving.contains(&file.meta().file);
        if self.files.iter().all(|file| stays(&file)) {
            return self.clone();
        }
        let files: Arc<[_]> = self.files.iter().filter(stays).cloned().collect();
        Tables {
            fences: Fences::new(files.iter().map(|file| file.meta()), order),
            files,
        }
    }

    fn size(&self) -> Level {
        let metas = || self.files.iter().map(|file| file.meta());
        Level {
            tables: self.files.len(),
            bytes: metas().map(|meta| meta.bytes).sum(),
            entries: metas().map(|meta| meta.entries()).sum(),
        }
    }

    /// The tables, in the level's order (V1, V2).
    pub(crate) fn files(&self) -> &Arc<[Arc<TableFile>]> {
        &self.files
    }

    /// The table of a deeper level whose range holds `key`.
    #[inline]
    fn find(&self, key: &[u8], order: &Order) -> Option<&TableFile> {
        let at = self.fences.find(key, order, |index| {
            self.files.get(index).map(|file| file.meta())
        })?;
        self.files.get(at).map(|file| &**file)
    }
}

impl Version {
    /// A version of these tables, in any order within their levels.
    pub(crate) fn new(levels: Vec<Vec<Arc<TableFile>>>, order: &Order) -> Self {
        let levels = levels.into_iter().enumerate();
        let levels = levels.map(|(level, files)| Tables::new(files, level, order));
        Self::of(levels.collect(), order)
    }

    /// What the level that tables join becomes. Nothing is asked of the order if it is level 0, or
    /// none joins.
    pub(crate) fn level_after(&self, change: &Change) -> Tables {
        let empty = Tables::default();
        let before = self.levels.get(change.level).unwrap_or(&empty);
        let stay = before.without(&change.leaving, &self.order);
        if change.joining.is_empty() {
            return stay;
        }
        let files = stay.files.iter().chain(&change.joining);
        Tables::new(files.cloned().collect(), change.level, &self.order)
    }

    /// What this version becomes by a change, of whose `level` that becomes of it. Nothing is asked
    /// of the order.
    pub(crate) fn after(&self, change: &Change, level: Tables) -> Self {
        let levels = self.levels.iter();
        let mut levels: Vec<Tables> = levels
            .map(|tables| tables.without(&change.leaving, &self.order))
            .collect();
        if levels.len() <= change.level {
            levels.resize_with(change.level + 1, Tables::default);
        }
        levels[change.level] = level;
        Self::of(levels, &self.order)
    }

    fn of(mut levels: Vec<Tables>, order: &Order) -> Self {
        while levels.last().is_some_and(|tables| tables.files.is_empty()) {
            levels.pop();
        }
        Version {
            sizes: levels.iter().map(Tables::size).collect(),
            levels,
            order: order.clone(),
        }
    }

    /// The levels, upper first; the last is not empty.
    pub(crate) fn levels(&self) -> &[Tables] {
        &self.levels
    }

    /// The tables of `level`, which need not exist.
    pub(crate) fn files(&self, level: usize) -> &[Arc<TableFile>] {
        self.levels.get(level).map_or(&[], |tables| &tables.files)
    }

    /// Every table.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<TableFile>> {
        self.levels.iter().flat_map(|tables| tables.files.iter())
    }

    /// The newest version of `key` at or below `at`.
    #[inline]
    pub(crate) fn get(
        &self,
        key: &[u8],
        hash: u64,
        at: Stamp,
        tally: &mut Tally,
    ) -> Result<Option<Found>> {
        let Some((upper, deeper)) = self.levels.split_first() else {
            return Ok(None);
        };
        // Each of them may be the one, and is asked after the one before.
        for file in upper.files.iter() {
            file.table().prefetch(hash);
        }
        let mut best: Option<Found> = None;
        for file in upper.files.iter() {
            let meta = file.meta();
            // V1: what follows is older still.
            if best
                .as_ref()
                .is_some_and(|best| meta.max_stamp <= best.stamp || seeded("level-0-answers-once"))
            {
                break;
            }
            if meta.min_stamp > at || !file.overlaps(&self.order, key, key) {
                continue;
            }
            if let Some(found) = file.table().look_up(key, hash, at, tally)?
                && best.as_ref().is_none_or(|best| found.stamp > best.stamp)
            {
                best = Some(found);
            }
        }
        if best.is_some() {
            return Ok(best);
        }
        for tables in deeper {
            if let Some(file) = tables.find(key, &self.order)
                && file.meta().min_stamp <= at
                && let Some(found) = file.table().look_up(key, hash, at, tally)?
            {
                // V3: nothing deeper is newer.
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Whether some level below `level` may hold `key`.
    pub(crate) fn lies_below(&self, level: usize, key: &[u8]) -> bool {
        self.levels
            .iter()
            .skip(level + 1)
            .any(|tables| tables.find(key, &self.order).is_some())
    }

    /// Sizes per level.
    pub(crate) fn sizes(&self) -> &[Level] {
        &self.sizes
    }

    /// The first two neighbours of a deeper level that overlap (V2).
    pub(crate) fn overlap(&self) -> Option<(usize, &TableFile, &TableFile)> {
        self.levels
            .iter()
            .enumerate()
            .skip(1)
            .find_map(|(level, tables)| {
                tables.files.windows(2).find_map(|pair| {
                    let [low, high] = pair else { return None };
                    let apart = self
                        .order
                        .compare(&low.meta().largest, &high.meta().smallest)
                        .is_lt();
                    (!apart).then_some((level, &**low, &**high))
                })
            })
    }
}
