//! `corruption` and `flipped-below-the-cut`: no damage gives a wrong answer.
//!
//! D1. `corruption` damages a victim (`sim/victim.rs`) everywhere: each byte with a bit flipped,
//!     each sector zeroed, doubled and swapped with the next, each file cut at each byte, removed,
//!     and exchanged for each other. A pass is `PASS` runs, each of which takes every so many
//!     attacks of all these sorts. Each pass flips another bit, so eight flip all; then comes the
//!     next victim.
//! D2. `flipped-below-the-cut` flips bytes of the journals of random victims: recovery may not
//!     fall back to an older state (the cut rule's promise).
//!
//! Tests: `tests/corruption.rs`, `tests/flipped_below_the_cut.rs`.

use crate::campaign::{Campaign, Tally};
use crate::sim::alone;
use crate::sim::setting::Setting;
use crate::sim::victim::{Damage, SECTOR, Victim};
use std::sync::Arc;
use velella::RecoveryMode;
use velella_sync::lock::Mutex;
use velella_testkit::Seed;

/// Runs that go over a victim once.
const PASS: u64 = STRIDE as u64;
/// The same: of so many attacks a run takes one.
const STRIDE: usize = 3_000;
/// Runs that flip every bit of a victim.
const VICTIM: u64 = 8 * PASS;
/// Flips of one run below the cut.
const FLIPS: u64 = 40;

/// Attacks of one pass.
fn attacks(victim: &Victim) -> usize {
    let files = victim.files().len();
    2 * victim.bytes() + 3 * victim.sectors() + files + files * files
}

/// Attack `number`, which flips bit `bit` if it flips one.
fn attack(victim: &Victim, mut number: usize, bit: u32) -> Damage {
    let (bytes, sectors) = (victim.bytes(), victim.sectors());
    if number < bytes {
        let (file, at) = victim.locate(number, 1);
        return Damage::Flip { file, at, bit };
    }
    number -= bytes;
    if number < 3 * sectors {
        let (file, sector) = victim.locate(number / 3, SECTOR);
        let sorts = [Damage::Zero, Damage::Double, Damage::Swap];
        return sorts[number % 3](file, sector);
    }
    number -= 3 * sectors;
    if number < bytes {
        let (file, len) = victim.locate(number, 1);
        return Damage::Cut(file, len);
    }
    number -= bytes;
    let files = victim.files().len();
    if number < files {
        return Damage::Remove(number);
    }
    number -= files;
    Damage::Exchange(number / files, number % files)
}

/// How damaged copies are opened.
fn reading(accept_loss: bool) -> Setting {
    let mut setting = Setting::plain();
    if accept_loss {
        setting.recovery = RecoveryMode::AcceptLoss;
    }
    setting
}

/// Every byte of every file damaged.
#[derive(Debug, Default)]
pub struct Corruption {
    /// A control: recovery is told to accept losses, so answers must be found wrong.
    accept_loss: bool,
    /// A session has eight passes, which flip all bits.
    every_bit: bool,
    /// The victim damaged last, with its number.
    victim: Mutex<Option<(u64, Arc<Victim>)>>,
}

impl Corruption {
    /// The control.
    #[must_use]
    pub fn accepting_loss() -> Corruption {
        Corruption {
            accept_loss: true,
            ..Corruption::default()
        }
    }

    /// All eight bits of every byte.
    #[must_use]
    pub fn in_every_bit() -> Corruption {
        Corruption {
            every_bit: true,
            ..Corruption::default()
        }
    }

    /// Victim `number`, of 0, 1, 2, …
    fn victim(&self, number: u64) -> Result<Arc<Victim>, String> {
        let mut last = self.victim.lock();
        if let Some((_, victim)) = last.as_ref().filter(|(of, _)| *of == number) {
            return Ok(Arc::clone(victim));
        }
        let victim = alone(|_| Victim::of(&mut Seed::silent(4 + number), 120))?;
        Ok(Arc::clone(&last.insert((number, Arc::new(victim))).1))
    }
}

impl Campaign for Corruption {
    fn name(&self) -> &'static str {
        if self.every_bit {
            "corruption-of-every-bit"
        } else {
            "corruption"
        }
    }

    fn goal(&self) -> &'static str {
        "G4"
    }

    fn about(&self) -> &'static str {
        "a database with every byte flipped, every sector and file damaged: never a wrong answer"
    }

    fn unit(&self) -> &'static str {
        "damages"
    }

    fn usual_runs(&self) -> u64 {
        if self.every_bit { VICTIM } else { PASS }
    }

    fn run(&self, seed: u64) -> Result<Tally, String> {
        let from_zero = seed.saturating_sub(1);
        let victim = self.victim(from_zero / VICTIM)?;
        let (pass, run) = (from_zero / PASS, from_zero % PASS);
        let setting = reading(self.accept_loss);
        alone(|_| {
            let mut tally = Tally::new();
            let from = usize::try_from(run).unwrap_or(0);
            for number in (from..attacks(&victim)).step_by(STRIDE) {
                // Each pass another bit of each byte, all eight in eight passes.
                let spread = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61;
                let bit = u32::try_from((spread + pass) % 8).unwrap_or(0);
                tally.add("damages", 1);
                victim.judge(attack(&victim, number, bit), &setting, &mut tally)?;
            }
            Ok(tally)
        })
    }
}

/// Bytes of journals flipped.
#[derive(Debug, Clone, Copy, Default)]
pub struct FlippedBelowTheCut {
    /// A control: recovery is told to accept losses, so answers must be found wrong.
    pub accept_loss: bool,
}

impl Campaign for FlippedBelowTheCut {
    fn name(&self) -> &'static str {
        "flipped-below-the-cut"
    }

    fn goal(&self) -> &'static str {
        "G4"
    }

    fn about(&self) -> &'static str {
        "a flipped byte in a durable journal: opening fails with its file, or nothing is missing"
    }

    fn unit(&self) -> &'static str {
        "flips"
    }

    fn usual_runs(&self) -> u64 {
        100
    }

    fn run(&self, seed: u64) -> Result<Tally, String> {
        let setting = reading(self.accept_loss);
        alone(|_| {
            let mut chance = Seed::silent(seed);
            let operations = 5 + chance.index(60);
            let victim = Victim::of(&mut chance, operations)?;
            let files = victim.files();
            let is_journal = |file: &usize| {
                let parts = files[*file].0.components();
                parts.into_iter().any(|part| part.as_os_str() == "journal")
            };
            let journals: Vec<_> = (0..files.len()).filter(is_journal).collect();
            let mut tally = Tally::new();
            for _ in 0..FLIPS {
                let file = *chance.pick(&journals);
                // Zeros were never written: most of a segment, and no bytes of any record.
                let used = files[file].1.iter().rposition(|byte| *byte != 0);
                let used = used.map_or(1, |last| last + 1);
                let at = chance.index(used);
                let bit = u32::try_from(chance.below(8)).unwrap_or(0);
                tally.add("flips", 1);
                victim.judge(Damage::Flip { file, at, bit }, &setting, &mut tally)?;
            }
            Ok(tally)
        })
    }
}
