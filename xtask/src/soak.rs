//! `cargo xtask soak`: a long attack with seeds that no ledger line has, kept in the ledger.
//!
//! K1. No seed of the ledger twice: without `--seed` it begins behind all of them (so does another
//!     of its kind that begins before the first has its line: give that one a seed); one before
//!     the last of them is refused, since a run could reach those behind it, but for one where a
//!     run ended and there is room, and for `--again`, which repeats seeds and writes no line. An
//!     attack leaves its line however it ended.
//! K2. The first line printed is the seed and the command that repeats the run.
//! K3. At most an hour at a time; what is built before does not count. `fuzz:all` goes through
//!     the targets in turn, which share that time; each has a seed of its own.
//!
//! Tests: below, and beside each module.

mod explore;
mod fuzz;
mod sanitized;

use crate::binaries;
use crate::ledger::{LEDGER, Line, Verdict, fresh, read, unused, used};
use crate::supervise::{Ended, supervise};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MINUTES_MAX: u64 = 60;
/// How long an attack may go on after its time: one run of it.
const GRACE: Duration = Duration::from_secs(400);

/// What can be soaked: its name, and what it does.
#[rustfmt::skip]
const ATTACKS: &[(&str, &str)] = &[
    ("kill", "processes killed, databases in memory: velella crash-test --memory-backed"),
    ("kill-on-disk", "processes killed, databases on the disk: velella crash-test"),
    ("power-cut", "images of a file system under load (root): velella crash-test --power-cut"),
    ("power-cut-xfs", "the same, of XFS"),
    ("power-loss", "a campaign of velella-reliability, as are the next"),
    ("power-loss-in-recovery", ""),
    ("every-crash-point", ""),
    ("flipped-below-the-cut", ""),
    ("faults", ""),
    ("full-disks", ""),
    ("pairs-of-faults", ""),
    ("corruption", ""),
    ("corruption-of-every-bit", ""),
    ("many-victims", ""),
    ("histories", ""),
    ("same-answers", ""),
    ("fuzz", "every target in turns, on stable, without a sanitizer"),
    ("shuttle", "random schedules of the models: cargo xtask models"),
    ("loom", "the models with one preemption more than in every commit; draws nothing"),
    ("loom:N", "the same with N, from 2 on"),
    ("tsan", "histories under ThreadSanitizer (nightly)"),
    ("asan", "histories under AddressSanitizer (nightly)"),
    ("fuzz:TARGET", "libFuzzer with AddressSanitizer on a target of fuzz/ (nightly)"),
    ("fuzz:all", "the same on each target in turn, which share the minutes"),
];

/// What the command line asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    what: String,
    minutes: u64,
    seed: Option<u64>,
    again: bool,
}

/// Attacks for as long as `arguments` say.
///
/// # Errors
/// A word that means nothing, seeds used before, or an attack that broke a promise.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let asked = parse(arguments)?;
    let used = used(&read(&root.join(LEDGER))?)?;
    let seed = match asked.seed {
        None => fresh(&used),
        Some(seed) if asked.again => seed,
        Some(seed) => unused(&used, seed)?,
    };
    let Asked { what, minutes, .. } = &asked;
    println!("seed {seed}: {}", again(what, *minutes, seed));
    if let Some(target) = what.strip_prefix("fuzz:") {
        return fuzz::run(root, target, &asked, seed);
    }
    if let Some(tool) = explore::Tool::named(what) {
        return explore::run(root, tool, &asked, seed);
    }
    if let Some(kind) = sanitized::named(what) {
        return sanitized::run(root, kind, &asked, seed);
    }
    let limit = Duration::from_secs(minutes * 60) + GRACE;
    match supervise(&mut attack(root, &asked, seed)?, limit)? {
        Ended::Passed => Ok(()),
        Ended::Failed => Err(format!("`{what}` failed: see above")),
        Ended::Hung => {
            let end = format!("did not end {GRACE:?} after its time");
            let line = Line {
                goal: "-",
                what,
                seed,
                runs: 1,
                unit: "executions",
                checked: 0,
                seconds: limit.as_secs(),
                verdict: Verdict::Failed(&end),
                command: &again(what, *minutes, seed),
            };
            if !asked.again {
                line.keep(root)?;
            }
            Err(format!("`{what}` {end}"))
        }
    }
}

/// What repeats an attack (K2).
fn again(what: &str, minutes: u64, seed: u64) -> String {
    format!("cargo xtask soak {what} --minutes {minutes} --seed {seed} --again")
}

/// The targets of libFuzzer.
///
/// # Errors
/// Their directory cannot be read.
pub(crate) fn targets(root: &Path) -> Result<Vec<String>, String> {
    fuzz::names(root)
}

/// The attacks, for `--help`.
pub(crate) fn describe() -> String {
    let line = |(name, about): &(&str, &str)| format!("  {name:<24} {about}\n");
    ATTACKS.iter().map(line).collect()
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let mut asked = Asked {
        what: String::new(),
        minutes: 10,
        seed: None,
        again: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let told = words.next().and_then(|told| told.parse::<u64>().ok());
            told.ok_or_else(|| format!("`{word}` needs a number"))
        };
        match word.as_str() {
            "--minutes" => asked.minutes = number()?,
            "--seed" => asked.seed = Some(number()?),
            "--again" => asked.again = true,
            what if is_attack(what) && asked.what.is_empty() => asked.what = what.to_owned(),
            other => return Err(format!("`{other}` is no attack; there are\n{}", describe())),
        }
    }
    if asked.what.is_empty() {
        return Err(format!("soak what? There are\n{}", describe()));
    }
    if !(1..=MINUTES_MAX).contains(&asked.minutes) {
        return Err(format!("--minutes is from 1 to {MINUTES_MAX}"));
    }
    if asked.again && asked.seed.is_none() {
        return Err("--again repeats the seeds from --seed on: name it".to_owned());
    }
    Ok(asked)
}

fn is_attack(what: &str) -> bool {
    let named = |(name, _): &(&str, &str)| *name == what && !name.contains(':');
    ATTACKS.iter().any(named)
        || explore::Tool::named(what).is_some()
        || what
            .strip_prefix("fuzz:")
            .is_some_and(|rest| !rest.is_empty())
}

/// The command of an attack that runs by itself and writes the ledger by itself.
fn attack(root: &Path, asked: &Asked, seed: u64) -> Result<Command, String> {
    let (minutes, seed) = (asked.minutes.to_string(), seed.to_string());
    let crash_test: Option<&[&str]> = match asked.what.as_str() {
        "kill" => Some(&["crash-test", "--memory-backed"]),
        "kill-on-disk" => Some(&["crash-test"]),
        "power-cut" => Some(&["crash-test", "--power-cut"]),
        "power-cut-xfs" => Some(&["crash-test", "--power-cut", "--file-system", "xfs"]),
        _ => None,
    };
    let (package, binary) = match crash_test {
        Some(_) => ("velella-cli", "velella"),
        None => ("velella-reliability", "reliability"),
    };
    let mut command = Command::new(release(root, package, binary)?);
    match crash_test {
        Some(words) => command.args(words),
        None => command.arg(&asked.what),
    };
    command.args(["--minutes", &minutes, "--seed", &seed]);
    if !asked.again {
        command.arg("--ledger").arg(root.join(LEDGER));
    }
    command.current_dir(root);
    Ok(command)
}

/// Builds a binary of the release, and says where it is.
fn release(root: &Path, package: &str, binary: &str) -> Result<PathBuf, String> {
    let mut build = Command::new(binaries::cargo());
    build.current_dir(root);
    build.args(["build", "--release", "--package", package, "--bin", binary]);
    succeed(&mut build)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root.join("target"));
    Ok(target.join("release").join(binary))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status();
    match status.map_err(|error| format!("cannot start {command:?}: {error}"))? {
        status if status.success() => Ok(()),
        _ => Err(format!("{command:?} failed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_means_nothing_is_refused_with_what_there_is() {
        let asked = parse(&words("kill --minutes 60 --seed 5")).unwrap();
        assert_eq!(
            (asked.minutes, asked.seed, asked.again),
            (60, Some(5), false)
        );
        assert_eq!(parse(&words("fuzz:block")).unwrap().what, "fuzz:block");
        for wrong in [
            "",
            "kill --minutes 61",
            "kill --minutes 0",
            "kill --minutes",
            "nothing",
            "fuzz:",
            "kill faults",
            "kill --again",
            "fuzz:TARGET --minutes x",
        ] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
        assert!(parse(&words("nothing")).unwrap_err().contains("power-loss"));
    }
}
