//! What a failed sync leaves, while writers on other threads are between `reserve` and `commit`.
//!
//! A script by seed: before the failing sync, right after it took pages away, and after the round
//! read the lanes' tails for its last word, another thread reserves and commits. What is taken from
//! the page cache is drawn, too.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use velella_base::{Error, ErrorKind, Stamp};
use velella_journal::{Access, Journal, Lane, Last};
use velella_sync::rng::Rng;
use velella_sync::simulation::Unaided;
use velella_vfs::fault::{Fault, Rule as FaultRule};
use velella_vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella_vfs::mem::CrashMode;
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

/// Small, a page or more, most of an extent, and a file of its own.
const LENGTHS: [usize; 5] = [8, 100, 3_000, 15_000, 20_000];

/// Lanes in the hands of other threads.
#[derive(Debug)]
struct Writers {
    lanes: Vec<(Lane, bool)>,
    rng: Rng,
}

impl Writers {
    /// One thing that one lane's holder does; whether a record was committed.
    fn step(&mut self, clock: &AtomicU64) {
        let lane = usize::try_from(self.rng.below(self.lanes.len() as u64)).unwrap();
        let (lane, reserved) = &mut self.lanes[lane];
        if std::mem::take(reserved) {
            let stamp = clock.load(Ordering::Acquire) + 1;
            lane.commit(Stamp(stamp)).unwrap();
            clock.store(stamp, Ordering::Release);
            return;
        }
        let len = LENGTHS[usize::try_from(self.rng.below(LENGTHS.len() as u64)).unwrap()];
        match lane.reserve(&[&vec![7; len]]) {
            Ok(()) => *reserved = true,
            Err(error) => assert_eq!(error.kind(), ErrorKind::ReadOnly, "{error}"),
        }
    }
}

/// Stands between the journal and its files: fails syncs, and lets the writers go on around calls.
#[derive(Debug)]
struct Script {
    memory: MemFs,
    clock: AtomicU64,
    writers: Mutex<Option<Writers>>,
    /// What the device does.
    rng: Mutex<Rng>,
    fails: AtomicBool,
    /// Failed syncs take pages away.
    takes: bool,
    /// The clock when the first sync failed, 0 before.
    failed_at: AtomicU64,
}

impl Script {
    /// The writers do some steps, on a thread of their own.
    fn others(&self) {
        let Some(mut writers) = self.writers.lock().unwrap().take() else {
            return;
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                for _ in 0..writers.rng.below(5) {
                    writers.step(&self.clock);
                }
            });
            other.join().unwrap();
        });
        *self.writers.lock().unwrap() = Some(writers);
    }
}

impl Interceptor for Script {
    fn before(&self, call: &Call<'_>) -> Verdict {
        // The writers' own calls, of a new segment for instance, go well.
        let is_round = self.writers.lock().unwrap().is_some();
        if !is_round || !self.fails.load(Ordering::Acquire) {
            return Verdict::Pass;
        }
        let is_seal = call.path.extension().is_some_and(|kind| kind == "seal");
        if call.operation == Operation::Write && is_seal {
            self.others();
        }
        if !call.operation.is_sync() {
            return Verdict::Pass;
        }
        self.others();
        let mut rng = self.rng.lock().unwrap();
        if rng.below(4) == 0 {
            return Verdict::Pass;
        }
        if self.takes {
            self.memory.fail_sync(call.path, rng.next_u64()).unwrap();
        }
        drop(rng);
        let now = self.clock.load(Ordering::Acquire);
        let _ = self
            .failed_at
            .compare_exchange(0, now, Ordering::AcqRel, Ordering::Acquire);
        self.others();
        let source = std::io::Error::from_raw_os_error(5);
        Verdict::Fail(Error::io("sync", call.path, source))
    }

    fn after(&self, _: &Call<'_>, _: bool) {}
}

/// What a failed round left.
struct Scene {
    memory: MemFs,
    last: Last,
    durable: u64,
    /// The last stamp, and the last when a sync failed (0 if none did).
    clock: u64,
    failed_at: u64,
}

/// Some rounds that go well, then one whose syncs may fail.
fn play(seed: u64, takes: bool) -> Scene {
    // One sync after the other: with threads, their order would not follow from the seed.
    let _unaided = Unaided::begin();
    let mut rng = Rng::new(seed);
    let memory = MemFs::new();
    let script = Arc::new(Script {
        memory: memory.clone(),
        clock: AtomicU64::new(0),
        writers: Mutex::default(),
        rng: Mutex::new(Rng::new(rng.next_u64())),
        fails: AtomicBool::new(false),
        takes,
        failed_at: AtomicU64::new(0),
    });
    let inner = Arc::new(memory.clone());
    let vfs = Arc::new(Intercepted::standing(Arc::clone(&script), inner));
    let mut config = config(vfs, 1, 3);
    config.access = [Access::Mapped, Access::Write][usize::from(rng.below(3) == 0)];
    config.ack_after_done = rng.below(4) == 0;
    let (journal, lanes, start) = Journal::create(config, Stamp::ZERO).unwrap();
    *script.writers.lock().unwrap() = Some(Writers {
        lanes: lanes.into_iter().map(|lane| (lane, false)).collect(),
        rng: Rng::new(rng.next_u64()),
    });
    let frontier = || Stamp(script.clock.load(Ordering::Acquire));
    for _ in 0..rng.below(8) {
        (0..1 + rng.below(6)).for_each(|_| script.others());
        journal.round(frontier).unwrap();
    }
    (0..4).for_each(|_| script.others());
    script.fails.store(true, Ordering::Release);
    let _ = journal.round(frontier);
    (0..3).for_each(|_| script.others());
    Scene {
        memory,
        last: Last {
            incarnation: 1,
            start,
            durable: Stamp::ZERO,
            assume_power_loss: false,
            accept_loss: false,
        },
        durable: journal.durable().0,
        clock: script.clock.load(Ordering::Acquire),
        failed_at: script.failed_at.load(Ordering::Acquire),
    }
}

/// Whatever the failure took, and whatever others wrote meanwhile: what is left is a prefix, with
/// all that was durable.
#[test]
fn what_a_failed_sync_leaves_is_a_prefix_whatever_others_write_meanwhile() {
    let (mut whole, mut cut) = (0, 0);
    for seed in 0..1_000 {
        let scene = play(seed, true);
        for mode in [CrashMode::KeepAll, CrashMode::Random, CrashMode::Strict] {
            let image = scene.memory.image(seed, mode);
            let recovered = recover(&image, &scene.last)
                .unwrap_or_else(|error| panic!("seed {seed}, {mode:?}: {error}"));
            let stamps = recovered.stamps();
            let prefix: Vec<_> = (1..=stamps.len() as u64).collect();
            assert_eq!(
                stamps, prefix,
                "seed {seed}, {mode:?}: {:?}",
                recovered.report
            );
            let found = stamps.len() as u64;
            assert!(found >= scene.durable, "seed {seed}, {mode:?}: {found}");
            if mode == CrashMode::KeepAll && scene.failed_at > 0 {
                whole += u64::from(found == scene.clock);
                cut += u64::from(found < scene.clock);
            }
        }
    }
    assert!(whole > 10 && cut > 100, "{whole} whole, {cut} cut");
}

/// Where the failure took nothing, all is there that was written before it.
#[test]
fn a_failed_sync_that_took_nothing_costs_nothing_written_before_it() {
    let mut failed = 0;
    for seed in 0..300 {
        let scene = play(seed, false);
        let image = scene.memory.image(seed, CrashMode::KeepAll);
        let found = recover(&image, &scene.last).unwrap().stamps().len() as u64;
        let least = match scene.failed_at {
            0 => scene.clock,
            before => before,
        };
        assert!(found >= least, "seed {seed}: {found} of {least}");
        failed += u64::from(scene.failed_at > 0);
    }
    assert!(failed > 100, "{failed}");
}

/// The last word of a failed round vouches for no record whose external value may not be durable.
#[test]
fn a_failed_round_vouches_for_no_value_that_was_not_synced() {
    for registers in [false, true] {
        let memory = MemFs::new();
        let faults = FaultFs::new(Arc::new(memory.clone()));
        let clock = Arc::new(AtomicU64::new(0));
        let writer = Arc::new(Mutex::new(None::<(Lane, Arc<Journal>)>));
        let mut config = config(Arc::new(faults.clone()), 1, 1);
        let (late, files, now) = (Arc::clone(&writer), memory.clone(), Arc::clone(&clock));
        // Asked for after the round took the values it syncs.
        config.note = Some(Arc::new(move || {
            if let Some((lane, journal)) = &mut *late.lock().unwrap() {
                if registers {
                    let file = files.create(&dir().join("000099.ext")).unwrap();
                    journal.sync_with_next_round(file);
                }
                lane.reserve(&[b"two"]).unwrap();
                lane.commit(Stamp(2)).unwrap();
                now.store(2, Ordering::Release);
            }
            0
        }));
        let mut bench = Bench::start(config).unwrap();
        bench.write(0, b"one").unwrap();
        clock.store(1, Ordering::Release);
        let lane = bench.lanes.pop().unwrap();
        *writer.lock().unwrap() = Some((lane, Arc::clone(&bench.journal)));
        faults.inject(FaultRule::every(Fault::Io).of(Operation::SyncMap));
        let frontier = || Stamp(clock.load(Ordering::Acquire));
        bench.journal.round(frontier).unwrap_err();
        let recovered = recover(&memory, &bench.last()).unwrap();
        let expected: &[u64] = if registers { &[1] } else { &[1, 2] };
        assert_eq!(recovered.stamps(), expected);
    }
}

/// Recovery syncs what the page cache holds before it believes it. If that sync fails, and the
/// opening is tried again, what it took away must not be a hole.
#[test]
fn what_a_failed_sync_of_recovery_leaves_is_a_prefix_too() {
    let mut failed = 0;
    for seed in 1..50 {
        let memory = MemFs::new();
        let mut bench = Bench::start(config(Arc::new(memory.clone()), 1, 2)).unwrap();
        bench.write(0, b"one").unwrap();
        bench.write(1, b"two").unwrap();
        bench.round().unwrap();
        bench.write(0, b"three").unwrap();
        bench.write(1, b"four").unwrap();
        let image = memory.image(seed, CrashMode::KeepAll);
        assert_eq!(
            recover(&image, &bench.last()).unwrap().stamps(),
            [1, 2, 3, 4]
        );
        let image = memory.image(seed, CrashMode::KeepAll);
        let faults = FaultFs::over_device(&image, seed);
        faults.inject(
            FaultRule::every(Fault::Io)
                .of(Operation::SyncData)
                .on(".seg"),
        );
        let first = recover(&faults, &bench.last()).unwrap();
        failed += u64::from(first.stamps() == [1, 2]);
        let second = recover(&image, &bench.last()).unwrap().stamps();
        let prefix: Vec<_> = (1..=second.len() as u64).collect();
        assert_eq!(second, prefix, "seed {seed}, first {:?}", first.report);
    }
    assert!(failed > 10, "{failed}");
}

/// What had returned above a write that was under way when a sync failed goes with that write: the
/// word of the failure cannot vouch for what is not complete. That is said in RELIABILITY.md.
#[test]
fn a_write_under_way_when_a_sync_fails_takes_those_above_it_along() {
    let memory = MemFs::new();
    let faults = FaultFs::new(Arc::new(memory.clone()));
    let mut bench = Bench::start(config(Arc::new(faults.clone()), 1, 2)).unwrap();
    bench.write(0, b"one").unwrap();
    let [slow, quick] = &mut *bench.lanes else {
        panic!("two lanes");
    };
    slow.reserve(&[b"two"]).unwrap();
    quick.reserve(&[b"three"]).unwrap();
    quick.commit(Stamp(3)).unwrap();
    faults.inject(FaultRule::every(Fault::Io).of(Operation::SyncMap));
    // The window of the second is open.
    bench.journal.round(|| Stamp(1)).unwrap_err();
    bench.lanes[0].commit(Stamp(2)).unwrap();
    let killed = memory.image(1, CrashMode::KeepAll);
    assert_eq!(recover(&killed, &bench.last()).unwrap().stamps(), [1]);
}
