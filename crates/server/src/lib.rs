//! A server that speaks the Redis protocol over a Velella database.
//!
//! One listener thread accepts and deals connections out; each of a few network threads owns its
//! connections for their life, decodes what arrives, executes it on the shared engine and writes
//! the replies of a pipeline at once. Nothing is asynchronous: an engine call runs on the network
//! thread that decoded it.
//!
//! ```no_run
//! let db = velella::open("velella-data")?;
//! let config = velella_server::Config::default();
//! velella_server::serve(config, db, |server| println!("listening on {}", server.address()))?;
//! # Ok::<(), velella::Error>(())
//! ```
//!
//! Storage: database 0 is the keyspace `default`, database n the keyspace `db<n>`, created by the
//! first write to it. A string's bytes are the value's bytes, so the library and the command line
//! see what clients wrote, and the reverse.
//!
//! Where to start reading: `network.rs` (the loop), `connection.rs` (one client),
//! `command/all.rs` (what there is), `command/strings.rs` (what a command looks like).
//!
//! Tests: beside the modules; `tests/` starts servers and talks to them through sockets.

#![forbid(unsafe_code)]

mod config;
mod number;
mod decimal;
mod glob;
mod resp;
mod cursors;
mod counters;
mod databases;
mod census;
mod slowlog;
mod clients;
mod shared;
mod command;
mod connection;
mod network;
mod listener;
mod shutdown;
mod server;
#[cfg(feature = "fuzz")]
pub mod fuzz;

pub use config::{Config, GROUP_WAIT_MAX, PASSWORD_BYTES_MAX};
pub use server::{Bound, Server, serve};
pub use shutdown::Handle;
