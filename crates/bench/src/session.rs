//! A run: benchmarks by stores by threads, round by round, each store in a process of its own.
//!
//! N1. Before anything is measured, every store is asked whether it can keep the durability of
//!     every benchmark; one that cannot ends the run (`UnequalDurability`), but a peer that
//!     nobody named is left out, and a remark says so. A rate that a benchmark cannot keep ends
//!     the run, too (`ClosedLoop`).
//! N2. Stores take turns: in each round all of them do the same work, the order shifted by one
//!     from round to round, so that a drifting machine favours none.
//! N3. A benchmark that begins with what another left gets it: where none right before it in the
//!     run leaves it, the one that does is run first, unmeasured, and what that one needs.
//! N4. A store that answers wrongly or fails has no figures at all, and the run ends with 1.
//!
//! Threads: one; the processes have their own. Tests: `tests/run.rs`, `tests/refusals.rs`, below.

use crate::callgrind::Callgrind;
use crate::catalogue::{self, Benchmark, Changes};
use crate::durability::Durability;
use crate::failure::{Failure, Outcome};
use crate::message::{Scratch, Task, Told, remove, spawn};
use crate::result::{Measurement, Results, float};
use crate::spec::{Body, Pace, Spec};
use crate::store::Peer;
use crate::stores;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Command;
use velella_cli::human;

/// What is to be run.
#[derive(Debug)]
pub struct Session {
    /// Benchmarks, in order.
    pub benchmarks: Vec<&'static Benchmark>,
    /// Stores beside Velella; none: the peers that were built in, and each benchmark's baselines.
    pub peers: Option<Vec<String>>,
    /// Numbers of threads; none: each benchmark's own.
    pub threads: Vec<u64>,
    /// Rounds.
    pub rounds: u64,
    /// Where to work; what is made there is removed.
    pub dir: PathBuf,
    /// What is different from the benchmarks' own parameters.
    pub changes: Changes,
    /// Whether instructions are counted by callgrind, under which all takes fifty times as long.
    pub instructions: bool,
    /// The command line, for whoever wants to do it again.
    pub command: String,
}

/// Who watches a run.
pub trait Watch {
    /// Something has begun: which round of how many, what.
    fn begun(&self, round: (u64, u64), threads: u64, store: &str, benchmark: &str);
    /// So many operations of so many are done.
    fn progress(&self, done: u64, of: u64);
    /// A measurement is there.
    fn measured(&self, measurement: &Measurement);
    /// A store failed.
    fn failed(&self, failure: &Failure);
}

/// One store's part of a round.
struct Part {
    store: &'static str,
    threads: u64,
    benchmarks: Vec<&'static Benchmark>,
}

impl Session {
    /// Runs it. The failures of stores are beside the results, which are without them.
    ///
    /// # Errors
    /// What kept all from running: a name nobody has, durabilities that differ, no directory.
    pub fn run(&self, watch: &dyn Watch) -> Outcome<(Results, Vec<Failure>)> {
        let parts = self.parts()?;
        let scratch = Scratch::new(&self.dir)?;
        let mut results = self.empty_results(&parts);
        let mut failures = Vec::new();
        for round in 0..self.rounds {
            for threads in self.all_threads() {
                let mut turn: Vec<&Part> = parts
                    .iter()
                    .filter(|part| part.threads == threads)
                    .collect();
                let shift = usize::try_from(round).unwrap_or(0) % turn.len().max(1);
                turn.rotate_left(shift);
                for part in turn {
                    let out = failures.iter().any(|(store, _)| *store == part.store);
                    if out {
                        continue;
                    }
                    let task = Task {
                        store: part.store.to_owned(),
                        threads,
                        round,
                        dir: scratch.dir().join(part.store),
                        specs: self.specs_in_turn(&part.benchmarks, threads)?,
                    };
                    if let Err(failure) = self.perform(&task, watch, &mut results) {
                        watch.failed(&failure);
                        failures.push((part.store, failure));
                    }
                }
            }
        }
        // N4: what it did before it failed counts for nothing.
        results
            .measurements
            .retain(|one| failures.iter().all(|(store, _)| *store != one.store));
        results
            .stores
            .retain(|one| failures.iter().all(|(store, _)| store != one));
        Ok((
            results,
            failures.into_iter().map(|(_, failure)| failure).collect(),
        ))
    }

    fn all_threads(&self) -> Vec<u64> {
        let of = |one: &&Benchmark| one.threads.to_vec();
        let mut all = match self.threads.is_empty() {
            true => self.benchmarks.iter().flat_map(of).collect(),
            false => self.threads.clone(),
        };
        all.sort_unstable();
        all.dedup();
        all
    }

    fn specs(&self, benchmarks: &[&'static Benchmark], threads: u64) -> Vec<Spec> {
        let one = |benchmark: &&Benchmark| benchmark.with(&self.changes, threads);
        benchmarks.iter().map(one).collect()
    }

    /// The same with what some of them need before (N3).
    fn specs_in_turn(&self, benchmarks: &[&'static Benchmark], threads: u64) -> Outcome<Vec<Spec>> {
        let mut all: Vec<Spec> = Vec::new();
        for benchmark in benchmarks {
            let spec = benchmark.with(&self.changes, threads);
            let mut first = Vec::new();
            let (mut needs, mut after) = (spec.clone(), benchmark.after);
            // Whoever wrote last must be who is needed, and what he left must fit.
            let wrote_last = all.iter().rev().find(|one| one.writes());
            let stands = |name: &str, needs: &Spec| {
                let fits = all.last().is_some_and(|last| last.is_followed_by(needs));
                fits && wrote_last.is_some_and(|last| last.name == name)
            };
            while let Some(name) = after
                && !stands(name, &needs)
            {
                for before in catalogue::named(name)? {
                    needs = before.with(&self.changes, threads);
                    needs.unmeasured = true;
                    after = before.after;
                    first.push(needs.clone());
                }
            }
            all.extend(first.into_iter().rev());
            all.push(spec);
        }
        Ok(all)
    }

    /// Who does what (N1).
    fn parts(&self) -> Outcome<Vec<Part>> {
        self.check_rate()?;
        self.check_seconds()?;
        self.check_threads()?;
        let mut parts: Vec<Part> = Vec::new();
        for threads in self.all_threads() {
            for benchmark in &self.benchmarks {
                if self.threads.is_empty() && !benchmark.threads.contains(&threads) {
                    continue;
                }
                for peer in self.stores_of(benchmark)? {
                    let store = peer.name();
                    let mut known = parts.iter_mut();
                    let part = known.find(|part| part.store == store && part.threads == threads);
                    match part {
                        Some(part) => part.benchmarks.push(benchmark),
                        None => parts.push(Part {
                            store,
                            threads,
                            benchmarks: vec![benchmark],
                        }),
                    }
                }
            }
        }
        Ok(parts)
    }

    fn check_rate(&self) -> Outcome<()> {
        let keeps_none = |spec: &Spec| spec.pace == Pace::Closed;
        let asked = self.changes.rate.is_some();
        self.refuse(asked, keeps_none, |benchmark| Failure::ClosedLoop {
            benchmark,
        })
    }

    fn check_seconds(&self) -> Outcome<()> {
        let counts = |spec: &Spec| {
            let is_timed = matches!(spec.body, Body::OpenAfterKill { .. });
            spec.pace == Pace::Closed && !is_timed
        };
        let asked = self.changes.seconds.is_some();
        self.refuse(asked, counts, |benchmark| Failure::Counted { benchmark })
    }

    fn check_threads(&self) -> Outcome<()> {
        let is_single = |spec: &Spec| matches!(spec.body, Body::Versions { .. });
        let asked = self.threads.iter().any(|threads| *threads != 1);
        self.refuse(asked, is_single, |benchmark| Failure::OneThread {
            benchmark,
        })
    }

    /// Fails for the first benchmark that cannot do what was `asked`.
    fn refuse(
        &self,
        asked: bool,
        cannot: impl Fn(&Spec) -> bool,
        failure: impl FnOnce(String) -> Failure,
    ) -> Outcome<()> {
        let cannot = |one: &&&Benchmark| cannot(&one.with(&self.changes, 1));
        match self.benchmarks.iter().find(cannot) {
            Some(benchmark) if asked => Err(failure(benchmark.name.to_owned())),
            _ => Ok(()),
        }
    }

    fn stores_of(&self, benchmark: &Benchmark) -> Outcome<Vec<&'static dyn Peer>> {
        let durability = benchmark.with(&self.changes, 1).settings.durability;
        let ours = stores::named(benchmark.ours)?;
        ours.check(durability)?;
        let mut all = vec![ours];
        if let Some(names) = &self.peers {
            for name in names.iter().filter(|name| *name != benchmark.ours) {
                let peer = stores::named(name)?;
                peer.check(durability)?;
                all.push(peer);
            }
            return Ok(all);
        }
        for name in benchmark.baselines {
            let baseline = stores::named(name)?;
            baseline.check(durability)?;
            all.push(baseline);
        }
        if benchmark.peers {
            let fit = |peer: &&dyn Peer| peer.check(durability).is_ok();
            all.extend(stores::peers().into_iter().filter(fit));
        }
        Ok(all)
    }

    /// Which peers are not measured, where all are that fit, and why.
    fn left_out(&self) -> Vec<String> {
        let mut all = Vec::new();
        let with_all = |one: &&&Benchmark| one.peers && self.peers.is_none();
        for benchmark in self.benchmarks.iter().filter(with_all) {
            let durability = benchmark.with(&self.changes, 1).settings.durability;
            let unfit = unfit(&stores::peers(), durability);
            let new: Vec<_> = unfit.into_iter().filter(|one| !all.contains(one)).collect();
            all.extend(new);
        }
        all
    }

    fn empty_results(&self, parts: &[Part]) -> Results {
        let mut stores: Vec<String> = Vec::new();
        for part in parts {
            if !stores.iter().any(|known| known == part.store) {
                stores.push(part.store.to_owned());
            }
        }
        let threads = self.all_threads();
        Results {
            command: self.command.clone(),
            machine: machine(),
            remarks: self.left_out(),
            specs: self.specs(&self.benchmarks, threads.first().copied().unwrap_or(1)),
            stores,
            threads,
            measurements: Vec::new(),
        }
    }

    fn perform(&self, task: &Task, watch: &dyn Watch, results: &mut Results) -> Outcome<()> {
        let failed = |found: String| Failure::store(&task.store, "run in its process", found);
        let callgrind = match self.instructions {
            true => Some(Callgrind::new(task.dir.with_file_name("callgrind"))?),
            false => None,
        };
        let mut child = spawn(task, |program| match &callgrind {
            Some(callgrind) => callgrind.command(program),
            None => Command::new(program),
        })?;
        let out = child.stdout.take();
        let out = out.ok_or_else(|| failed("it has no output".to_owned()))?;
        let mut failure = None;
        for line in BufReader::new(out).lines() {
            let line = line.map_err(|error| failed(error.to_string()))?;
            match serde_json::from_str(&line).map_err(|error| failed(error.to_string()))? {
                Told::Begun(benchmark) => {
                    let round = (task.round + 1, self.rounds);
                    watch.begun(round, task.threads, &task.store, &benchmark);
                }
                Told::Progress(done, of, _) => watch.progress(done, of),
                Told::Measured(mut measured) => {
                    if let Some(callgrind) = &callgrind {
                        let count = float(callgrind.newest()?);
                        measured.meters.insert("instructions".to_owned(), count);
                    }
                    watch.measured(&measured);
                    results.measurements.push(*measured);
                }
                Told::Remarks(remarks) => {
                    for remark in remarks {
                        if !results.remarks.contains(&remark) {
                            results.remarks.push(remark);
                        }
                    }
                }
                Told::Failed(told) => failure = Some(told),
            }
        }
        let status = child.wait().map_err(|error| failed(error.to_string()))?;
        remove(&task.dir)?;
        match failure {
            Some(failure) => Err(failure),
            None if !status.success() => Err(failed(format!("it ended with {status}"))),
            None => Ok(()),
        }
    }
}

/// The machine in words: its processor, cores and memory.
fn machine() -> String {
    let of = |file: &str, field: &str| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(field));
        line.and_then(|line| line.split_once(':'))
            .map_or_else(|| "?".to_owned(), |(_, rest)| rest.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory = of("/proc/meminfo", "MemTotal");
    let kib = memory
        .split_whitespace()
        .next()
        .and_then(|kib| kib.parse().ok());
    format!(
        "{}, {cores} cores, {} of memory, {}",
        of("/proc/cpuinfo", "model name"),
        kib.map_or(memory.clone(), |kib: u64| human::bytes(kib << 10)),
        std::env::consts::ARCH
    )
}

/// What there is to say of those that cannot keep a durability.
fn unfit(peers: &[&dyn Peer], durability: Durability) -> Vec<String> {
    let said = |peer: &&dyn Peer| {
        peer.check(durability).err()?;
        let offers: Vec<&str> = peer.offers().iter().map(|one| one.name()).collect();
        let (name, offers, asked) = (peer.name(), offers.join(", "), durability.name());
        Some(format!(
            "{name} is left out: it offers durability {offers}, not {asked}"
        ))
    };
    peers.iter().filter_map(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_cannot_keep_a_durability_is_not_left_out_in_silence() {
        let peers = ["velella", "memtable:s3"].map(|name| stores::named(name).unwrap());
        assert!(unfit(&peers, Durability::None).is_empty());
        let said = unfit(&peers, Durability::Process);
        assert_eq!(
            said,
            ["memtable:s3 is left out: it offers durability none, not process"]
        );
    }
}
