//! Histories under a sanitizer: the whole engine with all its threads, for long.
//!
//! N1. A report fails the soak: it makes the program end as if a run had failed.
//! N2. Where the sanitizer cannot run it says so and fails: who asked for an hour is told at once.
//!
//! Tests: below.

use super::{Asked, GRACE, again, succeed};
use crate::check::Kind;
use crate::ledger::{Line, Verdict};
use crate::supervise::{Ended, supervise_lines};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const PACKAGE: &str = "velella-reliability";
const PROGRAM: &str = "reliability";
/// The campaign with the most threads.
const CAMPAIGN: &str = "histories";

/// What the program's report said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    runs: u64,
    histories: u64,
}

/// The sanitizer called `what`.
pub(super) fn named(what: &str) -> Option<Kind> {
    let kinds = [Kind::Thread, Kind::Address];
    kinds.into_iter().find(|kind| kind.name() == what)
}

/// Runs histories under `kind` as long as was `asked`.
///
/// # Errors
/// It cannot run here or be built, a history is wrong, or the sanitizer reports something.
pub(super) fn run(root: &Path, kind: Kind, asked: &Asked, seed: u64) -> Result<(), String> {
    if let Some(reason) = kind.cannot(root) {
        return Err(format!("{} cannot run here: {reason}", kind.name()));
    }
    let (mut build, programs) = kind.build(root)?;
    succeed(build.args(["--package", PACKAGE, "--bin", PROGRAM]))?;
    let mut command = Command::new(programs.join(PROGRAM));
    let (minutes, seed_text) = (asked.minutes.to_string(), seed.to_string());
    command.current_dir(root).envs(kind.told()).args([
        CAMPAIGN,
        "--minutes",
        &minutes,
        "--seed",
        &seed_text,
    ]);
    let mut told = Told::default();
    let limit = Duration::from_secs(asked.minutes * 60) + GRACE;
    let begun = Instant::now();
    let ended = supervise_lines(&mut command, limit, "", &mut |line| told.hear(line))?;
    let verdict = match ended {
        Ended::Passed => Verdict::Held,
        Ended::Failed => Verdict::Failed("a report of the sanitizer, or a wrong history"),
        Ended::Hung => Verdict::Failed("it did not end after its time"),
    };
    let line = Line {
        goal: "G8",
        what: kind.name(),
        seed,
        runs: told.runs.max(1),
        unit: CAMPAIGN,
        checked: told.histories,
        seconds: begun.elapsed().as_secs(),
        verdict,
        command: &again(kind.name(), asked.minutes, seed),
    };
    if !asked.again {
        line.keep(root)?;
    }
    match verdict {
        Verdict::Held => Ok(()),
        Verdict::Failed(lost) | Verdict::Unfinished(lost) => {
            Err(format!("{} of `{CAMPAIGN}`: {lost}", kind.name()))
        }
    }
}

impl Told {
    /// `  histories                          1234`.
    fn hear(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let place = match words.next() {
            Some("runs") => &mut self.runs,
            Some(CAMPAIGN) => &mut self.histories,
            _ => return,
        };
        if let (Some(Ok(number)), None) = (words.next().map(str::parse), words.next()) {
            *place = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_campaign_is_read() {
        let mut told = Told::default();
        for line in [
            "histories (G6)",
            "  runs                                   8",
            "  histories                             16",
            "  histories cut by a crash               5",
            "  seconds                             11.2",
        ] {
            told.hear(line);
        }
        let expected = Told {
            runs: 8,
            histories: 16,
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn only_sanitizers_are_soaked() {
        assert_eq!(named("tsan"), Some(Kind::Thread));
        assert_eq!(named("asan"), Some(Kind::Address));
        assert_eq!(named("miri"), None);
    }
}
