//! `cargo xtask seeded`: are the tests able to fail? One fault at a time, the tests named for it.
//!
//! Source: RocksDB's blind test of its crash test; mutation testing with mutants that matter.
//!
//! S1. A fault is caught when the test named for it fails or does not end; anything else, a build
//!     that fails included, is no catch.
//! S2. Each test named is run once without any fault first, and must pass: a test that always
//!     fails catches nothing.
//! S3. The names in the code and in the catalogue are the same.
//!
//! Tests: below; S3 is a test of its own.

mod catalogue;
mod needed;

use crate::supervise::{Ended, supervise};
use catalogue::{FAULTS, Fault, Test};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// A test that takes longer hangs, with a fault; this is how some faults are caught.
const LIMIT: Duration = Duration::from_secs(180);
/// And without one, where a busy machine must not be taken for that.
const LIMIT_WITHOUT: Duration = Duration::from_secs(600);

/// One line of the table.
struct Row {
    fault: &'static Fault,
    verdict: &'static str,
    seconds: f64,
}

/// Runs the faults called in `arguments`; `--some N` takes N that the commit decides, none takes
/// all, `--record` takes all and keeps the table in the repository.
///
/// # Errors
/// A fault that was not caught, or a test that fails without one.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let is_record = arguments == ["--record"];
    let faults = match is_record {
        true => FAULTS.iter().collect(),
        false => select(root, arguments)?,
    };
    let tests: BTreeSet<_> = faults.iter().map(|fault| fault.caught_by).collect();
    let binaries = needed::build(root, &tests)?;
    let run = |test: &Test, fault: Option<&str>| {
        let limit = fault.map_or(LIMIT_WITHOUT, |_| LIMIT);
        supervise(&mut needed::command(&binaries, test, fault)?, limit)
    };
    for test in tests {
        let ended = run(&test, None)?;
        println!("without a fault: {test}: {ended:?}");
        if ended != Ended::Passed {
            return Err(format!("without a fault `{test}` {ended:?}"));
        }
    }
    let mut rows = Vec::new();
    println!("\n{:<46} {:<13} {:>7}  by", "fault", "verdict", "seconds");
    for fault in faults {
        let start = Instant::now();
        let verdict = match run(&fault.caught_by, Some(fault.name))? {
            Ended::Passed => "NOT CAUGHT",
            Ended::Failed => "caught",
            Ended::Hung => "caught (hung)",
        };
        let (seconds, by) = (start.elapsed().as_secs_f64(), fault.caught_by);
        println!("{:<46} {verdict:<13} {seconds:>7.1}  {by}", fault.name);
        rows.push(Row {
            fault,
            verdict,
            seconds,
        });
    }
    let missed: Vec<_> = rows
        .iter()
        .filter(|row| row.verdict == "NOT CAUGHT")
        .collect();
    println!("\n{} of {} caught", rows.len() - missed.len(), rows.len());
    if is_record {
        record(root, &rows)?;
    }
    match missed.is_empty() {
        true => Ok(()),
        false => {
            let names: Vec<_> = missed.iter().map(|row| row.fault.name).collect();
            Err(format!("not caught: {}", names.join(", ")))
        }
    }
}

/// How many faults there are.
pub(crate) fn count() -> usize {
    FAULTS.len()
}

/// Keeps the table of a whole run in the repository, instead of the one before.
fn record(root: &Path, rows: &[Row]) -> Result<(), String> {
    let date = said_by("date", &["-u", "+%Y-%m-%dT%H:%MZ"], root).unwrap_or_default();
    let commit = said_by("git", &["rev-parse", "--short=12", "HEAD"], root).unwrap_or_default();
    let mut text = String::from("date\tcommit\tfault\tverdict\tseconds\tcaught by\n");
    for Row {
        fault,
        verdict,
        seconds,
    } in rows
    {
        let by = fault.caught_by.to_string();
        let (name, by) = (fault.name, by.trim_end());
        text += &format!("{date}\t{commit}\t{name}\t{verdict}\t{seconds:.1}\t{by}\n");
    }
    let path = root.join("reliability/SEEDED.tsv");
    std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The first line that `program` prints.
fn said_by(program: &str, arguments: &[&str], root: &Path) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().next().map(str::to_owned)
}

/// The catalogue, a line each, for `--help`.
pub(crate) fn describe() -> String {
    let line = |fault: &Fault| format!("  {:<46} {}\n", fault.name, fault.caught_by);
    FAULTS.iter().map(line).collect()
}

fn select(root: &Path, arguments: &[String]) -> Result<Vec<&'static Fault>, String> {
    match arguments {
        [] => Ok(FAULTS.iter().collect()),
        [some, count] if some == "--some" => {
            let count = count
                .parse()
                .map_err(|_| format!("`{count}` is no number"))?;
            Ok(draw(count, seed(root)))
        }
        names => names.iter().map(find).collect(),
    }
}

fn find(name: &String) -> Result<&'static Fault, String> {
    let found = FAULTS.iter().find(|fault| fault.name == name);
    found.ok_or_else(|| format!("there is no fault `{name}`; there are\n{}", describe()))
}

/// `count` different faults, as `seed` says.
fn draw(count: usize, seed: u64) -> Vec<&'static Fault> {
    println!("faults drawn with {seed}");
    let mut left: Vec<_> = FAULTS.iter().collect();
    let mut state = seed;
    let mut drawn = Vec::new();
    while drawn.len() < count && !left.is_empty() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = usize::try_from(state >> 33).unwrap_or_default() % left.len();
        drawn.push(left.swap_remove(place));
    }
    drawn
}

/// Another one for each commit, so that a run of the same commit can be repeated; where nobody can
/// tell the commit, the clock's.
pub(crate) fn seed(root: &Path) -> u64 {
    let commit = said_by("git", &["rev-parse", "--short=15", "HEAD"], root);
    let number = commit.and_then(|commit| u64::from_str_radix(commit.get(..15)?, 16).ok());
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    number.unwrap_or_else(|| now().map_or(0, |time| time.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn the_catalogue_and_the_code_name_the_same_faults() {
        let workspace = Workspace::load(&crate::root()).unwrap();
        let mut in_code = BTreeSet::new();
        for (path, text) in &workspace.rust {
            if path.starts_with("xtask/") || path.ends_with("base/src/seeded.rs") {
                continue;
            }
            for rest in text.split("seeded(\"").skip(1) {
                in_code.insert(rest.split('"').next().unwrap());
            }
        }
        let listed: BTreeSet<_> = FAULTS.iter().map(|fault| fault.name).collect();
        assert_eq!(listed.len(), FAULTS.len(), "a name is listed twice");
        assert_eq!(in_code, listed);
    }

    #[test]
    fn a_draw_has_no_fault_twice() {
        let drawn = draw(FAULTS.len() + 5, 3);
        let names: BTreeSet<_> = drawn.iter().map(|fault| fault.name).collect();
        assert_eq!((drawn.len(), names.len()), (FAULTS.len(), FAULTS.len()));
    }
}
