//! A server as a process: started, asked, killed.
//!
//! P1. It is killed, and waited for, whatever becomes of the run.
//! P2. With both kinds an acknowledged write survives `kill -9` and is not waited for on the
//!     device: Redis has an append-only file that is written before it answers, Velella's default
//!     is the same.
//!
//! Tests: `tests/servers.rs`.

use crate::failure::{Failure, Outcome};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it answers: it may have to read its data first.
const START_TIME: Duration = Duration::from_secs(120);
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Velella,
    Redis,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Velella => "velella",
            Kind::Redis => "redis",
        }
    }

    /// P2.
    fn arguments(self, port: u16, dir: &Path) -> Vec<String> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let mut all = match self {
            Kind::Velella => words(&format!("serve --port {port} --dir")),
            Kind::Redis => {
                let mut all = words(&format!("--port {port} --bind 127.0.0.1"));
                all.extend(words("--appendonly yes --appendfsync no"));
                all.extend(["--save".to_owned(), String::new(), "--dir".to_owned()]);
                all
            }
        };
        all.push(dir.display().to_string());
        all
    }
}

/// A server that runs.
pub(super) struct Server {
    kind: Kind,
    child: Child,
    port: u16,
}

impl Server {
    /// Starts `program` on what is in `dir`, and waits until it answers.
    pub(super) fn start(kind: Kind, program: &Path, dir: &Path) -> Outcome<Server> {
        let name = kind.name();
        let data = dir.join("data");
        std::fs::create_dir_all(&data).map_err(|error| Failure::file("create", &data, error))?;
        let port = free_port().map_err(|error| Failure::system("find a free port", error))?;
        let log = dir.join("server.log");
        let out = std::fs::File::create(&log);
        let out = out.map_err(|error| Failure::file("create", &log, error))?;
        let child = Command::new(program)
            .args(kind.arguments(port, &data))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(out)
            .spawn()
            .map_err(|error| {
                let found = match error.kind() {
                    std::io::ErrorKind::NotFound => format!(
                        "there is no such program; build or install it, or name it with --{name}"
                    ),
                    _ => error.to_string(),
                };
                Failure::system(&format!("start {}", program.display()), found)
            })?;
        let mut server = Server { kind, child, port };
        let began = Instant::now();
        loop {
            if server.ask("PING").is_ok_and(|reply| reply == "+PONG") {
                return Ok(server);
            }
            let ended = server.child.try_wait().ok().flatten();
            if ended.is_some() || began.elapsed() > START_TIME {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(Failure::store(name, "start", said.trim()));
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The processor time that it has taken, in ticks of 10 ms; `None` where `/proc` does not tell.
    pub(super) fn cpu(&self) -> Option<Duration> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).ok()?;
        // The fields behind the name, which may itself hold spaces: utime is the 12th, then stime.
        let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some(Duration::from_millis((ticks()? + ticks()?) * 10))
    }

    /// Keys that it has.
    pub(super) fn count_keys(&mut self) -> Outcome<u64> {
        let failed = |found: String| Failure::store(self.kind.name(), "count its keys", found);
        let reply = self
            .ask("DBSIZE")
            .map_err(|error| failed(error.to_string()))?;
        let count = reply.strip_prefix(':').and_then(|count| count.parse().ok());
        count.ok_or_else(|| failed(reply))
    }

    /// The line that answers `command`.
    fn ask(&self, command: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(START_TIME))?;
        stream.write_all(format!("{command}\r\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Kills it, as a crash would.
    pub(super) fn kill(mut self) -> Outcome<()> {
        let killed = self.child.kill().and_then(|()| self.child.wait());
        killed
            .map(drop)
            .map_err(|error| Failure::system("kill a server", error))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // P1. It may be gone already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on at the moment.
fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
