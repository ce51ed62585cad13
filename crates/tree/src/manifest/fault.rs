//! Why a part of a manifest cannot be decoded.
//!
//! Pure. Tests: `manifest/tests.rs`.

/// Why bytes are not an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A newer build wrote it.
    Unknown(String),
    /// They are not what was written, or were never right.
    Damaged(String),
}
