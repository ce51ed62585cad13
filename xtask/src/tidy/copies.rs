//! Rule `copies`: a block that a document copies from a file is that file's text.
//!
//! The README's example is `crates/engine/examples/readme.rs`, which is compiled and run; the two
//! cannot drift apart. The form of a mark is described in `crate::embed`.
//!
//! Tests: below, each with a planted violation.

use crate::embed;
use crate::report::Report;
use crate::workspace::Workspace;

const RULE: &str = "copies";
/// The document that must hold the example.
const README: &str = "README.md";
/// The example that a newcomer copies first.
const EXAMPLE: &str = "crates/engine/examples/readme.rs";

/// Checks every document.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for (path, text) in &workspace.documents {
        for found in embed::embeds(text) {
            let place = (path.as_str(), found.line);
            let Some(original) = workspace.rust.get(found.path) else {
                check_missing(workspace, place, found.path, report);
                continue;
            };
            if found.block.as_deref() != Some(&embed::body(original)) {
                report.find(
                    RULE,
                    place,
                    format!("the block differs from `{}`", found.path),
                    "run `cargo xtask readme`",
                );
            }
        }
    }
    let readme = workspace.documents.get(README);
    let copied = readme.is_some_and(|text| {
        let mut found = embed::embeds(text).into_iter();
        found.any(|embed| embed.path == EXAMPLE)
    });
    if workspace.rust.contains_key(EXAMPLE) && !copied {
        report.find(
            RULE,
            (README, 0),
            format!("it does not show `{EXAMPLE}`"),
            format!("write `<!-- from {EXAMPLE} -->` and an empty rust block where it belongs"),
        );
    }
}

fn check_missing(workspace: &Workspace, place: (&str, usize), path: &str, report: &mut Report) {
    // An example can only be asked of a crate that is there.
    let owner = path.split('/').take(2).collect::<Vec<_>>().join("/");
    if workspace.paths.contains(&format!("{owner}/Cargo.toml")) {
        let what = format!("`{path}` does not exist");
        report.find(
            RULE,
            place,
            what,
            "write the file: the block is a copy of it",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    const CODE: &str = "//! The example.\n\nfn main() {}\n";

    fn count(readme: &str) -> usize {
        let files = [
            ("README.md", readme),
            ("crates/engine/Cargo.toml", ""),
            (EXAMPLE, CODE),
        ];
        let mut report = Report::default();
        check(&planted(&files), &mut report);
        report.findings.len()
    }

    #[test]
    fn a_block_that_differs_from_its_file_is_found() {
        let readme = |block: &str| format!("<!-- from {EXAMPLE} -->\n```rust\n{block}```\n");
        assert_eq!(count(&readme("fn main() {}\n")), 0);
        assert_eq!(count(&readme("fn main() { }\n")), 1);
        assert_eq!(count(&readme("")), 1);
        assert_eq!(count("nothing"), 1);
        assert_eq!(
            count(&format!(
                "{}<!-- from crates/engine/x.rs -->",
                readme("fn main() {}\n")
            )),
            1
        );
    }
}
