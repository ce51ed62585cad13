//! What the recovery of an opening did, in words and as JSON.
//!
//! Tests: below.

use crate::human;
use serde_json::json;
use velella::{RecoveryReport, RecoveryRule};

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

/// The report in a few lines.
pub(crate) fn lines(report: &RecoveryReport, created: bool) -> Vec<String> {
    let mut lines = Vec::new();
    match report.rule {
        RecoveryRule::Nothing if created => {}
        RecoveryRule::Nothing => lines.push("there was no journal to recover".to_owned()),
        RecoveryRule::CleanClose => lines.push("the last run closed it".to_owned()),
        RecoveryRule::PageCache => {
            lines.push("the last run was killed; every acknowledged write is here".to_owned());
        }
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
        lines.push(format!(
            "gave up {records} ({bytes}) that had not become durable"
        ));
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
        let lines = lines(&report, false);
        assert_eq!(lines.len(), 4);
        assert!(lines[0].contains("up to stamp 41"));
        assert_eq!(lines[1], "recovered 1 record (2.00 KiB)");
        assert!(super::lines(&RecoveryReport::default(), true).is_empty());
    }
}
