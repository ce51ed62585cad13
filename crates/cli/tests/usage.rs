//! Help, usage errors and completions, by running the binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use crate::common::{Place, files};

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
    place
        .run(&["import", "pairs.txt", "--delimiter", ";"])
        .failed(2, &["pairs.txt is read as another format", "--format csv"]);
    assert!(!place.data().exists());
}

#[test]
fn options_that_a_format_has_no_use_for_are_refused() {
    let place = Place::new();
    let of_lines = "is of tsv and csv";
    for (arguments, words) in [
        (
            &["import", "x.jsonl", "--key-column", "1"][..],
            ["--key-column", of_lines],
        ),
        (
            &["import", "x.raw", "--value-column", "2"],
            ["--value-column", of_lines],
        ),
        (
            &["import", "-", "--format", "jsonl", "--header"],
            ["--header", of_lines],
        ),
        (&["import", "x.raw", "--bytes"], ["--bytes", of_lines]),
        (&["export", "x.jsonl", "--header"], ["--header", of_lines]),
        (&["export", "x.raw", "--bytes"], ["--bytes", of_lines]),
        (
            &["export", "x.tsv", "--delimiter", ";"],
            ["--delimiter", "is of csv"],
        ),
    ] {
        place.run(arguments).failed(2, &words);
    }
    assert!(!place.data().exists());
}

#[test]
fn nonsense_is_told_as_json_where_that_was_asked_for() {
    let place = Place::new();
    for (arguments, word) in [
        (&["--json", "get"][..], "<KEY>"),
        (&["nosuch", "--json"], "nosuch"),
        (&["keyspaces", "--json"], "Usage: velella keyspaces"),
        (&["scan", "--limit", "x", "--json"], "--limit"),
    ] {
        let said = place.run(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {}", said.err);
        let error: serde_json::Value = serde_json::from_str(&said.err).unwrap();
        assert_eq!(error["error"]["kind"], "usage");
        let message = error["error"]["message"].as_str().unwrap();
        assert!(message.contains(word), "{arguments:?}: {message}");
    }
    // Here it is a key.
    place
        .run(&["get", "--nosuch", "--", "--json"])
        .failed(2, &["error: unexpected"]);
    for flag in ["--help", "--version"] {
        let told = place.ok(&["--json", flag]);
        assert!(told.text().contains("velella"), "{}", told.text());
    }
}

#[test]
fn completions_name_the_commands() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = place.ok(&["completions", shell]).text().to_owned();
        assert!(script.contains("keyspaces"), "{shell}");
        assert!(script.contains("crash-test"), "{shell}");
        assert!(!script.contains("crash-test-child"), "{shell}");
        assert!(script.contains("json"), "{shell}");
        assert!(script.contains("version"), "{shell}");
    }
}

/// Examples that must find things, or would run for long, are run elsewhere or only parsed.
enum Trial {
    /// By a shell, in a directory with a database and files for the examples.
    Run,
    /// Up to the first argument that is wrong, which is one added by the test.
    Parse,
}

fn trial(command: &str) -> Trial {
    match command {
        "" | "serve" | "bench" | "crash-test" => Trial::Parse,
        _ => Trial::Run,
    }
}

/// The lines under `Examples:`.
fn examples(help: &str) -> Vec<String> {
    let under = help.lines().skip_while(|line| *line != "Examples:").skip(1);
    under
        .take_while(|line| line.starts_with("  "))
        .map(|line| line.trim().to_owned())
        .collect()
}

/// A place in which examples find what they name.
fn fixture() -> Place {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    for dir in ["bin", ".zfunc", ".local/share/bash-completion/completions"] {
        std::fs::create_dir_all(place.path(dir)).unwrap();
    }
    // Filters for people, and what makes one a superuser, which need not be installed here.
    for (stub, does) in [("less", "cat"), ("jq", "cat"), ("sudo", "exec \"$@\"")] {
        place.write(&format!("bin/{stub}"), format!("#!/bin/sh\n{does}\n"));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(place.path(&format!("bin/{stub}")), mode).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_velella"), place.path("bin/velella")).unwrap();
    place.write("photo.jpg", [0xff, 0xd8, 0]);
    place.write("words", "jelly\njellyfish\nvelella\n");
    place.write("people.csv", "name,id\nAda,1\nbroken\n");
    for (key, keyspace) in [
        ("user:1", "default"),
        ("user:1", "people"),
        ("user:2", "people"),
    ] {
        place.ok(&["put", key, "Ada", "-k", keyspace]);
    }
    place.ok(&["put", "photo", "--file", "photo.jpg"]);
    place.ok(&["put", "-e", r"id\x00\xff", "x"]);
    place
}

/// A copy of the fixture for the examples of one command, with what others must not find.
fn fixture_of(command: &str, fixture: &Place) -> Place {
    let place = Place::new();
    let (from, to) = (fixture.path("."), place.path("."));
    let copied = std::process::Command::new("cp")
        .args(["-a".as_ref(), from.as_os_str(), to.as_os_str()])
        .status();
    assert!(copied.unwrap().success());
    if command == "import" {
        place.write("words.tsv", "jelly\t1\n");
    }
    if command != "keyspaces" {
        place.ok(&["put", "jelly", "1", "-k", "words"]);
    }
    if command == "verify" || command == "inspect" {
        place.ok(&["put", "a", "1", "--dir", "server"]);
    }
    if command == "inspect" {
        place.ok(&["compact"]);
    }
    place
}

/// The example with the places it names moved into the test's.
fn moved(place: &Place, example: &str) -> String {
    let at = |name: &str| place.path(name).to_str().unwrap().to_owned();
    let table = files(&place.data(), "sst")
        .first()
        .map_or(String::new(), |path| path.to_str().unwrap().to_owned());
    example
        .replace("/var/lib/velella", &at("server"))
        .replace("/usr/share/dict/words", &at("words"))
        .replace("velella-data/000012.sst", &table)
}

#[test]
fn every_example_in_the_help_does_what_it_is_an_example_of() {
    let mut commands = vec![String::new()];
    let help = Place::new().ok(&["--help"]).text().to_owned();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    for line in listed.take_while(|line| line.starts_with("  ")) {
        let name = line.split_whitespace().next().unwrap();
        if name != "help" {
            commands.push(name.to_owned());
        }
    }
    assert!(commands.len() > 12, "{commands:?}");
    let fixture = fixture();
    for command in &commands {
        let place = fixture_of(command, &fixture);
        let help = if command.is_empty() {
            help.clone()
        } else {
            place.ok(&[command.as_str(), "--help"]).text().to_owned()
        };
        let examples = examples(&help);
        assert!(!examples.is_empty(), "{command}");
        for example in examples {
            let mut line = moved(&place, &example);
            let (code, told) = match trial(command) {
                Trial::Run if example.contains("--on-error skip") => (3, ""),
                Trial::Run => (0, ""),
                Trial::Parse if line.contains("&&") => (0, ""),
                Trial::Parse => {
                    // What follows two blanks is said to people.
                    line.truncate(line.find("   ").unwrap_or(line.len()));
                    line.push_str(" --no-such-argument");
                    (2, "--no-such-argument")
                }
            };
            let path = std::env::var("PATH").unwrap();
            let bin = place.path("bin");
            let output = std::process::Command::new("sh")
                .args(["-c", &line])
                .current_dir(place.path(""))
                .env("HOME", place.path(""))
                .env("PATH", format!("{}:{path}", bin.display()))
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{example}: {said}");
            assert!(said.contains(told), "{example}: {said}");
        }
    }
}
