//! `cargo xtask check`: Miri, ThreadSanitizer and AddressSanitizer, on what each can find.
//!
//! C1. What cannot run here (no nightly, one too old, no Miri, no sources of the standard library)
//!     is skipped with a line that begins with `SKIPPED`, and named again in the summary: it never
//!     passes.
//! C2. No suppressions: a report fails the check. Leaks are no reports where a contract leaks:
//!     under Miri, and in the memtable.
//! C3. Each check has a time limit, which its build does not use up; one that did not end by then
//!     was not clean.
//! C4. Under Miri a crate is checked in shards, by names of tests, so that each ends within its
//!     limit; what no shard names is in the last shard of its crate.
//! C5. Each check builds into a directory of its own below `target/check`, so that none throws
//!     away what another built.
//! C6. A check that ran no test is not clean: names of tests change.
//! C7. With `--record` each check that ran leaves its line in the ledger, however it ended.
//! C8. Miri, which uses one processor, runs beside the sanitizers, whose builds use all there are;
//!     then what tests print begins with the name of their kind.
//!
//! Tests: below; the checks themselves are run before a release (docs/testing.md), some in every
//! commit.

use crate::ledger::Line;
use crate::supervise::{Ended, supervise_lines};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const TOOLCHAIN: &str = "+nightly";
/// ThreadSanitizer has to see when memory is mapped and unmapped, or takes what one thread wrote
/// for a race with what another writes after the system has given it the same place; it sees calls
/// of the C library, and not system calls made without it.
const THREAD_FLAGS: &str = "-Zsanitizer=thread --cfg rustix_use_libc";
/// How many times as long a test may take before its watchdog takes it for hung
/// (`velella_testkit::patience`); a check that does not end has its own limit (C3).
const PATIENCE: (&str, &str) = ("VELELLA_PATIENCE", "10");
/// Only what every commit takes.
pub(crate) const OFTEN: &str = "--often";
/// Keep what came out (C7).
const RECORD: &str = "--record";

/// One kind of check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Miri,
    Thread,
    Address,
}

/// One run of tests under a check.
struct Check {
    kind: Kind,
    package: &'static str,
    /// What follows `cargo test`'s package: which targets, then what the tests are told.
    arguments: &'static [&'static str],
    /// It must have ended by then (C3).
    minutes: u64,
    /// Whether it is so quick, for what it finds, that every commit takes it.
    often: bool,
}

impl Check {
    const fn often(self) -> Check {
        Check {
            often: true,
            ..self
        }
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
    }
}

/// Under Miri the crates that hold `unsafe`. Of `vfs` not what maps real files (Miri cannot), and
/// not what sweeps thousands of crashes (an interpreter would take hours).
#[rustfmt::skip]
const CHECKS: &[Check] = &[
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
    check(Kind::Thread, "velella-journal", &["--lib", "--test", "rounds", "--test", "errors",
        "--test", "lanes", "--test", "large", "--test", "retention"], 20),
    check(Kind::Thread, "velella-journal", &["--test", "crashes", "--test", "damage", "--test",
        "golden", "--test", "listing", "--test", "real_files"], 30),
    check(Kind::Thread, "velella", &["--test", "switch", "--test", "snapshots", "--test",
        "regressions", "--test", "rmw", "--test", "batches"], 30),
    // Not `memory`, which looks at the process: most of that is ThreadSanitizer's own.
    check(Kind::Thread, "velella", &["--lib", "--test", "backpressure", "--test", "conditional",
        "--test", "durability", "--test", "expiry", "--test", "iterators", "--test",
        "journal_space", "--test", "keyspaces", "--test", "lifecycle", "--test", "overtaken",
        "--test", "panics", "--test", "resting", "--test", "sharing", "--test", "transact",
        "--test", "views", "--test", "writes"], 40),
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
    check(Kind::Address, "velella", &["--lib", "--test", "batches", "--test", "iterators", "--test",
        "externals", "--test", "snapshots", "--test", "switch", "--test", "regressions", "--test",
        "corruption", "--test", "keyspaces"], 30),
    // Not what counts the process's memory: AddressSanitizer keeps what was freed.
    check(Kind::Address, "velella-server", &["--lib", "--tests", "--", "--skip",
        "hold_no_memory"], 20),
    check(Kind::Address, "velella-reliability", &["--test", "corpus"], 20).often(),
];

impl Kind {
    const ALL: [Kind; 3] = [Kind::Miri, Kind::Thread, Kind::Address];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Miri => "miri",
            Kind::Thread => "tsan",
            Kind::Address => "asan",
        }
    }

    /// What the toolchain must have, as `rustup component list` names it.
    fn needs(self) -> &'static [&'static str] {
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
    fn variables(self, package: &str) -> &'static [(&'static str, &'static str)] {
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

    fn command(self) -> &'static [&'static str] {
        match self {
            Kind::Miri => &["miri", "test"],
            Kind::Thread => &["test", "-Zbuild-std"],
            Kind::Address => &["test"],
        }
    }

    /// Why it cannot run here (C1).
    pub(crate) fn cannot(self, root: &Path) -> Option<String> {
        missing(self, installed().as_deref()).or_else(|| too_old(root))
    }

    /// The command that builds binaries with this sanitizer, and the directory they are then in.
    pub(crate) fn build(self, root: &Path) -> Result<(Command, PathBuf), String> {
        let (host, built) = (host()?, self.directory(root));
        let mut command = nightly();
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
    fn directory(self, root: &Path) -> PathBuf {
        root.join("target/check").join(self.name())
    }
}

/// How one check ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// So many tests passed, and there was no report.
    Clean(u64),
    /// No test has the names it was given (C6).
    Idle,
    Failed,
    /// It was killed at its limit.
    Unfinished,
    Skipped(String),
}

/// Runs the checks whose kinds or packages are in `arguments`, or all; with `--often` only those
/// of them that every commit takes; with `--record` for the ledger, too.
///
/// # Errors
/// A check that found something, or a word that names nothing.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let chosen = select(arguments)?;
    let (interpreted, compiled): (Vec<_>, Vec<_>) = chosen
        .into_iter()
        .partition(|check| check.kind == Kind::Miri);
    let way = Way {
        root,
        installed: installed(),
        old: too_old(root),
        keeps: arguments.iter().any(|word| word == RECORD),
        tells_kinds: !interpreted.is_empty() && !compiled.is_empty(),
    };
    // C8.
    let done = std::thread::scope(|scope| {
        let beside = scope.spawn(|| way.run(&interpreted));
        let compiled = way.run(&compiled);
        let mut done = match beside.join() {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        done.append(&mut compiled?);
        Ok::<_, String>(done)
    })?;
    print!("\n{}", table(&done));
    let unclean = |outcome: &Outcome| !matches!(outcome, Outcome::Clean(_) | Outcome::Skipped(_));
    match done.iter().filter(|done| unclean(&done.1)).count() {
        0 => Ok(()),
        count => Err(format!(
            "{count} checks found something, did nothing or did not end"
        )),
    }
}

/// How checks are run.
struct Way<'a> {
    root: &'a Path,
    /// The components of the nightly toolchain, if there is one.
    installed: Option<String>,
    /// Why that is too old, if it is.
    old: Option<String>,
    /// Whether outcomes go to the ledger (C7).
    keeps: bool,
    tells_kinds: bool,
}

/// A check, how it ended, and after how long.
type Done = (&'static Check, Outcome, Duration);

impl Way<'_> {
    /// Runs these checks, one after the other.
    fn run(&self, checks: &[&'static Check]) -> Result<Vec<Done>, String> {
        let mut done = Vec::new();
        for check in checks {
            println!("\n=== {} {}", check.kind.name(), describe_one(check));
            let start = Instant::now();
            let lacking = missing(check.kind, self.installed.as_deref());
            let outcome = match lacking.or_else(|| self.old.clone()) {
                Some(reason) => {
                    println!("SKIPPED {}: {reason}", describe_one(check));
                    Outcome::Skipped(reason)
                }
                None => self.execute(check)?,
            };
            let took = start.elapsed();
            if self.keeps {
                record(self.root, check, &outcome, took)?;
            }
            done.push((*check, outcome, took));
        }
        Ok(done)
    }

    fn execute(&self, check: &Check) -> Result<Outcome, String> {
        let mut build = command(self.root, check)?;
        let targets = check.arguments.iter().take_while(|word| **word != "--");
        build.args(targets).args(["--no-run", "--quiet"]);
        let built = build.status();
        let built = built.map_err(|error| format!("cannot run cargo: {error}"))?;
        if !built.success() {
            return Ok(Outcome::Failed);
        }
        let mut command = command(self.root, check)?;
        command.args(check.arguments);
        let mut passed = 0;
        let limit = Duration::from_secs(check.minutes * 60);
        let before = match self.tells_kinds {
            true => format!("{}: ", check.kind.name()),
            false => String::new(),
        };
        let mut count = |line: &str| passed += passed_in(line);
        let ended = supervise_lines(&mut command, limit, &before, &mut count)?;
        Ok(match ended {
            Ended::Passed if passed == 0 => Outcome::Idle,
            Ended::Passed => Outcome::Clean(passed),
            Ended::Failed => Outcome::Failed,
            Ended::Hung => Outcome::Unfinished,
        })
    }
}

/// The checks, for `--help`.
pub(crate) fn describe() -> String {
    let line = |check: &Check| {
        let often = if check.often { "  (every commit)" } else { "" };
        format!(
            "  {:<5} {}{often}\n",
            check.kind.name(),
            describe_one(check)
        )
    };
    CHECKS.iter().map(line).collect()
}

/// What the ledger calls each check, all of them.
pub(crate) fn recorded() -> impl Iterator<Item = String> {
    CHECKS.iter().map(recorded_as)
}

fn recorded_as(check: &Check) -> String {
    format!("check {} {}", check.kind.name(), describe_one(check))
}

/// C7.
fn record(root: &Path, check: &Check, outcome: &Outcome, took: Duration) -> Result<(), String> {
    let (tests, lost) = match outcome {
        Outcome::Clean(tests) => (*tests, "0"),
        Outcome::Skipped(_) => return Ok(()),
        Outcome::Idle => (0, "no test ran"),
        Outcome::Failed => (0, "a report, or a test failed"),
        Outcome::Unfinished => (0, "it did not end in its time"),
    };
    let (kind, package) = (check.kind.name(), check.package);
    let line = Line {
        goal: "G8",
        what: &recorded_as(check),
        seed: 0,
        runs: 1,
        unit: "tests",
        checked: tests,
        seconds: took.as_secs(),
        lost,
        command: &format!("cargo xtask check {kind} -- {package}"),
    };
    line.keep(root)
}

fn describe_one(check: &Check) -> String {
    format!("{} {}", check.package, check.arguments.join(" "))
}

fn select(arguments: &[String]) -> Result<Vec<&'static Check>, String> {
    let mut kinds = Vec::new();
    let mut packages = Vec::new();
    let often = arguments.iter().any(|word| word == OFTEN);
    for word in arguments
        .iter()
        .filter(|word| !["--", OFTEN, RECORD].contains(&word.as_str()))
    {
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == word);
        let package = CHECKS
            .iter()
            .map(|check| check.package)
            .find(|package| *package == word || package.strip_prefix("velella-") == Some(word));
        match (kind, package) {
            (Some(kind), _) => kinds.push(kind),
            (None, Some(package)) => packages.push(package),
            (None, None) => {
                let list = describe();
                return Err(format!(
                    "`{word}` is no check and no package; there are\n{list}"
                ));
            }
        }
    }
    let fits = |check: &&Check| {
        (kinds.is_empty() || kinds.contains(&check.kind))
            && (packages.is_empty() || packages.contains(&check.package))
            && (check.often || !often)
    };
    Ok(CHECKS.iter().filter(fits).collect())
}

/// The components of the nightly toolchain; `None`: there is none.
fn installed() -> Option<String> {
    let arguments = ["component", "list", "--installed", "--toolchain", "nightly"];
    let output = Command::new("rustup").args(arguments).output().ok()?;
    let listed = output.status.success().then_some(output.stdout)?;
    String::from_utf8(listed).ok()
}

/// Why a check of this kind cannot run.
fn missing(kind: Kind, installed: Option<&str>) -> Option<String> {
    let Some(installed) = installed else {
        return Some("no nightly toolchain; `rustup toolchain install nightly`".into());
    };
    let has = |component: &str| installed.lines().any(|line| line.starts_with(component));
    let lacking = kind.needs().iter().find(|component| !has(component))?;
    Some(format!(
        "the nightly toolchain has no {lacking}; `rustup component add --toolchain nightly {lacking}`"
    ))
}

/// Why the nightly toolchain cannot build this workspace, if it is older than its manifest wants.
fn too_old(root: &Path) -> Option<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).ok()?;
    let wanted = manifest.lines().find_map(|line| {
        let told = line.strip_prefix("rust-version")?;
        minor(told.split('"').nth(1)?)
    })?;
    let output = nightly().arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let there = minor(text.strip_prefix("cargo ")?)?;
    (there < wanted).then(|| {
        format!(
            "the nightly toolchain is 1.{there}, and 1.{wanted} is needed; `rustup update nightly`"
        )
    })
}

/// The 95 of `1.95.0`.
fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("1.")?;
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// `cargo` for this check, up to the package.
fn command(root: &Path, check: &Check) -> Result<Command, String> {
    let mut command = nightly();
    command.current_dir(root).args(check.kind.command());
    if check.kind != Kind::Miri {
        command.args(["--target", &host()?]);
    }
    command.args(["--package", check.package]);
    command.envs(check.kind.variables(check.package).iter().copied());
    command.env("CARGO_TARGET_DIR", check.kind.directory(root));
    command.env(PATIENCE.0, PATIENCE.1);
    Ok(command)
}

/// The nightly toolchain's `cargo`.
pub(crate) fn nightly() -> Command {
    let mut command = Command::new("cargo");
    command.arg(TOOLCHAIN);
    // A cargo that runs this one tells its own toolchain, which would win over `+nightly`.
    for variable in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC"] {
        command.env_remove(variable);
    }
    command
}

/// The tests that a line of libtest's says have passed.
fn passed_in(line: &str) -> u64 {
    let told = line.strip_prefix("test result: ok. ");
    let number = told.and_then(|told| told.split(' ').next()?.parse().ok());
    number.unwrap_or(0)
}

/// The machine's own target: sanitizers need it named, lest build scripts be instrumented.
pub(crate) fn host() -> Result<String, String> {
    let output = Command::new("rustc").args(["-vV"]).output();
    let output = output.map_err(|error| format!("cannot run rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "rustc names no host".to_owned())
}

fn table(done: &[Done]) -> String {
    let line = |(check, outcome, time): &Done| {
        let verdict = match outcome {
            Outcome::Clean(tests) => format!("clean, {tests} tests"),
            Outcome::Idle => "FAILED: no test has these names".to_owned(),
            Outcome::Failed => "FAILED".to_owned(),
            Outcome::Unfinished => format!("DID NOT END within {} minutes", check.minutes),
            Outcome::Skipped(reason) => format!("SKIPPED: {reason}"),
        };
        let name = check.kind.name();
        format!(
            "{name:<5} {:<64} {:>4} s  {verdict}\n",
            describe_one(check),
            time.as_secs()
        )
    };
    done.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn checks_are_chosen_by_kind_and_package() {
        assert_eq!(select(&[]).unwrap().len(), CHECKS.len());
        let chosen = select(&words("miri -- memtable")).unwrap();
        assert_eq!(chosen.len(), 7);
        assert!(
            chosen
                .iter()
                .all(|check| check.package == "velella-memtable")
        );
        assert!(select(&words("valgrind")).is_err());
        let often = select(&words("--often")).unwrap();
        for kind in Kind::ALL {
            assert!(often.iter().any(|check| check.kind == kind), "{kind:?}");
        }
        assert!(select(&words("--often memtable")).unwrap().len() < 7);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(missing(Kind::Address, None).unwrap().contains("nightly"));
        let reason = missing(Kind::Miri, Some("rust-src\nrustc-x86_64")).unwrap();
        assert!(
            reason.contains("component add --toolchain nightly miri"),
            "{reason}"
        );
        assert_eq!(missing(Kind::Miri, Some("miri-x86_64\nrust-src")), None);
    }

    #[test]
    fn versions_are_told_apart() {
        assert_eq!(minor("1.95"), Some(95));
        assert_eq!(minor("1.97.0-nightly (2026-05-19)"), Some(97));
        assert_eq!(minor("2.0"), None);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let wanted = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
        assert!(
            wanted.contains("\nrust-version = \"1."),
            "where it is looked for"
        );
    }

    #[test]
    fn a_skipped_check_is_in_the_summary_and_is_not_clean() {
        let skipped = Outcome::Skipped("no nightly toolchain".into());
        let text = table(&[(&CHECKS[0], skipped, Duration::ZERO)]);
        assert!(
            text.contains("SKIPPED: no nightly") && !text.contains("clean"),
            "{text}"
        );
    }

    #[test]
    fn tests_that_passed_are_counted_and_an_endless_check_is_not_clean() {
        let line = "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured";
        assert_eq!((passed_in(line), passed_in("test a ... ok")), (12, 0));
        let text = table(&[(&CHECKS[0], Outcome::Unfinished, Duration::ZERO)]);
        assert!(text.contains("DID NOT END within 10 minutes"), "{text}");
    }
}
