//! The tests of what all crates share, one module each, in one program: what they share
//! is compiled and linked once, and they run beside each other.

mod checksums;
mod codec;
mod cursor;
mod draws;
mod errors;
mod names;
mod order;
