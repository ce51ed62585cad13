//! A server as a process: started, asked, killed.
//!
//! P1. It is killed, and waited for, whatever becomes of the run.
//! P2. With both kinds an acknowledged write survives `kill -9`, and the device has it within a
//!     second or so, without anybody waiting: Velella's default, and Redis' append-only file with
//!     `appendfsync everysec`. Redis does not rewrite that file meanwhile, which it would do in
//!     another process, whose time nobody would see.
//!
//! Tests: `tests/servers.rs`.

use crate::failure::{Failure, Outcome};
use crate::meters::processor_time;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it answers: it may have to read its data first.
const START_TIME: Duration = Duration::from_secs(120);
/// Keys of each kind that one request stores while a server is loaded, and bytes of their values.
const LOAD_KEYS_MAX: u64 = 100;
const LOAD_BYTES_MAX: u64 = 4 << 20;
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
                all.extend(words("--appendonly yes --appendfsync everysec"));
                all.extend(words("--auto-aof-rewrite-percentage 0"));
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
        let file = std::fs::File::create(&log).and_then(|out| Ok((out.try_clone()?, out)));
        let (out, err) = file.map_err(|error| Failure::file("create", &log, error))?;
        let child = Command::new(program)
            .args(kind.arguments(port, &data))
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err)
            .spawn()
            .map_err(|error| absent(program, &error))?;
        let mut server = Server { kind, child, port };
        let began = Instant::now();
        loop {
            let answers = server.ask("PING").is_ok_and(|reply| reply == "+PONG");
            // Looked at after the answer, which may be another program's that took the port.
            let ended = server.child.try_wait().ok().flatten();
            if answers && ended.is_none() {
                return Ok(server);
            }
            if ended.is_some() || began.elapsed() > START_TIME {
                let said = std::fs::read_to_string(&log).unwrap_or_default();
                let how = ended.map_or_else(
                    || format!("no answer in {} s", START_TIME.as_secs()),
                    |status| status.to_string(),
                );
                return Err(Failure::store(
                    name,
                    "start",
                    format!("{how}: {}", said.trim()),
                ));
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// The processor time that it has taken, where the system tells.
    pub(super) fn cpu(&self) -> Option<Duration> {
        processor_time(&self.child.id().to_string())
    }

    /// Stores all keys that the load generator draws: those of SET, GET and MSET, and counters.
    pub(super) fn load(&self, keys: u64, value_bytes: u64) -> Outcome<()> {
        let failed = |found: String| Failure::store(self.kind.name(), "load its keys", found);
        let value = "x".repeat(usize::try_from(value_bytes).unwrap_or(usize::MAX));
        let told = |error: std::io::Error| failed(error.to_string());
        let mut stream = self.connect().map_err(told)?;
        let mut replies = BufReader::new(stream.try_clone().map_err(told)?);
        let (mut request, mut line) = (String::new(), String::new());
        let at_once = (LOAD_BYTES_MAX / value_bytes.max(1)).clamp(1, LOAD_KEYS_MAX);
        let mut first = 0;
        while first < keys {
            let last = keys.min(first + at_once);
            request.clear();
            request.push_str(&format!("*{}\r\n$4\r\nMSET\r\n", 1 + 4 * (last - first)));
            for key in first..last {
                for (name, value) in [("key", value.as_str()), ("counter", "0")] {
                    let key = format!("{name}:{key:012}");
                    for word in [key.as_str(), value] {
                        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
                    }
                }
            }
            line.clear();
            stream.write_all(request.as_bytes()).map_err(told)?;
            replies.read_line(&mut line).map_err(told)?;
            if line.trim_end() != "+OK" {
                return Err(failed(line));
            }
            first = last;
        }
        Ok(())
    }

    /// A number of INFO's.
    pub(super) fn count(&self, name: &str) -> Outcome<u64> {
        let failed = |found: String| Failure::store(self.kind.name(), "tell its counts", found);
        let told = |error: std::io::Error| failed(error.to_string());
        let mut stream = self.connect().map_err(told)?;
        stream.write_all(b"INFO stats\r\n").map_err(told)?;
        let mut replies = BufReader::new(stream);
        let mut line = String::new();
        while replies.read_line(&mut line).map_err(told)? > 0 {
            let found = line.trim_end().split_once(':');
            if let Some((_, number)) = found.filter(|(field, _)| *field == name) {
                return number.parse().map_err(|_| failed(line.clone()));
            }
            line.clear();
        }
        Err(failed(format!("there is no `{name}`")))
    }

    /// Keys that it has.
    pub(super) fn count_keys(&self) -> Outcome<u64> {
        let failed = |found: String| Failure::store(self.kind.name(), "count its keys", found);
        let reply = self
            .ask("DBSIZE")
            .map_err(|error| failed(error.to_string()))?;
        let count = reply.strip_prefix(':').and_then(|count| count.parse().ok());
        count.ok_or_else(|| failed(reply))
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(START_TIME))?;
        Ok(stream)
    }

    /// The line that answers `command`.
    fn ask(&self, command: &str) -> std::io::Result<String> {
        let mut stream = self.connect()?;
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

/// What `program` says that it is.
pub(super) fn version(program: &Path) -> Outcome<String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|error| absent(program, &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Why `program` did not start.
pub(super) fn absent(program: &Path, error: &std::io::Error) -> Failure {
    let found = match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such program; build Velella with `cargo \
            build --release`, install Debian's redis-server and redis-tools, or name programs \
            with --velella, --redis and --client"
            .to_owned(),
        _ => error.to_string(),
    };
    Failure::system(&format!("start {}", program.display()), found)
}

/// A port that nobody listens on at the moment.
fn free_port() -> std::io::Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
