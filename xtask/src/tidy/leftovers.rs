//! Rule `leftovers`: nothing unfinished stays behind.
//!
//! Stub and debugging macros in code, and the usual notes to oneself in comments. What is not done
//! is said where a user or a reader looks for it: in the documents, in words.
//!
//! Tests: below, each with a planted violation.

use crate::report::Report;
use crate::source::{Source, has_word};
use crate::workspace::Workspace;

const RULE: &str = "leftovers";
const MACROS: &[&str] = &["todo!", "unimplemented!", "dbg!"];
const NOTES: &[&str] = &["TODO", "FIXME", "XXX"];

/// Checks every source file.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for source in workspace.sources() {
        check_source(source, report);
    }
}

fn check_source(source: &Source, report: &mut Report) {
    for (number, line) in source.code_lines() {
        for name in MACROS.iter().filter(|name| calls(line, name)) {
            report.find(
                RULE,
                (&source.path, number),
                format!("`{name}` is left behind"),
                "finish it, or return an error of kind `Unsupported` that says so",
            );
        }
    }
    for (number, line) in (1..).zip(&source.channels.comments) {
        for note in NOTES.iter().filter(|note| has_word(line, note)) {
            report.find(
                RULE,
                (&source.path, number),
                format!("`{note}` is left behind"),
                "do it, or describe the limit where its users look: the contract or docs/",
            );
        }
    }
}

fn calls(line: &str, name: &str) -> bool {
    let stem = name.trim_end_matches('!');
    line.contains(name) && has_word(line, stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    fn lines_found(text: &str) -> Vec<usize> {
        let files = [
            ("crates/base/Cargo.toml", ""),
            ("crates/base/src/a.rs", text),
        ];
        let mut report = Report::default();
        check(&planted(&files), &mut report);
        report.findings.iter().map(|found| found.line).collect()
    }

    #[test]
    fn stubs_debugging_and_notes_to_oneself_are_found() {
        let text = "fn a() { todo!() }\nfn b() { unimplemented!(\"x\") }\nlet c = dbg!(1);\n\
                    // TODO: later\n/// FIXME\n";
        assert_eq!(lines_found(text), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn the_same_words_in_literals_and_other_words_are_not() {
        assert!(lines_found("let a = \"todo!() TODO\";\nmy_dbg!(1);\n// TODOS\n").is_empty());
    }
}
