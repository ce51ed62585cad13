//! The campaign `faults`, small.

use velella_reliability::campaigns::faults::Faults;

#[test]
fn any_call_may_fail_in_any_way() {
    crate::common::holds(Faults::default(), 1, 250);
}

#[test]
fn a_device_that_lies_is_noticed() {
    crate::common::is_reported(Faults::on_a_device_that_lies(), 250);
}

#[test]
fn any_two_calls_may_fail() {
    crate::common::holds(Faults::in_pairs(), 1, 300);
}
