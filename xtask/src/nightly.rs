//! The nightly toolchain, which Miri, the sanitizers and libFuzzer need.
//!
//! Tests: below.

use std::path::Path;
use std::process::Command;

const TOOLCHAIN: &str = "+nightly";

/// Its `cargo`.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new("cargo");
    command.arg(TOOLCHAIN);
    // A cargo that runs this one tells its own toolchain, which would win over `+nightly`.
    for variable in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC"] {
        command.env_remove(variable);
    }
    command
}

/// The machine's own target: sanitizers need it named, lest build scripts be instrumented.
pub(crate) fn host() -> Result<String, String> {
    let output = Command::new("rustc").args(["-vV"]).output();
    let output = output.map_err(|error| format!("cannot run rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .ok_or_else(|| "rustc names no host".to_owned())
}

/// The components of the nightly toolchain; `None`: there is none.
pub(crate) fn installed() -> Option<String> {
    let arguments = ["component", "list", "--installed", "--toolchain", "nightly"];
    let output = Command::new("rustup").args(arguments).output().ok()?;
    let listed = output.status.success().then_some(output.stdout)?;
    String::from_utf8(listed).ok()
}

/// Which of the components that are needed is not `installed`, and what to do.
pub(crate) fn missing(needed: &[&str], installed: Option<&str>) -> Option<String> {
    let Some(installed) = installed else {
        return Some("no nightly toolchain; `rustup toolchain install nightly`".into());
    };
    let has = |component: &str| installed.lines().any(|line| line.starts_with(component));
    let lacking = needed.iter().find(|component| !has(component))?;
    Some(format!(
        "the nightly toolchain has no {lacking}; `rustup component add --toolchain nightly {lacking}`"
    ))
}

/// Why the nightly toolchain cannot build this workspace, if it is older than its manifest wants.
pub(crate) fn too_old(root: &Path) -> Option<String> {
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).ok()?;
    let wanted = manifest.lines().find_map(|line| {
        let told = line.strip_prefix("rust-version")?;
        minor(told.split('"').nth(1)?)
    })?;
    let output = cargo().arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let there = minor(text.strip_prefix("cargo ")?)?;
    (there < wanted).then(|| {
        format!(
            "the nightly toolchain is 1.{there}, and 1.{wanted} is needed; `rustup update nightly`"
        )
    })
}

/// The 95 of `1.95.0`.
fn minor(version: &str) -> Option<u32> {
    let rest = version.strip_prefix("1.")?;
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        assert!(missing(&[], None).unwrap().contains("nightly"));
        let reason = missing(&["miri", "rust-src"], Some("rust-src\nrustc-x86_64")).unwrap();
        assert!(
            reason.contains("component add --toolchain nightly miri"),
            "{reason}"
        );
        assert_eq!(
            missing(&["miri", "rust-src"], Some("miri-x86_64\nrust-src")),
            None
        );
    }

    #[test]
    fn versions_are_told_apart() {
        assert_eq!(minor("1.95"), Some(95));
        assert_eq!(minor("1.97.0-nightly (2026-05-19)"), Some(97));
        assert_eq!(minor("2.0"), None);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let wanted = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
        assert!(
            wanted.contains("\nrust-version = \"1."),
            "where it is looked for"
        );
    }
}
