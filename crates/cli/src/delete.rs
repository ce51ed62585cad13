//! `velella delete`: keys, one by one.
//!
//! D1. Nothing is deleted before every key is known to make sense.
//! D2. How many were deleted is told also if a fault ended it.
//! D3. Whether a key is there is decided without its value, which may be large, or damaged in a
//!     file of its own. Between that and the deletion nobody writes: no other process has the
//!     database.
//!
//! Tests: `tests/pairs.rs`, `tests/faults.rs`.

use crate::database::{Escaped, KeyspaceName, Place};
use crate::failure::Failure;
use crate::get::say_absent;
use crate::human;
use crate::output::Output;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use velella::{Keyspace, limits};

/// Arguments of `delete`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella delete user:1
  velella delete user:1 user:2 --keyspace people

Exit code 1 if one of the keys was absent; the others are deleted. A fault of the database ends it
at the key it met; the number of those deleted before is told.")]
pub(crate) struct Delete {
    /// The keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<OsString>,
    #[command(flatten)]
    place: Place,
    #[command(flatten)]
    keyspace: KeyspaceName,
    #[command(flatten)]
    escaped: Escaped,
}

#[derive(Serialize)]
struct Deleted {
    deleted: u64,
    absent: u64,
}

impl Delete {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let escaped = self.escaped;
        let keys = self.keys.into_iter().map(|key| {
            let key = escaped.bytes(key)?;
            limits::check_key(&key)?;
            Ok(key)
        });
        let keys = keys.collect::<Result<Vec<_>, Failure>>()?;
        let db = self.place.open(output)?;
        let keyspace = self.keyspace.of(&db)?;
        let mut done = Deleted {
            deleted: 0,
            absent: 0,
        };
        let ended = done.delete(&keyspace, &keys, output.json);
        let closed = db.close();
        output.result(&done, |out| {
            writeln!(out, "deleted {}", human::counted(done.deleted, "key"))
        })?;
        ended?;
        closed?;
        match done.absent {
            0 => Ok(()),
            _ => Err(Failure::Told(1)),
        }
    }
}

impl Deleted {
    /// Deletes the keys in their order, and says which of them are not there.
    fn delete(&mut self, keyspace: &Keyspace, keys: &[Vec<u8>], json: bool) -> velella::Result<()> {
        for key in keys {
            if keyspace.contains(key)? {
                keyspace.delete(key)?;
                self.deleted += 1;
            } else {
                self.absent += 1;
                say_absent(key, keyspace.name(), json);
            }
        }
        Ok(())
    }
}
