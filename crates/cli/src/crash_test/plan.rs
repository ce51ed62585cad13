//! When the child is killed: drawn by seed.
//!
//! Times are spread so that each power of two is as likely as the next: most interesting moments
//! lie within the first millisecond after something began.
//!
//! Tests: below.

use super::random::Random;
use std::str::FromStr;
use std::time::Duration;

/// When.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Plan {
    /// By the parent, so long after the child was started: while it recovers.
    Start(Duration),
    /// By the parent, so long after the load began.
    Load(Duration),
    /// By itself, at a call to the file system.
    Call(Call),
    /// By itself, after so many operations of the load.
    Operations(u64),
    /// Not at all.
    Never,
}

/// A call to the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) moment: Moment,
    pub(super) target: Target,
    /// The first is 1.
    pub(super) nth: u64,
    pub(super) is_after: bool,
}

/// During what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Opening,
    Load,
}

/// Which calls are counted; reads never.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Any,
    Table,
    Manifest,
    Journal,
    Sync,
    /// What changes names: create, rename, remove, and the sync of a directory.
    Name,
}

const TARGETS: [(Target, &str); 6] = [
    (Target::Any, "any"),
    (Target::Table, "table"),
    (Target::Manifest, "manifest"),
    (Target::Journal, "journal"),
    (Target::Sync, "sync"),
    (Target::Name, "name"),
];

impl Plan {
    /// Draws one. `opening` is what openings took lately.
    pub(super) fn draw(random: &mut Random, opening: Duration) -> Plan {
        let target = |random: &mut Random| random.pick(&TARGETS).0;
        match random.below(100) {
            0..8 => {
                let share = opening.mul_f64(1.2).as_micros().max(100);
                let micros = random.below(u64::try_from(share).unwrap_or(u64::MAX));
                Plan::Start(Duration::from_micros(micros))
            }
            8..22 => Plan::Call(Call {
                moment: Moment::Opening,
                target: target(random),
                nth: random.spread(1, 40),
                is_after: random.one_in(2),
            }),
            22..45 => Plan::Call(Call {
                moment: Moment::Load,
                target: target(random),
                nth: random.spread(1, 60),
                is_after: random.one_in(2),
            }),
            45..65 => Plan::Operations(random.spread(1, 6_000)),
            // One in sixty-six runs long.
            65 if random.one_in(2) => Plan::Load(Duration::from_millis(random.spread(100, 2_000))),
            _ => Plan::Load(Duration::from_micros(random.spread(20, 30_000))),
        }
    }

    /// Whether a child so planned kills itself while it opens.
    pub(super) fn kills_opening(&self) -> bool {
        matches!(self, Plan::Call(call) if call.moment == Moment::Opening)
    }

    /// How long the load may go on before the parent kills the child in any case.
    pub(super) fn load_time(&self) -> Option<Duration> {
        match self {
            Plan::Load(time) => Some(*time),
            // The call may never come.
            Plan::Start(_) | Plan::Call(_) => Some(Duration::from_millis(40)),
            Plan::Operations(_) | Plan::Never => None,
        }
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Plan::Start(time) => write!(f, "start:{}", time.as_micros()),
            Plan::Load(time) => write!(f, "load:{}", time.as_micros()),
            Plan::Operations(most) => write!(f, "operations:{most}"),
            Plan::Never => write!(f, "never"),
            Plan::Call(call) => {
                let moment = match call.moment {
                    Moment::Opening => "opening",
                    Moment::Load => "load",
                };
                let named = TARGETS.iter().find(|(target, _)| *target == call.target);
                let target = named.map_or("any", |(_, name)| name);
                let side = if call.is_after { "after" } else { "before" };
                write!(f, "call:{moment}:{target}:{}:{side}", call.nth)
            }
        }
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Plan, String> {
        let refused = || format!("`{text}` is no plan of a kill");
        let number = |word: &str| word.parse::<u64>().map_err(|_| refused());
        let words: Vec<&str> = text.split(':').collect();
        match words[..] {
            ["never"] => Ok(Plan::Never),
            ["start", micros] => Ok(Plan::Start(Duration::from_micros(number(micros)?))),
            ["load", micros] => Ok(Plan::Load(Duration::from_micros(number(micros)?))),
            ["operations", most] => Ok(Plan::Operations(number(most)?)),
            ["call", moment, target, nth, side] => {
                let named = TARGETS.iter().find(|(_, name)| *name == target);
                Ok(Plan::Call(Call {
                    moment: match moment {
                        "opening" => Moment::Opening,
                        "load" => Moment::Load,
                        _ => return Err(refused()),
                    },
                    target: named.ok_or_else(refused)?.0,
                    nth: number(nth)?,
                    is_after: side == "after",
                }))
            }
            _ => Err(refused()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let mut random = Random::of(&[3]);
        for _ in 0..500 {
            let plan = Plan::draw(&mut random, Duration::from_millis(4));
            assert_eq!(plan.to_string().parse(), Ok(plan));
        }
        for text in ["", "call", "call:x:any:1:after", "load:soon"] {
            assert!(text.parse::<Plan>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_kind_of_kill_is_drawn() {
        let mut random = Random::of(&[4]);
        let drawn: String = (0..400)
            .map(|_| Plan::draw(&mut random, Duration::from_millis(4)).to_string() + " ")
            .collect();
        for text in [
            "start:",
            "load:",
            "operations:",
            "call:opening:",
            "call:load:",
        ] {
            assert!(drawn.contains(text), "{text}");
        }
        for (_, name) in TARGETS {
            assert!(drawn.contains(&format!(":{name}:")), "{name}");
        }
    }
}
