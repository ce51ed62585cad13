//! Random workloads, crashed at a random point in every way, recovered, crashed again.
//!
//! Checked: what is recovered and what is in tables together are a prefix of the commit order that
//! holds every stamp up to the announced D (J3); with the page cache intact, everything committed.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use velella_base::{Result, Stamp};
use velella_journal::{Access, Last, Rule};
use velella_sync::rng::Rng;
use velella_vfs::fault::{Fault, Rule as FaultRule};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs};

const MODES: [CrashMode; 4] = [
    CrashMode::Strict,
    CrashMode::Prefix,
    CrashMode::Random,
    CrashMode::KeepAll,
];

/// What a workload did until it stopped.
struct History {
    last: Last,
    /// Every committed stamp and its payload.
    committed: BTreeMap<u64, Vec<u8>>,
    /// The stamp whose commit failed, if one did: it may be there or not.
    unknown: Option<u64>,
    durable: u64,
    /// Stamps below this are in tables.
    floor: u64,
}

fn run(bench: &mut Bench, rng: &mut Rng, steps: u64) -> History {
    let mut history = History {
        last: bench.last(),
        committed: BTreeMap::new(),
        unknown: None,
        durable: 0,
        floor: 0,
    };
    for _ in 0..steps {
        if step(bench, rng, &mut history).is_err() {
            break;
        }
    }
    history.durable = bench.journal.durable().0;
    history
}

fn step(bench: &mut Bench, rng: &mut Rng, history: &mut History) -> Result<()> {
    let lane = usize::try_from(rng.below(bench.lanes.len() as u64)).unwrap();
    match rng.below(100) {
        0..=2 => drop(bench.round()?),
        3 => bench.journal.sync_done()?,
        4 => bench.lanes[lane].reserve(&[&payload(rng.next_u64(), 300)])?,
        5 => {
            // Everything D covers is flushed to tables.
            history.floor = bench.journal.durable().0 + 1;
            bench.journal.release(Stamp(history.floor))?;
        }
        6 => bench.journal.prepare(|| false)?,
        7 => bench.journal.close_idle(&mut bench.lanes[lane])?,
        _ => {
            let len = match rng.below(40) {
                0 => 20_000 + rng.below(30_000),
                1..=4 => 3_000 + rng.below(6_000),
                _ => rng.below(400),
            };
            let payload = payload(rng.next_u64(), usize::try_from(len).unwrap());
            bench.lanes[lane].reserve(&[&payload])?;
            bench.clock += 1;
            history.unknown = Some(bench.clock);
            bench.lanes[lane].commit(Stamp(bench.clock))?;
            history.unknown = None;
            history.committed.insert(bench.clock, payload);
        }
    }
    Ok(())
}

fn check(history: &History, recovered: &Recovered, mode: CrashMode, context: &str) {
    let stamps = recovered.stamps();
    assert!(stamps.is_sorted_by(|a, b| a < b), "{context}: out of order");
    for (stamp, payload) in &recovered.records {
        match history.committed.get(stamp) {
            Some(written) => assert!(written == payload, "{context}: stamp {stamp} differs"),
            None => assert_eq!(history.unknown, Some(*stamp), "{context}: never written"),
        }
    }
    let taken: std::collections::BTreeSet<u64> = stamps.iter().copied().collect();
    let missing = history
        .committed
        .range(history.floor..)
        .map(|(stamp, _)| *stamp)
        .find(|stamp| !taken.contains(stamp));
    let newest = history.committed.keys().next_back().copied().unwrap_or(0);
    let end = missing.unwrap_or(newest + 1);
    // A prefix: nothing committed is there beyond the first that is missing.
    let beyond = taken
        .range(end..)
        .find(|s| history.committed.contains_key(s));
    assert_eq!(
        beyond, None,
        "{context}: a hole at {end}; {:?}",
        recovered.report
    );
    assert!(
        end > history.durable,
        "{context}: stamp {end} is lost, D was {}; {:?}",
        history.durable,
        recovered.report
    );
    if mode == CrashMode::KeepAll && recovered.report.rule == Rule::PageCache {
        assert_eq!(missing, None, "{context}: {:?}", recovered.report);
    }
}

/// One workload: may fail at a call of the file system, then crashes in every mode.
fn crash_once(seed: u64, access: Access, faulty: bool) {
    let mut rng = Rng::new(seed);
    let memory = MemFs::new();
    let faults = FaultFs::over_mem(&memory);
    let lanes = 1 + usize::try_from(rng.below(4)).unwrap();
    let mut config = config(Arc::new(faults.clone()), 1, lanes);
    config.access = access;
    config.ack_after_done = rng.below(4) == 0;
    let mut bench = Bench::start(config).unwrap();
    if faulty {
        faults.inject(FaultRule::every(Fault::Io).from_nth(1 + rng.below(60)));
    }
    let steps = 1 + rng.below(1500);
    let history = run(&mut bench, &mut rng, steps);
    let mut modes = MODES.to_vec();
    if faulty {
        // A failed sync may have dropped pages: a page cache that says so little is no witness.
        modes.pop();
    }
    for mode in modes {
        for outcome in 0..3 {
            let context = format!("seed {seed} {access:?} {mode:?} outcome {outcome}");
            let image = memory.image(seed ^ outcome, mode);
            let recovered =
                recover(&image, &history.last).unwrap_or_else(|error| panic!("{context}: {error}"));
            check(&history, &recovered, mode, &context);
            if mode == CrashMode::KeepAll {
                assert_eq!(recovered.report.rule, Rule::PageCache, "{context}");
            }
            crash_again(&image, &history, &recovered, seed, &context);
        }
    }
}

/// The machine comes up, a new incarnation is prepared, and it crashes again before the manifest
/// knows of it: recovery finds the same. Then once more, and the new incarnation runs.
fn crash_again(image: &MemFs, history: &History, first: &Recovered, seed: u64, context: &str) {
    let second = Bench::start(config(Arc::new(image.clone()), 2, 2)).unwrap();
    drop(second);
    let image = image.image(seed, MODES[usize::try_from(seed % 3).unwrap()]);
    let again = recover(&image, &history.last).unwrap();
    // After a kill the first recovery found the page cache; the power loss now may cost what no
    // round covered, which nobody has seen yet.
    if first.report.rule == Rule::Cut {
        assert!(
            first.records == again.records,
            "{context}: recovered differently"
        );
    }
    let mut rng = Rng::new(seed);
    // Stamps are not reused: the clock lease of the manifest.
    let lease = Stamp(1_000_000);
    let mut third = Bench::start_at(config(Arc::new(image.clone()), 3, 2), lease).unwrap();
    third.journal.discard_older().unwrap();
    let third_history = run(&mut third, &mut rng, 300);
    for mode in MODES {
        let image = image.image(seed, mode);
        let recovered = recover(&image, &third_history.last).unwrap();
        check(
            &third_history,
            &recovered,
            mode,
            &format!("{context}, third run"),
        );
    }
}

fn seeds(count: u64) -> impl Iterator<Item = u64> {
    let base = std::env::var("VELELLA_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!(
        "seeds {base} to {}; VELELLA_SEED sets the first",
        base + count - 1
    );
    base..base + count
}

#[test]
fn recovery_takes_a_prefix_with_everything_durable_mapped() {
    seeds(60).for_each(|seed| crash_once(seed, Access::Mapped, false));
}

#[test]
fn recovery_takes_a_prefix_with_everything_durable_written() {
    seeds(30).for_each(|seed| crash_once(seed, Access::Write, false));
}

#[test]
fn recovery_takes_a_prefix_with_everything_durable_after_a_failed_call() {
    seeds(60).for_each(|seed| crash_once(seed, Access::Mapped, true));
    seeds(30).for_each(|seed| crash_once(seed, Access::Write, true));
}
