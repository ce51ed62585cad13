//! A server of its own for each test, and a client that speaks bytes.

#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(
    unreachable_pub,
    reason = "it is the interface of a module shared by test programs"
)]
#![allow(clippy::unwrap_used, reason = "what helps a test fails as a test does")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a length in a reply of the server under test is small and not below zero"
)]

use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use velella_server::{Config, Server};

/// A running server over an empty database that goes with it.
pub struct Fixture {
    pub server: Option<Server>,
    pub address: SocketAddr,
    _directory: tempfile::TempDir,
}

impl Fixture {
    /// With default settings, on a port of its own.
    pub fn start() -> Fixture {
        Fixture::with(|_| {})
    }

    /// With settings changed by `adapt`.
    pub fn with(adapt: impl FnOnce(&mut Config)) -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        let mut config = Config {
            port: 0,
            threads: 2,
            ..Config::default()
        };
        adapt(&mut config);
        let builder = velella::Db::builder().memory(64 << 20);
        let server = Server::start(config, builder.open(directory.path()).unwrap()).unwrap();
        let address = server.address();
        Fixture {
            server: Some(server),
            address,
            _directory: directory,
        }
    }

    /// Connects.
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Stops the server, and checks that it ends in good order.
    pub fn stop(mut self) {
        let server = self.server.take().unwrap();
        server.handle().stop();
        server.wait().unwrap();
    }
}

/// A server, and the database under it to look into.
pub fn over_a_database() -> (tempfile::TempDir, velella::Db, Server) {
    let directory = tempfile::tempdir().unwrap();
    let db = velella::open(directory.path()).unwrap();
    let config = Config {
        port: 0,
        threads: 2,
        ..Config::default()
    };
    let server = Server::start(config, db.clone()).unwrap();
    (directory, db, server)
}

/// A reply, decoded.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Answer>),
    Map(Vec<Answer>),
    Set(Vec<Answer>),
    Verbatim(String),
}

/// A blocking client.
pub struct Client {
    pub stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    /// Connects; what has no answer after two minutes, or their patience, hangs.
    pub fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        let limit = velella_testkit::patience(Duration::from_secs(120));
        stream.set_read_timeout(Some(limit)).unwrap();
        Client {
            stream,
            received: Vec::new(),
        }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a command of which the server may have read enough before it is all sent, and returns
    /// the answer.
    pub fn call_as_far_as_taken(&mut self, args: &[&[u8]]) -> Answer {
        match self.stream.write_all(&encode(args)) {
            Ok(()) => {}
            // It has answered and closed.
            Err(error) if matches!(error.kind(), BrokenPipe | ConnectionReset) => {}
            Err(error) => panic!("{error}"),
        }
        self.answer()
    }

    /// Sends a command given as words, and returns its answer.
    pub fn ask(&mut self, words: &str) -> Answer {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.call(&words)
    }

    /// Sends a command, and returns its answer.
    pub fn call(&mut self, args: &[&[u8]]) -> Answer {
        self.send(&encode(args));
        self.answer()
    }

    fn byte(&mut self, at: usize) -> Option<u8> {
        while self.received.len() <= at {
            let mut chunk = [0; 16 << 10];
            let got = match self.stream.read(&mut chunk) {
                Ok(got) => got,
                // A server that closes with bytes unread resets the connection.
                Err(error) if error.kind() == ConnectionReset => 0,
                Err(error) => panic!("no answer, and no end: {error}"),
            };
            if got == 0 {
                return None;
            }
            self.received.extend_from_slice(&chunk[..got]);
        }
        Some(self.received[at])
    }

    fn line(&mut self) -> Option<String> {
        let mut end = 0;
        while self.byte(end)? != b'\n' {
            end += 1;
        }
        let line: Vec<u8> = self.received.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line[..line.len() - 2]).into_owned())
    }

    /// The next answer; panics when the connection ends instead.
    pub fn answer(&mut self) -> Answer {
        self.try_answer().expect("the server closed the connection")
    }

    /// The next answer; `None` when the connection ends.
    pub fn try_answer(&mut self) -> Option<Answer> {
        let line = self.line()?;
        let (kind, text) = line.split_at(1);
        let number = || text.parse::<i64>().unwrap();
        Some(match kind {
            "+" => Answer::Simple(text.to_owned()),
            "-" => Answer::Error(text.to_owned()),
            ":" => Answer::Integer(number()),
            "_" => Answer::Null,
            "$" | "*" if number() < 0 => Answer::Null,
            "$" => Answer::Bulk(self.bulk(number())?),
            "=" => {
                let text = self.bulk(number())?;
                Answer::Verbatim(String::from_utf8(text[4..].to_vec()).unwrap())
            }
            "*" => Answer::Array(self.several(number())?),
            "~" => Answer::Set(self.several(number())?),
            "%" => Answer::Map(self.several(number() * 2)?),
            _ => panic!("no reply begins with {line:?}"),
        })
    }

    fn bulk(&mut self, len: i64) -> Option<Vec<u8>> {
        let len = len as usize;
        self.byte(len + 1)?;
        let bytes = self.received.drain(..len + 2).take(len).collect();
        Some(bytes)
    }

    fn several(&mut self, count: i64) -> Option<Vec<Answer>> {
        (0..count).map(|_| self.try_answer()).collect()
    }

    /// Whether the server has closed the connection, all answers taken.
    pub fn closed(&mut self) -> bool {
        self.received.is_empty() && self.byte(0).is_none()
    }
}

/// A command as an array of bulk strings.
pub fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend(format!("${}\r\n", arg.len()).bytes());
        bytes.extend_from_slice(arg);
        bytes.extend(b"\r\n");
    }
    bytes
}

pub fn ok() -> Answer {
    Answer::Simple("OK".into())
}

pub fn bulk(text: &str) -> Answer {
    Answer::Bulk(text.as_bytes().to_vec())
}

pub fn error(text: &str) -> Answer {
    Answer::Error(text.into())
}

/// The most memory this process ever had, in bytes.
#[cfg(target_os = "linux")]
pub fn most_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = most.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() << 10
}
