//! What flushes, compactions and gets of the leveled tree cost.
//!
//! `cargo run --release -p velella-lsm --example lsm_bench [entries] [value bytes]`: builds eight
//! overlapping runs of level 0, compacts them, and reads (unless `GETS=0`; `COMPRESSION=lz4|zstd`
//! changes the tables); prints nanoseconds per entry and per get
//! and the counters. On the real file system, in a temporary directory below the current one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use velella_base::{Cursor, Entry, Order, Result, Stamp, ValueKind};
use velella_mvcc::Retention;
use velella_sst::{BlockCache, Compression, Counters, TableOptions, key_hash};
use velella_sync::rng::Rng;
use velella_tree::{
    Edit, Env, ExternalStore, Graveyard, KeyspaceRecord, Manifest, OpenFiles, Tree, TreeOptions,
    Wanted,
};
use velella_vfs::{OsFs, Vfs};

const RUNS: u64 = 8;

/// A sorted run made as it is read: keys of 16 bytes, every `step`-th number.
struct Numbers {
    next: u64,
    step: u64,
    end: u64,
    stamp: Stamp,
    key: [u8; 16],
    value: Vec<u8>,
}

impl Numbers {
    fn stand(&mut self) {
        self.key = key_of(self.next);
        // Values that neither shrink to nothing nor cost anything to make.
        self.value[..8].copy_from_slice(&self.next.wrapping_mul(0x9e37_79b9).to_le_bytes());
    }
}

fn key_of(number: u64) -> [u8; 16] {
    let mut key = *b"k000000000000000";
    let mut rest = number;
    for place in (1..16).rev() {
        key[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

impl Cursor for Numbers {
    fn seek_first(&mut self) -> Result<()> {
        self.stand();
        Ok(())
    }
    fn seek_last(&mut self) -> Result<()> {
        unreachable!("flushes walk forward")
    }
    fn seek(&mut self, _: &[u8], _: Stamp) -> Result<()> {
        unreachable!("flushes walk forward")
    }
    fn seek_before(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("flushes walk forward")
    }
    fn next(&mut self) -> Result<()> {
        self.next += self.step;
        self.stand();
        Ok(())
    }
    fn prev(&mut self) -> Result<()> {
        unreachable!("flushes walk forward")
    }
    fn entry(&self) -> Option<Entry<'_>> {
        (self.next < self.end).then_some(Entry {
            key: &self.key,
            stamp: self.stamp,
            kind: ValueKind::Put,
            value: &self.value,
        })
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args()
        .skip(1)
        .filter_map(|text| text.parse::<u64>().ok());
    let entries = arguments.next().unwrap_or(2_000_000);
    let value_bytes = usize::try_from(arguments.next().unwrap_or(100))
        .unwrap_or(100)
        .max(8);
    let dir = std::env::current_dir()
        .unwrap_or_else(|_| PathBuf::from("."))
        .join(format!("lsm-bench-{}", std::process::id()));
    let outcome = measure(&dir, entries, value_bytes);
    drop(std::fs::remove_dir_all(&dir));
    outcome
}

fn open(dir: &std::path::Path) -> Result<(Env, TreeOptions, Arc<dyn Tree>)> {
    let vfs: Arc<dyn Vfs> = Arc::new(OsFs::new());
    let (manifest, _) = Manifest::create(Arc::clone(&vfs), dir)?;
    manifest.commit(&[Edit::CreateKeyspace(KeyspaceRecord {
        id: 1,
        name: "bench".into(),
        layout: "leveled".into(),
        order: Order::Bytewise.name().into(),
        merge_operator: String::new(),
        prefix_extractor: String::new(),
        created: Stamp(1),
    })])?;
    let manifest = Arc::new(manifest);
    let database = manifest.database();
    let files = OpenFiles::new(Arc::clone(&vfs), 1000);
    let externals = ExternalStore::new(
        Arc::clone(&files),
        dir.to_path_buf(),
        database,
        Arc::clone(&manifest),
    );
    let env = Env {
        files,
        graveyard: Graveyard::new(Arc::clone(&vfs), Arc::clone(&manifest)),
        vfs,
        dir: dir.to_path_buf(),
        database,
        cache: BlockCache::new(1 << 30),
        counters: Arc::new(Counters::default()),
        manifest,
        externals: Arc::new(externals),
    };
    let compression = match std::env::var("COMPRESSION").as_deref() {
        Ok("lz4") => Compression::Lz4,
        Ok("zstd") => Compression::Zstd,
        _ => Compression::None,
    };
    let table = TableOptions {
        compression,
        ..TableOptions::default()
    };
    let mut options = TreeOptions::new(1, table);
    options.upper_compression = compression;
    let state = env.manifest.state();
    let tree = velella_lsm::open(env.clone(), options.clone(), &state.keyspaces[0])?;
    Ok((env, options, tree))
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn report(what: &str, since: Instant, count: u64) {
    let elapsed = since.elapsed();
    let each = elapsed.as_nanos() as f64 / count.max(1) as f64;
    println!(
        "{what:<34} {each:>8.0} ns each, {:.2} s",
        elapsed.as_secs_f64()
    );
}

fn measure(dir: &std::path::Path, entries: u64, value_bytes: usize) -> Result<()> {
    let (env, _, tree) = open(dir)?;
    let keep = Retention::newest_only();
    let since = Instant::now();
    for run in 0..RUNS {
        let mut cursor = Numbers {
            next: run,
            step: RUNS,
            end: entries,
            stamp: Stamp(run + 1),
            key: [0; 16],
            value: vec![b'v'; value_bytes],
        };
        let mut built = tree.build(&mut cursor, &keep)?;
        env.manifest.commit(&built.edits(1))?;
        tree.apply(built);
    }
    report("flush", since, entries);
    gets("get, 8 runs in level 0", &*tree, entries)?;
    let since = Instant::now();
    while let Some(job) = tree.next_job(Wanted::Due, &keep) {
        println!("{}", job.describe());
        job.run(&|| keep.clone(), &|| Ok(true))?;
    }
    report("compact", since, entries);
    println!("{:?}", tree.levels());
    gets("get, compacted, cold blocks", &*tree, entries)?;
    gets("get, compacted, cached", &*tree, entries)?;
    let since = Instant::now();
    let mut cursor = tree.cursor(true);
    cursor.seek_first()?;
    let mut seen = 0;
    while cursor.entry().is_some() {
        seen += 1;
        cursor.next()?;
    }
    assert_eq!(seen, entries);
    report("scan", since, entries);
    let counters = &env.counters;
    println!(
        "filter probes {}, negatives {}, blocks read {}, comparisons {}",
        counters.filter_probes.sum(),
        counters.filter_negatives.sum(),
        counters.blocks_read.sum(),
        counters.comparisons.sum()
    );
    Ok(())
}

fn gets(what: &str, tree: &dyn Tree, entries: u64) -> Result<()> {
    if std::env::var("GETS").as_deref() == Ok("0") {
        return Ok(());
    }
    let mut rng = Rng::new(1);
    let count = entries.min(1_000_000);
    let since = Instant::now();
    for _ in 0..count {
        let key = key_of(rng.below(entries));
        let found = tree.get(&key, key_hash(&key), Stamp::MAX)?;
        assert!(found.is_some());
    }
    report(what, since, count);
    Ok(())
}
