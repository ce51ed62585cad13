//! What a workload does: one operation, with all that it needs.
//!
//! O1. Drawing one asks the seed only, so that a workload is the same on every machine.
//!
//! Tests: the campaigns that run workloads.

use crate::sim::setting::{INLINE_BYTES, Setting, random_keyspace};
use std::time::Duration;
use velella::simulation::Step;
use velella::{Durability, KeyspaceOptions};
use velella_testkit::Seed;

/// Names of the keyspaces of a workload, by their number; the first is always there.
pub const KEYSPACES: [&str; 3] = [velella::DEFAULT_KEYSPACE, "other", "third"];

/// A put, expiring after so many milliseconds if given, or a deletion, of a batch.
pub type Part = (u8, Vec<u8>, Option<Vec<u8>>, Option<u64>);

/// One operation. Those on a keyspace that does not exist do nothing.
#[derive(Clone)]
pub enum Operation {
    /// A put, expiring after so many milliseconds if given.
    Put(u8, Vec<u8>, Vec<u8>, Option<u64>, Durability),
    /// A deletion.
    Delete(u8, Vec<u8>, Durability),
    /// Puts and deletions at once.
    Batch(Vec<Part>, Durability),
    /// The same, if none of the keys was written since the snapshot held, or one taken now.
    BatchIfUnchanged(Vec<Part>, Durability),
    /// Puts, or deletes, by a compare-and-swap that expects what is there, or something else.
    Swap {
        /// Of which keyspace.
        keyspace: u8,
        /// The key.
        key: Vec<u8>,
        /// What it expects is there.
        is_right: bool,
        /// What it writes; `None`: it deletes.
        new: Option<Vec<u8>>,
    },
    /// Appends to a value by a read-modify-write.
    Extend(u8, Vec<u8>, Vec<u8>, Durability),
    /// Makes everything durable.
    Persist,
    /// Flushes one keyspace, or all.
    Flush(Option<u8>),
    /// Compacts one keyspace, or all.
    Compact(Option<u8>),
    /// A piece of background work.
    Step(Step),
    /// Creates a keyspace.
    Create(u8, KeyspaceOptions),
    /// Drops a keyspace.
    Drop(u8),
    /// Closes the database and opens it again.
    Reopen(Box<Setting>),
    /// Takes a snapshot, in place of the one before.
    Snapshot,
    /// Reads everything and compares.
    Read,
    /// Time passes.
    Pass(u64),
}

/// What a random workload prefers, so that no two are alike.
#[derive(Debug, Clone, Copy)]
pub struct Taste {
    keys: u64,
    sync_one_in: u64,
    large_one_in: u64,
    upkeep: u64,
}

impl Taste {
    /// Any taste.
    #[must_use]
    pub fn random(seed: &mut Seed) -> Taste {
        Taste {
            keys: *seed.pick(&[4, 12, 30]),
            sync_one_in: *seed.pick(&[3, 10, 30]),
            large_one_in: *seed.pick(&[6, 20, 100]),
            upkeep: *seed.pick(&[8, 16, 30]),
        }
    }

    fn durability(&self, seed: &mut Seed) -> Durability {
        if !seed.one_in(self.sync_one_in) {
            return Durability::Buffered;
        }
        *seed.pick(&[Durability::Sync, Durability::Group(Duration::from_nanos(1))])
    }

    fn value(&self, seed: &mut Seed) -> Vec<u8> {
        if !seed.one_in(self.large_one_in) {
            return seed.value(120);
        }
        // Around the borders: inline in the lane, in a large record, in a file of its own.
        let least = *seed.pick(&[1_990, INLINE_BYTES - 60, INLINE_BYTES + 1]);
        let mut value = seed.value(60);
        let (byte, own) = (value[0], value.len());
        value.resize(least + own, byte);
        value
    }
}

fn keyspace(seed: &mut Seed) -> u8 {
    *seed.pick(&[0, 0, 0, 1, 1, 2])
}

/// One to five puts, some of which expire, and deletions.
fn parts(seed: &mut Seed, taste: &Taste) -> Vec<Part> {
    let one = |seed: &mut Seed| {
        let (number, key) = (keyspace(seed), seed.key(taste.keys));
        let value = (!seed.one_in(4)).then(|| taste.value(seed));
        let lives = seed.one_in(6).then(|| 1 + seed.below(200));
        (number, key, value, lives)
    };
    let count = 1 + seed.below(5);
    (0..count).map(|_| one(seed)).collect()
}

impl Operation {
    /// Any operation.
    #[must_use]
    pub fn random(seed: &mut Seed, taste: &Taste) -> Operation {
        if seed.below(64) < taste.upkeep {
            return Operation::upkeep(seed);
        }
        let (number, key) = (keyspace(seed), seed.key(taste.keys));
        let durability = taste.durability(seed);
        match seed.below(15) {
            0 | 1 => Operation::Delete(number, key, durability),
            2 | 3 => Operation::Batch(parts(seed, taste), durability),
            12 | 13 => Operation::BatchIfUnchanged(parts(seed, taste), durability),
            14 => Operation::Swap {
                keyspace: number,
                key,
                is_right: !seed.one_in(3),
                new: (!seed.one_in(4)).then(|| taste.value(seed)),
            },
            4 => Operation::Extend(number, key, seed.value(20), durability),
            5 => {
                let lives = Some(1 + seed.below(200));
                Operation::Put(number, key, taste.value(seed), lives, durability)
            }
            _ => Operation::Put(number, key, taste.value(seed), None, durability),
        }
    }

    /// Whether it creates or drops a keyspace.
    #[must_use]
    pub fn is_structural(&self) -> bool {
        matches!(self, Operation::Create(..) | Operation::Drop(_))
    }

    fn upkeep(seed: &mut Seed) -> Operation {
        let one = |seed: &mut Seed| (!seed.one_in(3)).then(|| keyspace(seed));
        match seed.below(24) {
            0..=3 => Operation::Flush(one(seed)),
            4 => Operation::Compact(one(seed)),
            5 | 6 => Operation::Persist,
            7..=15 => Operation::Step(*seed.pick(&Step::ALL)),
            16 | 17 => Operation::Create(1 + u8::from(seed.one_in(2)), random_keyspace(seed)),
            18 if seed.one_in(2) => Operation::Drop(1 + u8::from(seed.one_in(2))),
            19 => Operation::Reopen(Box::new(Setting::random(seed))),
            20 => Operation::Snapshot,
            21 | 22 => Operation::Pass(1 + seed.below(100)),
            _ => Operation::Read,
        }
    }
}

/// Short: values by their length, keys as text.
impl std::fmt::Debug for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |key: &[u8]| key.escape_ascii().to_string();
        match self {
            Operation::Put(number, key, value, lives, durability) => {
                let (key, len) = (text(key), value.len());
                write!(f, "put {number}/{key} {len}B for {lives:?} {durability:?}")
            }
            Operation::Delete(number, key, durability) => {
                write!(f, "delete {number}/{} {durability:?}", text(key))
            }
            Operation::Batch(all, durability) | Operation::BatchIfUnchanged(all, durability) => {
                f.write_str("batch")?;
                if matches!(self, Operation::BatchIfUnchanged(..)) {
                    f.write_str(" if unchanged")?;
                }
                for (number, key, value, lives) in all {
                    let (key, len) = (text(key), value.as_ref().map(Vec::len));
                    write!(f, " {number}/{key} {len:?}B for {lives:?}")?;
                }
                write!(f, " {durability:?}")
            }
            Operation::Swap {
                keyspace,
                key,
                is_right,
                new,
            } => {
                let (key, len) = (text(key), new.as_ref().map(Vec::len));
                write!(f, "swap {keyspace}/{key} {len:?}B, rightly: {is_right}")
            }
            Operation::Extend(number, key, _, durability) => {
                write!(f, "extend {number}/{} {durability:?}", text(key))
            }
            Operation::Persist => f.write_str("persist"),
            Operation::Flush(which) => write!(f, "flush {which:?}"),
            Operation::Compact(which) => write!(f, "compact {which:?}"),
            Operation::Step(step) => write!(f, "step {step:?}"),
            Operation::Create(number, _) => write!(f, "create {number}"),
            Operation::Drop(number) => write!(f, "drop {number}"),
            Operation::Reopen(setting) => write!(f, "reopen {setting:?}"),
            Operation::Snapshot => f.write_str("snapshot"),
            Operation::Read => f.write_str("read"),
            Operation::Pass(ms) => write!(f, "pass {ms} ms"),
        }
    }
}
