//! Everything behind the `velella` command: serve, get, put, scan, import, export, verify, inspect,
//! bench, crash-test.
//!
//! A library, so that the readers of files can be fuzzed, and so that `velella-bench` prints
//! sizes and tables alike, makes its directories alike and starts its threads alike; its main user
//! is `main.rs`. Start reading at `command.rs`; each command is a file with its arguments, its help
//! and its code. Commands print through `output`, fail through `failure`, and know the engine only
//! by its public API.
//!
//! Threads: `serve`, `bench` and `crash-test` start some; all others run on the main thread.
//! Tests: beside the modules; `tests/` runs the binary.

#![forbid(unsafe_code)]

mod failure;
pub mod human;
mod text;
pub mod table;
mod output;
mod progress;
pub mod scratch;
pub mod line;
mod recovery;
mod opening;
mod database;
mod range;
mod record;
mod file_format;
mod get;
mod put;
mod delete;
mod scan;
mod import;
mod export;
mod keyspaces;
mod stats;
mod verify;
mod compact;
mod inspect;
mod watch;
mod serve;
mod bench;
pub mod ledger;
mod crash_test;
mod completions;
mod command;
#[cfg(feature = "fuzz")]
pub mod fuzz;

pub use command::run;
