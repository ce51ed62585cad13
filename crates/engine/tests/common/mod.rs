//! What the engine's tests share: databases that switch, flush and compact all the time.

#![allow(dead_code, reason = "each test binary uses a part")]

pub(crate) mod log;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use velella::simulation::Sizes;
use velella::vfs::{MemFs, Vfs};
use velella::{Builder, Db, Keyspace, MemtableKind};

/// The directory of databases in memory.
pub(crate) const DIR: &str = "/db";

/// Settings under which little data goes a long way: small buffers, blocks and tables.
pub(crate) fn tiny() -> Builder {
    Db::builder()
        .memory(16 << 20)
        .write_buffer(320 << 10)
        .block_bytes(512)
        .background_threads(1)
}

/// Values over so many bytes get a file of their own in a database `alone`.
pub(crate) const INLINE_BYTES: usize = ALONE.inline_value_bytes;

/// As `tiny`, and nothing happens but what is asked for: no background threads, no rounds unasked.
pub(crate) fn alone() -> Builder {
    tiny().simulated(ALONE)
}

/// The sizes of a database `alone`.
pub(crate) const ALONE: Sizes = Sizes::SMALL;

/// A database in a fresh memory of its own.
pub(crate) fn fresh() -> Db {
    on(&MemFs::new(), tiny())
}

/// Opens the database of `fs`.
pub(crate) fn on(fs: &MemFs, builder: Builder) -> Db {
    try_on(Arc::new(fs.clone()), builder).unwrap()
}

/// Opens the database of any file system.
pub(crate) fn try_on(fs: Arc<dyn Vfs>, builder: Builder) -> velella::Result<Db> {
    builder.vfs(fs).open(DIR)
}

/// All live pairs, read by an iterator.
pub(crate) fn contents(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let pairs = keyspace.iter().unwrap().map(|pair| pair.unwrap());
    pairs.map(|(key, value)| (key, value.to_vec())).collect()
}

/// Every kind of memtable.
pub(crate) const KINDS: [MemtableKind; 3] = MemtableKind::ALL;

/// A counter of `stats`.
pub(crate) fn counter(db: &Db, name: &str) -> u64 {
    *db.stats()
        .counters
        .get(name)
        .unwrap_or_else(|| panic!("no counter is called {name}"))
}

/// Takes turns until `done`; a test that hangs here is ended by its watchdog.
pub(crate) fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        std::thread::yield_now();
    }
}

/// Runs `work` on that many threads at once.
pub(crate) fn race(threads: u32, work: impl Fn(u32) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
}

/// The number that a value begins with.
pub(crate) fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().unwrap())
}

/// Writes numbers from 1 to `writes`, and on until `looker` has looked at least three times
/// meanwhile, however busy the machine is.
pub(crate) fn while_writing(writes: u64, write: impl Fn(u64) + Sync, looker: impl Fn()) {
    const LOOKS: u64 = 3;
    /// A looker that fails looks no more.
    struct Ends<'a>(&'a AtomicU64);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(LOOKS, Ordering::Relaxed);
        }
    }
    let looks = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (write, looks) = (&write, &looks);
        let writer = scope.spawn(move || {
            // Relaxed, all: a count.
            let goes_on = |number| number <= writes || looks.load(Ordering::Relaxed) < LOOKS;
            (1..).take_while(|number| goes_on(*number)).for_each(write);
        });
        let _ends = Ends(looks);
        while !writer.is_finished() {
            looker();
            looks.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// Milliseconds since 1970.
pub(crate) fn wall_ms() -> u64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    u64::try_from(since.as_millis()).unwrap()
}
