//! The whole state of a database, as the child reads it and tells the parent.
//!
//! S1. What forward scan, backward scan, point reads and multi-reads say is the same, keys and
//!     values, else the child fails. A scan of keys alone may miss only what is about to expire.
//! S2. A value's bytes follow from its first eight, else the child fails.
//!
//! One line for each key, then `end`; see [`State::parse`]. Tests: below.

use super::key::{COUNTERS, Place, keyspace_name, keyspace_number, own_keyspace};
use super::operation::{WriteId, digest};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};
use velella::{Db, Entry, IterOptions, Keyspace, Snapshot, Value};

/// What expires within so long may be gone from a read that follows.
const SOON_MS: u64 = 10_000;

/// What stands under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    Value {
        id: WriteId,
        bytes: u32,
        digest: u64,
    },
    Sum(i64),
}

/// What stands under a key, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) content: Content,
    pub(super) stamp: u64,
    pub(super) expires_ms: Option<u64>,
}

/// All that can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct State {
    pub(super) versions: BTreeMap<Place, Version>,
    /// The threads whose own keyspaces exist.
    pub(super) owners: BTreeSet<u8>,
    /// The snapshot was taken between these times.
    pub(super) earliest_ms: u64,
    pub(super) latest_ms: u64,
}

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |time| {
        u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
    })
}

impl State {
    /// Reads everything, `thoroughly` in every way there is.
    pub(super) fn read(db: &Db, padding: usize, thoroughly: bool) -> Result<State, String> {
        let mut state = State {
            earliest_ms: now_ms(),
            ..State::default()
        };
        let snapshot = db.snapshot();
        state.latest_ms = now_ms();
        for name in db.keyspaces() {
            let number = keyspace_number(&name)
                .ok_or_else(|| format!("wrong: there is a keyspace `{name}`"))?;
            state.owners.extend(number.checked_sub(own_keyspace(0)));
            let keyspace = db.keyspace(&name).map_err(told)?;
            let pairs = state.read_keyspace(number, &keyspace, &snapshot, padding)?;
            let back = snapshot.iter(&keyspace).map_err(told)?.rev();
            backward(back, &pairs).map_err(|why| at(&keyspace, &why))?;
            if thoroughly {
                compare_reads(&keyspace, &snapshot, &pairs)?;
            }
        }
        Ok(state)
    }

    fn read_keyspace(
        &mut self,
        number: u8,
        keyspace: &Keyspace,
        snapshot: &Snapshot,
        padding: usize,
    ) -> Result<Vec<(Vec<u8>, Value)>, String> {
        let mut pairs = Vec::new();
        for pair in snapshot.iter(keyspace).map_err(told)? {
            let (key, value) = pair.map_err(told)?;
            let place = Place::parse(number, &key, padding).ok_or_else(|| {
                format!(
                    "wrong: key {:?} was never written",
                    String::from_utf8_lossy(&key)
                )
            })?;
            let entry = snapshot.get_entry(keyspace, &key).map_err(told)?;
            let entry = entry
                .filter(|entry| *entry.value == *value)
                .ok_or_else(|| {
                    format!("wrong: a scan finds {place}, a get does not find the same")
                })?;
            self.versions.insert(place, version(place, &entry)?);
            pairs.push((key, value));
        }
        Ok(pairs)
    }

    /// Writes it, one line for each key.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        for owner in &self.owners {
            writeln!(out, "own\t{owner}")?;
        }
        for (place, version) in &self.versions {
            let Place { keyspace, number } = place;
            let expires = version.expires_ms.unwrap_or(0);
            let stamp = version.stamp;
            match version.content {
                Content::Sum(sum) => {
                    writeln!(out, "sum\t{keyspace}\t{number}\t{stamp}\t{expires}\t{sum}")?;
                }
                Content::Value { id, bytes, digest } => writeln!(
                    out,
                    "value\t{keyspace}\t{number}\t{stamp}\t{expires}\t{}\t{bytes}\t{digest}",
                    id.word(),
                )?,
            }
        }
        writeln!(out, "end\t{}\t{}", self.earliest_ms, self.latest_ms)
    }

    /// Takes a line; whether it was the last. `None`: it is none of `write`'s.
    pub(super) fn parse(&mut self, line: &str) -> Option<bool> {
        let mut words = line.trim_end().split('\t');
        let kind = words.next()?;
        let mut next = || words.next();
        match kind {
            "own" => {
                self.owners.insert(next()?.parse().ok()?);
                return Some(false);
            }
            "end" => {
                self.earliest_ms = next()?.parse().ok()?;
                self.latest_ms = next()?.parse().ok()?;
                return Some(true);
            }
            "value" | "sum" => {}
            _ => return None,
        }
        let place = Place {
            keyspace: next()?.parse().ok()?,
            number: next()?.parse().ok()?,
        };
        let stamp = next()?.parse().ok()?;
        let expires: u64 = next()?.parse().ok()?;
        let content = match kind {
            "sum" => Content::Sum(next()?.parse().ok()?),
            _ => Content::Value {
                id: WriteId::from_word(next()?.parse().ok()?),
                bytes: next()?.parse().ok()?,
                digest: next()?.parse().ok()?,
            },
        };
        let expires_ms = (expires > 0).then_some(expires);
        let version = Version {
            content,
            stamp,
            expires_ms,
        };
        self.versions.insert(place, version);
        Some(false)
    }
}

/// An engine's error, as the child says it.
pub(super) fn told(error: velella::Error) -> String {
    format!("failed: {error}")
}

/// The version that an entry is, if its bytes are some the load could have written (S2).
pub(super) fn version(place: Place, entry: &Entry) -> Result<Version, String> {
    let content = if place.is_counter() {
        let text = std::str::from_utf8(&entry.value).unwrap_or("");
        let sum = text.parse();
        Content::Sum(sum.map_err(|_| format!("wrong: {place} holds {text:?}, which is no sum"))?)
    } else {
        let id = whose(place, &entry.value)?;
        Content::Value {
            id,
            bytes: u32::try_from(entry.value.len()).unwrap_or(u32::MAX),
            digest: digest(&entry.value),
        }
    };
    Ok(Version {
        content,
        stamp: entry.stamp.0,
        expires_ms: entry.expires_at_ms,
    })
}

/// Who wrote this value; an error if nobody did (S2).
pub(super) fn whose(place: Place, value: &[u8]) -> Result<WriteId, String> {
    let foreign = |why: String| format!("wrong: {place} holds a value nobody wrote: {why}");
    let (word, _) = value
        .split_first_chunk::<8>()
        .ok_or_else(|| foreign(format!("{} bytes", value.len())))?;
    let id = WriteId::from_word(u64::from_le_bytes(*word));
    let bytes = u32::try_from(value.len()).unwrap_or(u32::MAX);
    let differs = |(a, b): (&u8, &u8)| a != b;
    match id.value(bytes).iter().zip(value).position(differs) {
        None => Ok(id),
        Some(at) => Err(foreign(format!("byte {at} is not what {id} wrote"))),
    }
}

/// S1: what a backward scan finds is the pairs of a forward scan, from the last to the first.
fn backward<V: PartialEq>(
    mut found: impl Iterator<Item = velella::Result<(Vec<u8>, V)>>,
    pairs: &[(Vec<u8>, V)],
) -> Result<(), String> {
    for pair in pairs.iter().rev() {
        let found = found.next().transpose().map_err(told)?;
        if found.is_none_or(|found| found != *pair) {
            return Err(disagree("a backward scan", &pair.0));
        }
    }
    match found.next().transpose().map_err(told)? {
        None => Ok(()),
        Some((key, _)) => Err(disagree("a backward scan", &key)),
    }
}

/// S1, of a scan of keys alone, at the present. `keys` are those of the snapshot, each with
/// whether it is there still.
fn keys_alone<V>(
    found: impl Iterator<Item = velella::Result<(Vec<u8>, V)>>,
    keys: &[(&[u8], bool)],
) -> Result<(), String> {
    let mut keys = keys.iter();
    for pair in found {
        let (found, _) = pair.map_err(told)?;
        loop {
            match keys.next() {
                Some((key, _)) if *key == found => break,
                Some((_, false)) => {}
                Some((key, true)) => return Err(disagree("a scan of keys alone", key)),
                None => return Err(disagree("a scan of keys alone", &found)),
            }
        }
    }
    match keys.find(|(_, lasts)| *lasts) {
        None => Ok(()),
        Some((key, _)) => Err(disagree("a scan of keys alone", key)),
    }
}

/// S1, for reads at the present: nobody writes, so only what expires may differ.
fn compare_reads(
    keyspace: &Keyspace,
    snapshot: &Snapshot,
    pairs: &[(Vec<u8>, Value)],
) -> Result<(), String> {
    let keys: Vec<&[u8]> = pairs.iter().map(|(key, _)| key.as_slice()).collect();
    let many = keyspace.multi_get(&keys).map_err(told)?;
    let mut lasting = Vec::with_capacity(keys.len());
    for (&key, multi) in keys.iter().zip(many) {
        let then = snapshot.get_entry(keyspace, key).map_err(told)?;
        let expires = then.as_ref().and_then(|entry| entry.expires_at_ms);
        let lasts = expires.is_none_or(|expires| expires > now_ms() + SOON_MS);
        lasting.push((key, lasts));
        if !lasts {
            continue;
        }
        let then = then.map(|entry| entry.value);
        let plain = keyspace.get(key).map_err(told)?;
        let strict = keyspace.get_strict(key).map_err(told)?;
        for (what, found) in [("get", plain), ("get_strict", strict), ("multi_get", multi)] {
            if found != then {
                return Err(at(keyspace, &disagree(what, key)));
            }
        }
    }
    let options = IterOptions {
        keys_only: true,
        ..IterOptions::default()
    };
    let found = keyspace.iter_with(options).map_err(told)?;
    keys_alone(found, &lasting).map_err(|why| at(keyspace, &why))
}

fn disagree(what: &str, key: &[u8]) -> String {
    let key = String::from_utf8_lossy(key);
    format!("wrong: {what} and a forward scan disagree at key {key:?}")
}

fn at(keyspace: &Keyspace, why: &str) -> String {
    format!("{why} of keyspace `{}`", keyspace.name())
}

/// The place of a counter.
pub(super) fn counter(number: u16) -> Place {
    Place {
        keyspace: 0,
        number: COUNTERS + number,
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.content {
            Content::Sum(sum) => write!(f, "{sum} (stamp {})", self.stamp),
            Content::Value { id, bytes, .. } => {
                write!(f, "{bytes} bytes of {id} (stamp {})", self.stamp)
            }
        }
    }
}

/// For messages.
pub(super) fn name_of(owner: u8) -> String {
    keyspace_name(own_keyspace(owner))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u32) -> WriteId {
        WriteId {
            incarnation: 2,
            thread: 1,
            number,
            index: 0,
        }
    }

    #[test]
    fn a_state_is_read_as_it_was_written() {
        let mut state = State {
            earliest_ms: 5,
            latest_ms: 6,
            ..State::default()
        };
        state.owners.insert(2);
        let value = Content::Value {
            id: id(7),
            bytes: 30,
            digest: u64::MAX,
        };
        for (number, content) in [(3, value), (COUNTERS, Content::Sum(-4))] {
            let version = Version {
                content,
                stamp: 9,
                expires_ms: (number == 3).then_some(99),
            };
            state.versions.insert(
                Place {
                    keyspace: 0,
                    number,
                },
                version,
            );
        }
        let mut text = Vec::new();
        state.write(&mut text).unwrap();
        let mut read = State::default();
        let ends: Vec<_> = std::str::from_utf8(&text)
            .unwrap()
            .lines()
            .map(|line| read.parse(line).unwrap())
            .collect();
        assert_eq!(read, state);
        assert_eq!(ends, [false, false, false, true]);
        assert_eq!(read.parse("what\t1"), None);
    }

    #[test]
    fn a_value_with_a_changed_byte_is_nobodys() {
        let place = counter(0);
        let mut value = id(3).value(40);
        assert_eq!(whose(place, &value), Ok(id(3)));
        value[20] ^= 1;
        assert!(whose(place, &value).unwrap_err().contains("byte 20"));
        assert!(whose(place, b"short").unwrap_err().contains("5 bytes"));
    }
    type Found = velella::Result<(Vec<u8>, &'static str)>;

    fn pair(key: &str, value: &'static str) -> (Vec<u8>, &'static str) {
        (key.as_bytes().to_vec(), value)
    }

    fn fails() -> Found {
        let kind = velella::ErrorKind::Corruption;
        Err(velella::Error::new(kind, "read", "a bad block"))
    }

    #[test]
    fn a_backward_scan_with_another_value_an_error_or_an_end_too_early_is_wrong() {
        let pairs = [pair("a", "1"), pair("b", "2")];
        let judge = |found: Vec<Found>| backward(found.into_iter(), &pairs);
        let back = || vec![Ok(pair("b", "2")), Ok(pair("a", "1"))];
        assert_eq!(judge(back()), Ok(()));
        assert_eq!(backward(std::iter::empty::<Found>(), &[]), Ok(()));
        let disagrees = |key| Err(disagree("a backward scan", key));
        assert_eq!(
            judge(vec![Ok(pair("b", "3")), Ok(pair("a", "1"))]),
            disagrees(b"b")
        );
        assert_eq!(judge(vec![]), disagrees(b"b"));
        assert_eq!(judge(vec![Ok(pair("b", "2"))]), disagrees(b"a"));
        let mut more = back();
        more.push(Ok(pair("A", "0")));
        assert_eq!(judge(more), disagrees(b"A"));
        for at in 0..3 {
            let mut found = back();
            found.insert(at, fails());
            assert!(judge(found).unwrap_err().starts_with("failed: "), "{at}");
        }
    }

    #[test]
    fn a_scan_of_keys_alone_misses_only_what_is_about_to_expire() {
        let keys = [(&b"a"[..], true), (b"b", false), (b"c", true)];
        let judge = |found: Vec<Found>| keys_alone(found.into_iter(), &keys);
        let some =
            |keys: &[&str]| -> Vec<Found> { keys.iter().map(|key| Ok(pair(key, ""))).collect() };
        assert_eq!(judge(some(&["a", "b", "c"])), Ok(()));
        assert_eq!(judge(some(&["a", "c"])), Ok(()));
        let disagrees = |key| Err(disagree("a scan of keys alone", key));
        assert_eq!(judge(vec![]), disagrees(b"a"));
        assert_eq!(judge(some(&["a", "b"])), disagrees(b"c"));
        assert_eq!(judge(some(&["b", "c"])), disagrees(b"a"));
        assert_eq!(judge(some(&["a", "b", "c", "d"])), disagrees(b"d"));
        for at in 0..4 {
            let mut found = some(&["a", "b", "c"]);
            found.insert(at, fails());
            assert!(judge(found).unwrap_err().starts_with("failed: "), "{at}");
        }
    }
}
