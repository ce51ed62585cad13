//! The operations, and how bytes become them.
//!
//! Few keys, so that they meet: short ones, long shared prefixes, the empty one, bytes of 0xff.
//!
//! Threads: none.

use super::Bytes;
use crate::draws::Draws;
use std::ops::Bound;

/// Snapshots and iterators held at once.
pub const HELD: usize = 4;
/// Keyspaces.
pub const KEYSPACES: usize = 2;
/// An expiry nobody lives to see: 2100.
const EXPIRY_MS: u64 = 4_102_444_800_000;

/// A write within a batch: keyspace, key, value (`None`: delete).
pub type Write = (usize, Vec<u8>, Option<Bytes>);

/// What a scan covers.
#[derive(Debug, Clone)]
pub struct Scope {
    /// Of which keyspace.
    pub keyspace: usize,
    /// At which held snapshot; `None`: now.
    pub snapshot: Option<usize>,
    /// From here.
    pub lower: Bound<Vec<u8>>,
    /// To here.
    pub upper: Bound<Vec<u8>>,
    /// Only such keys.
    pub prefix: Vec<u8>,
}

/// A movement of an iterator.
#[derive(Debug, Clone)]
pub enum Move {
    /// One forward.
    Step,
    /// One back.
    StepBack,
    /// To the first.
    First,
    /// To the last.
    Last,
    /// To the first at or after.
    Seek(Vec<u8>),
    /// To the last before.
    SeekBefore(Vec<u8>),
}

/// What is done to the database.
#[derive(Debug, Clone)]
pub enum Operation {
    /// Put, with an expiry perhaps.
    Put(usize, Vec<u8>, Bytes, Option<u64>),
    /// Delete.
    Delete(usize, Vec<u8>),
    /// Writes that hold together; with a held snapshot, only if nothing changed since.
    Batch(Vec<Write>, Option<usize>),
    /// Appends a byte to the value, or begins one; a value over 64 bytes is deleted.
    Append(usize, Vec<u8>, u8),
    /// Adds to a decimal number.
    Increment(usize, Vec<u8>, i64),
    /// Puts if the key is absent.
    PutIfAbsent(usize, Vec<u8>, Bytes),
    /// Puts or deletes if the value is as expected.
    Swap(usize, Vec<u8>, Option<Bytes>, Option<Bytes>),
    /// Reads a value.
    Get(usize, Vec<u8>),
    /// Reads a value, strictly serializable.
    GetStrict(usize, Vec<u8>),
    /// Whether a key is there.
    Contains(usize, Vec<u8>),
    /// Reads several at once.
    MultiGet(usize, Vec<Vec<u8>>),
    /// Takes a snapshot and holds it in a place.
    Snapshot(usize),
    /// Reads at a held snapshot.
    SnapshotGet(usize, usize, Vec<u8>),
    /// Walks over pairs.
    Scan(Scope, Vec<Move>),
    /// Opens an iterator and holds it in a place.
    Hold(usize, Scope),
    /// Moves a held one; with `refresh`, after bringing it to now.
    Walk(usize, bool, Vec<Move>),
    /// Lets go of a snapshot and an iterator.
    Release(usize),
    /// Drops the second keyspace and creates it anew.
    Recreate,
    /// Writes memtables to tables.
    Flush,
    /// Merges tables.
    Compact,
    /// Reads everything back.
    Verify,
    /// Closes, or dies, and opens again.
    Reopen {
        /// Without closing: as after `kill -9`.
        dies: bool,
    },
}

/// The operations that `draws` decides on, at most `most`.
pub fn operations(draws: &mut Draws<'_>, most: usize) -> Vec<Operation> {
    let mut operations = Vec::new();
    while operations.len() < most && !draws.is_empty() {
        operations.push(operation(draws));
    }
    operations
}

fn operation(draws: &mut Draws<'_>) -> Operation {
    let choice = draws.u8();
    let keyspace = usize::from(choice) % KEYSPACES;
    match choice / 2 {
        0..=29 => {
            let expiry = choice.is_multiple_of(16).then_some(EXPIRY_MS);
            Operation::Put(keyspace, key(draws), value(draws), expiry)
        }
        30..=37 => Operation::Delete(keyspace, key(draws)),
        38..=45 => batch(draws),
        46..=50 => Operation::Append(keyspace, key(draws), draws.u8()),
        51..=53 => {
            let by = i64::from(draws.u8()) - 100;
            Operation::Increment(keyspace, key(draws), by)
        }
        54..=56 => Operation::PutIfAbsent(keyspace, key(draws), value(draws)),
        57..=59 => {
            let (expected, new) = (maybe(draws), maybe(draws));
            Operation::Swap(keyspace, key(draws), expected, new)
        }
        60..=69 => Operation::Get(keyspace, key(draws)),
        70..=71 => Operation::GetStrict(keyspace, key(draws)),
        72..=73 => Operation::Contains(keyspace, key(draws)),
        74..=77 => {
            let count = 1 + draws.below(12);
            Operation::MultiGet(keyspace, (0..count).map(|_| key(draws)).collect())
        }
        78..=82 => Operation::Snapshot(draws.below(HELD)),
        83..=87 => Operation::SnapshotGet(draws.below(HELD), keyspace, key(draws)),
        88..=97 => Operation::Scan(scope(draws, keyspace), moves(draws, 40)),
        98..=100 => Operation::Hold(draws.below(HELD), scope(draws, keyspace)),
        101..=109 => Operation::Walk(
            draws.below(HELD),
            draws.u8().is_multiple_of(8),
            moves(draws, 12),
        ),
        110..=112 => Operation::Release(draws.below(HELD)),
        113..=118 => Operation::Flush,
        119..=121 => Operation::Compact,
        122 => Operation::Verify,
        123 => Operation::Recreate,
        _ => Operation::Reopen {
            dies: choice & 2 == 2,
        },
    }
}

fn batch(draws: &mut Draws<'_>) -> Operation {
    let count = 1 + draws.below(9);
    let writes = (0..count)
        .map(|_| {
            let keyspace = draws.below(KEYSPACES);
            (keyspace, key(draws), maybe(draws))
        })
        .collect();
    let since = draws.u8();
    Operation::Batch(
        writes,
        since
            .is_multiple_of(4)
            .then_some(usize::from(since / 4) % HELD),
    )
}

/// One of 200 keys.
fn key(draws: &mut Draws<'_>) -> Vec<u8> {
    let number = draws.u8();
    match number {
        0 => Vec::new(),
        1..=120 => format!("k{number:03}").into_bytes(),
        121..=180 => format!("a/long/shared/prefix/{number:05}").into_bytes(),
        181..=220 => vec![number % 4; usize::from(number % 9)],
        221..=240 => vec![0xff; usize::from(number - 220)],
        _ => draws.bytes(usize::from(number - 235)).to_vec(),
    }
}

/// Mostly short, some of a block's size, seldom of a buffer's.
fn value(draws: &mut Draws<'_>) -> Bytes {
    let (size, fill) = (draws.u8(), draws.u8());
    let len = match size {
        0..=170 => usize::from(size),
        171..=240 => usize::from(size - 170) * 20,
        241..=251 => 4000 + usize::from(fill),
        252..=254 => 30_000,
        // Stored in a file of its own.
        255 if fill < 16 => (1 << 20) + 1,
        255 => 70_000,
    };
    match fill % 8 {
        0 => format!("{}", u32::from(size) * 1000).into_bytes().into(),
        // Noise, which no compression shrinks.
        1 => (0..len).map(|n| noise(n, fill)).collect(),
        _ => vec![fill; len].into(),
    }
}

fn noise(n: usize, fill: u8) -> u8 {
    let mixed = (n as u64 + 1).wrapping_mul(u64::from(fill) | 0x9e37_79b9_7f4a_7c01);
    (mixed >> 32).to_le_bytes()[0]
}

fn maybe(draws: &mut Draws<'_>) -> Option<Bytes> {
    (!draws.u8().is_multiple_of(4)).then(|| value(draws))
}

fn bound(draws: &mut Draws<'_>) -> Bound<Vec<u8>> {
    match draws.u8() % 4 {
        0 => Bound::Included(key(draws)),
        1 => Bound::Excluded(key(draws)),
        _ => Bound::Unbounded,
    }
}

fn scope(draws: &mut Draws<'_>, keyspace: usize) -> Scope {
    let choice = draws.u8();
    Scope {
        keyspace,
        snapshot: choice
            .is_multiple_of(3)
            .then_some(usize::from(choice / 3) % HELD),
        lower: bound(draws),
        upper: bound(draws),
        prefix: if choice.is_multiple_of(5) {
            let key = key(draws);
            key[..key.len().min(2 + draws.below(4))].to_vec()
        } else {
            Vec::new()
        },
    }
}

/// Mostly in one direction.
fn moves(draws: &mut Draws<'_>, most: usize) -> Vec<Move> {
    let (count, forward) = (1 + draws.below(most), draws.flag());
    (0..count)
        .map(|_| match draws.u8() {
            0..=5 => Move::First,
            6..=11 => Move::Last,
            12..=23 => Move::Seek(key(draws)),
            24..=35 => Move::SeekBefore(key(draws)),
            36..=70 if forward => Move::StepBack,
            36..=70 => Move::Step,
            _ if forward => Move::Step,
            _ => Move::StepBack,
        })
        .collect()
}
