//! How long a store takes to open after its process was killed under full load.
//!
//! A process of its own inserts as fast as it can and is killed; then the store is opened here,
//! timed, and must have every key whose insertion was told before the kill.
//!
//! K1. All that was told is there, or the store answered wrongly.
//!
//! Threads: one. Tests: `tests/run.rs`.

use crate::choice::Choice;
use crate::failure::{Failure, Outcome};
use crate::message::{Task, Told, remove, spawn};
use crate::random::Random;
use crate::result::{Latencies, Measurement, float};
use crate::spec::{Body, Operation, Pace, Spec, Start};
use crate::store::{Durability, Peer, Store};
use crate::values::Values;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Keys looked up after opening.
const GETS: u64 = 1000;
/// More operations than the time allows.
const ENDLESS: u64 = u64::MAX / 1024;

/// Measures `peer`, killed after so many seconds or insertions, whichever comes first.
pub(crate) fn measure(
    peer: &dyn Peer,
    task: &Task,
    spec: &Spec,
    until: (f64, u64),
) -> Outcome<Measurement> {
    if spec.settings.durability == Durability::None {
        return Err(Failure::Unfit {
            store: peer.name().to_owned(),
            lacks: "durability of any kind in this run, so nothing survives a kill".to_owned(),
        });
    }
    remove(&task.dir)?;
    let inserted = load_and_kill(task, spec, until)?;
    let space = crate::meters::space(&task.dir);
    let start = Instant::now();
    let store = peer.open(&task.dir, &spec.settings)?;
    let opened = start.elapsed().as_secs_f64();
    let checked = check(store.as_ref(), peer.name(), spec, inserted)?;
    store.close()?;
    remove(&task.dir)?;
    Ok(Measurement {
        benchmark: spec.name.clone(),
        store: peer.name().to_owned(),
        threads: task.threads,
        round: task.round,
        // One opening: so its rate is what is compared.
        operations: 1,
        seconds: opened,
        bytes_put: 0,
        found: checked,
        missed: 0,
        checked,
        latencies: Latencies::default(),
        latencies_by_operation: BTreeMap::new(),
        meters: BTreeMap::from([("space_bytes".to_owned(), float(space))]),
        counters: BTreeMap::new(),
        figures: BTreeMap::from([
            ("open_seconds".to_owned(), opened),
            ("inserted_before_kill".to_owned(), float(inserted)),
        ]),
    })
}

/// Lets a process insert, and kills it; keys it had inserted for certain.
fn load_and_kill(task: &Task, spec: &Spec, until: (f64, u64)) -> Outcome<u64> {
    let load = Task {
        specs: vec![Spec {
            start: Start::Empty,
            operations: ENDLESS,
            body: Body::Mix(vec![(Operation::Insert, 1.0)]),
            choice: Choice::Uniform,
            pace: Pace::Closed,
            before: Vec::new(),
            settled: false,
            drained: false,
            drain_timed: false,
            warm_up: 0,
            beside: None,
            reconnect_every: 0,
            latency_every: 0,
            ..spec.clone()
        }],
        ..task.clone()
    };
    let mut child = spawn(&load, |program| Command::new(program))?;
    let inserted = watch(&mut child, Duration::from_secs_f64(until.0), until.1);
    // SIGKILL: no destructor runs. It may have ended by itself, which `watch` has told.
    let killed = child.kill().and_then(|()| child.wait());
    killed.map_err(|error| Failure::system("kill the process under load", error))?;
    inserted
}

fn watch(child: &mut Child, until: Duration, insertions: u64) -> Outcome<u64> {
    let Some(out) = child.stdout.take() else {
        return Err(Failure::system("watch the process under load", "no output"));
    };
    let mut begun: Option<Instant> = None;
    let mut sure = 0;
    for line in BufReader::new(out).lines() {
        let line = line.map_err(|error| Failure::system("watch the process under load", error))?;
        match serde_json::from_str(&line) {
            Ok(Told::Progress(_, _, inserted)) => {
                sure = inserted;
                let since = begun.get_or_insert_with(Instant::now);
                if since.elapsed() >= until || sure >= insertions {
                    return Ok(sure);
                }
            }
            Ok(Told::Failed(failure)) => return Err(failure),
            _ => {}
        }
    }
    Err(Failure::system(
        "watch the process under load",
        format!("it ended by itself after {sure} keys"),
    ))
}

fn check(store: &dyn Store, name: &str, spec: &Spec, inserted: u64) -> Outcome<u64> {
    let values = Values::new(usize::try_from(spec.value_bytes).unwrap_or(0), spec.seed);
    let mut keys = spec.key_maker();
    let mut random = Random::new(spec.seed);
    // The newest ones are those that a careless store loses.
    let newest = (inserted.saturating_sub(GETS)..inserted).collect::<Vec<u64>>();
    let any = (0..GETS)
        .filter(|_| inserted > 0)
        .map(|_| random.below(inserted));
    let mut checked = 0;
    for n in newest.into_iter().chain(any.collect::<Vec<u64>>()) {
        let key = keys.key(n);
        let mut right = false;
        let found = store.get(key, &mut |value| right = values.check(key, value).is_some())?;
        if !found || !right {
            return Err(Failure::WrongAnswer {
                store: name.to_owned(),
                found: format!(
                    "key number {n} of {inserted}, inserted before the kill, is {}",
                    if found { "another value" } else { "gone" }
                ),
            });
        }
        checked += 1;
    }
    Ok(checked)
}
