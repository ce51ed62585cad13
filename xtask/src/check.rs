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

mod kind;
mod catalogue;

use crate::ledger::{Line, Verdict};
use crate::nightly;
use crate::supervise::{Ended, supervise_lines};
use catalogue::{CHECKS, Check};
pub(crate) use kind::Kind;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How many times as long a test may take before its watchdog takes it for hung
/// (`velella_testkit::patience`); a check that does not end has its own limit (C3).
const PATIENCE: (&str, &str) = ("VELELLA_PATIENCE", "10");
/// Only what every commit takes.
pub(crate) const OFTEN: &str = "--often";
/// Keep what came out (C7).
const RECORD: &str = "--record";

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

/// Runs the checks whose kinds, packages or tests are in `arguments`, or all; with `--often` only
/// those of them that every commit takes; with `--record` for the ledger, too.
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
        installed: nightly::installed(),
        old: nightly::too_old(root),
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
            let lacking = nightly::missing(check.kind.needs(), self.installed.as_deref());
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
    let (tests, verdict) = match outcome {
        Outcome::Clean(tests) => (*tests, Verdict::Held),
        Outcome::Skipped(_) => return Ok(()),
        Outcome::Idle => (0, Verdict::Failed("no test ran")),
        Outcome::Failed => (0, Verdict::Failed("a report, or a test failed")),
        Outcome::Unfinished => (0, Verdict::Failed("it did not end in its time")),
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
        verdict,
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
    let mut tests = Vec::new();
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
            (None, None) if CHECKS.iter().any(|check| check.runs(word)) => tests.push(word),
            (None, None) => {
                let list = describe();
                return Err(format!(
                    "`{word}` is no check, no package and no test of one; there are\n{list}"
                ));
            }
        }
    }
    let fits = |check: &&Check| {
        (kinds.is_empty() || kinds.contains(&check.kind))
            && (packages.is_empty() || packages.contains(&check.package))
            && (tests.is_empty() || tests.iter().any(|name| check.runs(name)))
            && (check.often || !often)
    };
    Ok(CHECKS.iter().filter(fits).collect())
}

/// `cargo` for this check, up to the package.
fn command(root: &Path, check: &Check) -> Result<Command, String> {
    let mut command = nightly::cargo();
    command.current_dir(root).args(check.kind.command());
    if check.kind != Kind::Miri {
        command.args(["--target", &nightly::host()?]);
    }
    if check.unoptimised {
        command.args(["--profile", "unoptimised"]);
    }
    command.args(["--package", check.package]);
    command.envs(check.kind.variables(check.package).iter().copied());
    command.env("CARGO_TARGET_DIR", check.kind.directory(root));
    command.env(PATIENCE.0, PATIENCE.1);
    Ok(command)
}

/// The tests that a line of libtest's says have passed.
fn passed_in(line: &str) -> u64 {
    let told = line.strip_prefix("test result: ok. ");
    let number = told.and_then(|told| told.split(' ').next()?.parse().ok());
    number.unwrap_or(0)
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

    fn read(file: &str) -> Option<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        std::fs::read_to_string(root.join(file)).ok()
    }

    #[test]
    fn modules_of_a_suite_that_checks_name_are_there() {
        let mut modules = 0;
        for check in CHECKS {
            let name = check.package.strip_prefix("velella-");
            let directory = name.unwrap_or("engine");
            for module in check
                .arguments
                .iter()
                .filter_map(|word| word.strip_suffix("::"))
            {
                let suite = read(&format!("crates/{directory}/tests/suite.rs")).unwrap_or_default();
                let is_unit = check.arguments.contains(&"--lib");
                let is_there = suite.contains(&format!("\nmod {module};"));
                assert!(is_there || is_unit, "{}: {module}", check.package);
                modules += usize::from(is_there);
            }
        }
        assert!(modules > 20, "{modules}");
    }

    #[test]
    fn checks_are_chosen_by_kind_package_and_test() {
        assert_eq!(select(&[]).unwrap().len(), CHECKS.len());
        let chosen = select(&words("miri -- memtable")).unwrap();
        assert_eq!(chosen.len(), 7);
        assert!(
            chosen
                .iter()
                .all(|check| check.package == "velella-memtable")
        );
        assert!(select(&words("valgrind")).is_err());
        let one = select(&words("miri -- memtable jellyfish::tests")).unwrap();
        assert_eq!(one.len(), 1, "not: those that leave it out");
        assert!(one[0].runs("jellyfish::tests") && !one[0].runs("keeps"));
        assert!(select(&words("memtable --lib")).is_err(), "of all checks");
        let often = select(&words("--often")).unwrap();
        for kind in Kind::ALL {
            assert!(often.iter().any(|check| check.kind == kind), "{kind:?}");
        }
        assert!(select(&words("--often memtable")).unwrap().len() < 7);
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
