//! `velella put`: one value, from the command line, a file or standard input.
//!
//! Tests: `tests/pairs.rs`.

use crate::database::{Escaped, KeyspaceName, Place};
use crate::failure::{Failure, say};
use crate::human;
use crate::output::{JsonBytes, Output};
use crate::text;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use velella::{Db, Durability, Error, WriteOptions, limits};

/// Arguments of `put`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella put user:1 'Ada Lovelace'
  velella put photo --file photo.jpg --sync
  date | velella put started --expires-in 1h
  velella put -e 'id\\x00\\xff' 'one\\ttwo'

Without VALUE and --file the value is read from standard input, to its end.
The database and the keyspace are created if they are missing.")]
pub(crate) struct Put {
    /// The key
    key: OsString,
    /// The value
    #[arg(conflicts_with = "file")]
    value: Option<OsString>,
    /// Take the value from this file
    #[arg(long, short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    keyspace: KeyspaceName,
    #[command(flatten)]
    escaped: Escaped,
    /// Forget the key after this time, such as 30s, 10m, 2h or 7d
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    expires_in: Option<Duration>,
    /// Return when the value is on the device
    #[arg(long)]
    sync: bool,
}

#[derive(Serialize)]
struct Stored<'a> {
    key: JsonBytes<'a>,
    value_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
    stamp: u64,
}

impl Put {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let key = self.escaped.bytes(self.key)?;
        limits::check_key(&key)?;
        self.keyspace.check()?;
        let value = match (self.value, self.file) {
            (Some(value), _) => self.escaped.bytes(value)?,
            (None, Some(file)) => read_file(&file)?,
            (None, None) => read_standard_input()?,
        };
        // First of all: what is refused leaves no directory behind.
        limits::check_value(&value)?;
        let options = WriteOptions {
            durability: self.sync.then_some(Durability::Sync),
        };
        let db = self.place.open_or_create(output)?;
        let keyspace = self.keyspace.of_or_create(&db)?;
        let expires_at_ms = self.expires_in.map(|time| from_now(&db, time));
        let stamp = match expires_at_ms {
            Some(at) => keyspace.put_expiring(&key, &value, at, options)?,
            None => keyspace.put_with(&key, &value, options)?,
        };
        db.close()?;
        let stored = Stored {
            key: JsonBytes(&key),
            value_bytes: value.len(),
            expires_at_ms,
            stamp: stamp.0,
        };
        output.result(&stored, |out| {
            let size = human::bytes(value.len() as u64);
            writeln!(out, "stored {size} at `{}`", text::escape(&key))
        })
    }
}

/// Reads how long a key is to live: in whole milliseconds, and not for no time at all.
fn lifetime(text: &str) -> Result<Duration, String> {
    match human::parse_duration(text)? {
        time if time.as_millis() > 0 => Ok(time),
        _ => Err(format!("a key lives for 1ms at least, not `{text}`")),
    }
}

/// The instant `time` from now, in milliseconds since 1970, by the clock by which keys expire: the
/// machine's may have been set back since the database was last used.
fn from_now(db: &Db, time: Duration) -> u64 {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    db.now_ms().saturating_add(ms)
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let attempt = "read the value from";
    let file = File::open(path).map_err(|error| Error::io(attempt, path, error))?;
    bounded(file).map_err(|error| Error::io(attempt, path, error).into())
}

fn read_standard_input() -> Result<Vec<u8>, Failure> {
    if io::stdin().is_terminal() {
        say("Reading the value from the terminal; end it with Ctrl-D.");
    }
    let attempt = "read the value from";
    bounded(io::stdin().lock())
        .map_err(|error| Error::io(attempt, Path::new("standard input"), error).into())
}

/// Reads to the end, but no more than shows that it is too much; it is refused then.
fn bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut value = Vec::new();
    source
        .take(limits::VALUE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut value)?;
    Ok(value)
}
