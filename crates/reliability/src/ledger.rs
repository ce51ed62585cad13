//! The ledger: one line for each time a campaign ran, kept in the repository.
//!
//! Columns, separated by tabs: date (UTC), commit, goal, campaign, first seed, runs, unit, how
//! many of the unit, lost (0 or what failed first), verdict, seconds, command.
//!
//! L1. Lines are only ever added; the first line names the columns.
//! L2. A text cannot break a line: tabs and line ends in it become spaces.
//!
//! Tests: below.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// The names of the columns.
pub const HEADER: &str = "date\tcommit\tgoal\tcampaign\tseed_from\truns\tunit\tchecked\tlost\t\
                          verdict\tseconds\tcommand";

/// One line.
#[derive(Debug, Clone)]
pub struct Entry<'a> {
    /// The goal it counts for.
    pub goal: &'a str,
    /// The campaign.
    pub campaign: &'a str,
    /// The first seed.
    pub seed_from: u64,
    /// Runs completed.
    pub runs: u64,
    /// What is counted.
    pub unit: &'a str,
    /// How many of it.
    pub checked: u64,
    /// What failed first, if anything did.
    pub failure: Option<&'a str>,
    /// Seconds it took.
    pub seconds: f64,
    /// The command that does it again.
    pub command: &'a str,
}

/// Adds `entry`, made now at `commit`, to the ledger at `path`; creates the file if need be.
///
/// # Errors
/// Those of opening and writing the file.
pub fn append(path: &Path, date: &str, commit: &str, entry: &Entry<'_>) -> io::Result<()> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    if file.metadata()?.len() == 0 {
        writeln!(file, "{HEADER}")?;
    }
    let (lost, verdict) = match entry.failure {
        None => ("0".to_owned(), "held"),
        Some(what) => (clean(what), "FAILED"),
    };
    writeln!(
        file,
        "{date}\t{commit}\t{}\t{}\t{}\t{}\t{}\t{}\t{lost}\t{verdict}\t{:.0}\t{}",
        entry.goal,
        entry.campaign,
        entry.seed_from,
        entry.runs,
        entry.unit,
        entry.checked,
        entry.seconds,
        clean(entry.command),
    )
}

/// One goal's sum over all lines of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// The goal.
    pub goal: String,
    /// The campaign.
    pub campaign: String,
    /// What is counted.
    pub unit: String,
    /// How many of it, in all.
    pub checked: u64,
    /// Lines whose verdict is neither `held` nor `pass`.
    pub failed: u64,
}

/// Adds the lines of the ledger `text` up, by goal, campaign and unit.
#[must_use]
pub fn sums(text: &str) -> Vec<Sum> {
    let mut sums: Vec<Sum> = Vec::new();
    for line in text.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, _, goal, campaign, _, _, unit, checked, _, verdict, ..] = columns[..] else {
            continue;
        };
        let same = |sum: &&mut Sum| {
            (sum.goal.as_str(), sum.campaign.as_str(), sum.unit.as_str()) == (goal, campaign, unit)
        };
        let (more, failed) = (
            checked.parse().unwrap_or(0),
            u64::from(!matches!(verdict, "held" | "pass")),
        );
        match sums.iter_mut().find(same) {
            Some(sum) => {
                sum.checked += more;
                sum.failed += failed;
            }
            None => sums.push(Sum {
                goal: goal.to_owned(),
                campaign: campaign.to_owned(),
                unit: unit.to_owned(),
                checked: more,
                failed,
            }),
        }
    }
    sums.sort_by(|one, other| {
        one.goal
            .cmp(&other.goal)
            .then(one.campaign.cmp(&other.campaign))
    });
    sums
}

fn clean(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_under_one_header() {
        let path = std::env::temp_dir().join(format!("ledger-{}", std::process::id()));
        let mut entry = Entry {
            goal: "G2",
            campaign: "power-loss",
            seed_from: 7,
            runs: 10,
            unit: "crash images",
            checked: 500,
            failure: None,
            seconds: 1.6,
            command: "reliability power-loss",
        };
        append(&path, "2026-01-01", "abc", &entry).unwrap();
        entry.failure = Some("two\nlines\tand a tab");
        append(&path, "2026-01-02", "abd", &entry).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0], HEADER);
        let columns = HEADER.split('\t').count();
        assert!(lines.iter().all(|line| line.split('\t').count() == columns));
        assert!(lines[1].contains("\t500\t0\theld\t2\t"), "{}", lines[1]);
        let sums = sums(&text);
        assert_eq!((sums.len(), sums[0].checked, sums[0].failed), (1, 1_000, 1));
        assert!(lines[2].contains("two lines and a tab\tFAILED"));
    }
}
