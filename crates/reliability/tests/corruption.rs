//! The campaign `corruption`, small: the first bytes of the first files.

mod common;

use velella_reliability::campaigns::corruption::Corruption;

#[test]
fn no_damage_gives_a_wrong_answer() {
    common::holds(&Corruption::default(), 1, 12);
}

#[test]
fn accepting_losses_is_noticed() {
    common::is_reported(&Corruption::accepting_loss(), 400);
}
