//! `velella serve`: a server for Redis clients over one database.
//!
//! Says what it did (created or opened, what recovery found, where it listens) and what to type
//! next; on standard error that opening takes a while, and later what keeps it from taking writes.
//! Ends on SIGINT, SIGTERM and SIGHUP after a clean close.
//!
//! Tests: `tests/serve.rs`.

use crate::database::{Place, advised};
use crate::failure::Failure;
use crate::human;
use crate::output::Output;
use crate::recovery;
use crate::watch::Watch;
use clap::Args;
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use velella::{Db, Durability, Error, ErrorKind};
use velella_server::{Bound, Config, GROUP_WAIT_MAX, PASSWORD_BYTES_MAX, Server};

/// Arguments of `serve`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  velella serve
  velella serve --port 7000 --dir /var/lib/velella --memory 4GiB
  velella serve --durability group:5ms
  velella serve --bind 0.0.0.0 --requirepass-file /etc/velella/password

Durability of writes that do not say:
  buffered    survives kill -9 at once; a power loss loses at most the last second
  sync        on the device before the reply; clients share one sync
  group:5ms   as sync, but a sync may wait this long for company, 1s at most

Stop it with Ctrl-C, SIGTERM or SIGHUP; kill -9 loses no acknowledged write.")]
pub(crate) struct Serve {
    /// Port to listen on; 0 lets the system choose
    #[arg(long, short = 'P', default_value_t = 6380, value_name = "PORT")]
    port: u16,
    #[command(flatten)]
    place: Place,
    /// Address to listen on; any but a loopback address needs a password
    #[arg(long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    bind: IpAddr,
    /// Memory for everything: memtables, block cache, filters, indexes, journal
    #[arg(long, default_value = "1GiB", value_name = "BYTES", value_parser = human::parse_bytes)]
    memory: u64,
    /// Durability of writes that do not say: buffered, sync or group:TIME
    #[arg(long, default_value = "buffered", value_name = "CLASS", value_parser = durability)]
    durability: Durability,
    /// File with the password that clients give by AUTH
    #[arg(long, value_name = "FILE")]
    requirepass_file: Option<PathBuf>,
    /// Most clients at once
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    maxclients: usize,
    /// Close a client that is idle this long, in seconds, rounded up; 0: never
    #[arg(
        long,
        value_name = "TIME",
        default_value = "5m",
        value_parser = human::parse_duration_or_none
    )]
    timeout: Duration,
    /// Network threads; 0: one per core
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// Reads a durability class.
fn durability(text: &str) -> Result<Durability, String> {
    match text.split_once(':') {
        None if text == "buffered" => Ok(Durability::Buffered),
        None if text == "sync" => Ok(Durability::Sync),
        Some(("group", time)) => match human::parse_duration(time)? {
            wait if wait <= GROUP_WAIT_MAX => Ok(Durability::Group(wait)),
            _ => Err(format!(
                "a sync waits {} ms at most: choose a time up to that, such as group:5ms",
                GROUP_WAIT_MAX.as_millis()
            )),
        },
        _ => Err("choose buffered, sync, or group and a time, such as group:5ms".to_owned()),
    }
}

impl Serve {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let config = Config {
            bind: self.bind,
            port: self.port,
            requirepass: self.requirepass_file.as_deref().map(password).transpose()?,
            maxclients: self.maxclients,
            timeout: self.timeout,
            threads: self.threads,
            ..Config::default()
        };
        // First of all: a server that cannot listen leaves no directory behind.
        let bound = Bound::new(config)?;
        let existed = is_database(&self.place.dir);
        let builder = self.place.builder();
        let builder = builder.memory(self.memory).durability(self.durability);
        let db = self.place.open_by(builder, output).map_err(advised)?;
        let start = Start {
            created: !existed,
            has_password: self.requirepass_file.is_some(),
            durability: self.durability,
            db: db.clone(),
        };
        let as_json = output.json;
        let watch = Watch::begin(db.clone(), move |change| change.say(as_json));
        let watch = watch.map_err(|error| Error::io("watch over", &self.place.dir, error))?;
        let served = bound.serve(db.clone(), |server| {
            // A server whose standard output is closed still serves.
            let _ = start.tell(server, output);
        });
        drop(watch);
        // A second close after the server's own is harmless; after its failure it is needed.
        let closed = db.close();
        served?;
        match closed {
            Err(error) if error.kind() != ErrorKind::Closed => Err(error.into()),
            _ => {
                output.note("closed");
                Ok(())
            }
        }
    }
}

/// Whether a database was made there: a volume may have a `lost+found` of its own.
fn is_database(dir: &Path) -> bool {
    dir.join("CURRENT").exists()
}

/// The password in the first line of a file.
fn password(path: &Path) -> Result<String, Failure> {
    use std::io::{BufRead, BufReader, Read};
    let attempt = "read the password from";
    let refused = |found: String, remedy: &'static str| {
        let error = Error::new(ErrorKind::InvalidInput, attempt, found);
        Err(error.on(path).remedy(remedy).into())
    };
    // The longest with its line's end, so that one byte more is seen.
    let bytes_max = PASSWORD_BYTES_MAX as u64 + 2;
    let mut line = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| BufReader::new(file.take(bytes_max)).read_until(b'\n', &mut line))
        .map_err(|error| Error::io(attempt, path, error))?;
    if line.ends_with(b"\n") {
        line.pop();
        line.pop_if(|byte| *byte == b'\r');
    }
    match String::from_utf8(line) {
        Ok(line) if line.is_empty() => refused(
            "its first line is empty".to_owned(),
            "write the password into its first line",
        ),
        Ok(line) if line.len() <= PASSWORD_BYTES_MAX => Ok(line),
        Err(error) if error.as_bytes().len() <= PASSWORD_BYTES_MAX => refused(
            "its first line is no UTF-8".to_owned(),
            "write the password into its first line",
        ),
        _ => refused(
            format!("its first line has more than {PASSWORD_BYTES_MAX} bytes"),
            "choose a shorter one",
        ),
    }
}

/// What happened before the first client.
struct Start {
    created: bool,
    has_password: bool,
    durability: Durability,
    db: Db,
}

impl Start {
    fn tell(&self, server: &Server, output: &mut Output) -> Result<(), Failure> {
        let (address, clients) = (server.address(), server.maxclients());
        let note = server.lowered_for().map(|files| {
            format!("maxclients lowered to {clients}: the process may open {files} files")
        });
        let report = self.db.recovery();
        let dir = self.db.path().display();
        let document = json!({
            "address": address.to_string(),
            "dir": dir.to_string(),
            "created": self.created,
            "maxclients": clients,
            "note": note,
            "recovery": report,
        });
        output.result(&document, |out| {
            writeln!(out, "velella {}", env!("CARGO_PKG_VERSION"))?;
            let did = if self.created {
                "created a database in"
            } else {
                "opened the database in"
            };
            writeln!(out, "  {did} {dir}")?;
            for line in recovery::lines(report, self.created) {
                writeln!(out, "  {line}")?;
            }
            let memory = human::bytes(self.db.options().memory);
            let access = self.db.stats().journal.access;
            writeln!(
                out,
                "  memory {memory}, journal {access}, {}",
                promise(self.durability)
            )?;
            if let Some(note) = &note {
                writeln!(out, "  {note}")?;
            }
            writeln!(out, "  listening on {address}; stop with Ctrl-C")?;
            let client = client(address, self.has_password);
            writeln!(out, "\nNow type in another terminal:")?;
            writeln!(out, "  {client} set greeting hello")?;
            writeln!(out, "  {client} get greeting")
        })
    }
}

/// How Redis' client is started for a server at `address`. Without being told it asks 127.0.0.1.
fn client(address: SocketAddr, has_password: bool) -> String {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip == Ipv4Addr::LOCALHOST || ip.is_unspecified() => String::new(),
        // Of IPv6 alone, perhaps, so that 127.0.0.1 would not reach it.
        IpAddr::V6(ip) if ip.is_unspecified() => format!(" -h {}", Ipv6Addr::LOCALHOST),
        ip => format!(" -h {ip}"),
    };
    let askpass = if has_password { " --askpass" } else { "" };
    format!("redis-cli{host} -p {}{askpass}", address.port())
}

fn promise(durability: Durability) -> String {
    match durability {
        Durability::Buffered => {
            "durability buffered: writes survive kill -9; a power loss may take the last second"
                .to_owned()
        }
        Durability::Sync => "durability sync: a reply means it is on the device".to_owned(),
        Durability::Group(time) => format!(
            "durability group: a reply means it is on the device; a sync waits up to {}",
            human::duration(time)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_durability_class_is_read() {
        assert_eq!(durability("buffered"), Ok(Durability::Buffered));
        assert_eq!(durability("sync"), Ok(Durability::Sync));
        assert_eq!(
            durability("group:5ms"),
            Ok(Durability::Group(Duration::from_millis(5)))
        );
        for text in ["", "group", "group:", "group:5", "fsync"] {
            assert!(durability(text).is_err(), "{text}");
        }
        let longest = Durability::Group(GROUP_WAIT_MAX);
        assert_eq!(durability("group:1s"), Ok(longest));
        for text in ["group:1001ms", "group:1h"] {
            let refused = durability(text).unwrap_err();
            assert!(
                refused.contains("a sync waits 1000 ms at most"),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_to_type_reaches_the_server() {
        for (address, expected) in [
            ("127.0.0.1:6380", "redis-cli -p 6380"),
            ("0.0.0.0:6380", "redis-cli -p 6380"),
            ("127.0.0.2:7000", "redis-cli -h 127.0.0.2 -p 7000"),
            ("10.1.2.3:6380", "redis-cli -h 10.1.2.3 -p 6380"),
            ("[::]:6380", "redis-cli -h ::1 -p 6380"),
            ("[::1]:6380", "redis-cli -h ::1 -p 6380"),
        ] {
            assert_eq!(client(address.parse().unwrap(), false), expected);
        }
        let with_password = client("127.0.0.1:6380".parse().unwrap(), true);
        assert_eq!(with_password, "redis-cli -p 6380 --askpass");
    }
}
