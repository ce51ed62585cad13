//! The campaign `every-crash-point`, small: workloads of up to two operations, one long one.

use crate::common;
use velella_reliability::campaigns::every_crash_point::{ALL, EveryCrashPoint};

#[test]
fn every_call_of_a_small_workload_may_be_the_last() {
    common::holds(EveryCrashPoint::default(), 1, 307);
}

#[test]
fn a_device_that_lies_is_noticed() {
    common::is_reported(EveryCrashPoint { lies: true }, 10);
}

#[test]
fn every_call_of_a_long_workload_may_be_the_last() {
    common::holds(EveryCrashPoint::default(), ALL, 1);
}
