//! The campaigns by name: one module each, one line each in [`all`].
//!
//! N1. A campaign's name is its module's, with dashes; its small run is `tests/` and its name.
//!
//! Tests: `tests/`, a file for each campaign.

mod histories;

use crate::campaign::Campaign;

/// Every campaign, in the order of RELIABILITY.md.
#[must_use]
pub fn all() -> Vec<Box<dyn Campaign>> {
    vec![
        Box::new(histories::Histories),
        Box::new(crate::fuzz::Fuzz::default()),
        Box::new(crate::same_answers::SameAnswers::default()),
    ]
}
