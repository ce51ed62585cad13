//! `velella delete`: keys, one by one.
//!
//! Tests: `tests/pairs.rs`.

use crate::database::{Escaped, KeyspaceName, Place};
use crate::failure::Failure;
use crate::get::absent;
use crate::human;
use crate::output::Output;
use clap::Args;
use serde::Serialize;
use std::ffi::OsString;
use velella::Decision;

/// Arguments of `delete`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella delete user:1
  velella delete user:1 user:2 --keyspace people

Exit code 1 if one of the keys was absent; the others are deleted.")]
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
        let db = self.place.open()?;
        let keyspace = self.keyspace.of(&db)?;
        let mut done = Deleted {
            deleted: 0,
            absent: 0,
        };
        let mut failure = None;
        for key in self.keys {
            let key = self.escaped.bytes(key)?;
            let outcome = keyspace.rmw(&key, |old| match old {
                Some(_) => Decision::Delete,
                None => Decision::Keep,
            })?;
            if outcome.old.is_some() {
                done.deleted += 1;
            } else {
                done.absent += 1;
                failure = Some(absent(&key, &self.keyspace.keyspace, output.json));
            }
        }
        db.close()?;
        output.result(&done, |out| {
            writeln!(out, "deleted {}", human::counted(done.deleted, "key"))
        })?;
        failure.map_or(Ok(()), Err)
    }
}
