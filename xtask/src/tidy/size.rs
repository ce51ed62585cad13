//! Rule `size`: files and lines that a person can hold in the head.
//!
//! Files: a warning above 600 lines, a violation above 700. Lines: 100 columns; a line that is long
//! because of an address or a literal, which nobody can break, may be longer. Functions: a warning
//! above 70 lines, outside tests.
//!
//! Tests: below, each with a planted violation.

use crate::report::Report;
use crate::source::{Source, has_word};
use crate::workspace::Workspace;

const RULE: &str = "size";
const FILE_LINES_SOFT: usize = 600;
const FILE_LINES_MAX: usize = 700;
const COLUMNS_MAX: usize = 100;
const FUNCTION_LINES_SOFT: usize = 70;

/// Checks every source file.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for source in workspace.sources() {
        check_lines(source, report);
        check_columns(source, report);
        check_functions(source, report);
    }
}

fn check_lines(source: &Source, report: &mut Report) {
    let lines = source.text.lines().count();
    let place = (source.path.as_str(), 0);
    let what = format!("{lines} lines");
    if lines > FILE_LINES_MAX {
        let remedy =
            format!("split it by concept, tests first: {FILE_LINES_SOFT} lines are enough for one");
        report.find(RULE, place, what, remedy);
    } else if lines > FILE_LINES_SOFT {
        let remedy = format!("it must be split before it has {FILE_LINES_MAX}");
        report.warn(RULE, place, what, remedy);
    }
}

fn check_columns(source: &Source, report: &mut Report) {
    let lines = source.text.split('\n').zip(&source.channels.literal_chars);
    for (number, (line, literal)) in (1..).zip(lines) {
        let columns = line.chars().count();
        let breakable = columns.saturating_sub(*literal);
        if breakable > COLUMNS_MAX && !line.contains("://") {
            report.find(
                RULE,
                (&source.path, number),
                format!("{columns} columns"),
                format!("break the line at {COLUMNS_MAX}"),
            );
        }
    }
}

fn check_functions(source: &Source, report: &mut Report) {
    // Where a function begins, and the depth of braces around it; innermost last.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut depth = 0usize;
    for (number, line) in source.product_lines() {
        if has_word(line, "fn") && line.trim_end().ends_with(['{', '(']) {
            open.push((number, depth));
        }
        for c in line.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            // A signature that ends without a body, as in a trait.
            open.pop_if(|(_, around)| c == ';' && *around == depth);
            let ends = c == '}' && open.last().is_some_and(|(_, around)| *around == depth);
            let Some((first, _)) = open.pop_if(|_| ends) else {
                continue;
            };
            let lines = number + 1 - first;
            if lines > FUNCTION_LINES_SOFT {
                report.warn(
                    RULE,
                    (&source.path, first),
                    format!("a function of {lines} lines"),
                    "part what decides from what does",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    fn run(text: &str) -> Report {
        let files = [
            ("crates/base/Cargo.toml", ""),
            ("crates/base/src/a.rs", text),
        ];
        let mut report = Report::default();
        check(&planted(&files), &mut report);
        report
    }

    #[test]
    fn a_file_warns_at_600_lines_and_fails_at_700() {
        let run = |lines: usize| run(&"a\n".repeat(lines));
        assert!(run(600).warnings.is_empty());
        assert_eq!(run(601).warnings.len(), 1);
        assert!(run(700).findings.is_empty());
        assert_eq!(run(701).findings.len(), 1);
    }

    #[test]
    fn a_function_of_more_than_70_lines_is_warned_of() {
        let function = |lines: usize| format!("fn a(\n) {{\n{}}}\n", "{}\n".repeat(lines - 3));
        assert!(run(&function(70).repeat(2)).warnings.is_empty());
        let signature = format!(
            "trait T {{\nfn a(\n);\n{}const C: u8 = {{ 1 }};\n}}",
            "\n".repeat(80)
        );
        assert!(run(&signature).warnings.is_empty());
        let warnings = run(&format!("{}{}", function(70), function(71))).warnings;
        assert_eq!(warnings.len(), 1);
        assert_eq!(warnings[0].line, 71);
    }

    #[test]
    fn a_long_line_is_found_unless_nobody_can_break_it() {
        let long = "a".repeat(101);
        assert_eq!(run(&format!("\n{long}")).findings[0].line, 2);
        assert!(run(&"ä".repeat(100)).findings.is_empty());
        assert!(run(&format!("x(\"{long}\")")).findings.is_empty());
        assert!(run(&format!("// https://{long}")).findings.is_empty());
        assert_eq!(run(&format!("// \"{long}\"")).findings.len(), 1);
    }
}
