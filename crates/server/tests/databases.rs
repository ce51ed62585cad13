//! The numbered databases: apart from each other, and none that nothing was written to.

#![allow(clippy::unwrap_used, reason = "what helps a test fails as a test does")]

use crate::common::{Answer, Client, Fixture, bulk, encode, error, ok, over_a_database};

#[test]
fn databases_are_apart_and_flushed_apart() {
    let fixture = Fixture::start();
    let (mut zero, mut three) = (fixture.client(), fixture.client());
    assert_eq!(three.ask("SELECT 3"), ok());
    assert_eq!(three.ask("DBSIZE"), Answer::Integer(0));
    assert_eq!(zero.ask("SET k zero"), ok());
    assert_eq!(three.ask("GET k"), Answer::Null);
    assert_eq!(three.ask("SET k three"), ok());
    assert_eq!(zero.ask("COPY k j DB 3"), Answer::Integer(1));
    assert_eq!(
        three.ask("MGET k j"),
        Answer::Array(vec![bulk("three"), bulk("zero")])
    );
    assert_eq!(zero.ask("FLUSHDB"), ok());
    assert_eq!(zero.ask("DBSIZE"), Answer::Integer(0));
    assert_eq!(three.ask("DBSIZE"), Answer::Integer(2));
    assert_eq!(zero.ask("FLUSHALL"), ok());
    assert_eq!(three.ask("DBSIZE"), Answer::Integer(0));
    fixture.stop();
}

#[test]
fn what_writes_nothing_creates_no_database() {
    let (_directory, db, server) = over_a_database();
    let mut client = Client::connect(server.address());
    assert_eq!(client.ask("COPY none y DB 3"), Answer::Integer(0));
    assert_eq!(client.ask("SELECT 3"), ok());
    assert_eq!(client.ask("RENAME none y"), error("ERR no such key"));
    assert_eq!(client.ask("RENAMENX none y"), error("ERR no such key"));
    for (command, answer) in [
        ("COPY none y", Answer::Integer(0)),
        ("BITOP AND y none other", Answer::Integer(0)),
        ("DEL none other", Answer::Integer(0)),
        ("EXPIRE none 10", Answer::Integer(0)),
        ("PERSIST none", Answer::Integer(0)),
        ("GETDEL none", Answer::Null),
        ("GETEX none EX 10", Answer::Null),
        ("SET none v XX", Answer::Null),
        ("SETRANGE none 0 ", Answer::Integer(0)),
    ] {
        assert_eq!(client.ask(command), answer, "{command}");
        assert_eq!(db.keyspaces(), ["default"], "{command}");
    }
    assert_eq!(client.ask("SET k v"), ok());
    assert_eq!(db.keyspaces(), ["db3", "default"]);
    assert_eq!(client.ask("COPY k k DB 4"), Answer::Integer(1));
    assert_eq!(db.keyspaces(), ["db3", "db4", "default"]);
    server.handle().stop();
    server.wait().unwrap();
}

#[test]
fn what_is_refused_creates_no_database() {
    let (_directory, db, server) = over_a_database();
    let mut client = Client::connect(server.address());
    let long = vec![b'k'; (64 << 10) + 1];
    assert_eq!(client.ask("SET k v"), ok());
    let refused = |answer: &Answer, why: &str| {
        assert!(
            matches!(answer, Answer::Error(text) if text.contains(why)),
            "{answer:?}"
        );
        assert_eq!(db.keyspaces(), ["default"]);
    };
    refused(
        &client.call(&[b"COPY", b"k", &long, b"DB", b"3"]),
        "65537 bytes",
    );
    assert_eq!(client.ask("SELECT 3"), ok());
    for command in [
        &[&b"SET"[..], &long, b"v"][..],
        &[b"SETEX", &long, b"10", b"v"],
        &[b"SET", &long, b"v", b"NX"],
        &[b"GETSET", &long, b"v"],
        &[b"APPEND", &long, b"v"],
        &[b"INCR", &long],
        &[b"MSET", b"k", b"v", &long, b"v"],
        &[b"MSETNX", b"k", b"v", &long, b"v"],
    ] {
        refused(&client.call(command), "65537 bytes");
    }
    // More than one batch holds, in bytes and in pairs; and where the database is there.
    let value = vec![b'v'; 1 << 20];
    let keys: Vec<String> = (0..=1 << 16).map(|number| number.to_string()).collect();
    for name in ["MSET", "MSETNX"] {
        let call = |keys: &[String], value: &[u8]| {
            let mut call = vec![name.as_bytes()];
            keys.iter()
                .for_each(|key| call.extend([key.as_bytes(), value]));
            encode(&call)
        };
        for (request, why) in [
            (
                call(&keys[..17], &value),
                "bytes of keys and values, at most 16777216",
            ),
            (call(&keys, b"v"), "65537 operations, at most 65536"),
        ] {
            client.send(&request);
            refused(&client.answer(), why);
            client.send(
                &[
                    encode(&[b"SELECT", b"0"]),
                    request,
                    encode(&[b"SELECT", b"3"]),
                ]
                .concat(),
            );
            assert_eq!(client.answer(), ok());
            refused(&client.answer(), why);
            assert_eq!(client.answer(), ok());
        }
    }
    assert_eq!(client.ask("DBSIZE"), Answer::Integer(0));
    server.handle().stop();
    server.wait().unwrap();
}

/// Two connections: each is served by a thread of its own, which had a handle of the database.
#[test]
fn a_database_dropped_under_the_server_is_empty_and_can_be_written_again() {
    let (_directory, db, server) = over_a_database();
    let mut clients = [0; 2].map(|_| Client::connect(server.address()));
    assert_eq!(clients[0].ask("SET default v"), ok());
    for client in &mut clients {
        assert_eq!(client.ask("SELECT 3"), ok());
    }
    let one = Answer::Integer(1);
    let scanned = Answer::Array(vec![bulk("0"), Answer::Array(vec![])]);
    for (command, answer) in [
        ("GET k", Answer::Null),
        ("SET k w", ok()),
        ("SET k w NX", ok()),
        ("APPEND k w", one.clone()),
        ("MSET k w l w", ok()),
        ("MSETNX k w l w", one.clone()),
        ("MGET k l", Answer::Array(vec![Answer::Null, Answer::Null])),
        ("DEL k", Answer::Integer(0)),
        ("DEL k l", Answer::Integer(0)),
        ("EXISTS k l", Answer::Integer(0)),
        ("RENAME k l", error("ERR no such key")),
        ("EXPIRE k 10", Answer::Integer(0)),
        ("BITOP AND l k k", Answer::Integer(0)),
        ("SCAN 0", scanned),
        ("KV.SCAN a LIMIT 9", Answer::Array(vec![])),
        ("KEYS *", Answer::Array(vec![])),
        ("RANDOMKEY", Answer::Null),
        ("DBSIZE", Answer::Integer(0)),
        ("FLUSHDB", ok()),
        (
            "INFO keyspace",
            bulk("# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\n"),
        ),
    ] {
        assert_eq!(clients[0].ask("SET k v"), ok(), "{command}");
        assert_eq!(clients[1].ask("GET k"), bulk("v"), "{command}");
        db.drop_keyspace("db3").unwrap();
        assert_eq!(clients[1].ask(command), answer, "{command}");
        assert_eq!(clients[0].ask("SET k again"), ok(), "{command}");
        assert_eq!(clients[1].ask("GET k"), bulk("again"), "{command}");
        assert_eq!(clients[0].ask("FLUSHDB"), ok(), "{command}");
    }
    // From another database into it.
    assert_eq!(clients[0].ask("SELECT 0"), ok());
    db.drop_keyspace("db3").unwrap();
    assert_eq!(clients[0].ask("COPY default k DB 3"), one);
    assert_eq!(clients[1].ask("GET k"), bulk("v"));
    server.handle().stop();
    server.wait().unwrap();
}

/// A large value lies in a file of its own: who asks about it, deletes or replaces it does not read
/// that, and gets rid of a damaged one.
#[test]
fn what_needs_no_value_reads_none() {
    let (directory, db, server) = over_a_database();
    let mut client = Client::connect(server.address());
    let large = vec![b'v'; 2 << 20];
    let damage = || {
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|end| end == "ext") {
                std::fs::write(&path, b"half of a header").unwrap();
            }
        }
    };
    for undo in [
        "DEL k",
        "EXPIRE k -1",
        "SET k w XX",
        "SET k w KEEPTTL",
        "SET k w",
    ] {
        assert_eq!(client.call(&[b"SET", b"k", &large]), ok());
        damage();
        assert!(matches!(client.ask("GET k"), Answer::Error(_)));
        for (request, answer) in [
            ("TTL k", -1),
            ("EXISTS k", 1),
            ("STRLEN k", 2 << 20),
            ("MEMORY USAGE k", (2 << 20) + 1),
            ("SETNX k w", 0),
            ("PERSIST k", 0),
            ("EXPIRE k 100 XX", 0),
        ] {
            assert_eq!(client.ask(request), Answer::Integer(answer), "{request}");
        }
        let appended = client.call(&[b"APPEND", b"k", b""]);
        assert_eq!(appended, Answer::Integer(2 << 20));
        assert_eq!(client.ask("SET k w NX"), Answer::Null);
        let undone = client.ask(undo);
        assert!(undone == ok() || undone == Answer::Integer(1), "{undone:?}");
        assert!(!matches!(client.ask("GET k"), Answer::Error(_)), "{undo}");
    }
    server.handle().stop();
    server.wait().unwrap();
    drop(db);
}
