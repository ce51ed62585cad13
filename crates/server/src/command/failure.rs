//! Why a command failed, in the words Redis clients know.
//!
//! F1. The text begins with a code in capitals, for clients that tell errors apart by it.
//! F2. A write that may have happened all the same is told apart from one that has not.
//!
//! Tests: the texts are those `tests/redis_py.py` finds in Redis.

use std::borrow::Cow;
use velella::{Error, ErrorKind};

/// An error reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// What the client is told; empty: nothing.
    pub text: Cow<'static, str>,
    /// Whether a keyspace was met that had been dropped (B3 of `databases.rs`).
    pub is_dropped: bool,
}

/// What a command returns: its reply is written already.
pub(crate) type Outcome = Result<(), Failure>;

/// An argument that should be an integer is none.
pub(crate) const NOT_AN_INTEGER: Failure =
    Failure::fixed("ERR value is not an integer or out of range");
/// The command is not for strangers.
pub(crate) const NO_AUTH_GIVEN: Failure = Failure::fixed("NOAUTH Authentication required.");
/// An argument that should be a float is none.
pub(crate) const NOT_A_FLOAT: Failure = Failure::fixed("ERR value is not a valid float");
/// Options that do not exist or do not go together.
pub(crate) const SYNTAX: Failure = Failure::fixed("ERR syntax error");
/// A value would become longer than values may be.
pub(crate) const TOO_LONG: Failure =
    Failure::fixed("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
/// The key does not exist.
pub(crate) const NO_SUCH_KEY: Failure = Failure::fixed("ERR no such key");

impl Failure {
    const fn fixed(text: &'static str) -> Self {
        Failure {
            text: Cow::Borrowed(text),
            is_dropped: false,
        }
    }

    /// An error with a text made for it.
    pub(crate) fn new(text: impl Into<Cow<'static, str>>) -> Self {
        Failure {
            text: text.into(),
            is_dropped: false,
        }
    }

    /// The wrong number of arguments for a command.
    pub(crate) fn arity(command: &str) -> Self {
        Failure::new(format!(
            "ERR wrong number of arguments for '{command}' command"
        ))
    }

    /// A time to live that is not above zero, or beyond the end of time.
    pub(crate) fn expire_time(command: &str) -> Self {
        Failure::new(format!("ERR invalid expire time in '{command}' command"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            // Redis says so when it cannot persist: writes stop, reads go on.
            ErrorKind::Io | ErrorKind::NoSpace | ErrorKind::ReadOnly => "MISCONF",
            // No refusal (F2).
            ErrorKind::OutcomeUnknown => "MISCONF the write may survive, or may not:",
            _ => "ERR",
        };
        Failure {
            text: format!("{code} {error}").into(),
            is_dropped: error.kind() == ErrorKind::NotFound,
        }
    }
}

/// Bytes a client sent, as text for an error.
pub(crate) fn quoted(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(&bytes[..bytes.len().min(128)])
}
