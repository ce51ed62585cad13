//! `every-crash-point`: all workloads of up to three operations, and twenty long ones, crashed at
//! every call that changes the file system.
//!
//! Source: small workloads suffice (CrashMonkey and ACE, OSDI '18).
//!
//! E1. Seeds 1 to [`ALL`] are the workloads, each once, with the mapped journal; the next as many
//!     the same with the `write` fallback, the next without a journal.
//! E2. A short workload is crashed in its last operation, its closing and between: what comes
//!     before is the last operation of a shorter one. A long one is crashed everywhere.
//! E3. Images that a crash before an earlier call of the run left as well are judged once.
//!
//! Tests: `tests/every_crash_point.rs`.

use crate::campaign::{Campaign, Tally};
use crate::sim::alone;
use crate::sim::history::History;
use crate::sim::judge::Judge;
use crate::sim::operation::{Operation, Taste};
use crate::sim::points::{Image, Points, Sync, When};
use crate::sim::setting::{INLINE_BYTES, Setting};
use crate::sim::store::Store;
use std::collections::HashSet;
use velella::simulation::Step;
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{Durability, JournalMode, KeyspaceOptions};
use velella_sync::pool::prefer;
use velella_testkit::Seed;

/// Operations a short workload is made of.
const ALPHABET: u64 = 12;
/// Workloads of up to three of them.
const SHORT: u64 = 1 + ALPHABET + ALPHABET * ALPHABET + ALPHABET * ALPHABET * ALPHABET;
/// Long workloads, and their operations.
const LONG: u64 = 20;
const LONG_OPERATIONS: usize = 25;
/// All workloads.
pub const ALL: u64 = SHORT + LONG;

/// Every crash point of every small workload.
#[derive(Debug, Clone, Copy, Default)]
pub struct EveryCrashPoint {
    /// A control: every sync lies, and nobody tells the judge.
    pub lies: bool,
}

impl Campaign for EveryCrashPoint {
    fn name(&self) -> &'static str {
        "every-crash-point"
    }

    fn goal(&self) -> &'static str {
        "G2c"
    }

    fn about(&self) -> &'static str {
        "every call of every workload of up to 3 operations, and of 20 long ones, is a crash point"
    }

    fn unit(&self) -> &'static str {
        "crash images"
    }

    fn usual_runs(&self) -> u64 {
        ALL
    }

    fn run(&self, seed: u64) -> Result<Tally, String> {
        let number = seed.saturating_sub(1);
        let journal = [JournalMode::Mapped, JournalMode::Write, JournalMode::Off];
        let setting = Setting {
            journal: journal[usize::try_from(number / ALL % 3).unwrap_or(0)],
            ..Setting::plain()
        };
        let sync = if self.lies {
            Sync::LiesInSecret(1)
        } else {
            Sync::Honest
        };
        alone(|_| workload(seed, number % ALL, &setting, sync))
    }
}

/// The operation of this number, as the `round`th of a workload.
fn operation(number: u64, round: u8) -> Operation {
    let text = |key: &str| key.as_bytes().to_vec();
    let value = |len: usize| vec![round + 1; len];
    let (lazy, sync) = (Durability::Buffered, Durability::Sync);
    match number {
        0 => Operation::Put(0, text("a"), value(20), None, lazy),
        1 => Operation::Put(1, text("b"), value(20), None, sync),
        2 => Operation::Delete(0, text("a"), lazy),
        3 => {
            let both = vec![
                (0, text("a"), Some(value(9))),
                (1, text("b"), Some(value(9))),
            ];
            Operation::Batch(both, lazy)
        }
        4 => Operation::Put(0, text("c"), value(INLINE_BYTES + 1), None, lazy),
        5 => Operation::Put(1, text("a"), value(INLINE_BYTES - 1), None, lazy),
        6 => Operation::Flush(None),
        7 => Operation::Compact(None),
        8 => Operation::Persist,
        9 => Operation::Create(2, KeyspaceOptions::default()),
        10 => Operation::Drop(1),
        _ => Operation::Step(Step::Prepare),
    }
}

/// The operations of short workload `number`: its digits, by length.
fn short(mut number: u64) -> Vec<Operation> {
    let (mut length, mut count) = (0, 1);
    while number >= count {
        number -= count;
        count *= ALPHABET;
        length += 1;
    }
    let digit = |round: u8| {
        let digit = number / ALPHABET.pow(u32::from(round)) % ALPHABET;
        operation(digit, round)
    };
    (0..length).map(digit).collect()
}

fn long(number: u64) -> Vec<Operation> {
    let mut seed = Seed::silent(number + 1);
    let taste = Taste::random(&mut seed);
    let mut operations = Vec::new();
    while operations.len() < LONG_OPERATIONS {
        let operation = Operation::random(&mut seed, &taste);
        if !matches!(operation, Operation::Pass(_) | Operation::Reopen(_)) {
            operations.push(operation);
        }
    }
    operations
}

fn workload(seed: u64, number: u64, setting: &Setting, sync: Sync) -> Result<Tally, String> {
    use CrashMode::{KeepAll, Prefix, Random, Strict};
    let is_long = number >= SHORT;
    let operations = if is_long {
        long(number - SHORT)
    } else {
        short(number)
    };
    let modes = if is_long {
        vec![Strict, Random]
    } else {
        vec![Strict, Random, Prefix, KeepAll]
    };
    let everywhere = is_long || operations.is_empty();
    let mem = MemFs::new();
    let first = if everywhere {
        When::Always(modes.clone())
    } else {
        When::Never
    };
    let (fs, points) = Points::over(&mem, Seed::silent(seed), first, sync);
    let mut history = History::default();
    let name = |what: String| format!("{operations:?}: {what}");
    let refused = |error: velella::Error| name(error.to_string());
    let mut store = Store::open(fs, setting).map_err(refused)?;
    let create = Operation::Create(1, KeyspaceOptions::default());
    for (round, operation) in [&create].into_iter().chain(&operations).enumerate() {
        if round == operations.len() {
            points.at(When::Always(modes.clone()));
        }
        points.promise(Some(store.db()), store.last(), operation.is_structural());
        prefer(round);
        store
            .perform(operation, &mut history)
            .map_err(|trouble| name(trouble.to_string()))?;
    }
    points.promise(Some(store.db()), store.last(), false);
    points.now();
    store.db().close().map_err(refused)?;
    points.now();
    points.promise(None, 0, false);
    let mut judge = Judge {
        seed: Seed::silent(seed),
        tally: Tally::new(),
        depth: 0,
        go_on_one_in: 8,
    };
    let mut seen = HashSet::new();
    for image in points.take() {
        if seen.insert(fingerprint(&image)) {
            judge.judge(image, &history).map_err(name)?;
        } else {
            judge.tally.add("the same image again", 1);
        }
    }
    Ok(judge.tally)
}

/// What tells an image from others of its run (E3).
fn fingerprint(image: &Image) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (
        image.promised(),
        image.last,
        image.mode == CrashMode::KeepAll,
    )
        .hash(&mut hasher);
    for path in image.fs.files() {
        let bytes = image.fs.read_file(&path).unwrap_or_default();
        (path, bytes.len()).hash(&mut hasher);
        // Most of a new journal is zeros, which take longest.
        let pages = bytes.chunks(4096).enumerate();
        let filled = pages.filter(|(_, page)| page.iter().fold(0, |all, byte| all | byte) != 0);
        filled.for_each(|page| page.hash(&mut hasher));
    }
    hasher.finish()
}
