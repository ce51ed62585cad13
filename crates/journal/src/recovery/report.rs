//! What recovery is told and what it tells.
//!
//! P1. Whatever was given up is in the report: nothing is dropped without a number or a note.
//!
//! Threads: plain data. Tests: below, `tests/rounds.rs`, `tests/damage.rs`.

use crate::journal::Start;
use serde::{Serialize, Serializer};
use std::fmt;
use velella_base::Stamp;

/// What the manifest says of the last incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    /// Its number.
    pub incarnation: u64,
    /// What `Journal::create` returned then.
    pub start: Start,
    /// Up to this stamp everything was durable: the manifest waited for that.
    pub durable: Stamp,
    /// Treat every reopening as after a power loss.
    pub assume_power_loss: bool,
    /// On damage below the cut, take the largest valid round, or what is below the damage, instead
    /// of failing.
    pub accept_loss: bool,
}

/// Which rule decided what counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// There was no journal, or nothing of it could be read and the loss was accepted.
    #[default]
    Nothing,
    /// The last run closed the database: its last round is the cut.
    CleanClose,
    /// The page cache survived (the process died): every complete record counts.
    PageCache,
    /// The cut of the last completed round.
    Cut,
}

/// What recovery found and did; goes to the caller of `open` and to the log. It prints as a few
/// lines of text, the last without an end.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// The rule that decided.
    pub rule: Rule,
    /// Records above this stamp were given up (`Stamp::MAX` if none had to be, which is serialized
    /// as nothing).
    #[serde(serialize_with = "number_or_none")]
    pub cut: Stamp,
    /// Records taken, those included that tables held already.
    pub records: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Complete records given up, above the cut.
    pub discarded_records: u64,
    /// Bytes of their payloads.
    pub discarded_bytes: u64,
    /// Loss was accepted, whether or not there was damage: what is missing may have been durable.
    pub loss_accepted: bool,
    /// What else is worth knowing: a torn seal, a fallback and its stamp range.
    pub notes: Vec<String>,
}

impl Report {
    /// What the rule that decided says; `None` where a note says it better.
    fn outcome(&self) -> Option<String> {
        Some(match self.rule {
            Rule::Nothing if !self.notes.is_empty() => return None,
            Rule::Nothing => "there was no journal to recover".to_owned(),
            Rule::CleanClose => "the last run closed it".to_owned(),
            Rule::PageCache => {
                "the last run was killed; every acknowledged write is here".to_owned()
            }
            Rule::Cut if self.loss_accepted => format!(
                "took what the journal holds up to stamp {}, as loss is accepted",
                self.cut
            ),
            Rule::Cut => format!(
                "the last run ended by a power loss, or its last sync failed; every durable write \
                 is here, up to stamp {}",
                self.cut
            ),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<String> = self.outcome().into_iter().collect();
        if self.records > 0 {
            let (records, size) = (Records(self.records), Size(self.bytes));
            lines.push(format!("recovered {records} ({size})"));
        }
        if self.discarded_records > 0 {
            let (records, size) = (Records(self.discarded_records), Size(self.discarded_bytes));
            // Where loss is accepted, it may be of what was durable.
            let which = match self.loss_accepted {
                true => "",
                false => " that had not become durable",
            };
            lines.push(format!("gave up {records} ({size}){which}"));
        }
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        f.write_str(&lines.join("\n"))
    }
}

/// A number of records, with separators: `1 record`, `2,000 records`.
struct Records(u64);

impl fmt::Display for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (index, digit) in digits.chars().enumerate() {
            let separator = index > 0 && (digits.len() - index).is_multiple_of(3);
            write!(f, "{}{digit}", if separator { "," } else { "" })?;
        }
        f.write_str(if self.0 == 1 { " record" } else { " records" })
    }
}

/// A number of bytes with three significant digits: `64 B`, `2.00 KiB`, `512 MiB`.
struct Size(u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        let fits = units.into_iter().find(|(shift, _)| self.0 >= 1 << shift);
        let Some((shift, unit)) = fits else {
            return write!(f, "{} B", self.0);
        };
        let rounded = |parts: u64| {
            let half = 1_u128 << (shift - 1);
            (u128::from(self.0) * u128::from(parts) + half) >> shift
        };
        match (rounded(100), rounded(10)) {
            (hundredths, _) if hundredths < 1_000 => {
                write!(f, "{}.{:02} {unit}", hundredths / 100, hundredths % 100)
            }
            (_, tenths) if tenths < 1_000 => write!(f, "{}.{} {unit}", tenths / 10, tenths % 10),
            _ => write!(f, "{} {unit}", rounded(1)),
        }
    }
}

/// A stamp as its number, and the one above all others as none.
fn number_or_none<S: Serializer>(stamp: &Stamp, serializer: S) -> Result<S::Ok, S::Error> {
    let number = (*stamp != Stamp::MAX).then_some(stamp.0);
    number.serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_is_told_in_a_few_lines() {
        let mut report = Report {
            rule: Rule::Cut,
            cut: Stamp(41),
            records: 1,
            bytes: 2048,
            discarded_records: 2_000,
            discarded_bytes: 64,
            loss_accepted: false,
            notes: vec!["a torn seal".to_owned()],
        };
        let told = report.to_string();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[0].contains("every durable write is here, up to stamp 41"));
        assert_eq!(lines[1], "recovered 1 record (2.00 KiB)");
        let undurable = "gave up 2,000 records (64 B) that had not become durable";
        assert_eq!(lines[2], undurable);
        assert_eq!(lines[3], "note: a torn seal");
        report.loss_accepted = true;
        let accepted = report.to_string();
        let gave_up = "gave up 2,000 records (64 B)\n";
        assert!(accepted.contains(gave_up), "{accepted}");
        assert!(!accepted.contains("durable"), "{accepted}");
    }

    #[test]
    fn a_damaged_journal_is_not_told_as_one_that_was_not_there() {
        let missing = Report::default();
        assert_eq!(missing.to_string(), "there was no journal to recover");
        let damaged = Report {
            notes: vec!["damage, loss accepted".to_owned()],
            ..Report::default()
        };
        assert_eq!(damaged.to_string(), "note: damage, loss accepted");
    }

    #[test]
    fn sizes_have_three_digits() {
        for (bytes, told) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1 << 10, "1.00 KiB"),
            (10_235, "10.0 KiB"),
            (102_350, "100 KiB"),
            (1_342_177_280, "1.25 GiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), told);
        }
    }
}
