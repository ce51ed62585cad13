//! The tests of the journal, one module each: built as one program, which compiles and links what
//! they share once, and runs them beside each other.
//!
//! Programs of their own are the protocol's model (`protocol_cut`), which is explored faster where
//! it is optimised, and what is built otherwise (`loom`, `shuttle`).

mod common;
mod crashes;
mod damage;
mod damage_after_kill;
mod errors;
mod failed_sync;
mod golden;
mod lanes;
mod large;
mod listing;
mod lost_pages;
mod real_files;
mod retention;
mod rounds;
mod unreadable;
