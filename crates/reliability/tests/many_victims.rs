//! The campaign `many-victims`, small.

use crate::common;
use velella_reliability::campaigns::many_victims::ManyVictims;

#[test]
fn no_damage_to_any_database_gives_a_wrong_answer() {
    common::holds(ManyVictims::default(), 1, 6);
}

#[test]
fn accepting_losses_is_noticed() {
    common::is_reported(ManyVictims { accept_loss: true }, 10);
}
