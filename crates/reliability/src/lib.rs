//! Campaigns: attacks on what Velella promises, by the thousand, each from one number.
//!
//! A campaign is a function of a seed. It builds a database, attacks it, and says either what it
//! counted or what went wrong. Around it one runner spreads seeds over threads, shows progress,
//! adds the counts up and writes the line of `reliability/LEDGER.tsv` that RELIABILITY.md quotes.
//!
//! C1. Whatever a run does follows from its seed alone, unless the campaign says otherwise at its
//!     head (threads of the system are not ours to replay).
//! C2. A campaign that cannot fail proves nothing: each has a control, a fault put in on purpose,
//!     that its test sees reported.
//! C3. `cargo test` runs every campaign small; `cargo run --release -p velella-reliability` runs
//!     it as long as one likes.
//!
//! Tests: `campaign.rs` below, and one file in `tests/` for each campaign.

#![forbid(unsafe_code)]

pub mod campaign;
pub mod history;
pub mod sim;
pub mod draws;
pub mod workload;
pub mod same_answers;
pub mod targets;
pub mod mutate;
pub mod fuzz;
pub mod campaigns;

pub use campaigns::all;
