//! The campaign `full-disks`, small.

use crate::common;
use velella_reliability::campaigns::full_disks::FullDisks;

#[test]
fn a_disk_that_was_full_loses_nothing_and_writing_goes_on() {
    common::holds(FullDisks::default(), 1, 40);
}

#[test]
fn a_shortage_that_stays_is_noticed() {
    common::is_reported(FullDisks { stays: true }, 20);
}
