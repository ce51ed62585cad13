//! The one error type: what was attempted, on what, what was found, what to do.
//!
//! Few kinds, each of which a program can act on; the message is for people and may change.
//!
//! E1. Corruption always names a file; an offset too where one is known.
//! E2. An error is `Clone`: a poisoned database hands the same cause to every later caller.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `std::result::Result` with Velella's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a program can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused an operation: fix the cause, then open again.
    Io,
    /// The device is full: free space. A write that says so has left nothing, and the database goes
    /// on by itself.
    NoSpace,
    /// The process may not touch the file: fix its permissions.
    Permission,
    /// Bytes on disk are not what was written: stop and restore.
    Corruption,
    /// An argument is outside its limits: change the call.
    InvalidInput,
    /// A keyspace, file or directory does not exist.
    NotFound,
    /// It exists already.
    AlreadyExists,
    /// Another process has the database open; or this one, by an earlier `Db`, or by a keyspace, a
    /// snapshot or an iterator of it that is still alive.
    Locked,
    /// An earlier failure made the database read-only: open it again.
    ReadOnly,
    /// The file is of a newer format, or uses a feature this build lacks: upgrade.
    Unsupported,
    /// The write may or may not survive: read it back after opening again.
    OutcomeUnknown,
    /// The handle was closed.
    Closed,
}

impl ErrorKind {
    /// The kind in words, as it begins some messages.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::Io => "input/output error",
            ErrorKind::NoSpace => "no space left on device",
            ErrorKind::Permission => "permission denied",
            ErrorKind::Corruption => "corruption",
            ErrorKind::InvalidInput => "invalid input",
            ErrorKind::NotFound => "not found",
            ErrorKind::AlreadyExists => "already exists",
            ErrorKind::Locked => "locked",
            ErrorKind::ReadOnly => "read-only",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::OutcomeUnknown => "outcome unknown",
            ErrorKind::Closed => "closed",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why an operation failed. Prints as
/// `cannot <attempt> <file> at offset <n>: <found>; <remedy>`.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    attempt: String,
    file: Option<PathBuf>,
    offset: Option<u64>,
    found: String,
    remedy: Option<String>,
    source: Option<Arc<std::io::Error>>,
}

impl Error {
    /// An error of `kind`; `attempt` completes the sentence "cannot …", `found` says what was met.
    #[must_use]
    pub fn new(kind: ErrorKind, attempt: impl Into<String>, found: impl Into<String>) -> Self {
        Error(Box::new(Inner {
            kind,
            attempt: attempt.into(),
            file: None,
            offset: None,
            found: found.into(),
            remedy: None,
            source: None,
        }))
    }

    /// What the operating system refused; the kind follows from its code.
    #[must_use]
    pub fn io(attempt: impl Into<String>, file: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind as Os;
        let kind = match source.kind() {
            Os::NotFound => ErrorKind::NotFound,
            Os::AlreadyExists => ErrorKind::AlreadyExists,
            Os::PermissionDenied => ErrorKind::Permission,
            Os::StorageFull | Os::QuotaExceeded => ErrorKind::NoSpace,
            _ => ErrorKind::Io,
        };
        let mut error = Error::new(kind, attempt, source.to_string()).on(file);
        error.0.source = Some(Arc::new(source));
        error
    }

    /// Bytes of `file` at `offset` that are not what was written there.
    #[must_use]
    pub fn corruption(
        attempt: impl Into<String>,
        file: &Path,
        offset: u64,
        found: impl Into<String>,
    ) -> Self {
        Error::new(ErrorKind::Corruption, attempt, found)
            .on(file)
            .at(offset)
    }

    /// An argument outside its limits.
    #[must_use]
    pub fn invalid(attempt: impl Into<String>, found: impl Into<String>) -> Self {
        Error::new(ErrorKind::InvalidInput, attempt, found)
    }

    /// Names the file.
    #[must_use]
    pub fn on(mut self, file: &Path) -> Self {
        self.0.file = Some(file.to_path_buf());
        self
    }

    /// Names the byte offset in the file.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// Says what to do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.0.remedy = Some(remedy.into());
        self
    }

    /// Replaces the kind, for a caller that knows more than the callee did.
    #[must_use]
    pub fn with_kind(mut self, kind: ErrorKind) -> Self {
        self.0.kind = kind;
        self
    }

    /// What a program can do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file concerned, if there is one.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.0.file.as_deref()
    }

    /// The byte offset in [`Error::file`], if known.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner {
            attempt,
            file,
            offset,
            found,
            remedy,
            ..
        } = &*self.0;
        write!(f, "cannot {attempt}")?;
        if let Some(file) = file {
            write!(f, " {}", file.display())?;
        }
        if let Some(offset) = offset {
            write!(f, " at offset {offset}")?;
        }
        write!(f, ": {found}")?;
        if let Some(remedy) = remedy {
            write!(f, "; {remedy}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as _)
    }
}

/// As an error of the standard library, which keeps this one as what it is about. `Io` and
/// `NoSpace` have the kind of what the operating system refused, but for the two that mean to try
/// again at once (`Interrupted`, `WouldBlock`), which this does not; all others the nearest there
/// is, or `Other`.
impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind as Os;
        let refused = error.0.source.as_ref().map(|source| source.kind());
        let refused = refused.filter(|os| !matches!(os, Os::Interrupted | Os::WouldBlock));
        let kind = match error.kind() {
            ErrorKind::Io => refused.unwrap_or(Os::Other),
            ErrorKind::NoSpace => refused.unwrap_or(Os::StorageFull),
            ErrorKind::Permission => Os::PermissionDenied,
            ErrorKind::Corruption => Os::InvalidData,
            ErrorKind::InvalidInput => Os::InvalidInput,
            ErrorKind::NotFound => Os::NotFound,
            ErrorKind::AlreadyExists => Os::AlreadyExists,
            ErrorKind::Locked => Os::ResourceBusy,
            ErrorKind::ReadOnly => Os::ReadOnlyFilesystem,
            ErrorKind::Unsupported => Os::Unsupported,
            ErrorKind::OutcomeUnknown | ErrorKind::Closed => Os::Other,
        };
        std::io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_was_attempted_on_what_and_what_to_do() {
        let error = Error::corruption(
            "read block of",
            Path::new("000042.sst"),
            4096,
            "bad checksum",
        )
        .remedy("restore this file from a backup");
        assert_eq!(
            error.to_string(),
            "cannot read block of 000042.sst at offset 4096: bad checksum; \
             restore this file from a backup"
        );
        assert_eq!(error.kind(), ErrorKind::Corruption);
    }

    #[test]
    fn the_kind_of_an_operating_system_error_follows_from_its_code() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(
            Error::io("append to", Path::new("x"), full).kind(),
            ErrorKind::NoSpace
        );
    }
}
