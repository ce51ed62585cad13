//! Power cut and failing calls at every point of flushes, jobs and openings: reopened, the tree
//! is what it was before or after the last step, and orphans are recognised.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]

use std::collections::BTreeSet;
use std::sync::Arc;
use velella_base::{Order, Result};
use velella_sync::rng::Rng;
use velella_tree::Wanted;
use velella_tree::contract::{Bench, Model};
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Vfs};

/// Flushes and jobs; before each step `model` is what must be there at least.
fn drive(bench: &Bench, model: &mut Model, rng: &mut Rng) -> Result<()> {
    for step in 0..9 {
        if step % 3 == 2 {
            let wanted = if step == 8 {
                Wanted::Everything
            } else {
                Wanted::Due
            };
            bench.work_all(wanted, &model.retention())?;
        } else {
            let mut next = model.clone();
            let run = next.write(rng, 60, 80);
            let flushed = bench.flush(run, &next.retention());
            // Whatever came of it, its stamps are drawn.
            model.clock = next.clock;
            flushed?;
            *model = next;
        }
        if step == 4 {
            model.snapshots.push(model.clock);
        }
    }
    Ok(())
}

/// The tree at its clock shows exactly `before`, or `before` with the interrupted flush.
fn check(bench: &Bench, before: &Model, seed: u64) {
    let newest = bench.all().unwrap().iter().map(|version| version.1).max();
    let known = before.newest();
    if newest > known {
        // The edit in flight arrived. Its run came whole: the next test case compares it.
        let mut after = Model::default();
        let mut rng = Rng::new(seed);
        while after.newest() < newest {
            after.write(&mut rng, 60, 80);
        }
        assert_eq!(after.newest(), newest, "half a run");
        after.snapshots.clone_from(&before.snapshots);
        after.check(bench);
    } else {
        before.check(bench);
    }
}

fn reopened(fs: &MemFs) -> Bench {
    let bench = Bench::reopen(Arc::new(fs.clone()), Order::Bytewise, velella_lsm::open).unwrap();
    bench.tree.verify(&mut |_| ()).unwrap();
    let named: BTreeSet<String> = bench
        .env
        .manifest
        .state()
        .tables()
        .map(|table| format!("{:06}.sst", table.file))
        .collect();
    assert_eq!(
        bench.files().unwrap().into_iter().collect::<BTreeSet<_>>(),
        named
    );
    bench
}

/// Runs the script on a file system that stops working at the `call`-th call; `None` once the
/// script ends before.
fn interrupted(seed: u64, call: u64) -> Option<(MemFs, Model)> {
    let fs = MemFs::new();
    let faulty = FaultFs::new(Arc::new(fs.clone()));
    let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
    let bench = Bench::create(vfs, Order::Bytewise, velella_lsm::open).unwrap();
    faulty.inject(Rule::every(Fault::Io).from_nth(call));
    let mut model = Model::default();
    let outcome = drive(&bench, &mut model, &mut Rng::new(seed));
    outcome.is_err().then_some((fs, model))
}

#[test]
fn after_a_power_cut_at_any_call_the_tree_is_as_before_or_after_the_step() {
    let mut call = 1;
    for round in 0u64.. {
        let seed = round % 5;
        let Some((fs, model)) = interrupted(seed, call) else {
            assert!(round > 60, "the script ended after {round} rounds");
            break;
        };
        for mode in CrashMode::POWER_LOSSES {
            let bench = reopened(&fs.crash(round, mode));
            check(&bench, &model, seed);
            // And it goes on working.
            bench
                .work_all(Wanted::Everything, &model.retention())
                .unwrap();
            check(&bench, &model, seed);
        }
        call += 1 + round % 3;
    }
}

#[test]
fn a_failing_call_leaves_a_tree_that_still_answers() {
    for call in (1..).step_by(3) {
        let fs = MemFs::new();
        let faulty = FaultFs::over_mem(&fs);
        let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
        let bench = Bench::create(vfs, Order::Bytewise, velella_lsm::open).unwrap();
        faulty.inject(Rule::every(Fault::NoSpace).nth(call));
        let mut model = Model::default();
        if drive(&bench, &mut model, &mut Rng::new(1)).is_ok() && faulty.fired() == 0 {
            break;
        }
        faulty.heal();
        model.check(&bench);
        drop(bench);
        let bench = reopened(&fs);
        check(&bench, &model, 1);
    }
}

#[test]
fn a_flipped_byte_in_any_table_is_found_by_verify() {
    let fs = MemFs::new();
    let bench = Bench::create(Arc::new(fs.clone()), Order::Bytewise, velella_lsm::open).unwrap();
    let mut model = Model::default();
    drive(&bench, &mut model, &mut Rng::new(2)).unwrap();
    let mut rng = Rng::new(3);
    let state = bench.env.manifest.state();
    let names: Vec<String> = state
        .tables()
        .map(|table| format!("{:06}.sst", table.file))
        .collect();
    drop(bench);
    for _ in 0..200 {
        let damaged = fs.image(0, CrashMode::KeepAll);
        let name = &names[rng.below(names.len() as u64) as usize];
        let path = Bench::dir().join(name);
        let offset = rng.below(damaged.len(&path).unwrap());
        damaged.flip_byte(&path, offset, 1 << rng.below(8)).unwrap();
        let outcome = Bench::reopen(Arc::new(damaged), Order::Bytewise, velella_lsm::open)
            .and_then(|bench| bench.tree.verify(&mut |_| ()));
        let error = outcome.unwrap_err();
        assert_eq!(error.file(), Some(&*path), "{error}");
    }
}
