//! libFuzzer with AddressSanitizer on the targets of `fuzz/`.
//!
//! Z1. It begins with the inputs of `fuzz/corpus/<target>`, and what earlier runs left below
//!     `target/soak/found`; what it adds goes there, an input that failed into `target/soak`.
//! Z2. Of `all`, a target that fails does not keep the others from their turn.
//! Z3. Where the time was over before the inputs to begin with were read, nothing was attacked: the
//!     ledger says so, and blames no input.
//!
//! Tests: below.

use super::{Asked, GRACE, again, succeed};
use crate::ledger::{Line, Verdict};
use crate::supervise::{Ended, supervise_lines};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// What libFuzzer needs of the compiler: a counter for each edge, and what comparisons compare.
const INSTRUMENTED: &str = "--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// Seconds by the clock, not of the processor, after which an input hangs: all take milliseconds,
/// but on a busy machine a process was seen to wait two seconds for a processor.
const INPUT_LIMIT: &str = "-timeout=30";

/// What a run of libFuzzer told of itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    executions: u64,
    /// Edges of the program that were gone through, and kinds of ways to go through them.
    edges: u64,
    features: u64,
    /// It has gone through the inputs to begin with.
    began: bool,
}

/// Runs libFuzzer on `target`, or on all in turn with a seed more for each, which share the time.
///
/// # Errors
/// There is no such target, it cannot be built, or libFuzzer stopped at an input.
pub(super) fn run(root: &Path, target: &str, asked: &Asked, seed: u64) -> Result<(), String> {
    let all = names(root)?;
    let chosen: Vec<&str> = match target {
        "all" => all.iter().map(String::as_str).collect(),
        one if all.iter().any(|name| name == one) => vec![one],
        other => {
            return Err(format!(
                "`{other}` is no target; there are {}",
                all.join(" ")
            ));
        }
    };
    let built = root.join("target/soak");
    let programs = build(root, &built, (chosen.len() == 1).then_some(target))?;
    let each = share(asked.minutes, chosen.len());
    let mut stopped = Vec::new();
    let mut table = format!(
        "\n{:<12} {:>10} {:>8} {:>6} {:>8}\n",
        "target", "executions", "a second", "edges", "features"
    );
    for (place, name) in (0..).zip(&chosen) {
        let fuzzer = Fuzzer {
            root,
            built: &built,
            program: programs.join(name),
            name,
        };
        let (ended, told, took) = fuzzer.attack(each, seed + place)?;
        let seconds = took.as_secs();
        let verdict = told.verdict(ended);
        table += &row(name, &told, seconds, verdict);
        let what = format!("fuzz:{name}");
        let line = Line {
            goal: "G7",
            what: &what,
            seed: seed + place,
            runs: 1,
            unit: "executions",
            checked: told.executions,
            seconds,
            verdict,
            command: &again(&what, asked.minutes, seed + place),
        };
        if !asked.again {
            line.keep(root)?;
        }
        if let Verdict::Failed(why) | Verdict::Unfinished(why) = verdict {
            stopped.push(format!("`{name}`: {why} ({})", built.display()));
        }
    }
    print!("{table}");
    match stopped.is_empty() {
        true => Ok(()),
        false => Err(stopped.join("\n")),
    }
}

/// The targets of `fuzz/`, by name.
pub(super) fn names(root: &Path) -> Result<Vec<String>, String> {
    let directory = root.join("fuzz/fuzz_targets");
    let unread = |error| format!("cannot read {}: {error}", directory.display());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&directory).map_err(unread)? {
        let path = entry.map_err(unread)?.path();
        names.extend(
            path.file_stem()
                .map(|stem| stem.to_string_lossy().into_owned()),
        );
    }
    names.sort();
    Ok(names)
}

/// Seconds that each of `targets` has of so many minutes.
fn share(minutes: u64, targets: usize) -> u64 {
    let targets = u64::try_from(targets).unwrap_or(u64::MAX).max(1);
    (minutes * 60 / targets).max(1)
}

/// Builds all targets, or `only` one; where the programs are.
fn build(root: &Path, built: &Path, only: Option<&str>) -> Result<PathBuf, String> {
    let host = crate::nightly::host()?;
    let mut build = crate::nightly::cargo();
    build
        .current_dir(root)
        .args(["build", "--release", "--target", &host]);
    build.args(["--manifest-path", "fuzz/Cargo.toml"]);
    match only {
        Some(target) => build.args(["--bin", target]),
        None => build.arg("--bins"),
    };
    build
        .env("RUSTFLAGS", INSTRUMENTED)
        .env("CARGO_TARGET_DIR", built);
    succeed(&mut build)?;
    Ok(built.join(host).join("release"))
}

/// One target, built.
struct Fuzzer<'a> {
    root: &'a Path,
    built: &'a Path,
    program: PathBuf,
    name: &'a str,
}

impl Fuzzer<'_> {
    fn attack(&self, seconds: u64, seed: u64) -> Result<(Ended, Told, Duration), String> {
        let found = self.built.join("found").join(self.name);
        std::fs::create_dir_all(&found)
            .map_err(|error| format!("cannot make {}: {error}", found.display()))?;
        // Its lines go to standard error.
        let mut through = Command::new("sh");
        through.args(["-c", "exec \"$0\" \"$@\" 2>&1"]);
        through.arg(&self.program).arg(&found);
        through.arg(self.root.join("fuzz/corpus").join(self.name));
        through.arg(format!("-max_total_time={seconds}"));
        through.arg(format!("-seed={seed}"));
        through.args([INPUT_LIMIT, "-rss_limit_mb=2048", "-print_final_stats=1"]);
        let prefix = self.built.join(format!("{}-", self.name));
        through.arg(format!("-artifact_prefix={}", prefix.display()));
        let mut told = Told::default();
        let limit = Duration::from_secs(seconds) + GRACE;
        let begun = Instant::now();
        let ended = supervise_lines(&mut through, limit, "", &mut |line| told.hear(line))?;
        Ok((ended, told, begun.elapsed()))
    }
}

impl Told {
    /// `#524288 pulse cov: 812 ft: 2031 corp: ...`, and among the last lines, also of a run that
    /// failed, `stat::number_of_executed_units: 163840`.
    fn hear(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let place = match word {
                "INITED" => {
                    self.began = true;
                    continue;
                }
                "cov:" => &mut self.edges,
                "ft:" => &mut self.features,
                "stat::number_of_executed_units:" => &mut self.executions,
                _ => continue,
            };
            if let Some(number) = words.next().and_then(|told| told.parse().ok()) {
                *place = number;
            }
        }
    }

    /// What a run that `ended` so proves (Z3). An input that hangs makes libFuzzer fail.
    fn verdict(&self, ended: Ended) -> Verdict<'static> {
        match ended {
            Ended::Passed => Verdict::Held,
            Ended::Failed => Verdict::Failed("libFuzzer stopped: its input lies in target/soak"),
            Ended::Hung if self.began => Verdict::Failed("it did not end after its time"),
            Ended::Hung => {
                Verdict::Unfinished("its time was over before it had read what earlier runs found")
            }
        }
    }
}

/// A line of the table.
fn row(name: &str, told: &Told, seconds: u64, verdict: Verdict<'_>) -> String {
    let Told {
        executions,
        edges,
        features,
        ..
    } = told;
    let speed = executions / seconds.max(1);
    let verdict = match verdict {
        Verdict::Held => "",
        Verdict::Failed(_) => "  FAILED",
        Verdict::Unfinished(_) => "  unfinished",
    };
    format!("{name:<12} {executions:>10} {speed:>8} {edges:>6} {features:>8}{verdict}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_targets_share_an_hour() {
        assert_eq!(
            [share(60, 1), share(60, 18), share(1, 100)],
            [3_600, 200, 1]
        );
    }

    #[test]
    fn what_libfuzzer_tells_is_read_also_of_a_run_that_failed() {
        let mut told = Told::default();
        for line in [
            "INFO: Running with entropic power schedule (0xFF, 100).",
            "#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 40Mb",
            "#64\tNEW    cov: 812 ft: 2031 corp: 9/1b lim: 4 exec/s: 0 rss: 41Mb L: 3/4 MS: 1 -",
            "SUMMARY: libFuzzer: deadly signal",
            "stat::number_of_executed_units: 163840",
        ] {
            told.hear(line);
        }
        let expected = Told {
            executions: 163_840,
            edges: 812,
            features: 2031,
            began: true,
        };
        assert_eq!(told, expected);
        let row = row("block", &told, 60, told.verdict(Ended::Failed));
        assert!(row.contains(" 2730 ") && row.ends_with("FAILED\n"), "{row}");
    }

    #[test]
    fn an_end_before_the_beginning_blames_no_input() {
        let mut told = Told::default();
        told.hear("INFO: seed corpus: files: 1047 min: 1b max: 4096b total: 1Mb rss: 40Mb");
        told.hear("#1024\tpulse  cov: 9120 ft: 20101 corp: 402/1Mb exec/s: 1 rss: 400Mb");
        assert!(matches!(told.verdict(Ended::Hung), Verdict::Unfinished(_)));
        assert!(matches!(told.verdict(Ended::Failed), Verdict::Failed(_)));
        told.hear("#1048\tINITED cov: 9127 ft: 20115 corp: 404/1Mb exec/s: 1 rss: 400Mb");
        assert!(matches!(told.verdict(Ended::Hung), Verdict::Failed(_)));
        assert_eq!(told.verdict(Ended::Passed), Verdict::Held);
    }

    #[test]
    fn every_target_has_a_program_and_inputs_to_begin_with() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let names = names(&root).unwrap();
        assert!(names.iter().any(|name| name == "block"), "{names:?}");
        let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        for name in names {
            assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
            assert!(root.join("fuzz/corpus").join(&name).is_dir(), "{name}");
        }
    }
}
