//! `cargo xtask ratio`: lines of tests for each line of product, in the storage crates.
//!
//! R1. A line counts if it has code: comments and empty lines do not, of tests and product alike.
//! R2. Tests are: items under `#[cfg(test)]`, files of tests, `tests/`, contract suites, what is
//!     compiled for fuzzing only; and the crates that only test (testkit, reliability, the fuzz
//!     targets). Examples and benchmarks are neither.
//! R3. What stands in a storage crate or the command line and does nothing but test is in rows of
//!     its own, so that the sum can be read with it and without: file systems made to be crashed,
//!     models of the machine, the process that kills.
//!
//! Tests: below.

use crate::source::Source;
use crate::workspace::Workspace;
use std::path::Path;

/// The crates that hold what users write, bottom-up.
pub(crate) const STORAGE: &[&str] = &[
    "base", "sync", "vfs", "mvcc", "memtable", "journal", "sst", "tree", "lsm", "engine",
];

/// Crates that only test the storage crates.
const TESTING: &[&str] = &["testkit", "reliability"];

/// What only tests but stands beside product code (R3): crate, path in it.
const SIMULATORS: &[(&str, &str)] = &[
    ("vfs", "src/mem"),
    ("vfs", "src/fault"),
    ("vfs", "src/trace"),
    ("vfs", "src/intercept"),
    ("sync", "src/model"),
    ("sync", "src/simulation"),
    ("sync", "src/allocations"),
    ("sync", "src/epoch/eager"),
    ("sync", "src/lock/model"),
    ("cli", "src/crash_test"),
];

/// What the goal asks for.
const GOAL: f64 = 1.2;

/// Lines of code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lines {
    product: usize,
    tests: usize,
}

impl Lines {
    fn ratio(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 lines")]
        let ratio = self.tests as f64 / self.product.max(1) as f64;
        ratio
    }
}

/// Prints the table.
///
/// # Errors
/// The workspace cannot be read, or there are too few tests.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let workspace = Workspace::load(root)
        .map_err(|error| format!("cannot read {}: {error}", root.display()))?;
    let (text, all) = table(&workspace);
    print!("{text}");
    match all.ratio() >= GOAL {
        true => Ok(()),
        false => Err(format!(
            "{:.2} lines of tests for one of product",
            all.ratio()
        )),
    }
}

fn table(workspace: &Workspace) -> (String, Lines) {
    let mut text = format!(
        "{:<12} {:>8} {:>8} {:>6}\n",
        "crate", "product", "tests", "ratio"
    );
    let mut all = Lines::default();
    let mut row = |name: &str, lines: Lines| {
        let (product, tests) = (lines.product, lines.tests);
        all.product += product;
        all.tests += tests;
        let ratio = match product {
            0 => String::new(),
            _ => format!("{:.2}", lines.ratio()),
        };
        text += &format!("{name:<12} {product:>8} {tests:>8} {ratio:>6}\n");
    };
    for name in STORAGE.iter().chain(TESTING) {
        let of = workspace
            .sources()
            .filter(|source| source.crate_name == *name && !simulates(source));
        let mut lines = Lines::default();
        for source in of {
            let (product, tests) = count(source);
            lines.product += product;
            lines.tests += tests;
        }
        if TESTING.contains(name) {
            lines = Lines {
                product: 0,
                tests: lines.product + lines.tests,
            };
        }
        row(name, lines);
    }
    let targets = workspace
        .rust
        .iter()
        .filter(|(path, _)| path.starts_with("fuzz/"));
    let targets = targets.map(|(path, text)| Source::new(path, "fuzz", "src/target.rs", text));
    let tests = targets.map(|source| count(&source).0).sum();
    row("fuzz", Lines { product: 0, tests });
    text += &sum("without", all);
    let simulators = workspace.sources().filter(|source| simulates(source));
    let lines = simulators.map(count);
    let tests: usize = lines.map(|(product, tests)| product + tests).sum();
    text += &format!("{:<12} {:>8} {tests:>8}\n", "simulators", 0);
    all.tests += tests;
    text += &sum("all", all);
    (text, all)
}

fn sum(name: &str, lines: Lines) -> String {
    let (product, tests) = (lines.product, lines.tests);
    format!(
        "{name:<12} {product:>8} {tests:>8} {:>6.2}\n",
        lines.ratio()
    )
}

/// Whether a file does nothing but test (R3).
fn simulates(source: &Source) -> bool {
    SIMULATORS.iter().any(|(of, path)| {
        let rest = source.inner.strip_prefix(path);
        source.crate_name == *of && rest.is_some_and(|rest| rest.starts_with(['.', '/']))
    })
}

/// Whether lines of this file that are not marked as tests are product.
pub(crate) fn is_product(source: &Source) -> bool {
    let for_fuzzing = |part: &str| matches!(part, "fuzz" | "fuzz.rs");
    source.inner.starts_with("src/") && !source.inner.split('/').any(for_fuzzing)
}

/// Lines of product and of tests.
fn count(source: &Source) -> (usize, usize) {
    if ["examples/", "benches/"]
        .iter()
        .any(|place| source.inner.starts_with(place))
    {
        return (0, 0);
    }
    let has_code = |(_, line): &(usize, &str)| !line.trim().is_empty();
    let all = source.code_lines().filter(has_code).count();
    let product = match is_product(source) {
        true => source.product_lines().filter(has_code).count(),
        false => 0,
    };
    (product, all - product)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    #[test]
    fn code_is_counted_where_it_stands() {
        let workspace = planted(&[
            ("crates/base/Cargo.toml", ""),
            (
                "crates/base/src/a.rs",
                "//! doc\n\nfn a() {}\n// no\n#[cfg(test)]\nmod tests {\n}\n",
            ),
            ("crates/base/src/fuzz/b.rs", "fn b() {}\n"),
            ("crates/base/tests/c.rs", "fn c() {}\nfn d() {}\n"),
            ("crates/base/examples/d.rs", "fn c() {}\n"),
            ("crates/testkit/Cargo.toml", ""),
            ("crates/testkit/src/lib.rs", "fn e() {}\n"),
            ("fuzz/targets/f.rs", "fn f() {}\n"),
            ("crates/vfs/Cargo.toml", ""),
            ("crates/vfs/src/mem.rs", "fn g() {}\n"),
            ("crates/vfs/src/mem/names.rs", "fn h() {}\n"),
        ]);
        let (text, all) = table(&workspace);
        let product = 1;
        assert_eq!(
            all,
            Lines {
                product,
                tests: 3 + 1 + 2 + 1 + 1 + 2
            },
            "{text}"
        );
    }
}
