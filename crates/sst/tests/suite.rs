//! The tests of tables, one module each: built as one program, which compiles and links what they
//! share once, and runs them beside each other.
//!
//! `allocations` is a program of its own: it counts what its process allocates.

mod builder;
mod common;
mod damage;
mod edges;
mod faults;
mod golden;
mod hints;
mod inspect;
mod kept;
mod model;
