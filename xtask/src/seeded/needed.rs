//! The test binaries that hold the tests of some faults, built once with the faults in them.
//!
//! B1. All of a kind are built by one command, so that one fault after the other costs no build;
//!     no others are.
//! B2. Only our own crates are compiled anew: what they depend on is that of `cargo test`, and for
//!     models that of `cargo xtask models`.
//!
//! Tests: below.

use super::catalogue::Test;
use crate::binaries::{self, Binaries};
use crate::models;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// Compiles with the faults (see there).
const WRAPPER: &str = "xtask/src/seeded/rustc.sh";

/// Builds those that hold `tests`.
///
/// # Errors
/// What cargo said.
pub(super) fn build(root: &Path, tests: &BTreeSet<Test>) -> Result<Binaries, String> {
    let mut built = Binaries::default();
    let (models, plain): (Vec<_>, Vec<_>) = tests.iter().partition(|test| is_model(test));
    if !plain.is_empty() {
        let mut command = cargo_test(root, &plain);
        command.env("RUSTC_WORKSPACE_WRAPPER", root.join(WRAPPER));
        built.extend(binaries::build(&mut command)?);
    }
    if !models.is_empty() {
        let mut command = cargo_test(root, &models);
        command
            .args(["--profile", models::QUICKLY_LINKED])
            .env("RUSTFLAGS", "--cfg shuttle")
            .env("CARGO_TARGET_DIR", root.join("target/shuttle"));
        built.extend(binaries::build(&mut command)?);
    }
    Ok(built)
}

/// The command that runs `test`, with `fault` put in; without one it prints, for if it fails
/// nobody expected that.
///
/// # Errors
/// The catalogue names a binary that does not exist.
pub(super) fn command(
    binaries: &Binaries,
    test: &Test,
    fault: Option<&str>,
) -> Result<Command, String> {
    let place = (test.in_crate.to_owned(), test.target.to_owned());
    let binary = binaries.get(&place);
    let binary = binary.ok_or_else(|| format!("there is no test binary for `{test}`"))?;
    let mut command = binary.command();
    command.arg(test.filter).env_remove("VELELLA_SEEDED");
    if let Some(name) = fault {
        command
            .env("VELELLA_SEEDED", name)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
    }
    Ok(command)
}

fn is_model(test: &Test) -> bool {
    test.target == "shuttle"
}

/// `cargo test` of the packages and targets of `tests`, without running them.
fn cargo_test(root: &Path, tests: &[&Test]) -> Command {
    let packages: BTreeSet<_> = tests.iter().map(|test| package(test.in_crate)).collect();
    let targets: BTreeSet<_> = tests.iter().map(|test| test.target).collect();
    let mut command = binaries::cargo_test(root, packages.iter().map(String::as_str));
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
}
