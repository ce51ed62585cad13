//! Rule `contract`: every Rust file opens with a `//!` contract.
//!
//! A reader learns from the head of a file what it is for, where it comes from and what holds in
//! it, before the first line of code.
//!
//! C1. The first line is `//!`; the first paragraph ends as a sentence does.
//! C2. A file of the product has at least two lines of it.
//! C3. The tests that it says it has are there: each name in backticks, to the end of the
//!     paragraph, is that of a function, a module or a file, or begins one if it ends in `…`.
//!
//! Tests: below, each with a planted violation.

use crate::report::Report;
use crate::source::{Part, Source};
use crate::workspace::Workspace;
use std::collections::BTreeSet;

const RULE: &str = "contract";
const REMEDY: &str =
    "open the file with `//!`: purpose, source, numbered invariants, threads, tests";

/// Checks every source file.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    let known = known(workspace);
    for source in workspace.sources() {
        check_source(source, report);
        check_tests(source, &known, report);
    }
}

/// The names of all functions, modules and Rust files.
fn known(workspace: &Workspace) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut known = BTreeSet::new();
    for (path, text) in &workspace.rust {
        let name = path.rsplit('/').next().unwrap_or(path);
        known.extend(name.strip_suffix(".rs"));
        for keyword in ["fn ", "mod "] {
            for (at, _) in text.match_indices(keyword) {
                let name = &text[at + keyword.len()..];
                let end = name.find(|c| !is_word(c)).unwrap_or(name.len());
                known.insert(&name[..end]);
            }
        }
    }
    known
}

/// The names in backticks after `Tests:` in the head of `text`, each with its line.
fn tests_named(text: &str) -> Vec<(usize, &str)> {
    let mut named = Vec::new();
    let mut within = false;
    let head = text.lines().map_while(|line| line.strip_prefix("//!"));
    for (number, line) in (1..).zip(head) {
        let rest = match line.split_once("Tests:") {
            Some((_, rest)) => rest,
            None if within && !line.trim().is_empty() => line,
            None => {
                within = false;
                continue;
            }
        };
        within = true;
        let quoted = rest.split('`').skip(1).step_by(2);
        named.extend(quoted.map(|name| (number, name)));
    }
    named
}

/// C3.
fn check_tests(source: &Source, known: &BTreeSet<&str>, report: &mut Report) {
    let is_name = |name: &str| {
        let mut chars = name.chars();
        chars.next().is_some_and(|c| c.is_ascii_lowercase())
            && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    for (line, named) in tests_named(&source.text) {
        let begun = named.strip_suffix('…').or(named.strip_suffix("..."));
        let is_there = match begun {
            Some(begun) => known
                .range(begun..)
                .next()
                .is_some_and(|name| name.starts_with(begun)),
            None => known.contains(named),
        };
        if is_name(begun.unwrap_or(named)) && !is_there {
            report.find(
                RULE,
                (source.path.as_str(), line),
                format!("no test is called `{named}`"),
                "name the test as it is called now, or take its name out",
            );
        }
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

    #[test]
    fn a_test_that_is_named_and_not_there_is_found() {
        let named = |tests: &str| {
            let head = format!("//! Does it\n//! well.\n//!\n//! Tests: {tests}\n\n");
            findings(SRC, &format!("{head}fn it_works() {{}}\nmod tests;\n"))
        };
        let there =
            "below, `it_works`, `it_…`, `it_wo...`, `tests`, `a`, `tests/b.rs`,\n//! `b::c`.";
        assert!(named(there).is_empty(), "{:?}", named(there));
        assert!(named("below.\n//!\n//! `of_another_paragraph` it says nothing.").is_empty());
        for gone in [
            "`it_worked`",
            "`it`",
            "`worked_…`",
            "below,\n//! `it_worked`",
        ] {
            let found = named(gone);
            assert_eq!(found.len(), 1, "{gone}: {found:?}");
            assert!(
                found[0].contains("contract: no test is called `"),
                "{found:?}"
            );
        }
        assert!(named("below,\n//! `gone`.")[0].starts_with("crates/base/src/a.rs:5: "));
    }
}
