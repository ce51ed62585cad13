//! A database under any settings and operations, against a map.
//!
//! Threads: the database's own. Tests: `tests/corpus.rs`, `tests/same_answers.rs`.

use crate::draws::Draws;
use crate::workload::{Settings, against_model, operations};

/// Operations of one input.
const MOST: usize = 300;

/// Settings, then operations.
pub(super) fn run(bytes: &[u8]) {
    let mut draws = Draws::new(bytes);
    let settings = Settings::draw(&mut draws);
    let operations = operations(&mut draws, MOST);
    if let Err(difference) = against_model(&settings, &operations) {
        panic!("{difference}");
    }
}
