//! What openings give up is told, by running the binary.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use crate::common::{Place, Server, files};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

/// A database that was killed after writes that nobody had made durable.
fn killed() -> Place {
    let place = Place::new();
    let server = Server::start(&place);
    let stream = TcpStream::connect(server.address()).unwrap();
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    for n in 0..100 {
        (&stream)
            .write_all(format!("SET key{n} {n}\r\n").as_bytes())
            .unwrap();
        let mut line = String::new();
        replies.read_line(&mut line).unwrap();
        assert_eq!(line, "+OK\r\n");
    }
    server.kill();
    place
}

/// As `killed`, with every seal of the journal overwritten.
fn damaged() -> Place {
    let place = killed();
    let journal = place.data().join("journal");
    for file in [files(&journal, "seal"), files(&journal, "seg")].concat() {
        let len = std::fs::metadata(&file).unwrap().len();
        std::fs::write(&file, vec![0x5a; usize::try_from(len).unwrap()]).unwrap();
    }
    place.run(&["scan"]).failed(1, &["velella: cannot"]);
    place
}

#[test]
fn an_opening_after_a_power_loss_says_what_went() {
    for command in [&["scan"][..], &["put", "a", "1"], &["stats"], &["compact"]] {
        let place = killed();
        let arguments = [command, &["--recovery", "assume-power-loss"]].concat();
        let said = place.ok(&arguments);
        let told = "velella: the last run ended by a power loss";
        assert!(said.err.starts_with(told), "{arguments:?}: {}", said.err);
        assert_eq!(place.ok(command).err, "", "{command:?}");
    }
}

#[test]
fn an_opening_after_a_kill_has_nothing_to_tell() {
    let place = killed();
    assert_eq!(place.ok(&["scan"]).err, "");
    assert_eq!(killed().ok(&["scan", "--json"]).err, "");
}

#[test]
fn accepted_losses_are_told() {
    let place = damaged();
    let said = place.ok(&["scan", "--recovery", "accept-loss"]);
    assert!(said.err.contains("velella: note: "), "{}", said.err);
    assert!(!said.err.contains("no journal"), "{}", said.err);
    assert_eq!(place.ok(&["scan"]).err, "");
}

#[test]
fn losses_are_told_as_json_where_that_was_asked_for() {
    let place = damaged();
    let said = place.ok(&["scan", "--recovery", "accept-loss", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(told["recovery"]["loss_accepted"], true);
    let notes = told["recovery"]["notes"].as_array().unwrap();
    assert!(!notes.is_empty(), "{told}");
    let place = killed();
    let said = place.ok(&["stats", "--recovery", "assume-power-loss", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&said.err).unwrap();
    assert_eq!(told["recovery"]["rule"], "cut");
    assert_eq!(told["recovery"]["loss_accepted"], false);
    assert!(told["recovery"]["cut"].is_u64(), "{told}");
}
