//! The command line.
//!
//! Tests: `tests/refusals.rs`.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use velella_bench::catalogue::{self, Changes};
use velella_bench::failure::{Failure, Outcome};
use velella_bench::keys::KeyShape;
use velella_bench::servers::{Servers, Test};
use velella_bench::session::Session;
use velella_bench::store::Durability;
use velella_cli::human;

/// Measure Velella beside other stores, with the same work, durability and memory.
#[derive(Debug, Parser)]
#[command(
    name = "velella-bench",
    version,
    after_help = "\
Examples:
  velella-bench list
  velella-bench run rows
  velella-bench run rows --peers rocksdb,fjall,lmdb --threads 1,2 --rounds 3
  velella-bench run ycsb.a,ycsb.b --records 100000 --latencies --counters
  velella-bench run rows --json rows.json --html rows.html
  velella-bench servers --rounds 3"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run benchmarks and print what came out
    Run(Box<Run>),
    /// Explain the benchmarks, each with its paper and figure
    List(List),
    /// Compare counts of small workloads with committed ones; exit with 1 if they grew
    Check(Check),
    /// Measure Velella's server beside Redis', with redis-benchmark
    Servers(Beside),
    /// Do the task on standard input (for `run`, which starts one for each store)
    #[command(hide = true)]
    Child,
}

/// Arguments of `list`.
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Only these groups, or benchmarks whose names begin so
    pub(crate) names: Vec<String>,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Counts comparisons, bytes, blocks and, where valgrind is installed, instructions for each operation
of fixed workloads with one thread, whose counts are the same every time. `cargo xtask bench-check`
builds and runs it. That it can fail, anybody can see: with --store aoc it must.")]
pub(crate) struct Check {
    /// The committed counts
    #[arg(long, default_value = "bench/baseline.tsv", value_name = "FILE")]
    pub(crate) baseline: PathBuf,
    /// Write what is counted now to that file instead
    #[arg(long)]
    pub(crate) renew: bool,
    /// The store to count, with the counts of Velella
    #[arg(long, default_value = velella_bench::stores::OURS, value_name = "STORE")]
    pub(crate) store: String,
    /// How often everything is done
    #[arg(long, default_value_t = 2, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=99))]
    pub(crate) rounds: u64,
    /// Directory to work in; what is made there is removed afterwards
    #[arg(long, short = 'd', default_value = ".", value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

/// Arguments of `servers`.
#[derive(Debug, Args)]
#[command(after_help = "\
Takes Redis' own programs, redis-server and redis-benchmark (Debian's redis-server and redis-tools).
Servers take turns, each alone on a directory of its own, round by round; a ratio is that of one
round. All keys are loaded first, and counters. With both an acknowledged write survives kill -9 and
is on the device a second later (Redis: appendfsync everysec, its file not rewritten meanwhile);
each server is killed in the end, started again, and must have all its keys.

Examples:
  cargo build --release && cargo build --release -p velella-bench
  velella-bench servers --rounds 3
  velella-bench servers --tests get --pipelines 1,16,64 --connections 500")]
pub(crate) struct Beside {
    /// Velella's program; by default the one beside this program
    #[arg(long, value_name = "PROGRAM")]
    velella: Option<PathBuf>,
    /// Redis' server
    #[arg(long, default_value = "redis-server", value_name = "PROGRAM")]
    redis: PathBuf,
    /// Redis' load generator
    #[arg(long, default_value = "redis-benchmark", value_name = "PROGRAM")]
    client: PathBuf,
    /// How often everything is done
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=99))]
    rounds: u64,
    /// What is measured
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "set,get,incr,mset",
        value_name = "TEST,..."
    )]
    tests: Vec<Test>,
    /// Requests that a connection sends at once
    #[arg(long, value_delimiter = ',', default_value = "1,16", value_name = "N,...",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pipelines: Vec<u64>,
    /// Connections
    #[arg(long, default_value_t = 50, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// Requests of each test without a pipeline; with one, up to ten times as many
    #[arg(long, default_value_t = 100_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    requests: u64,
    /// Keys in the key space
    #[arg(long, default_value_t = 1_000_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    keys: u64,
    /// Bytes of a value
    #[arg(long, default_value_t = 100, value_name = "BYTES",
          value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    value_size: u64,
    /// Directory to work in; what is made there is removed afterwards
    #[arg(long, short = 'd', default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Write every measurement as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl Beside {
    /// What is asked for.
    pub(crate) fn servers(&self) -> Outcome<Servers> {
        let velella = match &self.velella {
            Some(program) => program.clone(),
            None => std::env::current_exe()
                .map_err(|error| Failure::system("find the program `velella`", error))?
                .with_file_name("velella"),
        };
        Ok(Servers {
            velella,
            redis: self.redis.clone(),
            client: self.client.clone(),
            rounds: self.rounds,
            tests: self.tests.clone(),
            pipelines: self.pipelines.clone(),
            connections: self.connections,
            requests: self.requests,
            keys: self.keys,
            value_bytes: self.value_size,
            dir: self.dir.clone(),
        })
    }
}

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Peers are built in by features: cargo build --release -p velella-bench --features peers, or
--features rocksdb,fjall,lmdb,redb,leveldb,wiredtiger for some of them. Beside them there are
baselines, which are Velella but for one part; `velella-bench list` names all.

Stores take turns, in processes of their own, round by round; a ratio is that of one round, and
the median is printed with the least and the greatest. Operations are those of all threads
together, but in db_bench and jf.dbb.*, which count as db_bench does, for each.

Not there, since Velella has not the parts it takes: xyza.conflict and xyza.opt (partitions that
a scheduler lets one operation into), yodb.e* by the size of chunks' logs.

Every store is asked for the same durability: none (may be lost with the process), process
(survives kill -9), device (survives a power loss). One that cannot keep it is refused. A sample
of all answers is checked against what was written; a store that is wrong has no figures.

Examples:
  velella-bench run rows --peers rocksdb,fjall,lmdb --threads 1,2 --rounds 3 --memory 1GiB
  velella-bench run overwrite.zipf --peers aoc --counters
  velella-bench run ycsb --durability device --operations 20000
  velella-bench run tail --peers rocksdb --rate 150000 --seconds 60 --latencies
  velella-bench run rows --records 20000000 --memory 256MiB --write-buffer 32MiB")]
pub(crate) struct Run {
    /// Benchmarks and groups; `velella-bench list` explains them
    #[arg(required = true, value_delimiter = ',', value_name = "NAME")]
    names: Vec<String>,
    /// Stores to compare with; by default those built in, and each benchmark's baselines
    #[arg(long, value_delimiter = ',', value_name = "STORE,...")]
    peers: Option<Vec<String>>,
    /// Only Velella
    #[arg(long, conflicts_with = "peers")]
    alone: bool,
    /// Numbers of threads; by default each benchmark's own
    #[arg(long, value_delimiter = ',', value_name = "N,...",
          value_parser = clap::value_parser!(u64).range(1..=256))]
    threads: Vec<u64>,
    /// How often everything is done
    #[arg(long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=99))]
    rounds: u64,
    /// Directory to work in; what is made there is removed afterwards
    #[arg(long, short = 'd', default_value = ".", value_name = "DIR")]
    dir: PathBuf,
    /// Multiplies the benchmarks' own numbers of records and operations
    #[arg(long, value_name = "X", value_parser = positive)]
    scale: Option<f64>,
    /// Keys in the key space (operations change in proportion)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// Operations of each benchmark
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,
    /// How numbers become keys
    #[arg(long, value_enum, value_name = "SHAPE")]
    keys: Option<KeyShape>,
    /// Bytes of a value
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(16..=1 << 20))]
    value_size: Option<u64>,
    /// Cache of a peer; everything of Velella
    #[arg(long, value_name = "BYTES", value_parser = human::parse_bytes)]
    memory: Option<u64>,
    /// Bytes at which a memtable is flushed
    #[arg(long, value_name = "BYTES", value_parser = human::parse_bytes)]
    write_buffer: Option<u64>,
    /// What an acknowledged write survives
    #[arg(long, value_enum, value_name = "WHAT")]
    durability: Option<Durability>,
    /// Bits per key of filters
    #[arg(long, value_name = "N")]
    bloom_bits: Option<u32>,
    /// Operations before those that are measured
    #[arg(long, value_name = "N")]
    warm_up: Option<u64>,
    /// Let stores write out and compact what they have before each benchmark
    #[arg(long)]
    settled: bool,
    /// Seconds of what is measured in seconds (`tail`: a fifth more before, without a store)
    #[arg(long, value_name = "X", value_parser = positive)]
    seconds: Option<f64>,
    /// Operations per second of an open loop (`tail`), instead of its share of saturation
    #[arg(long, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    rate: Option<u64>,
    /// Measure the latency of every Nth operation; 0: of none
    #[arg(long, value_name = "N")]
    latency_every: Option<u64>,
    /// Where random numbers begin
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Print latencies too
    #[arg(long)]
    pub(crate) latencies: bool,
    /// Print what the stores, the system and the machine counted; RocksDB counts only then, and
    /// is slower by it
    #[arg(long)]
    pub(crate) counters: bool,
    /// Write everything as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(x) if x > 0.0 && x < 1e6 => Ok(x),
        _ => Err("choose a number above 0".to_owned()),
    }
}

impl Run {
    /// What is asked for.
    pub(crate) fn session(&self) -> Outcome<Session> {
        let mut benchmarks = Vec::new();
        for name in &self.names {
            benchmarks.extend(catalogue::named(name)?);
        }
        Ok(Session {
            benchmarks,
            peers: if self.alone {
                Some(Vec::new())
            } else {
                self.peers.clone()
            },
            threads: self.threads.clone(),
            rounds: self.rounds,
            dir: self.dir.clone(),
            changes: Changes {
                scale: self.scale,
                records: self.records,
                operations: self.operations,
                keys: self.keys,
                value_bytes: self.value_size,
                memory: self.memory,
                write_buffer: self.write_buffer,
                durability: self.durability,
                bloom_bits: self.bloom_bits,
                warm_up: self.warm_up,
                settled: self.settled,
                drained: false,
                seconds: self.seconds,
                rate: self.rate,
                counters: self.counters,
                latency_every: self.latency_every,
                seed: self.seed,
            },
            instructions: false,
            command: std::env::args().collect::<Vec<_>>().join(" "),
        })
    }
}
