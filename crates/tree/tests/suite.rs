//! The tests of the manifest and its versions, one module each, in one program: what they share
//! is compiled and linked once, and they run beside each other.

mod common;
mod golden;
mod histories;
mod manifest;
mod manifest_ends;
