//! Faults put in on purpose, one at a time, to see whether the tests see them.
//!
//! Each is one wrong line of the kind that stores have shipped: a sync left out, `<` for `<=`, a
//! checksum not looked at. `cargo xtask seeded` builds everything once with
//! `--cfg velella_seeded`, switches one on by `VELELLA_SEEDED=name`, runs the tests that are named
//! for it in `xtask/src/seeded/catalogue.rs`, and fails where they pass.
//!
//! F1. Without the flag [`seeded`] is the constant `false`: nothing of a fault is compiled.
//! F2. The names in the code and in the catalogue are the same (a test of xtask).
//!
//! Tests: below, and all the others: that is the point.

/// Whether the fault `name` is switched on.
#[cfg(not(velella_seeded))]
#[inline(always)]
#[must_use]
pub const fn seeded(_name: &str) -> bool {
    false
}

/// Whether the fault `name` is switched on.
#[cfg(velella_seeded)]
#[must_use]
pub fn seeded(name: &str) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("VELELLA_SEEDED").ok());
    chosen.as_deref() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::seeded;

    #[test]
    fn a_fault_that_nobody_chose_is_off() {
        assert!(!seeded("a fault of this test only"));
    }
}
