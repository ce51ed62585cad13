//! Clients as connections: how many there are, which are closed and when, and how they are told of.

#![allow(clippy::unwrap_used, reason = "what helps a test fails as a test does")]

use crate::common::{Answer, Fixture, bulk, encode, error, ok};
use std::time::Duration;

#[test]
fn one_client_too_many_is_told_so() {
    let fixture = Fixture::with(|config| config.maxclients = 2);
    let (mut first, mut second) = (fixture.client(), fixture.client());
    assert_eq!(first.ask("SET k v"), ok());
    assert_eq!(second.ask("GET k"), bulk("v"));
    let mut third = fixture.client();
    assert_eq!(third.answer(), error("ERR max number of clients reached"));
    assert!(third.closed());
    assert_eq!(second.ask("QUIT"), ok());
    assert!(second.closed());
    assert_eq!(fixture.client().ask("GET k"), bulk("v"));
    fixture.stop();
}

#[test]
fn silent_clients_are_closed_and_busy_ones_are_not() {
    let fixture = Fixture::with(|config| config.timeout = Duration::from_secs(4));
    let mut silent = fixture.client();
    let mut busy = fixture.client();
    assert_eq!(silent.ask("PING"), Answer::Simple("PONG".into()));
    // Ends when the server closes the silent client, however long that takes.
    silent.stream.set_nonblocking(true).unwrap();
    loop {
        assert_eq!(busy.ask("PING"), Answer::Simple("PONG".into()));
        let mut byte = [0];
        match std::io::Read::read(&mut silent.stream, &mut byte) {
            Ok(0) => break,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            other => panic!("{other:?}"),
        }
    }
    fixture.stop();
}

#[test]
fn killed_clients_go_and_others_stay() {
    let fixture = Fixture::start();
    let (mut killer, mut victim, mut other) =
        (fixture.client(), fixture.client(), fixture.client());
    let Answer::Integer(id) = victim.ask("CLIENT ID") else {
        panic!("an id")
    };
    assert_eq!(other.ask("PING"), Answer::Simple("PONG".into()));
    assert_eq!(
        killer.ask(&format!("CLIENT KILL ID {id}")),
        Answer::Integer(1)
    );
    assert!(victim.closed());
    assert_eq!(other.ask("PING"), Answer::Simple("PONG".into()));
    assert_eq!(
        killer.ask("CLIENT KILL 1.2.3.4:5"),
        error("ERR No such client")
    );
    fixture.stop();
}

#[test]
fn clients_are_listed_as_they_are_asked_for() {
    let fixture = Fixture::with(|config| config.max_output_bytes = 1 << 20);
    let mut clients = [fixture.client(), fixture.client(), fixture.client()];
    let [one, two, three] = clients
        .each_mut()
        .map(|client| match client.ask("CLIENT ID") {
            Answer::Integer(id) => id,
            other => panic!("{other:?}"),
        });
    let mut ids = |request: &str| -> Vec<i64> {
        let Answer::Bulk(lines) = clients[0].ask(request) else {
            panic!("a text")
        };
        let lines = String::from_utf8(lines).unwrap();
        let id = |line: &str| line.split(' ').next()?.strip_prefix("id=")?.parse().ok();
        lines.lines().filter_map(id).collect()
    };
    let asked = format!("CLIENT LIST ID {three} 999999 {one} {three}");
    assert_eq!(ids(&asked), [three, one, three]);
    assert_eq!(ids("CLIENT LIST"), [one, two, three]);
    assert_eq!(ids("CLIENT LIST TYPE normal"), [one, two, three]);
    assert!(ids("CLIENT LIST TYPE replica").is_empty());
    let again = format!(" {one}").repeat(20_000);
    let refused = clients[0].ask(&format!("CLIENT LIST ID{again}"));
    assert!(matches!(&refused, Answer::Error(text) if text.contains("exceeds")));
    fixture.stop();
}

#[test]
fn who_takes_a_long_reply_slowly_is_not_silent() {
    let fixture = Fixture::with(|config| config.timeout = Duration::from_secs(3));
    let mut client = fixture.client();
    let value = vec![b'v'; 48 << 20];
    assert_eq!(client.call(&[b"SET", b"k", &value]), ok());
    client.send(&encode(&[&b"GET"[..], b"k"]));
    let (mut taken, mut piece) = (0, vec![0; 1 << 20]);
    // Some eight seconds.
    while taken < value.len() {
        let got = std::io::Read::read(&mut client.stream, &mut piece).unwrap();
        assert!(got > 0, "closed after {taken} bytes");
        taken += got;
        std::thread::sleep(Duration::from_micros(got as u64 / 6));
    }
    fixture.stop();
}

#[test]
fn a_part_of_a_second_is_a_time_out_and_no_second_is_none() {
    let second = Duration::from_secs(1);
    for (timeout, told) in [
        (second / 10 * 9, "1"),
        (Duration::from_nanos(1), "1"),
        (second, "1"),
        (second * 3 / 2, "2"),
        (Duration::ZERO, "0"),
    ] {
        let fixture = Fixture::with(|config| config.timeout = timeout);
        let answer = fixture.client().ask("CONFIG GET timeout");
        assert_eq!(answer, Answer::Array(vec![bulk("timeout"), bulk(told)]));
        fixture.stop();
    }
}

/// A thread busy for longer than the time-out, and a request that comes meanwhile.
#[test]
fn who_waits_for_a_busy_thread_is_not_silent() {
    let fixture = Fixture::with(|config| {
        config.timeout = Duration::from_secs(1);
        config.threads = 1;
    });
    let (mut busy, mut waiting) = (fixture.client(), fixture.client());
    let value = vec![b'v'; 2000];
    assert_eq!(busy.call(&[b"SET", b"k", &value]), ok());
    let slow = encode(&[b"LCS", b"k", b"k", b"LEN"]);
    let begun = std::time::Instant::now();
    busy.send(&slow);
    assert_eq!(busy.answer(), Answer::Integer(2000));
    // All at once: the thread serves no other meanwhile.
    let times = 2_500_000 / begun.elapsed().as_micros().max(1) + 1;
    assert_eq!(waiting.ask("PING"), Answer::Simple("PONG".into()));
    busy.send(&slow.repeat(usize::try_from(times).unwrap()));
    // So that the thread has most likely begun; if not, this test sees nothing.
    std::thread::sleep(Duration::from_millis(100));
    waiting.send(&encode(&[b"PING"]));
    assert_eq!(waiting.try_answer(), Some(Answer::Simple("PONG".into())));
    for _ in 0..times {
        assert_eq!(busy.answer(), Answer::Integer(2000));
    }
    fixture.stop();
}
