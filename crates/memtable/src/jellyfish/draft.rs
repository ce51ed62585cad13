//! A guard directory in the making, a few towers at a time.
//!
//! Not from the paper, whose index is made by a thread of its own. Here writers make it, and none
//! of them shall wait for all of it: walking past a hundred thousand towers takes milliseconds.
//! So each writer that comes by while a directory is due goes a short way and leaves the rest to
//! the next.
//!
//! D1. The towers of a level are collected in the order of the list, from the head on. What is
//!     linked behind the place reached so far is left out, what is linked ahead is met: so the
//!     guards are sorted, whatever is inserted meanwhile.
//! D2. Higher levels are walked before lower ones, so that what was met above is met below: links
//!     are made bottom-up and never undone.
//! D3. A walk takes as many steps as it was given. What finishes it takes a copy of all guards;
//!     where a selector chooses, also that choice, from a sample of the words, and a pass over
//!     towers.
//! D4. A selector says where guards should stand. One that is too low for what it stands before
//!     is of no use, so the highest of the towers close before the place becomes a guard; and
//!     before, since a key between the place and its guard would be left to the guard before,
//!     which may stand where guards are dense, and be low. Whatever it answers, or if it panics,
//!     guards are sorted and not too many.
//!
//! Threads: one at a time has the draft. Tests: `a_directory_made_in_pieces_is_the_same` in
//! `tests.rs` beside; of selectors, `tests/selected.rs`.

use crate::jellyfish::chooser::Chooser;
use crate::jellyfish::directory::{Directory, Guard, shared};
use crate::jellyfish::tower::Tower;
use std::ops::Range;
use std::sync::Arc;

/// A guard stands before its place by at most this share of the towers to the next one (D4).
const NEAR: usize = 4;

/// Words of keys that a selector is told for each guard that there may be, and at least.
const SAMPLE_EACH: usize = 4;
const SAMPLE_MIN: usize = 1 << 14;

/// What a directory is to be made of.
#[derive(Debug)]
pub(crate) struct Aim<'l> {
    /// The list's head.
    pub(crate) top: Tower<'l>,
    /// How many levels are in use.
    pub(crate) height: usize,
    /// The level whose towers become guards.
    pub(crate) lowest: usize,
    /// Most guards; where the level has more, the highest of each few becomes one.
    pub(crate) most: usize,
    /// Who chooses instead: then the lowest level is the first, or it could not choose closely.
    pub(crate) chooser: Option<Arc<Chooser>>,
}

/// A tower that becomes a guard, and how many towers it is to guide to.
#[derive(Debug, Clone, Copy)]
struct Pick {
    at: usize,
    area: usize,
}

/// How far a draft has come.
#[derive(Debug)]
enum Stage<'l> {
    /// The next tower to be met, on the level that is being walked.
    Walk {
        level: usize,
        next: Option<Tower<'l>>,
    },
    /// All guards are chosen; what all their keys begin with is so long.
    Words { shared: usize },
}

/// A directory in the making.
#[derive(Debug)]
pub(crate) struct Draft<'l> {
    lowest: usize,
    most: usize,
    top: Tower<'l>,
    stage: Stage<'l>,
    /// The towers of the level above, and how many of them were met below.
    higher: Vec<Guard<'l>>,
    met: usize,
    /// Those of this level; in the end, the guards.
    towers: Vec<Guard<'l>>,
    words: Vec<u64>,
    /// Each tower becomes a guard.
    is_whole: bool,
    /// Towers that the list had when all was walked past.
    of: Option<usize>,
    /// Who is still to choose among the towers.
    chooser: Option<Arc<Chooser>>,
}

impl<'l> Draft<'l> {
    /// Nothing walked yet.
    pub(crate) fn new(aim: Aim<'l>) -> Self {
        let level = aim.height.saturating_sub(1).max(aim.lowest);
        Draft {
            lowest: aim.lowest,
            most: aim.most,
            top: aim.top,
            stage: Stage::Walk {
                level,
                // SAFETY: the top has every level.
                next: unsafe { aim.top.next(level) },
            },
            higher: Vec::new(),
            met: 0,
            towers: Vec::new(),
            words: Vec::new(),
            is_whole: false,
            of: None,
            chooser: aim.chooser,
        }
    }

    /// Goes on for `steps` towers; whether all was walked past by then, and [`Draft::finish`] is
    /// what is left.
    pub(crate) fn walk(&mut self, steps: usize) -> bool {
        for _ in 0..steps {
            match self.stage {
                Stage::Walk { level, next } => match next {
                    Some(tower) => self.meet(tower, level),
                    None => self.descend(level),
                },
                Stage::Words { shared } if self.words.len() < self.towers.len() => {
                    let word = Directory::word_of(&self.towers, self.words.len(), shared);
                    self.words.push(word);
                }
                Stage::Words { .. } => return true,
            }
        }
        false
    }

    /// Both in one.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn whole(mut self) -> Directory {
        assert!(self.walk(usize::MAX), "steps for everything");
        self.finish()
    }

    /// How many towers it is of, once all was walked past: those that the list had then, or at the
    /// first call since, when it has `now`.
    pub(crate) fn of(&mut self, now: usize) -> usize {
        *self.of.get_or_insert(now)
    }

    /// The directory, of what was walked past (D3).
    ///
    /// # Panics
    /// Not all was.
    pub(crate) fn finish(&mut self) -> Directory {
        let Stage::Words { shared } = self.stage else {
            unreachable!("D3: a draft is finished once all was walked past");
        };
        debug_assert_eq!(self.words.len(), self.towers.len(), "D3");
        if let Some(chooser) = self.chooser.take() {
            self.select(&chooser, shared);
        }
        if self.towers.len() > self.most {
            // The selector wanted too many, or panicked the last time.
            self.thin_evenly();
        }
        let words = std::mem::take(&mut self.words);
        Directory::new(&self.towers, words, shared, self.is_whole)
    }

    fn meet(&mut self, tower: Tower<'l>, level: usize) {
        let above = self.higher.get(self.met);
        let levels = match above.filter(|guard| guard.tower == tower) {
            Some(guard) => {
                self.met += 1;
                guard.levels
            }
            None => level + 1,
        };
        self.towers.push(Guard {
            tower,
            node: tower.node(),
            levels,
        });
        // SAFETY: reached on this level.
        let next = unsafe { tower.next(level) };
        self.stage = Stage::Walk { level, next };
    }

    /// The end of a level: goes on with the one below, or chooses the guards.
    fn descend(&mut self, level: usize) {
        if level == self.lowest {
            self.choose();
            return;
        }
        self.higher = std::mem::take(&mut self.towers);
        self.towers.reserve(self.higher.len() * 4 + 16);
        self.met = 0;
        let level = level - 1;
        // SAFETY: the top has every level.
        let next = unsafe { self.top.next(level) };
        self.stage = Stage::Walk { level, next };
    }

    fn choose(&mut self) {
        self.higher = Vec::new();
        let each = self.towers.len().div_ceil(self.most).max(1);
        self.is_whole = self.lowest == 0 && each == 1;
        if self.is_whole {
            // There is nothing to choose.
            self.chooser = None;
        }
        if self.chooser.is_none() {
            self.thin_evenly();
        }
        self.words.reserve_exact(self.towers.len());
        self.stage = Stage::Words {
            shared: shared(&self.towers),
        };
    }

    /// D4. All words are known.
    fn select(&mut self, chooser: &Chooser, shared: usize) {
        let told = self.most.saturating_mul(SAMPLE_EACH).max(SAMPLE_MIN);
        let each = self.words.len().div_ceil(told).max(1);
        let sample: Vec<u64> = self.words.iter().copied().step_by(each).collect();
        let mut places = chooser.choose(&sample, shared, self.most);
        // Anybody's selector: that it answers in order (Z1) is made sure of.
        places.sort_unstable();
        let start = |place: &u64| self.words.partition_point(|word| word < place);
        let mut starts: Vec<usize> = places.iter().map(start).collect();
        starts.dedup();
        // Nothing is above the last tower.
        starts.retain(|start| *start < self.words.len());
        if starts.is_empty() {
            // It has nothing to go by yet.
            return self.thin_evenly();
        }
        let ends = starts.iter().skip(1).copied().chain([self.towers.len()]);
        let mut picks: Vec<Pick> = Vec::with_capacity(starts.len());
        for (start, end) in starts.iter().copied().zip(ends) {
            let free = picks.last().map_or(0, |pick| pick.at + 1);
            let from = start.saturating_sub((end - start) / NEAR).max(free);
            let at = self.highest(from..start + 1);
            let area = end - at;
            picks.push(Pick { at, area });
        }
        self.keep(&picks);
    }

    /// Leaves the highest of each few towers.
    fn thin_evenly(&mut self) {
        let len = self.towers.len();
        let each = len.div_ceil(self.most).max(1);
        if each == 1 {
            let enough = self.lowest + 1;
            for guard in &mut self.towers {
                guard.levels = guard.levels.min(enough);
            }
            return;
        }
        let pick = |start| Pick {
            at: self.highest(start..(start + each).min(len)),
            area: each,
        };
        let picks: Vec<Pick> = (0..len).step_by(each).map(pick).collect();
        self.keep(&picks);
    }

    /// The last of the highest of these towers, of which there are some.
    fn highest(&self, towers: Range<usize>) -> usize {
        let start = towers.start;
        let highest = towers.max_by_key(|at| self.towers[*at].levels);
        highest.unwrap_or(start)
    }

    /// Leaves these towers alone, each to be entered no higher than its area asks for
    /// (S3-10).
    fn keep(&mut self, picks: &[Pick]) {
        let guard = |pick: &Pick| {
            let enough = self.lowest + 1 + pick.area.ilog2().div_ceil(2) as usize;
            let guard = self.towers[pick.at];
            Guard {
                levels: guard.levels.min(enough),
                ..guard
            }
        };
        let guards = picks.iter().map(guard).collect();
        let known = picks.iter().filter_map(|pick| self.words.get(pick.at));
        self.words = known.copied().collect();
        self.towers = guards;
    }
}
