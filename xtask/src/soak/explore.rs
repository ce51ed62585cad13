//! The models for long: schedules that no commit drew, or one preemption more.
//!
//! X1. Its line is written also if a model failed, and says in which crate.
//! X2. All models have the same time; where schedules are drawn, its line says how many the model
//!     got that got the fewest.
//!
//! Tests: below, and in `crate::models`, which explores.

use super::{Asked, again};
use crate::ledger::Line;
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
}

const TOOLS: [Tool; 2] = [
    Tool {
        name: "loom",
        goal: "G5",
        unit: "executions",
        of_a_seed: None,
    },
    Tool {
        name: "shuttle",
        goal: "G5b",
        unit: "schedules",
        of_a_seed: Some(500),
    },
];

impl Tool {
    pub(super) fn named(what: &str) -> Option<Tool> {
        TOOLS.into_iter().find(|tool| tool.name == what)
    }

    /// X2. What is explored whole ends by itself, and its least tells nothing.
    fn unit_of(self, sum: &Sum) -> String {
        match (&sum.least, self.of_a_seed) {
            (Some((model, least)), Some(_)) => {
                format!("{}, at least {least} of each model ({model})", self.unit)
            }
            _ => self.unit.to_owned(),
        }
    }
}

/// Explores as long as was `asked`.
///
/// # Errors
/// A model that does not end as it must, or nothing that could be explored.
pub(super) fn run(root: &Path, tool: Tool, asked: &Asked, seed: u64) -> Result<(), String> {
    let (sum, verdict) = models::beyond(root, tool.name, asked.minutes, seed)?;
    let lost = match &verdict {
        Ok(()) => "0",
        Err(which) => which,
    };
    let unit = tool.unit_of(&sum);
    let line = Line {
        goal: tool.goal,
        what: tool.name,
        seed,
        runs: tool
            .of_a_seed
            .map_or(1, |of_a_seed| sum.longest.div_ceil(of_a_seed).max(1)),
        unit: &unit,
        checked: sum.executions,
        seconds: sum.seconds,
        lost,
        command: &again(tool.name, asked.minutes, seed),
    };
    if !asked.again {
        line.keep(root)?;
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_of_the_model_with_the_fewest_schedules() {
        let sum = Sum {
            least: Some(("engine/slow".to_owned(), 77)),
            ..Sum::default()
        };
        let unit = |tool| Tool::named(tool).unwrap().unit_of(&sum);
        assert_eq!(
            unit("shuttle"),
            "schedules, at least 77 of each model (engine/slow)"
        );
        assert_eq!(unit("loom"), "executions");
    }

    #[test]
    fn both_tools_can_be_soaked_and_nothing_else_is_one() {
        for name in ["loom", "shuttle"] {
            assert_eq!(Tool::named(name).unwrap().name, name);
            assert!(crate::soak::is_attack(name), "{name}");
        }
        assert_eq!(Tool::named("kill"), None);
    }
}
