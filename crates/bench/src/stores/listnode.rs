//! Skip lists whose towers are linked nodes: what JellyFish is compared with beside RocksDB's.
//!
//! Source: JellyFish (Middleware '20) 2 and 5.1. Cassandra's memtable is Java's
//! `ConcurrentSkipListMap` (Lea, after Harris and Michael): a tower is a node for each level, with
//! a pointer to the right and one down, and a value is swapped for another by CAS, so there are no
//! versions (`listnode-swap`). X-Engine's, as JellyFish models it, has such towers and a list of
//! versions below each key (`listnode-vlist`).
//!
//! Levels are as in the other lists: each further one with probability 1/4, twelve at most. Nodes
//! are named by numbers instead of pointers, so that no `unsafe` is needed; keys and values are
//! allocations of their own, as in Java. Nothing is freed until the list is, and nothing removed.
//!
//! L1. Keys ascend on every level, and what is on a level is on all below.
//! L2. A version is put in undecided and then gets its stamp. Whoever meets an undecided one waits
//!     for its stamp, readers and the next writer of the key: so the versions of a key descend by
//!     stamp, and all stamps at or below one that was observed are in place or soon decided.
//!
//! Threads: any; they wait as L2 says, for a draw from the clock. Tests: `tests/stores.rs`.

mod arena;

use crate::failure::{Failure, Outcome};
use crate::store::{Change, Durability, Peer, Settings, Store, View, Visit};
use crate::stores::memtable::counted;
use arena::{Arena, NONE};
use std::cmp::Ordering::Less;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use velella_base::Stamp;
use velella_memtable::Counters;
use velella_mvcc::Clock;
use velella_sync::rng::local_u64;

/// Levels above the bottom.
const LEVELS: usize = 11;

/// The baselines.
#[derive(Debug)]
pub struct ListNode {
    name: &'static str,
    about: &'static str,
    versioned: bool,
}

/// Both of them.
pub static ALL: [ListNode; 2] = [
    ListNode {
        name: "listnode-swap",
        about: "skip list of linked tower nodes, values swapped by CAS: no versions (Cassandra's)",
        versioned: false,
    },
    ListNode {
        name: "listnode-vlist",
        about: "skip list of linked tower nodes, a list of versions below each key (X-Engine's)",
        versioned: true,
    },
];

impl Peer for ListNode {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn offers(&self) -> &'static [Durability] {
        &[Durability::None]
    }

    fn open(&self, _dir: &Path, _settings: &Settings) -> Outcome<Box<dyn Store>> {
        Ok(Box::new(List {
            name: self.name,
            versioned: self.versioned,
            nodes: Arena::default(),
            towers: Arena::default(),
            versions: Arena::default(),
            first: AtomicU32::new(NONE),
            heads: std::array::from_fn(|_| AtomicU32::new(NONE)),
            levels: AtomicUsize::new(0),
            clock: Clock::new(Stamp::ZERO, Stamp::MAX),
            counters: Counters::default(),
        }))
    }
}

/// A key on the bottom level.
#[derive(Debug)]
struct Node {
    key: Box<[u8]>,
    /// The newest version.
    newest: AtomicU32,
    next: AtomicU32,
}

/// A level of a node's tower.
#[derive(Debug)]
struct Tower {
    node: u32,
    down: u32,
    right: AtomicU32,
}

#[derive(Debug)]
struct Version {
    /// [`UNDECIDED`] until it has one.
    stamp: AtomicU64,
    older: u32,
    /// None after a deletion.
    value: Option<Box<[u8]>>,
}

/// The stamp of a version that waits for it: the clock begins above.
const UNDECIDED: u64 = 0;
/// The stamp of all versions where there is one for each key.
const ALWAYS: u64 = 1;

impl Version {
    /// Its stamp, once it has it (L2).
    fn stamp(&self) -> Stamp {
        loop {
            // Acquire, partner: the Release in `put_before`.
            match self.stamp.load(Ordering::Acquire) {
                UNDECIDED => std::thread::yield_now(),
                stamp => return Stamp(stamp),
            }
        }
    }
}

struct List {
    name: &'static str,
    versioned: bool,
    nodes: Arena<Node>,
    towers: Arena<Tower>,
    versions: Arena<Version>,
    /// The first node of the bottom level.
    first: AtomicU32,
    /// The first tower of each level above, the lowest first.
    heads: [AtomicU32; LEVELS],
    /// Levels that have a tower.
    levels: AtomicUsize,
    clock: Clock,
    counters: Counters,
}

/// Where a search came down: on each level the last tower below the key, and so the node; `NONE`
/// stands for the head.
struct Descent {
    towers: [u32; LEVELS],
    node: u32,
}

/// What a thing takes beside others, with so many bytes of its own.
fn bytes<T>(own: usize) -> u64 {
    (size_of::<std::sync::OnceLock<T>>() + own) as u64
}

impl List {
    fn right_of(&self, tower: u32, level: usize) -> &AtomicU32 {
        match tower {
            NONE => &self.heads[level],
            tower => &self.towers.get(tower).right,
        }
    }

    fn next_of(&self, node: u32) -> &AtomicU32 {
        match node {
            NONE => &self.first,
            node => &self.nodes.get(node).next,
        }
    }

    /// Whether the key of `node` is below `key`.
    #[inline]
    fn is_below(&self, node: u32, key: &[u8], compared: &mut u64) -> bool {
        *compared += 1;
        self.nodes.get(node).key.as_ref().cmp(key) == Less
    }

    /// Comes down to `key`, or, without one, to the end.
    fn search(&self, key: Option<&[u8]>) -> Descent {
        let mut compared = 0;
        let mut below = |node| key.is_none_or(|key| self.is_below(node, key, &mut compared));
        let mut path = Descent {
            towers: [NONE; LEVELS],
            node: NONE,
        };
        // Acquire, partner: the Release in `raise`; who sees a level sees its first tower.
        let levels = self.levels.load(Ordering::Acquire);
        let mut tower = NONE;
        for level in (0..levels).rev() {
            loop {
                // Acquire, partner: the Release of the CAS in `raise`.
                let right = self.right_of(tower, level).load(Ordering::Acquire);
                if right == NONE || !below(self.towers.get(right).node) {
                    break;
                }
                tower = right;
            }
            path.towers[level] = tower;
            if tower != NONE {
                path.node = self.towers.get(tower).node;
                if level > 0 {
                    tower = self.towers.get(tower).down;
                }
            }
        }
        loop {
            // Acquire, partner: the Release of the CAS in `node_of`.
            let next = self.next_of(path.node).load(Ordering::Acquire);
            if next == NONE || !below(next) {
                break;
            }
            path.node = next;
        }
        self.counters.comparisons.add(compared);
        path
    }

    /// The node after `node`, if its key is `key`.
    fn at(&self, node: u32, key: &[u8]) -> Option<u32> {
        // Acquire, partner: the Release of the CAS in `node_of`.
        let next = self.next_of(node).load(Ordering::Acquire);
        self.counters.comparisons.add(u64::from(next != NONE));
        let equal = next != NONE && *self.nodes.get(next).key == *key;
        equal.then_some(next)
    }

    fn full(&self) -> Failure {
        Failure::store(self.name, "put", "it has as many nodes as it has numbers")
    }

    /// The node of `key`, made if there is none.
    fn node_of(&self, key: &[u8]) -> Outcome<u32> {
        let mut path = self.search(Some(key));
        if let Some(found) = self.at(path.node, key) {
            return Ok(found);
        }
        let made = Node {
            key: key.into(),
            newest: AtomicU32::new(NONE),
            next: AtomicU32::new(NONE),
        };
        self.counters.bytes.add(bytes::<Node>(key.len()));
        let made = self.nodes.push(made).ok_or_else(|| self.full())?;
        let mut compared = 0;
        loop {
            let link = self.next_of(path.node);
            // Acquire, partner: the Release of the CAS below.
            let next = link.load(Ordering::Acquire);
            if next != NONE {
                if self.is_below(next, key, &mut compared) {
                    path.node = next;
                    continue;
                }
                if *self.nodes.get(next).key == *key {
                    return Ok(next);
                }
            }
            // Relaxed: nobody else sees it yet.
            self.nodes.get(made).next.store(next, Ordering::Relaxed);
            if self.swap(link, next, made) {
                break;
            }
        }
        self.counters.comparisons.add(compared);
        self.raise(made, key, path)?;
        Ok(made)
    }

    /// Puts `to` where `from` is.
    fn swap(&self, link: &AtomicU32, from: u32, to: u32) -> bool {
        self.counters.cas_attempts.increment();
        // Release, partner: the Acquire loads of links and versions; Relaxed: it is read again.
        let swapped = link.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
        if swapped.is_err() {
            self.counters.cas_failures.increment();
        }
        swapped.is_ok()
    }

    /// Builds the tower of `node`, as high as it is drawn, from below.
    fn raise(&self, node: u32, key: &[u8], path: Descent) -> Outcome<()> {
        let height = ((local_u64().trailing_zeros() / 2) as usize).min(LEVELS);
        let mut down = NONE;
        let mut compared = 0;
        for level in 0..height {
            let tower = Tower {
                node,
                down,
                right: AtomicU32::new(NONE),
            };
            self.counters.bytes.add(bytes::<Tower>(0));
            let made = self.towers.push(tower).ok_or_else(|| self.full())?;
            let mut left = path.towers[level];
            loop {
                let link = self.right_of(left, level);
                // Acquire, partner: the Release of the CAS in `swap`.
                let right = link.load(Ordering::Acquire);
                let beyond = right == NONE
                    || !self.is_below(self.towers.get(right).node, key, &mut compared);
                if !beyond {
                    left = right;
                    continue;
                }
                // Relaxed: nobody else sees it yet.
                self.towers.get(made).right.store(right, Ordering::Relaxed);
                if self.swap(link, right, made) {
                    break;
                }
            }
            down = made;
            self.counters.towers.increment();
        }
        self.counters.comparisons.add(compared);
        // Release, partner: the Acquire in `search`.
        self.levels.fetch_max(height, Ordering::Release);
        Ok(())
    }

    /// Gives `key` this value, or none; only if it has none, where that is asked for. Whether it
    /// did.
    fn change(&self, key: &[u8], value: Option<&[u8]>, only_if_absent: bool) -> Outcome<bool> {
        let node = self.nodes.get(self.node_of(key)?);
        loop {
            // Acquire, partner: the Release of the CAS in `swap`.
            let older = node.newest.load(Ordering::Acquire);
            if only_if_absent && self.value_of(older).is_some() {
                return Ok(false);
            }
            if self.put_before(node, older, value)? {
                self.counters.versions.increment();
                return Ok(true);
            }
        }
    }

    /// Puts a version before `older`, if that is still the newest; whether it was (L2).
    fn put_before(&self, node: &Node, older: u32, value: Option<&[u8]>) -> Outcome<bool> {
        let (stamp, older_kept) = match self.versioned {
            true => (UNDECIDED, older),
            false => (ALWAYS, NONE),
        };
        // Decided before mine is put in: then my stamp is above its.
        self.value_of(older_kept);
        let own = value.map_or(0, <[u8]>::len);
        self.counters.bytes.add(bytes::<Version>(own));
        let version = Version {
            stamp: AtomicU64::new(stamp),
            older: older_kept,
            value: value.map(Box::from),
        };
        let made = self.versions.push(version).ok_or_else(|| self.full())?;
        let swapped = self.swap(&node.newest, older, made);
        if swapped && self.versioned {
            let stamp = self.clock.draw();
            // Release, partner: the Acquire in `Version::stamp`.
            self.versions
                .get(made)
                .stamp
                .store(stamp.0, Ordering::Release);
        }
        Ok(swapped)
    }

    fn value_of(&self, version: u32) -> Option<&[u8]> {
        match version {
            NONE => None,
            version => {
                let version = self.versions.get(version);
                version.stamp();
                version.value.as_deref()
            }
        }
    }

    /// The value of `node` at a stamp.
    fn value_at(&self, node: &Node, at: Stamp) -> Option<&[u8]> {
        // Acquire, partner: the Release of the CAS in `swap`.
        let mut version = node.newest.load(Ordering::Acquire);
        let mut skipped = 0;
        while version != NONE && self.versions.get(version).stamp() > at {
            version = self.versions.get(version).older;
            skipped += 1;
        }
        if skipped > 0 {
            self.counters.versions_skipped.add(skipped);
        }
        self.value_of(version)
    }

    /// The stamp of now.
    fn now(&self) -> Stamp {
        match self.versioned {
            true => self.clock.observe(),
            false => Stamp::MAX,
        }
    }

    fn walk(&self, at: Stamp, from: &[u8], count: usize, visit: Visit<'_>) -> usize {
        let mut before = self.search(Some(from)).node;
        let mut seen = 0;
        while seen < count {
            // Acquire, partner: the Release of the CAS in `node_of`.
            before = self.next_of(before).load(Ordering::Acquire);
            if before == NONE {
                break;
            }
            let node = self.nodes.get(before);
            if let Some(value) = self.value_at(node, at) {
                visit(&node.key, value);
                seen += 1;
            }
        }
        seen
    }
}

impl Store for List {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.change(key, Some(value), false).map(|_| ())
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        self.change(key, None, false).map(|_| ())
    }

    fn get(&self, key: &[u8], see: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        let Some(node) = self.at(self.search(Some(key)).node, key) else {
            return Ok(false);
        };
        let value = self.value_at(self.nodes.get(node), Stamp::MAX);
        if let Some(value) = value {
            see(value);
        }
        Ok(value.is_some())
    }

    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        Ok(self.walk(self.now(), from, count, visit))
    }

    fn scan_back(&self, count: usize, visit: Visit<'_>) -> Outcome<usize> {
        let at = self.now();
        let mut seen = 0;
        let mut node = self.search(None).node;
        while seen < count && node != NONE {
            let found = self.nodes.get(node);
            if let Some(value) = self.value_at(found, at) {
                visit(&found.key, value);
                seen += 1;
            }
            // Nothing points to the left: one more search for each.
            node = self.search(Some(&found.key)).node;
        }
        Ok(seen)
    }

    fn write(&self, batch: &[Change<'_>]) -> Outcome<()> {
        // Not as one: neither Cassandra's list nor X-Engine's alone shows several changes at once.
        for change in batch {
            self.change(change.key, change.value, false)?;
        }
        Ok(())
    }

    fn put_if_absent(&self, key: &[u8], value: &[u8]) -> Outcome<bool> {
        self.change(key, Some(value), true)
    }

    fn view(&self) -> Outcome<Box<dyn View + '_>> {
        if !self.versioned {
            return Err(Failure::Unfit {
                store: self.name.to_owned(),
                lacks: "views of the past".to_owned(),
            });
        }
        Ok(Box::new(At {
            list: self,
            stamp: self.now(),
        }))
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        counted(&self.counters)
    }
}

struct At<'a> {
    list: &'a List,
    stamp: Stamp,
}

impl View for At<'_> {
    fn scan(&self, from: &[u8], count: usize, visit: Visit<'_>) -> Outcome<usize> {
        Ok(self.list.walk(self.stamp, from, count, visit))
    }
}
