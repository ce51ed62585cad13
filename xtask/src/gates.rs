//! `cargo xtask gates`: what was attacked since the storage crates last changed, beside what a
//! release asks for.
//!
//! G1. A line of the ledger counts if the sources that it attacked, at its commit, are those of the
//!     working tree, byte by byte; one whose tree was not its commit's never does. These are the
//!     storage crates, but for the fuzz targets that reach a part of them only, none, or more;
//!     files of tests and contracts' suites, which are in no product, are none of them.
//! G2. A line that failed counts for nothing, and is told; so are gates that are not reached.
//!     One that is unfinished counts for nothing, and says nothing against its attack.
//!     Of a check, whose tests are always the same, the newest commit that ran it decides: what has
//!     mended a test is in a later one, and to run it again at the same commit mends nothing. So
//!     it is with loom, whose executions are always the same, where it then goes on for as long.
//! G3. Where a seed decides which part of something a run attacks, parts are counted, not runs.
//!
//! Tests: `tests.rs` below, and beside the module.

mod session;
#[cfg(test)]
mod tests;

use crate::check;
use crate::ledger::{self, DIRTY, LEDGER};
use crate::ratio::STORAGE;
use crate::soak;
use session::Session;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Each workload with each journal: `campaigns/every_crash_point.rs`, E1.
const EVERY_CRASH_POINT: Session = Session {
    seeds: 3 * 3_795,
    things: 1,
    anew: false,
};
/// A thousand turns of each of twenty workloads, then of other twenty: `campaigns/faults.rs`, F1.
const FAULTS: Session = Session {
    seeds: 20 * 1_000,
    things: 20,
    anew: true,
};
/// Eight passes over a victim, then over the next: `campaigns/corruption.rs`, D1.
const EVERY_BIT: Session = Session {
    seeds: 8 * 3_000,
    things: 1,
    anew: true,
};

/// What the campaigns of loom are called, before how much further they go.
const LOOM: &str = "loom";
const SEEDED: &str = "reliability/SEEDED.tsv";

const TABLES: &[&str] = &["crates/base/src", "crates/sst/src"];
const JOURNAL: &[&str] = &[
    "crates/base/src",
    "crates/sync/src",
    "crates/vfs/src",
    "crates/journal/src",
];
const MANIFEST: &[&str] = &[
    "crates/base/src",
    "crates/sync/src",
    "crates/vfs/src",
    "crates/sst/src",
    "crates/tree/src",
];

/// Files of tests below `src`, and suites that every kind of something is tried by, as git leaves
/// them out; both are compiled for tests only.
const BUT_TESTS: [&str; 4] = [
    ":(exclude,glob)crates/*/src/**/tests.rs",
    ":(exclude,glob)crates/*/src/**/tests/**",
    ":(exclude,glob)crates/*/src/contract.rs",
    ":(exclude,glob)crates/*/src/contract/**",
];

/// What fuzz targets reach that do not attack all storage crates.
const REACHED: &[(&str, &[&str])] = &[
    ("block", TABLES),
    ("compression", TABLES),
    ("filter", TABLES),
    ("footer", TABLES),
    ("index", TABLES),
    ("properties", TABLES),
    ("journal", JOURNAL),
    ("commit", JOURNAL),
    ("manifest", MANIFEST),
    ("small_files", MANIFEST),
    (
        "requests",
        &["crates/server/src/resp", "crates/server/src/number.rs"],
    ),
    ("globs", &["crates/server/src/glob.rs"]),
    ("numbers", &["crates/server/src/number.rs"]),
    (
        "records",
        &[
            "crates/cli/src/record.rs",
            "crates/cli/src/record",
            "crates/cli/src/text.rs",
            "crates/cli/src/human.rs",
            "crates/cli/src/output.rs",
            "crates/cli/src/failure.rs",
        ],
    ),
    (
        "text",
        &["crates/cli/src/text.rs", "crates/cli/src/human.rs"],
    ),
];

/// What they reach beside all storage crates.
const REACHED_BESIDE: &[(&str, &str)] = &[("commands", "crates/server/src")];

/// What of a line is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// The runs.
    Runs,
    /// What was checked in them.
    Checked,
    Minutes,
    /// How many campaigns of this name there are lines of.
    Campaigns,
    /// What of this the seeds covered (G3).
    Covered(Session),
}

/// What a release asks of one kind of attack.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gate {
    goal: &'static str,
    /// What the name of its campaign begins with, or is.
    campaign: String,
    measure: Measure,
    unit: &'static str,
    asked: u64,
    /// Where the sources are that it attacks (G1).
    sources: Vec<String>,
}

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Row<'a> {
    commit: &'a str,
    campaign: &'a str,
    seed: u64,
    runs: u64,
    checked: u64,
    seconds: u64,
    verdict: &'a str,
}

/// What was reached of a gate.
#[derive(Debug, PartialEq, Eq)]
struct Reached {
    gate: Gate,
    sum: u64,
    failed: usize,
}

/// Prints the table.
///
/// # Errors
/// The ledger cannot be read, a gate is not reached, or an attack on this state failed.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let text = ledger::read(&root.join(LEDGER))?;
    let rows: Vec<Row> = text.lines().skip(1).filter_map(Row::of).collect();
    let gates = gates(root)?.into_iter();
    let mut reached: Vec<Reached> = gates
        .map(|gate| {
            let of: Vec<&Row> = rows.iter().filter(|row| gate.is_of(row.campaign)).collect();
            let same = unchanged(root, of.iter().map(|row| row.commit), &gate.sources);
            let now = of.into_iter().filter(|row| same.contains(row.commit));
            let now: Vec<&Row> = now.collect();
            gate.reached(&now)
        })
        .collect();
    reached.push(seeded(root)?);
    print!("{}", table(&reached));
    let short = reached.iter().filter(|one| !one.holds()).count();
    match short {
        0 => Ok(()),
        _ => Err(format!(
            "{short} of {} gates are not reached",
            reached.len()
        )),
    }
}

/// What a release asks for; RELIABILITY.md says what each is.
#[rustfmt::skip]
fn gates(root: &Path) -> Result<Vec<Gate>, String> {
    use Measure::{Campaigns, Checked, Covered, Minutes, Runs};
    let gate = |goal, campaign: &str, measure, asked, unit| Gate {
        goal, campaign: campaign.to_owned(), measure, unit, asked, sources: storage(),
    };
    let whole = |goal, campaign: &str, session: Session, unit| {
        gate(goal, campaign, Covered(session), session.seeds, unit)
    };
    let mut gates = vec![
        gate("G1", "kill -9", Runs, 100_000, "kills"),
        gate("G2", "power-loss", Checked, 10_000_000, "crash images"),
        gate("G2b", "power-loss-in-recovery", Checked, 1_000_000, "crashes in recovery"),
        whole("G2c", "every-crash-point", EVERY_CRASH_POINT, "workloads whole"),
        whole("G3", "faults", FAULTS, "parts of 20 workloads"),
        whole("G4", "corruption-of-every-bit", EVERY_BIT, "parts of a database"),
        gate("G4", "many-victims", Runs, 10_000, "databases"),
        gate("G5", LOOM, Minutes, 120, "minutes"),
        gate("G5b", "shuttle", Checked, 20_000_000, "schedules"),
        gate("G6", "histories", Checked, 100_000, "histories"),
    ];
    for target in soak::targets(root)? {
        let gate = gate("G7", &format!("fuzz:{target}"), Minutes, 120, "minutes");
        gates.push(Gate { sources: reached_by(&target), ..gate });
    }
    let checks = u64::try_from(check::recorded().count()).unwrap_or(u64::MAX);
    gates.extend([
        gate("G8", "check ", Campaigns, checks, "checks"),
        gate("G8", "tsan", Minutes, 60, "minutes"),
        gate("G8", "asan", Minutes, 60, "minutes"),
        gate("G10", "same-answers", Checked, 100_000, "pairs of settings"),
    ]);
    Ok(gates)
}

/// The sources that a fuzz target reaches.
fn reached_by(target: &str) -> Vec<String> {
    if let Some((_, sources)) = REACHED.iter().find(|(name, _)| *name == target) {
        return owned(sources);
    }
    let beside = REACHED_BESIDE.iter().filter(|(name, _)| *name == target);
    let beside = beside.map(|&(_, source)| source.to_owned());
    storage().into_iter().chain(beside).collect()
}

/// The sources of the storage crates.
fn storage() -> Vec<String> {
    let sources = STORAGE.iter().map(|name| format!("crates/{name}/src"));
    sources.collect()
}

fn owned(sources: &[&str]) -> Vec<String> {
    sources.iter().map(|&source| source.to_owned()).collect()
}

impl<'a> Row<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [
            _,
            commit,
            _,
            campaign,
            seed,
            runs,
            _,
            checked,
            _,
            verdict,
            seconds,
            ..,
        ] = columns[..]
        else {
            return None;
        };
        Some(Row {
            commit,
            campaign,
            seed: seed.parse().ok()?,
            runs: runs.parse().ok()?,
            checked: checked.parse().ok()?,
            seconds: seconds.parse().ok()?,
            verdict,
        })
    }

    fn held(&self) -> bool {
        matches!(self.verdict, "held" | "pass")
    }

    fn failed(&self) -> bool {
        !self.held() && self.verdict != "unfinished"
    }
}

impl Gate {
    /// `kill -9, on disk` is one of `kill -9`; of checks those are meant that there are now.
    fn is_of(&self, campaign: &str) -> bool {
        if self.measure == Measure::Campaigns {
            return check::recorded().any(|known| known == campaign);
        }
        let rest = campaign.strip_prefix(self.campaign.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
    }

    /// Adds up `rows`, which are its own.
    fn reached(self, rows: &[&Row]) -> Reached {
        let held = rows.iter().filter(|row| row.held());
        let sum = match self.measure {
            Measure::Runs => held.map(|row| row.runs).sum(),
            Measure::Checked => held.map(|row| row.checked).sum(),
            Measure::Minutes => held.map(|row| row.seconds).sum::<u64>() / 60,
            Measure::Campaigns => return self.checks(rows),
            // A run that held went through all seeds from its first on.
            Measure::Covered(session) => {
                session.covered(held.map(|row| row.seed..row.seed.saturating_add(row.runs)))
            }
        };
        let failed = rows.iter().filter(|row| row.failed());
        Reached {
            failed: failed.filter(|row| !self.is_mended(row, rows)).count(),
            gate: self,
            sum,
        }
    }

    /// Whether another commit ran the same as `row`, which failed, and held for at least as long
    /// (G2); of loom alone, since others draw what they run.
    fn is_mended(&self, failed: &Row, rows: &[&Row]) -> bool {
        let after = rows.iter().rev().take_while(|row| **row != failed);
        let mut same = after.filter(|row| row.campaign == failed.campaign);
        let holds = |row: &Row| row.held() && row.seconds >= failed.seconds;
        self.campaign == LOOM && same.any(|row| row.commit != failed.commit && holds(row))
    }
}

impl Gate {
    /// How many checks held, and how many failed, at the newest commit of each (G2).
    fn checks(self, rows: &[&Row]) -> Reached {
        let names: BTreeSet<&str> = rows.iter().map(|row| row.campaign).collect();
        let count = names.len();
        let held = names.into_iter().filter(|name| {
            let of_it = || rows.iter().filter(|row| row.campaign == *name);
            let newest = of_it().next_back().map(|row| row.commit);
            let at_newest = of_it().filter(|row| Some(row.commit) == newest);
            at_newest.into_iter().all(|row| row.held())
        });
        let held = held.count();
        Reached {
            failed: count - held,
            gate: self,
            sum: u64::try_from(held).unwrap_or(u64::MAX),
        }
    }
}

impl Reached {
    fn holds(&self) -> bool {
        self.sum >= self.gate.asked && self.failed == 0
    }
}

/// The seeded faults that the table kept of a run at this state says were caught.
fn seeded(root: &Path) -> Result<Reached, String> {
    let text = ledger::read(&root.join(SEEDED))?;
    let lines = text.lines().skip(1);
    let rows: Vec<(&str, bool)> = lines.filter_map(verdict).collect();
    let commits = rows.iter().map(|(commit, _)| *commit);
    let same = unchanged(root, commits, &storage());
    let now = rows.iter().filter(|(commit, _)| same.contains(commit));
    let verdicts: Vec<bool> = now.map(|(_, caught)| *caught).collect();
    let count = |caught| {
        verdicts
            .iter()
            .filter(|verdict| **verdict == caught)
            .count()
    };
    let number = |count| u64::try_from(count).unwrap_or(u64::MAX);
    Ok(Reached {
        gate: Gate {
            goal: "G14",
            campaign: "seeded".to_owned(),
            measure: Measure::Checked,
            unit: "faults caught",
            asked: number(crate::seeded::count()),
            sources: storage(),
        },
        sum: number(count(true)),
        failed: count(false),
    })
}

/// The commit of a line of the table of seeded faults, and whether the fault was caught.
fn verdict(line: &str) -> Option<(&str, bool)> {
    let mut columns = line.split('\t').skip(1);
    let (commit, _fault, verdict) = (columns.next()?, columns.next()?, columns.next()?);
    Some((commit, verdict.starts_with("caught")))
}

/// Those of `commits` whose `sources` are those of the working tree.
fn unchanged<'a>(
    root: &Path,
    commits: impl Iterator<Item = &'a str>,
    sources: &[String],
) -> BTreeSet<&'a str> {
    let once: BTreeSet<&str> = commits.collect();
    let same = once
        .into_iter()
        .filter(|commit| is_same(root, commit, sources));
    same.collect()
}

/// Whether `sources` at `commit` are those of the working tree (G1).
fn is_same(root: &Path, commit: &str, sources: &[String]) -> bool {
    if commit.ends_with(DIRTY) {
        return false;
    }
    let ended = Command::new("git")
        .current_dir(root)
        .args(["diff", "--quiet", commit, "--"])
        .args(sources)
        .args(BUT_TESTS)
        .output();
    ended.is_ok_and(|output| output.status.success())
}

fn table(reached: &[Reached]) -> String {
    let mut text = format!(
        "{:<5} {:<26} {:>12} {:>12} {:>6}  {}\n",
        "goal", "attack", "reached", "gate", "part", "of"
    );
    for Reached { gate, sum, failed } in reached {
        // No gate asks for nothing.
        let part = format!("{} %", (sum * 100 / gate.asked.max(1)).min(100));
        let (asked, campaign) = (grouped(gate.asked), gate.campaign.trim_end());
        let failures = match failed {
            0 => String::new(),
            _ => format!("; {failed} FAILED"),
        };
        text += &format!(
            "{:<5} {campaign:<26} {:>12} {asked:>12} {part:>6}  {}{failures}\n",
            gate.goal,
            grouped(*sum),
            gate.unit
        );
    }
    text
}

/// `1234567` as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
