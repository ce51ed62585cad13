//! The test binaries of the workspace, built once with the faults in them.
//!
//! B1. All are built by one command, so that one fault after the other costs no build.
//! B2. A test runs where `cargo test` would run it: in its crate's directory.
//!
//! Tests: below.

use super::catalogue::Test;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Executables by crate and target; a crate's own tests are its target `lib`.
#[derive(Debug, Default)]
pub(super) struct Binaries(BTreeMap<(String, String), Binary>);

/// One executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Binary {
    path: PathBuf,
    directory: PathBuf,
}

/// Builds all of them, in a target directory of their own, so that the usual one stays warm.
///
/// # Errors
/// What cargo said.
pub(super) fn build(root: &Path) -> Result<Binaries, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["test", "--workspace", "--no-run", "--quiet"])
        .arg("--message-format=json-render-diagnostics")
        .env("RUSTFLAGS", "--cfg velella_seeded")
        .env("CARGO_TARGET_DIR", root.join("target/seeded"))
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("the build with faults failed: {}", output.status));
    }
    let mut binaries = Binaries::default();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        binaries.0.extend(parse(line));
    }
    Ok(binaries)
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
