//! `velella get`: one value.
//!
//! Tests: `tests/pairs.rs`.

use crate::database::{Escaped, KeyspaceName, Place};
use crate::failure::{Failure, say};
use crate::output::{JsonBytes, Output};
use crate::text;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;

/// Arguments of `get`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella get user:1
  velella get --raw photo > photo.jpg
  velella get -e 'id\\x00\\xff' --json

Text is printed with \\t, \\n, \\r, \\\\ and \\xHH for what is not text; --raw prints the bytes alone.
An absent key: a message on standard error and exit code 1.")]
pub(crate) struct Get {
    /// The key
    key: OsString,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    keyspace: KeyspaceName,
    #[command(flatten)]
    escaped: Escaped,
    /// Print the value's bytes and nothing else
    #[arg(long)]
    raw: bool,
}

#[derive(Serialize)]
struct Found<'a> {
    key: JsonBytes<'a>,
    value: JsonBytes<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at_ms: Option<u64>,
    stamp: u64,
}

impl Get {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        // The parser sees no conflict with `--json` before the command, where it may stand, too.
        if self.raw && output.json {
            let found = "the argument '--raw' cannot be used with '--json'";
            return Err(Failure::Usage(found.to_owned()));
        }
        let key = self.escaped.bytes(self.key)?;
        let db = self.place.open(output)?;
        let Some(entry) = self.keyspace.of(&db)?.get_entry(&key)? else {
            say_absent(&key, &self.keyspace.keyspace, output.json);
            return Err(Failure::Told(1));
        };
        if self.raw {
            output.out.write_all(&entry.value)?;
            output.out.flush()?;
            return Ok(db.close()?);
        }
        let found = Found {
            key: JsonBytes(&key),
            value: JsonBytes(&entry.value),
            expires_at_ms: entry.expires_at_ms,
            stamp: entry.stamp.0,
        };
        output.result(&found, |out| {
            writeln!(out, "{}", text::escape(&entry.value))
        })?;
        Ok(db.close()?)
    }
}

/// Says that a key is not there.
pub(crate) fn say_absent(key: &[u8], keyspace: &str, json: bool) {
    if json {
        let found = serde_json::json!({
            "key": JsonBytes(key), "keyspace": keyspace, "found": false,
        });
        say(&found.to_string());
    } else {
        say(&format!(
            "velella: no key `{}` in keyspace `{keyspace}`",
            text::escape(key)
        ));
    }
}
