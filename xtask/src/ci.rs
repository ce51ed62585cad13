//! Everything that must be green, in the order in which it fails fastest.
//!
//! Each step is timed, by the clock and by the processors' time that it took, which tells a slow
//! step from a busy machine; the first that fails ends the run, and its name is the last thing
//! printed.
//! A newcomer runs the same command as the machine: `cargo xtask ci`, or one step by its name.
//! Where campaigns draw, the commit decides their seeds: each commit tries others, and the same
//! commit the same again. Only the killed processes of `crash` have theirs from the clock, as they
//! are killed by it; it prints them.
//!
//! Tests: below; the steps themselves are what `.ci/run` runs.

use crate::binaries::{self, cargo};
use crate::ledger::DRAWN_FROM;
use crate::models;
use crate::{check, processor, ratio, seeded, tidy};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// One step.
struct Step {
    name: &'static str,
    says: &'static str,
    action: Action,
}

enum Action {
    Tidy,
    /// Lines of tests for each of product.
    Ratio,
    Models,
    /// So many faults that the commit decides.
    Seeded(&'static str),
    /// `cargo` with these arguments and these additional environment variables.
    Cargo(
        &'static [&'static str],
        &'static [(&'static str, &'static str)],
    ),
    /// The example of this name, as `cargo test --workspace` has built it.
    Example(&'static str),
    BenchCheck,
    /// Miri and the sanitizers, as often as every commit.
    Check,
    /// Each of these campaigns, so many runs, by the released binary.
    Attack(&'static [(&'static str, u64, Seeds)]),
    /// `bash` on this file, if it is there.
    Script(&'static str),
}

/// Where the seeds of a campaign begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seeds {
    /// With 1: seeds take turns over the parts of something, and these go over it once, or evenly.
    Turns,
    /// Where the commit decides: any seed is as good as another.
    Drawn,
}

impl Seeds {
    /// The first of them, where `drawn` is the commit's.
    fn first(self, drawn: u64) -> u64 {
        match self {
            Seeds::Turns => 1,
            Seeds::Drawn => drawn,
        }
    }
}

/// Seeds of one commit, and so many commits have their own; more runs no campaign takes.
const DRAWN: u64 = 10_000;
const COMMITS: u64 = 1_000_000_000;

/// Campaigns and their runs per commit; RELIABILITY.md says what they come to.
const ATTACKS: &[(&str, u64, Seeds)] = &[
    ("power-loss", 900, Seeds::Drawn),
    ("power-loss-in-recovery", 45, Seeds::Drawn),
    ("every-crash-point", 11_385, Seeds::Turns),
    ("flipped-below-the-cut", 100, Seeds::Drawn),
    ("faults", 2_600, Seeds::Turns),
    ("full-disks", 1_000, Seeds::Drawn),
    ("pairs-of-faults", 500, Seeds::Drawn),
    ("corruption", 3_000, Seeds::Turns),
    ("many-victims", 1_000, Seeds::Drawn),
    ("histories", 1_000, Seeds::Drawn),
    ("same-answers", 50, Seeds::Drawn),
    ("fuzz", 450, Seeds::Drawn),
];

const STEPS: &[Step] = &[
    Step {
        name: "format",
        says: "cargo fmt --all --check",
        action: Action::Cargo(&["fmt", "--all", "--check"], &[]),
    },
    Step {
        name: "tidy",
        says: "cargo xtask tidy",
        action: Action::Tidy,
    },
    Step {
        name: "locks",
        says: "the lock file of fuzz/, a workspace of its own, is that of its manifests",
        action: Action::Cargo(
            &[
                "tree",
                "--locked",
                "--depth=0",
                "--manifest-path=fuzz/Cargo.toml",
            ],
            &[],
        ),
    },
    Step {
        name: "ratio",
        says: "cargo xtask ratio: lines of tests for each line of product",
        action: Action::Ratio,
    },
    Step {
        name: "clippy",
        says: "cargo clippy --workspace -- -D warnings",
        action: Action::Cargo(&["clippy", "--workspace", "--", "-D", "warnings"], &[]),
    },
    Step {
        // A test fails by panicking, so there `unwrap` is a way to say so; and it casts what it
        // made up itself. What no peer is needed for is built here, too: the network.
        name: "lint-all",
        says: "cargo clippy --workspace --all-targets, `unwrap` and casts allowed",
        action: Action::Cargo(
            &[
                "clippy",
                "--workspace",
                "--all-targets",
                "--features",
                "velella-bench/neural",
                "--",
                "-D",
                "warnings",
                "-A",
                "clippy::unwrap_used",
                "-A",
                "clippy::cast_possible_truncation",
            ],
            &[],
        ),
    },
    Step {
        name: "test",
        says: "cargo test --workspace",
        action: Action::Cargo(&["test", "--workspace"], &[]),
    },
    Step {
        name: "models",
        says: "cargo xtask models",
        action: Action::Models,
    },
    Step {
        name: "seeded",
        says: "cargo xtask seeded --some 5: tests that can fail",
        action: Action::Seeded("5"),
    },
    Step {
        name: "check",
        says: "cargo xtask check --often: Miri and the sanitizers, where there is nightly",
        action: Action::Check,
    },
    Step {
        name: "doc",
        says: "cargo doc --workspace --no-deps, warnings denied",
        action: Action::Cargo(
            &["doc", "--workspace", "--no-deps"],
            &[("RUSTDOCFLAGS", "-D warnings")],
        ),
    },
    Step {
        name: "readme",
        says: "the example that README.md shows",
        action: Action::Example("readme"),
    },
    Step {
        name: "release",
        says: "cargo build --release",
        action: Action::Cargo(&["build", "--release"], &[]),
    },
    Step {
        name: "bench",
        says: "cargo xtask bench-check: counts of small workloads, as they were committed",
        action: Action::BenchCheck,
    },
    Step {
        name: "attack",
        says: "the campaigns of velella-reliability, at the figures of a commit",
        action: Action::Attack(ATTACKS),
    },
    Step {
        name: "porcupine",
        says: "bash .ci/porcupine.sh: a sample of the histories before another judge, where Go is",
        action: Action::Script(".ci/porcupine.sh"),
    },
    Step {
        name: "crash",
        says: "bash .ci/crash.sh: 1,500 processes killed, and power cuts where they can be made",
        action: Action::Script(".ci/crash.sh"),
    },
    Step {
        name: "e2e",
        says: "bash .ci/e2e.sh: the released binary, with real clients",
        action: Action::Script(".ci/e2e.sh"),
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// A step that was run.
struct Done {
    name: &'static str,
    outcome: Outcome,
    took: Duration,
    /// The processors' time of what it ran, where that can be told.
    processor: Option<Duration>,
}

/// The steps, one line each, for `--help`.
pub(crate) fn describe() -> String {
    let line = |step: &Step| format!("  {:<9} {}\n", step.name, step.says);
    STEPS.iter().map(line).collect()
}

/// Runs the steps that `words` name, or all if they name none; `--seed N` among them says where
/// the seeds of the campaigns begin that draw them.
///
/// # Errors
/// A name that is no step's, or the first step that failed.
pub(crate) fn run(root: &Path, words: &[String]) -> Result<(), String> {
    let (names, seed) = parse(words)?;
    let steps = select(&names)?;
    let mut done: Vec<Done> = Vec::new();
    for step in steps {
        println!("\n=== {}: {}", step.name, step.says);
        done.push(timed(root, step, seed));
        if done
            .last()
            .is_some_and(|step| step.outcome == Outcome::Failed)
        {
            break;
        }
    }
    print!("\n{}", table(&done));
    match done.last() {
        Some(Done {
            name,
            outcome: Outcome::Failed,
            ..
        }) => Err(format!(
            "step `{name}` failed; after mending it run `cargo xtask ci {name}`, then all"
        )),
        _ => Ok(()),
    }
}

fn timed(root: &Path, step: &Step, seed: Option<u64>) -> Done {
    let (start, before) = (Instant::now(), processor::of_children());
    let outcome = perform(root, &step.action, seed);
    let took = start.elapsed();
    let processor = processor::of_children().zip(before);
    Done {
        name: step.name,
        outcome,
        took,
        processor: processor.map(|(after, before)| after.saturating_sub(before)),
    }
}

/// The names, and the seed.
fn parse(words: &[String]) -> Result<(Vec<String>, Option<u64>), String> {
    let (mut names, mut seed) = (Vec::new(), None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--seed" {
            let told = words.next().and_then(|told| told.parse().ok());
            seed = Some(told.ok_or("`--seed` needs a number")?);
        } else {
            names.push(word.clone());
        }
    }
    Ok((names, seed))
}

fn select(names: &[String]) -> Result<Vec<&'static Step>, String> {
    if names.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    let find = |name: &String| {
        let found = STEPS.iter().find(|step| step.name == name);
        found.ok_or_else(|| format!("there is no step `{name}`; the steps are\n{}", describe()))
    };
    names.iter().map(find).collect()
}

fn perform(root: &Path, action: &Action, seed: Option<u64>) -> Outcome {
    match action {
        Action::Tidy => match tidy::run(root) {
            Ok(()) => Outcome::Passed,
            Err(_) => Outcome::Failed,
        },
        Action::Ratio => told(ratio::run(root)),
        Action::Models => told(models::run(root, &[])),
        Action::Seeded(count) => {
            let some = ["--some".to_owned(), (*count).to_owned()];
            told(seeded::run(root, &some))
        }
        Action::Cargo(arguments, variables) => {
            let mut command = Command::new(cargo());
            command.args(*arguments).envs(variables.iter().copied());
            execute(root, &mut command)
        }
        Action::Example(name) => match binaries::example(root, name) {
            Ok(binary) => execute(root, &mut binary.command()),
            Err(message) => told(Err(message)),
        },
        Action::BenchCheck => told(crate::bench_check(root, &[])),
        Action::Check => told(check::run(root, &[check::OFTEN.to_owned()])),
        Action::Attack(campaigns) => {
            let seed = seed.unwrap_or_else(|| drawn(seeded::seed(root)));
            println!("seed {seed}: cargo xtask ci attack --seed {seed}");
            attack(root, campaigns, seed)
        }
        Action::Script(file) => match root.join(file).exists() {
            true => execute(root, Command::new("bash").arg(file)),
            false => skip(file),
        },
    }
}

fn told(result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed,
        Err(message) => {
            println!("{message}");
            Outcome::Failed
        }
    }
}

/// Where the seeds of a commit of this number begin.
fn drawn(commit: u64) -> u64 {
    DRAWN_FROM + commit % COMMITS * DRAWN
}

/// Builds the campaigns and runs them one after the other, up to the first that fails.
fn attack(root: &Path, campaigns: &[(&str, u64, Seeds)], drawn: u64) -> Outcome {
    for (name, runs, seeds) in campaigns {
        let mut command = Command::new(cargo());
        command
            .args("run --release --quiet --package velella-reliability --".split(' '))
            .args([*name, "--runs", &runs.to_string()])
            .args(["--seed", &seeds.first(drawn).to_string()]);
        if execute(root, &mut command) == Outcome::Failed {
            return Outcome::Failed;
        }
    }
    Outcome::Passed
}

fn skip(file: &str) -> Outcome {
    println!("skipped: {file} is not there");
    Outcome::Skipped
}

fn execute(root: &Path, command: &mut Command) -> Outcome {
    match command.current_dir(root).status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(status) => {
            println!("{command:?}: {status}");
            Outcome::Failed
        }
        Err(error) => {
            println!("cannot run {command:?}: {error}; install it");
            Outcome::Failed
        }
    }
}

fn table(done: &[Done]) -> String {
    let seconds = |time: Option<Duration>| match time {
        Some(time) => format!("{:.1}", time.as_secs_f64()),
        None => "?".to_owned(),
    };
    let row = |name: &str, outcome: &str, took, processor| {
        format!("{name:<9} {outcome:<9} {took:>7} {processor:>9}\n")
    };
    let mut text = row(
        "step",
        "outcome",
        "seconds".to_owned(),
        "processor".to_owned(),
    );
    for step in done {
        let outcome = match step.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "skipped",
        };
        text += &row(
            step.name,
            outcome,
            seconds(Some(step.took)),
            seconds(step.processor),
        );
    }
    text += &row(
        "total",
        "",
        seconds(Some(done.iter().map(|step| step.took).sum())),
        seconds(done.iter().map(|step| step.processor).sum()),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_each_step_its_outcome_and_its_time() {
        let second = Duration::from_secs(1);
        let step = |name, outcome, took, processor| Done {
            name,
            outcome,
            took,
            processor,
        };
        let mut done = vec![
            step("format", Outcome::Passed, second, Some(second / 2)),
            step("test", Outcome::Failed, second * 2, Some(second * 3)),
        ];
        let text = table(&done);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "step      outcome   seconds processor");
        assert_eq!(lines[1], "format    passed        1.0       0.5");
        assert_eq!(lines[2], "test      FAILED        2.0       3.0");
        assert_eq!(lines[3], "total                   3.0       3.5");
        done[0].processor = None;
        assert!(table(&done).ends_with("3.0         ?\n"), "not told of all");
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_list() {
        let error = select(&["typo".to_owned()]).err().unwrap_or_default();
        assert!(
            error.contains("no step `typo`") && error.contains("clippy"),
            "{error}"
        );
        assert_eq!(select(&[]).map(|steps| steps.len()), Ok(STEPS.len()));
    }

    #[test]
    fn commits_draw_seeds_of_their_own_that_no_soak_has() {
        let root = crate::root();
        let ledger = crate::ledger::read(&root.join(crate::ledger::LEDGER)).unwrap();
        let soaked = crate::ledger::fresh(&crate::ledger::used(&ledger).unwrap());
        assert!(soaked < DRAWN_FROM, "{soaked}");
        let noted = [(5, 10), (drawn(3), 100)];
        assert!(
            crate::ledger::fresh(&noted) < DRAWN_FROM,
            "one of CI's was noted"
        );
        assert!(drawn(0) >= DRAWN_FROM && drawn(7) == drawn(7));
        let runs_max = ATTACKS.iter().filter(|(.., seeds)| *seeds == Seeds::Drawn);
        let runs_max = runs_max.map(|(_, runs, _)| *runs).max().unwrap();
        assert!(drawn(7) + runs_max <= drawn(8), "{runs_max}");
        assert!(drawn(u64::MAX).checked_add(DRAWN).is_some());
    }

    #[test]
    fn what_takes_turns_begins_with_the_first_seed_and_nothing_else_does() {
        let first = |name: &str| {
            let found = ATTACKS.iter().find(|(known, ..)| *known == name);
            found.map(|(.., seeds)| seeds.first(77))
        };
        for name in ["every-crash-point", "faults", "corruption"] {
            assert_eq!(first(name), Some(1), "{name}");
        }
        for name in ["power-loss", "many-victims", "fuzz"] {
            assert_eq!(first(name), Some(77), "{name}");
        }
    }

    #[test]
    fn a_seed_may_be_told_among_the_names() {
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let parsed = parse(&words("attack --seed 5 tidy"));
        assert_eq!(parsed, Ok((words("attack tidy"), Some(5))));
        assert_eq!(parse(&words("attack")), Ok((words("attack"), None)));
        assert!(parse(&words("--seed")).is_err() && parse(&words("--seed x")).is_err());
    }

    #[test]
    fn a_step_fails_when_its_command_does_or_cannot_run() {
        let here = Path::new(".");
        assert_eq!(execute(here, &mut Command::new("false")), Outcome::Failed);
        assert_eq!(
            execute(here, &mut Command::new("no-such-program")),
            Outcome::Failed
        );
        assert_eq!(execute(here, &mut Command::new("true")), Outcome::Passed);
    }
}
