//! Opening again: after every end of a run, under every other way to keep the journal, with any
//! other settings, and with files in the directory that nothing refers to.
//!
//! Claims: docs/consistency.md, "Durability"; `open.rs` O1, O2; RELIABILITY.md P1, P6.

use crate::common::{DIR, KINDS, alone, contents, fresh, on, tiny, try_on, until};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use velella::vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella::vfs::mem::CrashMode;
use velella::vfs::{MemFs, Operation, Vfs};
use velella::{Builder, Compression, Db, Durability, ErrorKind, JournalMode, Keyspace};
use velella::{
    KeyspaceOptions, Order, RecoveryMode, RecoveryRule, Stamp, WriteBatch, WriteOptions,
};
use velella_testkit::{Model, Seed, Watchdog, seeds};

const MODES: [JournalMode; 4] = [
    JournalMode::Auto,
    JournalMode::Mapped,
    JournalMode::Write,
    JournalMode::Off,
];

type State = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn downwards() -> Order {
    Order::custom("test.downwards", |a, b| b.cmp(a))
}

fn open(fs: &MemFs, builder: Builder) -> Db {
    on(fs, builder.order(downwards()))
}

/// The pairs of all keyspaces.
fn state(db: &Db) -> State {
    let mut state = State::new();
    for name in db.keyspaces() {
        let keyspace = db.keyspace(&name).unwrap();
        let pairs = contents(&keyspace).into_iter();
        state.extend(pairs.map(|(key, value)| ((name.clone(), key), value)));
    }
    state
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Killed,
    PowerLost(CrashMode),
}

const ENDS: [End; 5] = [
    End::Closed,
    End::Killed,
    End::PowerLost(CrashMode::Strict),
    End::PowerLost(CrashMode::Prefix),
    End::PowerLost(CrashMode::Random),
];

impl End {
    /// Ends the run of `db`; what is left, and the least stamp that is.
    fn of(self, db: Db, fs: &MemFs, seed: u64) -> (MemFs, Stamp) {
        let last = db.snapshot().stamp();
        let durable = db.durable();
        let survives_a_kill = db.options().journal != JournalMode::Off;
        match self {
            End::Closed => {
                db.close().unwrap();
                (fs.clone(), last)
            }
            End::Killed if survives_a_kill => (fs.image(seed, CrashMode::KeepAll), last),
            End::Killed => (fs.image(seed, CrashMode::KeepAll), durable),
            End::PowerLost(mode) => (fs.image(seed, mode), durable),
        }
    }
}

/// Writes of every sort into both keyspaces, and into `model`.
fn write(db: &Db, model: &mut Model<(String, Vec<u8>)>, seed: &mut Seed, count: u64) {
    let keyspaces: Vec<Keyspace> = db
        .keyspaces()
        .iter()
        .map(|name| db.keyspace(name).unwrap())
        .collect();
    let durabilities = [None, Some(Durability::Sync)];
    for _ in 0..count {
        let keyspace = seed.pick(&keyspaces);
        let name = keyspace.name().to_owned();
        let (key, value) = (seed.key(30), seed.value(400));
        let options = WriteOptions {
            durability: if seed.one_in(20) {
                durabilities[1]
            } else {
                durabilities[0]
            },
        };
        let (stamp, written) = match seed.below(8) {
            0 => (keyspace.delete_with(&key, options).unwrap(), None),
            1 => {
                let mut other = seed.key(30);
                other.push(1);
                let twin = seed.pick(&keyspaces);
                let mut batch = WriteBatch::new();
                batch.put(keyspace, &key, &value).put(twin, &other, &value);
                let stamp = db.write_with(&batch, options).unwrap();
                model.write(
                    (twin.name().to_owned(), other),
                    stamp.0,
                    Some(value.clone()),
                );
                (stamp, Some(value))
            }
            2 => {
                let outcome = keyspace.rmw_entry(&key, options, |old| {
                    let mut next = old.map_or_else(Vec::new, |entry| entry.value.to_vec());
                    next.truncate(40);
                    next.extend_from_slice(&value);
                    Ok::<_, velella::Error>(velella::Decision::put(next))
                });
                let outcome = outcome.unwrap();
                (
                    outcome.stamp.unwrap(),
                    outcome.new_value().map(<[u8]>::to_vec),
                )
            }
            _ => (
                keyspace.put_with(&key, &value, options).unwrap(),
                Some(value),
            ),
        };
        model.write((name, key), stamp.0, written);
        match seed.below(150) {
            0 => db.flush().unwrap(),
            1 => db.compact().unwrap(),
            2 => drop(db.persist().unwrap()),
            _ => {}
        }
    }
}

/// Checks that `db` holds a prefix of what `model` knows with everything up to `least`, cuts the
/// model there, and returns the cut.
fn check_prefix(db: &Db, model: &mut Model<(String, Vec<u8>)>, least: Stamp, what: &str) -> u64 {
    let found = state(db);
    let cuts = model.prefixes_equal_to(&found, least.0, u64::MAX);
    let cut = *cuts
        .last()
        .unwrap_or_else(|| panic!("{what}: no prefix from {least} on"));
    model.cut(cut);
    let next = db.put("stamp", "").unwrap();
    assert!(next.0 > cut && next > least, "{what}: stamps go on");
    model.write(
        ("default".into(), b"stamp".to_vec()),
        next.0,
        Some(Vec::new()),
    );
    cut
}

#[test]
fn every_way_to_keep_the_journal_is_recovered_under_every_other_after_every_end() {
    let _watchdog = Watchdog::new("every_way_is_recovered", 240);
    let mut number = 0;
    for first in MODES {
        for second in MODES {
            for end in ENDS {
                number += 1;
                let what = format!("{first:?} then {second:?}, {end:?}");
                let mut seed = Seed::silent(number);
                let mut model = Model::new();
                let fs = MemFs::new();
                let db = open(&fs, tiny().journal(first));
                let own = KeyspaceOptions {
                    order: Some(downwards()),
                    ..Default::default()
                };
                db.create_keyspace("down", own).unwrap();
                write(&db, &mut model, &mut seed, 60);
                let (fs, least) = end.of(db, &fs, number);
                let db = open(&fs, tiny().journal(second));
                check_prefix(&db, &mut model, least, &what);
                write(&db, &mut model, &mut seed, 40);
                // And the other way round, by another end.
                let end = ENDS[usize::try_from(number).unwrap() % ENDS.len()];
                let (fs, least) = end.of(db, &fs, number);
                let db = open(&fs, tiny().journal(first));
                check_prefix(&db, &mut model, least, &format!("{what}, then {end:?}"));
                assert!(db.verify().unwrap().foreign_files.is_empty(), "{what}");
            }
        }
    }
}

/// Settings that change nothing but speed.
fn any_settings(seed: &mut Seed) -> Builder {
    Db::builder()
        .memory(16 << 20 << seed.below(2))
        .write_buffer((256 << 10) + (seed.below(3) << 17))
        .block_bytes(*seed.pick(&[256, 700, 4_096, 64 << 10]))
        .bloom_bits(*seed.pick(&[0, 1, 10, 32]))
        .compression(*seed.pick(&[Compression::None, Compression::Lz4, Compression::Zstd]))
        .memtable(*seed.pick(&KINDS))
        .journal(*seed.pick(&MODES))
        .durability(*seed.pick(&[Durability::Buffered, Durability::Buffered, Durability::Sync]))
        .background_threads(1 + seed.index(3))
}

#[test]
fn a_database_may_be_opened_with_any_other_settings_each_time() {
    let _watchdog = Watchdog::new("any_other_settings", 240);
    for number in seeds(8) {
        let mut seed = Seed::new("any_other_settings", number);
        let mut model = Model::new();
        let mut fs = MemFs::new();
        let mut least = Stamp::ZERO;
        for round in 0..7 {
            let builder = any_settings(&mut seed);
            let what = format!("round {round} with {:?}", builder);
            let db = open(&fs, builder);
            if round == 0 {
                let own = KeyspaceOptions {
                    order: Some(downwards()),
                    ..Default::default()
                };
                db.create_keyspace("down", own).unwrap();
            } else {
                check_prefix(&db, &mut model, least, &what);
            }
            if seed.one_in(2) {
                let changed = KeyspaceOptions {
                    order: Some(downwards()),
                    memtable: seed.one_in(2).then(|| *seed.pick(&KINDS)),
                    compression: Some(*seed.pick(&[Compression::None, Compression::Zstd])),
                    bloom_bits: seed
                        .one_in(2)
                        .then(|| 2 + u32::try_from(seed.below(9)).unwrap()),
                };
                db.open_keyspace("down", changed).unwrap();
            }
            let count = 50 + seed.below(250);
            write(&db, &mut model, &mut seed, count);
            let end = *seed.pick(&ENDS);
            (fs, least) = end.of(db, &fs, number);
        }
    }
}

#[test]
fn the_report_names_the_rule_and_counts_what_was_taken() {
    let ends = [
        (
            End::Closed,
            RecoveryMode::Normal,
            RecoveryRule::CleanClose,
            true,
        ),
        (
            End::Killed,
            RecoveryMode::Normal,
            RecoveryRule::PageCache,
            true,
        ),
        (
            End::Killed,
            RecoveryMode::AcceptLoss,
            RecoveryRule::PageCache,
            true,
        ),
        (
            End::Killed,
            RecoveryMode::AssumePowerLoss,
            RecoveryRule::Cut,
            false,
        ),
        (
            End::PowerLost(CrashMode::Strict),
            RecoveryMode::Normal,
            RecoveryRule::Cut,
            false,
        ),
        (
            End::PowerLost(CrashMode::Strict),
            RecoveryMode::AcceptLoss,
            RecoveryRule::Cut,
            false,
        ),
    ];
    for journal in [JournalMode::Mapped, JournalMode::Write] {
        for (end, recovery, rule, is_all) in ends {
            let what = format!("{journal:?} {end:?} {recovery:?}");
            let fs = MemFs::new();
            let db = on(&fs, tiny().journal(journal));
            assert_eq!(db.recovery().rule, RecoveryRule::Nothing);
            db.put("flushed", "1").unwrap();
            db.flush().unwrap();
            let synced = db.put_with("synced", "2", WriteOptions::sync()).unwrap();
            let last = db.put("buffered", "3").unwrap();
            assert!(synced < last);
            let (fs, _) = end.of(db, &fs, 1);
            let db = on(&fs, tiny().journal(journal).recovery(recovery));
            let report = db.recovery();
            assert_eq!(report.rule, rule, "{what}: {report:?}");
            assert!(
                db.contains("flushed").unwrap() && db.contains("synced").unwrap(),
                "{what}"
            );
            // A background round may have made it durable: then it is there as well.
            let has_last = db.contains("buffered").unwrap();
            assert!(has_last || !is_all, "{what}: {report:?}");
            assert!(
                report.cut >= synced || report.cut == Stamp::MAX,
                "{what}: {report:?}"
            );
            assert!(report.records > u64::from(has_last), "{what}: {report:?}");
            assert!(
                report.bytes > 0 && report.records <= 3,
                "{what}: {report:?}"
            );
            if recovery == RecoveryMode::AssumePowerLoss {
                let told = report
                    .notes
                    .iter()
                    .any(|note| note.contains("asked for it"));
                assert!(told, "{what}: {report:?}");
                assert_eq!(report.discarded_records, u64::from(!has_last), "{what}");
            }
        }
    }
}

#[test]
fn stamps_that_were_lost_are_never_given_again() {
    for journal in MODES {
        let mut fs = MemFs::new();
        let mut highest = Stamp::ZERO;
        for round in 0..5u64 {
            let db = on(&fs, tiny().journal(journal));
            for number in 0..20u8 {
                let stamp = db.put([number], "v").unwrap();
                assert!(stamp > highest, "{journal:?}: {stamp} after {highest}");
                highest = stamp;
            }
            fs = fs.image(round, CrashMode::Strict);
        }
    }
}

#[test]
fn what_a_crash_left_of_files_goes_and_what_is_not_ours_stays() {
    let _watchdog = Watchdog::new("what_a_crash_left_of_files_goes", 60);
    let fs = MemFs::new();
    let db = fresh_on(&fs);
    db.put("k", "v").unwrap();
    db.compact().unwrap();
    db.close().unwrap();
    let dir = Path::new(DIR);
    let ours = [
        "900001.sst",
        "1000002.sst",
        "900003.ext",
        "MANIFEST-900004",
        "CURRENT.tmp",
        "journal/900005.seg",
        "journal/900006.large",
        "journal/900007.seal",
    ];
    let foreign = [
        "notes.txt",
        "notes.tmp",
        "00001.sst",
        "0900001.sst",
        "900001.sst.bak",
        "x900001.sst",
        "MANIFEST",
        "MANIFEST-1",
        "journal/notes",
        "journal/0900001.seg",
        "journal/1.seg",
    ];
    for name in ours.iter().chain(&foreign) {
        let file = fs.create(&dir.join(name)).unwrap();
        file.write_at(0, b"left over").unwrap();
        file.sync_all().unwrap();
    }
    let db = fresh_on(&fs);
    assert_eq!(db.get("k").unwrap().unwrap(), "v");
    // Segments go when the journal is swept, in the background at the latest.
    let left = |name: &&str| fs.exists(&dir.join(name)).unwrap();
    until(|| {
        db.flush().unwrap();
        ours.iter().filter(|name| left(name)).count() == 0
    });
    let stay: Vec<_> = foreign.iter().filter(|name| left(name)).collect();
    assert_eq!(stay, foreign.iter().collect::<Vec<_>>());
    let report = db.verify().unwrap();
    let named: Vec<_> = report.foreign_files.iter().map(String::as_str).collect();
    for name in &foreign {
        assert!(named.contains(name), "{name} is not in {named:?}");
    }
    // Numbers above those that were found, so that no file is taken for another.
    db.put("k", "w").unwrap();
    db.flush().unwrap();
    let above = fs.files().into_iter().filter(|path| {
        let stem = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default();
        stem.len() >= 7 && stem.parse::<u64>().is_ok_and(|number| number > 1_000_002)
    });
    assert!(above.count() > 0);
}

fn fresh_on(fs: &MemFs) -> Db {
    on(fs, tiny())
}

#[test]
fn what_cannot_be_opened_is_refused_with_a_remedy_and_stays_what_it_was() {
    let fs = MemFs::new();
    let db = open(&fs, tiny());
    let own = KeyspaceOptions {
        order: Some(downwards()),
        ..Default::default()
    };
    let keyspace = db.create_keyspace("down", own).unwrap();
    keyspace.put("k", "v").unwrap();
    db.close().unwrap();
    let bytes = || -> BTreeMap<_, _> {
        let files = fs.files().into_iter();
        files
            .map(|path| (path.clone(), fs.read_file(&path).unwrap()))
            .collect()
    };
    let before = bytes();
    for (builder, said) in [
        (tiny().memory(1 << 20), "`memory`: 1048576 bytes, at least"),
        (tiny().write_buffer(1), "`write_buffer`: 1 bytes, at least"),
        (tiny().block_bytes(100), "`block_bytes`: 100, from 256"),
        (tiny().block_bytes(2 << 20), "from 256 to 1048576"),
        (tiny().bloom_bits(33), "`bloom_bits`: 33, at most 32"),
        (tiny().background_threads(0), "`background_threads`: 0"),
        (tiny().background_threads(65), "from 1 to 64"),
    ] {
        let error = try_on(Arc::new(fs.clone()), builder).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
        assert_eq!(bytes(), before, "{error}: it changed something");
    }
    let other = Order::custom("test.other", |a, b| a.cmp(b));
    for builder in [tiny(), tiny().order(other)] {
        let error = try_on(Arc::new(fs.clone()), builder).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        for part in [
            "`down`",
            "`test.downwards`",
            "give that order to the builder",
        ] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    }
    // Nothing of it is held: the right way still works.
    let db = open(&fs, tiny());
    assert_eq!(db.keyspace("down").unwrap().get("k").unwrap().unwrap(), "v");
    let elsewhere = tiny().create(false).vfs(Arc::new(MemFs::new()));
    let error = elsewhere.open(DIR).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("create(true)"), "{error}");
    drop(fresh());
}

/// Deletes a table at the moment at which somebody else is about to.
#[derive(Debug)]
struct Earlier(MemFs);

impl Interceptor for Earlier {
    fn before(&self, call: &Call<'_>) -> Verdict {
        if call.operation == Operation::Remove && call.path.extension().is_some_and(|e| e == "sst")
        {
            self.0.remove(call.path).unwrap();
        }
        Verdict::Pass
    }

    fn after(&self, _call: &Call<'_>, _failed: bool) {}
}

#[test]
fn a_table_that_its_last_owner_deletes_while_the_next_opening_would_is_gone_all_the_same() {
    // After closing, a thread that runs an epoch's deferred work may still be deleting tables.
    let mem = MemFs::new();
    let fs = Intercepted::standing(Arc::new(Earlier(mem.clone())), Arc::new(mem.clone()));
    let open = |vfs: Arc<dyn Vfs>| {
        Db::builder()
            .memory(velella::MEMORY_MIN)
            .vfs(vfs)
            .open("/db")
    };
    let db = open(Arc::new(mem.clone())).unwrap();
    db.put(b"k", b"v").unwrap();
    db.close().unwrap();
    let left = "/db/900000.sst";
    mem.create(left.as_ref()).unwrap();
    let db = open(Arc::new(fs)).unwrap();
    assert!(!mem.exists(left.as_ref()).unwrap());
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
}

#[test]
fn openings_that_write_a_little_leave_few_tables() {
    let _watchdog = Watchdog::new("openings that write a little", 100);
    let fs = MemFs::new();
    for number in 0..200u64 {
        let db = on(&fs, alone());
        db.put(number.to_be_bytes(), "v").unwrap();
        db.close().unwrap();
    }
    let tables = |db: &Db| -> u64 {
        let levels = &db.stats().keyspaces[0].levels;
        levels.iter().map(|level| level.tables).sum()
    };
    let whole = fs.image(1, CrashMode::KeepAll);
    let db = on(&whole, alone());
    db.compact().unwrap();
    assert_eq!(tables(&db), 1);
    assert_eq!(contents(&db).len(), 200);
    db.close().unwrap();
    // In the background, too, once there is one.
    let db = on(&fs, tiny());
    until(|| tables(&db) < 16);
    assert_eq!(contents(&db).len(), 200);
    db.close().unwrap();
}
