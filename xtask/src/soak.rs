//! `cargo xtask soak`: a long attack with seeds that no ledger line has, kept in the ledger.
//!
//! K1. No seed twice: without `--seed` it begins behind every seed of the ledger; with one it
//!     refuses those that the ledger has, but for `--again`, which repeats them and writes no
//!     line. An attack leaves its line however it ended. Models draw seeds by the clock, and print
//!     the one to repeat; their line is the table that `cargo xtask models` prints.
//! K2. The first line printed is the seed and the command that repeats the run.
//! K3. At most an hour at a time; what is built before does not count.
//!
//! Tests: below.

use crate::models;
use crate::supervise::{Ended, supervise, supervise_lines};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LEDGER: &str = "reliability/LEDGER.tsv";
const MINUTES_MAX: u64 = 60;
/// Seeds begin at multiples of this, so that an attack's seeds are told apart by their millions.
const STRIDE: u64 = 1_000_000;
/// How long an attack may go on after its time: one run of it.
const GRACE: Duration = Duration::from_secs(400);

/// What can be soaked: its name, and what it does.
#[rustfmt::skip]
const ATTACKS: &[(&str, &str)] = &[
    ("kill", "processes killed, databases in memory: velella crash-test --memory-backed"),
    ("kill-on-disk", "processes killed, databases on the disk: velella crash-test"),
    ("power-cut", "images of a file system under load (root): velella crash-test --power-cut"),
    ("power-loss", "a campaign of velella-reliability, as are the next"),
    ("power-loss-in-recovery", ""),
    ("every-crash-point", ""),
    ("flipped-below-the-cut", ""),
    ("faults", ""),
    ("pairs-of-faults", ""),
    ("corruption", ""),
    ("corruption-of-every-bit", ""),
    ("histories", ""),
    ("same-answers", ""),
    ("fuzz", "every target in turns, on stable, without a sanitizer"),
    ("models", "random schedules of the models: cargo xtask models --minutes; no line"),
    ("fuzz:TARGET", "libFuzzer with AddressSanitizer on a target of fuzz/ (nightly)"),
];

/// What the command line asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    what: String,
    minutes: u64,
    seed: Option<u64>,
    again: bool,
}

/// Attacks for as long as `arguments` say.
///
/// # Errors
/// A word that means nothing, seeds used before, or an attack that broke a promise.
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<(), String> {
    let asked = parse(arguments)?;
    if asked.what == "models" {
        return models(&asked);
    }
    let used = used(&read(&root.join(LEDGER))?)?;
    let seed = match asked.seed {
        None => fresh(&used),
        Some(seed) if asked.again => seed,
        Some(seed) => unused(&used, seed)?,
    };
    let Asked { what, minutes, .. } = &asked;
    println!("seed {seed}: cargo xtask soak {what} --minutes {minutes} --seed {seed} --again");
    if let Some(target) = what.strip_prefix("fuzz:") {
        return fuzz(root, target, &asked, seed);
    }
    let limit = Duration::from_secs(minutes * 60) + GRACE;
    match supervise(&mut attack(root, &asked, seed)?, limit)? {
        Ended::Passed => Ok(()),
        Ended::Failed => Err(format!("`{what}` failed: see above")),
        Ended::Hung => {
            let end = format!("did not end {GRACE:?} after its time");
            let line = Line {
                goal: "-",
                what,
                minutes: *minutes,
                seed,
                runs: 0,
                seconds: limit.as_secs(),
                lost: &end,
            };
            if !asked.again {
                line.keep(root)?;
            }
            Err(format!("`{what}` {end}"))
        }
    }
}

/// The attacks, for `--help`.
pub(crate) fn describe() -> String {
    let line = |(name, about): &(&str, &str)| format!("  {name:<24} {about}\n");
    ATTACKS.iter().map(line).collect()
}

fn parse(arguments: &[String]) -> Result<Asked, String> {
    let mut asked = Asked {
        what: String::new(),
        minutes: 10,
        seed: None,
        again: false,
    };
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let told = words.next().and_then(|told| told.parse::<u64>().ok());
            told.ok_or_else(|| format!("`{word}` needs a number"))
        };
        match word.as_str() {
            "--minutes" => asked.minutes = number()?,
            "--seed" => asked.seed = Some(number()?),
            "--again" => asked.again = true,
            what if is_attack(what) && asked.what.is_empty() => asked.what = what.to_owned(),
            other => return Err(format!("`{other}` is no attack; there are\n{}", describe())),
        }
    }
    if asked.what.is_empty() {
        return Err(format!("soak what? There are\n{}", describe()));
    }
    if !(1..=MINUTES_MAX).contains(&asked.minutes) {
        return Err(format!("--minutes is from 1 to {MINUTES_MAX}"));
    }
    if asked.again && asked.seed.is_none() {
        return Err("--again repeats the seeds from --seed on: name it".to_owned());
    }
    Ok(asked)
}

fn is_attack(what: &str) -> bool {
    let named = |(name, _): &(&str, &str)| *name == what && !name.ends_with(":TARGET");
    ATTACKS.iter().any(named)
        || what
            .strip_prefix("fuzz:")
            .is_some_and(|rest| !rest.is_empty())
}

/// The ledger's text; none is empty.
fn read(path: &Path) -> Result<String, String> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| format!("cannot read {}: {error}", path.display())),
    }
}

/// First seeds and numbers of runs of a ledger.
fn used(ledger: &str) -> Result<Vec<(u64, u64)>, String> {
    let pair = |line: &str| {
        let mut columns = line.split('\t').skip(4);
        let (first, runs) = (columns.next()?.parse().ok()?, columns.next()?.parse().ok()?);
        Some((first, runs))
    };
    let named = |line| pair(line).ok_or_else(|| format!("{LEDGER} has no seeds in `{line}`"));
    ledger.lines().skip(1).map(named).collect()
}

/// Random schedules, of seeds by the clock.
fn models(asked: &Asked) -> Result<(), String> {
    if asked.seed.is_some() {
        return Err("models draw seeds by the clock; VELELLA_SEED repeats one".to_owned());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    succeed(command.args(["models", "--minutes", &asked.minutes.to_string()]))
}

/// A seed behind all that were used.
fn fresh(used: &[(u64, u64)]) -> u64 {
    let last = used.iter().map(|(first, runs)| first + runs).max();
    (last.unwrap_or(0) / STRIDE + 1) * STRIDE
}

/// `seed`, if no line of the ledger began or went on there (K1).
fn unused(used: &[(u64, u64)], seed: u64) -> Result<u64, String> {
    let has = |(first, runs): &(u64, u64)| (*first..first + runs.max(&1)).contains(&seed);
    match used.iter().find(|line| has(line)) {
        None => Ok(seed),
        Some((first, runs)) => Err(format!(
            "{LEDGER} has {runs} runs from seed {first} on; take seed {}, or repeat them by --again",
            fresh(used)
        )),
    }
}

/// The command of an attack that runs by itself and writes the ledger by itself.
fn attack(root: &Path, asked: &Asked, seed: u64) -> Result<Command, String> {
    let (minutes, seed) = (asked.minutes.to_string(), seed.to_string());
    let crash_test: Option<&[&str]> = match asked.what.as_str() {
        "kill" => Some(&["crash-test", "--memory-backed"]),
        "kill-on-disk" => Some(&["crash-test"]),
        "power-cut" => Some(&["crash-test", "--power-cut"]),
        _ => None,
    };
    let (package, binary) = match crash_test {
        Some(_) => ("velella-cli", "velella"),
        None => ("velella-reliability", "reliability"),
    };
    let mut command = Command::new(release(root, package, binary)?);
    match crash_test {
        Some(words) => command.args(words),
        None => command.arg(&asked.what),
    };
    command.args(["--minutes", &minutes, "--seed", &seed]);
    if !asked.again {
        command.arg("--ledger").arg(root.join(LEDGER));
    }
    command.current_dir(root);
    Ok(command)
}

/// Builds a binary of the release, and says where it is.
fn release(root: &Path, package: &str, binary: &str) -> Result<PathBuf, String> {
    let mut build = Command::new(models::cargo());
    build.current_dir(root);
    build.args(["build", "--release", "--package", package, "--bin", binary]);
    succeed(&mut build)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root.join("target"));
    Ok(target.join("release").join(binary))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let status = command.status();
    match status.map_err(|error| format!("cannot start {command:?}: {error}"))? {
        status if status.success() => Ok(()),
        _ => Err(format!("{command:?} failed")),
    }
}

/// What libFuzzer needs of the compiler: a counter for each edge, and what comparisons compare.
const INSTRUMENTED: &str = "--cfg fuzzing -Zsanitizer=address -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// Runs libFuzzer on a target, from the corpus of the repository; what it adds stays in `target`.
fn fuzz(root: &Path, target: &str, asked: &Asked, seed: u64) -> Result<(), String> {
    let host = crate::check::host()?;
    let built = root.join("target/soak");
    let mut build = crate::check::nightly();
    build
        .current_dir(root)
        .args(["build", "--release", "--target", &host]);
    build.args(["--manifest-path", "fuzz/Cargo.toml", "--bin", target]);
    build
        .env("RUSTFLAGS", INSTRUMENTED)
        .env("CARGO_TARGET_DIR", &built);
    succeed(&mut build)?;
    let found = built.join("found").join(target);
    std::fs::create_dir_all(&found)
        .map_err(|error| format!("cannot make {}: {error}", found.display()))?;
    let mut command = Command::new(built.join(&host).join("release").join(target));
    command
        .arg(&found)
        .arg(root.join("fuzz/corpus").join(target));
    command.arg(format!("-max_total_time={}", asked.minutes * 60));
    command.args([
        &format!("-seed={seed}"),
        "-timeout=10",
        "-rss_limit_mb=2048",
    ]);
    command.arg(format!("-artifact_prefix={}/", built.display()));
    // Its lines go to standard error.
    let mut through = Command::new("sh");
    through.args(["-c", "exec \"$0\" \"$@\" 2>&1"]);
    through.arg(command.get_program()).args(command.get_args());
    let mut done = None;
    let limit = Duration::from_secs(asked.minutes * 60) + GRACE;
    let ended = supervise_lines(&mut through, limit, &mut |line| {
        done = done.or(runs_in(line))
    })?;
    let stopped = format!("libFuzzer stopped at `{target}`: its input lies in {built:?}");
    let lost = if ended == Ended::Passed {
        "0"
    } else {
        stopped.as_str()
    };
    let (runs, seconds) = done.unwrap_or_default();
    let line = Line {
        goal: "G7",
        what: &asked.what,
        minutes: asked.minutes,
        seed,
        runs,
        seconds,
        lost,
    };
    if !asked.again {
        line.keep(root)?;
    }
    match ended {
        Ended::Passed => Ok(()),
        _ => Err(stopped),
    }
}

/// Runs and seconds in libFuzzer's last line: `Done 163840 runs in 61 second(s)`.
fn runs_in(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("Done ")?.split(' ');
    let runs = words.next()?.parse().ok()?;
    let seconds = words.nth(2)?.parse().ok()?;
    Some((runs, seconds))
}

/// A line of the ledger for an attack that could not write one.
struct Line<'a> {
    goal: &'a str,
    what: &'a str,
    minutes: u64,
    seed: u64,
    runs: u64,
    seconds: u64,
    /// `0`, or what went wrong.
    lost: &'a str,
}

impl Line<'_> {
    /// Its text, at `date` and `commit`.
    fn text(&self, date: &str, commit: &str) -> String {
        let Line {
            goal,
            what,
            minutes,
            seed,
            runs,
            seconds,
            lost,
        } = self;
        let verdict = if *lost == "0" { "held" } else { "FAILED" };
        format!(
            "{date}\t{commit}\t{goal}\t{what}\t{seed}\t1\texecutions\t{runs}\t{lost}\t\
             {verdict}\t{seconds}\t\
             cargo xtask soak {what} --minutes {minutes} --seed {seed} --again\n"
        )
    }

    fn keep(&self, root: &Path) -> Result<(), String> {
        use std::io::Write;
        let path = root.join(LEDGER);
        let text = self.text(&now(), &commit(root));
        let opened = std::fs::OpenOptions::new().append(true).open(&path);
        opened
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

fn commit(root: &Path) -> String {
    let output = Command::new("git")
        .current_dir(root)
        .args(["rev-parse", "--short=12", "HEAD"])
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_else(|_| "unknown".to_owned())
}

/// The time in UTC, to the second, as `date` says it.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    date(since.map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a date (civil from days: H. Hinnant).
fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    const TEXT: &str = "date\tcommit\tgoal\tcampaign\tseed_from\truns\tunit\n\
        d\tc\tG1\tkill\t3000000\t40\tx\nd\tc\tG2\tpower-loss\t7000000\t2500000\tx\n";

    #[test]
    fn no_seed_is_taken_twice() {
        let used = used(TEXT).unwrap();
        assert_eq!(used.len(), 2);
        assert_eq!(fresh(&used), 10_000_000, "behind 9,500,000");
        assert_eq!(fresh(&[]), STRIDE);
        assert_eq!(unused(&used, 3_000_040), Ok(3_000_040));
        let refused = unused(&used, 3_000_039).unwrap_err();
        assert!(
            refused.contains("3000000") && refused.contains("10000000"),
            "{refused}"
        );
        assert!(unused(&used, 7_000_000).is_err());
    }

    #[test]
    fn a_line_names_its_seeds_however_the_attack_ended() {
        for (lost, verdict) in [("0", "held"), ("it stopped", "FAILED")] {
            let line = Line {
                goal: "G7",
                what: "fuzz:block",
                minutes: 2,
                seed: 12_000_000,
                runs: 77,
                seconds: 120,
                lost,
            };
            let text = line.text("d", "c");
            assert!(text.contains(verdict) && text.contains("\t77\t"), "{text}");
            assert_eq!(used(&format!("header\n{text}")), Ok(vec![(12_000_000, 1)]));
        }
        assert!(
            used("header\nd\tc\tG1\tkill\tx\ty\tz\n").is_err(),
            "not: none was used"
        );
    }

    #[test]
    fn what_means_nothing_is_refused_with_what_there_is() {
        let asked = parse(&words("kill --minutes 60 --seed 5")).unwrap();
        assert_eq!(
            (asked.minutes, asked.seed, asked.again),
            (60, Some(5), false)
        );
        assert_eq!(parse(&words("fuzz:block")).unwrap().what, "fuzz:block");
        for wrong in [
            "",
            "kill --minutes 61",
            "kill --minutes 0",
            "kill --minutes",
            "nothing",
            "fuzz:",
            "kill faults",
            "kill --again",
            "fuzz:TARGET --minutes x",
        ] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
        assert!(parse(&words("nothing")).unwrap_err().contains("power-loss"));
    }

    #[test]
    fn libfuzzer_and_the_calendar_are_read_rightly() {
        assert_eq!(
            runs_in("Done 163840 runs in 61 second(s)"),
            Some((163_840, 61))
        );
        assert_eq!(runs_in("#163840 DONE cov: 12"), None);
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_795_262_405), "2026-11-21T12:00:05Z");
    }
}
