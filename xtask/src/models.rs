//! `cargo xtask models`: explores every model of the workspace and prints one table of them.
//!
//! A crate's models are its test binaries `tests/loom.rs` and `tests/shuttle.rs`, found by their
//! names. Each exploration prints a line `model: name | how | executions | seconds | verdict`
//! (`velella_sync::model`); a binary that prints none is listed test by test.
//!
//! Z1. A binary that fails fails the run, whatever it has printed.
//! Z2. With `--minutes` the schedules drawn at random are continued, from new seeds, until the time
//!     is over; what loom explores ends by itself. [`beyond`] goes further with one tool: from the
//!     seeds it is told, or with so many preemptions more than the bound of a model.
//!     There the engine's models are bounded under loom, for the memory that they take.
//! Z3. The tools explore beside each other: neither keeps two processors busy, since one builds, or
//!     is at its longest model, while the other explores. Each builds into a directory of its own.
//!
//! Tests: below.

use crate::binaries::cargo;
use crate::workspace::Workspace;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

mod row;

use row::{Row, rows, table, tests};

/// A way to explore: a configuration of the compiler and a name of test binaries.
const TOOLS: [&str; 2] = ["loom", "shuttle"];

/// What shuttle's models are built with: optimised, and quickly linked.
pub(crate) const QUICKLY_LINKED: &str = "models";

const MINUTE: Duration = Duration::from_secs(60);

/// Says to a binary of models how long each of them may go on.
const SECONDS: &str = "VELELLA_MODEL_SECONDS";

/// Under loom nothing that was shared is freed, and an execution of the whole engine leaves 100 KB
/// of it: of three soaks beside each other, with a minute for each model, one was ended for it.
const SECONDS_OF_THE_ENGINE: u64 = 10;

/// What a run was like.
#[derive(Debug, Default)]
struct Run {
    rows: Vec<Row>,
    /// Binaries that failed, with all that they printed.
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
    let workspace = Workspace::load(root)
        .map_err(|error| format!("cannot read {}: {error}", root.display()))?;
    let mut done = side_by_side(root, &workspace);
    let limit = Duration::from_secs(minutes.unwrap_or(0) * 60);
    if let Some(left) = limit.checked_sub(start.elapsed())
        && done.failures.is_empty()
    {
        let each = share(left, &done.rows, "shuttle");
        let more = [(SECONDS, each.to_string())];
        done.explore(root, "shuttle", &packages(&workspace, "shuttle"), &more);
    }
    println!("\n{}", table(&done.rows));
    done.verdict()
}

/// Explores with every tool at once (Z3).
fn side_by_side(root: &Path, workspace: &Workspace) -> Run {
    let explore = |tool| {
        let mut run = Run::default();
        run.explore(root, tool, &packages(workspace, tool), &[]);
        run
    };
    let mut done = Run::default();
    std::thread::scope(|scope| {
        let runs = TOOLS.map(|tool| scope.spawn(move || explore(tool)));
        for run in runs {
            match run.join() {
                Ok(run) => done.append(run),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    done
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
    tool: &str,
    deeper: u64,
    minutes: u64,
    seed: u64,
) -> Result<(Sum, Result<(), String>), String> {
    let workspace = Workspace::load(root)
        .map_err(|error| format!("cannot read {}: {error}", root.display()))?;
    let packages = packages(&workspace, tool);
    let explore = |seconds: u64| {
        let begun = Instant::now();
        let mut run = Run::default();
        for package in &packages {
            let more = [
                (SECONDS, bounded(seconds, tool, package).to_string()),
                ("VELELLA_MODEL_SEED", seed.to_string()),
                ("VELELLA_MODEL_DEEPER", deeper.to_string()),
            ];
            run.explore(root, tool, std::slice::from_ref(package), &more);
        }
        (run, begun.elapsed())
    };
    // A second of each: builds them, and tells how many share the time.
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
    let each = time.as_secs() * at_once(tool) / explorations.max(1);
    each.max(1)
}

/// How many tests of a binary run beside each other: one per processor; of loom's one alone, since
/// it maps new stacks for each execution, and two that do so in one process hold each other up in
/// the kernel: on two processors they took longer than one after the other.
fn at_once(tool: &str) -> u64 {
    match tool {
        "loom" => 1,
        _ => std::thread::available_parallelism().map_or(1, usize::from) as u64,
    }
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

/// What the models of `tool` are built with. loom gives a thread 32 KiB of stack, which is enough
/// for what was optimised across crates, and for nothing else.
fn profile(tool: &str) -> &'static str {
    match tool {
        "loom" => "release",
        _ => QUICKLY_LINKED,
    }
}

/// The packages that have models for `tool`.
fn packages(workspace: &Workspace, tool: &str) -> Vec<String> {
    let file = format!("tests/{tool}.rs");
    let has = |found: &&crate::workspace::Crate| found.source(&file).is_some();
    let crates = workspace.crates.iter().filter(has);
    crates.map(|found| found.manifest.package.clone()).collect()
}

impl Run {
    /// Explores the models of `packages` with `tool`, in an environment with `more`.
    fn explore(
        &mut self,
        root: &Path,
        tool: &str,
        packages: &[String],
        more: &[(&'static str, String)],
    ) {
        for package in packages {
            println!("{package}: {tool}");
            let mut command = Command::new(cargo());
            command
                .current_dir(root)
                .args(["test", "--profile", profile(tool), "--quiet"])
                .args(["--package", package])
                .args(["--test", tool, "--", "--show-output"])
                .arg(format!("--test-threads={}", at_once(tool)))
                .env("RUSTFLAGS", format!("--cfg {tool}"))
                .env("CARGO_TARGET_DIR", root.join("target").join(tool))
                .envs(more.iter().map(|(name, value)| (name, value)));
            let name = format!("{package} ({tool})");
            match telling_the_time(&name, || command.output()) {
                Ok(output) => {
                    let text = String::from_utf8_lossy(&output.stdout).into_owned();
                    let rows = rows(&text);
                    self.rows.extend(match rows.is_empty() {
                        true => tests(&text, package, tool),
                        false => rows,
                    });
                    if !output.status.success() {
                        let errors = String::from_utf8_lossy(&output.stderr);
                        self.failures.push((name, text + &errors));
                    }
                }
                Err(error) => self
                    .failures
                    .push((name, format!("cannot run cargo: {error}"))),
            }
        }
    }

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

    /// Z1, with all that a failed binary printed on standard error.
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

/// Does what takes long, and says each minute that it still does.
fn telling_the_time<R>(name: &str, long: impl FnOnce() -> R) -> R {
    let begun = Instant::now();
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while is_done.recv_timeout(MINUTE) == Err(RecvTimeoutError::Timeout) {
                let minutes = begun.elapsed().as_secs() / 60;
                println!("  {name}: after {minutes} minutes");
            }
        });
        let result = long();
        drop(done);
        result
    })
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
    fn models_are_found_by_the_names_of_their_files() {
        let workspace = crate::workspace::planted(&[
            ("crates/a/Cargo.toml", "[package]\nname = \"velella-a\"\n"),
            ("crates/a/tests/loom.rs", "//! models\n"),
            ("crates/b/Cargo.toml", "[package]\nname = \"velella-b\"\n"),
            ("crates/b/tests/other.rs", "//! none\n"),
        ]);
        assert_eq!(packages(&workspace, "loom"), ["velella-a"]);
        assert!(packages(&workspace, "shuttle").is_empty());
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
