//! Which guard directory is in use, and when it is time for another.
//!
//! Source: finding S3-11: guards that stay as they were while keys go on growing past the last one
//! guide nowhere. A directory is replaced when the list has doubled, or when searches have fallen
//! back to the head of the list as often as making a new one costs steps. The last guard
//! moves by itself: it is the last tower of three levels. Where many keys come in behind another
//! guard, their insertion leaves a finger behind.
//!
//! H1. One thread at a time goes on with a directory, [`PIECE`] towers far, before it installs
//!     its key; nobody waits for it, and it is not held up for long, unless a selector takes long.
//!     A batch of which keys are installed, for which others may wait, leaves to the next write
//!     what takes long: to finish a directory, and to free the one before with what else is due.
//! H2. Making directories costs each insertion and each fallback a constant number of steps: of
//!     walking along one level, which are cheap beside a fallback's.
//! H3. `tail` and the fingers are null or towers linked on [`TAIL_LEVELS`] levels at least. Whether
//!     one is before a key is for the search to find out.
//! H4. A draft refers to towers of the list whose guides these are, and is used by nobody but that
//!     list's writers: it lives no longer than the list.
//! H5. Where a selector chooses, a directory is due as well once it can be told of enough new
//!     searches (`chooser.rs`, A3).
//!
//! Threads: any. Tests: `tests.rs` beside.

use crate::guards::GuardOptions;
use crate::jellyfish::chooser::Chooser;
use crate::jellyfish::directory::{BYTES_PER_GUARD, Directory};
use crate::jellyfish::draft::Draft;
use crate::jellyfish::tower::{LEVELS, Tower, TowerHead};
use crate::probe::Probe;
use std::ptr::null_mut;
use std::sync::Arc;
use velella_sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use velella_sync::lock::Mutex;
use velella_sync::{CachePadded, Guard, Swap};

/// Streams of ascending keys, other than the last, that find their place quickly.
const FINGERS: usize = if cfg!(any(loom, shuttle)) { 2 } else { 64 };

/// Levels of a tower that may become the tail or a finger.
pub(crate) const TAIL_LEVELS: usize = if LEVELS < 3 { LEVELS } else { 3 };

/// Towers that one writer walks past for a directory: half a microsecond. In a model so few that
/// insertions come between.
const PIECE: usize = if cfg!(any(loom, shuttle)) { 2 } else { 8 };

/// Towers from which on a directory pays: about a thousand keys.
const FIRST: usize = if cfg!(any(loom, shuttle)) { 1 } else { 256 };

/// The directory in use.
#[derive(Debug)]
pub(crate) struct Guides {
    /// Most guards of a directory; 0: there is none.
    most: usize,
    /// Who chooses the guards, if there is not room for all towers, and what is searched for.
    chooser: Option<Arc<Chooser>>,
    current: Swap<Directory>,
    /// The last of the towers that high, more or less (H3).
    tail: AtomicPtr<TowerHead>,
    /// Towers as high, each close to where insertions found their guard too far away.
    fingers: [AtomicPtr<TowerHead>; FINGERS],
    is_due: AtomicBool,
    /// The next one, while it is in the making (H4).
    draft: Mutex<Option<Draft<'static>>>,
    /// Towers so far, and how many make the next directory due. By themselves, as the fallbacks:
    /// they change, and every write looks at what is beside them.
    towers: CachePadded<AtomicUsize>,
    towers_due: AtomicUsize,
    fallbacks: CachePadded<AtomicUsize>,
    fallbacks_due: AtomicUsize,
    bytes: AtomicUsize,
}

impl Guides {
    /// No directory yet.
    pub(crate) fn new(guards: GuardOptions) -> Self {
        let most = guards.bytes / BYTES_PER_GUARD;
        Guides {
            most,
            chooser: guards
                .selector
                .map(|selector| Arc::new(Chooser::new(selector, most))),
            current: Swap::new(Arc::new(Directory::default())),
            tail: AtomicPtr::new(null_mut()),
            fingers: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
            is_due: AtomicBool::new(false),
            draft: Mutex::new(None),
            towers: CachePadded::new(AtomicUsize::new(0)),
            towers_due: AtomicUsize::new(FIRST),
            fallbacks: CachePadded::new(AtomicUsize::new(0)),
            fallbacks_due: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    /// The directory in use, if there is one.
    #[inline]
    pub(crate) fn current<'g>(&'g self, guard: &'g Guard) -> Option<&'g Directory> {
        if self.most == 0 {
            return None;
        }
        let directory = self.current.load(guard);
        (directory.len() != 0).then_some(directory)
    }

    /// The tail, if there is one.
    ///
    /// # Safety
    /// The list lives during `'l`.
    #[inline]
    pub(crate) unsafe fn tail<'l>(&self) -> Option<Tower<'l>> {
        // Acquire, partner: the Release in `set_tail`: the tower is complete and linked.
        let tail = self.tail.load(Ordering::Acquire);
        // SAFETY: null or a tower of the list (H3).
        unsafe { Tower::from_raw(tail) }
    }

    /// Makes `tower` the tail; it is linked on [`TAIL_LEVELS`] levels at least (H3).
    pub(crate) fn set_tail(&self, tower: Tower<'_>) {
        // Release, partner: the Acquire in `tail`.
        self.tail.store(tower.as_ptr(), Ordering::Release);
    }

    /// Which finger belongs to a guard.
    pub(crate) fn finger_of(guard: Tower<'_>) -> usize {
        guard.as_ptr().addr() / size_of::<usize>() % FINGERS
    }

    /// A finger, if it was set.
    ///
    /// # Safety
    /// The list lives during `'l`.
    pub(crate) unsafe fn finger<'l>(&self, finger: usize) -> Option<Tower<'l>> {
        // Acquire, partner: the Release in `set_finger`: the tower is complete and linked.
        let tower = self.fingers[finger].load(Ordering::Acquire);
        // SAFETY: null or a tower of the list (H3).
        unsafe { Tower::from_raw(tower) }
    }

    /// Sets a finger to `tower`, which is linked on [`TAIL_LEVELS`] levels at least (H3).
    pub(crate) fn set_finger(&self, finger: usize, tower: Tower<'_>) {
        // Release, partner: the Acquire in `finger`.
        self.fingers[finger].store(tower.as_ptr(), Ordering::Release);
    }

    /// Most guards of a directory.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Towers so far, more or less.
    pub(crate) fn towers(&self) -> usize {
        // Relaxed: an estimate.
        self.towers.load(Ordering::Relaxed)
    }

    /// Notes a new tower.
    pub(crate) fn note_tower(&self) {
        if self.most != 0 {
            // Relaxed, all three: statistics, and a hint.
            let towers = self.towers.fetch_add(1, Ordering::Relaxed) + 1;
            if towers >= self.towers_due.load(Ordering::Relaxed) {
                self.make_due();
            }
        }
    }

    /// Notes that a guard was too far from the key.
    #[cold]
    pub(crate) fn note_fallback(&self) {
        // Relaxed, all three: statistics, and a hint.
        let fallbacks = self.fallbacks.fetch_add(1, Ordering::Relaxed) + 1;
        if fallbacks >= self.fallbacks_due.load(Ordering::Relaxed) {
            self.make_due();
        }
    }

    /// It is time for another directory.
    fn make_due(&self) {
        // Said once: who searches looks at what is beside it.
        if !self.is_due() {
            // Relaxed: a hint.
            self.is_due.store(true, Ordering::Relaxed);
        }
    }

    /// Notes what is searched for, if a selector wants to know.
    #[inline]
    pub(crate) fn note_access(&self, directory: &Directory, probe: &Probe<'_>) {
        if let Some(chooser) = &self.chooser
            && !directory.is_whole
            && Chooser::is_drawn()
            && let Ok(word) = directory.word(probe)
            && chooser.note(word)
        {
            self.make_due();
        }
    }

    /// Who chooses the guards, if that is somebody.
    pub(crate) fn chooser(&self) -> Option<Arc<Chooser>> {
        self.chooser.clone()
    }

    /// Notes that a key is before all guards: where a selector has put them, that costs a search
    /// as much as one that is too far away.
    #[inline]
    pub(crate) fn note_unguided(&self) {
        if self.chooser.is_some() {
            self.note_fallback();
        }
    }

    /// Whether it is time for another directory.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        // Relaxed: a hint.
        self.is_due.load(Ordering::Relaxed)
    }

    /// Goes on with the next directory, unless another thread is at it (H1), and puts it in use
    /// once it is done, unless others wait for the caller; whether it was. `begin` makes a draft of
    /// the guides' own list (H4).
    #[cold]
    pub(crate) fn renew(
        &self,
        guard: &Guard,
        waited_for: bool,
        begin: impl FnOnce() -> Draft<'static>,
    ) -> bool {
        let Some(mut draft) = self.draft.try_lock() else {
            return false;
        };
        // It may have been finished since the caller asked.
        if !self.is_due() {
            return false;
        }
        let begun = draft.get_or_insert_with(begin);
        if !begun.walk(PIECE) {
            return false;
        }
        // Those that came in since make the one after this due the sooner.
        let towers = begun.of(self.towers());
        if waited_for {
            return false;
        }
        let directory = begun.finish();
        *draft = None;
        // Relaxed, all: statistics and hints; the directory is published by `Swap`.
        self.towers_due.store(2 * towers + 1, Ordering::Relaxed);
        let fallbacks = self.fallbacks.load(Ordering::Relaxed);
        // H2: where a selector chose, all towers were walked past.
        let walked = match &self.chooser {
            Some(_) => towers,
            None => directory.len(),
        };
        let pause = walked / 4 + FIRST;
        self.fallbacks_due
            .store(fallbacks + pause, Ordering::Relaxed);
        self.bytes.store(directory.bytes(), Ordering::Relaxed);
        if let Some(chooser) = &self.chooser {
            chooser.rest(directory.shared(), towers);
        }
        self.is_due.store(false, Ordering::Relaxed);
        self.current.store(Arc::new(directory), guard);
        true
    }

    /// Bytes of the directory in use, and of what a selector is told.
    pub(crate) fn bytes(&self) -> usize {
        let sample = self.chooser.as_ref().map_or(0, |chooser| chooser.bytes());
        // Relaxed: a figure, it guards nothing.
        self.bytes.load(Ordering::Relaxed) + sample
    }
}
