//! What a `Cargo.toml` says about dependencies and programs of tests: enough of TOML for that, and
//! no more.
//!
//! Understands `name = ..`, `name.workspace = true`, `package = ".."`, `[dependencies.name]`,
//! `[target.'..'.dependencies]`, `autotests` and `[[test]]`; everything else is skipped.
//!
//! Tests: below.

/// When a dependency is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// For the product, build scripts included.
    Always,
    /// For tests, benches and examples only.
    Tests,
}

/// One dependency of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) package: String,
    pub(crate) when: When,
    /// Whether it switches the `contract` feature on.
    pub(crate) contract: bool,
}

/// The name of the package, its dependencies and its programs of tests.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) package: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// Whether only `tests` are built, and not every file in the directory `tests/`.
    pub(crate) lists_tests: bool,
    /// Names of those it lists.
    pub(crate) tests: Vec<String>,
}

/// Reads a manifest.
pub(crate) fn parse(text: &str) -> Manifest {
    let mut manifest = Manifest::default();
    let mut section = Section::Other;
    for (line, raw) in (1..).zip(text.lines()) {
        let content = raw.split(" #").next().unwrap_or_default().trim();
        if content.starts_with('[') && content.ends_with(']') {
            section = Section::of(content.trim_matches(['[', ']']));
            if let Section::One(package, when) = &section {
                manifest.push(line, package, *when, content);
            }
            continue;
        }
        let Some((key, value)) = content.split_once('=') else {
            continue;
        };
        let key = key.trim();
        match &section {
            Section::Package if key == "name" => manifest.package = unquote(value).to_owned(),
            Section::Package if key == "autotests" => {
                manifest.lists_tests = value.trim() == "false";
            }
            Section::Test if key == "name" => manifest.tests.push(unquote(value).to_owned()),
            Section::All(when) if is_key(key) => {
                let name = key.split('.').next().unwrap_or(key).trim_matches('"');
                manifest.push(line, name, *when, value);
            }
            Section::One(..) => manifest.amend(key, value),
            _ => {}
        }
    }
    manifest
}

enum Section {
    Package,
    /// `[dependencies]` and its kin.
    All(When),
    /// `[dependencies.name]`.
    One(String, When),
    /// `[[test]]`.
    Test,
    Other,
}

impl Section {
    fn of(name: &str) -> Section {
        // A target's condition may hold dots: only what follows its closing quote counts.
        let name = match name.strip_prefix("target.") {
            Some(target) => target.rsplit_once("'.").map_or("", |(_, rest)| rest),
            None => name,
        };
        let (table, one) = match name.split_once('.') {
            Some((table, one)) => (table, Some(one)),
            None => (name, None),
        };
        let when = match table {
            "package" if one.is_none() => return Section::Package,
            "test" if one.is_none() => return Section::Test,
            "dependencies" | "build-dependencies" => When::Always,
            "dev-dependencies" => When::Tests,
            _ => return Section::Other,
        };
        match one {
            Some(one) => Section::One(one.trim_matches('"').to_owned(), when),
            None => Section::All(when),
        }
    }
}

impl Manifest {
    fn push(&mut self, line: usize, name: &str, when: When, value: &str) {
        self.dependencies.push(Dependency {
            line,
            package: renamed(value).unwrap_or(name).to_owned(),
            when,
            contract: value.contains("\"contract\""),
        });
    }

    fn amend(&mut self, key: &str, value: &str) {
        let Some(last) = self.dependencies.last_mut() else {
            return;
        };
        match key {
            "package" => last.package = unquote(value).to_owned(),
            "features" => last.contract |= value.contains("\"contract\""),
            _ => {}
        }
    }
}

fn is_key(key: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.\"".contains(c);
    !key.is_empty() && key.chars().all(plain)
}

fn unquote(value: &str) -> &str {
    value.trim().trim_matches('"')
}

/// The `package = ".."` inside an inline table.
fn renamed(value: &str) -> Option<&str> {
    let rest = value.split_once("package")?.1.trim_start();
    let rest = rest.strip_prefix('=')?.trim_start().strip_prefix('"')?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_read_and_whether_there_are_others() {
        let manifest = parse(
            "[package]\nname = \"a\"\nautotests = false\n[[bin]]\nname = \"b\"\n\
             [[test]]\nname = \"suite\"\n\n[[test]]\nname = \"loom\"\n",
        );
        assert_eq!(manifest.package, "a");
        assert!(manifest.lists_tests);
        assert_eq!(manifest.tests, ["suite", "loom"]);
        assert!(!parse("[package]\nname = \"a\"\nautotests = true\n").lists_tests);
    }

    #[test]
    fn every_way_to_name_a_dependency_is_read() {
        let manifest = parse(
            "[package]\nname = \"velella-sst\"\n[features]\ncontract = []\n\
             [dependencies]\nvelella-base.workspace = true\nshort = { package = \"long\" }\n\
             [dev-dependencies]\nvelella-vfs = { workspace = true, features = [\"contract\"] }\n\
             [target.'cfg(loom)'.dependencies]\nloom = \"0.7\"\n\
             [dependencies.apart]\nversion = \"1\"\nfeatures = [\"contract\"]\n",
        );
        let found: Vec<(&str, When, bool)> = manifest
            .dependencies
            .iter()
            .map(|d| (d.package.as_str(), d.when, d.contract))
            .collect();
        assert_eq!(manifest.package, "velella-sst");
        assert_eq!(
            found,
            [
                ("velella-base", When::Always, false),
                ("long", When::Always, false),
                ("velella-vfs", When::Tests, true),
                ("loom", When::Always, false),
                ("apart", When::Always, true),
            ]
        );
    }
}
