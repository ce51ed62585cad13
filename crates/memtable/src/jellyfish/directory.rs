//! The guard directory: from a key to a tower close before it, and its node, in a few cache lines.
//!
//! Source: S3 (VLDB '19) 3 and 4.3, whose top layer is FAST over the keys of guards. Here a guard
//! is an ordinary tower of the list, so none is made for the purpose, and none is in the way.
//!
//! ```text
//! lines   words of the guards, eight to a cache line; above them, level by level, the first words
//!         of eight lines each, up to a single line
//! nodes   one per guard: where a search goes on among keys
//! towers  one per guard: where one goes on that goes down level by level
//! levels  how many levels each guard is entered at
//! ```
//! G1. Guards are sorted by key. A word is eight bytes of a guard's key, from behind what all
//!     guards' keys begin with (`shared`); equal words are told apart by the whole keys.
//! G2. A guard's tower is linked on all of the levels it is entered at. (Whoever built the
//!     directory came by on the highest of them; links are made bottom-up and never undone.)
//! G3. A directory never changes, and lives until no pinned thread can be looking at it. Its towers
//!     and nodes live as long as the list, which may end first: only `guard` hands them out.
//! G4. The node of a guard is that of its tower.
//!
//! Threads: any. Tests: `tests.rs` beside.

use crate::chains::node::Node;
use crate::jellyfish::tower::Tower;
use crate::ordering::{Site, is_sound};
use crate::probe::{Probe, prefix_word};
use std::cmp::Ordering as Compared;
use std::marker::PhantomData;
use velella_sync::prefetch::prefetch_at;

/// Words of a line.
const LINE: usize = 8;

/// Shared bytes that are worth leaving out of the words: fewer leave enough to tell keys apart.
const SHARED_MIN: usize = 4;

/// How many guards are asked for ahead of the one whose key is read.
const AHEAD: usize = 16;

/// What a guard takes: word, its share of the lines above, two addresses and levels.
pub(crate) const BYTES_PER_GUARD: usize = 8 + 2 + 16 + 1;

/// A cache line of words, the unused ones at the end the greatest there is.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Line([u64; LINE]);

impl Line {
    /// How many of the words `is_before` holds for: the first so many. One word says in which half
    /// they end. Asked of all eight at once, it compiles to a count of bits, of twice the time.
    #[inline]
    fn count(&self, is_before: impl Fn(u64) -> bool) -> usize {
        const HALF: usize = LINE / 2;
        let start = if is_before(self.0[HALF - 1]) { HALF } else { 0 };
        let half = self.0[start..start + HALF].iter();
        start + half.filter(|word| is_before(**word)).count()
    }
}

/// A tower, the node it stands on, and on how many levels it may be entered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Guard<'l> {
    pub(crate) tower: Tower<'l>,
    /// Known without a look at the tower: who wants only the node need not wait for that.
    pub(crate) node: Node<'l>,
    pub(crate) levels: usize,
}

/// What of a guard is read next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted {
    Node,
    Tower,
}

/// Where a directory says to begin: between two guards, which are looked up when they are asked
/// for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entrance<'d, 'l> {
    directory: &'d Directory,
    /// How many guards are below the key.
    at: usize,
    /// Whether the first that is not has the key itself.
    pub(crate) is_found: bool,
    /// Lines and keys looked at.
    pub(crate) comparisons: u64,
    life: PhantomData<Guard<'l>>,
}

impl<'l> Entrance<'_, 'l> {
    /// The last guard below the key, if one is.
    #[inline]
    pub(crate) fn below(&self) -> Option<Guard<'l>> {
        self.guard(self.at.checked_sub(1)?)
    }

    /// The first that is not.
    #[inline]
    pub(crate) fn above(&self) -> Option<Guard<'l>> {
        self.guard(self.at)
    }

    #[inline]
    fn guard(&self, at: usize) -> Option<Guard<'l>> {
        let is_there = at < self.directory.len();
        // SAFETY: whoever called `enter` vouches for the list.
        is_there.then(|| unsafe { self.directory.guard(at) })
    }
}

/// A directory of guards.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// What all guards' keys begin with, if that is worth anything.
    shared: Box<[u8]>,
    /// All lines: the guards' first, the single line last.
    lines: Box<[Line]>,
    /// Where each height begins in `lines`, the single line first.
    heights: Vec<usize>,
    nodes: Box<[Node<'static>]>,
    towers: Box<[Tower<'static>]>,
    levels: Box<[u8]>,
    /// Whether each tower was a guard when the directory was made.
    pub(crate) is_whole: bool,
}

// SAFETY: towers and nodes are shared by all threads anyway; the rest is plain data.
unsafe impl Send for Directory {}
// SAFETY: as for Send.
unsafe impl Sync for Directory {}

impl Directory {
    /// A directory of `guards`, which are sorted by key, bytewise, with their words: of what
    /// follows the first `shared` bytes.
    pub(crate) fn new(
        guards: &[Guard<'_>],
        mut words: Vec<u64>,
        shared: usize,
        is_whole: bool,
    ) -> Directory {
        let mut lines = Vec::new();
        let mut heights = Vec::new();
        while !words.is_empty() {
            let start = lines.len();
            heights.push(start);
            for words in words.chunks(LINE) {
                let mut line = Line([u64::MAX; LINE]);
                line.0[..words.len()].copy_from_slice(words);
                lines.push(line);
            }
            if lines.len() - start == 1 {
                break;
            }
            words = lines[start..].iter().map(|line| line.0[0]).collect();
        }
        heights.reverse();
        let levels = |guard: &Guard<'_>| u8::try_from(guard.levels).expect("few levels");
        Directory {
            shared: guards
                .first()
                .map_or(&[][..], |guard| &guard.node.key()[..shared])
                .into(),
            lines: lines.into(),
            heights,
            // SAFETY: G3: nobody gets them for longer than their list lives.
            nodes: guards
                .iter()
                .map(|guard| unsafe { guard.node.extend() })
                .collect(),
            // SAFETY: as above.
            towers: guards
                .iter()
                .map(|guard| unsafe { guard.tower.extend() })
                .collect(),
            levels: guards.iter().map(levels).collect(),
            is_whole,
        }
    }

    /// The word of guard `at`, behind the first `shared` bytes of its key.
    pub(crate) fn word_of(guards: &[Guard<'_>], at: usize, shared: usize) -> u64 {
        if shared == 0 {
            return guards[at].tower.prefix();
        }
        if let Some(soon) = guards.get(at + AHEAD) {
            soon.node.prefetch_start();
        }
        prefix_word(&guards[at].node.key()[shared..])
    }

    /// How many bytes at the start of every guard's key its words leave out.
    pub(crate) fn shared(&self) -> usize {
        self.shared.len()
    }

    /// How many guards there are.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.lines)
            + size_of_val(&*self.nodes)
            + size_of_val(&*self.towers)
            + self.levels.len()
    }

    /// Where a search for the key of `probe` begins; `wanted`: what the caller reads of the guards
    /// there.
    ///
    /// # Safety
    /// The list of the guards lives during `'l`.
    #[inline]
    pub(super) unsafe fn enter<'d, 'l>(
        &'d self,
        probe: &Probe<'_>,
        wanted: Wanted,
    ) -> Entrance<'d, 'l> {
        let mut entrance = Entrance {
            directory: self,
            at: 0,
            is_found: false,
            comparisons: 1,
            life: PhantomData,
        };
        let word = match self.word(probe) {
            Ok(word) => word,
            Err(Compared::Less) => return entrance,
            Err(_) => {
                entrance.at = self.len();
                return entrance;
            }
        };
        entrance.comparisons = self.heights.len() as u64;
        entrance.at = self.count(wanted, |other| other < word);
        let line = self.lines.get(entrance.at / LINE);
        let is_tied = line.map(|line| line.0[entrance.at % LINE]) == Some(word);
        if is_tied && entrance.at < self.len() {
            // SAFETY: the caller's promise.
            unsafe { self.settle(word, probe, &mut entrance) };
        }
        if !is_sound(Site::Guard) {
            entrance.at = (entrance.at + 1).min(self.len());
        }
        entrance
    }

    /// Among guards of the key's own word, the first of which is found: by their keys.
    ///
    /// # Safety
    /// As [`Directory::enter`].
    unsafe fn settle(&self, word: u64, probe: &Probe<'_>, entrance: &mut Entrance<'_, '_>) {
        // Unused words are the greatest there is.
        let end = match word {
            u64::MAX => self.len(),
            _ => self.count(Wanted::Node, |other| other <= word),
        };
        let (mut low, mut high) = (entrance.at, end);
        while low < high && !entrance.is_found {
            let middle = low.midpoint(high);
            entrance.comparisons += 1;
            // SAFETY: the caller's promise: the node lives.
            let key = unsafe { self.guard(middle) }.node.key();
            match key.cmp(probe.key) {
                Compared::Less => low = middle + 1,
                Compared::Greater => high = middle,
                Compared::Equal => (low, entrance.is_found) = (middle, true),
            }
        }
        entrance.at = low;
    }

    /// The word of the key, or how the key stands to all guards.
    #[inline]
    pub(crate) fn word(&self, probe: &Probe<'_>) -> Result<u64, Compared> {
        if self.shared.is_empty() {
            return Ok(probe.prefix());
        }
        let len = self.shared.len().min(probe.key.len());
        let (start, rest) = probe.key.split_at(len);
        match start.cmp(&self.shared) {
            Compared::Equal => Ok(prefix_word(rest)),
            decided => Err(decided),
        }
    }

    /// How many guards' words `is_before` holds for. It does not hold for the greatest word there
    /// is, nor for any after one for which it does not. What is `wanted` of the guards of the last
    /// line arrives together with that.
    #[inline]
    fn count(&self, wanted: Wanted, is_before: impl Fn(u64) -> bool) -> usize {
        let mut at = 0;
        let mut count = 0;
        for start in &self.heights {
            if *start == 0 {
                match wanted {
                    Wanted::Node => prefetch_line(&self.nodes, at * LINE),
                    Wanted::Tower => prefetch_line(&self.towers, at * LINE),
                }
            }
            count = self.lines[start + at].count(&is_before);
            if count == 0 {
                // Only in the first line, and then all the way down.
                return 0;
            }
            (at, count) = (at * LINE + count - 1, at * LINE + count);
        }
        count
    }

    /// The guards.
    ///
    /// # Safety
    /// Their list lives during `'l`.
    #[cfg(test)]
    pub(crate) unsafe fn guards<'l>(&self) -> Vec<Guard<'l>> {
        // SAFETY: the caller's promise.
        let guard = |at: usize| unsafe { self.guard(at) };
        (0..self.len()).map(guard).collect()
    }

    /// A guard.
    ///
    /// # Safety
    /// Its list lives during `'l`.
    #[inline]
    unsafe fn guard<'l>(&self, at: usize) -> Guard<'l> {
        Guard {
            tower: self.towers[at],
            node: self.nodes[at],
            levels: usize::from(self.levels[at]),
        }
    }
}

/// Asks for the pointers of a line's guards, and the next: nine, which may lie on two cache lines.
#[inline]
fn prefetch_line<T>(all: &[T], from: usize) {
    let first = all.as_ptr().wrapping_add(from);
    prefetch_at(first);
    prefetch_at(first.wrapping_add(LINE));
}

/// How many bytes at the start of all guards' keys are the same, if they are worth leaving out.
pub(crate) fn shared(guards: &[Guard<'_>]) -> usize {
    let (Some(first), Some(last)) = (guards.first(), guards.last()) else {
        return 0;
    };
    let first = first.node.key();
    let pairs = first.iter().zip(last.node.key());
    let shared = pairs.take_while(|(a, b)| a == b).count();
    if shared < SHARED_MIN { 0 } else { shared }
}
