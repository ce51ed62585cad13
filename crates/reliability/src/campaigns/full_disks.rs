//! `full-disks`: a disk is full for a while, or descriptors run out, and then it is well again.
//!
//! `faults` fails one call; what lasts meets the second attempt, the pause, and whoever waits.
//!
//! F1. A workload runs into one to three shortages, each for some operations: the disk has room for
//!     a few blocks more; or some sorts of calls are refused, for room or for descriptors,
//!     everywhere or in files of one kind.
//! F2. While it lasts an operation succeeds or says what is short; a full disk refuses no reading.
//! F3. Once it is over and the longest pause has passed, nothing is refused: nobody has to open the
//!     database again, and one that could not be opened meanwhile opens and goes on.
//! F4. What a crash leaves, within a shortage and after it, holds what was promised.
//!
//! Tests: `tests/full_disks.rs`.

use crate::campaign::{Campaign, Tally};
use crate::sim::alone;
use crate::sim::history::History;
use crate::sim::judge::Judge;
use crate::sim::operation::{Operation, Taste};
use crate::sim::points::Image;
use crate::sim::setting::Setting;
use crate::sim::store::{Store, Trouble};
use std::sync::Arc;
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Operation as Call, lacks_descriptors};
use velella::{Durability, Error, ErrorKind};
use velella_sync::pool::prefer;
use velella_sync::simulation::Simulation;
use velella_sync::thread;
use velella_testkit::Seed;

/// Operations of a workload.
const OPERATIONS: u64 = 150;
/// Longer than any pause between two attempts of background work.
const PAUSE_MS: u64 = 6_000;

/// Where files of one kind are known by; all of them.
const PLACES: [&str; 7] = ["", "", ".sst", ".ext", "MANIFEST", ".seg", "journal"];

/// Files that need room to be written to. The journal has its own before it writes.
const WRITTEN: &[&str] = &[".sst", ".ext", ".large", "MANIFEST", "CURRENT"];

/// A disk is full for a while.
#[derive(Debug, Clone, Copy, Default)]
pub struct FullDisks {
    /// A control: the shortage stays although it is said to be over.
    pub stays: bool,
}

impl Campaign for FullDisks {
    fn name(&self) -> &'static str {
        "full-disks"
    }

    fn goal(&self) -> &'static str {
        "G3"
    }

    fn about(&self) -> &'static str {
        "a disk is full, or descriptors run out, for a while: nothing is lost, and it goes on"
    }

    fn unit(&self) -> &'static str {
        "shortages"
    }

    fn usual_runs(&self) -> u64 {
        1_000
    }

    fn run(&self, seed: u64) -> Result<Tally, String> {
        let mut seed = Seed::silent(seed);
        alone(|simulation| {
            let mut run = Run::new(&mut seed, self.stays)?;
            run.all(&mut seed, simulation)?;
            Ok(run.judge.tally)
        })
    }
}

/// One workload.
struct Run {
    mem: MemFs,
    disk: FaultFs,
    store: Store,
    setting: Setting,
    history: History,
    judge: Judge,
    /// What is short, if something is.
    short: Option<Fault>,
    stays: bool,
}

/// Whether the workload goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Goes,
    /// What was refused may have been done, or the database was closed.
    Ends,
}

impl Run {
    fn new(seed: &mut Seed, stays: bool) -> Result<Run, String> {
        let mem = MemFs::new();
        let disk = FaultFs::over_device(&mem, seed.below(u64::MAX));
        let setting = Setting::random(seed);
        let store = Store::open(Arc::new(disk.clone()), &setting);
        Ok(Run {
            mem,
            disk,
            store: store.map_err(|error| format!("opening: {error}"))?,
            setting,
            history: History::default(),
            judge: Judge {
                seed: seed.fork(1),
                tally: Tally::new(),
                depth: 0,
                go_on_one_in: 2,
            },
            short: None,
            stays,
        })
    }

    fn all(&mut self, seed: &mut Seed, simulation: &Simulation) -> Result<(), String> {
        let taste = Taste::random(seed);
        let mut left = 1 + seed.below(3);
        let mut turn = 5 + seed.below(40);
        for number in 0..OPERATIONS {
            if number == turn {
                match self.short {
                    Some(_) => self.end(simulation)?,
                    None if left > 0 => {
                        left -= 1;
                        self.begin(seed);
                    }
                    None => {}
                }
                turn += 1 + seed.below(30);
            }
            let operation = Operation::random(seed, &taste);
            if let Operation::Pass(ms) = operation {
                simulation.pass(ms);
            }
            prefer(seed.index(self.setting.lanes));
            let next = self.perform(&operation, simulation);
            if next.map_err(|what| format!("{operation:?}: {what}"))? == Next::Ends {
                break;
            }
        }
        self.end(simulation)?;
        let done = self.store.perform(&last_write(), &mut self.history);
        done.map_err(|trouble| format!("the last write: {trouble}"))?;
        self.crash()?;
        drop(self.mem.crash(0, CrashMode::Strict));
        Ok(())
    }

    /// Something is short from now on (F1).
    fn begin(&mut self, seed: &mut Seed) {
        use Call::{Allocate, Append, Create, CreateDir, HardLink, Lock, Map};
        use Call::{OpenRead, OpenWrite, ReadDir, Rename, Write};
        self.judge.tally.add("shortages", 1);
        if seed.one_in(3) {
            let left = seed.below(4) * 8_192;
            self.mem.set_space_max(Some(self.mem.space_used() + left));
            self.short = Some(Fault::NoSpace);
            return;
        }
        let (fault, calls): (_, &[Call]) = match seed.one_in(3) {
            false => (
                Fault::NoSpace,
                &[Allocate, Append, Create, CreateDir, HardLink, Rename, Write],
            ),
            true => (
                Fault::TooManyFiles,
                &[Create, OpenRead, OpenWrite, ReadDir, Lock, Map],
            ),
        };
        let place = *seed.pick(&PLACES);
        let is_whole = seed.one_in(2);
        for &call in calls {
            if !is_whole && seed.one_in(2) {
                continue;
            }
            let parts: Vec<&str> = match call {
                Call::Write => of_those(WRITTEN, place),
                _ => vec![place],
            };
            for part in parts {
                self.disk.inject(Rule::every(fault).of(call).on(part));
            }
        }
        self.short = Some(fault);
    }

    /// Nothing is short any more, and what waited for that may go on (F3, F4).
    fn end(&mut self, simulation: &Simulation) -> Result<(), String> {
        self.crash()?;
        if self.short.is_some() {
            self.recover(simulation);
            self.crash()?;
        }
        Ok(())
    }

    fn recover(&mut self, simulation: &Simulation) {
        self.short = None;
        if !self.stays {
            self.disk.heal();
            self.mem.set_space_max(None);
        }
        simulation.pass(PAUSE_MS);
    }

    fn perform(&mut self, operation: &Operation, simulation: &Simulation) -> Result<Next, String> {
        let (promised, _) = self.promises();
        let before = self.store.last();
        let error = match self.store.perform(operation, &mut self.history) {
            Ok(()) => {
                if let Operation::Reopen(setting) = operation {
                    self.setting = (**setting).clone();
                }
                return Ok(Next::Goes);
            }
            Err(Trouble::Refused(error)) if self.explains(&error) => error,
            Err(trouble) => return Err(trouble.to_string()),
        };
        self.judge.tally.add("refusals", 1);
        let reads = matches!(operation, Operation::Read | Operation::Snapshot);
        if reads && self.short == Some(Fault::NoSpace) {
            return Err(format!("a full disk refuses reading: {error}"));
        }
        if let Operation::Reopen(setting) = operation {
            return self.open_later(setting, promised, simulation);
        }
        if self.store.last() > before {
            self.judge.tally.add("ended by a refusal", 1);
            return Ok(Next::Ends);
        }
        Ok(Next::Goes)
    }

    /// Opens what could not be closed or opened while something was short, once nothing is (F3).
    fn open_later(
        &mut self,
        setting: &Setting,
        promised: u64,
        simulation: &Simulation,
    ) -> Result<Next, String> {
        self.judge.tally.add("opened later", 1);
        self.recover(simulation);
        let store = Store::open(Arc::new(self.disk.clone()), setting);
        self.store = store.map_err(|error| format!("later: {error}"))?;
        self.setting = setting.clone();
        let state = self.store.state().map_err(|trouble| trouble.to_string())?;
        // Without a journal what was not flushed went with the process.
        let left = self.history.explain(&state, thread::wall_ms(), promised)?;
        self.history.give_up_above(left);
        Ok(Next::Goes)
    }

    /// Whether what is short is why (F2). Who waits for a write to be durable may hear that it is
    /// not known to be.
    fn explains(&self, error: &Error) -> bool {
        let (is_short, text) = match self.short {
            Some(Fault::NoSpace) => (error.kind() == ErrorKind::NoSpace, "space left"),
            Some(_) => (lacks_descriptors(error), "open files"),
            None => return false,
        };
        let in_doubt = error.kind() == ErrorKind::OutcomeUnknown;
        is_short || in_doubt && error.to_string().contains(text)
    }

    /// Up to where a process that ends now leaves everything, and a loss of power.
    fn promises(&self) -> (u64, u64) {
        let written = self.history.last_written();
        let durable = self.store.db().durable().0.min(written);
        match self.setting.has_journal() {
            true => (written, durable),
            false => (durable, durable),
        }
    }

    /// What would be left (F4).
    fn crash(&mut self) -> Result<(), String> {
        let (kept, durable) = self.promises();
        for mode in [CrashMode::KeepAll, CrashMode::Random] {
            let fs = self.mem.image(self.judge.seed.below(1 << 40), mode);
            fs.set_space_max(None);
            let image = Image {
                fs,
                mode,
                call: (0, "an operation"),
                durable,
                kept,
                last: self.store.last(),
                failed: false,
                lied: false,
            };
            self.judge.judge(image, &self.history)?;
        }
        Ok(())
    }
}

/// Of a key that no random write has.
fn last_write() -> Operation {
    let [key, value] = [b"after all", b"and more!"].map(|text| text.to_vec());
    Operation::Put(0, key, value, None, Durability::Buffered)
}

/// Those names that hold `part`.
fn of_those(names: &[&'static str], part: &str) -> Vec<&'static str> {
    let held = names.iter().filter(|name| name.contains(part));
    held.copied().collect()
}
