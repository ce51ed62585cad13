//! What a check found: where, which rule, what is wrong, and the remedy.
//!
//! R1. Every finding carries a remedy; there is no constructor without one.
//! R2. Findings print sorted by file and line, so that two runs can be compared.
//!
//! Tests: below.

use std::fmt;

/// One violation of one rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) file: String,
    /// From 1; 0 when the whole file is meant.
    pub(crate) line: usize,
    pub(crate) rule: &'static str,
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}: {}; {}", self.rule, self.what, self.remedy)
    }
}

/// All that a run found: violations, warnings that do not fail it, and notes.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    pub(crate) warnings: Vec<Finding>,
    pub(crate) notes: Vec<String>,
}

impl Report {
    /// Records a violation.
    pub(crate) fn find(
        &mut self,
        rule: &'static str,
        (file, line): (&str, usize),
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.findings.push(Finding {
            file: file.to_owned(),
            line,
            rule,
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    /// Records something worth a look that does not fail the run.
    pub(crate) fn warn(
        &mut self,
        rule: &'static str,
        (file, line): (&str, usize),
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.warnings.push(Finding {
            file: file.to_owned(),
            line,
            rule,
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    /// Records a figure to print.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Puts findings and warnings in the order in which they print (R2).
    pub(crate) fn sort(&mut self) {
        self.findings.sort();
        self.warnings.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_says_where_which_rule_what_and_the_remedy() {
        let mut report = Report::default();
        report.find("size", ("b.rs", 3), "too long", "split it");
        report.find("size", ("a.rs", 0), "too long", "split it");
        report.sort();
        let lines: Vec<String> = report.findings.iter().map(Finding::to_string).collect();
        assert_eq!(
            lines,
            [
                "a.rs: size: too long; split it",
                "b.rs:3: size: too long; split it"
            ]
        );
    }
}
