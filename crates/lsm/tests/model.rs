//! The tree against a model of every version: jobs begun, run and given up in any order beside
//! flushes, the shape of levels that they leave, and damage that is named.
//!
//! Claims: `tree.rs` S1, `version.rs` V1 to V3, `compaction.rs` Z1 and Z2, `picker.rs` P1 to P3.

#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::cast_possible_truncation, reason = "small numbers of a test")]

use std::sync::Arc;
use velella_base::{ErrorKind, Order, Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_sst::{Compression, TableMeta};
use velella_sync::rng::Rng;
use velella_tree::contract::{Bench, Model, Run};
use velella_tree::{Edit, Job, Wanted};
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::{FaultFs, MemFs, Operation, Vfs};

fn bench_on(fs: &MemFs, order: Order) -> Bench {
    Bench::create(Arc::new(fs.clone()), order, velella_lsm::open).unwrap()
}

fn orders() -> [Order; 2] {
    [Order::Bytewise, Order::custom("reversed", |a, b| b.cmp(a))]
}

fn at(frontier: u64) -> Retention {
    Retention::new(Stamp(frontier), Stamp(frontier), Vec::new())
}

fn put(key: &str, stamp: u64) -> (Vec<u8>, u64, ValueKind, Vec<u8>) {
    (key.into(), stamp, ValueKind::Put, vec![b'v'; 30])
}

/// The tables by level, as the manifest has them.
fn shape(bench: &Bench) -> Vec<Vec<TableMeta>> {
    let state = bench.env.manifest.state();
    state.keyspace(1).unwrap().levels.clone()
}

/// V2 and Z2, by what the manifest says: deeper levels are disjoint by key.
fn check_shape(bench: &Bench) {
    let order = &bench.options.table.order;
    for level in shape(bench).iter().skip(1) {
        let mut tables: Vec<&TableMeta> = level.iter().collect();
        tables.sort_by(|a, b| order.compare(&a.smallest, &b.smallest));
        for pair in tables.windows(2) {
            let apart = order.compare(&pair[0].largest, &pair[1].smallest).is_lt();
            assert!(apart, "V2: {pair:?}");
        }
    }
    let sizes = bench.tree.levels();
    let named = shape(bench);
    for (level, tables) in named
        .iter()
        .enumerate()
        .filter(|(_, tables)| !tables.is_empty())
    {
        let bytes: u64 = tables.iter().map(|table| table.bytes).sum();
        let entries: u64 = tables.iter().map(TableMeta::entries).sum();
        let size = sizes[level];
        assert_eq!(
            (size.tables, size.bytes, size.entries),
            (tables.len(), bytes, entries)
        );
    }
}

/// Flushes, jobs begun and left lying, run or given up later, snapshots, restarts.
#[test]
fn jobs_run_or_given_up_in_any_order_beside_flushes_lose_nothing_that_is_read() {
    for number in 0..16 {
        println!("seed {number}");
        let mut rng = Rng::new(number);
        let order = orders()[number as usize % 2].clone();
        let mut bench = bench_on(&MemFs::new(), order);
        let mut model = Model::default();
        let mut begun: Vec<Box<dyn Job>> = Vec::new();
        for _ in 0..60 {
            match rng.below(12) {
                0..4 => {
                    let count = 20 + rng.below(60);
                    let run = model.write(&mut rng, count, 150);
                    bench.flush(run, &model.retention()).unwrap();
                }
                4..7 => {
                    let wanted = [
                        Wanted::Due,
                        Wanted::Gathering,
                        Wanted::Everything,
                        Wanted::Rest,
                    ];
                    let wanted = wanted[rng.below(4) as usize];
                    begun.extend(bench.tree.next_job(wanted, &model.retention()));
                }
                7..9 if !begun.is_empty() => {
                    let job = begun.swap_remove(rng.below(begun.len() as u64) as usize);
                    job.run(&|| model.retention(), &|| Ok(true)).unwrap();
                }
                9 if !begun.is_empty() => {
                    let job = begun.swap_remove(rng.below(begun.len() as u64) as usize);
                    // One that is over before it looks has happened.
                    if let Err(error) = job.run(&|| model.retention(), &|| Ok(false)) {
                        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                    }
                }
                10 => model.snapshots.push(model.clock),
                11 if rng.below(3) == 0 => {
                    begun.clear();
                    bench = bench.restart().unwrap();
                }
                _ => begun.truncate(2),
            }
            check_shape(&bench);
            model.check(&bench);
        }
        drop(begun);
        model.snapshots.clear();
        // The first ends what was begun, while snapshots still read tombstones.
        for _ in 0..2 {
            bench
                .work_all(Wanted::Everything, &model.retention())
                .unwrap();
        }
        model.check(&bench);
        let left = bench.all().unwrap();
        assert!(
            left.iter().all(|version| version.2 == ValueKind::Put),
            "a tombstone is left"
        );
        bench.tree.verify(&mut |_| ()).unwrap();
    }
}

#[test]
fn what_is_due_comes_to_an_end_and_leaves_every_level_within_its_target_and_no_brake() {
    for number in 0..6 {
        let mut rng = Rng::new(number);
        let bench = bench_on(&MemFs::new(), orders()[number as usize % 2].clone());
        let mut model = Model::default();
        for _ in 0..50 {
            let run = model.write(&mut rng, 80, 2_000);
            bench.flush(run, &model.retention()).unwrap();
        }
        let before = bench.tree.pressure();
        assert_eq!(
            (before.level0_tables > 40, before.brake),
            (true, 1.0),
            "{before:?}"
        );
        bench.work_all(Wanted::Due, &model.retention()).unwrap();
        let after = bench.tree.pressure();
        assert_eq!((after.debt_bytes, after.brake), (0, 0.0), "{after:?}");
        let levels = bench.tree.levels();
        assert!(levels[0].tables < bench.options.level0_latest, "{levels:?}");
        let mut target = bench.options.level_bytes;
        for level in &levels[1..] {
            assert!(level.bytes <= target, "{levels:?}");
            target *= 10;
        }
        check_shape(&bench);
        model.check(&bench);
    }
}

#[test]
fn outputs_have_the_size_that_was_asked_for_unless_a_key_is_longer() {
    let bench = bench_on(&MemFs::new(), Order::Bytewise);
    let mut stamp = 0;
    let mut run = |keys: std::ops::Range<u32>| -> Run {
        let versions = keys.map(|key| {
            stamp += 1;
            put(&format!("key{key:05}"), stamp)
        });
        versions.collect()
    };
    for _ in 0..4 {
        let run = run(0..600);
        bench.flush(run, &at(0)).unwrap();
    }
    // One key of many versions, all of them read: never split (Z2).
    let everyone = Retention::new(Stamp(9_999), Stamp(9_999), (0..9_999).map(Stamp).collect());
    let long: Run = (5_000..5_400).map(|stamp| put("key00300", stamp)).collect();
    bench.flush(long, &everyone).unwrap();
    bench.work_all(Wanted::Everything, &everyone).unwrap();
    let levels = shape(&bench);
    let tables: Vec<&TableMeta> = levels.iter().flatten().collect();
    assert!(tables.len() > 10, "{} tables", tables.len());
    let limit = bench.options.table_bytes * 2;
    for table in &tables {
        let is_long =
            table.smallest <= b"key00300".to_vec() && table.largest >= b"key00300".to_vec();
        assert!(
            is_long || table.bytes <= limit,
            "{} bytes of {limit}",
            table.bytes
        );
    }
    let holding = tables.iter().filter(|table| {
        table.smallest.as_slice() <= b"key00300" && table.largest.as_slice() >= b"key00300"
    });
    assert_eq!(holding.count(), 1, "Z2");
    check_shape(&bench);
    assert_eq!(bench.all().unwrap().len(), 600 * 4 + 400);
}

/// So many keys from `from` on.
fn ascending(from: u32, count: u32) -> Run {
    let keys = from..from + count;
    keys.map(|key| put(&format!("{key:06}"), 1)).collect()
}

/// Brings runs straight to `level`, as compactions would have in time.
fn install_at(bench: Bench, level: u32, runs: Vec<Run>) -> Bench {
    for run in runs {
        let mut built = bench.build(run, &at(0)).unwrap();
        let tables = built.keep();
        let edit = Edit::AddTables {
            keyspace: 1,
            level,
            tables,
        };
        bench.env.manifest.commit(&[edit]).unwrap();
    }
    bench.restart().unwrap()
}

#[test]
fn an_output_never_overlaps_much_of_the_level_below_its_own() {
    // Level 3 is full; what comes to level 2 is little, but spans all of it.
    let bench = install_at(
        bench_on(&MemFs::new(), Order::Bytewise),
        3,
        (0..60).map(|part| ascending(part * 60, 60)).collect(),
    );
    let sparse: Run = (0..60)
        .map(|part| put(&format!("{:06}", part * 60 + 30), 2))
        .collect();
    let bench = install_at(bench, 1, vec![sparse]);
    // Its first step brings level 1 to level 2.
    assert!(bench.work(Wanted::Everything, &at(0)).unwrap());
    let levels = shape(&bench);
    assert!(
        levels[1].is_empty() && levels[2].len() > 1,
        "it was split: {levels:?}"
    );
    for table in &levels[2] {
        let below = levels[3]
            .iter()
            .filter(|below| below.smallest <= table.largest && table.smallest <= below.largest);
        let bytes: u64 = below.map(|below| below.bytes).sum();
        let limit = 12 * bench.options.table_bytes;
        assert!(
            bytes <= limit,
            "{bytes} bytes of level 3 under one table, {limit} at most"
        );
    }
    assert_eq!(bench.all().unwrap().len(), 60 * 60 + 60);
}

#[test]
fn tables_and_parts_of_deeper_levels_are_larger() {
    for level in 2..6u32 {
        let bench = bench_on(&MemFs::new(), Order::Bytewise);
        let below = (0..400).map(|part| ascending(part * 10, 10)).collect();
        let bench = install_at(bench, level, below);
        let sparse = (0..40).map(|part| put(&format!("{:06}", part * 100 + 50), 2));
        let bench = install_at(bench, level - 1, vec![sparse.collect()]);
        let bytes = bench.tree.levels()[level as usize].bytes;
        let table_bytes = bench.options.table_bytes_at(level as usize);
        let before = bench.tree.generation();
        assert!(bench.work(Wanted::Everything, &at(0)).unwrap());
        // Each part of two tables' worth is a change, which raises the generation twice.
        let parts = (bench.tree.generation() - before) / 2;
        let wanted = bytes / (2 * table_bytes);
        assert!(
            (wanted * 8 / 10..=wanted + 1).contains(&parts),
            "level {level}: {parts} parts of {wanted}"
        );
        // What is left of a full compaction rewrites what is small.
        bench.work_all(Wanted::Rest, &at(0)).unwrap();
        let levels = shape(&bench);
        let tables = &levels[level as usize];
        let mean = tables.iter().map(|table| table.bytes).sum::<u64>() / tables.len() as u64;
        assert!(
            (table_bytes / 3..=table_bytes).contains(&mean),
            "level {level}: {mean} bytes of {table_bytes}"
        );
        check_shape(&bench);
    }
}

#[test]
fn a_full_compaction_ends_though_flushes_go_on_beside_it() {
    let bench = bench_on(&MemFs::new(), Order::Bytewise);
    let mut model = Model::default();
    let mut rng = Rng::new(5);
    for _ in 0..6 {
        let run = model.write(&mut rng, 100, 500);
        bench.flush(run, &model.retention()).unwrap();
    }
    let (mut steps, mut wanted) = (0, Wanted::Everything);
    while bench.work(wanted, &model.retention()).unwrap() {
        wanted = Wanted::Rest;
        let run = model.write(&mut rng, 30, 500);
        bench.flush(run, &model.retention()).unwrap();
        steps += 1;
        assert!(steps < 200, "it takes over what came after it began");
    }
    assert!(steps > 0);
    model.check(&bench);
    // What came meanwhile is the next one's business.
    assert!(bench.tree.levels()[0].tables > 0);
}

#[test]
fn new_tables_get_the_new_style_and_old_ones_keep_theirs_until_they_are_rewritten() {
    let bench = bench_on(&MemFs::new(), Order::Bytewise);
    let many = |from: u64| -> Run {
        (from..from + 50)
            .map(|key| put(&format!("{key:03}"), key + 1))
            .collect()
    };
    bench.flush(many(0), &at(0)).unwrap();
    let mut style = bench.options.style();
    style.bloom_bits = 0;
    style.compression = Compression::None;
    style.upper_compression = Compression::Lz4;
    bench.tree.restyle(style);
    bench.flush(many(100), &at(0)).unwrap();
    let filters = |bench: &Bench| -> Vec<bool> {
        let mut tables: Vec<_> = shape(bench).into_iter().flatten().collect();
        tables.sort_by_key(|table| table.file);
        let probes = || bench.env.counters.filter_probes.sum();
        let is_asked = |table: &TableMeta| {
            let before = probes();
            bench.get(&table.smallest, 9_999).unwrap().unwrap();
            probes() > before
        };
        tables.iter().map(is_asked).collect()
    };
    assert_eq!(filters(&bench), [true, false]);
    bench.work_all(Wanted::Everything, &at(0)).unwrap();
    assert!(filters(&bench).iter().all(|filtered| !filtered));
    assert_eq!(bench.all().unwrap().len(), 100);
}

#[test]
fn a_job_that_fails_at_any_call_says_so_frees_its_inputs_and_leaves_no_files() {
    let script = |bench: &Bench| {
        for stamp in 0..5u64 {
            let run = (0..60)
                .map(|key| put(&format!("{key:03}"), 1 + stamp * 100 + key))
                .collect();
            bench.flush(run, &at(0)).unwrap();
        }
    };
    for operation in Operation::ALL {
        for nth in 1..60 {
            let fs = MemFs::new();
            let faulty = FaultFs::over_mem(&fs);
            let vfs: Arc<dyn Vfs> = Arc::new(faulty.clone());
            let bench = Bench::create(vfs, Order::Bytewise, velella_lsm::open).unwrap();
            script(&bench);
            let (before, all) = (bench.files().unwrap(), bench.all().unwrap());
            let job = bench.tree.next_job(Wanted::Due, &at(0)).unwrap();
            // Only calls for tables: what a failed commit leaves is the manifest's to say.
            faulty.reset();
            faulty.inject(Rule::every(Fault::Io).of(operation).on(".sst").nth(nth));
            let outcome = job.run(&|| at(9_999), &|| Ok(true));
            let fired = faulty.fired() > 0;
            faulty.heal();
            if !fired {
                outcome.unwrap();
                break;
            }
            if let Err(error) = outcome {
                let what = format!("{operation:?} {nth}: {error}");
                assert!(error.file().is_some(), "{what}");
                assert_eq!(bench.all().unwrap(), all, "{what}");
                if operation != Operation::Remove {
                    assert_eq!(bench.files().unwrap(), before, "{what}");
                }
                let again = bench
                    .tree
                    .next_job(Wanted::Due, &at(0))
                    .expect("its inputs are free");
                again.run(&|| at(9_999), &|| Ok(true)).unwrap();
            }
            assert_eq!(bench.all().unwrap().len(), 60, "{operation:?} {nth}");
        }
    }
}

#[test]
fn tables_that_cannot_stand_together_and_another_order_are_refused_by_name() {
    let fs = MemFs::new();
    let bench = bench_on(&fs, Order::Bytewise);
    let mut numbers = Vec::new();
    for run in [
        vec![put("a", 1), put("m", 2)],
        vec![put("m", 3), put("z", 4)],
    ] {
        let mut built = bench.build(run, &at(0)).unwrap();
        let tables = built.keep();
        numbers.push(tables[0].file);
        let edit = Edit::AddTables {
            keyspace: 1,
            level: 2,
            tables,
        };
        bench.env.manifest.commit(&[edit]).unwrap();
    }
    drop(bench);
    let reopen = |order: Order| {
        let opened = Bench::reopen(Arc::new(fs.clone()), order, velella_lsm::open);
        opened.map(drop).unwrap_err()
    };
    let error = reopen(Order::Bytewise);
    assert_eq!(error.kind(), ErrorKind::Corruption);
    let manifest = error.file().unwrap().file_name().unwrap().to_str().unwrap();
    assert!(manifest.starts_with("MANIFEST-"), "{error}");
    for part in numbers.iter().map(|number| format!("{number:06}")) {
        assert!(error.to_string().contains(&part), "{part}: {error}");
    }
    assert!(error.to_string().contains("level 2 overlap"), "{error}");
    let error = reopen(orders()[1].clone());
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    for part in [
        "reversed",
        "velella.bytewise",
        "the order it was created with",
    ] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[test]
fn jobs_say_what_they_do_and_report_what_they_did() {
    let bench = bench_on(&MemFs::new(), Order::Bytewise);
    for stamp in 1..5u64 {
        let run = (0..40)
            .map(|key| put(&format!("{key:03}"), stamp * 100 + key))
            .collect();
        bench.flush(run, &at(0)).unwrap();
    }
    let job = bench.tree.next_job(Wanted::Due, &at(0)).unwrap();
    assert_eq!(
        job.describe(),
        "compact 4 tables of level 0 with 0 of level 1 (0 MiB)"
    );
    assert!(
        bench.tree.next_job(Wanted::Gathering, &at(0)).is_none(),
        "its inputs are taken"
    );
    let bytes: u64 = bench.tree.levels()[0].bytes;
    let report = job.run(&|| at(9_999), &|| Ok(true)).unwrap();
    assert_eq!(
        (report.entries_in, report.entries_out, report.bytes_read),
        (160, 40, bytes)
    );
    assert_eq!(report.bytes_written, bench.tree.levels()[1].bytes);
    let job = bench.tree.next_job(Wanted::Everything, &at(0)).unwrap();
    let said = job.describe();
    assert!(
        said.starts_with("rewrite table ") && said.contains("of level 1"),
        "{said}"
    );
    drop(job);
    bench.flush(vec![put("999", 9_000)], &at(0)).unwrap();
    let job = bench.tree.next_job(Wanted::Gathering, &at(0)).unwrap();
    let said = job.describe();
    assert!(
        said.starts_with("move table ") && said.contains("to level 1"),
        "{said}"
    );
    let report = job.run(&|| at(9_999), &|| Ok(true)).unwrap();
    assert_eq!((report.bytes_read, report.bytes_written), (0, 0));
}
