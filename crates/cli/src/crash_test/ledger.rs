//! One line for each campaign in a file of all campaigns: the evidence that is published.
//!
//! Tab-separated, with a header: date, commit, goal, campaign, first seed, runs (kills, or power
//! cuts), what was checked in them and how much of it, promises broken, verdict, seconds, command.
//!
//! Tests: below.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;

/// The first line of the file.
const HEADER: &str = "date\tcommit\tgoal\tcampaign\tseed_from\truns\tunit\tchecked\tlost\tverdict\t\
                      seconds\tcommand";

/// A line of the ledger.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) goal: &'static str,
    pub(super) campaign: String,
    pub(super) seed_from: u64,
    pub(super) runs: u64,
    pub(super) unit: &'static str,
    pub(super) checked: u64,
    pub(super) lost: u64,
    pub(super) seconds: f64,
    pub(super) command: String,
}

impl Entry {
    /// Appends it, after a header if the file is new.
    pub(super) fn append(&self, path: &Path, now_ms: u64) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let is_new = !path.exists();
        let mut file = File::options().create(true).append(true).open(path)?;
        let verdict = if self.lost == 0 { "held" } else { "FAILED" };
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
            self.lost,
            self.seconds,
            self.command,
        );
        let header = if is_new {
            format!("{HEADER}\n")
        } else {
            String::new()
        };
        file.write_all((header + &line).as_bytes())
    }
}

/// The commit that is checked out here; `-` where that cannot be told.
fn commit() -> String {
    let told = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12"])
        .output();
    match told {
        Ok(told) if told.status.success() => {
            String::from_utf8_lossy(&told.stdout).trim().to_owned()
        }
        _ => "-".to_owned(),
    }
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
        for lost in [0, 1] {
            let entry = Entry {
                goal: "G1",
                campaign: "kill -9".to_owned(),
                seed_from: 5,
                runs: 10,
                unit: "acknowledged writes",
                checked: 1000,
                lost,
                seconds: 1.6,
                command: "velella crash-test".to_owned(),
            };
            entry.append(&path, 0).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split('\t').collect())
            .collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() == 12), "{text}");
        assert_eq!((lines[1][9], lines[2][9]), ("held", "FAILED"));
    }
}
