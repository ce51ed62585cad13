//! Blocks of documents that are copies of real files, so that what the reader copies was compiled.
//!
//! ```text
//! <!-- from crates/engine/examples/readme.rs -->
//! (a fenced block: the file's text below its `//!` contract)
//! ```
//! B1. `cargo xtask readme` writes the copies; `tidy` compares them; nobody edits a copy.
//!
//! Tests: below.

const MARK: &str = "<!-- from ";

/// A copy in a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Embed<'a> {
    /// Line of the mark, from 1.
    pub(crate) line: usize,
    /// The file that is copied.
    pub(crate) path: &'a str,
    /// Its copy; `None` when no closed fence follows the mark.
    pub(crate) block: Option<String>,
}

/// All copies in `document`.
pub(crate) fn embeds(document: &str) -> Vec<Embed<'_>> {
    let lines: Vec<&str> = document.lines().collect();
    let marks = lines.iter().enumerate().filter_map(|(at, line)| {
        let path = line.strip_prefix(MARK)?.strip_suffix("-->")?.trim();
        Some((at, path))
    });
    marks
        .map(|(at, path)| Embed {
            line: at + 1,
            path,
            block: block_after(&lines, at),
        })
        .collect()
}

fn block_after(lines: &[&str], mark: usize) -> Option<String> {
    let open = mark + 1;
    if !lines.get(open)?.starts_with("```") {
        return None;
    }
    let length = lines[open + 1..].iter().position(|line| *line == "```")?;
    Some(joined(&lines[open + 1..open + 1 + length]))
}

/// What a copy of a file with this `text` holds: everything below the contract.
pub(crate) fn body(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .skip_while(|line| line.starts_with("//!") || line.is_empty())
        .collect();
    joined(&lines)
}

/// `document` with the copy of `path` brought up to date.
pub(crate) fn renewed(document: &str, path: &str, text: &str) -> String {
    let mut renewed = String::new();
    let mut lines = document.lines();
    while let Some(line) = lines.next() {
        renewed += line;
        renewed.push('\n');
        let marked = line
            .strip_prefix(MARK)
            .and_then(|rest| rest.strip_suffix("-->"));
        if marked.map(str::trim) != Some(path) {
            continue;
        }
        if let Some(fence) = lines.next() {
            renewed += fence;
            renewed.push('\n');
            renewed += &body(text);
            renewed += "```\n";
            lines.by_ref().find(|line| *line == "```");
        }
    }
    renewed
}

fn joined(lines: &[&str]) -> String {
    lines.iter().flat_map(|line| [*line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# A\n<!-- from a/b.rs -->\n```rust\nold();\n```\nrest\n";
    const FILE: &str = "//! Contract.\n//! More.\n\nnew();\n\nend();\n";

    #[test]
    fn a_copy_is_found_and_renewed_in_place() {
        let found = embeds(DOCUMENT);
        assert_eq!((found[0].line, found[0].path), (2, "a/b.rs"));
        assert_eq!(found[0].block.as_deref(), Some("old();\n"));
        let renewed = renewed(DOCUMENT, "a/b.rs", FILE);
        assert_eq!(
            embeds(&renewed)[0].block.as_deref(),
            Some("new();\n\nend();\n")
        );
        assert!(renewed.ends_with("```\nrest\n"));
    }

    #[test]
    fn a_mark_without_a_closed_fence_has_no_block() {
        for document in [
            "<!-- from a -->\ntext",
            "<!-- from a -->\n```\nb",
            "<!-- from a -->",
        ] {
            assert_eq!(embeds(document)[0].block, None, "{document}");
        }
    }
}
