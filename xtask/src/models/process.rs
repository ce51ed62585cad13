//! The tests of the models' binaries, each run as a process of its own.
//!
//! P1. One build makes all binaries of a tool, into a directory of the tool's own; those of
//!     several tools are built beside each other.
//! P2. As many tests run at once as there are processors, and none beside another in one process:
//!     loom maps new stacks for each execution, for which two tests in one process hold each other
//!     up in the kernel, and all that it never frees goes with the process.
//!
//! Tests: below, and in `crate::models`.

use super::row::{Row, rows};
use super::{QUICKLY_LINKED, Run};
use crate::binaries::{self, Binary};
use crate::workspace::{Crate, Workspace};
use std::path::Path;
use std::process::Output;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

/// Variables for a test's environment.
pub(super) type Variables = Vec<(&'static str, String)>;

/// One test: a name in a binary.
#[derive(Debug, Clone)]
pub(super) struct Test {
    pub(super) tool: &'static str,
    pub(super) package: String,
    name: String,
    binary: Binary,
}

/// Builds the binaries of `tools` (P1); their tests, tool by tool.
///
/// # Errors
/// A build failed, or a binary does not tell its tests.
pub(super) fn build(
    root: &Path,
    workspace: &Workspace,
    tools: &[&'static str],
) -> Result<Vec<Test>, String> {
    std::thread::scope(|scope| {
        let build = |tool| scope.spawn(move || built(root, workspace, tool));
        let builds: Vec<_> = tools.iter().copied().map(build).collect();
        let mut tests = Vec::new();
        for build in builds {
            match build.join() {
                Ok(built) => tests.extend(built?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(tests)
    })
}

fn built(root: &Path, workspace: &Workspace, tool: &'static str) -> Result<Vec<Test>, String> {
    let crates: Vec<_> = with_models(workspace, tool).collect();
    let packages = crates.iter().map(|found| &*found.manifest.package);
    let mut command = binaries::cargo_test(root, packages);
    command
        .args(["--profile", profile(tool), "--test", tool])
        .env("RUSTFLAGS", format!("--cfg {tool}"))
        .env("CARGO_TARGET_DIR", root.join("target").join(tool));
    let name = format!("models of {tool}");
    println!("{name}: building those of {} crates", crates.len());
    let binaries = telling_the_time(&name, || binaries::build(&mut command))
        .map_err(|error| format!("{name}: {error}"))?;
    let mut tests = Vec::new();
    for found in crates {
        let binary = binaries.get(&(found.name.clone(), tool.to_owned()));
        let binary = binary.ok_or_else(|| format!("{name}: none was built in {}", found.name))?;
        tests.extend(names(binary)?.into_iter().map(|name| Test {
            tool,
            package: found.manifest.package.clone(),
            name,
            binary: binary.clone(),
        }));
    }
    Ok(tests)
}

/// The crates that have models for `tool`.
fn with_models<'a>(workspace: &'a Workspace, tool: &str) -> impl Iterator<Item = &'a Crate> {
    let file = format!("tests/{tool}.rs");
    let crates = workspace.crates.iter();
    crates.filter(move |found| found.source(&file).is_some())
}

/// The profile that the models of `tool` are built with. loom gives a thread 32 KiB of stack, which
/// is enough for what was optimised across crates, and for nothing else.
fn profile(tool: &str) -> &'static str {
    match tool {
        "loom" => "loom",
        _ => QUICKLY_LINKED,
    }
}

/// The tests of `binary`, as it lists them.
fn names(binary: &Binary) -> Result<Vec<String>, String> {
    let output = binary.command().args(["--list", "--format=terse"]).output();
    let output = output.map_err(|error| format!("cannot run {binary:?}: {error}"))?;
    match output.status.success() {
        true => Ok(listed(&String::from_utf8_lossy(&output.stdout))),
        false => Err(format!(
            "{binary:?} does not list its tests: {}",
            output.status
        )),
    }
}

fn listed(output: &str) -> Vec<String> {
    let names = output
        .lines()
        .filter_map(|line| line.strip_suffix(": test"));
    names.map(str::to_owned).collect()
}

/// Runs `tests`, each in an environment with what `more` has for it (P2).
pub(super) fn run(tests: &[Test], more: &(dyn Fn(&Test) -> Variables + Sync)) -> Run {
    let queue = Mutex::new(tests.iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let done = Mutex::new(Run::default());
    std::thread::scope(|scope| {
        for _ in 0..at_once() {
            scope.spawn(|| {
                while let Some(test) = next() {
                    let of_test = test.run(&more(test));
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.append(of_test);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// How many tests run at once.
pub(super) fn at_once() -> u64 {
    std::thread::available_parallelism().map_or(1, usize::from) as u64
}

impl Test {
    fn run(&self, more: &[(&'static str, String)]) -> Run {
        let begun = Instant::now();
        let name = format!("{} {} {}", self.tool, self.package, self.name);
        let mut command = self.binary.command();
        command
            .args(["--exact", &self.name, "--show-output"])
            .envs(more.iter().map(|(name, value)| (name, value)));
        let done = match telling_the_time(&name, || command.output()) {
            Ok(output) => self.told(&output),
            Err(error) => self.failed(format!("cannot run {:?}: {error}", self.binary)),
        };
        let seconds = begun.elapsed().as_secs_f64();
        println!("{name}: {} rows, {seconds:.1} s", done.rows.len());
        done
    }

    /// What it said; one that says nothing is a row by itself.
    fn told(&self, output: &Output) -> Run {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut done = Run {
            rows: rows(&text),
            failures: Vec::new(),
        };
        if done.rows.is_empty() {
            done.rows.push(Row::of_test(
                &format!("{}: {}", self.package, self.name),
                self.tool,
                output.status.success(),
            ));
        }
        if !output.status.success() {
            let errors = String::from_utf8_lossy(&output.stderr);
            done.append(self.failed(text + &errors));
        }
        done
    }

    fn failed(&self, output: String) -> Run {
        let test = format!("{} {} ({})", self.package, self.name, self.tool);
        Run {
            rows: Vec::new(),
            failures: vec![(test, output)],
        }
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
    use std::os::unix::process::ExitStatusExt as _;
    use std::path::PathBuf;
    use std::process::ExitStatus;

    fn a_test(name: &str, program: &str) -> Test {
        Test {
            tool: "loom",
            package: "velella-journal".to_owned(),
            name: name.to_owned(),
            binary: Binary {
                path: PathBuf::from(program),
                directory: PathBuf::from("/"),
            },
        }
    }

    #[test]
    fn models_are_found_by_the_names_of_their_files() {
        let workspace = crate::workspace::planted(&[
            ("crates/a/Cargo.toml", "[package]\nname = \"velella-a\"\n"),
            ("crates/a/tests/loom.rs", "//! models\n"),
            ("crates/b/Cargo.toml", "[package]\nname = \"velella-b\"\n"),
            ("crates/b/tests/other.rs", "//! none\n"),
        ]);
        let of = |tool| -> Vec<&str> {
            let crates = with_models(&workspace, tool);
            crates.map(|found| &*found.manifest.package).collect()
        };
        assert_eq!(of("loom"), ["velella-a"]);
        assert!(of("shuttle").is_empty());
    }

    #[test]
    fn a_binary_lists_its_tests() {
        let output = "one: test\nmodule::two: test\n\n2 tests, 0 benchmarks\n";
        assert_eq!(listed(output), ["one", "module::two"]);
        assert!(names(&a_test("", "/bin/false").binary).is_err());
    }

    #[test]
    fn every_test_runs_once_in_its_environment_and_one_that_fails_is_a_failure() {
        let tests: Vec<_> = (0..7)
            .map(|at| a_test(&format!("t{at}"), ["/bin/true", "/bin/false"][at % 2]))
            .collect();
        let asked = Mutex::new(Vec::new());
        let done = run(&tests, &|test| {
            asked.lock().unwrap().push(test.name.clone());
            Variables::new()
        });
        let mut asked = asked.into_inner().unwrap();
        asked.sort();
        assert_eq!(asked, ["t0", "t1", "t2", "t3", "t4", "t5", "t6"]);
        assert_eq!((done.rows.len(), done.failures.len()), (7, 3));
        let nowhere = a_test("t", "/no/such/program").run(&[]);
        assert_eq!(nowhere.failures.len(), 1);
    }

    #[test]
    fn a_test_that_tells_nothing_is_a_row_by_itself() {
        let test = a_test("a::b", "/bin/true");
        let output = |stdout: &str, status| Output {
            status: ExitStatus::from_raw(status),
            stdout: stdout.as_bytes().to_vec(),
            stderr: b"why".to_vec(),
        };
        let done = test.told(&output("noise\n", 0));
        assert_eq!(done.rows[0].model, "velella-journal: a::b");
        assert_eq!(done.rows[0].verdict, "ok");
        let line = "model: a | loom, 3 preemptions | 32 | 0.01 | BROKEN\n";
        let done = test.told(&output(line, 256));
        assert_eq!(done.rows[0].verdict, "BROKEN");
        let (name, text) = &done.failures[0];
        assert_eq!(name, "velella-journal a::b (loom)");
        assert!(text.ends_with("BROKEN\nwhy"), "{text}");
    }
}
