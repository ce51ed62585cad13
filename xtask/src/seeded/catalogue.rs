//! Every fault that can be put in, and the tests that must see it.
//!
//! A fault's name says what the code does wrong. What catches it is the layer that ought to: the
//! narrowest test that attacks the promise which the fault breaks, as arguments of `cargo test`.
//!
//! Tests: `seeded.rs`.

/// One fault.
#[derive(Debug)]
pub(super) struct Fault {
    /// Its name in the code: `seeded("name")`.
    pub(super) name: &'static str,
    /// What goes wrong, in a line.
    pub(super) what: &'static str,
    /// Arguments of `cargo test` that run the tests named for it.
    pub(super) caught_by: &'static [&'static str],
}

/// All of them, bottom-up.
pub(super) const FAULTS: &[Fault] = &[];
