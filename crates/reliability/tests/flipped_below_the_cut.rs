//! The campaign `flipped-below-the-cut`, small.

use crate::common;
use velella_reliability::campaigns::corruption::FlippedBelowTheCut;

#[test]
fn a_flipped_byte_below_the_cut_is_never_passed_over() {
    common::holds(FlippedBelowTheCut::default(), 1, 12);
}

#[test]
fn accepting_losses_is_noticed() {
    common::is_reported(FlippedBelowTheCut { accept_loss: true }, 60);
}
