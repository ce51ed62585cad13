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
//! D3. A call takes as many steps as it was given, and the last one a copy of words besides.
//!
//! Threads: one at a time has the draft. Tests: `a_directory_made_in_pieces_is_the_same` in
//! `tests.rs` beside.

use crate::jellyfish::directory::{Directory, Guard, shared};
use crate::jellyfish::tower::Tower;

/// What a directory is to be made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aim<'l> {
    /// The list's head.
    pub(crate) top: Tower<'l>,
    /// How many levels are in use.
    pub(crate) height: usize,
    /// The level whose towers become guards.
    pub(crate) lowest: usize,
    /// Most guards; where the level has more, the highest of each few becomes one.
    pub(crate) most: usize,
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
        }
    }

    /// Goes on for `steps` towers (D3); the directory, if that was the end.
    pub(crate) fn advance(&mut self, steps: usize) -> Option<Directory> {
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
                Stage::Words { shared } => {
                    let words = std::mem::take(&mut self.words);
                    let is_whole = self.is_whole;
                    return Some(Directory::new(&self.towers, words, shared, is_whole));
                }
            }
        }
        None
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
        if each > 1 {
            let highest = |few: &[Guard<'l>]| few.iter().max_by_key(|guard| guard.levels).copied();
            self.towers = self.towers.chunks(each).filter_map(highest).collect();
        }
        // An area that is small needs no high guard.
        let enough = self.lowest + 1 + each.ilog2().div_ceil(2) as usize;
        for guard in &mut self.towers {
            guard.levels = guard.levels.min(enough);
        }
        self.words.reserve_exact(self.towers.len());
        self.stage = Stage::Words {
            shared: shared(&self.towers),
        };
    }
}
