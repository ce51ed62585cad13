//! `every-crash-point`: workloads of up to three operations (E2), and twenty long ones, crashed at
//! every call that changes the file system.
//!
//! Source: small workloads suffice (CrashMonkey and ACE, OSDI '18).
//!
//! E1. Seeds 1 to [`ALL`] are the workloads, each once, with the mapped journal; the next as many
//!     the same with the `write` fallback, the next without a journal.
//! E2. A short workload is any of up to two operations, and any of three that begins with one of
//!     the first `FIRST`: the others find nothing to do in a new database, or do as a `persist`.
//! E3. A short workload is crashed in its last operation, its closing and between: what comes
//!     before is the last operation of a shorter one. A long one is crashed everywhere.
//! E4. Images that a crash before an earlier call of the run left as well are judged once.
//! E5. Images of half of the modes are judged after what may expire has expired.
//! E6. The long ones are the same in every run: drawn, settings and openings included, from their
//!     numbers. Only the way to the journal is E1's.
//!
//! Tests: below; `tests/every_crash_point.rs`.

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
use velella_sync::simulation::Simulation;
use velella_testkit::Seed;

/// Operations a short workload is made of.
const ALPHABET: u64 = 17;
/// Those of them that one of three may begin with.
const FIRST: u64 = 12;
/// Workloads of up to two of them.
const PAIRS: u64 = 1 + ALPHABET + ALPHABET * ALPHABET;
/// And of three (E2).
const SHORT: u64 = PAIRS + FIRST * ALPHABET * ALPHABET;
/// How long a value of a short workload lives that expires, in milliseconds.
const LIVES_MS: u64 = 100;
/// Long workloads, and their operations.
const LONG: u64 = 20;
const LONG_OPERATIONS: usize = 60;
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
        "every call of 3,775 workloads of up to 3 operations, and of 20 long ones, is a crash point"
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
        alone(|simulation| workload(seed, number % ALL, &setting, sync, simulation))
    }
}

/// The operation of this number, as the `round`th of a workload.
fn operation(number: u64, round: u8, setting: &Setting) -> Operation {
    let text = |key: &str| key.as_bytes().to_vec();
    let value = |len: usize| vec![round + 1; len];
    let (lazy, sync) = (Durability::Buffered, Durability::Sync);
    match number {
        0 => Operation::Put(0, text("a"), value(20), None, lazy),
        1 => Operation::Put(1, text("b"), value(20), None, sync),
        2 => Operation::Delete(0, text("a"), lazy),
        3 => {
            let both = vec![
                (0, text("a"), Some(value(9)), None),
                (1, text("b"), Some(value(9)), None),
            ];
            Operation::Batch(both, lazy)
        }
        4 => Operation::Put(0, text("c"), value(INLINE_BYTES + 1), None, lazy),
        5 => Operation::Put(1, text("a"), value(INLINE_BYTES - 1), None, lazy),
        6 => Operation::Persist,
        7 => Operation::Create(2, KeyspaceOptions::default()),
        8 => Operation::Drop(1),
        9 => Operation::Step(Step::Prepare),
        10 => Operation::Extend(0, text("a"), value(5), lazy),
        11 => Operation::Put(1, text("b"), value(30), Some(LIVES_MS), lazy),
        // From here on not the first of three (E2).
        12 => Operation::Flush(None),
        13 => Operation::Compact(None),
        14 => Operation::Reopen(Box::new(setting.clone())),
        15 => Operation::Step(Step::Round),
        _ => Operation::Step(Step::NoteDone),
    }
}

/// Which operations short workload `number` has: its digits, by length.
fn digits(number: u64) -> Vec<u64> {
    let two = |number: u64| [number % ALPHABET, number / ALPHABET];
    match number {
        0 => Vec::new(),
        1..=ALPHABET => vec![number - 1],
        _ if number < PAIRS => two(number - 1 - ALPHABET).to_vec(),
        _ => {
            let number = number - PAIRS;
            let [second, third] = two(number / FIRST);
            vec![number % FIRST, second, third]
        }
    }
}

/// The operations of short workload `number`.
fn short(number: u64, setting: &Setting) -> Vec<Operation> {
    let of = |(round, digit): (u8, u64)| operation(digit, round, setting);
    (0..).zip(digits(number)).map(of).collect()
}

/// How the database of long workload `number` is set up, and what is done to it (E6).
fn long(number: u64, journal: JournalMode) -> (Setting, Vec<Operation>) {
    let mut seed = Seed::silent(number + 1);
    let with = |setting: Setting| Setting { journal, ..setting };
    let setting = with(Setting::random(&mut seed));
    let taste = Taste::random(&mut seed);
    let one = |_| match Operation::random(&mut seed, &taste) {
        Operation::Reopen(next) => Operation::Reopen(Box::new(with(*next))),
        other => other,
    };
    let operations = (0..LONG_OPERATIONS).map(one).collect();
    (setting, operations)
}

fn workload(
    seed: u64,
    number: u64,
    setting: &Setting,
    sync: Sync,
    simulation: &Simulation,
) -> Result<Tally, String> {
    use CrashMode::{KeepAll, Prefix, Random, Strict};
    let is_long = number >= SHORT;
    let (setting, operations) = if is_long {
        long(number - SHORT, setting.journal)
    } else {
        (setting.clone(), short(number, setting))
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
    let mut store = Store::open(fs, &setting).map_err(refused)?;
    let create = Operation::Create(1, KeyspaceOptions::default());
    for (round, operation) in [&create].into_iter().chain(&operations).enumerate() {
        if round == operations.len() {
            points.at(When::Always(modes.clone()));
        }
        points.promise(Some(store.db()), store.last(), operation.is_structural());
        prefer(round);
        if let Operation::Pass(ms) = operation {
            simulation.pass(*ms);
        }
        store
            .perform(operation, &mut history)
            .map_err(|trouble| name(trouble.to_string()))?;
    }
    points.promise(Some(store.db()), store.last(), false);
    points.now();
    store.db().close().map_err(refused)?;
    points.now();
    points.promise(None, 0, false);
    judge(seed, points.take(), &history, simulation).map_err(name)
}

/// Judges each of `images` that no other is like (E4, E5).
fn judge(
    seed: u64,
    images: Vec<Image>,
    history: &History,
    simulation: &Simulation,
) -> Result<Tally, String> {
    let mut judge = Judge {
        seed: Seed::silent(seed),
        tally: Tally::new(),
        depth: 0,
        go_on_one_in: 1,
    };
    let mut seen = HashSet::new();
    let is_later = |image: &Image| matches!(image.mode, CrashMode::Random | CrashMode::KeepAll);
    let (later, sooner): (Vec<_>, Vec<_>) = images.into_iter().partition(is_later);
    let soon = sooner.len();
    for (index, image) in sooner.into_iter().chain(later).enumerate() {
        if index == soon {
            simulation.pass(LIVES_MS);
        }
        if seen.insert(fingerprint(&image)) {
            judge.judge(image, history)?;
        } else {
            judge.tally.add("the same image again", 1);
        }
    }
    Ok(judge.tally)
}

/// What tells an image from others of its run (E4).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_workloads_open_again_and_keep_their_journal() {
        let journal = JournalMode::Write;
        let all = (0..LONG).map(|number| long(number, journal));
        let mut reopened = 0;
        for (setting, operations) in all {
            assert_eq!(setting.journal, journal);
            for operation in &operations {
                if let Operation::Reopen(next) = operation {
                    assert_eq!(next.journal, journal);
                    reopened += 1;
                }
            }
        }
        assert!(reopened >= LONG / 2, "{reopened}");
    }

    #[test]
    fn every_short_workload_comes_once() {
        let all: HashSet<_> = (0..SHORT).map(digits).collect();
        assert_eq!((SHORT, all.len() as u64), (3_775, SHORT));
        assert!(all.iter().flatten().all(|digit| *digit < ALPHABET));
        let of = |length| all.iter().filter(|digits| digits.len() == length).count() as u64;
        assert_eq!([of(0), of(1), of(2)], [1, ALPHABET, ALPHABET * ALPHABET]);
        let begins = |digits: &Vec<u64>| digits.len() < 3 || digits[0] < FIRST;
        assert!(all.iter().all(begins));
    }
}
