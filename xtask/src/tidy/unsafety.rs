//! Rule `unsafe`: it stands in three crates, and the others forbid it.
//!
//! The holders are marked in `crate::layers`; a crate that has adapters to other languages may
//! hold it in those files alone, and denies it everywhere else. How many lines of `unsafe` each
//! holder has, and how many arguments for them, is printed with every run: the number should fall.
//!
//! Tests: below, each with a planted violation.

use crate::layers;
use crate::report::Report;
use crate::source::has_word;
use crate::workspace::{Crate, Workspace};

const RULE: &str = "unsafe";
const FORBID: &str = "#![forbid(unsafe_code)]";
/// As strict, but a module can be let out of it.
const DENY: &str = "#![deny(unsafe_code)]";

/// Checks every crate.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for found in &workspace.crates {
        let layer = layers::of(&found.name);
        match layer.is_some_and(|layer| layer.holds_unsafe) {
            true => count(found, report),
            false => check_forbidden(found, layer.map_or(&[], |layer| layer.unsafe_files), report),
        }
    }
}

fn check_forbidden(found: &Crate, apart: &[&str], report: &mut Report) {
    let demanded = if apart.is_empty() { FORBID } else { DENY };
    for root in ["src/lib.rs", "src/main.rs"] {
        let Some(source) = found.source(root) else {
            continue;
        };
        if !source
            .channels
            .code
            .iter()
            .any(|line| line.trim() == demanded)
        {
            report.find(
                RULE,
                (&source.path, 1),
                "the crate does not forbid `unsafe`",
                format!("write `{demanded}` below the contract"),
            );
        }
    }
    let closed = |inner: &str| !apart.contains(&inner);
    for source in found.sources.iter().filter(|source| closed(&source.inner)) {
        for (number, _) in source.code_lines().filter(|(_, line)| has_word(line, RULE)) {
            report.find(
                RULE,
                (&source.path, number),
                format!("crate `{}` may not hold `unsafe`", found.name),
                "use what `sync`, `memtable` or `vfs` offer, or offer it there",
            );
        }
    }
}

fn count(found: &Crate, report: &mut Report) {
    let product = |path: &str| path.starts_with("src/");
    let sources = || found.sources.iter().filter(|s| product(&s.inner));
    let lines = sources()
        .flat_map(|source| &source.channels.code)
        .filter(|line| has_word(line, RULE))
        .count();
    let arguments = sources()
        .flat_map(|source| &source.channels.comments)
        .filter(|line| line.contains("SAFETY:") || line.contains("# Safety"))
        .count();
    report.note(format!(
        "unsafe: {}: {lines} lines, {arguments} safety arguments",
        found.name
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    fn run(name: &str, text: &str) -> Report {
        let manifest = format!("crates/{name}/Cargo.toml");
        let root = format!("crates/{name}/src/lib.rs");
        let mut report = Report::default();
        check(&planted(&[(&manifest, ""), (&root, text)]), &mut report);
        report
    }

    #[test]
    fn unsafe_outside_its_crates_is_found() {
        let report = run(
            "lsm",
            "#![forbid(unsafe_code)]\n\nfn a() { unsafe { b() } }\n",
        );
        assert_eq!(report.findings.len(), 1);
        let text = report.findings[0].to_string();
        let expected = "crates/lsm/src/lib.rs:3: unsafe: crate `lsm` may not hold `unsafe`; ";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn a_crate_that_does_not_forbid_it_is_found() {
        let report = run(
            "lsm",
            "// #![forbid(unsafe_code)]\nconst WORD: &str = \"unsafe\";\n",
        );
        assert_eq!(report.findings.len(), 1);
        assert_eq!(run("lsm", "#![forbid(missing_docs)]\n").findings.len(), 1);
        assert!(run("lsm", "#![forbid(unsafe_code)]\n").findings.is_empty());
    }

    #[test]
    fn a_crate_of_adapters_holds_it_in_those_alone() {
        let run = |inner: &str, root: &str| {
            let (file, text) = (
                format!("crates/bench/{inner}"),
                "fn a() { unsafe { b() } }\n",
            );
            let files = [
                ("crates/bench/Cargo.toml", ""),
                ("crates/bench/src/lib.rs", root),
                (&file, text),
            ];
            let mut report = Report::default();
            check(&planted(&files), &mut report);
            report.findings.len()
        };
        let denied = "#![deny(unsafe_code)]\n";
        assert_eq!(run("src/stores/lmdb.rs", denied), 0);
        assert_eq!(run("src/stores/redb.rs", denied), 1);
        assert_eq!(run("src/stores/lmdb.rs", "\n"), 1);
    }

    #[test]
    fn its_holders_are_counted() {
        let report = run(
            "sync",
            "// SAFETY: one.\nunsafe { a() }\nunsafe impl B for C {}\n",
        );
        assert!(report.findings.is_empty());
        assert_eq!(report.notes, ["unsafe: sync: 2 lines, 1 safety arguments"]);
    }
}
