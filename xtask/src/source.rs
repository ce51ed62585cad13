//! One Rust source file, prepared for the rules: its channels, its place, which lines are tests.
//!
//! Test lines are the items under `#[cfg(test)]` (also inside `all(..)` and `any(..)`), and whole
//! files below `tests/`, `benches/`, `examples/`, named `tests.rs`, or in a contract suite.
//!
//! Tests: below.

use crate::lexer;

/// What part of a crate a file belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Below `src/`, and not a file of tests.
    Product,
    /// A file of tests below `src/`, or a contract suite.
    Suite,
    /// Below `tests/`, `benches/` or `examples/`, or a build script.
    Outside,
}

/// A source file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path from the root of the workspace, with `/`.
    pub(crate) path: String,
    /// Directory name of its crate.
    pub(crate) crate_name: String,
    /// Path from the crate's directory.
    pub(crate) inner: String,
    pub(crate) text: String,
    pub(crate) channels: lexer::Channels,
    pub(crate) part: Part,
    /// Per line: whether it is under `#[cfg(test)]`, or the whole file is.
    pub(crate) tests: Vec<bool>,
}

impl Source {
    /// Prepares the file at `path`, which lies at `inner` in the directory of crate `crate_name`.
    pub(crate) fn new(path: &str, crate_name: &str, inner: &str, text: &str) -> Self {
        let channels = lexer::split(text);
        let part = part(inner);
        let mut tests = test_lines(&channels.code);
        if part != Part::Product {
            tests.fill(true);
        }
        Source {
            path: path.to_owned(),
            crate_name: crate_name.to_owned(),
            inner: inner.to_owned(),
            text: text.to_owned(),
            channels,
            part,
            tests,
        }
    }

    /// Lines of code that are not tests, numbered from 1.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code_lines().filter(|(n, _)| !self.tests[n - 1])
    }

    /// All lines of code, numbered from 1.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.channels.code.iter().map(String::as_str))
    }
}

fn part(inner: &str) -> Part {
    let mut parts: Vec<&str> = inner.split('/').collect();
    let stem = parts.pop().unwrap_or_default().trim_end_matches(".rs");
    if parts.first() != Some(&"src") {
        return Part::Outside;
    }
    let suite = |name: &str| matches!(name, "tests" | "contract");
    if suite(stem) || parts.iter().any(|dir| suite(dir)) {
        return Part::Suite;
    }
    Part::Product
}

/// Whether `line` holds the identifier `word`.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(lexer::is_word) && !after.is_some_and(lexer::is_word)
    })
}

/// Marks each line of an item that stands under a `cfg` naming `test`.
fn test_lines(code: &[String]) -> Vec<bool> {
    let mut marks = vec![false; code.len()];
    let mut line = 0;
    while line < code.len() {
        let text = code[line].trim_start();
        let is_test = text.starts_with("#[cfg(")
            && has_word(text, "test")
            && !text.replace(' ', "").contains("not(test)");
        if !is_test {
            line += 1;
            continue;
        }
        let end = item_end(code, line);
        marks[line..=end].fill(true);
        line = end + 1;
    }
    marks
}

/// Last line of the item whose first attribute is on line `from`.
fn item_end(code: &[String], from: usize) -> usize {
    let mut square = 0i32;
    let mut curly = 0i32;
    for (n, line) in code.iter().enumerate().skip(from) {
        for c in line.chars() {
            match c {
                '[' | '(' => square += 1,
                ']' | ')' => square -= 1,
                '{' => curly += 1,
                '}' => curly -= 1,
                _ => {}
            }
            if matches!(c, '}' | ';') && curly == 0 && square == 0 {
                return n;
            }
        }
    }
    code.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_items_under_cfg_test_are_tests() {
        let text = "fn a() {}\n#[cfg(all(test, not(loom)))]\nmod tests {\n  fn b() { [1; 2]; }\n}\n\
                    fn c() {}\n#[cfg(test)]\nmod more;\n#[cfg(not(test))]\nfn d() {}";
        let source = Source::new("crates/base/src/a.rs", "base", "src/a.rs", text);
        let tests: Vec<usize> = (1..=10).filter(|n| source.tests[n - 1]).collect();
        assert_eq!(tests, [2, 3, 4, 5, 7, 8]);
    }

    #[test]
    fn the_place_of_a_file_says_what_it_is() {
        assert_eq!(part("src/a/b.rs"), Part::Product);
        assert_eq!(part("src/a/tests.rs"), Part::Suite);
        assert_eq!(part("src/contract/points.rs"), Part::Suite);
        assert_eq!(part("tests/a.rs"), Part::Outside);
        assert_eq!(part("build.rs"), Part::Outside);
    }

    #[test]
    fn a_word_is_not_found_inside_another() {
        assert!(has_word("unsafe {", "unsafe"));
        assert!(!has_word("forbid(unsafe_code)", "unsafe"));
    }
}
