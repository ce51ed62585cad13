//! `cargo xtask models`: explores every model of the workspace and prints one table of them.
//!
//! A crate's models are its test binaries `tests/loom.rs` and `tests/shuttle.rs`, found by their
//! names. Each exploration prints a line `model: name | how | executions | seconds | verdict`
//! (`velella_sync::model`); a test that prints none is a row without figures.
//!
//! Z1. A test that fails fails the run, whatever it has printed, and so does a build.
//! Z2. With `--minutes` the schedules drawn at random are continued, from new seeds, until the time
//!     is over; what loom explores ends by itself. [`beyond`] goes further with one tool: from the
//!     seeds it is told, or with so many preemptions more than the bound of a model.
//!     There the engine's models are bounded under loom, for the memory that they take.
//!
//! Tests: below.

use crate::workspace::Workspace;
use process::{Variables, at_once};
use row::{Row, table};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

mod row;
mod process;

/// A way to explore: a configuration of the compiler and a name of test binaries.
const TOOLS: [&str; 2] = ["loom", "shuttle"];

/// What shuttle's models are built with: optimised, and quickly linked.
pub(crate) const QUICKLY_LINKED: &str = "models";

/// Says to a binary of models how long each of them may go on.
const SECONDS: &str = "VELELLA_MODEL_SECONDS";

/// Under loom nothing that was shared is freed, and an execution of the whole engine leaves 100 KB
/// of it: of three soaks beside each other, with a minute for each model, one was ended for it.
const SECONDS_OF_THE_ENGINE: u64 = 10;

/// What a run was like.
#[derive(Debug, Default)]
struct Run {
    rows: Vec<Row>,
    /// Tests that failed, with all that they printed.
    failures: Vec<(String, String)>,
}

/// What `cargo xtask models --help` says.
pub(crate) fn describe() -> String {
    "cargo xtask models [--minutes N]\n\n\
     Explores the models of all crates (tests/loom.rs, tests/shuttle.rs) and prints, for each, how\n\
     it was explored, how many executions there were and what became of it. With --minutes the\n\
     random schedules are continued, from new seeds, until the time is over. VELELLA_SCALE=n\n\
     multiplies their number, VELELLA_SEED=n repeats one batch of them.\n"
        .to_owned()
}

/// Runs the models as `arguments` say.
///
/// # Errors
/// Arguments that are none, or a model that did not end as it must.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let minutes = minutes(arguments)?;
    let start = Instant::now();
    let mut tests = process::build(root, &workspace(root)?, &TOOLS)?;
    let mut done = process::run(&tests, &|_| Variables::new());
    let limit = Duration::from_secs(minutes.unwrap_or(0) * 60);
    if let Some(left) = limit.checked_sub(start.elapsed())
        && done.failures.is_empty()
    {
        let each = share(left, &done.rows, "shuttle");
        tests.retain(|test| test.tool == "shuttle");
        done.append(process::run(&tests, &|_| vec![(SECONDS, each.to_string())]));
    }
    println!("\n{}", table(&done.rows));
    done.verdict()
}

fn workspace(root: &Path) -> Result<Workspace, String> {
    Workspace::load(root).map_err(|error| format!("cannot read {}: {error}", root.display()))
}

/// What a long exploration came to.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    /// Executions of the model that was explored longest, which used the most seeds.
    pub(crate) longest: u64,
    /// The model with the fewest executions, by all ways to explore it, and how many it had.
    pub(crate) least: Option<(String, u64)>,
    /// Executions of all.
    pub(crate) executions: u64,
    /// How many could go on, and how many of these ended before their time.
    pub(crate) explorations: usize,
    pub(crate) whole: usize,
    /// What that took, building left out.
    pub(crate) seconds: u64,
}

/// Goes beyond what every commit explores with `tool` for about so long: `shuttle` draws the
/// schedules of the seeds from `seed` on, `loom` allows each model `deeper` preemptions more.
///
/// # Errors
/// A model did not end as it must; what was explored until then is told, too.
pub(crate) fn beyond(
    root: &Path,
    tool: &'static str,
    deeper: u64,
    minutes: u64,
    seed: u64,
) -> Result<(Sum, Result<(), String>), String> {
    let tests = process::build(root, &workspace(root)?, &[tool])?;
    let explore = |seconds: u64| {
        let begun = Instant::now();
        let run = process::run(&tests, &|test| {
            vec![
                (
                    SECONDS,
                    bounded(seconds, test.tool, &test.package).to_string(),
                ),
                ("VELELLA_MODEL_SEED", seed.to_string()),
                ("VELELLA_MODEL_DEEPER", deeper.to_string()),
            ]
        });
        (run, begun.elapsed())
    };
    // A second of each tells how many share the time.
    let (first, _) = explore(1);
    let (done, took) = match first.failures.is_empty() {
        true => explore(share(Duration::from_secs(minutes * 60), &first.rows, tool)),
        false => (first, Duration::ZERO),
    };
    println!("\n{}", table(&done.rows));
    let sum = Sum {
        seconds: took.as_secs(),
        ..done.sum(tool)
    };
    Ok((sum, done.verdict()))
}

/// Seconds that each exploration of `rows` with `tool` may take if all are to end within `time`.
fn share(time: Duration, rows: &[Row], tool: &str) -> u64 {
    let explorations = rows.iter().filter(|row| row.goes_on(tool)).count() as u64;
    let each = time.as_secs() * at_once() / explorations.max(1);
    each.max(1)
}

/// Of `seconds`, what a model of `package` may take with `tool`.
fn bounded(seconds: u64, tool: &str, package: &str) -> u64 {
    match (tool, package) {
        ("loom", "velella") => seconds.min(SECONDS_OF_THE_ENGINE),
        _ => seconds,
    }
}

fn minutes(arguments: &[String]) -> Result<Option<u64>, String> {
    match arguments {
        [] => Ok(None),
        [flag, number] if flag == "--minutes" => match number.parse() {
            Ok(minutes) => Ok(Some(minutes)),
            Err(error) => Err(format!("--minutes {number}: {error}")),
        },
        _ => Err(format!("wrong arguments; usage:\n{}", describe())),
    }
}

impl Run {
    fn append(&mut self, other: Run) {
        self.rows.extend(other.rows);
        self.failures.extend(other.failures);
    }

    /// What was explored that can go on with `tool`.
    fn sum(&self, tool: &str) -> Sum {
        let mut sum = Sum::default();
        let mut of_each: BTreeMap<&str, u64> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| row.goes_on(tool)) {
            let Ok(executions) = row.executions.parse::<u64>() else {
                continue;
            };
            sum.longest = sum.longest.max(executions);
            sum.executions += executions;
            sum.explorations += 1;
            sum.whole += usize::from(row.is_whole());
            *of_each.entry(&row.model).or_default() += executions;
        }
        let least = of_each
            .into_iter()
            .min_by_key(|(_, executions)| *executions);
        sum.least = least.map(|(model, executions)| (model.to_owned(), executions));
        sum
    }

    /// Z1, with all that a failed test printed on standard error.
    fn verdict(&self) -> Result<(), String> {
        if self.failures.is_empty() {
            return Ok(());
        }
        for (name, output) in &self.failures {
            eprintln!("\n--- {name}\n{output}");
        }
        let names: Vec<&str> = self.failures.iter().map(|(name, _)| &**name).collect();
        Err(format!("models failed in {}", names.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shared_by_and_executions_are_those_of_what_can_go_on() {
        let row = |executions: &str, verdict: &str| Row {
            model: "a/b".to_owned(),
            how: "shuttle, random".to_owned(),
            executions: executions.to_owned(),
            seconds: "1".to_owned(),
            verdict: verdict.to_owned(),
        };
        let other = Row {
            model: "a/c".to_owned(),
            ..row("1200", "holds, as far as explored")
        };
        let models = [row("1000", "holds"), row("501", "holds"), other];
        let control = row("1", "control fails, as it must");
        let fixed = Row {
            how: "every step, shuttle".to_owned(),
            ..row("7", "holds")
        };
        let run = Run {
            rows: [&models[..], &[control, fixed]].concat(),
            failures: Vec::new(),
        };
        let sum = run.sum("shuttle");
        assert_eq!((sum.longest, sum.executions), (1200, 2701));
        assert_eq!((sum.whole, sum.explorations), (2, 3));
        // The others are two ways to explore one model, a control, and one that is whole.
        assert_eq!(sum.least, Some(("a/c".to_owned(), 1200)));
        let seconds = |rows: &[Row]| share(Duration::from_secs(600), rows, "shuttle");
        assert_eq!(seconds(&run.rows) * 3, seconds(&models[..1]));
        assert!(seconds(&[]) > 0);
    }

    #[test]
    fn what_is_never_freed_bounds_the_engines_models_under_loom() {
        let most = SECONDS_OF_THE_ENGINE;
        assert_eq!(bounded(10 * most, "loom", "velella"), most);
        assert_eq!(bounded(1, "loom", "velella"), 1);
        assert_eq!(bounded(10 * most, "shuttle", "velella"), 10 * most);
        assert_eq!(bounded(10 * most, "loom", "velella-sync"), 10 * most);
    }

    #[test]
    fn only_minutes_may_be_given() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(minutes(&[]), Ok(None));
        assert_eq!(minutes(&words("--minutes 3")), Ok(Some(3)));
        assert!(minutes(&words("--minutes many")).is_err());
        assert!(minutes(&words("--hours 1")).is_err());
    }
}
