//! serve, by running the binary and talking to it through a socket.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use crate::common::{Place, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

/// Sends inline commands, one after the other; the first line of each reply.
fn talk(server: &Server, commands: &[&str]) -> Vec<String> {
    let stream = TcpStream::connect(server.address()).unwrap();
    let mut replies = BufReader::new(stream.try_clone().unwrap());
    let mut first_lines = Vec::new();
    for command in commands {
        (&stream)
            .write_all(format!("{command}\r\n").as_bytes())
            .unwrap();
        let mut line = String::new();
        replies.read_line(&mut line).unwrap();
        if line.starts_with('$') && !line.starts_with("$-1") {
            line.clear();
            replies.read_line(&mut line).unwrap();
        }
        first_lines.push(line.trim_end().to_owned());
    }
    first_lines
}

#[test]
fn the_server_and_the_command_line_see_the_same_pairs() {
    let place = Place::new();
    // As on a volume of its own.
    std::fs::create_dir_all(place.data().join("lost+found")).unwrap();
    let server = Server::start(&place);
    assert_eq!(server.hello["created"], true);
    assert_eq!(
        talk(&server, &["SET greeting hello", "GET greeting"]),
        ["+OK", "hello"]
    );
    assert_eq!(server.terminate(), Some(0));
    assert_eq!(place.ok(&["get", "greeting"]).text(), "hello\n");
    place.ok(&["put", "answer", "42"]);
    let server = Server::start(&place);
    assert_eq!(server.hello["created"], false);
    assert_eq!(server.hello["recovery"]["rule"], "clean-close");
    assert_eq!(talk(&server, &["INCR answer"]), [":43"]);
}

#[test]
fn a_low_limit_of_open_files_is_told_and_admits_a_quarter_of_it() {
    let place = Place::new();
    let served = |flags: &str| {
        let velella = env!("CARGO_BIN_EXE_velella");
        let line =
            format!("ulimit -n 80; exec {velella} serve --port 0 --threads 2 --json {flags}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &line]).current_dir(place.path(""));
        shell.stdout(Stdio::piped());
        Server::started(shell)
    };
    let server = served("--maxclients 1000");
    assert_eq!(server.hello["maxclients"], 20);
    let note = "maxclients lowered to 20: the process may open 80 files";
    assert_eq!(server.hello["note"], note);
    let clients: Vec<_> = (0..20)
        .map(|_| TcpStream::connect(server.address()).unwrap())
        .collect();
    for mut client in &clients {
        client.write_all(b"PING\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(client).read_line(&mut line).unwrap();
        assert_eq!(line, "+PONG\r\n");
    }
    assert_eq!(server.terminate(), Some(0));
    let server = served("--maxclients 20");
    assert_eq!(server.hello["maxclients"], 20);
    assert!(server.hello["note"].is_null());
}

#[test]
fn a_timeout_of_0_is_none() {
    let place = Place::new();
    let serve = ["serve", "--port", "0", "--json", "--timeout", "0"];
    let server = Server::started(place.command(&serve));
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(b"CONFIG GET timeout\r\n").unwrap();
    let expected = b"*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n";
    let mut reply = [0; 24];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, expected);
    // A key that lives for no time at all is none that anybody wants.
    place
        .run(&["put", "k", "v", "--expires-in", "0", "--dir", "other"])
        .failed(2, &["`0` is no time such as 500ms"]);
    for time in ["0s", "500us"] {
        place
            .run(&["put", "k", "v", "--expires-in", time, "--dir", "other"])
            .failed(2, &["a key lives for 1ms at least"]);
    }
}

#[test]
fn a_killed_server_has_lost_no_acknowledged_write() {
    let place = Place::new();
    let server = Server::start(&place);
    let sets: Vec<String> = (0..500).map(|n| format!("SET key{n} {n}")).collect();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    assert!(talk(&server, &sets).iter().all(|reply| reply == "+OK"));
    server.kill();
    let server = Server::start(&place);
    assert_eq!(server.hello["recovery"]["rule"], "page-cache");
    let gets: Vec<String> = (0..500).map(|n| format!("GET key{n}")).collect();
    let gets: Vec<&str> = gets.iter().map(String::as_str).collect();
    let expected: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    assert_eq!(talk(&server, &gets), expected);
}

#[test]
fn a_port_in_use_is_told_and_harms_nothing() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    place
        .run(&["serve", "--port", &port])
        .failed(1, &["velella: cannot", &port, "in use"]);
    assert!(!place.data().exists(), "a directory was left behind");
    place.ok(&["put", "a", "1"]);
}

#[test]
fn an_address_that_others_reach_needs_a_password() {
    let place = Place::new();
    let serve = ["serve", "--port", "0", "--bind", "0.0.0.0"];
    place
        .run(&serve)
        .failed(1, &["0.0.0.0", "requirepass", "--requirepass-file FILE"]);
    place.write("empty", "\n");
    let with_empty = [&serve[..], &["--requirepass-file", "empty"]].concat();
    place.run(&with_empty).failed(1, &["empty", "first line"]);
    let with_none = [&serve[..], &["--requirepass-file", "nowhere"]].concat();
    place
        .run(&with_none)
        .failed(1, &["cannot read the password from nowhere"]);
}

/// Its first 4096 bytes would have been a password that nobody chose.
#[test]
fn a_password_that_is_too_long_is_refused() {
    let place = Place::new();
    let serve = ["serve", "--port", "0", "--requirepass-file", "password"];
    for line_end in ["", "\n"] {
        place.write("password", "x".repeat(4097) + line_end);
        let said = place.run(&serve);
        said.failed(1, &["password from password", "4096 bytes", "shorter"]);
    }
    assert!(!place.data().exists());
    for longest in [
        "x".repeat(4096),
        "é".repeat(2048) + "\r\n" + &"y".repeat(9000),
    ] {
        place.write("password", &longest);
        let server = Server::started(place.command(&[&serve[..], &["--json"]].concat()));
        let password = longest.lines().next().unwrap();
        assert_eq!(talk(&server, &[&format!("AUTH {password}")]), ["+OK"]);
        assert_eq!(server.terminate(), Some(0));
    }
}
