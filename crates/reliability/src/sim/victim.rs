//! A database to be damaged, and the judge of what reading a damaged copy gives.
//!
//! V1. A victim is what a power loss left of a database all of whose writes were durable: its
//!     answers are known exactly, so every opening gives them or an error that names a file.
//! V2. Without a journal nothing tells of a manifest's last records but they: where they are cut
//!     off, or look like a torn one, the state may be an older one, but one there was.
//! V3. Reading a damaged copy takes less than `MEMORY_MAX` (where the binary counts allocations).
//! V4. An error that calls a file corrupt says where in it.
//! V5. A process that was killed had promised what was durable; what no round covered may be given
//!     up from one stamp on. Where a segment loses all that a lane wrote since then, or the
//!     manifest its last edits, there may be a hole: nothing in the files tells (journal,
//!     `recovery/judge.rs`, J1; docs/format/manifest.md).
//! V6. Where the power went in the middle, the last round's note that it completed may be lost with
//!     it: damage to that round's seal or records looks like a round in flight, so that what was
//!     durable before it is promised, and what the manifest waited for; no more.
//!
//! Tests: the campaigns that damage victims.

use crate::campaign::Tally;
use crate::sim::history::{History, State};
use crate::sim::judge::is_named;
use crate::sim::operation::{Operation, Taste};
use crate::sim::setting::{DIR, Setting};
use crate::sim::store::{Store, Trouble};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella::ErrorKind;
use velella::simulation::{self, Step};
use velella::vfs::mem::CrashMode;
use velella::vfs::{MemFs, Vfs};
use velella_sync::allocations::peak_bytes;
use velella_sync::pool::prefer;
use velella_sync::simulation::Simulation;
use velella_sync::thread;
use velella_testkit::Seed;
use velella_tree::manifest::Manifest;

/// Bytes of a sector.
pub const SECTOR: usize = 512;
/// Bytes of a page, which is what caches write back and solid-state drives lose.
pub const PAGE: usize = 4096;
/// Most bytes that reading a damaged copy may take.
const MEMORY_MAX: u64 = 64 << 20;

/// A database as a power loss left it, and all it answers.
#[derive(Debug)]
pub struct Victim {
    fs: MemFs,
    state: State,
    history: History,
    has_journal: bool,
    left: Left,
    /// Every file with something in it, and its bytes.
    files: Vec<(PathBuf, Vec<u8>)>,
    /// What some of them held some time before.
    earlier: BTreeMap<PathBuf, Vec<u8>>,
}

/// What of a victim must be there whatever is damaged, if no error says so.
#[derive(Debug, Clone, Copy)]
enum Left {
    /// All (V1).
    All,
    /// All up to this stamp, of what a killed process left (V5).
    Killed(u64),
    /// All up to this stamp, of what a power loss left (V6).
    Cut(u64),
}

/// How a victim ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// All was made durable, and the power cut.
    PowerLoss,
    Close,
    /// The process died, with all in the page cache.
    Kill,
    /// The power was cut; all up to this stamp was durable before the last round.
    Cut(u64),
}

/// What is done to a victim: files by their number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// A bit of a byte is another.
    Flip {
        /// The file.
        file: usize,
        /// Which byte.
        at: usize,
        /// Which bit.
        bit: u32,
    },
    /// A sector is zeros.
    Zero(usize, usize),
    /// A page is zeros.
    Page(usize, usize),
    /// A page is as it was some time before.
    Stale(usize, usize),
    /// A sector stands at the place of the next, too.
    Double(usize, usize),
    /// A sector and the next changed places.
    Swap(usize, usize),
    /// The file ends after so many bytes.
    Cut(usize, usize),
    /// The file is gone.
    Remove(usize),
    /// Two files changed their names.
    Exchange(usize, usize),
}

impl Damage {
    /// The files it is done to, by their numbers; one of them twice.
    fn files(self) -> [usize; 2] {
        match self {
            Damage::Flip { file, .. }
            | Damage::Zero(file, _)
            | Damage::Page(file, _)
            | Damage::Stale(file, _)
            | Damage::Double(file, _)
            | Damage::Swap(file, _)
            | Damage::Cut(file, _)
            | Damage::Remove(file) => [file, file],
            Damage::Exchange(one, other) => [one, other],
        }
    }
}

impl Victim {
    /// Plays a workload of `operations`, makes all of it durable, and cuts the power.
    ///
    /// # Errors
    /// What the database refused or did wrong.
    pub fn of(seed: &mut Seed, operations: usize) -> Result<Victim, String> {
        let mem = MemFs::new();
        let setting = Setting::plain();
        let mut history = History::default();
        let mut store = Store::open(Arc::new(mem.clone()), &setting).map_err(failed)?;
        let taste = Taste::random(seed);
        for _ in 0..operations {
            let operation = Operation::random(seed, &taste);
            if matches!(operation, Operation::Reopen(_) | Operation::Pass(_)) {
                continue;
            }
            prefer(seed.index(setting.lanes));
            let done = store.perform(&operation, &mut history);
            done.map_err(|trouble| format!("making the victim: {trouble}"))?;
        }
        Self::left_of(
            &mem,
            store,
            history,
            (setting.has_journal(), End::PowerLoss),
        )
    }

    /// The same of any setting, with time that passes, openings under other settings, and a close
    /// at the end of some.
    ///
    /// # Errors
    /// What the database refused or did wrong.
    pub fn any(seed: &mut Seed, simulation: &Simulation) -> Result<Victim, String> {
        let mem = MemFs::new();
        let mut setting = Setting::random(seed);
        let mut history = History::default();
        let mut store = Store::open(Arc::new(mem.clone()), &setting).map_err(failed)?;
        let taste = Taste::random(seed);
        let operations = 5 + seed.below(100);
        let early = seed.below(operations);
        let mut earlier = BTreeMap::new();
        let (mut before, mut durable) = (0, 0);
        for number in 0..operations {
            if number == early {
                let then = mem.image(0, CrashMode::KeepAll);
                for path in then.files() {
                    let bytes = then.read_file(&path).map_err(failed)?;
                    earlier.insert(path, bytes);
                }
            }
            let operation = Operation::random(seed, &taste);
            match &operation {
                Operation::Pass(ms) => simulation.pass(*ms),
                Operation::Reopen(next) => setting = (**next).clone(),
                _ => {}
            }
            prefer(seed.index(setting.lanes));
            let done = store.perform(&operation, &mut history);
            done.map_err(|trouble| format!("making the victim: {trouble}"))?;
            let now = store.db().durable().0;
            if now > durable {
                (before, durable) = (durable, now);
            }
        }
        let end = *seed.pick(&[End::PowerLoss, End::Close, End::Kill, End::Cut(before)]);
        let victim = Self::left_of(&mem, store, history, (setting.has_journal(), end))?;
        Ok(Victim { earlier, ..victim })
    }

    /// What `end` leaves of a database.
    fn left_of(
        mem: &MemFs,
        store: Store,
        history: History,
        (has_journal, end): (bool, End),
    ) -> Result<Victim, String> {
        let mut state = store.state().map_err(|trouble| trouble.to_string())?;
        let (mut left, mode) = match end {
            End::Close => {
                store.db().close().map_err(failed)?;
                (Left::All, CrashMode::Strict)
            }
            End::PowerLoss => {
                store.db().persist().map_err(failed)?;
                simulation::step(store.db(), Step::NoteDone).map_err(failed)?;
                (Left::All, CrashMode::Strict)
            }
            End::Kill => (Left::Killed(store.db().durable().0), CrashMode::KeepAll),
            End::Cut(_) => (Left::All, CrashMode::Strict),
        };
        let fs = mem.crash(0, mode);
        drop(store);
        if let End::Cut(before) = end {
            let waited_for = Manifest::replay(&fs, Path::new(DIR)).map_err(failed)?;
            let waited_for = waited_for.state.durable_below.0.saturating_sub(1);
            if has_journal {
                left = Left::Cut(before.max(waited_for));
            }
            let copy = Arc::new(fs.image(0, CrashMode::KeepAll));
            let store = Store::open(copy, &Setting::plain()).map_err(failed)?;
            state = store.state().map_err(|trouble| trouble.to_string())?;
        }
        let mut files = Vec::new();
        for path in fs.files() {
            let bytes = fs.read_file(&path).map_err(failed)?;
            if !bytes.is_empty() {
                files.push((path, bytes));
            }
        }
        Ok(Victim {
            fs,
            state,
            history,
            has_journal,
            left,
            files,
            earlier: BTreeMap::new(),
        })
    }

    /// Every file with something in it, and its bytes.
    #[must_use]
    pub fn files(&self) -> &[(PathBuf, Vec<u8>)] {
        &self.files
    }

    /// What a page held some time before, if that is known and was something else.
    #[must_use]
    pub fn older(&self, file: usize, page: usize) -> Option<&[u8]> {
        let (path, now) = &self.files[file];
        let then = self.earlier.get(path)?;
        let begin = page * PAGE;
        let end = now.len().min(then.len()).min(begin + PAGE);
        (begin < end && now[begin..end] != then[begin..end]).then(|| &then[begin..end])
    }

    /// Bytes of all files.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.files.iter().map(|(_, bytes)| bytes.len()).sum()
    }

    /// Sectors of all files.
    #[must_use]
    pub fn sectors(&self) -> usize {
        let of = |(_, bytes): &(PathBuf, Vec<u8>)| bytes.len().div_ceil(SECTOR);
        self.files.iter().map(of).sum()
    }

    /// The file and the place in it of byte (or sector, by `unit`) `number` of all.
    #[must_use]
    pub fn locate(&self, mut number: usize, unit: usize) -> (usize, usize) {
        for (file, (_, bytes)) in self.files.iter().enumerate() {
            let here = bytes.len().div_ceil(unit);
            if number < here {
                return (file, number);
            }
            number -= here;
        }
        (0, 0)
    }

    /// A copy with `damage` done to it.
    fn damaged(&self, damage: Damage) -> MemFs {
        let copy = self.fs.image(0, CrashMode::KeepAll);
        let put = |file: usize, bytes: &[u8]| drop(copy.write_file(&self.files[file].0, bytes));
        let bytes = |file: usize| self.files[file].1.clone();
        match damage {
            Damage::Flip { file, at, bit } => {
                drop(copy.flip_byte(&self.files[file].0, at as u64, 1 << bit));
            }
            Damage::Zero(file, sector) => {
                let mut bytes = bytes(file);
                let (begin, end, _) = around(&bytes, sector);
                bytes[begin..end].fill(0);
                put(file, &bytes);
            }
            Damage::Page(file, page) => {
                let mut bytes = bytes(file);
                let end = bytes.len().min((page + 1) * PAGE);
                bytes[page * PAGE..end].fill(0);
                put(file, &bytes);
            }
            Damage::Stale(file, page) => {
                let mut bytes = bytes(file);
                if let Some(older) = self.older(file, page) {
                    bytes[page * PAGE..page * PAGE + older.len()].copy_from_slice(older);
                }
                put(file, &bytes);
            }
            Damage::Double(file, sector) => {
                let mut bytes = bytes(file);
                let (begin, end, len) = around(&bytes, sector);
                bytes.copy_within(begin..begin + len, end);
                put(file, &bytes);
            }
            Damage::Swap(file, sector) => {
                let mut bytes = bytes(file);
                let (begin, end, len) = around(&bytes, sector);
                let (front, back) = bytes.split_at_mut(end);
                front[begin..begin + len].swap_with_slice(&mut back[..len]);
                put(file, &bytes);
            }
            Damage::Cut(file, len) => put(file, &self.files[file].1[..len]),
            Damage::Remove(file) => drop(copy.remove(&self.files[file].0)),
            Damage::Exchange(one, other) => {
                put(one, &self.files[other].1);
                put(other, &self.files[one].1);
            }
        }
        copy
    }

    /// Does `damage` to a copy, opens that with `setting` and reads everything (V1).
    ///
    /// # Errors
    /// What was wrong, with the file and the damage.
    pub fn judge(
        &self,
        damage: Damage,
        setting: &Setting,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let copy = self.damaged(damage);
        let judged = self.judge_copy(&copy, damage, setting, tally);
        judged.map_err(|why| format!("{}: {why}", self.show(damage)))
    }

    fn judge_copy(
        &self,
        copy: &MemFs,
        damage: Damage,
        setting: &Setting,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let (read, bytes) = peak_bytes(|| {
            let store = Store::open(Arc::new(copy.clone()), setting);
            store.map_err(Trouble::from).and_then(|store| {
                let state = store.state()?;
                let absent = store.absent(self.state.keys(), &state);
                store.db().verify()?;
                absent.map(|()| state)
            })
        });
        if bytes >= MEMORY_MAX {
            return Err(format!("reading it took {bytes} bytes"));
        }
        drop(copy.crash(0, CrashMode::Strict));
        let verdict = match read {
            Ok(state) if state == self.state => "answered rightly",
            Ok(older) if !self.has_journal && self.ends_a_manifest(damage) => {
                self.history.explain(&older, thread::wall_ms(), 0)?;
                "older, as its manifest was"
            }
            Ok(older) => match self.left {
                Left::All => return Err("a wrong answer".to_owned()),
                Left::Killed(durable) => self.after_kill(&older, damage, durable)?,
                Left::Cut(before) => {
                    self.history.explain(&older, thread::wall_ms(), before)?;
                    "older, by the last round"
                }
            },
            Err(Trouble::Refused(error)) if is_named(&error) && is_placed(&error) => "noticed",
            Err(trouble) => return Err(trouble.to_string()),
        };
        tally.add(verdict, 1);
        Ok(())
    }

    /// V5.
    fn after_kill(
        &self,
        found: &State,
        damage: Damage,
        durable: u64,
    ) -> Result<&'static str, String> {
        let now = thread::wall_ms();
        match self.history.explain(found, now, durable) {
            Ok(_) => Ok("older, by what no round covered"),
            Err(_) if self.is_segment(damage) || self.ends_a_manifest(damage) => {
                self.history.explain_each(found, now, durable)?;
                Ok("a hole in what no round covered")
            }
            Err(why) => Err(why),
        }
    }

    fn is_segment(&self, damage: Damage) -> bool {
        let is_segment = |file: usize| {
            let extension = self.files[file].0.extension();
            extension.is_some_and(|extension| extension == "seg")
        };
        damage.files().into_iter().any(is_segment)
    }

    /// Whether it may look like an end of the manifest, or a torn one.
    fn ends_a_manifest(&self, damage: Damage) -> bool {
        let [file, _] = damage.files();
        let is_end = !matches!(
            damage,
            Damage::Flip { .. } | Damage::Remove(_) | Damage::Exchange(..)
        );
        let path = self.files[file].0.to_string_lossy();
        is_end && path.contains("MANIFEST")
    }

    /// The file, and what was done to it.
    fn show(&self, damage: Damage) -> String {
        let path = |file: usize| self.files[file].0.display();
        match damage {
            Damage::Flip { file, at, bit } => {
                format!("{} bit {bit} of byte {at} flipped", path(file))
            }
            Damage::Zero(file, sector) => format!("{} sector {sector} zeroed", path(file)),
            Damage::Stale(file, page) => format!("{} page {page} as before", path(file)),
            Damage::Page(file, page) => format!("{} page {page} zeroed", path(file)),
            Damage::Double(file, sector) => format!("{} sector {sector} doubled", path(file)),
            Damage::Swap(file, sector) => {
                format!("{} sector {sector} swapped with the next", path(file))
            }
            Damage::Cut(file, len) => format!("{} cut to {len} bytes", path(file)),
            Damage::Remove(file) => format!("{} removed", path(file)),
            Damage::Exchange(one, other) => {
                format!("{} exchanged for {}", path(one), path(other))
            }
        }
    }
}

fn failed(error: velella::Error) -> String {
    format!("making the victim: {error}")
}

/// Where a sector begins and ends, and how much of it the next has room for.
fn around(bytes: &[u8], sector: usize) -> (usize, usize, usize) {
    let begin = sector * SECTOR;
    let end = bytes.len().min(begin + SECTOR);
    (begin, end, (bytes.len() - end).min(end - begin))
}

/// Damage that says where in its file it is (V4).
fn is_placed(error: &velella::Error) -> bool {
    error.kind() != ErrorKind::Corruption || error.offset().is_some()
}
