//! The campaigns by name: one module each, one line each in [`all`].
//!
//! N1. A campaign's name is its module's, with dashes; its small run is `tests/` and its name.
//!
//! Tests: `tests/`, a file for each campaign.

pub mod power_loss;
pub mod every_crash_point;
pub mod faults;
pub mod corruption;
pub mod histories;

use crate::campaign::Campaign;
use corruption::{Corruption, FlippedBelowTheCut};
use every_crash_point::EveryCrashPoint;
use faults::Faults;
use power_loss::PowerLoss;

/// Every campaign, in the order of RELIABILITY.md.
#[must_use]
pub fn all() -> Vec<Box<dyn Campaign>> {
    vec![
        Box::new(PowerLoss::default()),
        Box::new(PowerLoss {
            in_recovery: true,
            lies: false,
        }),
        Box::new(EveryCrashPoint::default()),
        Box::new(FlippedBelowTheCut::default()),
        Box::new(Faults::default()),
        Box::new(Corruption::default()),
        Box::new(histories::Histories),
        Box::new(crate::fuzz::Fuzz::default()),
        Box::new(crate::same_answers::SameAnswers::default()),
    ]
}
