//! `faults`: each call of a workload to the file system fails once, in every way it can.
//!
//! Source: SQLite's I/O-error loop; fsync errors that lose pages as in ATC '20.
//!
//! F1. A session of `WORKLOADS` times `STRIDE` seeds, from seed 1 on, is of as many workloads
//!     and fails every call of each, however many there are: one at a time, once for each fault
//!     that such a call can meet. Seeds take turns over the workloads; each fails one call and
//!     those that are a multiple of `STRIDE` after it. A part of a session is spread over all
//!     workloads and all of their calls.
//! F2. In pairs: two calls fail, drawn from all calls of a workload that is drawn too.
//! F3. Every operation succeeds or says why not; what it answers is right; afterwards, when all is
//!     well again, the database opens with all that was promised.
//! F4. What a failed sync takes from the page cache, and which bit a read has wrong, is drawn from
//!     the seed: the same call of the same workload does not always lose the same.
//!
//! Tests: below; `tests/faults.rs`.

use crate::campaign::{Campaign, Tally};
use crate::sim::alone;
use crate::sim::history::History;
use crate::sim::judge::Judge;
use crate::sim::operation::{Operation, Taste};
use crate::sim::points::Image;
use crate::sim::setting::Setting;
use crate::sim::store::{Store, Trouble};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation as Call, TraceFs, Vfs};
use velella::{Error, ErrorKind};
use velella_sync::pool::prefer;
use velella_sync::simulation::Simulation;
use velella_testkit::Seed;

/// Seeds of one workload, and how far the calls lie apart that one of them fails.
const STRIDE: u64 = 1_000;
/// From one seed of a workload to the next, the first call to fail moves by this; it has no
/// divisor in common with `STRIDE`, so each comes once.
const STEP: u64 = 389;
/// Workloads of one session.
const WORKLOADS: u64 = 20;
/// Pairs of one session.
const PAIRS: u64 = 10_000;
/// Operations of a workload.
const OPERATIONS: usize = 100;

const FAULTS: [Fault; 6] = [
    Fault::Io,
    Fault::NoSpace,
    Fault::Interrupted,
    Fault::TooManyFiles,
    Fault::Short,
    Fault::Flip,
];

/// Every call fails once.
#[derive(Debug, Default)]
pub struct Faults {
    /// A control: besides, every sync lies, and nobody tells the judge.
    lies: bool,
    /// Two calls of a run fail (F2).
    pairs: bool,
    /// The calls of the workloads met so far.
    calls: Mutex<BTreeMap<u64, Arc<Vec<Call>>>>,
}

impl Campaign for Faults {
    fn name(&self) -> &'static str {
        if self.pairs {
            "pairs-of-faults"
        } else {
            "faults"
        }
    }

    fn goal(&self) -> &'static str {
        "G3"
    }

    fn about(&self) -> &'static str {
        if self.pairs {
            return "two calls of a workload to the file system fail, each in some way";
        }
        "every call of a workload to the file system fails once, in every way it can"
    }

    fn unit(&self) -> &'static str {
        "faults"
    }

    fn usual_runs(&self) -> u64 {
        if self.pairs {
            PAIRS
        } else {
            WORKLOADS * STRIDE
        }
    }

    fn run(&self, seed: u64) -> Result<Tally, String> {
        if self.pairs {
            return self.two(seed);
        }
        let (workload, turn) = place(seed);
        let calls = self.calls_of(workload)?;
        let mut tally = Tally::new();
        for index in failing(turn, calls.len()) {
            let call = calls[index];
            for fault in FAULTS.into_iter().filter(|fault| can_meet(call, *fault)) {
                let faults = [(index as u64 + 1, fault)];
                let attack =
                    |simulation: &_| attack(workload, seed, &faults, self.lies, simulation);
                let more = alone(attack).map_err(|what| {
                    let call = call.as_str();
                    format!("call {} ({call}) meets {fault:?}: {what}", index + 1)
                })?;
                tally.merge(&more);
            }
        }
        Ok(tally)
    }
}

/// The workload of a seed, and which of the seeds of that workload it is (F1).
fn place(seed: u64) -> (u64, u64) {
    let number = seed.saturating_sub(1);
    let session = number / (WORKLOADS * STRIDE);
    let workload = session * WORKLOADS + number % WORKLOADS;
    (workload, number / WORKLOADS % STRIDE)
}

/// The calls, counted from 0, that fail at this turn of a workload with so many calls.
fn failing(turn: u64, calls: usize) -> impl Iterator<Item = usize> {
    let first = turn * STEP % STRIDE;
    let [first, stride] = [first, STRIDE].map(|calls| usize::try_from(calls).unwrap_or(usize::MAX));
    (first..calls).step_by(stride)
}

impl Faults {
    /// Two at a time.
    #[must_use]
    pub fn in_pairs() -> Faults {
        Faults {
            pairs: true,
            ..Faults::default()
        }
    }

    /// The control of either.
    #[must_use]
    pub fn on_a_device_that_lies(self) -> Faults {
        Faults { lies: true, ..self }
    }

    /// Two calls of a workload (F2). Hardly any is drawn twice, so its calls are not kept.
    fn two(&self, seed: u64) -> Result<Tally, String> {
        let mut chance = Seed::silent(seed);
        let number = chance.below(1 << 32);
        let calls = recorded(number)?.len() as u64;
        let faults = [(); 2].map(|()| (1 + chance.below(calls.max(1)), *chance.pick(&FAULTS)));
        alone(|simulation| attack(number, seed, &faults, self.lies, simulation))
            .map_err(|what| format!("of {calls} calls {faults:?}: {what}"))
    }

    /// The calls of workload `number`, when none fails.
    fn calls_of(&self, number: u64) -> Result<Arc<Vec<Call>>, String> {
        let mut known = self
            .calls
            .lock()
            .unwrap_or_else(|broken| broken.into_inner());
        if let Some(calls) = known.get(&number) {
            return Ok(Arc::clone(calls));
        }
        let calls = Arc::new(recorded(number)?);
        known.insert(number, Arc::clone(&calls));
        Ok(calls)
    }
}

/// What workload `number` asks of the file system when nothing fails.
fn recorded(number: u64) -> Result<Vec<Call>, String> {
    alone(|simulation| {
        let trace = TraceFs::new(Arc::new(MemFs::new()), "/".as_ref());
        let mut history = History::default();
        work(number, Arc::new(trace.clone()), simulation, &mut history).2?;
        let named = |line: String| {
            let name = line.split(' ').next().unwrap_or_default().to_owned();
            Call::ALL.into_iter().find(|call| call.as_str() == name)
        };
        Ok(trace.take().into_iter().filter_map(named).collect())
    })
}

/// Whether a call can meet a fault; a fault it cannot meet would be an `Io` again.
fn can_meet(call: Call, fault: Fault) -> bool {
    use Call::{Allocate, Append, Create, CreateDir, HardLink, Lock, Map, OpenRead, OpenWrite};
    use Call::{Read, ReadDir, Rename, Write};
    match fault {
        Fault::NoSpace => {
            call.is_sync()
                || matches!(
                    call,
                    Allocate | Append | Create | CreateDir | HardLink | Rename | Write
                )
        }
        Fault::TooManyFiles => {
            matches!(call, Create | OpenRead | OpenWrite | ReadDir | Lock | Map)
        }
        Fault::Short => matches!(call, Read | Write | Append),
        Fault::Flip => call == Read,
        _ => true,
    }
}

/// The operations of workload `number`.
fn operations(number: u64) -> (Setting, Vec<Operation>) {
    let mut seed = Seed::silent(number.wrapping_mul(77) + 5);
    let setting = if number == 0 {
        Setting::plain()
    } else {
        Setting::random(&mut seed)
    };
    let taste = Taste::random(&mut seed);
    let operations = (0..OPERATIONS).map(|_| Operation::random(&mut seed, &taste));
    (setting, operations.collect())
}

/// Does workload `number` as far as it gets; the store if it opened, whether there is a journal,
/// and what was wrong.
fn work(
    number: u64,
    fs: Arc<dyn Vfs>,
    simulation: &Simulation,
    history: &mut History,
) -> (Option<Store>, bool, Result<(), String>) {
    let (mut setting, operations) = operations(number);
    let mut store = match Store::open(fs, &setting) {
        Ok(store) => store,
        Err(error) if is_typed(&error) => return (None, true, Ok(())),
        Err(error) => return (None, true, Err(format!("opening: {error}"))),
    };
    for (round, operation) in operations.iter().enumerate() {
        if let Operation::Pass(ms) = operation {
            simulation.pass(*ms);
        }
        prefer(round % setting.lanes);
        let before = store.last();
        match store.perform(operation, history) {
            // What was promised before a reopening that failed, the old setting promised.
            Ok(()) => {
                if let Operation::Reopen(next) = operation {
                    setting = (**next).clone();
                }
            }
            Err(Trouble::Refused(error)) if is_typed(&error) => {
                if store.last() > before || matches!(operation, Operation::Reopen(_)) {
                    break;
                }
            }
            Err(trouble) => {
                let journal = setting.has_journal();
                return (
                    Some(store),
                    journal,
                    Err(format!("{operation:?}: {trouble}")),
                );
            }
        }
    }
    (Some(store), setting.has_journal(), Ok(()))
}

/// One run with these calls failing.
fn attack(
    workload: u64,
    seed: u64,
    faults: &[(u64, Fault)],
    lies: bool,
    simulation: &Simulation,
) -> Result<Tally, String> {
    let mem = MemFs::new();
    mem.set_syncs_lie(lies);
    let device = Seed::silent(seed).fork(1).below(u64::MAX);
    let faulty = FaultFs::over_device(&mem, device);
    for (call, fault) in faults {
        faulty.inject(Rule::every(*fault).nth(*call));
    }
    let mut history = History::default();
    let (store, journal, done) = work(workload, Arc::new(faulty.clone()), simulation, &mut history);
    done?;
    let mut tally = Tally::new();
    tally.add("faults", faulty.fired());
    faulty.heal();
    let failed_sync = faulty.lost_pages();
    let (durable, last) = match &store {
        Some(store) => (store.db().durable().0, store.last()),
        None => (0, 0),
    };
    let mut judge = Judge {
        seed: Seed::silent(seed),
        tally,
        depth: 0,
        go_on_one_in: 4,
    };
    let kept = history.last_written();
    for mode in [CrashMode::KeepAll, CrashMode::Random] {
        let image = Image {
            fs: mem.image(seed, mode),
            mode,
            call: (0, "the end"),
            durable: durable.min(kept),
            kept: if journal && !failed_sync {
                kept
            } else {
                durable.min(kept)
            },
            last,
            failed: failed_sync,
            lied: false,
        };
        judge.judge(image, &history)?;
    }
    drop(mem.crash(0, CrashMode::Strict));
    drop(store);
    Ok(judge.tally)
}

fn is_typed(error: &Error) -> bool {
    use ErrorKind::{Closed, Corruption, Io, NoSpace, NotFound, OutcomeUnknown, ReadOnly};
    matches!(
        error.kind(),
        Closed | Corruption | Io | NoSpace | NotFound | OutcomeUnknown | ReadOnly
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_fails_each_call_of_its_workloads_once() {
        let calls = |workload: u64| [1, 999, 1_000, 1_001, 4_321][(workload % 5) as usize];
        let mut failed = BTreeMap::<_, Vec<_>>::new();
        for seed in WORKLOADS * STRIDE + 1..=2 * WORKLOADS * STRIDE {
            let (workload, turn) = place(seed);
            let more = failing(turn, calls(workload));
            failed.entry(workload).or_default().extend(more);
        }
        assert_eq!(failed.len() as u64, WORKLOADS);
        for (workload, mut failed) in failed {
            assert_eq!(workload / WORKLOADS, 1);
            failed.sort_unstable();
            assert_eq!(failed, (0..calls(workload)).collect::<Vec<_>>());
        }
    }

    /// Otherwise the test above would say nothing of the campaign.
    #[test]
    fn there_are_workloads_with_more_calls_than_seeds() {
        let counts = (0..WORKLOADS).map(|number| recorded(number).unwrap().len() as u64);
        assert!(counts.filter(|calls| *calls > STRIDE).count() > 5);
    }
}
