//! The work of one store in one round: opens it, runs the benchmarks one after another, closes it.
//!
//! A process of its own does it, so that no store inherits another's memory, threads or page
//! faults; it gets the task on standard input and tells what it did on standard output, a line of
//! JSON each. Tests do it in their own process.
//!
//! T1. A benchmark that needs all records gets them; what the one before left will do if it has
//!     them and was opened with the same settings, but for more room, unless it asks for a store
//!     loaded anew. What needs the store of another benchmark comes after it in the task
//!     (`session`).
//! T2. Whatever is in the task's directory when it begins is removed, and nothing is left there.
//! T3. Before the store of an open loop is made, a loop runs without one: no store's threads work
//!     beside it. Where what an earlier benchmark left will do, there are no such figures.
//!
//! Threads: the main one, and one that tells how far it is. Tests: below, `tests/run.rs`.

use crate::audit::Known;
use crate::drive::{Bench, bare};
use crate::failure::{Failure, Outcome};
use crate::message::remove;
pub use crate::message::{Task, Told};
use crate::meters::{Meters, Reading, space};
use crate::progress::Progress;
use crate::result::{Measurement, float};
use crate::spec::{Body, Pace, Spec, Start};
use crate::store::{Peer, Store};
use crate::{kill, several, versions, write_out};
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is told how far the work is.
const TELL_EVERY: Duration = Duration::from_millis(200);

/// Does `task` with the store `peer`, telling `tell` about it.
///
/// # Errors
/// The first failure, which is the last thing told.
pub fn perform(peer: &dyn Peer, task: &Task, tell: &(dyn Fn(Told) + Sync)) -> Outcome<()> {
    let outcome = Worker::new(peer, task, tell).run();
    if let Err(failure) = &outcome {
        tell(Told::Failed(failure.clone()));
    }
    outcome
}

/// Reads a task from standard input, performs it, tells standard output.
///
/// # Errors
/// As [`perform`].
pub fn perform_as_child(peer_of: impl Fn(&str) -> Outcome<&'static dyn Peer>) -> Outcome<()> {
    let task: Task = serde_json::from_reader(std::io::stdin())
        .map_err(|error| Failure::system("read the task", error))?;
    let out = Mutex::new(std::io::stdout());
    let tell = |told: Told| {
        let Ok(mut out) = out.lock() else { return };
        let line = serde_json::to_string(&told).unwrap_or_default();
        // Nobody reads any more: the parent is gone, and so will this process be.
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            std::process::exit(1);
        }
    };
    let peer = peer_of(&task.store)?;
    perform(peer, &task, &tell)
}

/// The store that is open, and what is in it.
struct Current {
    store: Box<dyn Store>,
    spec: Spec,
    known: Known,
    /// What was counted when it was opened empty.
    opened: Reading,
}

struct Worker<'a> {
    peer: &'a dyn Peer,
    task: &'a Task,
    tell: &'a (dyn Fn(Told) + Sync),
    meters: Meters,
    part: u64,
    progress: Progress,
    current: Option<Current>,
}

impl<'a> Worker<'a> {
    fn new(peer: &'a dyn Peer, task: &'a Task, tell: &'a (dyn Fn(Told) + Sync)) -> Self {
        Worker {
            peer,
            task,
            tell,
            // Before any thread of the store is started, so that they are counted too.
            meters: Meters::new(),
            part: 0,
            progress: Progress::default(),
            current: None,
        }
    }

    fn run(mut self) -> Outcome<()> {
        (self.tell)(Told::Remarks(self.meters.remarks().to_vec()));
        for spec in &self.task.specs {
            (self.tell)(Told::Begun(match spec.unmeasured {
                false => spec.name.clone(),
                true => format!("{}, for what comes after it", spec.name),
            }));
            let measured = match &spec.body {
                Body::Mix(_) => self.mix(spec)?,
                Body::Versions { keys, versions } => {
                    self.close()?;
                    versions::measure(self.peer, self.task, spec, *keys, versions)?
                }
                Body::WriteOut { times } => {
                    // One version of each key, in a store that nobody has used.
                    self.close()?;
                    self.prepare(spec)?;
                    write_out::measure(self.store()?, self.peer.name(), self.task, spec, *times)?
                }
                Body::OpenAfterKill {
                    seconds,
                    insertions,
                } => {
                    self.close()?;
                    kill::measure(self.peer, self.task, spec, (*seconds, *insertions))?
                }
            };
            if !spec.unmeasured {
                (self.tell)(Told::Measured(Box::new(measured)));
            }
        }
        self.close()
    }

    fn store(&self) -> Outcome<&dyn Store> {
        let current = self.current.as_ref();
        let store = current.map(|current| current.store.as_ref());
        store.ok_or_else(|| Failure::system("measure", "no store is open"))
    }

    fn mix(&mut self, spec: &Spec) -> Outcome<Measurement> {
        let bare = self.bare(spec)?;
        self.prepare(spec)?;
        if let Some(current) = self.current.as_ref().filter(|_| spec.settled) {
            current.store.settle()?;
        }
        let round = self.task.round;
        let mut measured = self.at_work(|bench| bench.mix(spec, round))?;
        let Some(current) = &mut self.current else {
            return Err(Failure::system("measure", "no store is open"));
        };
        let settings = current.spec.settings.clone();
        current.spec = Spec {
            settings,
            ..spec.clone()
        };
        measured.figures.extend(bare);
        let now = self.meters.read();
        let written = crate::meters::grown(&current.opened, &now);
        let meters = &mut measured.meters;
        meters.insert("space_bytes".to_owned(), float(space(&self.task.dir)));
        let put = current.known.bytes_put;
        if let Some(bytes) = written.get("bytes_to_device").filter(|_| put > 0) {
            meters.insert("write_amplification".to_owned(), bytes / float(put));
        }
        Ok(measured)
    }

    /// What the machine makes of a loop without a store, where `spec` is an open loop (T3).
    fn bare(&mut self, spec: &Spec) -> Outcome<BTreeMap<String, f64>> {
        if spec.pace == Pace::Closed || spec.unmeasured || self.has_fitting(spec) {
            return Ok(BTreeMap::new());
        }
        self.close()?;
        (self.tell)(Told::Begun(format!("{}, without a store", spec.name)));
        let figures = telling(&self.progress, self.tell, || {
            bare::figures(spec, &self.progress)
        });
        (self.tell)(Told::Begun(spec.name.clone()));
        Ok(figures)
    }

    /// Whether a store is open that will do (T1).
    fn has_fitting(&self, spec: &Spec) -> bool {
        self.current
            .as_ref()
            .is_some_and(|current| match spec.start {
                Start::Empty | Start::Anew => false,
                Start::AsIs => current.spec.leaves_for(spec),
                Start::Loaded => {
                    let known = &current.known;
                    let loaded = known.whole && known.inserted >= spec.records;
                    loaded && current.spec.leaves_for(spec)
                }
            })
    }

    /// Sees to it that the store is as `spec` wants it.
    fn prepare(&mut self, spec: &Spec) -> Outcome<()> {
        if self.has_fitting(spec) {
            return Ok(());
        }
        self.close()?;
        let dir = &self.task.dir;
        std::fs::create_dir_all(dir).map_err(|error| Failure::file("create", dir, error))?;
        let opened = self.meters.read();
        // Room for what comes after it too (T1).
        let mut spec = spec.clone();
        let most = self
            .task
            .specs
            .iter()
            .map(|one| one.settings.data_bytes_max);
        spec.settings.data_bytes_max = most.max().unwrap_or(0);
        let spec = &spec;
        let store = match spec.store_for_each {
            false => self.peer.open(dir, &spec.settings)?,
            true => several::open(self.peer, dir, spec, self.task.threads)?,
        };
        self.current = Some(Current {
            store,
            spec: spec.clone(),
            known: Known::empty(),
            opened,
        });
        if spec.start.is_loaded() {
            (self.tell)(Told::Begun(format!("loading for {}", spec.name)));
            self.at_work(|bench| bench.load(spec))?;
            (self.tell)(Told::Begun(spec.name.clone()));
        }
        Ok(())
    }

    /// Lets `work` use the open store, telling how far it is meanwhile.
    fn at_work<R>(&mut self, work: impl FnOnce(&mut Bench<'_>) -> Outcome<R>) -> Outcome<R> {
        let Some(current) = &mut self.current else {
            return Err(Failure::system("measure", "no store is open"));
        };
        let mut bench = Bench {
            store: current.store.as_ref(),
            name: self.peer.name(),
            threads: self.task.threads,
            known: &mut current.known,
            meters: &mut self.meters,
            part: &mut self.part,
            progress: &self.progress,
        };
        telling(&self.progress, self.tell, || work(&mut bench))
    }

    fn close(&mut self) -> Outcome<()> {
        if let Some(current) = self.current.take() {
            current.store.close()?;
        }
        remove(&self.task.dir)
    }
}

/// Tells how far `work` is while it runs. Who has nobody to tell any more ends with that.
fn telling<R>(progress: &Progress, tell: &(dyn Fn(Told) + Sync), work: impl FnOnce() -> R) -> R {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let teller = scope.spawn(|| {
            // Relaxed: for people; and the flag ends it one round later at worst.
            while !over.load(Ordering::Relaxed) {
                tell(Told::Progress(
                    progress.done.load(Ordering::Relaxed),
                    progress.of.load(Ordering::Relaxed),
                    progress.inserted.load(Ordering::Relaxed),
                ));
                std::thread::park_timeout(TELL_EVERY);
            }
        });
        // The scope waits for the teller, also where the work panics.
        let result = std::panic::catch_unwind(AssertUnwindSafe(work));
        // Relaxed: as above.
        over.store(true, Ordering::Relaxed);
        teller.thread().unpark();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, Changes};
    use crate::stores;

    /// How often it was told that something began, for the benchmarks of these names in turn,
    /// which is called by `what`.
    fn begun(names: &[&str], what: impl Fn(&str) -> bool + Sync) -> usize {
        let changes = Changes {
            records: Some(300),
            operations: Some(300),
            rate: Some(2000),
            seconds: Some(0.1),
            ..Changes::default()
        };
        let dir = tempfile::tempdir().unwrap();
        let spec = |name: &&str| catalogue::named(name).unwrap()[0].with(&changes, 1);
        let task = Task {
            store: "velella".to_owned(),
            threads: 1,
            round: 0,
            dir: dir.path().join("store"),
            specs: names.iter().map(spec).collect(),
        };
        let count = Mutex::new(0);
        let tell = |told: Told| {
            let is_it = matches!(&told, Told::Begun(name) if what(name));
            *count.lock().unwrap() += usize::from(is_it);
        };
        perform(stores::named("velella").unwrap(), &task, &tell).unwrap();
        count.into_inner().unwrap()
    }

    fn loads(names: &[&str]) -> usize {
        begun(names, |name| name.starts_with("loading"))
    }

    #[test]
    fn an_open_loop_runs_without_a_store_before_its_own_is_made() {
        let bare = |names: &[&str]| begun(names, |name| name == "tail, without a store");
        assert_eq!(bare(&["tail"]), 1);
        // What is written on the device has other settings: its store is closed.
        assert_eq!(bare(&["sync.writes", "tail"]), 1, "T3");
        assert_eq!(bare(&["ycsb.a", "tail"]), 0, "its store will do");
    }

    #[test]
    #[should_panic(expected = "a store's fault")]
    fn who_tells_of_work_that_panics_ends_with_it() {
        telling(&Progress::default(), &|_| (), || panic!("a store's fault"));
    }

    #[test]
    fn what_is_held_against_each_other_begins_with_the_same_store() {
        assert_eq!(loads(&["clsm.rmw.memory.put", "clsm.rmw.memory"]), 2);
        assert_eq!(loads(&["ycsb.a", "ycsb.b"]), 1, "what is left will do");
    }
}
