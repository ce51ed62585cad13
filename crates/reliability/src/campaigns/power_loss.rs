//! `power-loss` and `power-loss-in-recovery`: random workloads, crashed at any call.
//!
//! One run is one workload on one thread, deterministic as the head of `sim.rs` says; crash images
//! are taken at calls to the file system anywhere in it, during opening, flush, compaction,
//! manifest rotation and journal moves, and between operations; each is judged (`sim/judge.rs`).
//! Of eight runs one has a sync that fails and one has syncs that lie.
//!
//! L1. `power-loss-in-recovery` crashes each image twice or three times more while it is opened.
//! L2. A database may refuse only what `docs/consistency.md` says a failed sync makes it refuse,
//!     and only once that sync has failed. It never refuses a read.
//!
//! Tests: below, and `tests/power_loss.rs`.

use crate::campaign::{Campaign, Tally};
use crate::sim::alone;
use crate::sim::history::History;
use crate::sim::judge::Judge;
use crate::sim::operation::{Operation, Taste};
use crate::sim::points::{Points, Sync, When};
use crate::sim::setting::Setting;
use crate::sim::store::{Store, Trouble};
use std::sync::Arc;
use velella::vfs::{MemFs, Vfs};
use velella::{Error, ErrorKind};
use velella_sync::pool::prefer;
use velella_sync::simulation::Simulation;
use velella_testkit::Seed;

/// Most images judged of one run.
const IMAGES_MAX: usize = 60;

/// Power is lost at any call of a random workload.
#[derive(Debug, Clone, Copy, Default)]
pub struct PowerLoss {
    /// Crash again during recovery.
    pub in_recovery: bool,
    /// A control: every sync lies, and nobody tells the judge.
    pub lies: bool,
}

impl Campaign for PowerLoss {
    fn name(&self) -> &'static str {
        if self.in_recovery {
            "power-loss-in-recovery"
        } else {
            "power-loss"
        }
    }

    fn goal(&self) -> &'static str {
        if self.in_recovery { "G2b" } else { "G2" }
    }

    fn about(&self) -> &'static str {
        if self.in_recovery {
            "as power-loss, and again two or three times while recovering"
        } else {
            "random workloads in memory, crashed at any call: a prefix with all that was promised"
        }
    }

    fn unit(&self) -> &'static str {
        if self.in_recovery {
            "crashes in recovery"
        } else {
            "crash images"
        }
    }

    fn usual_runs(&self) -> u64 {
        if self.in_recovery { 100 } else { 1_000 }
    }

    fn run(&self, seed: u64) -> Result<Tally, String> {
        alone(|simulation| workload(seed, simulation, *self))
    }
}

fn workload(number: u64, simulation: &Simulation, how: PowerLoss) -> Result<Tally, String> {
    let mut seed = Seed::silent(number);
    let sync = match seed.below(8) {
        _ if how.lies => Sync::LiesInSecret(1),
        0 => Sync::Fails(1 + seed.below(100)),
        1 => Sync::Lies(1 + seed.below(100)),
        _ => Sync::Honest,
    };
    let mem = MemFs::new();
    let often = When::OneIn(*seed.pick(&[3, 6, 12]));
    let (fs, points) = Points::over(&mem, Seed::silent(seed.below(1 << 40)), often, sync);
    let mut history = History::default();
    let outcome = play(&mut seed, simulation, &fs, &points, &mut history);
    points.promise(None, 0, false);
    match outcome {
        Err(stop) if excused(&stop, sync, points.syncs()) => {}
        outcome => outcome.map_err(|stop| format!("{sync:?}: {}", stop.trouble))?,
    }
    let mut images = points.take();
    while images.len() > IMAGES_MAX {
        images.swap_remove(seed.index(images.len()));
    }
    let mut judge = Judge {
        depth: if how.in_recovery {
            2 + seed.below(2)
        } else {
            0
        },
        seed,
        go_on_one_in: 1,
        tally: Tally::new(),
    };
    for image in images {
        judge
            .judge(image, &history)
            .map_err(|what| format!("{sync:?}, {what}"))?;
    }
    Ok(judge.tally)
}

/// Why a workload ended early.
#[derive(Debug)]
struct Stop {
    trouble: Trouble,
    /// It had only read.
    reads: bool,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop {
            trouble: error.into(),
            reads: false,
        }
    }
}

/// Whether the sync that failed, if one has of so many, explains why a workload ended (L2).
fn excused(stop: &Stop, sync: Sync, syncs: u64) -> bool {
    use ErrorKind::{Io, OutcomeUnknown, ReadOnly};
    let (Sync::Fails(nth), Trouble::Refused(error)) = (sync, &stop.trouble) else {
        return false;
    };
    // The first to meet it says so itself; the next, that the database is read-only.
    let is_allowed = matches!(error.kind(), Io | OutcomeUnknown | ReadOnly);
    syncs >= nth && !stop.reads && is_allowed
}

/// The workload itself; its images stay with `points`.
fn play(
    seed: &mut Seed,
    simulation: &Simulation,
    fs: &Arc<dyn Vfs>,
    points: &Points,
    history: &mut History,
) -> Result<(), Stop> {
    let mut setting = Setting::random(seed);
    let mut store = Store::open(Arc::clone(fs), &setting)?;
    let taste = Taste::random(seed);
    for _ in 0..40 + seed.below(100) {
        let operation = Operation::random(seed, &taste);
        points.promise(Some(store.db()), store.last(), operation.is_structural());
        if seed.one_in(8) {
            points.now();
        }
        match &operation {
            Operation::Pass(ms) => simulation.pass(*ms),
            Operation::Reopen(next) => setting = (**next).clone(),
            _ => {}
        }
        prefer(seed.index(setting.lanes));
        let done = store.perform(&operation, history);
        if let Err(trouble) = done {
            points.now();
            let reads = matches!(operation, Operation::Read | Operation::Snapshot);
            return Err(Stop { trouble, reads });
        }
    }
    points.promise(Some(store.db()), store.last(), false);
    points.now();
    store.db().close()?;
    points.now();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop(kind: ErrorKind, reads: bool) -> Stop {
        let error = Error::new(kind, "write", "a sync failed");
        Stop {
            reads,
            ..Stop::from(error)
        }
    }

    #[test]
    fn a_failed_sync_excuses_what_it_explains_once_it_has_failed() {
        use ErrorKind::{Closed, Corruption, Io, NoSpace, NotFound, OutcomeUnknown, ReadOnly};
        let fails = Sync::Fails(5);
        for kind in [Io, OutcomeUnknown, ReadOnly] {
            assert!(excused(&stop(kind, false), fails, 5), "{kind:?}");
            assert!(excused(&stop(kind, false), fails, 9), "{kind:?}");
            assert!(
                !excused(&stop(kind, false), fails, 4),
                "too early, {kind:?}"
            );
            assert!(!excused(&stop(kind, true), fails, 9), "a read, {kind:?}");
            for sync in [Sync::Honest, Sync::Lies(5), Sync::LiesInSecret(5)] {
                assert!(!excused(&stop(kind, false), sync, 9), "{sync:?}");
            }
        }
        for kind in [Closed, Corruption, NoSpace, NotFound] {
            assert!(!excused(&stop(kind, false), fails, 9), "{kind:?}");
        }
        let wrong = Stop {
            trouble: Trouble::Wrong("an old value".to_owned()),
            reads: false,
        };
        assert!(!excused(&wrong, fails, 9));
    }
}
