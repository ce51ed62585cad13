//! The campaign `same-answers`: one sequence of operations under many settings, the same answers.
//!
//! Source: metamorphic tests as in Pebble and RocksDB's `db_stress`: no oracle but the database
//! itself under other settings; here the map of `workload` is asked as well.
//!
//! S1. A run draws one sequence and a number of settings, and compares every answer of each with
//!     the first's; and the first's with the map's.
//!
//! Threads: the databases' own. Tests: `tests/same_answers.rs`, with an operation left out on
//! purpose.

use crate::campaign::{Campaign, Tally};
use crate::draws::Draws;
use crate::workload::{Answer, Model, Operation, Settings, answers, operations};
use std::collections::BTreeSet;
use std::sync::Mutex;
use velella_testkit::Seed;

/// Settings each sequence is tried under.
const SETTINGS: usize = 5;
/// Operations of a sequence, at most.
const OPERATIONS: usize = 600;

/// One sequence of operations under many settings.
#[derive(Debug, Default)]
pub struct SameAnswers {
    /// Every setting tried, to count the different ones.
    tried: Mutex<BTreeSet<String>>,
}

impl Campaign for SameAnswers {
    fn name(&self) -> &'static str {
        "same-answers"
    }

    fn goal(&self) -> &'static str {
        "G10"
    }

    fn about(&self) -> &'static str {
        "the same operations under random settings give the same answers"
    }

    fn unit(&self) -> &'static str {
        "pairs"
    }

    fn usual_runs(&self) -> u64 {
        50
    }

    fn run(&self, number: u64) -> Result<Tally, String> {
        let mut seed = Seed::silent(number);
        let operations = sequence(&mut seed);
        let reference = settings(&mut seed);
        let expected = answers(&reference, &operations)?;
        let mut model = Model::default();
        let of_map: Vec<Answer> = operations.iter().map(|one| model.answer(one)).collect();
        compare(&operations, &expected, &of_map, &reference, "a map")?;
        let mut tally = Tally::new();
        for _ in 1..SETTINGS {
            let other = settings(&mut seed);
            let found = answers(&other, &operations)?;
            compare(
                &operations,
                &found,
                &expected,
                &other,
                &format!("{reference:?}"),
            )?;
            tally.add("pairs", 1);
            let mut tried = self
                .tried
                .lock()
                .unwrap_or_else(|broken| broken.into_inner());
            for settings in [&reference, &other] {
                let new = tried.insert(format!("{settings:?}"));
                tally.add("different settings", u64::from(new));
            }
        }
        tally.add("answers compared", (SETTINGS * expected.len()) as u64);
        Ok(tally)
    }
}

/// A sequence of operations.
pub fn sequence(seed: &mut Seed) -> Vec<Operation> {
    let bytes: Vec<u8> = (0..OPERATIONS * 12).map(|_| byte(seed)).collect();
    let count = OPERATIONS / 4 + seed.index(OPERATIONS * 3 / 4);
    operations(&mut Draws::new(&bytes), count)
}

/// Settings of a database.
pub fn settings(seed: &mut Seed) -> Settings {
    let bytes: Vec<u8> = (0..32).map(|_| byte(seed)).collect();
    Settings::draw(&mut Draws::new(&bytes))
}

/// The first answer that differs.
///
/// # Errors
/// It, with the operation and both settings.
pub fn compare(
    operations: &[Operation],
    found: &[Answer],
    expected: &[Answer],
    settings: &Settings,
    than: &str,
) -> Result<(), String> {
    for (at, operation) in operations.iter().enumerate() {
        if found.get(at) != expected.get(at) {
            return Err(format!(
                "operation {at}, {operation:?}: {:?} under {settings:?}, but {:?} under {than}",
                found.get(at),
                expected.get(at)
            ));
        }
    }
    Ok(())
}

fn byte(seed: &mut Seed) -> u8 {
    u8::try_from(seed.below(256)).unwrap_or(0)
}
