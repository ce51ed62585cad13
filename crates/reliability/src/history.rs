//! Concurrent histories: who writes them down, and for whom; what is one, and whether it may be,
//! is `velella_testkit::history`'s.

pub use velella_testkit::history::{checker, crash, event, expiry, sums};

pub mod clients;
pub mod export;
