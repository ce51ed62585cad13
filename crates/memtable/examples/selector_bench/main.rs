//! What each way to choose guards costs, for the selectors that need nothing but their input.
//!
//! `selector_bench [keys] [guards] [searches]`. What is measured: `comparison.rs`, which the
//! network's example shares.

mod comparison;

use velella_memtable::guards::SELECTORS;

fn main() {
    let (keys, guards, searches) = comparison::sizes();
    comparison::print(&SELECTORS, keys, guards, searches);
}
