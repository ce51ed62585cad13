//! The protocol through sockets: both versions, pieces, pipelines, silence, garbage.

#![allow(clippy::unwrap_used, reason = "what helps a test fails as a test does")]

use crate::common::{Answer, Client, Fixture, bulk, encode, error, ok};
use std::io::{Read, Write};
use std::net::Shutdown;

#[test]
fn both_protocols_are_spoken_as_asked_for() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    assert_eq!(client.ask("SET k v"), ok());
    assert_eq!(client.ask("GET k"), bulk("v"));
    assert_eq!(client.ask("GET none"), Answer::Null);
    assert!(matches!(client.ask("CONFIG GET port"), Answer::Array(pair) if pair.len() == 2));
    assert!(matches!(client.ask("HELLO 3 SETNAME me"), Answer::Map(fields) if fields.len() == 14));
    assert!(matches!(client.ask("CONFIG GET port"), Answer::Map(pair) if pair.len() == 2));
    assert!(matches!(client.ask("INFO server"), Answer::Verbatim(_)));
    assert!(matches!(client.ask("COMMAND LIST"), Answer::Array(_)));
    assert_eq!(client.ask("CLIENT GETNAME"), bulk("me"));
    assert_eq!(
        client.ask("HELLO 4"),
        error("NOPROTO unsupported protocol version")
    );
    assert_eq!(client.ask("RESET"), Answer::Simple("RESET".into()));
    assert_eq!(client.ask("CLIENT GETNAME"), Answer::Null);
    fixture.stop();
}

#[test]
fn a_pipeline_in_any_two_pieces_gets_the_same_replies() {
    let fixture = Fixture::start();
    let stream = [
        encode(&[b"SET", b"k", b"1"]),
        b"incr k\r\n".to_vec(),
        encode(&[b"GET", b"k"]),
        encode(&[b"MGET", b"k", b"none"]),
        encode(&[b"NOSUCH"]),
    ]
    .concat();
    let mut client = fixture.client();
    for split in 0..stream.len() {
        client.send(&stream[..split]);
        // Lets the server see the first piece on its own, sometimes.
        std::thread::yield_now();
        client.send(&stream[split..]);
        assert_eq!(client.answer(), ok(), "split at {split}");
        assert_eq!(client.answer(), Answer::Integer(2));
        assert_eq!(client.answer(), bulk("2"));
        assert_eq!(
            client.answer(),
            Answer::Array(vec![bulk("2"), Answer::Null])
        );
        assert!(matches!(client.answer(), Answer::Error(_)));
    }
    fixture.stop();
}

#[test]
fn a_client_that_reads_late_gets_every_reply_in_order() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    let value = vec![b'v'; 100 << 10];
    assert_eq!(client.call(&[b"SET", b"big", &value]), ok());
    let mut sender = client.stream.try_clone().unwrap();
    let rounds: usize = 400;
    // 40 MB of replies against a backlog of 1 MiB: the server has to stop and go on many times.
    let writer = std::thread::spawn(move || {
        for round in 0..rounds {
            let echo = round.to_string();
            let pair = [
                encode(&[b"GET", b"big"]),
                encode(&[b"ECHO", echo.as_bytes()]),
            ]
            .concat();
            sender.write_all(&pair).unwrap();
        }
        sender
    });
    for round in 0..rounds {
        assert_eq!(
            client.answer(),
            Answer::Bulk(value.clone()),
            "round {round}"
        );
        assert_eq!(client.answer(), bulk(&round.to_string()));
    }
    writer.join().unwrap();
    fixture.stop();
}

#[test]
fn a_client_that_closes_its_half_still_gets_its_replies() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    client.send(&[encode(&[b"SET", b"k", b"v"]), encode(&[b"GET", b"k"])].concat());
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.answer(), ok());
    assert_eq!(client.answer(), bulk("v"));
    assert!(client.closed());
    fixture.stop();
}

/// Lets `together` send, from each of eight clients that have been answered before, what arrives
/// while the one thread is busy with somebody else, and so is told of at once.
fn while_the_thread_is_busy(together: fn(&mut Client), answers: fn(&mut Client)) {
    let fixture = Fixture::with(|config| config.threads = 1);
    let mut busy = fixture.client();
    let many = encode(&[b"ECHO", &[b'x'; 4 << 10]]).repeat(200);
    for _ in 0..20 {
        let mut clients: Vec<Client> = (0..8).map(|_| fixture.client()).collect();
        for client in &mut clients {
            assert_eq!(client.ask("PING"), Answer::Simple("PONG".into()));
        }
        busy.send(&many);
        clients.iter_mut().for_each(together);
        clients.iter_mut().for_each(answers);
        (0..200).for_each(|_| assert!(matches!(busy.answer(), Answer::Bulk(_))));
    }
    fixture.stop();
}

#[test]
fn an_end_that_comes_with_the_last_request_is_seen() {
    while_the_thread_is_busy(
        |client| {
            client.send(&encode(&[b"PING"]));
            client.stream.shutdown(Shutdown::Write).unwrap();
        },
        |client| {
            assert_eq!(client.answer(), Answer::Simple("PONG".into()));
            assert!(client.closed());
        },
    );
}

#[test]
fn requests_around_an_urgent_byte_are_answered() {
    // A read ends at the urgent byte, though more is there; nobody needs to send one.
    while_the_thread_is_busy(
        |client| {
            client.send(&encode(&[b"PING"]));
            let urgent = socket2::SockRef::from(&client.stream);
            assert_eq!(urgent.send_out_of_band(b"!").unwrap(), 1);
            client.send(&encode(&[b"PING"]));
        },
        |client| {
            assert_eq!(client.answer(), Answer::Simple("PONG".into()));
            assert_eq!(client.answer(), Answer::Simple("PONG".into()));
        },
    );
}

/// A number that INFO tells.
fn count(client: &mut Client, name: &str) -> u64 {
    let Answer::Bulk(text) = client.ask("INFO everything") else {
        panic!("INFO is text");
    };
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let (_, number) = lines.find(|(field, _)| *field == name).unwrap();
    number.parse().unwrap()
}

#[test]
fn a_request_costs_one_wait_one_read_and_one_write() {
    let fixture = Fixture::with(|config| config.threads = 1);
    let mut client = fixture.client();
    let names = [
        "network_polls",
        "network_reads_in_vain",
        "total_reads_processed",
        "total_writes_processed",
    ];
    let counts = |client: &mut Client| names.map(|name| count(client, name));
    let before = counts(&mut client);
    for round in 0..1_000 {
        assert_eq!(client.call(&[b"SET", b"k", b"v"]), ok(), "round {round}");
    }
    let after = counts(&mut client);
    let grown = [0, 1, 2, 3].map(|which| after[which] - before[which]);
    // The thread looks after its connections once a second; the four questions are requests, too.
    let [polls, in_vain, reads, writes] = grown;
    assert!((1_000..1_500).contains(&polls), "{polls} waits");
    assert!(in_vain < 20, "{in_vain} reads in vain");
    assert!((1_000..1_010).contains(&reads), "{reads} reads");
    assert!((1_000..1_010).contains(&writes), "{writes} writes");
    fixture.stop();
}

#[test]
fn replies_can_be_switched_off() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    client.send(&encode(&[b"CLIENT", b"REPLY", b"SKIP"]));
    client.send(&encode(&[b"SET", b"k", b"1"]));
    assert_eq!(client.ask("INCR k"), Answer::Integer(2));
    client.send(&encode(&[b"CLIENT", b"REPLY", b"OFF"]));
    client.send(&encode(&[b"INCR", b"k"]));
    client.send(&encode(&[b"NOSUCH"]));
    assert_eq!(client.ask("CLIENT REPLY ON"), ok());
    assert_eq!(client.ask("GET k"), bulk("3"));
    fixture.stop();
}

#[test]
fn garbage_ends_its_connection_with_an_error_and_no_other() {
    let fixture = Fixture::start();
    let mut witness = fixture.client();
    assert_eq!(witness.ask("SET k v"), ok());
    for (garbage, expected) in [
        (
            &b"*1\r\n$x\r\n"[..],
            Some("ERR Protocol error: invalid bulk length"),
        ),
        (
            b"*1\r\n+PING\r\n",
            Some("ERR Protocol error: expected '$', got '+'"),
        ),
        (
            b"*99999999\r\n",
            Some("ERR Protocol error: invalid multibulk length"),
        ),
        (
            b"*1\r\n$1000000000\r\n",
            Some("ERR Protocol error: invalid bulk length"),
        ),
        (
            b"GET \"k\r\n",
            Some("ERR Protocol error: unbalanced quotes in request"),
        ),
        (
            &[b'x'; 70_000],
            Some("ERR Protocol error: too big inline request"),
        ),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nGET k\r\n", None),
    ] {
        let mut client = fixture.client();
        client.send(garbage);
        assert_eq!(
            client.try_answer(),
            expected.map(error),
            "{:?}",
            &garbage[..9]
        );
        assert!(client.closed());
    }
    for half in [
        &b"*2\r\n$3\r\nGE"[..],
        b"*2\r\n$3\r\nGET\r\n$400000000\r\nabc",
        b"SET k",
        b"*",
    ] {
        Client::connect(fixture.address).send(half);
    }
    assert_eq!(witness.ask("GET k"), bulk("v"));
    fixture.stop();
}

#[test]
fn a_pipeline_before_an_error_is_still_answered() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    client.send(&[&encode(&[b"SET", b"k", b"v"])[..], b"*1\r\nbad\r\n"].concat());
    assert_eq!(client.answer(), ok());
    assert_eq!(
        client.answer(),
        error("ERR Protocol error: expected '$', got 'b'")
    );
    assert!(client.closed());
    fixture.stop();
}

#[test]
fn odd_requests_are_answered_in_the_words_of_redis() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    let outside = "ERR value is out of range, value must between -2147483648 and 2147483647";
    for (request, told) in [
        ("SELECT 9999999999", outside),
        ("COPY a b DB -9999999999", outside),
        ("SELECT -1", "ERR DB index is out of range"),
        ("COPY a b DB 16", "ERR DB index is out of range"),
        ("SELECT x", "ERR value is not an integer or out of range"),
        ("MEMORY USAGE k SAMPLES -1", "ERR syntax error"),
        (
            "FUNCTION X",
            "ERR unknown subcommand 'X'. Try FUNCTION HELP.",
        ),
        ("DEBUG X", "ERR unknown subcommand 'X'. Try DEBUG HELP."),
    ] {
        assert_eq!(client.ask(request), error(told), "{request}");
    }
    for request in ["FUNCTION HELP", "DEBUG HELP"] {
        assert!(matches!(client.ask(request), Answer::Array(_)), "{request}");
    }
    let refused = client.ask("LOLWUT");
    assert!(matches!(&refused, Answer::Error(text) if text.contains("not supported yet")));
    fixture.stop();
}

/// Byte by byte: clients tell a null array from a null of another kind.
#[test]
fn a_command_that_does_not_exist_is_a_null_and_no_null_array() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    let request = encode(&[b"COMMAND", b"INFO", b"nosuch"]);
    for (version, told) in [("2", "*1\r\n$-1\r\n"), ("3", "*1\r\n_\r\n")] {
        assert!(!matches!(
            client.ask(&format!("HELLO {version}")),
            Answer::Error(_)
        ));
        client.send(&request);
        let mut bytes = vec![0; told.len()];
        client.stream.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8(bytes).unwrap(), told);
    }
    fixture.stop();
}
