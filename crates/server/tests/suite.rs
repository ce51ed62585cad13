//! The tests of the server that may share a process, one module each: built as one program, which
//! compiles and links what they share once, and runs them beside each other.
//!
//! `idle` and `limits` are programs of their own: they measure the memory of their process;
//! `signals` is killed by some.

mod clients;
mod commands;
mod common;
mod databases;
mod expiry;
mod protocol;
mod scans;
