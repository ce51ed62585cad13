//! The tests of the benchmark, one module each, in one program: what they share
//! is compiled and linked once, and they run beside each other.

mod check;
mod refusals;
mod run;
mod servers;
mod stores;
