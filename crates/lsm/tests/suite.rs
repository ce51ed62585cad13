//! The tests of the leveled layout, one module each, in one program: what they share
//! is compiled and linked once, and they run beside each other.

mod contract;
mod crash;
mod levels;
mod model;
mod parts;
mod threads;
