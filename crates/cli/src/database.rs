//! The arguments that every command on a database shares: where it is, which keyspace, how keys are
//! written on the command line.
//!
//! B1. A command that only reads never creates anything.
//! B2. What an opening gives up is said before the command does its work.
//! B3. A command that is refused creates nothing either: what the engine would refuse only in an
//!     open database is checked before.
//!
//! Tests: below, and `tests/`.

use crate::failure::Failure;
use crate::opening;
use crate::output::Output;
use crate::recovery;
use crate::text;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use velella::{Db, Error, ErrorKind, Keyspace, RecoveryMode};

/// Where the data is unless `--dir` says otherwise.
pub(crate) const DEFAULT_DIR: &str = "./velella-data";

/// Which database.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// Directory of the database
    #[arg(long, short = 'd', default_value = DEFAULT_DIR, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// How to treat the journal of a run that did not close
    #[arg(long, value_enum, default_value_t = Recovery::Normal, value_name = "MODE")]
    pub(crate) recovery: Recovery,
}

/// The words of `--recovery`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Recovery {
    /// Every acknowledged write of a process that died; after a power loss, the durable prefix
    Normal,
    /// Trust only what was synced, whatever the page cache seems to hold
    AssumePowerLoss,
    /// On damage to durable data, open with the largest valid prefix
    AcceptLoss,
}

impl From<Recovery> for RecoveryMode {
    fn from(mode: Recovery) -> Self {
        match mode {
            Recovery::Normal => RecoveryMode::Normal,
            Recovery::AssumePowerLoss => RecoveryMode::AssumePowerLoss,
            Recovery::AcceptLoss => RecoveryMode::AcceptLoss,
        }
    }
}

impl Place {
    /// Opens the database that is there.
    pub(crate) fn open(&self, output: &Output) -> Result<Db, Failure> {
        let opened = self.open_by(self.builder().create(false), output);
        let db = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound if error.file() == Some(&self.dir) => {
                error.remedy("check --dir; put, import and serve create a database")
            }
            _ => advised(error),
        })?;
        recovery::say_losses(&db, output);
        Ok(db)
    }

    /// Opens the database, creating it if there is none.
    pub(crate) fn open_or_create(&self, output: &Output) -> Result<Db, Failure> {
        let db = self.open_by(self.builder(), output).map_err(advised)?;
        recovery::say_losses(&db, output);
        Ok(db)
    }

    /// Opens it as `builder` says, with a sign of life if that takes a while.
    pub(crate) fn open_by(&self, builder: velella::Builder, output: &Output) -> Result<Db, Error> {
        opening::patiently(&self.dir, output.json, || builder.open(&self.dir))
    }

    pub(crate) fn builder(&self) -> velella::Builder {
        Db::builder().recovery(self.recovery.into())
    }
}

/// An error of opening, with what to do about it.
pub(crate) fn advised(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Locked => {
            error.remedy("stop that process first, or ask it: a server answers redis-cli and INFO")
        }
        ErrorKind::NoSpace => error.remedy(
            "free as much as its journal holds, which becomes tables first, and a few MiB; then \
             open it again",
        ),
        _ => error,
    }
}

/// Which keyspace.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeyspaceName {
    /// Keyspace in the database
    #[arg(long, short = 'k', default_value = "default", value_name = "NAME")]
    pub(crate) keyspace: String,
}

impl KeyspaceName {
    /// The keyspace, which must exist.
    pub(crate) fn of(&self, db: &Db) -> Result<Keyspace, Failure> {
        Ok(db.keyspace(&self.keyspace)?)
    }

    /// Refuses a name that no keyspace can have, before a database is created for it (B3).
    pub(crate) fn check(&self) -> Result<(), Failure> {
        Ok(check_keyspace_name(&self.keyspace)?)
    }

    /// The keyspace, created with default settings if it is missing.
    pub(crate) fn of_or_create(&self, db: &Db) -> Result<Keyspace, Failure> {
        Ok(db.keyspace_or_create(&self.keyspace)?)
    }
}

/// Longest name of a keyspace; the engine's limit, and its words.
const KEYSPACE_NAME_BYTES_MAX: usize = 255;

/// Refuses a name that no keyspace can have.
pub(crate) fn check_keyspace_name(name: &str) -> velella::Result<()> {
    let attempt = || format!("create keyspace `{}`", name.escape_debug());
    if name.is_empty() || name.len() > KEYSPACE_NAME_BYTES_MAX {
        let len = name.len();
        let found = format!("the name has {len} bytes, from 1 to {KEYSPACE_NAME_BYTES_MAX}");
        return Err(Error::invalid(attempt(), found));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(attempt(), "the name has control characters"));
    }
    Ok(())
}

/// How keys and values are written on the command line.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Escaped {
    /// Read `\t`, `\n`, `\r`, `\\` and `\xHH` in keys and values of the command line as escapes
    #[arg(long, short = 'e')]
    pub(crate) escaped: bool,
}

impl Escaped {
    /// The bytes an argument stands for.
    pub(crate) fn bytes(self, argument: OsString) -> Result<Vec<u8>, Failure> {
        let bytes = argument.into_encoded_bytes();
        if !self.escaped {
            return Ok(bytes);
        }
        text::unescape_typed(&bytes).map_err(|reason| {
            Failure::Usage(format!("cannot read an argument with --escaped: {reason}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use velella::KeyspaceOptions;

    /// As strict as the engine, and no stricter.
    #[test]
    fn a_keyspace_name_is_refused_as_by_the_engine() {
        let directory = tempfile::tempdir().unwrap();
        let db = velella::open(directory.path()).unwrap();
        for name in ["", "a\nb", "\u{85}", &"é".repeat(128), &"x".repeat(256)] {
            let engine = db.create_keyspace(name, KeyspaceOptions::default());
            let told = check_keyspace_name(name).unwrap_err();
            assert_eq!(told.to_string(), engine.err().unwrap().to_string());
        }
        for name in [" ", "ключ", &"x".repeat(255)] {
            db.keyspace_or_create(name).unwrap();
            check_keyspace_name(name).unwrap();
        }
    }

    #[test]
    fn a_full_disk_asks_for_room_for_what_the_journal_holds() {
        let full = Error::new(ErrorKind::NoSpace, "write", "the disk is full");
        let told = advised(full).to_string();
        assert!(told.contains("free as much as its journal holds"), "{told}");
    }
}
