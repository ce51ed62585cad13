//! What all databases of a campaign share: where they lie, how far it is, when it ends.
//!
//! Threads: one per job works through seeds; the figures are behind a lock. Tests: below;
//! `tests/crash_test.rs`.

use super::judge::{Fault, Violation};
use super::tally::{OPENING_GOAL, Tally};
use crate::scratch;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Where memory looks like a directory.
pub(super) const MEMORY_DIR: &str = "/dev/shm";
/// What a child may take until it has opened its database and told all that it read there, and to
/// close it; longer than that, it hangs.
pub(super) const CHILD_LIMIT: Duration = Duration::from_secs(30);
/// What an opening itself may take in memory, where it waits for no device: what is promised. Time
/// in which the whole machine stood still does not count.
const OPENING_LIMIT_MEMORY: Duration = OPENING_GOAL;
/// And on a disk: opening syncs several times, and a device that others write to as well, the
/// other jobs of this test among them, may hold each of these syncs up for seconds.
const OPENING_LIMIT_DISK: Duration = Duration::from_secs(30);

/// When a campaign ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    Runs(u64),
    Time(Duration),
}

/// A campaign that runs.
#[derive(Debug)]
pub(super) struct Campaign {
    pub(super) scratch: Scratch,
    pub(super) keep: bool,
    pub(super) sabotage: Option<String>,
    until: Until,
    started: Instant,
    next_seed: AtomicU64,
    failed: AtomicBool,
    opening_limit: Duration,
    tally: Mutex<Tally>,
    bar: ProgressBar,
}

/// A promise broken, and where.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) violation: Violation,
    pub(super) seed: u64,
    pub(super) incarnation: u32,
    /// Kills after which this database would have been given up.
    pub(super) kills: u64,
    pub(super) dir: PathBuf,
}

impl Campaign {
    pub(super) fn new(
        scratch: Scratch,
        seed_from: u64,
        until: Until,
        keep: bool,
        sabotage: Option<String>,
        bar: ProgressBar,
    ) -> Self {
        Campaign {
            opening_limit: opening_limit(scratch.path()),
            scratch,
            keep,
            sabotage,
            until,
            started: Instant::now(),
            next_seed: AtomicU64::new(seed_from),
            failed: AtomicBool::new(false),
            tally: Mutex::new(Tally::default()),
            bar,
        }
    }

    /// The seed of the next database; `None`: that was all.
    pub(super) fn next_seed(&self) -> Option<u64> {
        // Relaxed: each number is given out once, and that is all.
        let next = || self.next_seed.fetch_add(1, Ordering::Relaxed);
        (!self.is_over()).then(next)
    }

    /// Whether enough was done, or something failed.
    pub(super) fn is_over(&self) -> bool {
        // Relaxed: a late look costs one run.
        if self.failed.load(Ordering::Relaxed) {
            return true;
        }
        match self.until {
            Until::Runs(runs) => {
                let tally = self.tally();
                tally.kills.max(tally.cuts) >= runs
            }
            Until::Time(time) => self.started.elapsed() >= time,
        }
    }

    /// Something failed: all jobs end.
    pub(super) fn fail(&self) {
        // Relaxed: as above.
        self.failed.store(true, Ordering::Relaxed);
    }

    /// The figures, to be added to.
    pub(super) fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(|held| held.into_inner())
    }

    /// Counts an opening.
    ///
    /// # Errors
    /// It took longer than it may.
    pub(super) fn opened(&self, opening: Duration, verified: bool) -> Result<(), Violation> {
        self.tally().opened(opening, verified);
        in_time(opening, self.opening_limit)
    }

    /// Moves the bar.
    pub(super) fn show(&self) {
        let runs = {
            let tally = self.tally();
            tally.kills.max(tally.cuts)
        };
        match self.until {
            Until::Runs(_) => self.bar.set_position(runs),
            Until::Time(_) => {
                let seconds = self.started.elapsed().as_secs();
                self.bar.set_position(seconds);
                self.bar.set_message(format!("{runs} runs"));
            }
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Takes the figures, at the end.
    pub(super) fn take_tally(&self) -> Tally {
        self.bar.finish_and_clear();
        std::mem::take(&mut *self.tally())
    }
}

/// What an opening of a database in `dir` may take.
fn opening_limit(dir: &Path) -> Duration {
    if dir.starts_with(MEMORY_DIR) {
        OPENING_LIMIT_MEMORY
    } else {
        OPENING_LIMIT_DISK
    }
}

fn in_time(opening: Duration, limit: Duration) -> Result<(), Violation> {
    if opening <= limit {
        return Ok(());
    }
    let (took, limit) = (opening.as_secs_f64(), limit.as_secs());
    let text = format!("opening took {took:.1} s; it may take {limit} s");
    Err(Violation::new(Fault::Child, text))
}

/// A directory of our own, removed when dropped unless it is to be kept.
#[derive(Debug)]
pub(super) struct Scratch {
    dir: PathBuf,
    pub(super) oracles: PathBuf,
    is_kept: AtomicBool,
}

impl Scratch {
    /// Makes one in `parent`, and one for the oracles in memory if there is such.
    pub(super) fn new(parent: &Path) -> std::io::Result<Self> {
        let dir = scratch::create(parent, "velella-crash-test")?;
        let memory = Path::new(MEMORY_DIR);
        let beside = match memory.is_dir() {
            true => memory,
            false => &dir,
        };
        let oracles = scratch::create(beside, "velella-crash-test-oracles")?;
        Ok(Scratch {
            dir,
            oracles,
            is_kept: AtomicBool::new(false),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    /// Leaves the directory there.
    pub(super) fn keep(&self) {
        // Relaxed: read by the thread that drops it, which joined this one.
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.oracles);
        // Relaxed: as above.
        if !self.is_kept.load(Ordering::Relaxed) {
            let _ = std::fs::remove_dir_all(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(parent: &str, seconds: u64) -> Result<(), String> {
        let limit = opening_limit(&Path::new(parent).join("a-database"));
        let verdict = in_time(Duration::from_secs(seconds), limit);
        verdict.map_err(|violation| violation.text)
    }

    #[test]
    fn an_opening_may_take_five_seconds_in_memory_and_thirty_on_a_disk() {
        assert_eq!(verdict(MEMORY_DIR, 5), Ok(()));
        let told = verdict(MEMORY_DIR, 6).unwrap_err();
        assert_eq!(told, "opening took 6.0 s; it may take 5 s");
        assert_eq!(verdict("/var/tmp", 30), Ok(()));
        let told = verdict("/var/tmp", 31).unwrap_err();
        assert_eq!(told, "opening took 31.0 s; it may take 30 s");
    }
}
