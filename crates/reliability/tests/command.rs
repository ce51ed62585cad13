//! The command `reliability`, by running the binary.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn a_campaign_whose_report_nobody_reads_is_in_the_ledger() {
    let place = tempfile::tempdir().unwrap();
    let ledger = place.path().join("ledger.tsv");
    for flags in [&[][..], &["--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_reliability"));
        command.args(["power-loss", "--runs", "1", "--ledger"]);
        command.arg(&ledger).args(flags).stdout(writer);
        let said = command.output().unwrap();
        let err = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(0), "{err}");
    }
    let lines = std::fs::read_to_string(&ledger).unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    // Nor is the list of campaigns a reason to panic.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_reliability"));
    let said = command.stdout(writer).output().unwrap();
    assert_eq!(said.status.code(), Some(0));
}

#[test]
fn a_report_that_cannot_be_written_is_a_failure() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else {
        println!("SKIPPED: there is no /dev/full");
        return;
    };
    for arguments in [&["power-loss", "--runs", "1"][..], &[]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reliability"));
        let out = full.try_clone().unwrap();
        let said = command.args(arguments).stdout(out).output().unwrap();
        let err = String::from_utf8_lossy(&said.stderr);
        assert_eq!(said.status.code(), Some(1), "{err}");
        assert!(err.contains("could not be written"), "{err}");
    }
}
