//! The vocabulary every other crate speaks: stamps, value kinds, key orders, codecs, file names,
//! errors, and the shape of a sorted stream.
//!
//! Layer 0. No I/O, no threads, no `unsafe`. A word is admitted only when two branches of the tree
//! above need it; there is no "util" here.
//!
//! Tests: beside each module.

#![forbid(unsafe_code)]

pub mod error;
pub mod stamp;
pub mod kind;
pub mod codec;
pub mod checksum;
pub mod order;
pub mod file_name;
pub mod cursor;
pub mod limits;
pub mod external;
pub mod seeded;

pub use cursor::{Cursor, Entry};
pub use error::{Error, ErrorKind, Result};
pub use kind::ValueKind;
pub use order::Order;
#[cfg(any(loom, shuttle))]
pub use seeded::put_in;
pub use seeded::seeded;
pub use stamp::Stamp;

/// Identifies one database for ever: every checksum on disk is bound to it, so a file copied in
/// from another database is recognised as foreign.
pub type DatabaseId = u128;

/// Number of a keyspace; never reused within a database.
pub type KeyspaceId = u32;
