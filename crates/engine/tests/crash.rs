//! Crashes at any point: what was promised is there, nothing else, and life goes on.
//!
//! Claims: docs/consistency.md, "Durability"; `open.rs` O1, O2; `recovery.rs` R1-R3.
//! Replay one run with `VELELLA_SEED=n cargo test -p velella --test suite crash::`.

use crate::common::log::{Stores, Written, assert_kept, assert_prefix, is_fault};
use crate::common::{DIR, contents, on, tiny, try_on, until};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use velella::vfs::fault::{Fault, Rule};
use velella::vfs::mem::CrashMode;
use velella::vfs::{FaultFs, MemFs, Vfs};
use velella::{JournalMode, MemtableKind, Stamp, WriteBatch, WriteOptions};
use velella_testkit::{Seed, Watchdog, seeds};

const MODES: [CrashMode; 4] = [
    CrashMode::KeepAll,
    CrashMode::Strict,
    CrashMode::Prefix,
    CrashMode::Random,
];

/// A machine as a crash left it, and what had been promised by then.
struct Image {
    fs: MemFs,
    mode: CrashMode,
    acknowledged: usize,
    durable: Stamp,
}

/// After a crash: checks what is there, then lives on through 100 writes and another crash.
fn assert_recovers(image: &Image, writes: &[Written], seed: &mut Seed, what: &str) {
    let fs = crash_in_recovery(image, seed);
    let stores = Stores::of(on(&fs, tiny())).unwrap();
    let state = stores.state();
    match image.mode {
        CrashMode::KeepAll => assert_kept(writes, image.acknowledged, &state, what),
        _ => drop(assert_prefix(writes, &state, image.durable, what)),
    }
    let last = writes
        .iter()
        .map(|written| written.stamp)
        .max()
        .unwrap_or(Stamp::ZERO);
    let base = Stamp(stores.db.stats().last_stamp);
    assert!(stores.db.durable() <= base);
    // What was found is what later writes build on.
    let found = state
        .into_iter()
        .map(|(place, value)| (place, Some(value)))
        .collect();
    let mut after = vec![Written {
        stamp: base,
        changes: found,
    }];
    for _ in 0..100 {
        let written = stores.random_write(seed, 20, 100).unwrap();
        assert!(
            written.stamp > last,
            "{what}: stamp {} was used before",
            written.stamp
        );
        after.push(written);
        if seed.one_in(50) {
            stores.db.flush().unwrap();
        }
    }
    let durable = stores.db.durable().max(base);
    let mode = *seed.pick(&MODES);
    let fs = fs.crash(seed.below(1 << 30), mode);
    let state = Stores::of(on(&fs, tiny())).unwrap().state();
    match mode {
        CrashMode::KeepAll => assert_kept(&after, after.len(), &state, what),
        _ => drop(assert_prefix(
            &after,
            &state,
            durable,
            &format!("{what}, then {mode:?}"),
        )),
    }
}

/// Lets the opening fail at a random call and crashes there, some times.
fn crash_in_recovery(image: &Image, seed: &mut Seed) -> MemFs {
    let mut fs = image.fs.clone();
    for _ in 0..seed.below(3) {
        let faulty = FaultFs::new(Arc::new(fs.clone()));
        faulty.inject(Rule::every(Fault::Io).from_nth(1 + seed.below(120)));
        drop(try_on(Arc::new(faulty), tiny()));
        // A power loss after a kill may lose what only the page cache had.
        let mode = if image.mode == CrashMode::KeepAll {
            CrashMode::KeepAll
        } else {
            *seed.pick(&MODES)
        };
        fs = fs.crash(seed.below(1 << 30), mode);
    }
    fs
}

#[test]
fn threads_crashed_at_any_moment_keep_what_was_promised() {
    let _watchdog = Watchdog::new("threads_crashed_at_any_moment", 500);
    for number in seeds(6) {
        let mut seed = Seed::new("threads_crashed", number);
        let fs = MemFs::new();
        let builder = tiny()
            .memtable(*seed.pick(&MemtableKind::ALL))
            .journal(*seed.pick(&[JournalMode::Mapped, JournalMode::Mapped, JournalMode::Write]));
        let stores = Stores::of(on(&fs, builder)).unwrap();
        stores.db.persist().unwrap();
        let log = Mutex::new(Vec::new());
        let mut images = Vec::new();
        let threads = 3;
        let running = AtomicUsize::new(threads);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (stores, log, running) = (&stores, &log, &running);
                let mut seed = seed.fork(thread as u64);
                scope.spawn(move || {
                    for _ in 0..500 {
                        let written = stores.random_write(&mut seed, 20, 600).unwrap();
                        log.lock().unwrap().push(written);
                        if seed.one_in(150) {
                            stores.db.flush().unwrap();
                        }
                    }
                    running.fetch_sub(1, Ordering::Release);
                });
            }
            while running.load(Ordering::Acquire) > 0 && images.len() < 12 {
                let target = log.lock().unwrap().len() + seed.index(200);
                until(|| {
                    log.lock().unwrap().len() >= target || running.load(Ordering::Acquire) == 0
                });
                let (acknowledged, durable) = (log.lock().unwrap().len(), stores.db.durable());
                let mode = *seed.pick(&MODES);
                let fs = fs.image(seed.below(1 << 30), mode);
                images.push(Image {
                    fs,
                    mode,
                    acknowledged,
                    durable,
                });
            }
        });
        let writes = log.into_inner().unwrap();
        for (place, image) in images.iter().enumerate() {
            let what = format!("seed {number}, image {place}, {:?}", image.mode);
            assert_recovers(image, &writes, &mut seed, &what);
        }
    }
}

#[test]
fn without_a_journal_a_crash_leaves_a_prefix_too() {
    let _watchdog = Watchdog::new("without_a_journal", 500);
    for number in seeds(4) {
        let mut seed = Seed::new("without_a_journal", number);
        let fs = MemFs::new();
        let builder = || tiny().journal(JournalMode::Off);
        let stores = Stores::of(on(&fs, builder())).unwrap();
        let log = Mutex::new(Vec::new());
        let mut images = Vec::new();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|thread| {
                    let (stores, log) = (&stores, &log);
                    let mut seed = seed.fork(thread);
                    scope.spawn(move || {
                        for _ in 0..400 {
                            let written = stores.random_write(&mut seed, 20, 600).unwrap();
                            log.lock().unwrap().push(written);
                        }
                    })
                })
                .collect();
            while writers.iter().any(|writer| !writer.is_finished()) {
                stores.db.flush().unwrap();
                let durable = stores.db.durable();
                let mode = *seed.pick(&MODES);
                images.push((fs.image(seed.below(1 << 30), mode), mode, durable));
            }
        });
        let writes = log.into_inner().unwrap();
        images.truncate(40);
        for (fs, mode, durable) in images {
            let state = Stores::of(on(&fs, builder())).unwrap().state();
            assert_prefix(
                &writes,
                &state,
                durable,
                &format!("seed {number}, {mode:?}"),
            );
        }
    }
}

/// The operations of small workloads.
const OPERATIONS: usize = 6;

fn perform(stores: &Stores, operation: usize, round: u8) -> velella::Result<Option<Written>> {
    let [one, two] = &stores.keyspaces;
    let value = vec![round + 1; 20];
    let place = |number: u8, key: &str| (number, key.as_bytes().to_vec());
    let written = |stamp, changes| Ok(Some(Written { stamp, changes }));
    match operation {
        0 => written(one.put("a", &value)?, vec![(place(0, "a"), Some(value))]),
        1 => {
            let stamp = two.put_with("b", &value, WriteOptions::sync())?;
            written(stamp, vec![(place(1, "b"), Some(value))])
        }
        2 => written(one.delete("a")?, vec![(place(0, "a"), None)]),
        3 => {
            let mut batch = WriteBatch::new();
            batch.put(one, "a", &value).put(two, "b", &value);
            let stamp = stores.db.write(&batch)?;
            written(
                stamp,
                vec![
                    (place(0, "a"), Some(value.clone())),
                    (place(1, "b"), Some(value)),
                ],
            )
        }
        4 => one.flush().map(|()| None),
        _ => stores.db.compact().map(|()| None),
    }
}

/// All sequences of up to `longest` operations.
fn workloads(longest: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    let mut last: Vec<Vec<usize>> = all.clone();
    for _ in 0..longest {
        let extend = |workload: &Vec<usize>| {
            let workload = workload.clone();
            (0..OPERATIONS).map(move |next| [&workload[..], &[next]].concat())
        };
        last = last.iter().flat_map(extend).collect();
        all.extend(last.iter().cloned());
    }
    all
}

#[test]
fn every_small_workload_survives_a_crash_after_each_operation() {
    let _watchdog = Watchdog::new("every_small_workload", 500);
    for workload in workloads(3) {
        let fs = MemFs::new();
        let stores = Stores::of(on(&fs, tiny())).unwrap();
        let mut writes = Vec::new();
        for (round, operation) in (0u8..).zip(&workload) {
            writes.extend(perform(&stores, *operation, round).unwrap());
        }
        let durable = stores.db.durable();
        for mode in MODES {
            let image = fs.image(workload.len() as u64, mode);
            let state = Stores::of(on(&image, tiny())).unwrap().state();
            let what = format!("{workload:?} {mode:?}");
            if mode == CrashMode::KeepAll {
                assert_kept(&writes, writes.len(), &state, &what);
            } else {
                assert_prefix(&writes, &state, durable, &what);
            }
        }
    }
}

#[test]
fn every_call_of_a_workload_is_a_crash_point() {
    let _watchdog = Watchdog::new("every_call_of_a_workload", 500);
    for workload in [[0, 1, 3], [3, 4, 0], [0, 4, 2], [1, 5, 3], [4, 3, 5]] {
        for k in 1.. {
            let mem = MemFs::new();
            let faulty = FaultFs::new(Arc::new(mem.clone()));
            let stores = Stores::of(try_on(Arc::new(faulty.clone()), tiny()).unwrap()).unwrap();
            faulty.reset();
            // From here on the machine stands still: no call does anything any more.
            faulty.inject(Rule::every(Fault::Io).from_nth(k));
            let mut writes = Vec::new();
            for (round, operation) in (0u8..).zip(&workload) {
                match perform(&stores, *operation, round) {
                    Ok(written) => writes.extend(written),
                    Err(error) => {
                        assert!(is_fault(&error), "{error}");
                        break;
                    }
                }
            }
            let durable = stores.db.durable();
            let reached = faulty.fired() > 0;
            for mode in [CrashMode::Strict, CrashMode::Random] {
                let image = mem.image(k, mode);
                let found = Stores::of(on(&image, tiny())).unwrap();
                assert_crashed(
                    &workload,
                    &writes,
                    &found,
                    durable,
                    &format!("{workload:?} call {k} {mode:?}"),
                );
            }
            if !reached {
                break;
            }
        }
    }
}

/// The operation that met the crash may have happened or not.
fn assert_crashed(
    workload: &[usize],
    writes: &[Written],
    found: &Stores,
    durable: Stamp,
    what: &str,
) {
    let state = found.state();
    let stamp = writes.last().map_or(Stamp(durable.0 + 1), |last| {
        Stamp(last.stamp.0.max(durable.0) + 1)
    });
    let of = |round: usize| u8::try_from(round).unwrap();
    let interrupted = workload
        .iter()
        .enumerate()
        .filter_map(|(round, operation)| {
            let value = Some(vec![of(round) + 1; 20]);
            let (a, b) = ((0u8, b"a".to_vec()), (1u8, b"b".to_vec()));
            let changes = match operation {
                0 => vec![(a, value)],
                1 => vec![(b, value)],
                2 => vec![(a, None)],
                3 => vec![(a, value.clone()), (b, value)],
                _ => return None,
            };
            Some(Written { stamp, changes })
        });
    let next = interrupted.skip(writes.len()).take(1);
    let all: Vec<Written> = writes.iter().cloned().chain(next).collect();
    assert_prefix(&all, &state, durable, what);
}

#[test]
fn the_directory_itself_survives_a_crash_at_every_call_of_its_creation() {
    let _watchdog = Watchdog::new("the_directory_itself", 300);
    for mode in MODES {
        for k in 1.. {
            let mem = MemFs::new();
            let faulty = FaultFs::new(Arc::new(mem.clone()));
            faulty.inject(Rule::every(Fault::Io).from_nth(k));
            let outcome = try_on(Arc::new(faulty.clone()), tiny());
            let reached = faulty.fired() > 0;
            drop(outcome);
            let after = mem.crash(k, mode);
            let db = on(&after, tiny());
            assert!(contents(&db).is_empty());
            db.put_with("k", "v", WriteOptions::sync()).unwrap();
            let after = after.crash(k + 1, CrashMode::Strict);
            assert!(after.exists(DIR.as_ref()).unwrap(), "call {k}, {mode:?}");
            assert_eq!(
                on(&after, tiny()).get("k").unwrap().unwrap(),
                "v",
                "call {k}, {mode:?}"
            );
            if !reached {
                break;
            }
        }
    }
}

#[test]
fn what_was_read_survives_the_process() {
    let _watchdog = Watchdog::new("what was read", 60);
    let fs = MemFs::new();
    let db = on(&fs, tiny());
    for round in 0..20u64 {
        let value = round.to_le_bytes();
        let after = std::thread::scope(|scope| {
            scope.spawn(|| db.put("k", value).unwrap());
            until(|| db.get("k").unwrap().is_some_and(|found| *found == value));
            // The put may not have returned.
            fs.image(round, CrashMode::KeepAll)
        });
        let found = on(&after, tiny()).get("k").unwrap().unwrap();
        assert_eq!(*found, value, "a reader has told of it");
    }
}
