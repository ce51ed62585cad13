//! What a crash left, judged: opened, read every way, verified, written to, crashed again.
//!
//! G1. The state is a prefix of the stamp order that holds all that was promised; get, forward and
//!     reverse scan say the same.
//! G2. `verify` finds nothing, and another crash right after opening changes nothing.
//! G3. Writing goes on, with stamps that were never given out, and survives one more crash.
//! G4. A sync that failed excuses what it was to keep, and only that: a large value above what was
//!     promised, whose place says so with the file's name, while all others are as G1 says.
//! G5. After syncs that lied nothing of that holds, but damage is an error that names a file, and
//!     what is read was once written.
//!
//! Tests: below, of G4; the campaigns.

use crate::campaign::Tally;
use crate::sim::history::{History, Lost, Place, State};
use crate::sim::operation::{Operation, Taste};
use crate::sim::points::{Image, Points, Sync, When};
use crate::sim::setting::{DIR, Setting};
use crate::sim::store::{Store, Trouble};
use std::path::Path;
use std::sync::Arc;
use velella::vfs::mem::CrashMode;
use velella::vfs::{MemFs, Vfs};
use velella::{Error, ErrorKind};
use velella_base::file_name::JOURNAL_DIR;
use velella_sync::pool::prefer;
use velella_sync::thread;
use velella_testkit::Seed;

/// Writes that go on after a crash.
const WRITES_AFTER: usize = 5;
/// What is counted where a failed sync lost a value (G4).
const LOST_VALUES: &str = "unsynced values lost to a failed sync";

/// Who judges: with which choices, and what is counted.
#[derive(Debug)]
pub struct Judge {
    /// Its choices.
    pub seed: Seed,
    /// What it counts.
    pub tally: Tally,
    /// How often opening is crashed before it may succeed.
    pub depth: u64,
    /// Writes on, and crashes again, after one image in so many.
    pub go_on_one_in: u64,
}

impl Judge {
    /// Judges one image of a workload that did what `history` says.
    ///
    /// # Errors
    /// What was lost, wrong or refused, and where.
    pub fn judge(&mut self, image: Image, history: &History) -> Result<(), String> {
        let place = image.place();
        self.tally.add("crash images", 1);
        if image.is_at_store() {
            self.tally.add("of them at stores into the journal", 1);
        }
        self.image(image, history)
            .map_err(|what| format!("{place}: {what}"))
    }

    fn image(&mut self, image: Image, history: &History) -> Result<(), String> {
        let image = self.crash_in_recovery(image)?;
        let setting = Setting::random(&mut self.seed);
        let opened = Store::open(Arc::new(image.fs.clone()), &setting);
        if image.lied {
            let read = opened.map_err(Trouble::from);
            let read = read.and_then(|store| store.state());
            return self.after_lies(read, history);
        }
        let store = match opened {
            Ok(store) => store,
            Err(error) if self.is_journal_lost(&image, &image.fs, &error) => return Ok(()),
            Err(error) => return Err(format!("opened with {setting:?}: {error}")),
        };
        let (state, lost) = self
            .read(&store, &image, history.places())
            .map_err(|trouble| format!("opened with {setting:?}: {trouble}"))?;
        history
            .explain_but(&state, &lost, thread::wall_ms(), image.promised())
            .map_err(|what| format!("promised {}: {what}", image.promised()))?;
        let there = history
            .places()
            .filter(|place| !lost.places.contains(*place));
        let same = store.absent(there, &state);
        same.map_err(|trouble| trouble.to_string())?;
        match store.db().verify() {
            Ok(_) => {}
            // The file of a value that nothing refers to any more, perhaps.
            Err(error) if image.failed && is_lost_external(&error) => {
                self.tally.add(LOST_VALUES, 1);
            }
            Err(error) => return Err(format!("verify: {error}")),
        }
        if !self.seed.one_in(self.go_on_one_in) {
            drop(image.fs.crash(0, CrashMode::Strict));
            return Ok(());
        }
        let fs = self.crash(&image.fs, &mut None);
        drop(store);
        self.goes_on(&fs, &(state, lost), &image, history)
    }

    /// What is there, and which values a failed sync lost (G4): large ones above what was promised.
    fn read<'p>(
        &mut self,
        store: &Store,
        image: &Image,
        places: impl Iterator<Item = &'p Place>,
    ) -> Result<(State, Lost), Trouble> {
        let is_lost = |error: &Error| image.failed && is_lost_external(error);
        let (state, places) = store.state_but(places, is_lost)?;
        if !places.is_empty() {
            self.tally.add(LOST_VALUES, 1);
        }
        let above = image.promised();
        Ok((state, Lost { places, above }))
    }

    /// Crashes while the crash is being recovered from, to the depth asked.
    fn crash_in_recovery(&mut self, mut image: Image) -> Result<Image, String> {
        // What lying syncs left need not open.
        for _ in 0..if image.lied { 0 } else { self.depth } {
            let setting = Setting::random(&mut self.seed);
            let often = 1 + self.seed.below(12);
            let chance = Seed::silent(self.seed.below(1 << 40));
            let (fs, points) = Points::over(&image.fs, chance, When::OneIn(often), Sync::Honest);
            let opened = Store::open(fs, &setting);
            points.now();
            let mut images = points.take();
            // What it holds is promised no more and no less than before.
            let opened = opened.map_err(|error| format!("opened with {setting:?}: {error}"))?;
            drop(image.fs.crash(0, CrashMode::Strict));
            drop(opened);
            let next = images.swap_remove(self.seed.index(images.len()));
            let killed = next.mode == CrashMode::KeepAll;
            let kept = if killed {
                image.promised()
            } else {
                image.durable
            };
            image = Image {
                mode: if killed { image.mode } else { next.mode },
                kept,
                call: next.call,
                fs: next.fs,
                ..image
            };
            self.tally.add("crashes in recovery", 1);
        }
        Ok(image)
    }

    /// Ends the machine somehow; says in which way.
    fn crash(&mut self, fs: &MemFs, mode: &mut Option<CrashMode>) -> MemFs {
        use CrashMode::{KeepAll, Prefix, Random, Strict};
        let chosen = *self.seed.pick(&[Random, Strict, Prefix, KeepAll]);
        *mode = Some(chosen);
        fs.crash(self.seed.below(1 << 40), chosen)
    }

    /// G2 and G3, of a database in which `first` was found.
    fn goes_on(
        &mut self,
        fs: &MemFs,
        first: &(State, Lost),
        image: &Image,
        before: &History,
    ) -> Result<(), String> {
        let setting = Setting::random(&mut self.seed);
        let second = self
            .second_opening(fs, &setting, first, image, before)
            .map_err(|what| format!("the second opening: {what}"))?;
        let Some((mut store, state)) = second else {
            return Ok(());
        };
        let base = store.last();
        let mut history = History::from(&state, base);
        for (place, value) in &state {
            // A later loss of power may still take it (G4).
            if image.failed && before.may_lose(place, value, image.promised()) {
                history.doubt_value(place);
            }
        }
        let done = self.write_on(&mut store, &setting, &mut history)?;
        if store.last() > base && base < image.last {
            return Err(format!(
                "stamps go on from {base}, but {} was given out before",
                image.last
            ));
        }
        let (acknowledged, durable) = (store.last(), store.db().durable().0.max(base));
        let mut mode = None;
        let after = self.crash(fs, &mut mode);
        drop(store);
        if self.is_directory_lost(image, &after) {
            return Ok(());
        }
        let killed = mode == Some(CrashMode::KeepAll) && setting.has_journal();
        let promised = if killed { acknowledged } else { durable };
        self.third_opening(&after, &history, promised, image)
            .map_err(|what| format!("after {done:?} and {mode:?} ({setting:?}): {what}"))
    }

    /// What a crash right after the opening left is as it was. `None`: what is to be found there
    /// cannot be written on.
    fn second_opening(
        &mut self,
        fs: &MemFs,
        setting: &Setting,
        first: &(State, Lost),
        image: &Image,
        before: &History,
    ) -> Result<Option<(Store, State)>, String> {
        let store = match Store::open(Arc::new(fs.clone()), setting) {
            Ok(store) => store,
            Err(error) if self.is_journal_lost(image, fs, &error) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        let (state, lost) = self
            .read(&store, image, before.places())
            .map_err(|trouble| trouble.to_string())?;
        // What the page cache still had may be lost by now (G4).
        before.explain_but(&state, &lost, thread::wall_ms(), image.promised())?;
        let (first, was_lost) = first;
        let all = before.places().chain(state.keys()).chain(first.keys());
        let is_same =
            |place: &Place| lost.places.contains(place) || state.get(place) == first.get(place);
        if !was_lost.places.is_subset(&lost.places) || !all.into_iter().all(is_same) {
            return Err("it found something else".to_owned());
        }
        Ok(lost.places.is_empty().then_some((store, state)))
    }

    /// Some writes, none of which may fail.
    fn write_on(
        &mut self,
        store: &mut Store,
        setting: &Setting,
        history: &mut History,
    ) -> Result<Vec<Operation>, String> {
        let taste = Taste::random(&mut self.seed);
        let mut done = Vec::new();
        while done.len() < WRITES_AFTER {
            let operation = Operation::random(&mut self.seed, &taste);
            if matches!(operation, Operation::Pass(_) | Operation::Reopen(_)) {
                continue;
            }
            prefer(self.seed.index(setting.lanes));
            let went = store.perform(&operation, history);
            done.push(operation);
            went.map_err(|trouble| format!("going on with {done:?}: {trouble}"))?;
        }
        Ok(done)
    }

    /// What was written on is there after one more crash.
    fn third_opening(
        &mut self,
        fs: &MemFs,
        history: &History,
        promised: u64,
        image: &Image,
    ) -> Result<(), String> {
        let setting = Setting::random(&mut self.seed);
        let store = match Store::open(Arc::new(fs.clone()), &setting) {
            Ok(store) => store,
            Err(error) if self.is_journal_lost(image, fs, &error) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        };
        let read = self.read(&store, image, history.places());
        let (state, lost) = read.map_err(|trouble| trouble.to_string())?;
        // Since then no sync failed: only what is doubted may be lost.
        let lost = Lost {
            above: u64::MAX,
            ..lost
        };
        let explained = history.explain_but(&state, &lost, thread::wall_ms(), promised);
        explained.map(drop)
    }

    /// Whether a sync that failed explains that the journal cannot be read: that was to make its
    /// directory's name durable.
    fn is_journal_lost(&mut self, image: &Image, fs: &MemFs, error: &Error) -> bool {
        let journal = Path::new(DIR).join(JOURNAL_DIR);
        let is_gone = || fs.exists(&journal).is_ok_and(|there| !there);
        let is_lost = image.failed && is_in(error, &journal) && is_gone();
        if is_lost {
            let what = "journals whose directory a failed sync lost";
            self.tally.add(what, 1);
        }
        is_lost
    }

    /// Whether the whole database is gone with its name: the sync failed that was to make the
    /// directory durable, so the opening did, and the next opening's sync of the same names
    /// succeeded without effect. There is nothing left that could tell.
    fn is_directory_lost(&mut self, image: &Image, fs: &MemFs) -> bool {
        let is_lost = image.failed && fs.exists(Path::new(DIR)).is_ok_and(|there| !there);
        if is_lost {
            let what = "databases whose directory a failed sync lost";
            self.tally.add(what, 1);
        }
        is_lost
    }

    /// G5.
    fn after_lies(
        &mut self,
        read: Result<State, Trouble>,
        history: &History,
    ) -> Result<(), String> {
        match read {
            Err(Trouble::Wrong(what)) => Err(format!("after lies: {what}")),
            Err(Trouble::Refused(error)) if is_named(&error) => {
                self.tally.add("lies noticed", 1);
                Ok(())
            }
            Err(Trouble::Refused(error)) => Err(format!("after lies: {error}")),
            Ok(state) => {
                let kept = history.explain(&state, thread::wall_ms(), 0).is_ok();
                let what = if kept {
                    "lies that left a prefix"
                } else {
                    "lies that left a hole"
                };
                self.tally.add(what, 1);
                history
                    .knows(&state)
                    .map_err(|what| format!("after lies: {what}"))
            }
        }
    }
}

/// Damage that says where it is.
#[must_use]
pub fn is_named(error: &Error) -> bool {
    use ErrorKind::{Corruption, Io, NotFound, Unsupported};
    matches!(error.kind(), Corruption | Io | NotFound | Unsupported) && error.file().is_some()
}

/// Whether it names a file of this directory.
fn is_in(error: &Error, dir: &Path) -> bool {
    error.file().is_some_and(|file| file.starts_with(dir))
}

/// A value in a file of its own that a failed sync took from the page cache, or that it left there
/// while the machine ran: later syncs succeed, but it never reaches the device.
fn is_lost_external(error: &Error) -> bool {
    let file = error.file().and_then(std::path::Path::extension);
    error.kind() == ErrorKind::Corruption && file.is_some_and(|extension| extension == "ext")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::alone;
    use velella::Durability;

    /// An image in which a large value was damaged, judged as if so much had been promised.
    fn judged(promised: u64, failed: bool) -> Result<Tally, String> {
        alone(|_| {
            let mem = MemFs::new();
            let mut history = History::default();
            let mut store = Store::open(Arc::new(mem.clone()), &Setting::plain()).unwrap();
            let put = |key: &str, len| {
                let key = key.as_bytes().to_vec();
                Operation::Put(0, key, vec![7; len], None, Durability::Sync)
            };
            for (key, len) in [("a", 10), ("large", 2 * crate::sim::setting::INLINE_BYTES)] {
                store.perform(&put(key, len), &mut history).unwrap();
            }
            let last = store.last();
            store.db().close().unwrap();
            drop(store);
            let files = mem.files();
            let is_value =
                |path: &&std::path::PathBuf| path.extension().is_some_and(|e| e == "ext");
            mem.flip_byte(files.iter().find(is_value).unwrap(), 100, 1)
                .unwrap();
            let image = Image {
                fs: mem.image(1, CrashMode::KeepAll),
                mode: CrashMode::Strict,
                call: (1, "a test"),
                durable: last - 1 + promised,
                kept: last - 1 + promised,
                last,
                failed,
                lied: false,
            };
            let mut judge = Judge {
                seed: Seed::silent(1),
                tally: Tally::new(),
                depth: 0,
                go_on_one_in: 1,
            };
            judge.judge(image, &history)?;
            Ok(judge.tally)
        })
    }

    #[test]
    fn a_lost_value_is_excused_if_a_sync_failed_and_it_was_not_promised() {
        let excused = judged(0, true).unwrap().of(LOST_VALUES);
        assert_eq!(excused, 3, "at both openings, and by `verify`");
        let promised = judged(1, true).unwrap_err();
        assert!(promised.contains("is lost"), "{promised}");
        let sound = judged(0, false).unwrap_err();
        assert!(sound.contains(".ext"), "{sound}");
    }
}
