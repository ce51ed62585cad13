//! What stats say, to the unit: each operation counts what it did and nothing else, and sizes are
//! those of the files.
//!
//! Claims: `stats.rs` ("counters repeat exactly for the same work"), the fields of `Stats`.
//!
//! On databases without threads, so that nothing else counts.

use crate::common::{INLINE_BYTES, alone, on, until};
use std::collections::BTreeMap;
use velella::vfs::MemFs;
use velella::{Db, Decision, JournalMode, KeyspaceOptions, Stats, WriteBatch, WriteOptions};
use velella_testkit::Watchdog;

/// Everything that is counted, by name, the journal's and the cache's figures too.
fn counted(stats: &Stats) -> BTreeMap<String, u64> {
    let journal = &stats.journal;
    let mut all = stats.counters.clone();
    // The journal's are those of the clock.
    let stalls = stats.stalls.iter().filter(|stall| stall.cause != "journal");
    let further = [
        ("journal records", journal.records),
        ("journal rounds", journal.rounds),
        ("last stamp", stats.last_stamp),
        ("live snapshots", stats.snapshots),
        ("external bytes", stats.external_bytes),
        ("stalls", stalls.map(|stall| stall.count).sum()),
    ];
    all.extend(further.map(|(name, figure)| (name.to_owned(), figure)));
    all
}

/// How the figures in question move.
const WATCHED: [&str; 13] = [
    "writes",
    "reads",
    "batches",
    "rmws",
    "rmw_retries",
    "switch_aborts",
    "flushes",
    "compactions",
    "journal records",
    "journal rounds",
    "last stamp",
    "live snapshots",
    "stalls",
];

type Moves = &'static [(&'static str, u64)];
type Act = fn(&Db);

const ACTS: [(&str, Act, Moves); 22] = [
    (
        "a put",
        |db| drop(db.put("k", "v")),
        &[("writes", 1), ("journal records", 1), ("last stamp", 1)],
    ),
    (
        "a delete of nothing",
        |db| drop(db.delete("none")),
        &[("writes", 1), ("journal records", 1), ("last stamp", 1)],
    ),
    (
        "a batch of three on two keys",
        |db| {
            let mut batch = WriteBatch::new();
            batch.put(db, "a", "1").put(db, "b", "2").put(db, "a", "3");
            db.write(&batch).unwrap();
        },
        &[
            ("writes", 2),
            ("batches", 1),
            ("journal records", 1),
            ("last stamp", 1),
        ],
    ),
    (
        "an empty batch",
        |db| drop(db.write(&WriteBatch::new())),
        &[],
    ),
    (
        "a refused conditional batch",
        |db| {
            let snapshot = db.snapshot();
            db.put("k", "v").unwrap();
            let mut batch = WriteBatch::new();
            batch.put(db, "k", "v").put(db, "l", "v");
            let options = WriteOptions::default();
            assert_eq!(
                db.write_if_unchanged(&batch, &snapshot, options).unwrap(),
                None
            );
        },
        // It reads the key it was refused for; the put before it counts for itself.
        &[
            ("writes", 1),
            ("reads", 1),
            ("batches", 1),
            ("journal records", 1),
            ("last stamp", 1),
        ],
    ),
    (
        "an addition",
        |db| drop(db.increment("n", 1)),
        &[
            ("writes", 1),
            ("rmws", 1),
            ("journal records", 1),
            ("last stamp", 1),
        ],
    ),
    (
        "an update that keeps",
        |db| drop(db.rmw("n", |_| Decision::Keep)),
        &[("rmws", 1)],
    ),
    (
        "a swap that is refused",
        |db| drop(db.compare_and_swap("n", None, None)),
        &[("rmws", 1)],
    ),
    (
        "an addition to no number",
        |db| drop(db.increment("text", 1).unwrap_err()),
        &[("rmws", 1)],
    ),
    (
        "a put over a limit",
        |db| drop(db.put(vec![0; 70_000], "").unwrap_err()),
        &[],
    ),
    ("a get", |db| drop(db.get("text")), &[("reads", 1)]),
    (
        "a get of nothing",
        |db| drop(db.get_strict("nothing")),
        &[("reads", 1)],
    ),
    (
        "a test for presence",
        |db| drop(db.contains("text")),
        &[("reads", 1)],
    ),
    (
        "a get of four",
        |db| drop(db.multi_get(&["a", "b", "c", "d"])),
        &[("reads", 4)],
    ),
    ("a walk", |db| assert!(db.iter().unwrap().count() > 0), &[]),
    (
        "a snapshot that is kept",
        |db| std::mem::forget(db.snapshot()),
        &[("live snapshots", 1)],
    ),
    (
        "a sync write",
        |db| drop(db.put_with("k", "v", WriteOptions::sync())),
        &[
            ("writes", 1),
            ("journal records", 1),
            ("journal rounds", 1),
            ("last stamp", 1),
        ],
    ),
    (
        "a second waiting for it",
        |db| db.wait_durable(db.durable()).unwrap(),
        &[],
    ),
    (
        "a flush of what is durable",
        |db| db.flush().unwrap(),
        // Its boundary takes a stamp.
        &[("flushes", 1), ("last stamp", 1)],
    ),
    ("a flush of nothing", |db| db.flush().unwrap(), &[]),
    (
        "a compaction of one run",
        |db| db.compact().unwrap(),
        &[("compactions", 2)],
    ),
    (
        "another one",
        |db| db.compact().unwrap(),
        &[("compactions", 1)],
    ),
];

#[test]
fn each_operation_counts_what_it_did_and_nothing_else() {
    let db = on(&MemFs::new(), alone().journal(JournalMode::Mapped));
    db.put("text", "ten").unwrap();
    db.put("n", "1").unwrap();
    db.persist().unwrap();
    for (what, act, moves) in ACTS {
        let before = counted(&db.stats());
        act(&db);
        let after = counted(&db.stats());
        let expected: BTreeMap<_, _> = moves.iter().copied().collect();
        for name in WATCHED {
            let moved = after[name] - before[name];
            assert_eq!(
                moved,
                expected.get(name).copied().unwrap_or(0),
                "{name} after {what}"
            );
        }
    }
}

/// Bytes of the files with this extension.
fn bytes_of(fs: &MemFs, extension: &str) -> u64 {
    let files = fs.files().into_iter();
    let own = files.filter(|path| path.extension().is_some_and(|of| of == extension));
    own.map(|path| fs.read_file(&path).unwrap().len() as u64)
        .sum()
}

#[test]
fn sizes_are_those_of_the_files_and_move_down_with_them() {
    let _watchdog = Watchdog::new("sizes_are_those_of_the_files", 60);
    let fs = MemFs::new();
    let db = on(&fs, alone());
    let own = db
        .create_keyspace("own", KeyspaceOptions::default())
        .unwrap();
    let large = vec![3; 2 * INLINE_BYTES];
    let mut flushed = 0;
    for run in 0..3u32 {
        for key in 0..100u32 {
            own.put((run * 50 + key).to_be_bytes(), vec![1; 100])
                .unwrap();
        }
        db.put(run.to_be_bytes(), &large).unwrap();
        let stats = db.stats();
        assert!(
            stats
                .keyspaces
                .iter()
                .all(|keyspace| keyspace.memtable_bytes > 0)
        );
        db.flush().unwrap();
        let stats = db.stats();
        let levels = |at: usize| &stats.keyspaces[at].levels;
        assert_eq!(levels(1)[0].tables, u64::from(run) + 1);
        assert_eq!(levels(1)[0].entries, 100 * (u64::from(run) + 1));
        let sum: u64 = (0..2).flat_map(levels).map(|level| level.bytes).sum();
        assert_eq!(sum, bytes_of(&fs, "sst"));
        flushed = stats.counters["flush_bytes"];
        assert_eq!(flushed, sum, "nothing was compacted yet");
        assert_eq!(
            stats.external_bytes,
            large.len() as u64 * (u64::from(run) + 1)
        );
        assert!(
            stats.external_bytes < bytes_of(&fs, "ext"),
            "with their headers"
        );
    }
    db.compact().unwrap();
    let stats = db.stats();
    let lowest = stats.keyspaces[1].levels.last().unwrap();
    assert_eq!(
        (lowest.entries, stats.keyspaces[1].levels[0].tables),
        (200, 0)
    );
    let sum = |stats: &Stats| -> u64 {
        let levels = stats.keyspaces.iter().flat_map(|keyspace| &keyspace.levels);
        levels.map(|level| level.bytes).sum()
    };
    until(|| {
        db.put("step", "").unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        bytes_of(&fs, "sst") == sum(&db.stats())
    });
    assert!(stats.counters["compaction_bytes_read"] >= flushed);
    assert!(stats.counters["compaction_bytes_written"] > 0);
    assert_eq!(
        stats.counters["flush_bytes"], flushed,
        "a compaction is no flush"
    );
    for name in ["flush", "compaction", "memtable switch"] {
        let timer = stats
            .histograms
            .iter()
            .find(|timer| timer.name == name)
            .unwrap();
        let expected = match name {
            "compaction" => stats.counters["compactions"],
            _ => stats.counters["flushes"],
        };
        assert_eq!(timer.count, expected, "{name}");
        assert!(
            timer.p50_us <= timer.p99_us && timer.p99_us <= timer.max_us,
            "{timer:?}"
        );
    }
}

#[test]
fn the_journal_says_what_keeps_it_and_lets_go_of_it_after_the_flush() {
    let db = on(&MemFs::new(), alone());
    let keyspaces = ["a", "b", "c"].map(|name| {
        db.create_keyspace(name, KeyspaceOptions::default())
            .unwrap()
    });
    for number in 0..300u32 {
        let keyspace = &keyspaces[usize::try_from(number).unwrap() % 3];
        keyspace.put(number.to_be_bytes(), vec![2; 500]).unwrap();
    }
    let journal = db.stats().journal;
    assert!(journal.unflushed_bytes > 100_000, "{journal:?}");
    assert_eq!((journal.records, journal.access.as_str()), (300, "mapped"));
    assert!(
        journal.bytes > 300 * 500 && journal.bytes < 300 * 700,
        "{journal:?}"
    );
    for name in ["a", "b", "c"] {
        assert!(
            journal.pinned_by.iter().any(|pin| pin == name),
            "{journal:?}"
        );
    }
    keyspaces[0].flush().unwrap();
    keyspaces[2].flush().unwrap();
    let pinned = db.stats().journal.pinned_by;
    assert!(pinned.iter().any(|pin| pin == "b") && !pinned.iter().any(|pin| pin == "a"));
    keyspaces[1].flush().unwrap();
    // What a round excludes may go; then nothing pins it any more.
    for step in [
        velella::simulation::Step::CloseIdleLanes,
        velella::simulation::Step::Round,
        velella::simulation::Step::Prepare,
    ] {
        velella::simulation::step(&db, step).unwrap();
    }
    let after = db.stats().journal;
    assert!(
        after.unflushed_bytes < journal.unflushed_bytes / 4,
        "{after:?}"
    );
    let off = on(&MemFs::new(), alone().journal(JournalMode::Off));
    off.put("k", "v").unwrap();
    let journal = off.stats().journal;
    assert_eq!(
        (journal.access.as_str(), journal.records, journal.bytes),
        ("off", 0, 0)
    );
}

#[test]
fn the_cache_counts_its_hits_and_misses_and_a_scan_may_pass_it_by() {
    let fs = MemFs::new();
    let builder = || alone().compression(velella::Compression::None);
    let db = on(&fs, builder());
    for key in 0..2_000u32 {
        db.put(key.to_be_bytes(), vec![1; 50]).unwrap();
    }
    db.compact().unwrap();
    db.close().unwrap();
    let db = on(&fs, builder());
    let moved = |work: &dyn Fn()| {
        let before = db.stats();
        work();
        let after = db.stats();
        let blocks = after.counters["table_blocks_read"] - before.counters["table_blocks_read"];
        let hits = after.cache.hits - before.cache.hits;
        let kept = after.cache.bytes.saturating_sub(before.cache.bytes);
        (blocks, hits, kept > 0)
    };
    let scan = |fill_cache: bool| {
        let options = velella::IterOptions {
            fill_cache,
            ..Default::default()
        };
        assert_eq!(db.iter_with(options).unwrap().count(), 2_000);
    };
    let (cold, hits, kept) = moved(&|| scan(false));
    assert!(
        cold > 100 && hits == 0 && !kept,
        "{cold} blocks, {hits} hits"
    );
    let get = || drop(db.get(1_000u32.to_be_bytes()).unwrap().unwrap());
    let (blocks, _, kept) = moved(&get);
    assert!(blocks == 1 && kept, "{blocks} blocks");
    assert_eq!(moved(&get), (0, 1, false), "it is there now");
    let (first, _, kept) = moved(&|| scan(true));
    assert_eq!((first, kept), (cold - 1, true));
    let (again, hits, kept) = moved(&|| scan(true));
    assert_eq!((again, hits, kept), (0, cold, false));
}
