//! What commands promise beyond their single replies: atomicity, durability, complete scans.

#![allow(clippy::unwrap_used, reason = "what helps a test fails as a test does")]

use crate::common::{Answer, Client, Fixture, bulk, encode, error, ok, over_a_database};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use velella_testkit::patience;

#[test]
fn increments_of_many_clients_are_all_counted() {
    let fixture = Fixture::start();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = fixture.client();
            scope.spawn(move || {
                client.send(&encode(&[b"INCR", b"n"]).repeat(500));
                for _ in 0..500 {
                    assert!(matches!(client.answer(), Answer::Integer(_)));
                }
            });
        }
    });
    assert_eq!(fixture.client().ask("GET n"), bulk("2000"));
    fixture.stop();
}

#[test]
fn a_value_renamed_by_many_is_never_two_and_never_none() {
    let fixture = Fixture::start();
    assert_eq!(fixture.client().ask("SET k0 v"), ok());
    std::thread::scope(|scope| {
        for number in 0..4u64 {
            let mut client = fixture.client();
            scope.spawn(move || {
                for round in 0..200u64 {
                    let (from, to) = ((number + round) % 3, (number + round + 1) % 3);
                    client.ask(&format!("RENAMENX k{from} k{to}"));
                    assert_eq!(client.ask("EXISTS k0 k1 k2"), Answer::Integer(1));
                    assert_eq!(client.ask("TOUCH k2 k1 k0"), Answer::Integer(1));
                    let Answer::Array(seen) = client.ask("MGET k0 k1 k2") else {
                        panic!("three")
                    };
                    let values = seen.iter().filter(|value| **value != Answer::Null).count();
                    assert_eq!(values, 1, "{seen:?}");
                }
            });
        }
    });
    fixture.stop();
}

#[test]
fn keys_are_counted_as_of_one_instant() {
    let fixture = Fixture::start();
    let (mut mover, mut counter) = (fixture.client(), fixture.client());
    assert_eq!(mover.ask("SET k0 v"), ok());
    let there = encode(&[b"RENAME", b"k0", b"k1"]);
    let and_back = encode(&[b"RENAME", b"k1", b"k0"]);
    let moves = [there, and_back].concat().repeat(100);
    let counted = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !counted.load(Ordering::Relaxed) {
                mover.send(&moves);
                (0..200).for_each(|_| assert_eq!(mover.answer(), ok()));
            }
        });
        let mut counts = BTreeSet::new();
        for command in ["EXISTS", "TOUCH"].repeat(100) {
            let call = format!("{command}{}", " k0 k1".repeat(200));
            let Answer::Integer(count) = counter.ask(&call) else {
                panic!("a number")
            };
            counts.insert(count);
        }
        // Before any claim, which would leave the mover alone for ever.
        counted.store(true, Ordering::Relaxed);
        assert_eq!(counts, BTreeSet::from([200]));
    });
    fixture.stop();
}

#[test]
fn two_values_are_compared_as_of_one_instant() {
    let fixture = Fixture::start();
    assert_eq!(fixture.client().ask("MSET a 1111 b 1111"), ok());
    std::thread::scope(|scope| {
        for number in 0..4u64 {
            let mut client = fixture.client();
            scope.spawn(move || {
                for round in 0..500u64 {
                    let digit = (number + round) % 10;
                    let value = digit.to_string().repeat(4);
                    assert_eq!(client.ask(&format!("MSET a {value} b {value}")), ok());
                    assert_eq!(client.ask("LCS a b LEN"), Answer::Integer(4));
                }
            });
        }
    });
    fixture.stop();
}

/// So many seconds are left, but for what a busy machine took; -1 is for ever.
fn assert_ttl(client: &mut Client, options: &str, ttl: i64) {
    let Answer::Integer(left) = client.ask("TTL k") else {
        panic!("no number after {options}")
    };
    let least = if ttl < 0 { ttl } else { ttl - 9 };
    assert!((least..=ttl).contains(&left), "{options}: {left} of {ttl}");
}

/// As Redis 7.0.15 answers.
#[test]
fn options_may_be_repeated_but_not_contradict_each_other() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    let syntax = error("ERR syntax error");
    for (options, answer, ttl) in [
        ("EX 10 EX 20", ok(), 20),
        ("EX x ex 20", ok(), 20),
        ("EX 0 EX 20 XX XX", ok(), 20),
        ("PX 10000 PX 20000 GET GET", bulk("v"), 20),
        ("KEEPTTL KEEPTTL", ok(), 20),
        ("NX NX", Answer::Null, 20),
        (
            "EX 30 EX 0",
            error("ERR invalid expire time in 'set' command"),
            20,
        ),
        ("EX 30 PX 30000", syntax.clone(), 20),
        ("EX 0 foo", syntax.clone(), 20),
        ("EX 30 KEEPTTL", syntax.clone(), 20),
        ("KEEPTTL EX 30", syntax.clone(), 20),
        ("NX XX", syntax.clone(), 20),
        ("EX 30 EX", syntax.clone(), 20),
    ] {
        assert_eq!(
            client.ask(&format!("SET k v {options}")),
            answer,
            "{options}"
        );
        assert_ttl(&mut client, options, ttl);
    }
    for (options, answer, ttl) in [
        ("EX 100 EX 200", bulk("v"), 200),
        ("EX 300 PERSIST", syntax.clone(), 200),
        ("PERSIST EX 300", syntax.clone(), 200),
        ("EX 300 EXAT 9999999999", syntax.clone(), 200),
        (
            "EX 300 EX 0",
            error("ERR invalid expire time in 'getex' command"),
            200,
        ),
        ("PERSIST PERSIST", bulk("v"), -1),
    ] {
        assert_eq!(
            client.ask(&format!("GETEX k {options}")),
            answer,
            "{options}"
        );
        assert_ttl(&mut client, options, ttl);
    }
    fixture.stop();
}

#[test]
fn msetnx_is_won_once_and_wins_all() {
    const ROUNDS: usize = 5000;
    let fixture = Fixture::start();
    // Pipelines on both network threads race for the same keys, the one behind catching up.
    let wins: usize = std::thread::scope(|scope| {
        let race = |who: usize| {
            let mut client = fixture.client();
            let round = |round: usize| {
                let (a, b, who) = (format!("a{round}"), format!("b{round}"), who.to_string());
                let pair = [a.as_bytes(), who.as_bytes(), b.as_bytes(), who.as_bytes()];
                encode(&[&[&b"MSETNX"[..]], &pair[..]].concat())
            };
            let pipeline: Vec<u8> = (0..ROUNDS).flat_map(round).collect();
            scope.spawn(move || {
                client.send(&pipeline);
                let won = |_: &usize| client.answer() == Answer::Integer(1);
                (0..ROUNDS).filter(won).count()
            })
        };
        let racers: Vec<_> = (0..4).map(race).collect();
        racers.into_iter().map(|racer| racer.join().unwrap()).sum()
    });
    assert_eq!(wins, ROUNDS);
    let mut client = fixture.client();
    for round in (0..ROUNDS).step_by(50) {
        assert_eq!(
            client.ask(&format!("GET a{round}")),
            client.ask(&format!("GET b{round}"))
        );
    }
    fixture.stop();
}

#[test]
fn replies_withheld_for_the_device_come_in_order() {
    let fixture = Fixture::start();
    for class in ["sync", "group 5"] {
        let mut client = fixture.client();
        assert_eq!(client.ask(&format!("KV.DURABILITY {class}")), ok());
        assert_eq!(client.ask("KV.DURABILITY"), bulk(class));
        let pair = [encode(&[b"SET", b"k", b"v"]), encode(&[b"GET", b"k"])].concat();
        client.send(&pair.repeat(50));
        for _ in 0..50 {
            assert_eq!(client.answer(), ok());
            assert_eq!(client.answer(), bulk("v"));
        }
    }
    let mut client = fixture.client();
    assert_eq!(client.ask("SET k w"), ok());
    let waited = Answer::Array(vec![Answer::Integer(1), Answer::Integer(0)]);
    assert_eq!(client.ask("WAITAOF 1 0 0"), waited);
    fixture.stop();
}

#[test]
fn no_sync_waits_longer_for_company_than_the_round_each_second() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    assert_eq!(client.ask("KV.DURABILITY group 1000"), ok());
    for beyond in ["1001", "-1", "x"] {
        let refused = error("ERR group takes from 0 to 1000 milliseconds");
        assert_eq!(
            client.ask(&format!("KV.DURABILITY group {beyond}")),
            refused
        );
    }
    assert_eq!(client.ask("KV.DURABILITY"), bulk("group 1000"));
    fixture.stop();
}

fn scan(client: &mut Client, cursor: &str, rest: &str) -> (String, Vec<Vec<u8>>) {
    let Answer::Array(reply) = client.ask(&format!("SCAN {cursor} {rest}")) else {
        panic!("two")
    };
    let [Answer::Bulk(cursor), Answer::Array(keys)] = &reply[..] else {
        panic!("{reply:?}")
    };
    let keys = keys.iter().map(|key| match key {
        Answer::Bulk(key) => key.clone(),
        other => panic!("{other:?}"),
    });
    (String::from_utf8(cursor.clone()).unwrap(), keys.collect())
}

#[test]
fn a_scan_over_several_connections_misses_no_key() {
    let fixture = Fixture::start();
    let mut clients = [fixture.client(), fixture.client(), fixture.client()];
    for number in 0..500 {
        assert_eq!(clients[0].ask(&format!("SET key:{number:03} v")), ok());
    }
    let (mut cursor, mut seen, mut calls) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let (next, keys) = scan(&mut clients[calls % 3], &cursor, "COUNT 20");
        seen.extend(keys);
        calls += 1;
        cursor = next;
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 500);
    assert!(calls <= 27, "{calls} calls");
    // A cursor nobody knows starts over: nothing is missed.
    let (_, keys) = scan(&mut clients[0], "12345", "COUNT 1000");
    assert_eq!(keys.len(), 500);
    fixture.stop();
}

#[test]
fn what_the_library_writes_the_server_reads_and_the_reverse() {
    let (_directory, db, server) = over_a_database();
    db.put("from the library", "v").unwrap();
    let mut client = Client::connect(server.address());
    assert_eq!(client.call(&[b"GET", b"from the library"]), bulk("v"));
    assert_eq!(client.call(&[b"SET", b"from a client", b"w"]), ok());
    assert_eq!(db.get("from a client").unwrap().unwrap(), b"w");
    server.handle().stop();
    server.wait().unwrap();
}

/// Each attempt to delete them at one instant loses to a client that sets one of them.
#[test]
fn a_deletion_of_many_keys_ends_beside_clients_that_set_them() {
    const KEYS: usize = 20_000;
    let (_directory, db, server) = over_a_database();
    let keys: Vec<String> = (0..KEYS).map(|key| format!("k{key}")).collect();
    for key in &keys {
        db.put(key, "v").unwrap();
    }
    let (going, ended) = (AtomicBool::new(true), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for first in 0..2 {
            let (going, keys) = (&going, &keys);
            let mut client = Client::connect(server.address());
            scope.spawn(move || {
                for turn in 0usize.. {
                    if !going.load(Ordering::Relaxed) {
                        break;
                    }
                    let key =
                        |step: usize| keys[(first + 7 * (turn * 100 + step)) % KEYS].as_bytes();
                    let sets = (0..100).map(|step| encode(&[b"SET", key(step), b"v"]));
                    client.send(&sets.flatten().collect::<Vec<u8>>());
                    (0..100).for_each(|_| assert_eq!(client.answer(), ok()));
                }
            });
        }
        let (going_on, keys, ended, db) = (&going, &keys, &ended, &db);
        let mut client = Client::connect(server.address());
        scope.spawn(move || {
            // Most often within a few: then it had lost to them again and again, and ended.
            while going_on.load(Ordering::Relaxed) && db.stats().counters["written_alone"] == 0 {
                let mut request = vec![&b"DEL"[..]];
                request.extend(keys.iter().map(|key| key.as_bytes()));
                assert!(matches!(client.call(&request), Answer::Integer(_)));
            }
            ended.store(going_on.load(Ordering::Relaxed), Ordering::Relaxed);
        });
        // Without an end of its own it has one with the others', and is found out.
        let (begun, limit) = (Instant::now(), patience(Duration::from_secs(30)));
        while !ended.load(Ordering::Relaxed) && begun.elapsed() < limit {
            std::thread::sleep(Duration::from_millis(10));
        }
        going.store(false, Ordering::Relaxed);
        assert!(ended.load(Ordering::Relaxed), "not within {limit:?}");
    });
    server.handle().stop();
    server.wait().unwrap();
}

#[test]
fn several_keys_are_deleted_at_one_instant_and_one_given_twice_counts_once() {
    let (_directory, db, server) = over_a_database();
    let mut client = Client::connect(server.address());
    assert_eq!(client.ask("MSET a 1 b 2 c 3"), ok());
    let before = db.stats().last_stamp;
    assert_eq!(client.ask("DEL a b a none"), Answer::Integer(2));
    assert_eq!(db.stats().last_stamp, before + 1);
    assert_eq!(client.ask("UNLINK none other"), Answer::Integer(0));
    assert_eq!(db.stats().last_stamp, before + 1);
    assert_eq!(
        client.ask("MGET a b c"),
        Answer::Array(vec![Answer::Null, Answer::Null, bulk("3")])
    );
    // More than one batch holds.
    let pairs = velella::limits::BATCH_OPERATIONS_MAX + 10;
    let keys: Vec<String> = (0..pairs).map(|n| format!("k{n}")).collect();
    for key in &keys {
        db.put(key, "v").unwrap();
    }
    let call: Vec<&[u8]> = std::iter::once(&b"DEL"[..])
        .chain(keys.iter().map(|key| key.as_bytes()))
        .collect();
    let all = i64::try_from(pairs).unwrap();
    assert_eq!(client.call(&call), Answer::Integer(all));
    assert_eq!(client.ask("DBSIZE"), Answer::Integer(1));
    server.handle().stop();
    server.wait().unwrap();
}

#[test]
fn an_unknown_type_of_client_is_no_type() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    for command in [
        "CLIENT KILL TYPE x",
        "CLIENT KILL SKIPME no TYPE x",
        "CLIENT LIST TYPE x",
    ] {
        let refused = error("ERR Unknown client type 'x'");
        assert_eq!(client.ask(command), refused, "{command}");
    }
    for kind in ["master", "REPLICA", "slave", "pubsub", "normal"] {
        let killed = client.ask(&format!("CLIENT KILL TYPE {kind}"));
        assert_eq!(killed, Answer::Integer(0), "{kind}");
    }
    let mut other = fixture.client();
    // Only who was answered is certainly known.
    assert_eq!(other.ask("PING"), Answer::Simple("PONG".into()));
    assert_eq!(
        client.ask("CLIENT KILL TYPE normal TYPE normal"),
        Answer::Integer(1)
    );
    drop(other);
    fixture.stop();
}

/// As `strtoul` has it, which Redis asks.
#[test]
fn a_cursor_is_whatever_redis_takes_for_one() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    assert_eq!(client.ask("SET k v"), ok());
    let all = Answer::Array(vec![bulk("0"), Answer::Array(vec![bulk("k")])]);
    let many_zeros = "0".repeat(30);
    for cursor in [
        "",
        "0",
        "+0",
        "-0",
        "00",
        &many_zeros,
        "-1",
        "18446744073709551615",
    ] {
        assert_eq!(client.call(&[b"SCAN", cursor.as_bytes()]), all, "{cursor}");
    }
    for cursor in [
        " 0",
        "0 ",
        "-",
        "+",
        "abc",
        "0x10",
        "1x",
        "+-1",
        "18446744073709551616",
        "-18446744073709551616",
    ] {
        let refused = error("ERR invalid cursor");
        assert_eq!(
            client.call(&[b"SCAN", cursor.as_bytes()]),
            refused,
            "{cursor}"
        );
    }
    fixture.stop();
}

#[test]
fn floats_are_read_in_the_forms_that_redis_reads() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    for (number, sum) in [
        ("0x10", "17"),
        ("-0X1.8p+1", "-2"),
        ("0x.8", "1.5"),
        ("5.", "6"),
        ("+5", "6"),
        ("1e-400", "1"),
    ] {
        assert_eq!(client.ask(&format!("SET k {number}")), ok());
        assert_eq!(client.ask("INCRBYFLOAT k 1"), bulk(sum), "{number}");
        assert_eq!(client.ask("SET k 1"), ok());
        let added = client.ask(&format!("INCRBYFLOAT k {number}"));
        assert_eq!(added, bulk(sum), "{number}");
    }
    for number in [
        "0x",
        "0x.",
        "0xg",
        "0x1p",
        "1_0",
        "1e5000",
        "-1e400",
        "0x1p99999",
        "nan",
    ] {
        let refused = error("ERR value is not a valid float");
        let added = client.ask(&format!("INCRBYFLOAT k {number}"));
        assert_eq!(added, refused, "{number}");
    }
    let beyond = error("ERR increment would produce NaN or Infinity");
    for number in ["inf", "-Infinity"] {
        let added = client.ask(&format!("INCRBYFLOAT k {number}"));
        assert_eq!(added, beyond, "{number}");
    }
    fixture.stop();
}

#[test]
fn a_sync_may_wait_for_company_for_ever() {
    let directory = tempfile::tempdir().unwrap();
    let db = velella::Db::builder()
        .durability(velella::Durability::Group(Duration::MAX))
        .open(directory.path())
        .unwrap();
    let config = velella_server::Config {
        port: 0,
        threads: 1,
        ..velella_server::Config::default()
    };
    let server = velella_server::Server::start(config, db).unwrap();
    let mut client = Client::connect(server.address());
    let mut company = Client::connect(server.address());
    client.send(&encode(&[b"SET", b"k", b"v"]));
    assert_eq!(company.ask("SAVE"), ok());
    assert_eq!(client.answer(), ok());
    server.handle().stop();
    server.wait().unwrap();
}

/// As far as it shows which of several faults of a request is found.
#[test]
fn faults_of_a_request_are_found_in_the_order_of_redis() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    assert_eq!(client.ask("SET k foobar"), ok());
    let no_integer = error("ERR value is not an integer or out of range");
    let syntax = error("ERR syntax error");
    for (request, answer) in [
        ("BITPOS k 1 0 x foo", syntax.clone()),
        ("BITPOS k 1 x 0 foo", no_integer.clone()),
        ("BITPOS k 1 0 x bit", no_integer.clone()),
        ("BITCOUNT k -1 -5 x", Answer::Integer(0)),
        ("BITCOUNT k -5 -1 x", syntax),
        ("BITCOUNT k 0 y x", no_integer),
    ] {
        assert_eq!(client.ask(request), answer, "{request}");
    }
    fixture.stop();
}

#[test]
fn a_setting_is_told_by_the_name_it_was_asked_by() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    for (asked, told) in [("TimeOut", "TimeOut"), ("TIMEO*", "timeout")] {
        let pair = Answer::Array(vec![bulk(told), bulk("300")]);
        assert_eq!(client.ask(&format!("CONFIG GET {asked}")), pair);
    }
    fixture.stop();
}
