//! The commands: what each is called, wants, and does.
//!
//! A command is a plain function from arguments to a reply; the table finds it by name. The group
//! modules each hold the functions and their rows of the table side by side.
//!
//! X1. A command writes exactly one reply, or fails, in which case what it wrote is taken back
//!     and its error is the reply.
//! X2. Arity is checked before a command runs: arguments up to it exist.

mod failure;
pub(crate) mod session;
mod row;
mod context;
mod options;
mod subcommands;
mod client;
mod handshake;
mod strings;
mod pairs;
mod counting;
mod substrings;
mod lcs;
mod bits;
mod keys;
mod rename;
mod expiry;
mod scan;
mod object;
mod ordered;
mod flush;
mod durability;
mod census;
mod info;
mod settings;
mod monitoring;
mod missing;
mod introspection;
pub(crate) mod all;
pub(crate) mod run;
