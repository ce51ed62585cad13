//! How a command fails: a message that begins with `cannot`, and an exit code.
//!
//! Exit codes: 0 done; 1 it failed, or the key is absent; 2 the command line makes no sense;
//! 3 done, but malformed lines were left out.
//!
//! F1. A reader that went away (`velella scan | head`) is no failure: the command ends quietly. It
//!     hides none either: what failed beside that tells its exit code.
//!
//! Tests: `tests/`, by running the binary.

use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;

/// Why a command ends without having done all it was asked for.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It could not be done.
    Error(velella::Error),
    /// The command line makes no sense.
    Usage(String),
    /// A line was said already; only the exit code is left.
    Told(u8),
    /// Nobody reads the output any more.
    ReaderGone,
}

impl Failure {
    /// What the exit code is, and on the way, what is said on standard error.
    pub(crate) fn report(self, as_json: bool) -> ExitCode {
        let (line, code) = match &self {
            Failure::Error(error) if as_json => (describe(error).to_string(), 1),
            Failure::Error(error) => (format!("velella: {error}"), 1),
            Failure::Usage(message) if as_json => (
                json!({"error": {"kind": "usage", "message": message}}).to_string(),
                2,
            ),
            Failure::Usage(message) => (
                format!("velella: {message}\nFor more information, try '--help'."),
                2,
            ),
            Failure::Told(code) => return ExitCode::from(*code),
            Failure::ReaderGone => return ExitCode::SUCCESS,
        };
        say(&line);
        ExitCode::from(code)
    }
}

/// Writes a line to standard error; if that is closed, there is nobody to tell.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn describe(error: &velella::Error) -> serde_json::Value {
    json!({"error": {
        "kind": error.kind().as_str(),
        "message": error.to_string(),
        "file": error.file().map(|file| file.display().to_string()),
        "offset": error.offset(),
    }})
}

impl From<velella::Error> for Failure {
    fn from(error: velella::Error) -> Self {
        Failure::Error(error)
    }
}

/// Errors of standard output; those of files are made by `velella::Error::io`, with their names.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Failure::ReaderGone;
        }
        Failure::Error(velella::Error::new(
            velella::ErrorKind::Io,
            "write to standard output",
            error.to_string(),
        ))
    }
}
