//! Rule `modules`: a module uses only modules declared above it.
//!
//! The order of `mod` lines is the layering inside a crate, so that a reader can go through a crate
//! from top to bottom and never meet a word before its meaning.
//!
//! M1. Two modules are compared where their paths part: `a::b` may use `a::c` if `c` is declared
//!     above `b` in `a`, and `x::y` if `x` is declared above `a`.
//! M2. A name that a module re-exports from a child counts as the child.
//! M3. A child may use what its ancestors define themselves; tests may use everything.
//!
//! Tests: below, each with a planted violation.

use crate::paths::{self, Mention};
use crate::report::Report;
use crate::source::{Part, Source};
use crate::workspace::{Crate, Workspace};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "modules";

/// Checks every crate.
pub(crate) fn check(workspace: &Workspace, report: &mut Report) {
    for found in &workspace.crates {
        let tree = Tree::of(found);
        for module in tree.modules.values() {
            check_module(&tree, module, report);
        }
    }
}

/// A path of modules from the root of the crate; the root's is empty.
type ModulePath = Vec<String>;

struct Module<'a> {
    path: ModulePath,
    source: &'a Source,
    mentions: Vec<Mention>,
    /// Children in the order of their `mod` lines.
    children: Vec<String>,
    /// Name in this module -> child it comes from (M2).
    exports: BTreeMap<String, String>,
}

/// The modules of a crate that have a file of their own.
struct Tree<'a> {
    modules: BTreeMap<ModulePath, Module<'a>>,
}

impl<'a> Tree<'a> {
    fn of(found: &'a Crate) -> Self {
        let mut modules = BTreeMap::new();
        // A binary beside a library is a crate of its own, one that only uses the library.
        let root = ["src/lib.rs", "src/main.rs"]
            .into_iter()
            .find(|root| found.source(root).is_some());
        for source in &found.sources {
            let is_root = Some(source.inner.as_str()) == root;
            if let Some(path) = module_path(&source.inner, is_root) {
                modules.insert(path.clone(), Module::of(path, source));
            }
        }
        Tree { modules }
    }

    /// The children of the module at `path`, if it has a file.
    fn position(&self, path: &[String], child: &str) -> Option<usize> {
        let module = self.modules.get(path)?;
        module.children.iter().position(|name| name == child)
    }
}

fn module_path(inner: &str, is_root: bool) -> Option<ModulePath> {
    if is_root {
        return Some(Vec::new());
    }
    let stem = inner.strip_prefix("src/")?.strip_suffix(".rs")?;
    if matches!(stem, "lib" | "main") || stem.starts_with("bin/") {
        return None;
    }
    let stem = stem.strip_suffix("/mod").unwrap_or(stem);
    Some(stem.split('/').map(str::to_owned).collect())
}

impl<'a> Module<'a> {
    fn of(path: ModulePath, source: &'a Source) -> Self {
        let mentions = paths::mentions(source.product_lines());
        let children: Vec<String> = source
            .code_lines()
            .filter_map(|(_, line)| declared(line))
            .map(str::to_owned)
            .collect();
        let exported = exported_lines(source);
        let exports = mentions
            .iter()
            .filter(|mention| exported.contains(&mention.line))
            .filter_map(|mention| export(mention, &children))
            .collect();
        Module {
            path,
            source,
            mentions,
            children,
            exports,
        }
    }
}

/// The lines of all `pub use` statements.
fn exported_lines(source: &Source) -> BTreeSet<usize> {
    let mut inside = false;
    let mut lines = BTreeSet::new();
    for (number, line) in source.product_lines() {
        let words = line.trim_start();
        inside |= words.starts_with("pub") && words.contains("use ");
        if inside {
            lines.insert(number);
            inside = !line.contains(';');
        }
    }
    lines
}

/// The name in `mod name;` or `mod name {`, whatever its visibility.
fn declared(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let mut word = words.next()?;
    if word == "pub" || word.starts_with("pub(") {
        word = words.find(|word| *word == "mod")?;
    }
    if word != "mod" {
        return None;
    }
    Some(words.next()?.trim_end_matches([';', '{']))
}

/// The name that `pub use child::..::name` gives to the child's own module.
fn export(mention: &Mention, children: &[String]) -> Option<(String, String)> {
    let mut segments = mention.segments.iter();
    let mut first = segments.next()?;
    if first == "self" || first == "crate" {
        first = segments.next()?;
    }
    let last = segments.next_back()?;
    children
        .contains(first)
        .then(|| (last.clone(), first.clone()))
}

fn check_module(tree: &Tree<'_>, module: &Module<'_>, report: &mut Report) {
    if module.source.part == Part::Suite {
        return;
    }
    for mention in &module.mentions {
        let Some(target) = absolute(&mention.segments, &module.path) else {
            continue;
        };
        let shared = target
            .iter()
            .zip(&module.path)
            .take_while(|(a, b)| a == b)
            .count();
        let (Some(mine), Some(theirs)) = (module.path.get(shared), target.get(shared)) else {
            continue;
        };
        let parent = &module.path[..shared];
        let theirs = tree
            .modules
            .get(parent)
            .and_then(|module| module.exports.get(theirs))
            .unwrap_or(theirs);
        let (Some(here), Some(there)) =
            (tree.position(parent, mine), tree.position(parent, theirs))
        else {
            continue;
        };
        if there > here {
            report.find(
                RULE,
                (&module.source.path, mention.line),
                format!("module `{mine}` uses `{theirs}`, which is declared below it"),
                format!("declare `{theirs}` above `{mine}`, or move what both need to a third"),
            );
        }
    }
}

/// The path from the root of the crate, for `crate::`, `self::` and `super::`.
fn absolute(segments: &[String], from: &[String]) -> Option<ModulePath> {
    let mut base = from.to_vec();
    let mut rest = segments;
    match segments.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|segment| segment == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
        }
        _ => return None,
    }
    base.extend_from_slice(rest);
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("crates/base/Cargo.toml", "")];
        all.extend_from_slice(files);
        let mut report = Report::default();
        check(&planted(&all), &mut report);
        report.findings.iter().map(ToString::to_string).collect()
    }

    const ROOT: (&str, &str) = (
        "crates/base/src/lib.rs",
        "pub mod low;\npub mod high;\npub use high::{\n    Peak,\n};\npub const X: u8 = 1;",
    );

    #[test]
    fn a_module_that_uses_one_declared_below_it_is_found() {
        let found = findings(&[
            ROOT,
            ("crates/base/src/low.rs", "\nuse crate::high::Summit;"),
            ("crates/base/src/high.rs", "use crate::low::Floor;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        let expected = "crates/base/src/low.rs:2: modules: module `low` uses `high`, which is";
        assert!(found[0].starts_with(expected), "{found:?}");
    }

    #[test]
    fn a_re_export_counts_as_the_module_it_comes_from() {
        let found = findings(&[
            ROOT,
            ("crates/base/src/low.rs", "use crate::{Peak, X};"),
            ("crates/base/src/high.rs", "use super::X;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn modules_inside_modules_have_an_order_too() {
        let found = findings(&[
            ("crates/base/src/lib.rs", "mod outer;"),
            ("crates/base/src/outer/mod.rs", "mod first;\nmod second;"),
            ("crates/base/src/outer/first.rs", "use super::second::Word;"),
            (
                "crates/base/src/outer/second.rs",
                "use crate::outer::first::Word;",
            ),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains("outer/first.rs"), "{found:?}");
    }

    #[test]
    fn tests_may_use_everything() {
        let found = findings(&[
            ROOT,
            (
                "crates/base/src/low.rs",
                "#[cfg(test)]\nmod tests {\n    use crate::high::Summit;\n}",
            ),
            ("crates/base/src/high.rs", ""),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
