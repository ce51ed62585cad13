//! Every check: which tests are run under what, and for how long at most.
//!
//! Tests: `check.rs`.

use super::kind::Kind;

/// One run of tests under a check.
pub(super) struct Check {
    pub(super) kind: Kind,
    pub(super) package: &'static str,
    /// What follows `cargo test`'s package: which targets, then what the tests are told.
    pub(super) arguments: &'static [&'static str],
    /// It must have ended by then (C3).
    pub(super) minutes: u64,
    /// Whether it is so quick, for what it finds, that every commit takes it.
    pub(super) often: bool,
    /// Whether its tests take less time than to optimise what they test.
    pub(super) unoptimised: bool,
}

impl Check {
    const fn often(self) -> Check {
        Check {
            often: true,
            ..self
        }
    }

    const fn unoptimised(self) -> Check {
        Check {
            unoptimised: true,
            ..self
        }
    }

    /// Whether `name` is one of the targets or of the names of tests that it runs; not if it leaves
    /// these out.
    pub(super) fn runs(&self, name: &str) -> bool {
        let before = [""].iter().chain(self.arguments);
        let mut pairs = before.zip(self.arguments);
        !name.starts_with('-') && pairs.any(|(before, word)| *word == name && *before != "--skip")
    }
}

const fn check(
    kind: Kind,
    package: &'static str,
    arguments: &'static [&'static str],
    minutes: u64,
) -> Check {
    Check {
        kind,
        package,
        arguments,
        minutes,
        often: false,
        unoptimised: false,
    }
}

/// Under Miri the crates that hold `unsafe`. Of `vfs` not what maps real files (Miri cannot), and
/// not what sweeps thousands of crashes (an interpreter would take hours).
#[rustfmt::skip]
pub(super) const CHECKS: &[Check] = &[
    check(Kind::Miri, "velella-sync", &["--lib"], 10).often(),
    check(Kind::Miri, "velella-mvcc", &["--lib"], 10).often(),
    check(Kind::Miri, "velella-memtable", &["--lib", "--", "arena", "version"], 10).often(),
    check(Kind::Miri, "velella-memtable", &["--lib", "--", "append_only"], 60),
    check(Kind::Miri, "velella-memtable", &["--lib", "--", "jellyfish_keeps"], 60),
    check(Kind::Miri, "velella-memtable", &["--lib", "--", "s3_keeps"], 60),
    check(Kind::Miri, "velella-memtable", &["--lib", "--", "jellyfish::tests", "--skip", "keeps"], 60),
    check(Kind::Miri, "velella-memtable", &["--lib", "--", "s3::tests", "--skip", "keeps"], 60),
    check(Kind::Miri, "velella-memtable", &["--lib", "--", "--skip", "arena",
        "--skip", "version", "--skip", "append_only", "--skip", "jellyfish::tests", "--skip",
        "s3::tests"], 10),
    check(Kind::Miri, "velella-vfs", &["--lib", "--", "window::", "operation::"], 10).often(),
    check(Kind::Miri, "velella-vfs", &["--lib", "--", "fault::", "trace::", "--skip", "contract"], 10),
    check(Kind::Miri, "velella-vfs", &["--lib", "--", "contract", "--skip", "real_file"], 60),
    check(Kind::Miri, "velella-vfs", &["--lib", "--", "mem::tests", "--skip", "legality", "--skip",
        "contract", "--skip", "as_volatile"], 60),
    check(Kind::Thread, "velella-sync", &["--lib"], 10).often(),
    check(Kind::Thread, "velella-mvcc", &["--lib", "--tests"], 10).often(),
    check(Kind::Thread, "velella-memtable", &["--lib", "--test", "pruning"], 20),
    check(Kind::Thread, "velella-sst", &["--lib", "--tests"], 20),
    check(Kind::Thread, "velella-tree", &["--lib", "--tests"], 20),
    check(Kind::Thread, "velella-lsm", &["--lib", "--tests"], 20),
    check(Kind::Thread, "velella-journal", &["--lib"], 20),
    check(Kind::Thread, "velella-journal", &["--test", "suite", "--", "rounds::", "errors::",
        "lanes::", "large::", "retention::"], 20),
    check(Kind::Thread, "velella-journal", &["--test", "suite", "--", "crashes::", "damage::",
        "golden::", "listing::", "real_files::"], 30),
    check(Kind::Thread, "velella", &["--lib"], 20),
    check(Kind::Thread, "velella", &["--test", "suite", "--", "switch::", "snapshots::",
        "regressions::", "rmw::", "batches::"], 30),
    check(Kind::Thread, "velella", &["--test", "suite", "--", "backpressure::", "conditional::",
        "durability::", "expiry::", "iterators::", "keyspaces::", "lifecycle::", "overtaken::",
        "panics::", "resting::", "sharing::", "transact::", "views::", "writes::"], 40),
    check(Kind::Thread, "velella", &["--test", "journal_space"], 20),
    check(Kind::Thread, "velella-server", &["--lib", "--tests"], 20),
    check(Kind::Thread, "velella-reliability", &["--test", "histories"], 20),
    check(Kind::Address, "velella-sync", &["--lib"], 10).often(),
    check(Kind::Address, "velella-mvcc", &["--lib", "--tests"], 10).often(),
    check(Kind::Address, "velella-vfs", &["--lib"], 10),
    check(Kind::Address, "velella-memtable", &["--lib"], 15).often(),
    check(Kind::Address, "velella-journal", &["--lib"], 10),
    check(Kind::Address, "velella-sst", &["--lib", "--tests"], 20),
    check(Kind::Address, "velella-tree", &["--lib", "--tests"], 20),
    check(Kind::Address, "velella-lsm", &["--lib", "--tests"], 20),
    check(Kind::Address, "velella", &["--lib"], 20),
    check(Kind::Address, "velella", &["--test", "suite", "--", "batches::", "iterators::",
        "externals::", "snapshots::", "switch::", "regressions::", "corruption::",
        "keyspaces::"], 30),
    // Not what counts the process's memory: AddressSanitizer keeps what was freed.
    check(Kind::Address, "velella-server", &["--lib", "--tests", "--", "--skip",
        "hold_no_memory"], 20),
    check(Kind::Address, "velella-reliability", &["--test", "corpus"], 20).unoptimised().often(),
];
