//! `velella bench`: the loops of RocksDB's `db_bench` over Velella, alone or beside it.
//!
//! Source: RocksDB `tools/db_bench_tool.cc`, whose benchmarks, keys, values and counts these are:
//! every thread does `--num` operations; random keys are drawn with replacement, so about 63 % of
//! them exist after `fillrandom`; `fillseq` and `fillrandom` begin with an empty database; all
//! others go on with what the one before left, compactions under way included.
//!
//! Threads: `measure` starts the clients of one benchmark and joins them.
//! Tests: beside the modules; `tests/bench.rs`.

mod benchmark;
mod workload;
mod result;
mod measure;
mod database;
mod rocksdb;
mod compare;

use crate::failure::Failure;
use crate::human;
use crate::output::Output;
use benchmark::Benchmark;
use clap::Args;
use database::Scratch;
use result::{Row, table};
use std::path::PathBuf;
use workload::Workload;

/// Arguments of `bench`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  velella bench
  velella bench fillrandom,readrandom --num 100000 --threads 1,2
  velella bench --in-memory --counters
  velella bench --compare-rocksdb --rounds 3 --threads 1,2

ns/op is what one thread waits for one operation; ops/s is what all threads do together.
Latencies are measured on every 16th operation, because a clock costs as much as a fast get.
--memory is the one budget for memtables, cache, filters and journal; db_bench beside it gets
--cache_size of the same size, and its write buffers on top.

Ended by a signal, it leaves its directory velella-bench-PID.")]
pub(crate) struct Bench {
    /// Benchmarks, in this order, on one database
    #[arg(
        value_enum,
        value_delimiter = ',',
        default_value = "fillrandom,overwrite,readrandom,seekrandom"
    )]
    benchmarks: Vec<Benchmark>,
    #[command(flatten)]
    load: Load,
    /// Numbers of threads; all benchmarks run once with each
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "N,...",
          value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Vec<u64>,
    /// Directory to work in; what is made there is removed afterwards
    #[arg(long, short = 'd', default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Print what the engine counted, for each operation
    #[arg(long)]
    counters: bool,
    /// Measure RocksDB's db_bench in turn with Velella, with the same settings
    #[arg(long, conflicts_with_all = ["counters", "latency_every"])]
    compare_rocksdb: bool,
    /// Rounds of --compare-rocksdb
    #[arg(long, default_value_t = 3, value_name = "N", requires = "compare_rocksdb",
          value_parser = clap::value_parser!(u64).range(1..=99))]
    rounds: u64,
}

/// What is done and with which settings; the same for both sides of a comparison.
#[derive(Debug, Clone, Args)]
struct Load {
    /// Operations of each thread, and range of keys
    #[arg(long, default_value_t = 1_000_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    num: u64,
    /// Bytes of a key
    #[arg(long, default_value_t = 16, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(8..=65_536))]
    key_size: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 100, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(0..=16_777_216))]
    value_size: u64,
    /// What compression leaves of a value, from 0 to 1
    #[arg(long, default_value_t = 0.5, value_name = "RATIO", value_parser = ratio)]
    compression_ratio: f64,
    /// Steps after each seek of seekrandom
    #[arg(long, default_value_t = 10, value_name = "N")]
    seek_nexts: u64,
    /// Memory budget
    #[arg(long, default_value = "1GiB", value_name = "BYTES", value_parser = human::parse_bytes)]
    memory: u64,
    /// Bytes at which a memtable is flushed
    #[arg(long, default_value = "64MiB", value_name = "BYTES", value_parser = human::parse_bytes)]
    write_buffer: u64,
    /// Memory and write buffer large enough that nothing is flushed
    #[arg(long)]
    in_memory: bool,
    /// Bits per key of the filters
    #[arg(long, default_value_t = 10, value_name = "N")]
    bloom_bits: u32,
    /// Every write waits until it is on the device
    #[arg(long)]
    sync: bool,
    /// Start of the random numbers
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Measure the latency of every Nth operation; 0: of none
    #[arg(long, default_value_t = 16, value_name = "N")]
    latency_every: u64,
}

fn ratio(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err("choose a number from 0 to 1".to_owned()),
    }
}

impl Bench {
    pub(crate) fn run(mut self, output: &mut Output) -> Result<(), Failure> {
        if self.load.in_memory {
            self.load.enlarge(&self.benchmarks, &self.threads);
        }
        if self.compare_rocksdb {
            return compare::run(&self, output);
        }
        let mut rows = Vec::new();
        for &threads in &self.threads {
            rows.extend(self.run_all(threads, output)?);
        }
        output.result(&rows, |out| {
            writeln!(out, "{}", self.load.describe())?;
            table(&rows).print(out)?;
            if self.counters {
                result::counters(&rows, out)?;
            }
            Ok(())
        })
    }

    /// All benchmarks with one number of threads, on one database.
    fn run_all(&self, threads: u64, output: &Output) -> Result<Vec<Row>, Failure> {
        let mut scratch = Scratch::new(&self.dir, &self.load)?;
        let mut rows = Vec::new();
        for (&benchmark, run) in self.benchmarks.iter().zip(0..) {
            if benchmark.wants_empty() {
                scratch.empty()?;
            }
            output.note(&format!(
                "{benchmark}, {}",
                human::counted(threads, "thread")
            ));
            rows.push(measure::measure(
                scratch.db()?,
                benchmark,
                threads,
                run * threads,
                &self.load,
            )?);
        }
        scratch.remove()?;
        Ok(rows)
    }
}

impl Load {
    /// Makes memory so large that no memtable is ever full.
    fn enlarge(&mut self, benchmarks: &[Benchmark], threads: &[u64]) {
        /// What a version costs beside its key and value, with room to spare.
        const VERSION_BYTES: u64 = 160;
        /// Memtables are at most this part of the budget.
        const SHARE: u64 = 8;
        let writes = benchmarks
            .iter()
            .filter(|benchmark| benchmark.writes())
            .count() as u64;
        let threads = threads.iter().copied().max().unwrap_or(1);
        let version = self.key_size + self.value_size + VERSION_BYTES;
        let all = self
            .num
            .saturating_mul(threads)
            .saturating_mul(writes)
            .saturating_mul(version);
        self.write_buffer = all.saturating_mul(2).clamp(256 << 20, 1 << 40);
        self.memory = self.memory.max(self.write_buffer * SHARE);
    }

    fn workload(&self, thread: u64) -> Workload {
        Workload::new(self, thread)
    }

    fn describe(&self) -> String {
        format!(
            "{} x {} B keys, {} B values ({:.0} % after compression), memory {}, write buffer {}{}",
            human::count(self.num),
            self.key_size,
            self.value_size,
            self.compression_ratio * 100.0,
            human::bytes(self.memory),
            human::bytes(self.write_buffer),
            if self.sync { ", sync" } else { "" },
        )
    }
}
