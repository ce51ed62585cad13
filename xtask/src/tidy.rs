//! The checks that no compiler does: a rule per module, a remedy in each message.
//!
//! A rule is a function of the workspace; it knows nothing of files or of other rules. To add one:
//! write a module whose test plants a violation and sees it found, and add a row to `RULES`.
//!
//! Tests: beside each rule.

mod layering;
mod module_order;
mod contract;
mod unsafety;
mod size;
mod leftovers;
mod orderings;
mod doors;
mod links;
mod copies;
mod unbuilt;

use crate::report::Report;
use crate::workspace::Workspace;
use std::path::Path;

/// One rule.
struct Rule {
    name: &'static str,
    says: &'static str,
    check: fn(&Workspace, &mut Report),
}

const RULES: &[Rule] = &[
    Rule {
        name: "layers",
        says: "every Cargo.toml agrees with the table in xtask/src/layers.rs",
        check: layering::check,
    },
    Rule {
        name: "modules",
        says: "a module uses only modules whose `mod` line stands above its own",
        check: module_order::check,
    },
    Rule {
        name: "contract",
        says: "every .rs file opens with a `//!` contract that begins with a sentence",
        check: contract::check,
    },
    Rule {
        name: "unsafe",
        says: "`unsafe` stands in sync, memtable and vfs; all others forbid it",
        check: unsafety::check,
    },
    Rule {
        name: "size",
        says: "files have at most 700 lines (warned at 600), lines 100 columns, functions 70 lines",
        check: size::check,
    },
    Rule {
        name: "leftovers",
        says: "no stubs, debugging output or notes to oneself",
        check: leftovers::check,
    },
    Rule {
        name: "orderings",
        says: "no SeqCst but in fences",
        check: orderings::check,
    },
    Rule {
        name: "doors",
        says: "files through vfs; atomics, locks, threads and time through sync",
        check: doors::check,
    },
    Rule {
        name: "links",
        says: "relative links and named documents exist",
        check: links::check,
    },
    Rule {
        name: "copies",
        says: "code in documents is the text of a file that is compiled",
        check: copies::check,
    },
    Rule {
        name: "unbuilt",
        says: "every file of tests is a program, or a module of one",
        check: unbuilt::check,
    },
];

/// The rules, one line each, for `--help`.
pub(crate) fn describe() -> String {
    let line = |rule: &Rule| format!("  {:<10} {}\n", rule.name, rule.says);
    RULES.iter().map(line).collect()
}

/// Runs every rule on the workspace at `root` and prints what it found.
///
/// # Errors
/// The workspace cannot be read, or a rule is violated.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let workspace = Workspace::load(root)
        .map_err(|error| format!("cannot read the workspace at {}: {error}", root.display()))?;
    let mut report = Report::default();
    for rule in RULES {
        (rule.check)(&workspace, &mut report);
    }
    report.sort();
    for note in &report.notes {
        println!("{note}");
    }
    for warning in &report.warnings {
        println!("warning: {warning}");
    }
    for finding in &report.findings {
        println!("{finding}");
    }
    let files = workspace.sources().count();
    let lines: usize = workspace.sources().map(|s| s.text.lines().count()).sum();
    println!(
        "tidy: {} rules, {} crates, {files} files, {lines} lines: {} violations, {} warnings",
        RULES.len(),
        workspace.crates.len(),
        report.findings.len(),
        report.warnings.len()
    );
    match report.findings.len() {
        0 => Ok(()),
        1 => Err("1 rule violation".to_owned()),
        n => Err(format!("{n} rule violations")),
    }
}
