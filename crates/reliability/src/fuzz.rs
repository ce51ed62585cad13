//! The campaign `fuzz`: inputs of the corpus, changed at random, on every target.
//!
//! F1. A run is one target's: which one, from which inputs, with which changes follow from its
//!     seed. Cheap targets are executed more often, so that a run costs about the same for all.
//! F2. What fails is shortened, and stands in the failure as hexadecimal digits: as a file of
//!     `fuzz/corpus/<target>` it is a regression test.
//!
//! What it lacks is coverage as a guide: `cargo fuzz` (docs/testing.md) has that, and leaves what
//! it found in the corpus, from which this goes on.
//!
//! Threads: any. Tests: `tests/fuzz.rs`, with a target that is broken on purpose.

use crate::campaign::{Campaign, Tally};
use crate::mutate::{mutate, shrink};
use crate::targets::{self, Target};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use velella_testkit::Seed;

/// Executions of a target whose share is 1, a run.
const EXECUTIONS: u64 = 4;

/// Inputs of the corpus, changed at random, on every target.
#[derive(Debug)]
pub struct Fuzz {
    targets: Vec<(&'static Target, OnceLock<Vec<Vec<u8>>>)>,
}

impl Default for Fuzz {
    fn default() -> Self {
        Fuzz::of(targets::ALL)
    }
}

impl Fuzz {
    /// Of these targets only.
    #[must_use]
    pub fn of(targets: &'static [Target]) -> Fuzz {
        Fuzz {
            targets: targets
                .iter()
                .map(|target| (target, OnceLock::new()))
                .collect(),
        }
    }
}

impl Campaign for Fuzz {
    fn name(&self) -> &'static str {
        "fuzz"
    }

    fn goal(&self) -> &'static str {
        "G7"
    }

    fn about(&self) -> &'static str {
        "every decoder on inputs changed at random; a database against a map"
    }

    fn unit(&self) -> &'static str {
        "executions"
    }

    fn usual_runs(&self) -> u64 {
        800
    }

    fn run(&self, number: u64) -> Result<Tally, String> {
        let place = usize::try_from(number % self.targets.len() as u64).unwrap_or(0);
        let (target, inputs) = &self.targets[place];
        let inputs = inputs.get_or_init(|| {
            let corpus = targets::corpus(target.name).unwrap_or_default();
            corpus.into_iter().map(|(_, input)| input).collect()
        });
        let mut seed = Seed::silent(number);
        let executions = EXECUTIONS * u64::from(target.share);
        let mut input = Vec::new();
        for _ in 0..executions {
            input.clear();
            if !inputs.is_empty() {
                input.extend_from_slice(&inputs[seed.index(inputs.len())]);
            }
            mutate(&mut input, inputs, target.words, &mut seed);
            if let Some(what) = failure(target, &input) {
                let shorter = shrink(&input, |input| failure(target, input).is_some());
                let what = failure(target, &shorter).unwrap_or(what);
                return Err(format!("{}: {what}: input {}", target.name, hex(&shorter)));
            }
        }
        let mut tally = Tally::new();
        tally.add("executions", executions);
        tally.add(target.name, executions);
        Ok(tally)
    }
}

fn failure(target: &Target, input: &[u8]) -> Option<String> {
    let ran = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let panic = ran.err()?;
    let text = panic.downcast_ref::<String>().cloned();
    Some(
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
            .unwrap_or_default(),
    )
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
