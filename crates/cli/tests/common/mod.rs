//! Runs the binary in a directory of its own.
//!
//! No test waits for time to pass: a server tells its address when it listens.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking, its helpers too"
)]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};
use velella::Db;
use velella::simulation::{Simulation, Sizes};

/// A directory in which the binary is run; its database is `./velella-data`.
pub(crate) struct Place(tempfile::TempDir);

/// What the binary said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    /// Its database was last used by a machine whose clock was an hour ahead of this one's.
    pub(crate) fn with_the_clock_set_back() -> Self {
        let place = Place::new();
        let _ahead = Simulation::begin(wall_ms() + 3_600_000);
        let builder = Db::builder().memory(16 << 20).simulated(Sizes::SMALL);
        builder.open(place.data()).unwrap().close().unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("velella-data")
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The binary with these arguments, not started yet.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_velella"));
        command.args(arguments).current_dir(self.0.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Said {
        Said::of(self.command(arguments).output().unwrap())
    }

    /// Runs it; it must succeed.
    pub(crate) fn ok<S: AsRef<OsStr> + std::fmt::Debug>(&self, arguments: &[S]) -> Said {
        let said = self.run(arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {}", said.err);
        said
    }

    /// Runs it with `input` on standard input.
    pub(crate) fn run_with<S: AsRef<OsStr>>(&self, arguments: &[S], input: &[u8]) -> Said {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        // The binary may end before it has read everything.
        let _ = child.stdin.take().unwrap().write_all(input);
        Said::of(child.wait_with_output().unwrap())
    }
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Said {
            code: output.status.code(),
            out: output.stdout,
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.out).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.out).unwrap()
    }

    /// It must have failed with `code`, and said all of `words`.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.err);
        for word in words {
            assert!(self.err.contains(word), "no `{word}` in: {}", self.err);
        }
        assert!(!self.err.contains("panicked"), "{}", self.err);
    }
}

/// A server that is killed when it goes out of scope.
pub(crate) struct Server {
    child: Child,
    pub(crate) hello: serde_json::Value,
}

impl Server {
    /// Starts it on a port of the system's choice, and waits until it listens.
    pub(crate) fn start(place: &Place) -> Self {
        Server::started(place.command(&["serve", "--port", "0", "--json"]))
    }

    /// As `command` starts it, which is to give `--json`.
    pub(crate) fn started(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let Ok(hello) = serde_json::from_str(&line) else {
            let _ = child.kill();
            panic!("no greeting but {line:?}: {:?}", child.wait_with_output());
        };
        Server { child, hello }
    }

    pub(crate) fn address(&self) -> &str {
        self.hello["address"].as_str().unwrap()
    }

    /// `kill -9`, and the wait for its end.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits for it.
    pub(crate) fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This machine's clock: milliseconds since 1970.
pub(crate) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// The files in a directory and below whose names end on `extension`.
pub(crate) fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}
