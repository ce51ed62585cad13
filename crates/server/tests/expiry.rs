//! Times to live where the machine's clock was set back: keys expire by the database's clock, which
//! does not go back, so what counts from now counts from its now.

#![allow(clippy::unwrap_used, reason = "what helps a test fails as a test does")]

use crate::common::{Answer, Client, bulk, ok};
use velella::Db;
use velella::simulation::{Simulation, Sizes};
use velella_server::{Config, Server};
use velella_sync::thread::wall_ms;

/// How far the clock of the machine that used the database before was ahead of this one's.
const AHEAD_MS: u64 = 3_600_000;

/// How long keys are to live. Each test ends long before the clock has caught up, so the database's
/// time stands still, and what is left of a time to live is known to the millisecond.
const LIFE_MS: i64 = 60_000;

/// A database whose time stands still, a server over it, and a client.
struct SetBack {
    server: Server,
    client: Client,
    now_ms: i64,
    _directory: tempfile::TempDir,
}

impl SetBack {
    fn start() -> SetBack {
        let directory = tempfile::tempdir().unwrap();
        let ahead = Simulation::begin(wall_ms() + AHEAD_MS);
        let before = Db::builder().memory(16 << 20).simulated(Sizes::SMALL);
        before.open(directory.path()).unwrap().close().unwrap();
        drop(ahead);
        let db = velella::open(directory.path()).unwrap();
        let now_ms = db.now_ms();
        assert!(now_ms > wall_ms() + AHEAD_MS / 2, "its time stands still");
        let config = Config {
            port: 0,
            threads: 1,
            ..Config::default()
        };
        let server = Server::start(config, db).unwrap();
        SetBack {
            client: Client::connect(server.address()),
            server,
            now_ms: now_ms.try_into().unwrap(),
            _directory: directory,
        }
    }

    /// `key` has the value `v`, and lives for `LIFE_MS` from the database's now on.
    #[track_caller]
    fn lives(&mut self, key: &str) {
        assert_eq!(self.client.ask(&format!("GET {key}")), bulk("v"));
        for (command, answer) in [
            ("TTL", LIFE_MS / 1000),
            ("PTTL", LIFE_MS),
            ("PEXPIRETIME", self.now_ms + LIFE_MS),
        ] {
            let told = self.client.ask(&format!("{command} {key}"));
            assert_eq!(told, Answer::Integer(answer), "{command} {key}");
        }
    }

    fn stop(self) {
        self.server.handle().stop();
        self.server.wait().unwrap();
    }
}

#[test]
fn what_is_set_to_live_a_while_lives_that_long_where_the_clock_was_set_back() {
    let mut it = SetBack::start();
    for (key, command) in [
        ("ex", "SET ex v EX 60"),
        ("px", "SET px v PX 60000"),
        ("nx", "SET nx v NX EX 60"),
        ("setex", "SETEX setex 60 v"),
        ("psetex", "PSETEX psetex 60000 v"),
    ] {
        assert_eq!(it.client.ask(command), ok(), "{command}");
        it.lives(key);
    }
    it.stop();
}

#[test]
fn a_time_to_live_deletes_no_data_where_the_clock_was_set_back() {
    let mut it = SetBack::start();
    for (key, command, answer) in [
        ("a", "EXPIRE a 60", Answer::Integer(1)),
        ("b", "PEXPIRE b 60000", Answer::Integer(1)),
        ("c", "GETEX c EX 60", bulk("v")),
    ] {
        assert_eq!(it.client.ask(&format!("SET {key} v")), ok());
        assert_eq!(it.client.ask(command), answer, "{command}");
        it.lives(key);
    }
    it.stop();
}

/// Whoever names an instant means that one: whether it is past is for the database's clock to say.
#[test]
fn an_instant_stays_as_given_where_the_clock_was_set_back() {
    let mut it = SetBack::start();
    let (past, future) = (it.now_ms - 60_000, it.now_ms + LIFE_MS);
    assert_eq!(it.client.ask(&format!("SET k v PXAT {future}")), ok());
    it.lives("k");
    assert_eq!(it.client.ask(&format!("SET k v PXAT {past}")), ok());
    assert_eq!(it.client.ask("GET k"), Answer::Null);
    assert_eq!(it.client.ask("SET k v"), ok());
    let set = it.client.ask(&format!("PEXPIREAT k {past}"));
    assert_eq!(set, Answer::Integer(1));
    assert_eq!(it.client.ask("EXISTS k"), Answer::Integer(0));
    it.stop();
}

#[test]
fn info_tells_the_mean_time_to_live_where_the_clock_was_set_back() {
    let mut it = SetBack::start();
    let at = it.now_ms + LIFE_MS;
    assert_eq!(it.client.ask(&format!("SET k v PXAT {at}")), ok());
    let expected = format!("# Keyspace\r\ndb0:keys=1,expires=1,avg_ttl={LIFE_MS}\r\n");
    assert_eq!(it.client.ask("INFO keyspace"), bulk(&expected));
    it.stop();
}
