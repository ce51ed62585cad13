//! `corruption` and `flipped-below-the-cut`: no damage gives a wrong answer.
//!
//! D1. The victim is what a power loss left of a database all of whose writes were durable: its
//!     answers are known exactly, so every opening gives them or an error that names a file.
//! D2. `corruption` damages a victim everywhere: each byte with a bit flipped, each sector zeroed,
//!     doubled and swapped with the next, each file cut at each byte, removed, and exchanged for
//!     each other. A pass is `PASS` runs, each of which takes every so many attacks of all these
//!     sorts. Each pass flips another bit, so eight flip all; then comes the next victim.
//! D3. `flipped-below-the-cut` flips bytes of the journals of random victims: recovery may not
//!     fall back to an older state (the cut rule's promise).
//! D6. A manifest cut between two records is one that ended there: the state may then be an older
//!     one, but one there was.
//! D4. Reading a damaged copy takes less than `MEMORY_MAX` (where the binary counts allocations).
//! D5. An error that calls a file corrupt says where in it.
//!
//! Tests: `tests/corruption.rs`, `tests/flipped_below_the_cut.rs`.

use crate::campaign::{Campaign, Tally};
use crate::sim::alone;
use crate::sim::history::{History, State};
use crate::sim::judge::is_named;
use crate::sim::operation::{Operation, Taste};
use crate::sim::setting::Setting;
use crate::sim::store::{Store, Trouble};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use velella::simulation::Step;
use velella::vfs::mem::CrashMode;
use velella::vfs::{MemFs, Vfs};
use velella::{ErrorKind, RecoveryMode};
use velella_sync::allocations::peak_bytes;
use velella_sync::lock::Mutex;
use velella_sync::pool::prefer;
use velella_sync::thread;
use velella_testkit::Seed;

/// Runs that go over a victim once.
const PASS: u64 = STRIDE as u64;
/// The same: of so many attacks a run takes one.
const STRIDE: usize = 3_000;
/// Runs that flip every bit of a victim.
const VICTIM: u64 = 8 * PASS;
const SECTOR: usize = 512;
/// Most bytes that reading a damaged copy may take.
const MEMORY_MAX: u64 = 64 << 20;
/// Flips of one run below the cut.
const FLIPS: u64 = 40;

/// A database as a power loss left it, and all it answers.
#[derive(Debug)]
struct Victim {
    fs: MemFs,
    state: State,
    history: History,
    /// Every file with something in it, and its bytes.
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Victim {
    /// Plays a workload of `operations`, makes all of it durable, and cuts the power.
    fn of(seed: &mut Seed, operations: usize) -> Result<Victim, String> {
        let mem = MemFs::new();
        let setting = Setting::plain();
        let mut history = History::default();
        let failed = |error: velella::Error| format!("making the victim: {error}");
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
        store.db().persist().map_err(failed)?;
        velella::simulation::step(store.db(), Step::NoteDone).map_err(failed)?;
        let state = store.state().map_err(|trouble| trouble.to_string())?;
        let fs = mem.crash(0, CrashMode::Strict);
        drop(store);
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
            files,
        })
    }

    fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
    }

    fn sectors(&self) -> u64 {
        let of = |(_, bytes): &(PathBuf, Vec<u8>)| bytes.len().div_ceil(SECTOR) as u64;
        self.files.iter().map(of).sum()
    }

    /// Attacks of one pass.
    fn attacks(&self) -> u64 {
        let files = self.files.len() as u64;
        2 * self.bytes() + 3 * self.sectors() + files + files * files
    }

    /// The file and the place in it of byte (or sector, by `unit`) `number` of all.
    fn locate(&self, mut number: u64, unit: usize) -> (usize, usize) {
        for (index, (_, bytes)) in self.files.iter().enumerate() {
            let here = bytes.len().div_ceil(unit) as u64;
            if number < here {
                return (index, usize::try_from(number).unwrap_or(0));
            }
            number -= here;
        }
        (0, 0)
    }

    /// Damages a copy by attack `number`; what was done, to which file, on which copy.
    fn damage(&self, mut number: u64, bit: u32) -> (String, PathBuf, MemFs) {
        let copy = self.fs.image(0, CrashMode::KeepAll);
        let put = |path: &Path, bytes: &[u8]| drop(copy.write_file(path, bytes));
        let (bytes, sectors) = (self.bytes(), self.sectors());
        if number < bytes {
            let (file, at) = self.locate(number, 1);
            let path = &self.files[file].0;
            drop(copy.flip_byte(path, at as u64, 1 << bit));
            return (
                format!("bit {bit} of byte {at} flipped"),
                path.clone(),
                copy,
            );
        }
        number -= bytes;
        if number < 3 * sectors {
            let (file, sector) = self.locate(number / 3, SECTOR);
            let (path, bytes) = &self.files[file];
            let mut bytes = bytes.clone();
            let what = damage_sector(&mut bytes, sector, number % 3);
            put(path, &bytes);
            return (format!("sector {sector} {what}"), path.clone(), copy);
        }
        number -= 3 * sectors;
        if number < bytes {
            let (file, at) = self.locate(number, 1);
            let (path, bytes) = &self.files[file];
            put(path, &bytes[..at]);
            return (format!("cut to {at} bytes"), path.clone(), copy);
        }
        number -= bytes;
        let files = self.files.len() as u64;
        let index = |number: u64| usize::try_from(number).unwrap_or(0) % self.files.len();
        if number < files {
            let path = &self.files[index(number)].0;
            drop(copy.remove(path));
            return ("removed".to_owned(), path.clone(), copy);
        }
        number -= files;
        let (one, other) = (
            &self.files[index(number / files)],
            &self.files[index(number % files)],
        );
        put(&one.0, &other.1);
        put(&other.0, &one.1);
        (
            format!("exchanged for {}", other.0.display()),
            one.0.clone(),
            copy,
        )
    }

    /// Opens a damaged copy (D1).
    fn judge(
        &self,
        copy: &MemFs,
        path: &Path,
        setting: &Setting,
        cut: bool,
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
        let manifest = path.to_string_lossy().contains("MANIFEST");
        let verdict = match read {
            Ok(state) if state == self.state => "answered rightly",
            Ok(older) if manifest && cut => {
                self.history.explain(&older, thread::wall_ms(), 0)?;
                "older, for its manifest ended there"
            }
            Ok(_) => return Err("a wrong answer".to_owned()),
            Err(Trouble::Refused(error)) if is_named(&error) && is_placed(&error) => "noticed",
            Err(trouble) => return Err(trouble.to_string()),
        };
        tally.add(verdict, 1);
        Ok(())
    }
}

/// Damage that says where in its file it is (D5).
fn is_placed(error: &velella::Error) -> bool {
    error.kind() != ErrorKind::Corruption || error.offset().is_some()
}

/// Zeroes, doubles (over the next) or swaps (with the next) a sector.
fn damage_sector(bytes: &mut [u8], sector: usize, how: u64) -> &'static str {
    let begin = sector * SECTOR;
    let end = bytes.len().min(begin + SECTOR);
    if how == 0 {
        bytes[begin..end].fill(0);
        return "zeroed";
    }
    let len = bytes.len().saturating_sub(end).min(end - begin);
    if how == 1 {
        bytes.copy_within(begin..begin + len, end);
        return "doubled";
    }
    let (front, back) = bytes.split_at_mut(end);
    front[begin..begin + len].swap_with_slice(&mut back[..len]);
    "swapped with the next"
}

/// How damaged copies are opened.
fn reading(accept_loss: bool) -> Setting {
    let mut setting = Setting::plain();
    if accept_loss {
        setting.recovery = RecoveryMode::AcceptLoss;
    }
    setting
}

/// Every byte of every file damaged.
#[derive(Debug, Default)]
pub struct Corruption {
    /// A control: recovery is told to accept losses, so answers must be found wrong.
    accept_loss: bool,
    /// A session has eight passes, which flip all bits.
    every_bit: bool,
    /// The victim damaged last, with its number.
    victim: Mutex<Option<(u64, Arc<Victim>)>>,
}

impl Corruption {
    /// The control.
    #[must_use]
    pub fn accepting_loss() -> Corruption {
        Corruption {
            accept_loss: true,
            ..Corruption::default()
        }
    }

    /// All eight bits of every byte.
    #[must_use]
    pub fn in_every_bit() -> Corruption {
        Corruption {
            every_bit: true,
            ..Corruption::default()
        }
    }

    /// Victim `number`, of 0, 1, 2, …
    fn victim(&self, number: u64) -> Result<Arc<Victim>, String> {
        let mut last = self.victim.lock();
        if let Some((_, victim)) = last.as_ref().filter(|(of, _)| *of == number) {
            return Ok(Arc::clone(victim));
        }
        let victim = alone(|_| Victim::of(&mut Seed::silent(4 + number), 120))?;
        Ok(Arc::clone(&last.insert((number, Arc::new(victim))).1))
    }
}

impl Campaign for Corruption {
    fn name(&self) -> &'static str {
        if self.every_bit {
            "corruption-of-every-bit"
        } else {
            "corruption"
        }
    }

    fn goal(&self) -> &'static str {
        "G4"
    }

    fn about(&self) -> &'static str {
        "a database with every byte flipped, every sector and file damaged: never a wrong answer"
    }

    fn unit(&self) -> &'static str {
        "damages"
    }

    fn usual_runs(&self) -> u64 {
        if self.every_bit { VICTIM } else { PASS }
    }

    fn run(&self, seed: u64) -> Result<Tally, String> {
        let from_zero = seed.saturating_sub(1);
        let victim = self.victim(from_zero / VICTIM)?;
        let (pass, run) = (from_zero / PASS, from_zero % PASS);
        let setting = reading(self.accept_loss);
        alone(|_| {
            let mut tally = Tally::new();
            for number in (run..victim.attacks()).step_by(STRIDE) {
                // Each pass another bit of each byte, all eight in eight passes.
                let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
                let bit = u32::try_from((spread + pass) % 8).unwrap_or(0);
                let (what, path, copy) = victim.damage(number, bit);
                tally.add("damages", 1);
                let cut = what.starts_with("cut");
                victim
                    .judge(&copy, &path, &setting, cut, &mut tally)
                    .map_err(|why| format!("{} {what}: {why}", path.display()))?;
            }
            Ok(tally)
        })
    }
}

/// Bytes of journals flipped.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlippedBelowTheCut {
    /// A control: recovery is told to accept losses, so answers must be found wrong.
    pub accept_loss: bool,
}

impl Campaign for FlippedBelowTheCut {
    fn name(&self) -> &'static str {
        "flipped-below-the-cut"
    }

    fn goal(&self) -> &'static str {
        "G4"
    }

    fn about(&self) -> &'static str {
        "a flipped byte in a durable journal: opening fails with its file, or nothing is missing"
    }

    fn unit(&self) -> &'static str {
        "flips"
    }

    fn usual_runs(&self) -> u64 {
        100
    }

    fn run(&self, seed: u64) -> Result<Tally, String> {
        let setting = reading(self.accept_loss);
        alone(|_| {
            let mut chance = Seed::silent(seed);
            let operations = 5 + chance.index(60);
            let victim = Victim::of(&mut chance, operations)?;
            let journal = |(path, _): &&(PathBuf, Vec<u8>)| {
                path.components().any(|part| part.as_os_str() == "journal")
            };
            let journals: Vec<_> = victim.files.iter().filter(journal).collect();
            let mut tally = Tally::new();
            for _ in 0..FLIPS {
                let (path, bytes) = chance.pick(&journals);
                // Zeros were never written: most of a segment, and no bytes of any record.
                let used = bytes
                    .iter()
                    .rposition(|byte| *byte != 0)
                    .map_or(1, |last| last + 1);
                let (at, mask) = (chance.below(used as u64), 1u8 << chance.below(8));
                let copy = victim.fs.image(0, CrashMode::KeepAll);
                drop(copy.flip_byte(path, at, mask));
                tally.add("flips", 1);
                victim
                    .judge(&copy, path, &setting, false, &mut tally)
                    .map_err(|why| format!("{} at {at} by {mask:#x}: {why}", path.display()))?;
            }
            Ok(tally)
        })
    }
}
