//! Help, usage errors and completions, by running the binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

mod common;

use common::Place;

#[test]
fn every_command_helps_with_examples() {
    let place = Place::new();
    let commands = [
        "serve",
        "get",
        "put",
        "delete",
        "scan",
        "import",
        "export",
        "keyspaces",
        "stats",
        "verify",
        "compact",
        "inspect",
        "bench",
        "completions",
    ];
    let all = place.ok(&["--help"]).text().to_owned();
    for command in commands {
        assert!(all.contains(command), "{command}");
        let help = place.ok(&[command, "--help"]).text().to_owned();
        assert!(help.contains(&format!("velella {command}")), "{help}");
        assert!(help.contains("Examples:"), "{help}");
    }
}

#[test]
fn nonsense_on_the_command_line_is_exit_code_2() {
    let place = Place::new();
    place
        .run(&["frobnicate"])
        .failed(2, &["unrecognized subcommand"]);
    place.run(&["get"]).failed(2, &["<KEY>"]);
    place
        .run(&["serve", "--port", "70000"])
        .failed(2, &["70000"]);
    place
        .run(&["serve", "--durability", "fsync"])
        .failed(2, &["group:5ms"]);
    place
        .run(&["serve", "--memory", "lots"])
        .failed(2, &["lots"]);
    place.run(&["bench", "nothing"]).failed(2, &["fillrandom"]);
    assert!(!place.data().exists());
}

#[test]
fn completions_name_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ok(&["completions", shell]).text().to_owned();
        assert!(script.contains("keyspaces"), "{shell}");
    }
}
