//! The ledger: one line for each campaign that ran long, kept in the repository as evidence.
//!
//! Tab-separated, with a header: date (UTC), commit, goal, campaign, first seed, runs (of whatever
//! the campaign does), what was checked in them and how much of it, promises broken, verdict,
//! seconds, command.
//!
//! L1. Lines are only ever added; the first names the columns.
//! L2. A text cannot break a line: tabs and line ends in it become spaces.
//!
//! The campaigns of `velella-reliability` write it, too. Tests: below.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

/// The first line of the file.
const HEADER: &str = "date\tcommit\tgoal\tcampaign\tseed_from\truns\tunit\tchecked\tlost\tverdict\t\
                      seconds\tcommand";

/// A line of the ledger.
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
    /// `0`, or what was lost: how many promises were broken, or which first.
    pub lost: &'a str,
    /// Seconds it took.
    pub seconds: f64,
    /// The command that does it again.
    pub command: &'a str,
}

impl Entry<'_> {
    /// Appends it at `now_ms` (since 1970), after a header if the file is new.
    ///
    /// # Errors
    /// Those of making and writing the file.
    pub fn append(&self, path: &Path, now_ms: u64) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let is_new = !path.exists();
        let mut file = File::options().create(true).append(true).open(path)?;
        let verdict = if self.lost == "0" { "held" } else { "FAILED" };
        let line = format!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{verdict}\t{:.0}\t{}\n",
            date(now_ms),
            commit(),
            self.goal,
            self.campaign,
            self.seed_from,
            self.runs,
            self.unit,
            self.checked,
            clean(self.lost),
            self.seconds,
            clean(self.command),
        );
        let header = if is_new {
            format!("{HEADER}\n")
        } else {
            String::new()
        };
        file.write_all((header + &line).as_bytes())
    }
}

fn clean(text: &str) -> String {
    text.replace(['\t', '\n', '\r'], " ")
}

/// One goal's sum over all lines of a ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sum {
    /// The goal.
    pub goal: String,
    /// The campaign.
    pub campaign: String,
    /// What is counted, without what its line says beyond that.
    pub unit: String,
    /// How many of it, in all.
    pub checked: u64,
    /// Lines whose verdict is none of `held`, `pass` and `unfinished`, which is said of an attack
    /// that never began.
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
        // `schedules, at least 1000 of each model (…)`.
        let unit = unit.split(", ").next().unwrap_or(unit);
        let same = |sum: &&mut Sum| {
            (sum.goal.as_str(), sum.campaign.as_str(), sum.unit.as_str()) == (goal, campaign, unit)
        };
        let (more, failed) = (
            checked.parse().unwrap_or(0),
            u64::from(!matches!(verdict, "held" | "pass" | "unfinished")),
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

/// The commit that is checked out here, `-dirty` if anything but a ledger differs from it; `-`
/// where that cannot be told.
fn commit() -> String {
    let head = told_by_git(&["rev-parse", "--short=12", "HEAD"]);
    // A run before this one has left its line.
    let differs = told_by_git(&[
        "status",
        "--porcelain",
        "--",
        ":/",
        ":(exclude,glob)**/*.tsv",
    ]);
    match (head, differs) {
        (Some(head), Some(differs)) if differs.is_empty() => head,
        (Some(head), _) => head + "-dirty",
        (None, _) => "-".to_owned(),
    }
}

fn told_by_git(arguments: &[&str]) -> Option<String> {
    let told = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&told.stdout);
    told.status.success().then(|| text.trim().to_owned())
}

/// Milliseconds since 1970 as a date and time in UTC.
///
/// Source: Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
fn date(ms: u64) -> String {
    let seconds = ms / 1000;
    let shifted = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{:02}Z",
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399_000), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400_000), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_709_251_200_000), "2024-03-01T00:00:00Z");
        assert_eq!(date(1_798_761_599_999), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn a_ledger_has_one_header_and_a_line_for_each_campaign() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("reliability").join("LEDGER.tsv");
        let units = [
            "acknowledged writes",
            "acknowledged writes, at least 7 a run",
            "acknowledged writes",
        ];
        for (lost, unit) in ["0", "key 4\tis\nabsent", "0"].into_iter().zip(units) {
            let entry = Entry {
                goal: "G1",
                campaign: "kill -9",
                seed_from: 5,
                runs: 10,
                unit,
                checked: 1000,
                lost,
                seconds: 1.6,
                command: "velella crash-test",
            };
            entry.append(&path, 0).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split('\t').collect())
            .collect();
        assert_eq!(lines.len(), 4);
        assert!(lines.iter().all(|line| line.len() == 12), "{text}");
        assert_eq!((lines[1][9], lines[2][9]), ("held", "FAILED"));
        assert_eq!(lines[2][8], "key 4 is absent");
        let unfinished =
            "d\tc\tG1\tkill -9\t5\t1\tacknowledged writes\t0\tlate\tunfinished\t9\ta\n";
        let sums = sums(&(text + unfinished));
        assert_eq!(sums.len(), 1, "{sums:?}");
        assert_eq!((sums[0].checked, sums[0].failed), (3000, 1));
    }
}
