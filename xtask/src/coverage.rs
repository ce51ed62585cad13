//! `cargo xtask coverage`: which lines of the storage crates their tests execute.
//!
//! V1. Counted are lines of product code for which the compiler made instructions; tests, contract
//!     suites and what is compiled for fuzzing are not.
//! V2. A line is covered if any test of the storage crates, or a small run of a campaign, executes
//!     it. Processes that are killed on purpose leave no counts.
//! V3. A test binary that fails, or does not end, fails the whole.
//! V4. Of crates that are named, only the own tests are run: what these cover without the help of
//!     the crates above.
//!
//! Needs the component `llvm-tools`. Tests: below.

use crate::binaries::{self, Binary};
use crate::ratio::{STORAGE, is_product};
use crate::supervise::{Ended, supervise};
use crate::workspace::Workspace;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Compiles so that executions are counted (see there).
const WRAPPER: &str = "xtask/src/coverage/rustc.sh";
/// A test binary that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(1_800);
/// Percent of lines.
const GOAL: usize = 85;
/// Files with less than this are listed.
const LISTED: usize = 75;

/// Executions by line, by file.
type Executed = BTreeMap<String, BTreeMap<usize, u64>>;

/// Lines that could be, and that were executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Covered {
    lines: usize,
    hit: usize,
}

impl Covered {
    fn add(&mut self, other: Covered) {
        self.lines += other.lines;
        self.hit += other.hit;
    }

    fn percent(self) -> usize {
        (self.hit * 100).checked_div(self.lines).unwrap_or(100)
    }
}

/// Builds, runs, counts, and prints a line for each crate and each file that is tested little; of
/// the storage crates called `names`, or of all (V4).
///
/// # Errors
/// A tool is missing, a test fails, or a crate is tested too little.
pub(crate) fn run(root: &Path, names: &[String]) -> Result<(), String> {
    let tools = tools()?;
    let crates = select(names)?;
    let mut packages: Vec<String> = crates.iter().map(|name| package(name)).collect();
    if names.is_empty() {
        packages.push(package("reliability"));
    }
    let mut command = binaries::cargo_test(root, packages.iter().map(String::as_str));
    command.args(["--lib", "--tests"]);
    command.env("RUSTC_WORKSPACE_WRAPPER", root.join(WRAPPER));
    let built = binaries::build(&mut command)?;
    let counts = root.join("target/coverage");
    let _ = std::fs::remove_dir_all(&counts);
    for ((of, target), binary) in &built {
        println!("{of}: {target}");
        execute(binary, &counts)?;
    }
    let objects: Vec<_> = built.values().map(|binary| binary.path.as_path()).collect();
    let lcov = export(&tools, &counts, &objects)?;
    let kept = counts.join("lcov.info");
    std::fs::write(&kept, &lcov)
        .map_err(|error| format!("cannot write {}: {error}", kept.display()))?;
    let executed = parse(&lcov, root);
    let workspace = Workspace::load(root)
        .map_err(|error| format!("cannot read {}: {error}", root.display()))?;
    let (text, least) = table(&workspace, &executed, &crates);
    println!(
        "\n{text}\nline by line, as editors read it: {}",
        kept.display()
    );
    match least >= GOAL {
        true => Ok(()),
        false => Err(format!("{least} % of a crate's lines, the goal is {GOAL}")),
    }
}

/// The storage crates called `names`, all if none are, bottom-up.
fn select(names: &[String]) -> Result<Vec<&'static str>, String> {
    if let Some(name) = names.iter().find(|name| !STORAGE.contains(&name.as_str())) {
        let known = STORAGE.join(", ");
        return Err(format!("`{name}` is no storage crate; there are {known}"));
    }
    let is_wanted = |of: &&str| names.is_empty() || names.iter().any(|name| name == of);
    Ok(STORAGE.iter().copied().filter(is_wanted).collect())
}

/// The package of a crate's directory.
fn package(name: &str) -> String {
    match name {
        "engine" => "velella".to_owned(),
        name => format!("velella-{name}"),
    }
}

/// Where `llvm-profdata` and `llvm-cov` of our compiler are.
fn tools() -> Result<PathBuf, String> {
    let said = |argument| {
        let output = Command::new("rustc").args(["--print", argument]).output();
        let output = output.map_err(|error| format!("cannot run rustc: {error}"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let tools = Path::new(&said("target-libdir")?).with_file_name("bin");
    match tools.join("llvm-cov").exists() {
        true => Ok(tools),
        false => Err("llvm-cov is missing; `rustup component add llvm-tools`".to_owned()),
    }
}

fn execute(binary: &Binary, counts: &Path) -> Result<(), String> {
    let mut command = binary.command();
    command
        .env("LLVM_PROFILE_FILE", counts.join("%p-%m.profraw"))
        .stdout(Stdio::null());
    match supervise(&mut command, LIMIT)? {
        Ended::Passed => Ok(()),
        ended => Err(format!("{}: {ended:?}", binary.path.display())),
    }
}

/// The counts of all processes as one text in lcov's format.
fn export(tools: &Path, counts: &Path, objects: &[&Path]) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("cannot gather the counts: {error}");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(counts).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    let merged = counts.join("merged.profdata");
    let mut command = Command::new(tools.join("llvm-profdata"));
    // A process that was killed may have left half a file.
    command.args(["merge", "--sparse", "--failure-mode=all", "-o"]);
    command.arg(&merged).args(&files).stderr(Stdio::null());
    if !command.status().map_err(failed)?.success() {
        return Err("llvm-profdata could not add the counts up".to_owned());
    }
    let mut command = Command::new(tools.join("llvm-cov"));
    command.args(["export", "--format=lcov", "--instr-profile"]);
    command.arg(&merged);
    for object in objects {
        command.arg("--object").arg(object);
    }
    let output = command.stderr(Stdio::null()).output().map_err(failed)?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err("llvm-cov could not read the counts".to_owned()),
    }
}

/// Executions by line of each file below `root`.
fn parse(lcov: &str, root: &Path) -> Executed {
    let root = format!("{}/", root.display());
    let mut executed = Executed::new();
    let mut file = None;
    for line in lcov.lines() {
        if let Some(path) = line.strip_prefix("SF:") {
            file = path.strip_prefix(&root).map(str::to_owned);
        }
        let numbers = line
            .strip_prefix("DA:")
            .and_then(|told| told.split_once(','));
        if let (Some(file), Some((line, count))) = (&file, numbers)
            && let (Ok(line), Ok(count)) = (line.parse(), count.parse::<u64>())
        {
            let lines = executed.entry(file.clone()).or_default();
            *lines.entry(line).or_default() += count;
        }
    }
    executed
}

/// The table, and the percentage of the crate that is covered least.
fn table(workspace: &Workspace, executed: &Executed, crates: &[&str]) -> (String, usize) {
    let mut text = format!(
        "{:<12} {:>7} {:>8} {:>5}\n",
        "crate", "lines", "executed", "%"
    );
    let (mut all, mut least, mut poor) = (Covered::default(), 100, String::new());
    for name in crates {
        let mut sum = Covered::default();
        for source in workspace
            .sources()
            .filter(|source| source.crate_name == *name)
        {
            let Some(lines) = executed.get(&source.path).filter(|_| is_product(source)) else {
                continue;
            };
            let product = lines
                .iter()
                .filter(|(line, _)| !source.tests.get(**line - 1).copied().unwrap_or(true));
            let mut covered = Covered::default();
            for (_, count) in product {
                covered.lines += 1;
                covered.hit += usize::from(*count > 0);
            }
            if covered.percent() < LISTED {
                let (path, percent) = (&source.path, covered.percent());
                poor += &format!(
                    "  {path}: {} of {}, {percent} %\n",
                    covered.hit, covered.lines
                );
            }
            sum.add(covered);
        }
        text += &line(name, sum);
        least = least.min(sum.percent());
        all.add(sum);
    }
    text += &line("all", all);
    if !poor.is_empty() {
        text += &format!("below {LISTED} %:\n{poor}");
    }
    (text, least)
}

fn line(name: &str, covered: Covered) -> String {
    let (lines, hit) = (covered.lines, covered.hit);
    format!("{name:<12} {lines:>7} {hit:>8} {:>5}\n", covered.percent())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::planted;

    #[test]
    fn lines_of_product_are_counted_over_all_binaries() {
        let lcov = "SF:/w/crates/base/src/a.rs\nDA:1,0\nDA:2,7\nDA:4,0\nend_of_record\n\
                    SF:/w/crates/base/src/a.rs\nDA:1,1\nend_of_record\nSF:/other/b.rs\nDA:9,9\n";
        let executed = parse(lcov, Path::new("/w"));
        assert_eq!(executed.len(), 1);
        let source = "fn a() {}\nfn b() {}\n#[cfg(test)]\nfn c() {}\n";
        let workspace = planted(&[
            ("crates/base/Cargo.toml", ""),
            ("crates/base/src/a.rs", source),
        ]);
        let (text, least) = table(&workspace, &executed, STORAGE);
        assert_eq!(least, 100, "{text}");
        assert!(
            text.contains("base               2        2   100"),
            "{text}"
        );
    }
    #[test]
    fn crates_are_taken_by_name_bottom_up_and_others_refused() {
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(select(&[]).unwrap(), STORAGE);
        assert_eq!(select(&names(&["sst", "base"])).unwrap(), ["base", "sst"]);
        assert!(select(&names(&["server"])).unwrap_err().contains("engine"));
        assert_eq!(
            (package("engine"), package("sst")),
            ("velella".into(), "velella-sst".into())
        );
    }
}
