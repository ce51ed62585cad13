//! `many-victims`: every sector and every file damaged, of a database of its own in each run.
//!
//! `corruption` goes over every byte of one database before it takes the next; what needs another
//! state to be missed, as a newest seal in a certain place, it meets once in hours.
//!
//! M1. A victim is of any setting, was opened several times, and was closed, or lost its power, in
//!     the middle or with all of it durable, or its process was killed.
//! M2. Each sector is zeroed, doubled and swapped with the next, where that changes something, and
//!     a bit of it flipped; each page is zeroed, and is what it was some time before, as after a
//!     write that the device lost; each file is cut, removed, and exchanged for each other.
//!
//! Tests: `tests/many_victims.rs`.

use crate::campaign::{Campaign, Tally};
use crate::sim::alone;
use crate::sim::setting::Setting;
use crate::sim::victim::{Damage, PAGE, SECTOR, Victim};
use velella::RecoveryMode;
use velella_testkit::Seed;

/// A file is cut in one sector of so many.
const CUTS_ONE_IN: u64 = 4;

/// A database of its own in each run, damaged by sectors and files.
#[derive(Debug, Clone, Copy, Default)]
pub struct ManyVictims {
    /// A control: recovery is told to accept losses, so answers must be found wrong.
    pub accept_loss: bool,
}

impl Campaign for ManyVictims {
    fn name(&self) -> &'static str {
        "many-victims"
    }

    fn goal(&self) -> &'static str {
        "G4"
    }

    fn about(&self) -> &'static str {
        "a new database in each run, every sector and file damaged: never a wrong answer"
    }

    fn unit(&self) -> &'static str {
        "damages"
    }

    fn usual_runs(&self) -> u64 {
        100
    }

    fn run(&self, seed: u64) -> Result<Tally, String> {
        let mut seed = Seed::silent(seed);
        alone(|simulation| {
            let victim = Victim::any(&mut seed, simulation)?;
            let mut tally = Tally::new();
            for damage in attacks(&victim, &mut seed) {
                let mut setting = Setting::random(&mut seed);
                if self.accept_loss {
                    setting.recovery = RecoveryMode::AcceptLoss;
                }
                tally.add("damages", 1);
                victim.judge(damage, &setting, &mut tally)?;
            }
            tally.add("victims", 1);
            Ok(tally)
        })
    }
}

/// M2.
fn attacks(victim: &Victim, seed: &mut Seed) -> Vec<Damage> {
    let mut attacks = Vec::new();
    for (file, (_, bytes)) in victim.files().iter().enumerate() {
        attacks.push(Damage::Remove(file));
        attacks.extend((0..file).map(|other| Damage::Exchange(other, file)));
        for (number, page) in bytes.chunks(PAGE).enumerate() {
            if page.iter().any(|byte| *byte != 0) {
                attacks.push(Damage::Page(file, number));
            }
            if victim.older(file, number).is_some() {
                attacks.push(Damage::Stale(file, number));
            }
        }
        let sectors: Vec<&[u8]> = bytes.chunks(SECTOR).collect();
        for (number, sector) in sectors.iter().enumerate() {
            let at = number * SECTOR + seed.index(sector.len());
            if seed.one_in(CUTS_ONE_IN) {
                attacks.push(Damage::Cut(file, at));
            }
            if sector.iter().any(|byte| *byte != 0) {
                let bit = u32::try_from(seed.below(8)).unwrap_or(0);
                attacks.push(Damage::Zero(file, number));
                attacks.push(Damage::Flip { file, at, bit });
            }
            if sectors.get(number + 1).is_some_and(|next| next != sector) {
                attacks.push(Damage::Double(file, number));
                attacks.push(Damage::Swap(file, number));
            }
        }
    }
    attacks
}
