//! The campaign `faults`, small.

use crate::common;
use velella_reliability::campaigns::faults::Faults;

#[test]
fn any_call_may_fail_in_any_way() {
    common::holds(Faults::default(), 1, 250);
}

#[test]
fn a_device_that_lies_is_noticed() {
    common::is_reported(Faults::default().on_a_device_that_lies(), 250);
}

#[test]
fn any_two_calls_may_fail() {
    common::holds(Faults::in_pairs(), 1, 300);
}

#[test]
fn a_device_that_lies_is_noticed_beside_any_two_calls_that_fail() {
    common::is_reported(Faults::in_pairs().on_a_device_that_lies(), 300);
}
