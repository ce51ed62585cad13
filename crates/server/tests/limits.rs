//! Limits, passwords, panics and ends: what a server does when things are not as they should be.

#![allow(clippy::unwrap_used, reason = "what helps a test fails as a test does")]

mod common;

use common::{Answer, Client, Fixture, bulk, encode, error, ok};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;
use velella::JournalMode;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::{FaultFs, MemFs, Operation, Vfs};
use velella_server::{Config, Server};
use velella_testkit::Watchdog;

#[test]
fn without_the_password_nothing_is_said_or_done() {
    let fixture = Fixture::with(|config| config.requirepass = Some("secret".into()));
    let mut client = fixture.client();
    let noauth = error("NOAUTH Authentication required.");
    let Answer::Array(names) = fixture_commands() else {
        panic!("a list of names")
    };
    for name in names {
        let Answer::Bulk(name) = name else { continue };
        if matches!(&name[..], b"auth" | b"hello" | b"quit" | b"reset") {
            continue;
        }
        // Whatever the arity, some number of arguments reaches the question of authentication.
        let answers: Vec<Answer> = (0..5)
            .map(|count| {
                let args: Vec<&[u8]> = std::iter::once(&name[..])
                    .chain(std::iter::repeat_n(&b"x"[..], count))
                    .collect();
                client.call(&args)
            })
            .collect();
        let text = String::from_utf8_lossy(&name).into_owned();
        assert!(
            answers
                .iter()
                .all(|answer| matches!(answer, Answer::Error(_))),
            "{text}"
        );
        assert!(answers.contains(&noauth), "{text}: {answers:?}");
    }
    assert!(matches!(client.ask("HELLO 3"), Answer::Error(text) if text.starts_with("NOAUTH")));
    assert!(
        matches!(client.ask("AUTH wrong"), Answer::Error(text) if text.starts_with("WRONGPASS"))
    );
    assert_eq!(client.ask("AUTH secret"), ok());
    assert_eq!(client.ask("SET k v"), ok());
    let mut other = fixture.client();
    assert!(matches!(
        other.ask("HELLO 3 AUTH default secret"),
        Answer::Map(_)
    ));
    assert_eq!(other.ask("GET k"), bulk("v"));
    let mut hostile = fixture.client();
    hostile.send(b"*11\r\n");
    let refused = "ERR Protocol error: unauthenticated multibulk length";
    assert_eq!(hostile.answer(), error(refused));
    fixture.stop();
}

#[test]
fn a_password_given_up_is_asked_for_no_more() {
    let fixture = Fixture::start();
    let (mut one, set) = (fixture.client(), "CONFIG SET requirepass");
    let longest = "p".repeat(4096);
    let refused = one.ask(&format!("{set} {longest}p"));
    assert!(
        format!("{refused:?}").contains("at most 4096 bytes"),
        "{refused:?}"
    );
    assert_eq!(one.ask(&format!("{set} secret")), ok());
    let mut others = [fixture.client(), fixture.client()];
    let mut silent = fixture.client();
    for other in &mut others {
        let noauth = error("NOAUTH Authentication required.");
        assert_eq!(other.ask("PING"), noauth);
        assert_eq!(other.ask("MULTI"), noauth, "a name that is not supported");
    }
    assert_eq!(one.call(&[b"CONFIG", b"SET", b"requirepass", b""]), ok());
    // The limits for strangers are his no more.
    assert_eq!(silent.ask("MSET a 1 b 2 c 3 d 4 e 5 f 6"), ok());
    assert_eq!(others[0].ask("PING"), Answer::Simple("PONG".into()));
    assert!(matches!(others[1].ask("HELLO 3"), Answer::Map(_)));
    assert_eq!(one.ask(&format!("{set} another")), ok());
    assert_eq!(others[0].ask("SET k v"), ok(), "who was let in stays");
    fixture.stop();
}

/// What it asked for while it was known is due, whatever a stranger may ask for.
#[test]
fn a_reset_asks_for_the_password_and_takes_no_reply_back() {
    let fixture = Fixture::with(|config| config.requirepass = Some("secret".into()));
    let mut client = fixture.client();
    assert_eq!(client.ask("AUTH secret"), ok());
    let value = vec![b'v'; 100 << 10];
    assert_eq!(client.call(&[b"SET", b"k", &value]), ok());
    let mut pipeline = encode(&[b"GET", b"k"]).repeat(200);
    pipeline.extend(encode(&[b"RESET"]));
    client.send(&pipeline);
    for turn in 0..200 {
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(client.answer(), Answer::Bulk(value.clone()), "{turn}");
    }
    assert_eq!(client.answer(), Answer::Simple("RESET".into()));
    let noauth = error("NOAUTH Authentication required.");
    assert_eq!(client.ask("STRLEN k"), noauth);
    assert_eq!(client.ask("RESET"), Answer::Simple("RESET".into()));
    assert_eq!(client.ask("AUTH secret"), ok());
    assert_eq!(client.ask("STRLEN k"), Answer::Integer(100 << 10));
    fixture.stop();
}

/// The names of all commands, subcommands left out.
fn fixture_commands() -> Answer {
    let fixture = Fixture::start();
    let answer = fixture.client().ask("COMMAND LIST");
    fixture.stop();
    let Answer::Array(mut names) = answer else {
        return answer;
    };
    names.retain(|name| !matches!(name, Answer::Bulk(name) if name.contains(&b'|')));
    Answer::Array(names)
}

/// As Redis 7.0.15 answers.
#[test]
fn several_settings_change_together_or_not_at_all() {
    let fixture = Fixture::with(|config| config.maxclients = 100);
    let mut client = fixture.client();
    assert_eq!(client.ask("CONFIG SET timeout 100 slowlog-max-len 7"), ok());
    let failed = |name: &str, why: &str| {
        let what = "ERR CONFIG SET failed (possibly related to argument";
        error(&format!("{what} '{name}') - {why}"))
    };
    for (settings, answer) in [
        (
            "timeout 200 slowlog-max-len x",
            failed(
                "slowlog-max-len",
                "argument couldn't be parsed into an integer",
            ),
        ),
        (
            "requirepass secret maxclients 0",
            failed("maxclients", "argument must be between 1 and 100 inclusive"),
        ),
        (
            "timeout 200 proto-max-bulk-len 1xb",
            failed("proto-max-bulk-len", "argument must be a memory value"),
        ),
        (
            "proto-max-bulk-len 1b",
            failed(
                "proto-max-bulk-len",
                "argument must be between 1024 and 536870912 inclusive",
            ),
        ),
        (
            "timeout 200 port 1",
            failed("port", "can't set immutable config"),
        ),
        (
            "timeout 200 timeout 300",
            failed("timeout", "duplicate parameter"),
        ),
        ("timeout 200 slowlog-max-len", error("ERR syntax error")),
        (
            "timeout 200 nosuch 1",
            error("ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'"),
        ),
    ] {
        assert_eq!(client.ask(&format!("CONFIG SET {settings}")), answer);
        let all = ["slowlog-max-len", "7", "timeout", "100"].map(bulk);
        assert_eq!(
            client.ask("CONFIG GET timeout slowlog-max-len"),
            Answer::Array(all.to_vec()),
            "{settings}"
        );
        let password = client.ask("CONFIG GET requirepass");
        let none = Answer::Array(vec![bulk("requirepass"), bulk("")]);
        assert_eq!(password, none, "{settings}");
    }
    for (told, bytes) in [
        ("2kb", "2048"),
        ("2K", "2000"),
        ("1Mb", "1048576"),
        ("9m", "9000000"),
    ] {
        assert_eq!(
            client.ask(&format!("CONFIG SET proto-max-bulk-len {told}")),
            ok()
        );
        let set = Answer::Array(vec![bulk("proto-max-bulk-len"), bulk(bytes)]);
        assert_eq!(client.ask("CONFIG GET proto-max-bulk-len"), set);
    }
    fixture.stop();
}

#[test]
fn a_panic_ends_only_its_own_connection() {
    let fixture = Fixture::with(|config| config.debug_commands = true);
    let mut witness = fixture.client();
    assert_eq!(witness.ask("SET k v"), ok());
    for _ in 0..4 {
        let mut client = fixture.client();
        assert!(matches!(client.ask("DEBUG PANIC"), Answer::Error(text) if text.contains("panic")));
        assert!(client.closed());
    }
    assert_eq!(witness.ask("GET k"), bulk("v"));
    assert_eq!(fixture.client().ask("INCR n"), Answer::Integer(1));
    fixture.stop();
    let fixture = Fixture::start();
    let mut client = fixture.client();
    assert!(
        matches!(client.ask("DEBUG PANIC"), Answer::Error(text) if text.contains("not allowed"))
    );
    assert_eq!(client.ask("PING"), Answer::Simple("PONG".into()));
    fixture.stop();
}

#[test]
fn a_port_in_use_is_named_with_what_to_do() {
    let fixture = Fixture::start();
    let directory = tempfile::tempdir().unwrap();
    let config = Config {
        port: fixture.address.port(),
        ..Config::default()
    };
    let failed = Server::start(config, velella::open(directory.path()).unwrap());
    let text = failed.unwrap_err().to_string();
    assert!(text.contains(&fixture.address.to_string()), "{text}");
    assert!(text.contains("choose another port"), "{text}");
    fixture.stop();
}

#[test]
fn an_address_others_can_reach_is_refused_without_a_password() {
    let directory = tempfile::tempdir().unwrap();
    let bind = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let config = Config {
        bind,
        port: 0,
        ..Config::default()
    };
    let failed = Server::start(config, velella::open(directory.path()).unwrap());
    assert!(failed.unwrap_err().to_string().contains("requirepass"));
}

/// A server over a database whose files fail when told to.
fn faulty(journal: JournalMode) -> (Server, Client, FaultFs) {
    let faults = FaultFs::over_mem(&MemFs::new());
    let db = velella::Db::builder()
        .memory(16 << 20)
        .write_buffer(320 << 10)
        .journal(journal)
        .vfs(std::sync::Arc::new(faults.clone()))
        .open("/db")
        .unwrap();
    let config = Config {
        port: 0,
        ..Config::default()
    };
    let server = Server::start(config, db).unwrap();
    let client = Client::connect(server.address());
    (server, client, faults)
}

/// The name of the journal's segment that has these bytes somewhere.
fn segment_with(bytes: &[u8], files: &dyn Vfs) -> String {
    let journal = Path::new("/db/journal");
    let mut names = files.read_dir(journal).unwrap();
    names.retain(|name| {
        if name.extension().is_none_or(|kind| kind != "seg") {
            return false;
        }
        let file = files.open_read(&journal.join(name)).unwrap();
        let mut content = vec![0; usize::try_from(file.len()).unwrap()];
        file.read_exact_at(&mut content, 0).unwrap();
        content.windows(bytes.len()).any(|window| window == bytes)
    });
    names.pop().unwrap().to_string_lossy().into_owned()
}

/// Whether the lines stand in INFO.
fn told(client: &mut Client, lines: &[&str]) -> bool {
    let Answer::Bulk(text) = client.ask("INFO persistence") else {
        panic!("text");
    };
    let text = String::from_utf8(text).unwrap();
    lines.iter().all(|line| text.lines().any(|l| l == *line))
}

#[test]
fn info_tells_when_nothing_can_be_written_any_more() {
    let (_server, mut client, faults) = faulty(JournalMode::Write);
    assert_eq!(client.ask("SET k v"), ok());
    let well = ["rdb_last_bgsave_status:ok", "aof_last_write_status:ok"];
    assert!(told(&mut client, &well));
    faults.inject(Rule::every(Fault::Io).of(Operation::SyncData));
    assert!(matches!(client.ask("SAVE"), Answer::Error(_)));
    let ill = ["rdb_last_bgsave_status:err", "aof_last_write_status:err"];
    assert!(told(&mut client, &ill));
    let Answer::Bulk(info) = client.ask("INFO velella") else {
        panic!("a text")
    };
    let info = String::from_utf8(info).unwrap();
    assert!(info.contains("\r\nread_only:"), "{info}");
}

#[test]
fn a_write_that_the_journal_fails_to_take_is_told_to_be_in_doubt() {
    let said = |answer: &Answer, begins: &str| -> bool {
        matches!(answer, Answer::Error(text) if text.starts_with(begins))
    };
    let mut told = Vec::new();
    // Where a round of the journal comes in between it meets the fault first.
    for _ in 0..20 {
        let (_server, mut client, faults) = faulty(JournalMode::Write);
        assert_eq!(client.ask("SET k what-is-looked-for"), ok());
        // That file alone: the journal makes the next ones ready on its own, and may be at it.
        let segment = segment_with(b"what-is-looked-for", &faults);
        faults.inject(Rule::every(Fault::Io).of(Operation::Write).on(&segment));
        let first = client.ask("SET k w");
        if said(&first, "MISCONF the write may survive, or may not:") {
            let next = client.ask("SET k x");
            assert!(said(&next, "MISCONF cannot"), "{next:?}");
            return;
        }
        told.push(first);
    }
    panic!("{told:?}");
}

#[test]
fn a_sync_that_fails_takes_no_reply_from_what_came_before_its_write() {
    let (_server, mut client, faults) = faulty(JournalMode::Write);
    assert_eq!(client.ask("KV.DURABILITY sync"), ok());
    assert_eq!(client.ask("SET k v"), ok());
    faults.inject(Rule::every(Fault::Io).of(Operation::SyncData));
    let commands: [&[&[u8]]; 5] = [
        &[b"GET", b"k"],
        &[b"STRLEN", b"k"],
        &[b"SET", b"k", b"w"],
        &[b"GET", b"k"],
        &[b"PING"],
    ];
    client.send(&commands.map(encode).concat());
    assert_eq!(client.answer(), common::bulk("v"));
    assert_eq!(client.answer(), Answer::Integer(1));
    let told = client.answer();
    assert!(
        matches!(&told, Answer::Error(text) if text.starts_with("MISCONF")),
        "{told:?}"
    );
    assert!(client.closed());
}

#[test]
fn info_tells_of_a_shortage_while_it_lasts() {
    let _watchdog = Watchdog::new("info_tells_of_a_shortage", 120);
    let (_server, mut client, faults) = faulty(JournalMode::Write);
    let no_tables = Rule::every(Fault::NoSpace).of(Operation::Create).on(".sst");
    faults.inject(no_tables);
    let value = vec![b'v'; 10_000];
    for n in 0..60 {
        let key = format!("k{n}");
        assert_eq!(client.call(&[b"SET", key.as_bytes(), &value]), ok());
    }
    let short = ["rdb_last_bgsave_status:err", "aof_last_write_status:ok"];
    while !told(&mut client, &short) {}
    faults.reset();
    while !told(&mut client, &["rdb_last_bgsave_status:ok"]) {}
}

#[test]
fn a_database_without_a_journal_has_no_append_only_file() {
    let setting = |answer: &str| Answer::Array(vec![bulk("appendonly"), bulk(answer)]);
    for (journal, line, answer) in [
        (JournalMode::Write, "aof_enabled:1", "yes"),
        (JournalMode::Off, "aof_enabled:0", "no"),
    ] {
        let (_server, mut client, _) = faulty(journal);
        assert!(told(&mut client, &[line]), "{journal:?}");
        assert_eq!(client.ask("CONFIG GET appendonly"), setting(answer));
    }
}

#[test]
fn a_reply_beyond_the_limit_is_refused_and_the_connection_goes_on() {
    let fixture = Fixture::with(|config| config.max_output_bytes = 1 << 20);
    let mut client = fixture.client();
    let value = vec![b'v'; 300 << 10];
    assert_eq!(client.call(&[b"SET", b"k", &value]), ok());
    let refused = client.ask("MGET k k k k k");
    assert!(
        matches!(&refused, Answer::Error(text) if text.contains("exceeds")),
        "{refused:?}"
    );
    assert_eq!(client.ask("STRLEN k"), Answer::Integer(300 << 10));
    let large = vec![b'v'; 2 << 20];
    assert_eq!(client.call(&[b"SET", b"k", &large]), ok());
    assert_eq!(client.ask("GET k"), Answer::Bulk(large));
    fixture.stop();
}

#[test]
fn a_reply_is_measured_by_itself_and_one_value_passes() {
    let fixture = Fixture::with(|config| config.max_output_bytes = 1 << 20);
    let mut client = fixture.client();
    let value = vec![b'v'; 900 << 10];
    assert_eq!(client.call(&[b"SET", b"k", &value]), ok());
    let mut pipeline = encode(&[b"GET", b"k"]);
    pipeline.extend(encode(&[b"MGET", b"k"]));
    pipeline.extend(encode(&[b"KV.SCAN", b"k", b"LIMIT", b"9"]));
    client.send(&pipeline);
    let value = Answer::Bulk(value);
    assert_eq!(client.answer(), value);
    assert_eq!(client.answer(), Answer::Array(vec![value.clone()]));
    assert_eq!(client.answer(), Answer::Array(vec![bulk("k"), value]));

    let large = vec![b'v'; 2 << 20];
    assert_eq!(client.call(&[b"SET", b"k", &large]), ok());
    let large = Answer::Bulk(large);
    let alone = Answer::Array(vec![large.clone(), Answer::Null]);
    assert_eq!(client.ask("MGET k absent"), alone);
    let pair = Answer::Array(vec![bulk("k"), large]);
    assert_eq!(client.ask("KV.SCAN k LIMIT 9"), pair);
    assert_eq!(client.ask("SET l v"), ok());
    for several in ["MGET k l", "KV.SCAN k LIMIT 9"] {
        let refused = client.ask(several);
        assert!(
            matches!(&refused, Answer::Error(text) if text.contains("exceeds")),
            "{several}"
        );
    }
    fixture.stop();
}

#[test]
fn a_command_described_again_and_again_is_refused_too() {
    let fixture = Fixture::with(|config| config.max_output_bytes = 1 << 20);
    let mut client = fixture.client();
    for what in ["DOCS", "INFO"] {
        let mut request = vec![&b"COMMAND"[..], what.as_bytes()];
        request.resize(2 + 40_000, b"client");
        let refused = client.call(&request);
        assert!(
            matches!(&refused, Answer::Error(text) if text.contains("exceeds")),
            "{what}"
        );
    }
    let mut request = vec![&b"COMMAND"[..], b"GETKEYS", b"DEL"];
    request.resize(3 + 100_000, b"client");
    let refused = client.call(&request);
    assert!(
        matches!(&refused, Answer::Error(text) if text.contains("exceeds")),
        "GETKEYS"
    );
    assert_eq!(client.ask("PING"), Answer::Simple("PONG".into()));
    fixture.stop();
}

#[test]
fn keys_and_values_are_limited_with_a_clear_error() {
    let fixture = Fixture::with(|config| config.max_bulk_bytes = 1 << 20);
    let mut client = fixture.client();
    for (len, fits) in [
        ((64 << 10) - 1, true),
        (64 << 10, true),
        ((64 << 10) + 1, false),
    ] {
        let answer = client.call(&[b"SET", &vec![b'k'; len], b"v"]);
        assert_eq!(answer == ok(), fits, "{len}: {answer:?}");
    }
    for (len, fits) in [
        ((1 << 20) - 1, true),
        (1 << 20, true),
        ((1 << 20) + 1, false),
    ] {
        let mut client = fixture.client();
        let answer = client.call_as_far_as_taken(&[b"SET", b"k", &vec![b'v'; len]]);
        assert_eq!(answer == ok(), fits, "{len}: {answer:?}");
    }
    let grown = client.call(&[b"SETRANGE", b"k", b"1048576", b"x"]);
    assert!(matches!(grown, Answer::Error(text) if text.contains("maximum allowed size")));
    fixture.stop();
}

#[test]
fn a_key_too_long_to_be_there_is_absent_to_whatever_writes_nothing() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    let long = vec![b'k'; (64 << 10) + 1];
    assert_eq!(client.ask("SET k v"), ok());
    let one_of_them = client.call(&[b"DEL", b"k", &long]);
    assert_eq!(one_of_them, Answer::Integer(1));
    assert_eq!(client.ask("SET k v"), ok());
    let lost = client.call(&[b"MSETNX", b"k", b"v", &long, b"v"]);
    assert_eq!(lost, Answer::Integer(0));
    for database in ["0", "7"] {
        assert_eq!(client.ask(&format!("SELECT {database}")), ok());
        for (command, rest) in [
            ("DEL", &[][..]),
            ("UNLINK", &[]),
            ("EXISTS", &[]),
            ("PERSIST", &[]),
            ("EXPIRE", &[&b"9"[..]]),
        ] {
            let mut call = vec![command.as_bytes(), &long];
            call.extend(rest);
            assert_eq!(client.call(&call), Answer::Integer(0), "{command}");
        }
        for command in ["GET", "GETDEL", "GETEX"] {
            let answer = client.call(&[command.as_bytes(), &long]);
            assert_eq!(answer, Answer::Null, "{command}");
        }
        for command in ["SET", "GETSET", "APPEND"] {
            let answer = client.call(&[command.as_bytes(), &long, b"v"]);
            assert!(
                matches!(&answer, Answer::Error(text) if text.contains("65537 bytes")),
                "{command}: {answer:?}"
            );
        }
    }
    fixture.stop();
}

#[test]
fn shutdown_sends_what_is_written_and_keeps_what_is_acknowledged() {
    let directory = tempfile::tempdir().unwrap();
    let config = || Config {
        port: 0,
        ..Config::default()
    };
    let server = Server::start(config(), velella::open(directory.path()).unwrap()).unwrap();
    let mut client = Client::connect(server.address());
    for undecided in ["SHUTDOWN NOSAVE SAVE", "SHUTDOWN ABORT NOW", "SHUTDOWN x"] {
        assert_eq!(client.ask(undecided), error("ERR syntax error"));
    }
    let mut pipeline: Vec<u8> = (0..100)
        .flat_map(|number: u32| encode(&[b"SET", number.to_string().as_bytes(), b"v"]))
        .collect();
    pipeline.extend(encode(&[b"SHUTDOWN"]));
    client.send(&pipeline);
    for _ in 0..100 {
        assert_eq!(client.answer(), ok());
    }
    assert!(client.closed());
    server.wait().unwrap();
    let server = Server::start(config(), velella::open(directory.path()).unwrap()).unwrap();
    let mut client = Client::connect(server.address());
    assert_eq!(client.ask("DBSIZE"), Answer::Integer(100));
    server.handle().stop();
    server.wait().unwrap();
    assert!(client.closed());
}

/// Each reply is more than the kernel takes at once, so the client is never quite up to date.
#[test]
fn replies_to_a_slow_reader_are_each_within_the_limit() {
    let fixture = Fixture::with(|config| config.max_output_bytes = 16 << 20);
    let mut client = fixture.client();
    let value = vec![b'v'; 900 << 10];
    assert_eq!(client.call(&[b"SET", b"k", &value]), ok());
    let request: Vec<&[u8]> = std::iter::once(&b"MGET"[..])
        .chain(std::iter::repeat_n(&b"k"[..], 8))
        .collect();
    client.send(&encode(&request).repeat(40));
    for turn in 0..40 {
        std::thread::sleep(Duration::from_millis(5));
        let answer = client.answer();
        let Answer::Array(values) = answer else {
            panic!("{turn}: {answer:?}")
        };
        assert_eq!(values.len(), 8, "{turn}");
    }
    fixture.stop();
}

/// A short request for the same long value again and again.
#[cfg(target_os = "linux")]
#[test]
fn commands_over_many_values_hold_one_at_a_time() {
    let fixture = Fixture::start();
    let mut client = fixture.client();
    let value = vec![b'v'; 900 << 10];
    assert_eq!(client.call(&[b"SET", b"k", &value]), ok());
    let before = common::most_memory();
    let times = |head: &[&'static [u8]]| {
        let again = std::iter::repeat_n(&b"k"[..], 1_500);
        head.iter().copied().chain(again).collect::<Vec<_>>()
    };
    let refused = client.call(&times(&[b"MGET"]));
    assert!(
        matches!(&refused, Answer::Error(text) if text.contains("exceeds")),
        "{refused:?}"
    );
    let combined = client.call(&times(&[b"BITOP", b"OR", b"d"]));
    assert_eq!(combined, Answer::Integer(900 << 10));
    // All at once they are 1.3 GB; what other tests need at the same time counts as well.
    let grown = common::most_memory() - before;
    assert!(grown < 600 << 20, "{grown} bytes");
    fixture.stop();
}
