//! The tests and examples that a cargo command builds, as cargo's messages tell of them.
//!
//! Tests: below.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Executables by crate (its directory) and target; a crate's own tests are its target `lib`.
pub(crate) type Binaries = BTreeMap<(String, String), Binary>;

/// One executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binary {
    pub(crate) path: PathBuf,
    /// Where `cargo test` would run it: its crate's directory.
    pub(crate) directory: PathBuf,
}

/// The cargo that runs us, so that what it runs uses the same toolchain.
pub(crate) fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}

/// `cargo test` of these packages without running anything, telling what it builds.
pub(crate) fn cargo_test<'a>(root: &Path, packages: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(cargo());
    command
        .args(["test", "--no-run", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit());
    for package in packages {
        command.args(["--package", package]);
    }
    command
}

/// Runs a build; the tests that it made.
///
/// # Errors
/// The build failed.
pub(crate) fn build(command: &mut Command) -> Result<Binaries, String> {
    let told = messages(command)?;
    Ok(told.lines().filter(is_test).filter_map(parse).collect())
}

/// Builds an example of this name with the features that the whole workspace has, as `cargo test`
/// does: of its package alone, which has fewer, nothing might be there yet.
///
/// # Errors
/// The build failed, or no package has such an example.
pub(crate) fn example(root: &Path, name: &str) -> Result<Binary, String> {
    let mut command = Command::new(cargo());
    command
        .args(["build", "--workspace", "--quiet", "--example", name])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit());
    let told = messages(&mut command)?;
    let mut examples = told.lines().filter(is_example).filter_map(parse);
    let found = examples.find(|((_, target), _)| target == name);
    let (_, binary) = found.ok_or_else(|| format!("there is no example `{name}`"))?;
    Ok(binary)
}

/// Runs a build; cargo's messages, one a line.
fn messages(command: &mut Command) -> Result<String, String> {
    let output = command.output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("the build failed: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn is_test(line: &&str) -> bool {
    line.contains("\"test\":true")
}

fn is_example(line: &&str) -> bool {
    line.contains("\"kind\":[\"example\"]")
}

impl Binary {
    /// The command that runs it, where `cargo test` would, without input.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .stdin(Stdio::null());
        command
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
    Some(((of, name), Binary { path, directory }))
}

/// What stands between `start` and the next quotation mark.
fn text(line: &str, start: &str) -> Option<String> {
    let (_, rest) = line.split_once(start)?;
    Some(rest.split_once('"')?.0.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_no_test_although_a_test_may_have_its_name() {
        let line = |kind: &str, test: bool| {
            format!(
                "{{\"manifest_path\":\"/w/crates/engine/Cargo.toml\",\"target\":{{\"kind\":\
                 [\"{kind}\"],\"name\":\"counters\",\"test\":{test}}},\"profile\":\
                 {{\"test\":{test}}},\"executable\":\"/w/target/{kind}\"}}"
            )
        };
        let (test, example) = (line("test", true), line("example", false));
        let lines = [&*test, &*example];
        let of = |is: fn(&&str) -> bool| -> Vec<PathBuf> {
            let found = lines.into_iter().filter(is).filter_map(parse);
            found.map(|(_, binary)| binary.path).collect()
        };
        assert_eq!(of(is_test), [Path::new("/w/target/test")]);
        assert_eq!(of(is_example), [Path::new("/w/target/example")]);
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
