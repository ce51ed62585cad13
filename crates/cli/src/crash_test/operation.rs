//! What the threads of a load do: a pure function of seed, incarnation, thread and number.
//!
//! So the child announces a number and no more, and the parent knows what was to be written.
//!
//! P1. `operation` gives both processes the same answer.
//! P2. A value tells who wrote it, and each of its bytes follows from that.
//!
//! Tests: below.

use super::key::{COUNTERS, LASTING, Place, own_keyspace};
use super::random::Random;
use super::settings::{Settings, group};
use velella::{Durability, WriteOptions};

/// Until when a value is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expiry {
    Never,
    /// Long after the test: ten hours after the child was started.
    Far,
    /// So many milliseconds after the child was started.
    Near(u64),
    /// Before it was written.
    Past,
}

impl Expiry {
    /// Milliseconds since 1970, for a child that was started at `start_ms`.
    pub(super) fn at_ms(self, start_ms: u64) -> Option<u64> {
        match self {
            Expiry::Never => None,
            Expiry::Far => Some(start_ms + 36_000_000),
            Expiry::Near(ms) => Some(start_ms + ms),
            Expiry::Past => Some(1),
        }
    }
}

/// One key's part of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) place: Place,
    /// Bytes of the value and until when it is there; `None`: a deletion.
    pub(super) put: Option<(u32, Expiry)>,
}

/// What is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Puts and deletes; more than one: a batch.
    Write(Vec<Change>),
    /// A read-modify-write that puts a value, perhaps only where there is none.
    Replace {
        change: Change,
        if_absent: bool,
    },
    /// Adds to a counter; by `increment`, whose stamp stays unknown, or by an `rmw`.
    Add {
        place: Place,
        delta: i64,
        by_rmw: bool,
    },
    /// Creates the thread's own keyspace, or drops it.
    Toggle,
    Flush,
    FlushOne(u8),
    Compact,
    /// Makes everything durable.
    Persist,
    /// Reads a key and judges the value by itself.
    Read(Place),
    /// Compares what a held snapshot sees with what it saw, then takes a new one.
    Look(Place),
}

impl Action {
    /// What it writes under keys with values.
    pub(super) fn changes(&self) -> &[Change] {
        match self {
            Action::Write(changes) => changes,
            Action::Replace { change, .. } => std::slice::from_ref(change),
            _ => &[],
        }
    }
}

/// What a write's acknowledgement promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Class {
    Buffered,
    Group,
    Sync,
}

impl Class {
    pub(super) const ALL: [Class; 3] = [Class::Buffered, Class::Group, Class::Sync];

    /// As the engine takes it.
    pub(super) fn options(self) -> WriteOptions {
        let durability = match self {
            Class::Buffered => Durability::Buffered,
            Class::Group => group(),
            Class::Sync => Durability::Sync,
        };
        WriteOptions {
            durability: Some(durability),
        }
    }

    /// As reports spell it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Class::Buffered => "buffered",
            Class::Group => "group",
            Class::Sync => "sync",
        }
    }
}

/// One operation of a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) action: Action,
    pub(super) class: Class,
}

/// Who wrote a value: incarnation, thread, number of the operation, and number within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WriteId {
    pub(super) incarnation: u32,
    pub(super) thread: u8,
    pub(super) number: u32,
    pub(super) index: u8,
}

impl WriteId {
    /// As the first eight bytes of the value.
    pub(super) fn word(self) -> u64 {
        u64::from(self.incarnation) << 40
            | u64::from(self.thread) << 32
            | u64::from(self.number) << 8
            | u64::from(self.index)
    }

    /// From the first eight bytes of a value.
    pub(super) fn from_word(word: u64) -> Self {
        let bits = |shift: u32, mask: u64| (word >> shift) & mask;
        let narrow = |bits: u64| u32::try_from(bits).unwrap_or(u32::MAX);
        let byte = |bits: u64| u8::try_from(bits).unwrap_or(u8::MAX);
        WriteId {
            incarnation: narrow(bits(40, 0xff_ffff)),
            thread: byte(bits(32, 0xff)),
            number: narrow(bits(8, 0xff_ffff)),
            index: byte(bits(0, 0xff)),
        }
    }

    /// The value, `bytes` long, at least eight (P2).
    pub(super) fn value(self, bytes: u32) -> Vec<u8> {
        let len = usize::try_from(bytes).unwrap_or(0).max(8);
        let mut random = Random::of(&[self.word()]);
        let mut value = self.word().to_le_bytes().to_vec();
        value.reserve(len + 16);
        while value.len() < len {
            // Half of it compresses.
            value.extend_from_slice(&random.next().to_le_bytes());
            value.extend_from_slice(b"velella.");
        }
        value.truncate(len);
        value
    }
}

impl std::fmt::Display for WriteId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let WriteId {
            incarnation,
            thread,
            number,
            index,
        } = self;
        write!(
            f,
            "opening {incarnation}, thread {thread}, operation {number}, part {index}"
        )
    }
}

/// Tells values apart: 64 bits that depend on every byte.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let step = |state: u64, word: u64| {
        (state ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let whole = words.iter().fold(bytes.len() as u64, |state, word| {
        step(state, u64::from_le_bytes(*word))
    });
    rest.iter()
        .fold(whole, |state, byte| step(state, u64::from(*byte) + 1))
}

/// What `thread` does as its `number`th operation (P1).
pub(super) fn operation(
    settings: &Settings,
    incarnation: u32,
    thread: u8,
    number: u32,
) -> Operation {
    let parts = [
        settings.seed,
        4,
        u64::from(incarnation),
        u64::from(thread),
        u64::from(number),
    ];
    let mut random = Random::of(&parts);
    let class = match settings.sync_every {
        0 => Class::Buffered,
        every if random.one_in(every) => random.pick(&[Class::Sync, Class::Group]),
        _ => Class::Buffered,
    };
    let action = action(settings, thread, &mut random);
    Operation { action, class }
}

fn action(settings: &Settings, thread: u8, random: &mut Random) -> Action {
    if random.one_in(settings.flush_every) {
        return match random.below(10) {
            0 => Action::Compact,
            1..=4 => Action::Flush,
            _ => Action::FlushOne(lasting(random)),
        };
    }
    if settings.own_keyspaces && random.one_in(12) {
        let own = Place {
            keyspace: own_keyspace(thread),
            number: u16::try_from(random.below(4)).unwrap_or(0),
        };
        return match random.below(20) {
            0 => Action::Toggle,
            _ => Action::Write(vec![change(settings, own, random)]),
        };
    }
    match random.below(100) {
        0..50 => {
            let place = place(settings, random);
            Action::Write(vec![change(settings, place, random)])
        }
        50..65 if settings.batches => Action::Write(batch(settings, random)),
        50..75 => Action::Replace {
            change: Change {
                place: place(settings, random),
                put: Some((bytes(settings, random), Expiry::Never)),
            },
            if_absent: random.one_in(4),
        },
        75..90 => Action::Add {
            place: Place {
                keyspace: 0,
                number: COUNTERS + u16::try_from(random.below(3)).unwrap_or(0),
            },
            delta: 1 + i64::try_from(random.below(999)).unwrap_or(0),
            by_rmw: settings.stamped_sums || random.one_in(2),
        },
        90 if settings.sync_every > 0 && random.one_in(10) => Action::Persist,
        90..96 => Action::Read(place(settings, random)),
        _ => Action::Look(place(settings, random)),
    }
}

fn lasting(random: &mut Random) -> u8 {
    u8::try_from(random.below(LASTING.len() as u64)).unwrap_or(0)
}

fn place(settings: &Settings, random: &mut Random) -> Place {
    let keyspace = lasting(random);
    // One in four hits the four hottest.
    let range = if random.one_in(4) {
        4
    } else {
        u64::from(settings.keys)
    };
    let number = u16::try_from(random.below(range)).unwrap_or(0);
    Place { keyspace, number }
}

fn change(settings: &Settings, place: Place, random: &mut Random) -> Change {
    if random.one_in(5) {
        return Change { place, put: None };
    }
    let expiry = match settings.expiry && random.one_in(4) {
        true => random.pick(&[
            Expiry::Far,
            Expiry::Past,
            Expiry::Near(20 + place.number as u64),
        ]),
        false => Expiry::Never,
    };
    let put = Some((bytes(settings, random), expiry));
    Change { place, put }
}

fn bytes(settings: &Settings, random: &mut Random) -> u32 {
    let happens = |every: u64, random: &mut Random| every > 0 && random.one_in(every);
    let bytes = if happens(settings.huge_every, random) {
        (1 << 20) + random.below(500_000)
    } else if happens(settings.large_every, random) {
        (64 << 10) - 20 + random.below(100_000)
    } else {
        8 + random.below(u64::from(settings.value_bytes))
    };
    u32::try_from(bytes).unwrap_or(8)
}

fn batch(settings: &Settings, random: &mut Random) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for _ in 0..2 + random.below(6) {
        let place = place(settings, random);
        if changes.iter().all(|change| change.place != place) {
            changes.push(change(settings, place, random));
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn an_operation_follows_from_its_numbers() {
        let settings = Settings::of(9);
        for number in 0..500 {
            let once = operation(&settings, 3, 1, number);
            assert_eq!(once, operation(&settings, 3, 1, number));
        }
        assert_ne!(
            (0..20)
                .map(|n| operation(&settings, 3, 0, n))
                .collect::<Vec<_>>(),
            (0..20)
                .map(|n| operation(&settings, 3, 1, n))
                .collect::<Vec<_>>(),
        );
    }

    #[test]
    fn a_value_names_its_writer_and_no_two_are_alike() {
        let id = WriteId {
            incarnation: 70_000,
            thread: 3,
            number: 1 << 20,
            index: 6,
        };
        let value = id.value(100);
        let word = u64::from_le_bytes(value[..8].try_into().unwrap());
        assert_eq!((WriteId::from_word(word), value.len()), (id, 100));
        let digests: BTreeSet<u64> = (0..1000)
            .map(|number| digest(&WriteId { number, ..id }.value(13)))
            .collect();
        assert_eq!(digests.len(), 1000);
    }

    #[test]
    fn a_digest_depends_on_every_byte() {
        let value = [7_u8; 29];
        for at in 0..value.len() {
            let mut other = value;
            other[at] ^= 1;
            assert_ne!(digest(&value), digest(&other), "byte {at}");
        }
        assert_ne!(digest(&value), digest(&value[..28]));
    }

    #[test]
    fn all_seeds_together_do_everything() {
        let mut seen = BTreeSet::new();
        for seed in 0..60 {
            let settings = Settings::of(seed);
            for number in 0..2000 {
                let operation = operation(&settings, 1, 0, number);
                let text = format!("{:?}", operation.action);
                let word = text.split([' ', '(']).next().unwrap().to_owned();
                seen.insert(word);
                seen.insert(operation.class.as_str().to_owned());
                for change in operation.action.changes() {
                    seen.extend(
                        change
                            .put
                            .map(|(bytes, expiry)| format!("{} {expiry:?}", bytes.ilog2() / 4)),
                    );
                }
            }
        }
        for word in "Write Replace Add Toggle Flush FlushOne Compact Persist Read Look buffered \
                     group sync"
            .split_whitespace()
        {
            assert!(seen.contains(word), "{word} is never done");
        }
        for text in ["5 Never", "4 Never", "1 Far", "1 Past"] {
            assert!(seen.contains(text), "no value {text}");
        }
    }
}
