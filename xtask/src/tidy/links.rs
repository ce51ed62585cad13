//! Rule `links`: what a document or a comment points at exists.
//!
//! Relative links of every Markdown file, with their `#anchors`, and every page of
//! `docs` that a comment of a Rust file names. Links that leave the repository are not followed.
//!
//! Tests: below, each with a planted violation.

use crate::report::Report;
use crate::workspace::Workspace;

const RULE: &str = "links";

/// Checks every document and every comment.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for (path, text) in &workspace.documents {
        for (line, target) in links(text) {
            check_link(workspace, (path, line), &target, report);
        }
    }
    for source in workspace.sources() {
        for (line, comment) in (1..).zip(&source.channels.comments) {
            for target in named_documents(comment) {
                if !workspace.paths.contains(target) {
                    report.find(
                        RULE,
                        (&source.path, line),
                        format!("`{target}` does not exist"),
                        "name the page that says it",
                    );
                }
            }
        }
    }
}

fn check_link(workspace: &Workspace, place: (&str, usize), target: &str, report: &mut Report) {
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => place.0.to_owned(),
        _ => resolve(place.0, file),
    };
    if !path.is_empty() && !workspace.paths.contains(&path) {
        let what = format!("the link to `{target}` leads nowhere");
        let remedy = "correct the path; it is relative to the document";
        report.find(RULE, place, what, remedy);
        return;
    }
    let Some(text) = workspace.documents.get(&path) else {
        return;
    };
    if !anchor.is_empty() && !anchors(text).any(|known| known == anchor) {
        report.find(
            RULE,
            place,
            format!("`{path}` has no heading `#{anchor}`"),
            "link to one of its headings: lower case, blanks as hyphens",
        );
    }
}

/// The relative targets of `[..](target)` outside of code, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in outside_fences(text) {
        // Every second piece between backquotes is code.
        let prose: String = line.split('`').step_by(2).collect();
        for rest in prose.split("](").skip(1) {
            let target = rest.split([')', ' ']).next().unwrap_or_default();
            if !target.contains("://") && !target.starts_with("mailto:") {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

fn outside_fences(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// `target`, relative to the directory of `document`, from the root.
fn resolve(document: &str, target: &str) -> String {
    let mut parts: Vec<&str> = document.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

fn anchors(text: &str) -> impl Iterator<Item = String> {
    outside_fences(text).filter_map(|(_, line)| {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            return None;
        }
        let slug = heading.trim().to_lowercase();
        let slug = slug
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        Some(slug.map(|c| if c == ' ' { '-' } else { c }).collect())
    })
}

/// The pages of `docs` that a comment names.
fn named_documents(comment: &str) -> impl Iterator<Item = &str> {
    comment.match_indices("docs/").filter_map(|(at, _)| {
        let rest = &comment[at..];
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && !"/_-.".contains(c))
            .unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches('.');
        name.ends_with(".md").then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let mut report = Report::default();
        check(&planted(files), &mut report);
        report.findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let found = findings(&[
            (
                "docs/a.md",
                "[b](../b.md) [up](..)\n[c](c.md)\n[web](https://x)\n`[d](d.md)`\n",
            ),
            ("b.md", "```\n[e](e.md)\n```\n[src](docs)\n"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("docs/a.md:2: links: the link to `c.md`"),
            "{found:?}"
        );
    }

    #[test]
    fn an_anchor_without_a_heading_is_found() {
        let found = findings(&[
            (
                "a.md",
                "## Who waits, for whom?\n[1](#who-waits-for-whom) [2](#nobody)\n",
            ),
            ("b.md", "[3](a.md#who-waits-for-whom) [4](a.md#else)\n"),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_comment_that_names_a_missing_page_is_found() {
        let code = "//! See docs/a.md, and docs/b.md.\nconst X: &str = \"docs/c.md\";\n";
        let found = findings(&[
            ("docs/a.md", ""),
            ("crates/base/Cargo.toml", ""),
            ("crates/base/src/lib.rs", code),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("`docs/b.md` does not exist"), "{found:?}");
    }
}
