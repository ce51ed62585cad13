//! `velella crash-test`: real processes that are killed, real file systems whose power is cut.
//!
//! Source: RocksDB's `db_crashtest.py` and its expected-state oracle; the reference copies of a
//! disk image stand for power cuts.
//!
//! Reading order: `operation` (what is done), `oracle` (what is noted), `child` and `load` (the
//! process that dies), `life` (the process that kills), `judge` (what must hold).
//!
//! T1. A promise that was broken is told, and with `--keep` its directory left, before anything is
//!     written that could fail: the report, the ledger.
//!
//! Threads: `--jobs` of them, one database each; one where power is cut. Tests: below, beside the
//! modules, and in `tests/crash_test.rs`, where each kind of fault is put in and must be found.

mod awake;
mod medium;
mod random;
mod key;
mod settings;
mod operation;
mod oracle;
mod plan;
mod watch;
mod state;
mod history;
mod judge;
mod tally;
mod campaign;
mod process;
mod life;
mod rig;
mod power;
mod load;
pub(crate) mod child;

use crate::failure::{Failure, say};
use crate::ledger::Entry;
use crate::output::Output;
use crate::progress;
use campaign::{Broken, Campaign, MEMORY_DIR, Scratch, Until};
use clap::Args;
use judge::Fault;
use medium::Medium;
use rig::{FileSystem, Rig};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use tally::{Failed, Report};

/// Arguments of `crash-test`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella crash-test                           1,000 kills, in the directory for temporary files
  velella crash-test --memory-backed --minutes 10
  velella crash-test --seed 42 --kills 30 --jobs 1 --keep
  velella crash-test --power-cut --kills 60         (as root)

A child opens a database, and threads of it write: puts, deletions, batches, read-modify-writes,
counters, expiring and large values, flushes, compactions, keyspaces that come and go; each write
in a durability class of its own. Each operation is announced before it begins and acknowledged
after it returned, in a mapped file outside the child. The child is killed with SIGKILL: at a
random moment, at a chosen call to the file system, or while it recovers from the kill before. The
next child must open the database within 30 s and find every acknowledged write, of the
unacknowledged ones whole writes only, each value as it was announced, counters as the sums of what
was added; and must write on.

Each database has a seed, which decides its settings, its operations and its kills; not how threads
interleave. What fails is printed with the command that repeats it.

--power-cut puts the database on a file system inside an image that lies on XFS or btrfs; a copy of
the image by reference is what a power cut at that moment leaves. It needs root, loop devices and
xfsprogs or btrfs-progs; where they are missing it says SKIPPED and ends with exit code 0.

Ended by a signal, it leaves its directories: velella-crash-test-PID in the place for its databases,
and velella-crash-test-oracles-PID in /dev/shm.

Exit codes: 0 no promise was broken, or skipped; 1 one was.")]
pub(crate) struct CrashTest {
    /// Kills, or power cuts
    #[arg(long, default_value_t = 1_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    kills: u64,
    /// Run for so long instead
    #[arg(long, value_name = "M", conflicts_with = "kills",
          value_parser = clap::value_parser!(u64).range(1..))]
    minutes: Option<u64>,
    /// Seed of the first database; the next has the next. Default: from the clock
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where to make the databases, which are removed afterwards. Default: for temporary files
    #[arg(long, short = 'd', value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Make them in memory, in /dev/shm
    #[arg(long, conflicts_with = "dir")]
    memory_backed: bool,
    /// Databases at the same time. Default: one for each processor in memory, four on a disk
    #[arg(long, value_name = "N", conflicts_with = "power_cut",
          value_parser = clap::value_parser!(u64).range(1..=64))]
    jobs: Option<u64>,
    /// When something fails, leave its directory, with a copy from before the last opening, or
    /// with --power-cut the images
    #[arg(long)]
    keep: bool,
    /// Cut the power instead of killing
    #[arg(long)]
    power_cut: bool,
    /// The file system whose power is cut
    #[arg(long, value_enum, default_value_t = FileSystem::Ext4, value_name = "NAME",
          requires = "power_cut")]
    file_system: FileSystem,
    /// Append a line with the figures to this file
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Put a fault in, to see it found
    #[arg(long, hide = true)]
    sabotage: Option<String>,
}

impl CrashTest {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let seed_from = self.seed.unwrap_or_else(|| state::now_ms() / 1000 * 1000);
        output.note(&format!("seed {seed_from}"));
        let parent = self.parent();
        let scratch = Scratch::new(&parent).map_err(|error| {
            Failure::Error(velella::Error::io("make a directory in", &parent, error))
        })?;
        let medium = Medium::of(scratch.path());
        if medium == Medium::Memory && !self.memory_backed {
            output.note(&format!(
                "{} is memory, and so the ledger has it; --dir names a place on a disk",
                parent.display()
            ));
        }
        let rig = match self.power_cut {
            false => None,
            true => match Rig::new(scratch.path(), self.file_system) {
                Ok(rig) => Some(rig),
                Err(why) => return skip(output, &why),
            },
        };
        let until = match self.minutes {
            Some(minutes) => Until::Time(Duration::from_secs(minutes * 60)),
            None => Until::Runs(self.kills),
        };
        let bar = match until {
            Until::Runs(runs) => progress::runs(runs, self.unit_plural()),
            Until::Time(time) => progress::seconds(time.as_secs()),
        };
        let sabotage = self.sabotage.clone();
        let campaign = Campaign::new(scratch, seed_from, until, self.keep, sabotage, bar);
        let broken = match rig {
            Some(rig) => cut_power(&campaign, rig),
            None => self.kill(&campaign),
        };
        let failed = broken.as_ref().map_or(Failed::default(), |broken| {
            let is_loss = matches!(
                broken.violation.fault,
                Fault::Lost | Fault::Torn | Fault::Hole | Fault::Sum
            );
            Failed {
                lost: u64::from(is_loss),
                wrong: u64::from(!is_loss),
            }
        });
        let time = campaign.elapsed();
        let report = campaign.take_tally().report(seed_from, time, failed);
        // First of all what was found: whatever fails below must not hide it.
        let told = broken.map(|broken| self.tell(&campaign, &broken, output.json));
        let noted = self.note_in_ledger(&report, medium);
        let printed = output.result(&report, |out| report.print(out));
        let Some(told) = told else {
            return noted.and(printed);
        };
        for failed in [noted.err(), printed.err()].into_iter().flatten() {
            failed.report(output.json);
        }
        Err(told)
    }

    fn parent(&self) -> PathBuf {
        match (&self.dir, self.memory_backed) {
            (Some(dir), _) => dir.clone(),
            (None, true) => PathBuf::from(MEMORY_DIR),
            (None, false) => std::env::temp_dir(),
        }
    }

    fn unit_plural(&self) -> &'static str {
        if self.power_cut {
            "power cuts"
        } else {
            "kills"
        }
    }

    /// Works through seeds in some threads; the first promise that was broken.
    fn kill(&self, campaign: &Campaign) -> Option<Box<Broken>> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // A disk makes children wait; others may work meanwhile.
        let each = if self.memory_backed { 1 } else { 4 };
        let jobs = self.jobs.unwrap_or(processors as u64 * each);
        let first = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(seed) = campaign.next_seed() {
                        if let Err(broken) = life::live(campaign, seed) {
                            campaign.fail();
                            let mut first = first.lock().unwrap_or_else(|held| held.into_inner());
                            first.get_or_insert(broken);
                        }
                    }
                });
            }
        });
        first.into_inner().unwrap_or_else(|held| held.into_inner())
    }

    fn note_in_ledger(&self, report: &Report, medium: Medium) -> Result<(), Failure> {
        let Some(ledger) = &self.ledger else {
            return Ok(());
        };
        // What repeats the run: not into the ledger again.
        let mut words = Vec::new();
        let mut told = std::env::args_os().skip(1);
        while let Some(word) = told.next() {
            // A ledger is text; a name that is none is shown as near to it as can be.
            match word.to_string_lossy() {
                word if word == "--ledger" => drop(told.next()),
                word if word.starts_with("--ledger=") => {}
                word => words.push(word.into_owned()),
            }
        }
        if self.seed.is_none() {
            words.push(format!("--seed {}", report.seed_from));
        }
        let place = medium.as_str();
        let campaign = match (self.power_cut, self.file_system) {
            (false, _) => format!("kill -9, {place}"),
            (true, FileSystem::Ext4) => format!("power cut, ext4 {place}"),
            (true, FileSystem::Xfs) => format!("power cut, XFS {place}"),
        };
        let entry = Entry {
            goal: if self.power_cut { "G2d" } else { "G1" },
            campaign: &campaign,
            seed_from: report.seed_from,
            runs: report.kills.max(report.power_cuts),
            unit: "acknowledged writes",
            checked: report.checked(),
            lost: &(report.lost + report.wrong).to_string(),
            seconds: report.seconds,
            command: &format!("velella {}", words.join(" ")),
        };
        entry
            .append(ledger, state::now_ms())
            .map_err(|error| Failure::Error(velella::Error::io("append to", ledger, error)))
    }

    /// The command that makes the database of `seed` again.
    fn repeat(&self, seed: u64, kills: u64) -> String {
        let mut repeat = format!("velella crash-test --seed {seed} --kills {kills}");
        repeat += match (self.power_cut, self.file_system) {
            (false, _) => " --jobs 1 --keep",
            (true, FileSystem::Ext4) => " --keep --power-cut",
            (true, FileSystem::Xfs) => " --keep --power-cut --file-system xfs",
        };
        if self.memory_backed {
            repeat += " --memory-backed";
        }
        if let Some(dir) = &self.dir {
            repeat += &format!(" --dir {}", dir.display());
        }
        repeat
    }

    /// Says which promise was broken and how to see it again.
    fn tell(&self, campaign: &Campaign, broken: &Broken, as_json: bool) -> Failure {
        let fault = broken.violation.fault.as_str();
        let repeat = self.repeat(broken.seed, broken.kills);
        // Where power is cut the databases lie in images, which nobody mounts any more.
        let dir = match self.power_cut {
            false => broken.dir.as_path(),
            true => campaign.scratch.path(),
        };
        if self.keep {
            campaign.scratch.keep();
        }
        if as_json {
            let error = json!({"error": {
                "kind": fault,
                "message": broken.violation.text,
                "seed": broken.seed,
                "opening": broken.incarnation,
                "repeat": repeat,
                "dir": self.keep.then(|| dir.display().to_string()),
            }});
            say(&error.to_string());
            return Failure::Told(1);
        }
        say(&format!(
            "velella: a promise was broken ({fault}), seed {}, opening {}:\n  {}\nrepeat with\n  \
             {repeat}",
            broken.seed, broken.incarnation, broken.violation.text,
        ));
        if self.keep {
            say(&kept(dir, self.power_cut));
        }
        Failure::Told(1)
    }
}

/// Where what failed is.
fn kept(dir: &Path, power_cut: bool) -> String {
    let dir = dir.display();
    match power_cut {
        false => format!("kept: {dir}/db as it was opened, {dir}/db-before as it was left"),
        true => format!(
            "kept: {dir}/outer.img; the database is in disk.img in it, as it was left, and in the \
             cut-N.img with the greatest N, if there is one, as it was opened after the last power \
             cut"
        ),
    }
}

/// Cuts the power until the campaign is over; the first promise that was broken.
fn cut_power(campaign: &Campaign, mut rig: Rig) -> Option<Box<Broken>> {
    while let Some(seed) = campaign.next_seed() {
        if let Err(broken) = power::cut(campaign, &mut rig, seed) {
            return Some(broken);
        }
    }
    None
}

fn skip(output: &mut Output, why: &str) -> Result<(), Failure> {
    say(&format!("SKIPPED: no power can be cut here: {why}"));
    let skipped = json!({"skipped": why});
    output.result(&skipped, |out| writeln!(out, "skipped: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        test: CrashTest,
    }

    fn parsed(line: &str) -> Result<CrashTest, clap::Error> {
        let words = line.strip_prefix("velella ").unwrap_or(line).split(' ');
        Line::try_parse_from(words).map(|line| line.test)
    }

    #[test]
    fn the_command_that_repeats_is_read_as_what_it_repeats() {
        for flags in [
            "",
            "--jobs 3 --minutes 2",
            "--memory-backed",
            "--dir /var/tmp/x",
            "--power-cut",
            "--power-cut --file-system ext4 --memory-backed",
            "--power-cut --file-system xfs --dir /var/tmp/x",
        ] {
            let line = format!("crash-test {flags}");
            let asked = parsed(line.trim_end()).unwrap();
            let again = parsed(&asked.repeat(42, 7)).unwrap();
            assert_eq!((again.seed, again.kills, again.keep), (Some(42), 7, true));
            assert_eq!(again.power_cut, asked.power_cut, "{flags}");
            assert_eq!(again.file_system, asked.file_system, "{flags}");
            assert_eq!(again.memory_backed, asked.memory_backed, "{flags}");
            assert_eq!(again.dir, asked.dir, "{flags}");
            assert_eq!(again.jobs, (!asked.power_cut).then_some(1), "{flags}");
        }
    }

    #[test]
    fn jobs_of_power_cuts_are_refused() {
        let error = parsed("crash-test --power-cut --jobs 2").unwrap_err();
        assert!(error.to_string().contains("cannot be used with"), "{error}");
    }

    #[test]
    fn of_power_cuts_the_images_are_kept() {
        let dir = Path::new("/x");
        assert!(kept(dir, false).contains("/x/db-before"));
        let told = kept(dir, true);
        assert!(
            told.contains("/x/outer.img") && !told.contains("db-before"),
            "{told}"
        );
    }
}
