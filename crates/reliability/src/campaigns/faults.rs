//! `faults`: each call of a workload to the file system fails once, in every way it can.
//!
//! Source: SQLite's I/O-error loop; fsync errors that lose pages as in ATC '20.
//!
//! F1. Seed s fails call k = (s - 1) mod [`SPAN`] + 1 of workload (s - 1) / [`SPAN`], once for each
//!     fault that such a call can meet; a k beyond the workload's calls does nothing.
//! F2. In pairs: two calls drawn from the seed fail, of a workload drawn too.
//! F3. Every operation succeeds or says why not; what it answers is right; afterwards, when all is
//!     well again, the database opens with all that was promised.
//! F4. What a failed sync takes from the page cache, and which bit a read has wrong, is drawn from
//!     the seed: the same call of the same workload does not always lose the same.
//!
//! Tests: `tests/faults.rs`.

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

/// Most calls of one workload.
pub const SPAN: u64 = 1_000;
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
        if self.pairs { PAIRS } else { WORKLOADS * SPAN }
    }

    fn run(&self, seed: u64) -> Result<Tally, String> {
        let mut chance = Seed::silent(seed);
        if self.pairs {
            let number = chance.below(1 << 32);
            let faults: Vec<_> = (0..2)
                .map(|_| (1 + chance.below(800), *chance.pick(&FAULTS)))
                .collect();
            return alone(|simulation| attack(number, seed, &faults, self.lies, simulation));
        }
        let number = seed.saturating_sub(1);
        let (workload, index) = (number / SPAN, usize::try_from(number % SPAN).unwrap_or(0));
        let calls = self.calls_of(workload)?;
        let mut tally = Tally::new();
        let Some(call) = calls.get(index) else {
            return Ok(tally);
        };
        for fault in FAULTS.into_iter().filter(|fault| can_meet(*call, *fault)) {
            let faults = [(index as u64 + 1, fault)];
            let more = alone(|simulation| attack(workload, seed, &faults, self.lies, simulation))
                .map_err(|what| format!("{} meets {fault:?}: {what}", call.as_str()))?;
            tally.merge(&more);
        }
        Ok(tally)
    }
}

impl Faults {
    /// The control.
    #[must_use]
    pub fn on_a_device_that_lies() -> Faults {
        Faults {
            lies: true,
            ..Faults::default()
        }
    }

    /// Two at a time.
    #[must_use]
    pub fn in_pairs() -> Faults {
        Faults {
            pairs: true,
            ..Faults::default()
        }
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
        let calls = Arc::new(alone(|simulation| {
            let trace = TraceFs::new(Arc::new(MemFs::new()), "/".as_ref());
            let mut history = History::default();
            work(number, Arc::new(trace.clone()), simulation, &mut history).2?;
            let named = |line: String| {
                let name = line.split(' ').next().unwrap_or_default().to_owned();
                Call::ALL.into_iter().find(|call| call.as_str() == name)
            };
            Ok(trace.take().into_iter().filter_map(named).collect())
        })?);
        known.insert(number, Arc::clone(&calls));
        Ok(calls)
    }
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
