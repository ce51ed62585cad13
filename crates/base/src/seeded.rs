//! Faults put in on purpose, one at a time, to see whether the tests see them.
//!
//! Each is one wrong line of the kind that stores have shipped: a sync left out, `<` for `<=`, a
//! checksum not looked at. `cargo xtask seeded` builds what it needs once with
//! `--cfg velella_seeded` (or, for faults that only a model sees, with `--cfg shuttle`), switches
//! one on by `VELELLA_SEEDED=name`, runs the tests that are named for it in
//! `xtask/src/seeded/catalogue.rs`, and fails where they pass.
//!
//! F1. Without a flag [`seeded`] is the constant `false`: nothing of a fault is compiled.
//! F2. The names in the code and in the catalogue are the same (a test of xtask).
//! F3. A model puts one in for its own thread, as its control, by `put_in`.
//!
//! Tests: below, and all the others: that is the point.

#[cfg(any(loom, shuttle))]
thread_local! {
    // A model's threads all run on the thread that started it.
    static PUT_IN: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// Puts the fault `name` into the models of this thread; `None`: none.
#[cfg(any(loom, shuttle))]
pub fn put_in(name: Option<&'static str>) {
    PUT_IN.set(name);
}

/// Whether the fault `name` is switched on.
#[cfg(not(any(velella_seeded, loom, shuttle)))]
#[inline(always)]
#[must_use]
pub const fn seeded(_name: &str) -> bool {
    false
}

/// Whether the fault `name` is switched on.
#[cfg(any(velella_seeded, loom, shuttle))]
#[must_use]
pub fn seeded(name: &str) -> bool {
    use std::sync::OnceLock;
    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    #[cfg(any(loom, shuttle))]
    if PUT_IN.get() == Some(name) {
        return true;
    }
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
