//! The models for long: schedules that no commit drew, or more preemptions.
//!
//! X1. Its line is written also if a model failed, and says in which crate.
//! X2. All models have the same time; where schedules are drawn, its line says how many the model
//!     got that got the fewest, and where they are explored whole, how many models were.
//! X3. What is explored whole is so again by the same command: `loom:N` is how to go on.
//!
//! Tests: below, and in `crate::models`, which explores.

use super::{Asked, again};
use crate::ledger::{Line, Verdict};
use crate::models::{self, Sum};
use std::path::Path;

/// A way to explore, and what its line of the ledger says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tool {
    name: &'static str,
    goal: &'static str,
    unit: &'static str,
    /// Executions that share a seed, if it draws at all, as `velella_sync::model` has it.
    of_a_seed: Option<u64>,
    /// Preemptions beyond each model's bound.
    deeper: u64,
}

const LOOM: Tool = Tool {
    name: "loom",
    goal: "G5",
    unit: "executions",
    of_a_seed: None,
    deeper: 1,
};

const SHUTTLE: Tool = Tool {
    name: "shuttle",
    goal: "G5b",
    unit: "schedules",
    of_a_seed: Some(500),
    deeper: 0,
};

impl Tool {
    /// `loom`, `loom:N` or `shuttle`.
    pub(super) fn named(what: &str) -> Option<Tool> {
        match what.split_once(':') {
            None => [LOOM, SHUTTLE].into_iter().find(|tool| tool.name == what),
            Some(("loom", deeper)) => match deeper.parse() {
                Ok(deeper @ 2..=9) => Some(Tool { deeper, ..LOOM }),
                _ => None,
            },
            Some(_) => None,
        }
    }

    /// X2.
    fn unit_of(self, sum: &Sum) -> String {
        let unit = self.unit;
        match (&sum.least, self.of_a_seed) {
            (Some((model, least)), Some(_)) => {
                format!("{unit}, at least {least} of each model ({model})")
            }
            (None, Some(_)) => unit.to_owned(),
            (_, None) => format!("{unit}, {} of {} models whole", sum.whole, sum.explorations),
        }
    }

    /// What the ledger calls it: all of loom is one campaign, which `, ` divides.
    fn campaign(self) -> String {
        match self.deeper {
            0 | 1 => self.name.to_owned(),
            deeper => format!("{}, {deeper} preemptions more", self.name),
        }
    }
}

/// Explores as long as was `asked`.
///
/// # Errors
/// A model that does not end as it must, or nothing that could be explored.
pub(super) fn run(root: &Path, tool: Tool, asked: &Asked, seed: u64) -> Result<(), String> {
    let (sum, explored) = models::beyond(root, tool.name, tool.deeper, asked.minutes, seed)?;
    let unit = tool.unit_of(&sum);
    let line = Line {
        goal: tool.goal,
        what: &tool.campaign(),
        seed,
        runs: tool
            .of_a_seed
            .map_or(1, |of_a_seed| sum.longest.div_ceil(of_a_seed).max(1)),
        unit: &unit,
        checked: sum.executions,
        seconds: sum.seconds,
        verdict: match &explored {
            Ok(()) => Verdict::Held,
            Err(which) => Verdict::Failed(which),
        },
        command: &again(&asked.what, asked.minutes, seed),
    };
    if !asked.again {
        line.keep(root)?;
    }
    explored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_of_the_model_with_the_fewest_schedules_or_of_whole_ones() {
        let sum = Sum {
            least: Some(("engine/slow".to_owned(), 77)),
            explorations: 5,
            whole: 4,
            ..Sum::default()
        };
        let unit = |tool| Tool::named(tool).unwrap().unit_of(&sum);
        assert_eq!(
            unit("shuttle"),
            "schedules, at least 77 of each model (engine/slow)"
        );
        assert_eq!(unit("loom"), "executions, 4 of 5 models whole");
    }

    #[test]
    fn both_tools_can_be_soaked_loom_ever_deeper_and_nothing_else_is_one() {
        let campaigns = [
            ("loom", "loom"),
            ("loom:2", "loom, 2 preemptions more"),
            ("shuttle", "shuttle"),
        ];
        for (name, campaign) in campaigns {
            assert_eq!(Tool::named(name).unwrap().campaign(), campaign);
            assert!(crate::soak::is_attack(name), "{name}");
        }
        for name in [
            "kill",
            "loom:",
            "loom:0",
            "loom:1",
            "loom:N",
            "loom:99",
            "shuttle:2",
        ] {
            assert_eq!(Tool::named(name), None, "{name}");
        }
        for name in ["loom:", "loom:1", "loom:N"] {
            assert!(!crate::soak::is_attack(name), "{name}");
        }
    }
}
