//! What the recovery of an opening did, told in the report's own words, or as JSON.
//!
//! V1. An opening after which something may be missing says so, whatever the command and its
//!     format; after any other only `serve` tells, which begins with it.
//!
//! Tests: below, and `tests/recovery.rs`.

use crate::failure::say;
use crate::output::Output;
use serde_json::json;
use velella::{Db, RecoveryReport, RecoveryRule};

/// Says on standard error what an opening gave up, if something may be missing (V1).
pub(crate) fn say_losses(db: &Db, output: &Output) {
    let report = db.recovery();
    if !may_lack(report) {
        return;
    }
    if output.json {
        say(&json!({"recovery": report}).to_string());
        return;
    }
    for line in lines(report, false) {
        say(&format!("velella: {line}"));
    }
}

/// Whether writes may be missing, or something else is worth knowing. Of what a power loss took
/// nothing may be left to count: the rule alone tells of it.
fn may_lack(report: &RecoveryReport) -> bool {
    let given_up = report.discarded_records > 0 || report.discarded_bytes > 0;
    given_up || report.rule == RecoveryRule::Cut || !report.notes.is_empty()
}

/// The report in a few lines; none of a database that was just `created`, unless there is a note.
pub(crate) fn lines(report: &RecoveryReport, created: bool) -> Vec<String> {
    let nothing = report.rule == RecoveryRule::Nothing && report.notes.is_empty();
    if created && nothing {
        return Vec::new();
    }
    report.to_string().lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_database_just_created_only_notes_are_told() {
        let mut report = RecoveryReport::default();
        assert_eq!(lines(&report, false).len(), 1);
        assert!(lines(&report, true).is_empty());
        report.notes.push("the clock is behind".to_owned());
        assert_eq!(lines(&report, true), ["note: the clock is behind"]);
    }

    #[test]
    fn only_an_opening_that_may_lack_something_speaks() {
        let of = |rule| RecoveryReport {
            rule,
            records: 7,
            ..RecoveryReport::default()
        };
        let quiet = [
            RecoveryRule::Nothing,
            RecoveryRule::CleanClose,
            RecoveryRule::PageCache,
        ];
        for rule in quiet {
            assert!(!may_lack(&of(rule)), "{rule:?}");
            let given_up = RecoveryReport {
                discarded_records: 1,
                ..of(rule)
            };
            assert!(may_lack(&given_up), "{rule:?}");
            let noted = RecoveryReport {
                notes: vec![String::new()],
                ..of(rule)
            };
            assert!(may_lack(&noted), "{rule:?}");
        }
        assert!(may_lack(&of(RecoveryRule::Cut)));
    }
}
