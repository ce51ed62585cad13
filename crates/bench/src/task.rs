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
    bytes_put: u64,
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
                Body::OpenAfterKill { seconds } => {
                    self.close()?;
                    kill::measure(self.peer, self.task, spec, *seconds)?
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
        let bare = self.bare(spec);
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
        current.bytes_put += measured.bytes_put;
        measured.figures.extend(bare);
        let now = self.meters.read();
        let written = crate::meters::grown(&current.opened, &now);
        let meters = &mut measured.meters;
        meters.insert("space_bytes".to_owned(), float(space(&self.task.dir)));
        let put = float(current.bytes_put.max(1));
        if let Some(bytes) = written.get("bytes_to_device") {
            meters.insert("write_amplification".to_owned(), bytes / put);
        }
        Ok(measured)
    }

    /// What the machine makes of an open loop without a store, where `spec` is one; only before
    /// there is a store, whose threads would work beside it.
    fn bare(&self, spec: &Spec) -> BTreeMap<String, f64> {
        if self.current.is_some() || spec.pace == Pace::Closed {
            return BTreeMap::new();
        }
        (self.tell)(Told::Begun(format!("{}, without a store", spec.name)));
        bare::figures(spec)
    }

    /// Sees to it that the store is as `spec` wants it.
    fn prepare(&mut self, spec: &Spec) -> Outcome<()> {
        let fits = |current: &Current| match spec.start {
            Start::Empty | Start::Anew => false,
            Start::AsIs => current.spec.leaves_for(spec),
            Start::Loaded => {
                let known = &current.known;
                let loaded = known.whole && known.inserted >= spec.records;
                loaded && current.spec.leaves_for(spec)
            }
        };
        if self.current.as_ref().is_some_and(fits) {
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
            bytes_put: 0,
        });
        if spec.start.is_loaded() {
            (self.tell)(Told::Begun(format!("loading for {}", spec.name)));
            self.at_work(|bench| bench.load(spec))?;
            if let Some(current) = &mut self.current {
                let pair = spec.key_maker().bytes() + spec.value_bytes;
                current.bytes_put += pair * current.known.inserted;
            }
            (self.tell)(Told::Begun(spec.name.clone()));
        }
        Ok(())
    }

    /// Lets `work` use the open store, telling how far it is meanwhile.
    fn at_work<R>(&mut self, work: impl FnOnce(&mut Bench<'_>) -> Outcome<R>) -> Outcome<R> {
        let Some(current) = &mut self.current else {
            return Err(Failure::system("measure", "no store is open"));
        };
        let (progress, tell) = (&self.progress, self.tell);
        let over = AtomicBool::new(false);
        let mut bench = Bench {
            store: current.store.as_ref(),
            name: self.peer.name(),
            threads: self.task.threads,
            known: &mut current.known,
            meters: &mut self.meters,
            part: &mut self.part,
            progress,
        };
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
            let result = work(&mut bench);
            // Relaxed: as above.
            over.store(true, Ordering::Relaxed);
            teller.thread().unpark();
            result
        })
    }

    fn close(&mut self) -> Outcome<()> {
        if let Some(current) = self.current.take() {
            current.store.close()?;
        }
        remove(&self.task.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::{self, Changes};
    use crate::stores;

    /// How often stores were loaded for the benchmarks of these names, done in turn.
    fn loads(names: &[&str]) -> usize {
        let changes = Changes {
            records: Some(300),
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
        let loads = Mutex::new(0);
        let tell = |told: Told| {
            let is_load = matches!(&told, Told::Begun(what) if what.starts_with("loading"));
            *loads.lock().unwrap() += usize::from(is_load);
        };
        perform(stores::named("velella").unwrap(), &task, &tell).unwrap();
        loads.into_inner().unwrap()
    }

    #[test]
    fn what_is_held_against_each_other_begins_with_the_same_store() {
        assert_eq!(loads(&["clsm.rmw.memory.put", "clsm.rmw.memory"]), 2);
        assert_eq!(loads(&["ycsb.a", "ycsb.b"]), 1, "what is left will do");
    }
}
