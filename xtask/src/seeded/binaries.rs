//! The test binaries that hold the tests of some faults, built once with the faults in them.
//!
//! B1. All of a kind are built by one command, so that one fault after the other costs no build;
//!     no others are.
//! B2. A test runs where `cargo test` would run it: in its crate's directory.
//! B3. Only our own crates are compiled anew: what they depend on is that of `cargo test`, and for
//!     models that of `cargo xtask models`.
//!
//! Tests: below.

use super::catalogue::Test;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Compiles with the faults (see there).
const WRAPPER: &str = "xtask/src/seeded/rustc.sh";

/// Executables by crate and target; a crate's own tests are its target `lib`.
#[derive(Debug, Default)]
pub(super) struct Binaries(BTreeMap<(String, String), Binary>);

/// One executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binary {
    path: PathBuf,
    directory: PathBuf,
}

/// Builds those that hold `tests`.
///
/// # Errors
/// What cargo said.
pub(super) fn build(root: &Path, tests: &BTreeSet<Test>) -> Result<Binaries, String> {
    let mut binaries = Binaries::default();
    let (models, plain): (Vec<_>, Vec<_>) = tests.iter().partition(|test| is_model(test));
    if !plain.is_empty() {
        let mut command = cargo_test(root, &plain);
        command.env("RUSTC_WORKSPACE_WRAPPER", root.join(WRAPPER));
        binaries.add(&mut command)?;
    }
    if !models.is_empty() {
        let mut command = cargo_test(root, &models);
        command
            .arg("--release")
            .env("RUSTFLAGS", "--cfg shuttle")
            .env("CARGO_TARGET_DIR", root.join("target/shuttle"));
        binaries.add(&mut command)?;
    }
    Ok(binaries)
}

fn is_model(test: &Test) -> bool {
    test.target == "shuttle"
}

/// `cargo test` of the packages and targets of `tests`, without running them.
fn cargo_test(root: &Path, tests: &[&Test]) -> Command {
    let mut command = Command::new(crate::models::cargo());
    command
        .args(["test", "--no-run", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit());
    let packages: BTreeSet<_> = tests.iter().map(|test| package(test.in_crate)).collect();
    let targets: BTreeSet<_> = tests.iter().map(|test| test.target).collect();
    for package in packages {
        command.args(["--package", &package]);
    }
    for target in targets {
        match target {
            "lib" => command.arg("--lib"),
            _ => command.args(["--test", target]),
        };
    }
    command
}

/// The package in this directory.
fn package(directory: &str) -> String {
    match directory {
        "engine" => "velella".to_owned(),
        _ => format!("velella-{directory}"),
    }
}

/// The binary that a line of cargo's messages tells of.
fn parse(line: &str) -> Option<((String, String), Binary)> {
    let path = PathBuf::from(text(line, "\"executable\":\"")?);
    let directory = PathBuf::from(text(line, "\"manifest_path\":\"")?)
        .parent()?
        .to_path_buf();
    let (_, target) = line.split_once("\"target\":{")?;
    let name = match target.starts_with("\"kind\":[\"lib\"]") {
        true => "lib".to_owned(),
        false => text(target, "\"name\":\"")?,
    };
    let of = directory.file_name()?.to_string_lossy().into_owned();
    line.contains("\"test\":true")
        .then_some(((of, name), Binary { path, directory }))
}

/// What stands between `start` and the next quotation mark.
fn text(line: &str, start: &str) -> Option<String> {
    let (_, rest) = line.split_once(start)?;
    Some(rest.split_once('"')?.0.to_owned())
}

impl Binaries {
    /// Runs a build and notes what it made.
    fn add(&mut self, command: &mut Command) -> Result<(), String> {
        let output = command.output();
        let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
        if !output.status.success() {
            return Err(format!("the build with faults failed: {}", output.status));
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            self.0.extend(parse(line));
        }
        Ok(())
    }

    /// The executable that holds `test`.
    ///
    /// # Errors
    /// The catalogue names one that does not exist.
    pub(super) fn of(&self, test: &Test) -> Result<&Binary, String> {
        let place = (test.in_crate.to_owned(), test.target.to_owned());
        let found = self.0.get(&place);
        found.ok_or_else(|| format!("there is no test binary for `{test}`"))
    }
}

impl Binary {
    /// The command that runs `test`, with `fault` put in.
    pub(super) fn command(&self, test: &Test, fault: Option<&str>) -> Command {
        let mut command = Command::new(&self.path);
        command
            .arg(test.filter)
            .current_dir(&self.directory)
            .env_remove("VELELLA_SEEDED")
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(name) = fault {
            command.env("VELELLA_SEEDED", name);
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_of_the_packages_and_targets_of_the_tests() {
        let test = |in_crate, target| Test {
            in_crate,
            target,
            filter: "",
        };
        let tests = [test("engine", "shuttle"), test("mvcc", "lib")];
        let command = cargo_test(Path::new("/"), &tests.iter().collect::<Vec<_>>());
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        let words = words.join(" ");
        assert!(
            words.contains("--package velella --package velella-mvcc"),
            "{words}"
        );
        assert!(words.ends_with("--lib --test shuttle"), "{words}");
        assert!(is_model(&tests[0]) && !is_model(&tests[1]));
    }

    #[test]
    fn a_message_of_cargo_names_crate_target_and_executable() {
        let line = |kind: &str, name: &str| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"manifest_path\":\"/w/crates/sst/Cargo.toml\",\
                 \"target\":{{\"kind\":[\"{kind}\"],\"crate_types\":[\"bin\"],\"name\":\"{name}\"}},\
                 \"profile\":{{\"test\":true}},\"executable\":\"/w/target/{name}-1\"}}"
            )
        };
        let ((of, target), binary) = parse(&line("test", "damage")).unwrap();
        assert_eq!((of.as_str(), target.as_str()), ("sst", "damage"));
        assert_eq!(binary.path, Path::new("/w/target/damage-1"));
        assert_eq!(binary.directory, Path::new("/w/crates/sst"));
        assert_eq!(parse(&line("lib", "velella_sst")).unwrap().0.1, "lib");
        assert_eq!(
            parse("{\"reason\":\"build-finished\",\"success\":true}"),
            None
        );
    }
}
