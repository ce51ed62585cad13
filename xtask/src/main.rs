//! The workspace's own tool: `cargo xtask tidy`, `ci`, `models` and others.
//!
//! Std only, so that it is built in seconds before anything else is; std is used directly here,
//! because a tool that checks the doors need not go through them.
//!
//! Tests: beside each module.

#![forbid(unsafe_code)]

mod report;
mod lexer;
mod source;
mod paths;
mod processor;
mod manifest;
mod layers;
mod workspace;
mod embed;
mod supervise;
mod ledger;
mod tidy;
mod binaries;
mod models;
mod seeded;
mod nightly;
mod check;
mod ratio;
mod ci;
mod soak;
mod gates;
mod coverage;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const COMMANDS: [&str; 11] = [
    "tidy",
    "ci",
    "models",
    "seeded",
    "check",
    "soak",
    "gates",
    "ratio",
    "coverage",
    "bench-check",
    "readme",
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let command = arguments.first().map_or("--help", String::as_str);
    let rest = arguments.get(1..).unwrap_or_default();
    let help = rest.iter().any(|word| word == "--help" || word == "-h");
    let root = root();
    match command {
        _ if help && COMMANDS.contains(&command) => {
            println!("{}", describe(command));
        }
        "tidy" | "readme" | "ratio" | "gates" if !rest.is_empty() => {
            return Err(format!("`{command}` takes no arguments"));
        }
        "tidy" => return tidy::run(&root),
        "ci" => return ci::run(&root, rest),
        "seeded" => return seeded::run(&root, rest),
        "models" => return models::run(&root, rest),
        "check" => return check::run(&root, rest),
        "soak" => return soak::run(&root, rest),
        "gates" => return gates::run(&root),
        "ratio" => return ratio::run(&root),
        "coverage" => return coverage::run(&root, rest),
        "bench-check" => return bench_check(&root, rest),
        "readme" => return renew_readme(&root),
        "help" | "--help" | "-h" => {
            for command in COMMANDS {
                println!("{}", describe(command));
            }
        }
        other => {
            return Err(format!(
                "there is no command `{other}`; try `cargo xtask --help`"
            ));
        }
    }
    Ok(())
}

fn describe(command: &str) -> String {
    match command {
        "tidy" => format!(
            "cargo xtask tidy\n\n\
             Checks what no compiler does. Prints `file:line: rule: what; remedy` for each\n\
             violation, then counts; exits with 1 if there is one. The rules:\n\n{}",
            tidy::describe()
        ),
        "models" => models::describe(),
        "ci" => format!(
            "cargo xtask ci [--seed N] [step ...]\n\n\
             Runs all steps, or those named, and stops at the first that fails. The commit decides\n\
             the seeds of campaigns that draw theirs; --seed repeats others. The steps:\n\n{}",
            ci::describe()
        ),
        "seeded" => format!(
            "cargo xtask seeded [--some N | --record | fault ...]\n\n\
             Puts one fault in at a time and runs the tests that must see it; exits with 1 if one\n\
             does not. --some takes N that the commit decides; --record keeps the table of all in\n\
             reliability/SEEDED.tsv. The faults:\n\n{}",
            seeded::describe()
        ),
        "check" => format!(
            "cargo xtask check [--often] [--record] [miri | tsan | asan] [-- package ... test ...]\n\n\
             Runs tests under Miri, ThreadSanitizer and AddressSanitizer; needs nightly, and says\n\
             SKIPPED where something is missing. --often takes what every commit takes; --record\n\
             adds a line to reliability/LEDGER.tsv for each. The checks:\n\n{}",
            check::describe()
        ),
        "soak" => format!(
            "cargo xtask soak WHAT [--minutes N] [--seed S [--again]]\n\n\
             Attacks for N minutes (10; at most 60) with seeds that reliability/LEDGER.tsv has not\n\
             seen, and adds a line to it. A seed at which an earlier run ended goes on with its\n\
             session; --again repeats seeds, and adds no line. WHAT is one of\n\n{}",
            soak::describe()
        ),
        "gates" => "cargo xtask gates\n\n\
             Adds up what reliability/LEDGER.tsv has of the storage crates as they are now, beside\n\
             what a release asks for; exits with 1 unless all of it is reached.\n"
            .to_owned(),
        "ratio" => "cargo xtask ratio\n\n\
             Counts lines of tests and of product in the storage crates.\n"
            .to_owned(),
        "coverage" => "cargo xtask coverage [crate ...]\n\n\
             Runs the tests of the storage crates, or of those named, and says which lines they\n\
             executed; needs the component llvm-tools.\n"
            .to_owned(),
        "bench-check" => "cargo xtask bench-check [--renew | --store STORE]\n\n\
             Runs small workloads with one thread and compares what is counted for each operation\n\
             (comparisons, bytes, blocks; instructions, where valgrind is installed) with\n\
             bench/baseline.tsv; exits with 1 if a count grew. With --renew it writes that file;\n\
             with --store aoc, a slower memtable, it must fail.\n"
            .to_owned(),
        _ => "cargo xtask readme\n\n\
              Copies the examples that documents show from the files that are compiled.\n"
            .to_owned(),
    }
}

/// Builds `velella-bench`, without any peer, and lets it compare.
fn bench_check(root: &Path, rest: &[String]) -> Result<(), String> {
    let scratch = root.join("target");
    let ended = std::process::Command::new(binaries::cargo())
        .current_dir(root)
        .args([
            "run",
            "--release",
            "--quiet",
            "--package",
            "velella-bench",
            "--",
        ])
        .arg("check")
        .arg("--dir")
        .arg(scratch)
        .args(rest)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    match ended.success() {
        true => Ok(()),
        false => Err("bench-check failed: see above".to_owned()),
    }
}

/// Brings every copy in every document up to date.
fn renew_readme(root: &Path) -> Result<(), String> {
    let failed =
        |path: &Path, error: std::io::Error| format!("cannot renew {}: {error}", path.display());
    let workspace = workspace::Workspace::load(root).map_err(|error| failed(root, error))?;
    for (path, text) in &workspace.documents {
        let mut renewed = text.clone();
        for found in embed::embeds(text) {
            if let Some(original) = workspace.rust.get(found.path) {
                renewed = embed::renewed(&renewed, found.path, original);
            }
        }
        if renewed != *text {
            let file = root.join(path);
            std::fs::write(&file, renewed).map_err(|error| failed(&file, error))?;
            println!("renewed {path}");
        }
    }
    Ok(())
}

/// The root of the workspace: the directory above this crate's.
fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .parent()
        .map_or(manifest.clone(), Path::to_path_buf)
}
