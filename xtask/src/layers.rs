//! The table of crates: which layer, who may depend on whom, who may hold what others may not.
//!
//! The order is bottom-up. To change a row, write a page in docs/decisions first.
//!
//! L1. A crate depends only on crates above it in the table.
//! L2. Tests of any crate may also use `testkit`, and the contract suites of what they may use;
//!     beyond that only what their row says (docs/decisions/0016).
//!
//! Tests: below, and the rule itself in `tidy/layering.rs`.

/// One crate.
#[derive(Debug)]
pub(crate) struct Layer {
    /// Directory below `crates/`, or `xtask`.
    pub(crate) name: &'static str,
    pub(crate) package: &'static str,
    pub(crate) level: u8,
    /// Directories of the crates it may depend on.
    pub(crate) may_use: &'static [&'static str],
    /// Those that only its tests may depend on, beside them.
    pub(crate) tests_may_use: &'static [&'static str],
    /// Whether `unsafe` may stand in it.
    pub(crate) holds_unsafe: bool,
    /// Files of it in which `unsafe` may stand, where it may not stand in all: adapters to
    /// libraries of other languages, which are built only where a feature asks for them.
    pub(crate) unsafe_files: &'static [&'static str],
    /// Which doors it owns, or need not go through.
    pub(crate) doors: &'static [Door],
}

/// A part of the outside world that only its owner touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// The file system: owned by `vfs`.
    Files,
    /// Atomics, locks, threads, time: owned by `sync`.
    Threads,
}

use Door::{Files, Threads};

const NONE: &[&str] = &[];
const TREE: &[&str] = &["base", "sync", "vfs", "mvcc", "sst"];
const LSM: &[&str] = &["base", "sync", "vfs", "mvcc", "sst", "tree"];
/// What everything between the mechanisms and the engine is made of.
const ENGINE: &[&str] = &[
    "base", "sync", "vfs", "mvcc", "memtable", "journal", "sst", "tree", "lsm",
];

const RELIABILITY: &[&str] = &[
    "base", "sync", "vfs", "mvcc", "memtable", "journal", "sst", "tree", "lsm", "engine", "server",
    "cli", "testkit",
];

const BENCH: &[&str] = &[
    "base", "sync", "vfs", "mvcc", "memtable", "neural", "sst", "engine", "cli",
];

/// The table.
pub(crate) const LAYERS: &[Layer] = &[
    row("base", "velella-base", 0, NONE),
    row("sync", "velella-sync", 0, NONE)
        .with_unsafe()
        .through(&[Threads]),
    row("vfs", "velella-vfs", 0, &["base", "sync"])
        .with_unsafe()
        .through(&[Files]),
    row("mvcc", "velella-mvcc", 1, &["base", "sync"]),
    row("memtable", "velella-memtable", 1, &["base", "sync", "mvcc"]).with_unsafe(),
    row("journal", "velella-journal", 1, &["base", "sync", "vfs"]).with_tests_of(&["mvcc"]),
    row("sst", "velella-sst", 1, &["base", "sync", "vfs"]),
    row("tree", "velella-tree", 2, TREE),
    row("lsm", "velella-lsm", 2, LSM),
    row("engine", "velella", 3, ENGINE),
    row("server", "velella-server", 4, &["sync", "engine"]).through(&[Files, Threads]),
    row("cli", "velella-cli", 4, &["engine", "server"]).through(&[Files, Threads]),
    row("testkit", "velella-testkit", 5, &["base", "vfs", "engine"]).through(&[Files, Threads]),
    row("reliability", "velella-reliability", 6, RELIABILITY).through(&[Files, Threads]),
    row("neural", "velella-neural", 5, &["sync", "memtable"]),
    row("bench", "velella-bench", 6, BENCH)
        .with_unsafe_in(&[
            "src/stores/leveldb.rs",
            "src/stores/lmdb.rs",
            "src/stores/wiredtiger/binding.rs",
        ])
        .through(&[Files, Threads]),
    row("xtask", "xtask", 5, NONE).through(&[Files, Threads]),
];

/// Packages from outside that stand behind a door, and the crate that owns it.
pub(crate) const BEHIND_DOORS: &[(&str, &str)] = &[
    ("crossbeam-epoch", "sync"),
    ("crossbeam-utils", "sync"),
    ("parking_lot", "sync"),
    ("loom", "sync"),
    ("memmap2", "vfs"),
];

/// The crate whose tests' tools every crate may use in its own tests (L2).
pub(crate) const TESTKIT: &str = "testkit";

/// The row of the crate in directory `name`.
pub(crate) fn of(name: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.name == name)
}

/// The row of the package called `package`.
pub(crate) fn of_package(package: &str) -> Option<&'static Layer> {
    LAYERS.iter().find(|layer| layer.package == package)
}

const fn row(
    name: &'static str,
    package: &'static str,
    level: u8,
    may_use: &'static [&'static str],
) -> Layer {
    Layer {
        name,
        package,
        level,
        may_use,
        tests_may_use: NONE,
        holds_unsafe: false,
        unsafe_files: NONE,
        doors: &[],
    }
}

impl Layer {
    const fn with_tests_of(mut self, crates: &'static [&'static str]) -> Self {
        self.tests_may_use = crates;
        self
    }

    const fn with_unsafe(mut self) -> Self {
        self.holds_unsafe = true;
        self
    }

    const fn with_unsafe_in(mut self, files: &'static [&'static str]) -> Self {
        self.unsafe_files = files;
        self
    }

    const fn through(mut self, doors: &'static [Door]) -> Self {
        self.doors = doors;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_uses_only_rows_above_it() {
        for (at, layer) in LAYERS.iter().enumerate() {
            for used in layer.may_use {
                let found = LAYERS[..at].iter().find(|above| above.name == *used);
                let found = found.unwrap_or_else(|| panic!("{}: {used} is not above", layer.name));
                assert!(found.level <= layer.level, "{}: {used}", layer.name);
            }
        }
    }

    #[test]
    fn unsafe_may_stand_in_three_crates() {
        let holders: Vec<&str> = LAYERS
            .iter()
            .filter(|layer| layer.holds_unsafe)
            .map(|layer| layer.name)
            .collect();
        assert_eq!(holders, ["sync", "vfs", "memtable"]);
    }
}
