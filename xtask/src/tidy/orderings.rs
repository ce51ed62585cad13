//! Rule `orderings`: no sequentially consistent accesses.
//!
//! Every ordering names its partner, and a total order of all accesses is nobody's partner. Where
//! store-then-load on both sides needs one, `fence(Ordering::SeqCst)` says so, and loom checks
//! fences but not such accesses.
//!
//! Tests: below, with a planted violation.

use crate::report::Report;
use crate::source::has_word;
use crate::workspace::Workspace;

const RULE: &str = "orderings";

/// Checks every source file, tests included: loom must be able to run them.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for source in workspace.sources() {
        for (number, line) in source.code_lines() {
            if has_word(line, "SeqCst") && !line.contains("fence(") {
                report.find(
                    RULE,
                    (&source.path, number),
                    "a `SeqCst` access",
                    "name the partner and use Acquire/Release, or a `fence(Ordering::SeqCst)`",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    #[test]
    fn an_access_is_found_and_a_fence_is_not() {
        let text = "a.load(Ordering::SeqCst);\nfence(Ordering::SeqCst);\n// SeqCst\n";
        let files = [
            ("crates/sync/Cargo.toml", ""),
            ("crates/sync/src/a.rs", text),
        ];
        let mut report = Report::default();
        check(&planted(&files), &mut report);
        let lines: Vec<usize> = report.findings.iter().map(|found| found.line).collect();
        assert_eq!(lines, [1]);
    }
}
