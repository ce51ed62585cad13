//! What threads share: durable writes a lane, recovery's gathering a few tables.
//!
//! Claims: decision 0014, 4 (durable writes take the first free lane); `recovery.rs` (a gathering
//! becomes at most four tables, however many processors there are; one gathering is written while
//! the next is read).

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::{DIR, alone, on};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use velella::simulation::Sizes;
use velella::vfs::MemFs;
use velella::vfs::mem::CrashMode;
use velella::{
    Builder, Db, Durability, Error, Iter, Keyspace, Rev, Snapshot, Value, WriteBatch, WriteOptions,
};
use velella_journal::inspect::{self, Detail};
use velella_sync::helpers;

/// To be compiled is to pass.
#[test]
fn what_is_open_may_be_shared_and_iterators_sent() {
    fn shared<T: Send + Sync>() {}
    fn sent<T: Send>() {}
    shared::<Db>();
    shared::<Keyspace>();
    shared::<Snapshot>();
    shared::<WriteBatch>();
    shared::<Value>();
    shared::<Error>();
    sent::<Iter>();
    sent::<Rev>();
}

const LANES: usize = 8;

fn roomy() -> Builder {
    let sizes = Sizes {
        lanes: LANES,
        segment_bytes: 16 << 20,
        extent_bytes: 256 << 10,
        inline_value_bytes: 64 << 10,
        manifest_bytes: None,
    };
    alone()
        .memory(1 << 30)
        .write_buffer(256 << 20)
        .simulated(sizes)
}

/// The lanes that sixteen threads use which write one after another, so that all lanes are free.
fn lanes_used(durability: Durability) -> BTreeSet<String> {
    let memory = MemFs::new();
    let db = on(&memory, roomy());
    for thread in 0..2 * LANES {
        let db = db.clone();
        let options = WriteOptions {
            durability: Some(durability),
        };
        let write = move || db.put_with(format!("key{thread}"), "value", options);
        std::thread::spawn(write).join().unwrap().unwrap();
    }
    let mut listing = String::new();
    inspect::journal(&memory, Path::new(DIR), Detail::Extents, &mut listing).unwrap();
    let extents = listing.lines().filter(|line| line.contains("extent at"));
    let lane = |line: &str| {
        line.split(" lane ")
            .nth(1)
            .unwrap()
            .split(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    extents.map(lane).collect()
}

#[test]
fn durable_writes_share_the_first_free_lane_and_others_spread() {
    let first: BTreeSet<_> = ["0".to_owned()].into();
    assert_eq!(lanes_used(Durability::Sync), first);
    assert_eq!(lanes_used(Durability::Group(Duration::ZERO)), first);
    let spread = lanes_used(Durability::Buffered);
    assert!(spread.len() > 4, "{spread:?}");
}

#[test]
fn what_recovery_gathers_becomes_at_most_four_tables_on_any_machine() {
    let memory = MemFs::new();
    let db = on(&memory, roomy());
    // Enough for five parts.
    for key in 0..170_000u32 {
        db.put(key.to_be_bytes(), b"v").unwrap();
    }
    let killed = memory.crash(1, CrashMode::KeepAll);
    drop(db);
    for (processors, expected) in [(1, 1), (3, 3), (64, 4)] {
        helpers::pretend(Some(processors));
        let db = on(&killed.image(1, CrashMode::KeepAll), roomy());
        helpers::pretend(None);
        let levels = &db.stats().keyspaces[0].levels;
        let tables: Vec<_> = levels
            .iter()
            .map(|level| (level.tables, level.entries))
            .collect();
        let all = levels.iter().map(|level| level.entries).sum::<u64>();
        assert_eq!(levels[0].tables, expected, "{processors}: {tables:?}");
        assert_eq!(all, 170_000, "{processors}: {tables:?}");
    }
}

#[test]
fn a_gathering_that_is_written_while_the_next_is_read_loses_nothing() {
    const KEYS: u32 = 400_000;
    let memory = MemFs::new();
    let small = || roomy().memory(256 << 20).write_buffer(48 << 20);
    let db = on(&memory, small());
    for (value, keys) in [([1; 100], KEYS / 10), ([2; 100], KEYS)] {
        for key in 0..keys {
            db.put(key.to_be_bytes(), value).unwrap();
        }
    }
    let killed = memory.crash(1, CrashMode::KeepAll);
    drop(db);
    let mut counts = Vec::new();
    for processors in [1, 2, 3] {
        helpers::pretend(Some(processors));
        let db = on(&killed.image(1, CrashMode::KeepAll), small());
        helpers::pretend(None);
        let tables = db.stats().keyspaces[0].levels[0].tables;
        counts.push(tables);
        for key in 0..KEYS {
            let value = db.get(key.to_be_bytes()).unwrap().unwrap();
            assert_eq!(value.to_vec(), [2; 100], "{processors}: {key}");
        }
        assert_eq!(db.iter().unwrap().count(), KEYS as usize);
    }
    // Two gatherings, as large as the memory allows; then three smaller ones, so that one thread
    // may read while the other writes, and a little more; then these three in two parts each.
    assert_eq!(counts, [2, 4, 7]);
}

#[test]
fn gatherings_grow_where_large_records_were_not_foreseen() {
    // Their payloads stand in files of their own, so that their lanes hold next to nothing.
    const BATCHES: u32 = 170;
    let memory = MemFs::new();
    let db = on(&memory, roomy());
    for batch in 0..BATCHES {
        let mut changes = WriteBatch::new();
        for key in 0..100u32 {
            let key = [batch.to_be_bytes(), key.to_be_bytes()].concat();
            changes.put(&db, key, [3; 10_000]);
        }
        db.write(&changes).unwrap();
    }
    let killed = memory.crash(1, CrashMode::KeepAll);
    drop(db);
    helpers::pretend(Some(2));
    let db = on(&killed.image(1, CrashMode::KeepAll), roomy());
    helpers::pretend(None);
    let level = &db.stats().keyspaces[0].levels[0];
    assert_eq!(level.entries, u64::from(BATCHES) * 100);
    // Six of 16 MiB, one of 32, and the rest: of one size they would be ten.
    assert_eq!(level.tables, 8);
}
