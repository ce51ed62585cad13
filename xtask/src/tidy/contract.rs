//! Rule `contract`: every Rust file opens with a `//!` contract.
//!
//! A reader learns from the head of a file what it is for, where it comes from and what holds in
//! it, before the first line of code.
//!
//! C1. The first line is `//!`; the first paragraph ends as a sentence does.
//! C2. A file of the product has at least two lines of it.
//!
//! Tests: below, each with a planted violation.

use crate::report::Report;
use crate::source::{Part, Source};
use crate::workspace::Workspace;

const RULE: &str = "contract";
const REMEDY: &str =
    "open the file with `//!`: purpose, source, numbered invariants, threads, tests";

/// Checks every source file.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for source in workspace.sources() {
        check_source(source, report);
    }
}

fn check_source(source: &Source, report: &mut Report) {
    let head: Vec<&str> = source
        .text
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .collect();
    let place = (source.path.as_str(), 1);
    if head.is_empty() {
        report.find(RULE, place, "the file has no contract at its head", REMEDY);
        return;
    }
    let paragraph = head.iter().take_while(|line| !line.is_empty());
    let last = paragraph.last().copied().unwrap_or_default();
    if !last.ends_with(['.', ':', '!', '?']) {
        report.find(
            RULE,
            place,
            "the contract's first paragraph is not a sentence",
            "say in one sentence what the file is for, and end it with a full stop",
        );
    }
    let lines = head.iter().filter(|line| !line.is_empty()).count();
    if source.part == Part::Product && lines < 2 {
        report.find(RULE, place, "the contract is a mere title", REMEDY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut report = Report::default();
        check(
            &planted(&[("crates/base/Cargo.toml", ""), (path, text)]),
            &mut report,
        );
        report.findings.iter().map(ToString::to_string).collect()
    }

    const SRC: &str = "crates/base/src/a.rs";

    #[test]
    fn a_file_without_a_contract_at_its_head_is_found() {
        for text in [
            "",
            "use a;\n//! Late.",
            "// Not a contract.\n",
            "\n//! Late.\n",
        ] {
            let found = findings(SRC, text);
            assert_eq!(found.len(), 1, "{text:?}");
            assert!(
                found[0].starts_with("crates/base/src/a.rs:1: contract: the file has no contract"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_title_alone_is_no_contract_of_a_product_file() {
        assert_eq!(findings(SRC, "//! Does it.\n").len(), 1);
        assert_eq!(findings(SRC, "//! Does it\n//! well\n").len(), 1);
        assert!(findings(SRC, "//! Does it\n//! well.\n").is_empty());
        assert!(findings("crates/base/tests/a.rs", "//! Tries it.\n").is_empty());
    }
}
