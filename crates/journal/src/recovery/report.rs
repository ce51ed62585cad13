//! What recovery is told and what it tells.
//!
//! P1. Whatever was given up is in the report: nothing is dropped without a number or a note.
//!
//! Tests: `tests/rounds.rs`, `tests/damage.rs`.

use crate::journal::Start;
use velella_base::Stamp;

/// What the manifest says of the last incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    /// Its number.
    pub incarnation: u64,
    /// What `Journal::create` returned then.
    pub start: Start,
    /// Up to this stamp everything was durable: the manifest waited for that.
    pub durable: Stamp,
    /// Treat every reopening as after a power loss.
    pub assume_power_loss: bool,
    /// On damage below the cut, take the largest valid round, or what is below the damage, instead
    /// of failing.
    pub accept_loss: bool,
}

/// Which rule decided what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rule {
    /// There was no journal, or nothing of it could be read and the loss was accepted.
    #[default]
    Nothing,
    /// The last run closed the database: its last round is the cut.
    CleanClose,
    /// The page cache survived (the process died): every complete record counts.
    PageCache,
    /// The cut of the last completed round.
    Cut,
}

/// What recovery found and did; goes to the caller of `open` and to the log.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The rule that decided.
    pub rule: Rule,
    /// Records above this stamp were given up (`Stamp::MAX` if none had to be).
    pub cut: Stamp,
    /// Records taken, those included that tables held already.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Complete records given up, above the cut.
    pub discarded_records: u64,
    /// Bytes of their payloads.
    pub discarded_bytes: u64,
    /// What else is worth knowing: a torn seal, a fallback and its stamp range.
    pub notes: Vec<String>,
}
