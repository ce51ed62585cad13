//! The tests of the campaigns that may share a process, one module each: built as one program,
//! which compiles and links what they share once, and runs them beside each other.
//!
//! `corruption` is a program of its own, since it measures what its process allocates; `corpus` and
//! `histories` are what sanitizers run, which build as little beside them as they can.

mod command;
mod common;
mod every_crash_point;
mod faults;
mod flipped_below_the_cut;
mod full_disks;
mod fuzz;
mod many_victims;
mod power_loss;
mod same_answers;
