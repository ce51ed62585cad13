//! The tests of the command line, one module each, in one program: what they share
//! is compiled and linked once, and they run beside each other.

mod bench;
mod common;
mod crash_test;
mod faults;
mod import_export;
mod maintenance;
mod pairs;
mod recovery;
mod serve;
mod usage;
