//! The tree of names, and which of its changes are durable.
//!
//! N1. A change is atomic: a rename takes one name away and gives another, or does neither.
//! N2. Of the changes to one name a prefix survives; changes to different names are not ordered.
//! N3. A directory's sync makes every change of its names durable, with what those rest on.
//! N4. Copies of a tree share each directory until one of them changes it.

use crate::mem::crash::Choice;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Component, Path};
use std::sync::Arc;
use velella_sync::rng::Rng;

/// Number of the root directory.
pub(super) const ROOT: u64 = 0;

/// A name in a directory, which goes by its number.
pub(super) type Entry = (u64, Arc<OsStr>);

/// What stands at a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// The file of this number.
    File(u64),
    /// The directory of this number.
    Dir(u64),
}

impl Node {
    /// Whether it is a directory.
    pub(super) fn is_dir(self) -> bool {
        matches!(self, Node::Dir(_))
    }
}

type Dir = BTreeMap<Arc<OsStr>, Node>;

/// The names of every directory that has some (N4).
#[derive(Clone, Default)]
struct Tree(Arc<BTreeMap<u64, Arc<Dir>>>);

impl Tree {
    fn get(&self, dir: u64, name: &OsStr) -> Option<Node> {
        self.0.get(&dir)?.get(name).copied()
    }

    fn set(&mut self, (dir, name): &Entry, node: Option<Node>) {
        let dirs = Arc::make_mut(&mut self.0);
        let names = Arc::make_mut(dirs.entry(*dir).or_default());
        match node {
            Some(node) => names.insert(Arc::clone(name), node),
            None => names.remove(name),
        };
    }

    fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.0.values().flat_map(|names| names.values())
    }
}

/// An atomic change that is not yet durable.
#[derive(Clone)]
struct Change {
    at: u64,
    entries: Vec<(Entry, Option<Node>)>,
}

impl Change {
    fn apply(&self, tree: &mut Tree) {
        for (entry, node) in &self.entries {
            tree.set(entry, *node);
        }
    }

    fn is_in(&self, dir: u64) -> bool {
        self.entries.iter().any(|((of, _), _)| *of == dir)
    }

    fn touches(&self, entries: &BTreeSet<&Entry>) -> bool {
        self.entries
            .iter()
            .any(|(entry, _)| entries.contains(entry))
    }
}

/// All names.
#[derive(Clone, Default)]
pub(super) struct Names {
    live: Tree,
    durable: Tree,
    pending: Vec<Change>,
}

impl Names {
    /// What stands at `path`.
    pub(super) fn find(&self, path: &Path) -> Option<Node> {
        let mut node = Node::Dir(ROOT);
        for component in path.components() {
            let Some(name) = name(component)? else {
                continue;
            };
            let Node::Dir(dir) = node else { return None };
            node = self.live.get(dir, name)?;
        }
        Some(node)
    }

    /// The directory of `path`, which must exist, and the last name in it.
    pub(super) fn entry(&self, path: &Path) -> Option<Entry> {
        let name = components(path)?.pop()?;
        match self.find(path.parent()?)? {
            Node::Dir(dir) => Some((dir, name.into())),
            Node::File(_) => None,
        }
    }

    /// What stands at an entry.
    pub(super) fn at(&self, (dir, name): &Entry) -> Option<Node> {
        self.live.get(*dir, name)
    }

    /// The names in a directory, sorted.
    pub(super) fn list(&self, dir: u64) -> impl Iterator<Item = (&OsStr, Node)> {
        let names = self.live.0.get(&dir).into_iter();
        names.flat_map(|names| names.iter().map(|(name, node)| (&**name, *node)))
    }

    /// Changes entries at once, at time `at`.
    pub(super) fn change(&mut self, at: u64, entries: Vec<(Entry, Option<Node>)>) {
        let change = Change { at, entries };
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    /// Changes an entry as if it had always been so.
    pub(super) fn settle(&mut self, entry: Entry, node: Node) {
        self.live.set(&entry, Some(node));
        self.durable.set(&entry, Some(node));
    }

    /// Time of the oldest change that is not durable.
    pub(super) fn first_unsynced(&self) -> Option<u64> {
        self.pending.first().map(|change| change.at)
    }

    /// Makes the names of `dir` durable (N3).
    pub(super) fn sync(&mut self, dir: u64) {
        let mut needed: BTreeSet<&Entry> = BTreeSet::new();
        let mut chosen = vec![false; self.pending.len()];
        for (change, chosen) in self.pending.iter().zip(&mut chosen).rev() {
            *chosen = change.is_in(dir) || change.touches(&needed);
            if *chosen {
                needed.extend(change.entries.iter().map(|(entry, _)| entry));
            }
        }
        let mut chosen = chosen.into_iter();
        let durable = &mut self.durable;
        self.pending.retain(|change| {
            let chosen = chosen.next().unwrap_or(false);
            if chosen {
                change.apply(durable);
            }
            !chosen
        });
    }

    /// A sync of `dir` fails: some changes of its names will never be durable, and nobody knows.
    pub(super) fn fail_sync(&mut self, dir: u64, rng: &mut Rng) {
        self.pending
            .retain(|change| !change.is_in(dir) || rng.below(2) == 0);
    }

    /// What names are left by a power loss (N1, N2).
    pub(super) fn after_crash(&self, choice: &mut Choice) -> Names {
        let mut tree = self.durable.clone();
        let mut lost: BTreeSet<&Entry> = BTreeSet::new();
        for change in &self.pending {
            if !change.touches(&lost) && choice.survives(change.at) {
                change.apply(&mut tree);
            } else {
                lost.extend(change.entries.iter().map(|(entry, _)| entry));
            }
        }
        Names {
            live: tree.clone(),
            durable: tree,
            pending: Vec::new(),
        }
    }

    /// Numbers of the files with a name now, sorted.
    pub(super) fn named_files(&self) -> Vec<u64> {
        files(self.live.nodes())
    }

    /// Numbers of the files that have a name, or would have one again after a power loss,
    /// sorted.
    pub(super) fn reachable_files(&self) -> Vec<u64> {
        let pending = self.pending.iter().flat_map(|change| &change.entries);
        let pending = pending.filter_map(|(_, node)| node.as_ref());
        files(self.live.nodes().chain(self.durable.nodes()).chain(pending))
    }
}

fn files<'n>(nodes: impl Iterator<Item = &'n Node>) -> Vec<u64> {
    let number = |node: &Node| match node {
        Node::File(number) => Some(*number),
        Node::Dir(_) => None,
    };
    let mut numbers: Vec<u64> = nodes.filter_map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The names on the way to `path`, absolute or not; `None` if it steps up.
pub(super) fn components(path: &Path) -> Option<Vec<&OsStr>> {
    path.components()
        .map(name)
        .filter(|name| *name != Some(None))
        .map(Option::flatten)
        .collect()
}

/// The name in a component, if it has one; `None` outside: it steps up.
fn name(component: Component<'_>) -> Option<Option<&OsStr>> {
    match component {
        Component::Normal(name) => Some(Some(name)),
        Component::RootDir | Component::CurDir => Some(None),
        Component::ParentDir | Component::Prefix(_) => None,
    }
}
