//! The campaigns by name: one module each, one line each in [`all`].
//!
//! N1. A campaign's name is its module's, with dashes; its small run is `tests/` and its name.
//!
//! Tests: `tests/`, a file for each campaign.

pub mod power_loss;
pub mod every_crash_point;
pub mod faults;
pub mod full_disks;
pub mod corruption;
pub mod many_victims;
pub mod histories;

use crate::campaign::Campaign;
use corruption::{Corruption, FlippedBelowTheCut};
use every_crash_point::EveryCrashPoint;
use faults::Faults;
use full_disks::FullDisks;
use many_victims::ManyVictims;
use power_loss::PowerLoss;
use std::sync::Arc;

/// Every campaign, in the order of RELIABILITY.md.
#[must_use]
pub fn all() -> Vec<Arc<dyn Campaign>> {
    vec![
        Arc::new(PowerLoss::default()),
        Arc::new(PowerLoss {
            in_recovery: true,
            lies: false,
        }),
        Arc::new(EveryCrashPoint::default()),
        Arc::new(FlippedBelowTheCut::default()),
        Arc::new(Faults::default()),
        Arc::new(FullDisks::default()),
        Arc::new(Faults::in_pairs()),
        Arc::new(Corruption::default()),
        Arc::new(Corruption::in_every_bit()),
        Arc::new(ManyVictims::default()),
        Arc::new(histories::Histories),
        Arc::new(crate::fuzz::Fuzz::default()),
        Arc::new(crate::same_answers::SameAnswers::default()),
    ]
}
