//! Rule `unbuilt`: every file of tests is a program, or a module of one.
//!
//! Where a manifest lists its programs of tests (`autotests = false`), a file in `tests/` that it
//! leaves out, and that no program has as a module, is compiled nowhere: its tests never fail.
//!
//! Tests: below, with a planted violation.

use crate::report::Report;
use crate::workspace::{Crate, Workspace};

const RULE: &str = "unbuilt";

/// Checks every crate that lists its programs of tests.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for found in &workspace.crates {
        if found.manifest.lists_tests {
            check_crate(found, report);
        }
    }
}

fn check_crate(found: &Crate, report: &mut Report) {
    let programs = &found.manifest.tests;
    let roots = programs
        .iter()
        .filter_map(|name| found.source(&format!("tests/{name}.rs")));
    let modules: Vec<&str> = roots.flat_map(|root| root.text.lines()).collect();
    for source in &found.sources {
        let file = source.inner.strip_prefix("tests/");
        let Some(name) = file.and_then(|file| file.strip_suffix(".rs")) else {
            continue;
        };
        let is_module = modules.contains(&format!("mod {name};").as_str());
        // What is deeper is a module of what is here, or the compiler misses it.
        if name.contains('/') || is_module || programs.iter().any(|program| program == name) {
            continue;
        }
        report.find(
            RULE,
            (&source.path, 0),
            "its tests are built nowhere",
            "make it a module of `tests/suite.rs`, or a `[[test]]` of the crate's manifest",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(manifest: &str, suite: &str) -> Vec<String> {
        let files = [
            ("crates/base/Cargo.toml", manifest),
            ("crates/base/src/lib.rs", "//! It.\n"),
            ("crates/base/tests/suite.rs", suite),
            ("crates/base/tests/common/mod.rs", "//! Helps.\n"),
            ("crates/base/tests/forgotten.rs", "//! Tries it.\n"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let mut report = Report::default();
        check(&Workspace::of(files), &mut report);
        report
            .findings
            .into_iter()
            .map(|found| found.file)
            .collect()
    }

    #[test]
    fn a_file_that_neither_the_manifest_nor_a_program_names_is_found() {
        let manifest = "[package]\nname = \"velella-base\"\nautotests = false\n\
                        [[test]]\nname = \"suite\"\n";
        let found = findings(manifest, "mod common;\n");
        assert_eq!(found, ["crates/base/tests/forgotten.rs"]);
        assert!(findings(manifest, "mod common;\nmod forgotten;\n").is_empty());
        let listed = format!("{manifest}\n[[test]]\nname = \"forgotten\"\n");
        assert!(findings(&listed, "mod common;\n").is_empty());
        let finds = manifest.replace("autotests = false\n", "");
        assert!(findings(&finds, "").is_empty(), "cargo finds them itself");
    }
}
