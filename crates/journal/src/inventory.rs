//! Which segments there are: ready, in use, to be reused.
//!
//! I1. A writer takes extents; it makes a segment only when none is ready, and that is counted.
//! I2. The number of a file is known here before the file exists, so what is not known here is of
//!     another incarnation. Once what those left is discarded, no number is kept.
//! I3. A segment is retired when all its extents were given out and none is held any more (J6).
//! I4. A flush retires several at once. As many are kept as were taken since the flush before: the
//!     next ones need no zeros, which would be written and synced as the records are. Those that
//!     nobody needs for a while go one by one.
//! I5. Only segments that this journal made are reused. One of another run may have been copied
//!     since, and be sparse or share its space with another file, although it is as long as ours
//!     and reads the same; its records are of other incarnations and its extents may lie elsewhere.
//! I6. A failed sync of the directory stops the journal, whoever made a file; one for which there
//!     was no descriptor was none.
//! I7. Where there is no room for what is to be written, what nobody needs goes first, and what is
//!     only kept to be used again. That it cannot be removed ends nothing, unless the device says
//!     so: it takes room until it can.
//!
//! Threads: any. Making is serialised by a lock of its own, which no writer takes unless I1.
//!
//! Tests: `tests/retention.rs`, `tests/errors.rs` (I6, what is left of a failure); below.

use crate::config::Config;
use crate::left::Left;
use crate::poison::Poison;
use crate::segment::{Piece, Segment, journal_dir};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use velella_base::file_name::FileName;
use velella_base::{Error, ErrorKind, Result};
use velella_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella_sync::counter::Counter;
use velella_sync::lock::Mutex;
use velella_sync::parker::Parker;
use velella_sync::thread;
use velella_vfs::{Names, is_of_the_device};

/// Segments kept ready.
const READY: usize = 2;
/// Extents whose pages are asked for, for each one that was taken since the last look: at that rate
/// they last for eight looks, nearly a second.
const FETCHED_AHEAD: u64 = 8;
/// Most retired segments that are kept to be reused (I4).
const KEPT_MAX: usize = 16;
/// After so many sweeps, seconds of an idle database, one that was not needed goes.
const LOOKS: u32 = 64;
/// Extents of the first segment, which is made while the database opens: what opens, does little
/// and closes should not wait for megabytes to be written. Whole ones follow in the background once
/// an extent was taken, or soon after the opening.
const FIRST_EXTENTS: u64 = 1;
/// How often a number may turn out to be taken by a leftover file.
const NUMBER_ATTEMPTS: usize = 1 << 16;

/// The segments of a running journal.
#[derive(Debug)]
pub(crate) struct Inventory {
    config: Config,
    seal_file: u64,
    poison: Arc<Poison>,
    names: Names,
    state: Mutex<State>,
    making: Mutex<()>,
    /// Held while files are removed: who needs the room waits for it.
    sweeping: Mutex<()>,
    /// Files removed. All accesses Relaxed: a hint that there may be room again.
    removed: AtomicU64,
    /// Something to prepare, and who waits for that.
    wanted: AtomicBool,
    preparer: Parker,
    pub(crate) left: Left,
    pub(crate) waits: Counter,
}

#[derive(Debug, Default)]
struct State {
    ready: VecDeque<Arc<Segment>>,
    /// The segment extents are taken from, and the next one in it.
    current: Option<(Arc<Segment>, u64)>,
    /// Extents taken since pages were fetched for the next ones.
    extents_taken: u64,
    /// Every segment extents were taken from.
    live: BTreeMap<u64, Arc<Segment>>,
    /// Numbers of segment files to reuse.
    retired: Vec<u64>,
    /// Segments taken since some were last retired.
    taken: usize,
    /// How many retired ones to keep (I4).
    kept: usize,
    /// Of the last `looks` sweeps, the fewest that were left: nobody needed those.
    unneeded: usize,
    looks: u32,
    /// Files to delete.
    doomed: Vec<PathBuf>,
    /// Numbers of this journal's files, as long as others' are looked for (I2).
    known: Option<BTreeSet<u64>>,
}

impl State {
    /// Keeps one less once all the sweeps of a while have seen more than enough (I4).
    fn forget_unneeded(&mut self) {
        self.unneeded = match self.looks {
            0 => self.retired.len(),
            _ => self.unneeded.min(self.retired.len()),
        };
        self.looks += 1;
        if self.looks == LOOKS {
            self.looks = 0;
            if self.unneeded > READY {
                self.kept = self.unneeded.min(self.kept) - 1;
            }
        }
    }
}

/// A lane's new extent.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) segment: Arc<Segment>,
    /// Where it begins in the segment, and its bytes.
    pub(crate) position: u64,
    pub(crate) len: u64,
    pub(crate) piece: Piece,
}

impl Inventory {
    pub(crate) fn new(config: Config, seal_file: u64, poison: Arc<Poison>) -> Inventory {
        let state = State {
            known: Some(BTreeSet::from([seal_file])),
            ..State::default()
        };
        Inventory {
            left: Left::new(config.segment_bytes / config.extent_bytes),
            names: Names::new(Arc::clone(&config.vfs), &journal_dir(&config)),
            config,
            seal_file,
            poison,
            state: Mutex::new(state),
            making: Mutex::new(()),
            sweeping: Mutex::new(()),
            removed: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            preparer: Parker::new(),
            waits: Counter::new(),
        }
    }

    /// Gives out the next extent (I1).
    pub(crate) fn take(&self) -> Result<Extent> {
        let (segment, index) = self.take_place()?;
        match segment.piece(index) {
            Ok((position, len, piece)) => Ok(Extent {
                segment,
                position,
                len,
                piece,
            }),
            Err(error) => {
                segment.let_go();
                Err(error)
            }
        }
    }

    fn take_place(&self) -> Result<(Arc<Segment>, u64)> {
        if let Some(place) = self.next_place() {
            return Ok(place);
        }
        self.waits.increment();
        let making = self.making.lock();
        loop {
            // Whoever held the lock may have made one meanwhile.
            if let Some(place) = self.next_place() {
                return Ok(place);
            }
            self.with_space(|| self.make_one(&making, self.config.segment_bytes, &|| false))?;
        }
    }

    /// Does what takes room on the device; a second time if there is none and some was made
    /// meanwhile (I7).
    pub(crate) fn with_space<T>(&self, mut take: impl FnMut() -> Result<T>) -> Result<T> {
        let removed = || self.removed.load(Ordering::Relaxed);
        let before = removed();
        let taken = take();
        if !matches!(&taken, Err(error) if error.kind() == ErrorKind::NoSpace) {
            return taken;
        }
        // What the device says here is for those to meet who prepare: they sweep, too.
        let _ = self.give_up_retired();
        match removed() == before {
            true => taken,
            false => take(),
        }
    }

    fn note_removed(&self) {
        self.removed.fetch_add(1, Ordering::Relaxed);
    }

    /// Deletes what is not needed, and of the retired segments what is needed later at best.
    fn give_up_retired(&self) -> Result<()> {
        {
            let mut state = self.state.lock();
            let retired = std::mem::take(&mut state.retired).into_iter();
            let paths = retired.map(|number| FileName::Segment(number).path(&self.config.dir));
            state.doomed.extend(paths);
        }
        self.sweep()
    }

    fn next_place(&self) -> Option<(Arc<Segment>, u64)> {
        let mut state = self.state.lock();
        loop {
            if let Some((segment, next)) = &mut state.current
                && *next < segment.extents()
            {
                let place = (Arc::clone(segment), *next);
                *next += 1;
                state.extents_taken += 1;
                place.0.hold();
                return Some(place);
            }
            let fresh = state.ready.pop_front()?;
            state.live.insert(fresh.number, Arc::clone(&fresh));
            state.taken += 1;
            state.current = Some((fresh, 0));
            self.want_preparation();
        }
    }

    fn want_preparation(&self) {
        // Release, partner: the Acquire in `wait_for_preparation`.
        self.wanted.store(true, Ordering::Release);
        self.preparer.wake_all();
    }

    /// Makes segments until enough are ready, and deletes what is no longer needed; ends early once
    /// it is `cancelled`.
    pub(crate) fn prepare(&self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        // Relaxed: set again by whoever takes a segment after this.
        self.wanted.store(false, Ordering::Relaxed);
        let made = self.with_space(|| self.make_ready(cancelled));
        self.fetch_next(cancelled);
        let swept = self.sweep();
        // The lack of room waits; what ails the device is told first.
        swept.and(made)?;
        self.left.hand_on(&|| self.is_wanted() || cancelled());
        Ok(())
    }

    fn make_ready(&self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        while self.state.lock().ready.len() < READY && !cancelled() {
            self.left.give_back();
            let making = self.making.lock();
            if self.state.lock().ready.len() < READY {
                self.make_one(&making, self.config.segment_bytes, cancelled)?;
            }
        }
        Ok(())
    }

    /// Deletes the segments that are ready, and those kept to be reused: others want what they keep
    /// open, or the room they take.
    pub(crate) fn forgo(&self) -> Result<()> {
        // Relaxed: as in `prepare`; who forgoes looks again after a while, not at once.
        self.wanted.store(false, Ordering::Relaxed);
        let making = self.making.lock();
        let ready = std::mem::take(&mut self.state.lock().ready);
        for segment in ready {
            self.abandon(segment.number, None);
        }
        drop(making);
        self.give_up_retired()
    }

    /// Whether `prepare` has something to do.
    fn is_wanted(&self) -> bool {
        // Acquire, partner: `want_preparation`.
        self.wanted.load(Ordering::Acquire)
    }

    /// Asks for the pages that lanes write to next (G3 of segments): the more of them, the more
    /// extents were taken since it was asked last; none, if none was.
    fn fetch_next(&self, cancelled: &dyn Fn() -> bool) {
        let mut wanted = Vec::new();
        {
            let mut state = self.state.lock();
            let mut left = FETCHED_AHEAD * std::mem::take(&mut state.extents_taken);
            let current = state.current.iter().map(|(segment, next)| (segment, *next));
            let ready = state.ready.iter().map(|segment| (segment, 0));
            for (segment, from) in current.chain(ready) {
                let extents = left.min(segment.extents() - from);
                if extents > 0 {
                    wanted.push((Arc::clone(segment), from..from + extents));
                    left -= extents;
                }
            }
        }
        for (segment, extents) in wanted {
            if !cancelled() {
                segment.fetch(extents);
            }
        }
    }

    /// Waits until `prepare` has something to do, or `limit` passes, and hands on meanwhile what
    /// lanes leave.
    pub(crate) fn wait_for_preparation(&self, limit: Duration, stopped: impl Fn() -> bool) {
        let began = thread::now();
        loop {
            let rest = limit.saturating_sub(thread::now().saturating_duration_since(began));
            let nap = self.left.pause(rest);
            let is_over = || self.is_wanted() || stopped();
            if self.preparer.wait_until(Some(nap), is_over) || nap == rest {
                return;
            }
            self.left.hand_on(&is_over);
        }
    }

    /// Lets `wait_for_preparation` look again.
    pub(crate) fn wake_preparer(&self) {
        self.preparer.wake_all();
    }

    /// Makes the names of new files durable (I6).
    pub(crate) fn sync_names(&self) -> Result<()> {
        let synced = self.config.with_room(|| self.names.sync());
        synced.inspect_err(|error| {
            if self.names.check().is_err() {
                self.poison.set(error.clone());
            }
        })
    }

    fn make_one(
        &self,
        _making: &velella_sync::lock::MutexGuard<'_, ()>,
        bytes: u64,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        for _ in 0..NUMBER_ATTEMPTS {
            let number = self.new_number()?;
            // Retired ones are whole.
            let is_whole = bytes == self.config.segment_bytes;
            let retired = is_whole.then(|| self.state.lock().retired.pop()).flatten();
            let (config, seal_file) = (&self.config, self.seal_file);
            let made = Segment::make(config, seal_file, number, bytes, retired, cancelled);
            let named = made.and_then(|segment| match segment {
                None => Ok(None),
                some => self.sync_names().map(|()| some),
            });
            match named {
                Ok(segment) => {
                    self.state.lock().ready.extend(segment.map(Arc::new));
                    return Ok(());
                }
                // A leftover of a run that crashed before the manifest knew its files.
                Err(error) if retired.is_none() && error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    self.abandon(number, retired);
                    return Err(error);
                }
            }
        }
        Err(no_number(&self.config))
    }

    /// A segment could not be made, or nobody is to have it: what there is of it goes.
    fn abandon(&self, number: u64, retired: Option<u64>) {
        for number in [Some(number), retired].into_iter().flatten() {
            // The error that led here is the one to report. What cannot be removed is tried again:
            // a recovery would take half a segment for damage.
            let path = FileName::Segment(number).path(&self.config.dir);
            let removed = self.config.vfs.remove(&path);
            if removed.is_ok() {
                self.note_removed();
            }
            let mut state = self.state.lock();
            match removed {
                Err(error) if error.kind() != ErrorKind::NotFound => state.doomed.push(path),
                _ => {
                    if let Some(known) = &mut state.known {
                        known.remove(&number);
                    }
                }
            }
        }
    }

    /// A number for a new file of this journal (I2).
    pub(crate) fn new_number(&self) -> Result<u64> {
        let number = (self.config.next_file)()?;
        if let Some(known) = &mut self.state.lock().known {
            known.insert(number);
        }
        Ok(number)
    }

    /// Retires segments that nothing holds (I3).
    pub(crate) fn retire(&self) {
        let mut state = self.state.lock();
        let current = state.current.as_ref().map(|(segment, next)| {
            // A current segment that is used up is as good as any other.
            (segment.number, *next < segment.extents())
        });
        let free: Vec<(u64, u64)> = state
            .live
            .values()
            .filter(|segment| !segment.is_held() && current != Some((segment.number, true)))
            .map(|segment| (segment.number, segment.bytes))
            .collect();
        for (number, bytes) in &free {
            state.live.remove(number);
            if current == Some((*number, false)) {
                state.current = None;
            }
            if *bytes == self.config.segment_bytes {
                state.retired.push(*number);
            } else {
                state
                    .doomed
                    .push(FileName::Segment(*number).path(&self.config.dir));
            }
        }
        if !free.is_empty() {
            let taken = std::mem::take(&mut state.taken);
            state.kept = taken.max(state.kept).min(KEPT_MAX);
            drop(state);
            self.want_preparation();
        }
    }

    /// Deletes doomed files and retired segments beyond those that will be reused. What cannot be
    /// deleted is tried again at the next sweep; that is an error only if it is the device's (I7).
    pub(crate) fn sweep(&self) -> Result<()> {
        self.left.give_back();
        let _others_wait = self.sweeping.lock();
        let doomed = {
            let mut state = self.state.lock();
            let mut doomed = std::mem::take(&mut state.doomed);
            state.forget_unneeded();
            while state.retired.len() > state.kept.max(READY) {
                let number = state.retired.remove(0);
                doomed.push(FileName::Segment(number).path(&self.config.dir));
            }
            doomed
        };
        let mut swept = Ok(());
        for path in doomed {
            match self.config.vfs.remove(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    self.state.lock().doomed.push(path);
                    if is_of_the_device(&error) {
                        swept = swept.and(Err(error));
                    }
                }
                Err(_) => {}
                Ok(()) => self.note_removed(),
            }
        }
        swept
    }

    /// Deletes a file at the next sweep.
    pub(crate) fn doom(&self, path: PathBuf) {
        self.state.lock().doomed.push(path);
        self.want_preparation();
    }

    /// Deletes what other incarnations left (I5).
    pub(crate) fn discard_older(&self) -> Result<()> {
        let dir = journal_dir(&self.config);
        // Listed before the known numbers are read (I2).
        for name in self.config.vfs.read_dir(&dir)? {
            let number = name.to_str().and_then(FileName::parse);
            let Some(number) = number.and_then(|file| file.number()) else {
                continue;
            };
            let mut state = self.state.lock();
            let is_other = |known: &BTreeSet<u64>| !known.contains(&number);
            if state.known.as_ref().is_some_and(is_other) {
                state.doomed.push(dir.join(&name));
            }
        }
        self.state.lock().known = None;
        // Their names may come back after a crash: the next opening ignores and deletes them.
        self.sweep()
    }

    /// Makes the first segment, a small one.
    pub(crate) fn first(&self) -> Result<()> {
        let bytes = (FIRST_EXTENTS * self.config.extent_bytes).min(self.config.segment_bytes);
        self.make_one(&self.making.lock(), bytes, &|| false)
    }

    /// Removes the seal file and the first segment, of a journal that could not be made.
    pub(crate) fn unmake(&self) {
        let segments = std::mem::take(&mut self.state.lock().ready);
        let segments = segments.iter().map(|of| FileName::Segment(of.number));
        for name in segments.chain([FileName::Seal(self.seal_file)]) {
            // The error that led here is the one to report.
            let _ = self.config.vfs.remove(&name.path(&self.config.dir));
        }
    }

    /// Bytes mapped now.
    pub(crate) fn mapped_bytes(&self) -> u64 {
        let state = self.state.lock();
        let segments = state.ready.iter().chain(state.live.values());
        let mapped = segments.filter(|segment| segment.is_mapped());
        mapped.map(|segment| segment.bytes).sum()
    }

    /// The number of the segment extents are taken from now.
    pub(crate) fn current(&self) -> Option<u64> {
        let state = self.state.lock();
        state.current.as_ref().map(|(segment, _)| segment.number)
    }

    /// Whether new segments are written through mappings.
    pub(crate) fn is_mapped(&self) -> bool {
        let state = self.state.lock();
        let segment = state
            .ready
            .front()
            .or(state.current.as_ref().map(|(segment, _)| segment));
        segment.is_some_and(|segment| segment.is_mapped())
    }
}

/// Deletes every file of every journal in `dir`: the manifest names none of them any more, and this
/// run keeps no journal.
///
/// # Errors
/// What the file system refused.
pub fn discard_all(vfs: &dyn velella_vfs::Vfs, dir: &Path) -> Result<()> {
    let journal = dir.join(velella_base::file_name::JOURNAL_DIR);
    if !vfs.exists(&journal)? {
        return Ok(());
    }
    for name in vfs.read_dir(&journal)? {
        let file = name.to_str().and_then(FileName::parse);
        if let Some(FileName::Segment(_) | FileName::LargeSegment(_) | FileName::Seal(_)) = file {
            vfs.remove(&journal.join(&name))?;
        }
    }
    vfs.sync_dir(&journal)
}

/// The counter of file numbers runs through numbers that are taken.
pub(crate) fn no_number(config: &Config) -> Error {
    Error::new(
        ErrorKind::AlreadyExists,
        "name a new journal file",
        format!("{NUMBER_ATTEMPTS} numbers in a row are taken"),
    )
    .on(&journal_dir(config))
    .remedy("the database's file counter went backwards: restore its manifest")
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use velella_vfs::{MemFs, Vfs};

    #[test]
    fn numbers_are_kept_only_until_what_others_left_is_discarded() {
        let vfs = MemFs::new();
        let inventory = Inventory::new(Config::small(&vfs), 0, Arc::default());
        let kept = || inventory.state.lock().known.as_ref().map(BTreeSet::len);
        let path = |number| FileName::Segment(number).path(&inventory.config.dir);
        vfs.create_dir_all(&journal_dir(&inventory.config)).unwrap();
        let ours = inventory.new_number().unwrap();
        for number in [ours, 1000] {
            vfs.create(&path(number)).unwrap();
        }
        assert_eq!(kept(), Some(2), "the seal file's, and that");
        inventory.discard_older().unwrap();
        assert!(vfs.exists(&path(ours)).unwrap() && !vfs.exists(&path(1000)).unwrap());
        // A journal gives a new number to a segment each time that it is used again.
        for _ in 0..100 {
            inventory.new_number().unwrap();
        }
        assert_eq!(kept(), None);
        inventory.discard_older().unwrap();
        assert!(vfs.exists(&path(ours)).unwrap(), "nobody else's is left");
    }
}
