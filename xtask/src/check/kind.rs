//! Miri, ThreadSanitizer and AddressSanitizer: what each needs, and what it is told.
//!
//! Tests: `check.rs`.

use crate::nightly;
use std::path::{Path, PathBuf};
use std::process::Command;

/// ThreadSanitizer has to see when memory is mapped and unmapped, or takes what one thread wrote
/// for a race with what another writes after the system has given it the same place; it sees calls
/// of the C library, and not system calls made without it.
const THREAD_FLAGS: &str = "-Zsanitizer=thread --cfg rustix_use_libc";
/// One kind of check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Miri,
    Thread,
    Address,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Miri, Kind::Thread, Kind::Address];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Miri => "miri",
            Kind::Thread => "tsan",
            Kind::Address => "asan",
        }
    }

    /// What the toolchain must have, as `rustup component list` names it.
    pub(super) fn needs(self) -> &'static [&'static str] {
        match self {
            Kind::Miri => &["miri", "rust-src"],
            Kind::Thread => &["rust-src"],
            Kind::Address => &[],
        }
    }

    /// Miri: Tree Borrows, since crossbeam-epoch's list of threads is refused by Stacked Borrows;
    /// leaks are allowed, since that list is never taken down. A memtable's striped counters make
    /// each reference to it one to hundreds of atomics; told apart from what lies between them,
    /// they take two thirds of the time. Its batches leave a cell of 8 bytes behind, on purpose,
    /// where a user's order panics (B1 of `memtable::cell`); that is the one leak there may be, so
    /// leaks there are no reports.
    pub(super) fn variables(self, package: &str) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::Miri if package == "velella-memtable" => &[(
                "MIRIFLAGS",
                "-Zmiri-tree-borrows -Zmiri-tree-borrows-no-precise-interior-mut \
                 -Zmiri-disable-isolation -Zmiri-ignore-leaks",
            )],
            Kind::Miri => &[(
                "MIRIFLAGS",
                "-Zmiri-tree-borrows -Zmiri-disable-isolation -Zmiri-ignore-leaks",
            )],
            Kind::Thread => &[
                ("RUSTFLAGS", THREAD_FLAGS),
                ("TSAN_OPTIONS", "halt_on_error=0 exitcode=66"),
            ],
            Kind::Address if package == "velella-memtable" => &[
                ("RUSTFLAGS", "-Zsanitizer=address"),
                (
                    "ASAN_OPTIONS",
                    "detect_leaks=0 detect_stack_use_after_return=1",
                ),
            ],
            Kind::Address => &[
                ("RUSTFLAGS", "-Zsanitizer=address"),
                ("ASAN_OPTIONS", "detect_stack_use_after_return=1"),
            ],
        }
    }

    pub(super) fn command(self) -> &'static [&'static str] {
        match self {
            Kind::Miri => &["miri", "test"],
            Kind::Thread => &["test", "-Zbuild-std"],
            Kind::Address => &["test"],
        }
    }

    /// Why it cannot run here (C1).
    pub(crate) fn cannot(self, root: &Path) -> Option<String> {
        let lacking = nightly::missing(self.needs(), nightly::installed().as_deref());
        lacking.or_else(|| nightly::too_old(root))
    }

    /// The command that builds binaries with this sanitizer, and the directory they are then in.
    pub(crate) fn build(self, root: &Path) -> Result<(Command, PathBuf), String> {
        let (host, built) = (nightly::host()?, self.directory(root));
        let mut command = nightly::cargo();
        command
            .current_dir(root)
            .args(["build", "--release", "--target", &host]);
        if self == Kind::Thread {
            command.arg("-Zbuild-std");
        }
        command.envs(self.variables("").iter().copied());
        command.env("CARGO_TARGET_DIR", &built);
        Ok((command, built.join(host).join("release")))
    }

    /// What a program built so must be told.
    pub(crate) fn told(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let variables = self.variables("").iter().copied();
        variables.filter(|(name, _)| name.ends_with("_OPTIONS"))
    }

    /// Where it builds (C5).
    pub(super) fn directory(self, root: &Path) -> PathBuf {
        root.join("target/check").join(self.name())
    }
}
