//! The ledger of attacks: seeds that it has, and lines for attacks that cannot write their own.
//!
//! L1. A line names its first seed and how many there were; seeds it names are not fresh.
//! L2. A line of a tree that was not its commit's says so by [`DIRTY`]; results are no part of it.
//!
//! Tests: below.

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

pub(crate) const LEDGER: &str = "reliability/LEDGER.tsv";
/// Seeds begin at multiples of this, so that an attack's seeds are told apart by their millions.
const STRIDE: u64 = 1_000_000;

/// What a commit's name ends on if the tree was not that commit's.
pub(crate) const DIRTY: &str = "-dirty";

/// The ledger's text; none is empty.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| format!("cannot read {}: {error}", path.display())),
    }
}

/// The first seed that a commit may decide (`ci.rs`); soaks stay below it.
pub(crate) const DRAWN_FROM: u64 = 1_000_000_000_000;

/// First seeds and numbers of runs of a ledger.
pub(crate) fn used(ledger: &str) -> Result<Vec<(u64, u64)>, String> {
    let pair = |line: &str| {
        let mut columns = line.split('\t').skip(4);
        let (first, runs) = (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
        Some((first, runs))
    };
    let named = |line| pair(line).ok_or_else(|| format!("{LEDGER} has no seeds in `{line}`"));
    ledger.lines().skip(1).map(named).collect()
}

/// A seed behind all that were used.
pub(crate) fn fresh(used: &[(u64, u64)]) -> u64 {
    (end(used) / STRIDE + 1) * STRIDE
}

/// `seed`, if all that were used lie before it (K1), or if it goes on where a run ended and none
/// of the next [`STRIDE`] was used, which no run of an hour reaches: a session that covers
/// everything in turns is of seeds behind each other.
pub(crate) fn unused(used: &[(u64, u64)], seed: u64) -> Result<u64, String> {
    let end = end(used);
    let goes_on = used.iter().any(|(first, runs)| first + runs == seed);
    let has_room = || {
        let near = |(first, runs): &(u64, u64)| *first < seed + STRIDE && first + runs > seed;
        !used.iter().any(near)
    };
    if seed >= end || goes_on && has_room() {
        return Ok(seed);
    }
    Err(format!(
        "{LEDGER} has seeds up to {}; take seed {}, go on where a run ended, or repeat what was \
         run by --again",
        end - 1,
        fresh(used)
    ))
}

/// Behind the last seed that was used, those aside that a commit decided.
fn end(used: &[(u64, u64)]) -> u64 {
    let soaks = used.iter().filter(|(first, _)| *first < DRAWN_FROM);
    let ends = soaks.map(|(first, runs)| first + runs.max(&1));
    ends.max().unwrap_or(0)
}

/// How an attack ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict<'a> {
    /// Nothing was lost.
    Held,
    /// What went wrong.
    Failed(&'a str),
    /// Why it never came to attack anything: that proves nothing, and blames nothing.
    Unfinished(&'a str),
}

/// A line of the ledger for an attack that could not write one.
pub(crate) struct Line<'a> {
    pub(crate) goal: &'a str,
    pub(crate) what: &'a str,
    pub(crate) seed: u64,
    /// Seeds used up, from `seed` on.
    pub(crate) runs: u64,
    /// What is counted, and how many of it.
    pub(crate) unit: &'a str,
    pub(crate) checked: u64,
    pub(crate) seconds: u64,
    pub(crate) verdict: Verdict<'a>,
    /// What does it again.
    pub(crate) command: &'a str,
}

impl Line<'_> {
    /// Its text, at `date` and `commit`.
    fn text(&self, date: &str, commit: &str) -> String {
        let Line {
            goal,
            what,
            seed,
            runs,
            unit,
            checked,
            seconds,
            verdict,
            command,
        } = self;
        let (lost, verdict) = match verdict {
            Verdict::Held => ("0", "held"),
            Verdict::Failed(lost) => (*lost, "FAILED"),
            Verdict::Unfinished(why) => (*why, "unfinished"),
        };
        format!(
            "{date}\t{commit}\t{goal}\t{what}\t{seed}\t{runs}\t{unit}\t{checked}\t{lost}\t\
             {verdict}\t{seconds}\t{command}\n"
        )
    }

    pub(crate) fn keep(&self, root: &Path) -> Result<(), String> {
        use std::io::Write;
        let path = root.join(LEDGER);
        let text = self.text(&now(), &commit(root));
        let opened = std::fs::OpenOptions::new().append(true).open(&path);
        opened
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

/// The commit that is checked out, `-dirty` if anything but a table of results differs from it.
fn commit(root: &Path) -> String {
    let told = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let output = git.current_dir(root).args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout);
        output.status.success().then(|| text.trim().to_owned())
    };
    let head = told(&["rev-parse", "--short=12", "HEAD"]);
    let but_results = [".", ":(exclude,glob)**/*.tsv"];
    let differs = told(&[&["status", "--porcelain", "--"], &but_results[..]].concat());
    match (head, differs) {
        (Some(head), Some(differs)) if differs.is_empty() => head,
        (Some(head), _) => head + DIRTY,
        (None, _) => "unknown".to_owned(),
    }
}

/// The time in UTC, to the second, as `date` says it.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date(since.map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date (civil from days: H. Hinnant).
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "date\tcommit\tgoal\tcampaign\tseed_from\truns\tunit\n\
        d\tc\tG1\tkill\t3000000\t40\tx\nd\tc\tG2\tpower-loss\t7000000\t2500000\tx\n";

    #[test]
    fn no_seed_is_taken_twice() {
        let used = used(TEXT).unwrap();
        assert_eq!(used.len(), 2);
        assert_eq!(fresh(&used), 10_000_000, "behind 9,500,000");
        assert_eq!(fresh(&[]), STRIDE);
        assert_eq!(unused(&used, 9_500_000), Ok(9_500_000));
        let refused = unused(&used, 9_499_999).unwrap_err();
        assert!(
            refused.contains("9499999") && refused.contains("10000000"),
            "{refused}"
        );
        // Nothing begins there, but a run might reach the next.
        assert!(unused(&used, 3_000_041).is_err());
        assert!(unused(&used, 7_000_000).is_err());
    }

    #[test]
    fn a_session_goes_on_where_a_run_of_it_ended() {
        let mut used = used(TEXT).unwrap();
        assert_eq!(unused(&used, 3_000_040), Ok(3_000_040));
        used.push((3_000_040, 60));
        assert!(unused(&used, 3_000_040).is_err(), "it went on already");
        assert_eq!(unused(&used, 3_000_100), Ok(3_000_100));
        used.push((4_000_099, 1));
        assert!(unused(&used, 3_000_100).is_err(), "a run might reach that");
    }

    #[test]
    fn a_line_names_its_seeds_however_the_attack_ended() {
        let stopped = Verdict::Failed("it stopped");
        for (verdict, told) in [
            (Verdict::Held, "\t0\theld\t"),
            (stopped, "\tit stopped\tFAILED\t"),
            (Verdict::Unfinished("late"), "\tlate\tunfinished\t"),
        ] {
            let line = Line {
                goal: "G7",
                what: "fuzz:block",
                seed: 12_000_000,
                runs: 3,
                unit: "executions",
                checked: 77,
                seconds: 120,
                verdict,
                command: "cargo again",
            };
            let text = line.text("d", "c");
            assert!(text.contains(told) && text.contains("\t77\t"), "{text}");
            assert!(text.ends_with("\tcargo again\n"), "{text}");
            assert_eq!(used(&format!("header\n{text}")), Ok(vec![(12_000_000, 3)]));
        }
        assert!(
            used("header\nd\tc\tG1\tkill\tx\ty\tz\n").is_err(),
            "not: none was used"
        );
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_795_262_405), "2026-11-21T12:00:05Z");
    }
}
