//! The check of counts, on the committed baseline: it must be able to fail.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/baseline.tsv")
}

fn check(baseline: &Path, arguments: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    Command::new(env!("CARGO_BIN_EXE_velella-bench"))
        .args(["check", "--baseline"])
        .arg(baseline)
        .arg("--dir")
        .arg(dir.path())
        .args(arguments)
        .output()
        .unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_memtable_that_compares_more_fails_the_check() {
    let output = check(&committed(), &["--store", "aoc", "--rounds", "1"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let grown = "GREW: memory/overwrite.zipf memtable_comparisons";
    assert!(text.contains(grown), "{text}");
}

#[test]
fn what_was_counted_a_moment_ago_passes() {
    let dir = tempfile::tempdir().unwrap();
    let baseline = dir.path().join("baseline.tsv");
    let renewed = check(&baseline, &["--renew"]);
    assert!(renewed.status.success(), "{}", printed(&renewed));
    let output = check(&baseline, &["--rounds", "1"]);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(printed(&output).contains(", 0 grew, 0 fell"));
}
