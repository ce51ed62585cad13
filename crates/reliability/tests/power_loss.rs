//! The campaigns `power-loss` and `power-loss-in-recovery`, small.

use crate::common;
use velella_reliability::campaigns::power_loss::PowerLoss;

#[test]
fn a_power_loss_leaves_a_prefix_with_all_that_was_promised() {
    common::holds(PowerLoss::default(), 1, 30);
}

#[test]
fn a_device_that_lies_is_noticed() {
    common::is_reported(
        PowerLoss {
            lies: true,
            ..PowerLoss::default()
        },
        10,
    );
}

#[test]
fn a_crash_during_recovery_changes_nothing() {
    let campaign = PowerLoss {
        in_recovery: true,
        lies: false,
    };
    common::holds(campaign, 500, 8);
}
