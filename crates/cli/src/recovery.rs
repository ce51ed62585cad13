//! What the recovery of an opening did, in words and as JSON.
//!
//! V1. An opening after which something may be missing says so, whatever the command and its
//!     format; after any other only `serve` tells, which begins with it.
//!
//! Tests: below, and `tests/recovery.rs`.

use crate::failure::say;
use crate::human;
use crate::output::Output;
use serde_json::json;
use velella::{Db, RecoveryMode, RecoveryReport, RecoveryRule};

/// Says on standard error what an opening gave up, if something may be missing (V1).
pub(crate) fn say_losses(db: &Db, output: &Output) {
    let report = db.recovery();
    if !may_lack(report) {
        return;
    }
    if output.json {
        say(&json!({"recovery": document(report)}).to_string());
        return;
    }
    for line in lines(report, db.options().recovery, false) {
        say(&format!("velella: {line}"));
    }
}

/// Whether writes may be missing, or something else is worth knowing. Of what a power loss took
/// nothing may be left to count: the rule alone tells of it.
fn may_lack(report: &RecoveryReport) -> bool {
    let given_up = report.discarded_records > 0 || report.discarded_bytes > 0;
    given_up || report.rule == RecoveryRule::Cut || !report.notes.is_empty()
}

/// The report as JSON.
pub(crate) fn document(report: &RecoveryReport) -> serde_json::Value {
    json!({
        "rule": rule(report),
        "records": report.records,
        "bytes": report.bytes,
        "discarded_records": report.discarded_records,
        "discarded_bytes": report.discarded_bytes,
        "notes": report.notes,
    })
}

/// The report of an opening in `mode`, in a few lines.
pub(crate) fn lines(report: &RecoveryReport, mode: RecoveryMode, created: bool) -> Vec<String> {
    let loss_accepted = mode == RecoveryMode::AcceptLoss;
    let mut lines = Vec::new();
    match report.rule {
        // A note says what there was instead.
        RecoveryRule::Nothing if created || !report.notes.is_empty() => {}
        RecoveryRule::Nothing => lines.push("there was no journal to recover".to_owned()),
        RecoveryRule::CleanClose => lines.push("the last run closed it".to_owned()),
        RecoveryRule::PageCache => {
            lines.push("the last run was killed; every acknowledged write is here".to_owned());
        }
        RecoveryRule::Cut if loss_accepted => lines.push(format!(
            "took what the journal holds up to stamp {}, as loss is accepted",
            report.cut
        )),
        RecoveryRule::Cut => lines.push(format!(
            "the last run ended by a power loss, or its last sync failed; every durable write is \
             here, up to stamp {}",
            report.cut
        )),
    }
    if report.records > 0 {
        let records = human::counted(report.records, "record");
        lines.push(format!(
            "recovered {records} ({})",
            human::bytes(report.bytes)
        ));
    }
    if report.discarded_records > 0 {
        let records = human::counted(report.discarded_records, "record");
        let bytes = human::bytes(report.discarded_bytes);
        // Where loss is accepted, it may be of what was durable.
        let which = match loss_accepted {
            true => "",
            false => " that had not become durable",
        };
        lines.push(format!("gave up {records} ({bytes}){which}"));
    }
    lines.extend(report.notes.iter().map(|note| format!("note: {note}")));
    lines
}

fn rule(report: &RecoveryReport) -> &'static str {
    match report.rule {
        RecoveryRule::Nothing => "nothing",
        RecoveryRule::CleanClose => "clean-close",
        RecoveryRule::PageCache => "page-cache",
        RecoveryRule::Cut => "cut",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use velella::Stamp;

    fn told(report: &RecoveryReport, mode: RecoveryMode) -> String {
        lines(report, mode, false).join("\n")
    }

    #[test]
    fn a_recovery_is_told_in_a_few_lines() {
        let report = RecoveryReport {
            rule: RecoveryRule::Cut,
            cut: Stamp(41),
            records: 1,
            bytes: 2048,
            discarded_records: 2,
            discarded_bytes: 64,
            notes: vec!["a torn seal".to_owned()],
        };
        let lines = lines(&report, RecoveryMode::Normal, false);
        assert_eq!(lines.len(), 4);
        assert!(lines[0].contains("every durable write is here, up to stamp 41"));
        assert_eq!(lines[1], "recovered 1 record (2.00 KiB)");
        assert_eq!(
            lines[2],
            "gave up 2 records (64 B) that had not become durable"
        );
        let accepted = told(&report, RecoveryMode::AcceptLoss);
        assert!(
            accepted.contains("gave up 2 records (64 B)\n"),
            "{accepted}"
        );
        assert!(!accepted.contains("durable"), "{accepted}");
        let nothing = RecoveryReport::default();
        assert!(super::lines(&nothing, RecoveryMode::Normal, true).is_empty());
    }

    #[test]
    fn a_damaged_journal_is_not_told_as_one_that_was_not_there() {
        let missing = RecoveryReport::default();
        let damaged = RecoveryReport {
            notes: vec!["damage, loss accepted".to_owned()],
            ..RecoveryReport::default()
        };
        let none = "there was no journal to recover";
        assert_eq!(told(&missing, RecoveryMode::AcceptLoss), none);
        let told = told(&damaged, RecoveryMode::AcceptLoss);
        assert_eq!(told, "note: damage, loss accepted");
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
