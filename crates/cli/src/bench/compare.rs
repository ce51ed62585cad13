//! Velella and RocksDB in turn, round by round, with the same settings.
//!
//! Both run as processes of their own, so that neither inherits the other's memory; in odd rounds
//! the order is turned round, so that a drifting machine favours neither.
//!
//! V1. A ratio is that of one round; what is told is the median, the least and the greatest.
//!
//! Tests: below and `tests/bench.rs`.

use super::benchmark::Benchmark;
use super::database::Scratch;
use super::result::{Row, percent};
use super::rocksdb::{self, Measured};
use super::{Bench, Load};
use crate::failure::Failure;
use crate::human;
use crate::output::Output;
use crate::table::Table;
use serde::Serialize;
use std::path::Path;
use std::process::{Command, Stdio};
use velella::{Error, ErrorKind};

/// One benchmark in one round.
#[derive(Debug, Clone, Copy, Serialize)]
struct Round {
    velella_ops_per_second: f64,
    rocksdb_ops_per_second: f64,
    ratio: f64,
}

/// One benchmark with one number of threads, in all rounds.
#[derive(Debug, Serialize)]
struct Compared {
    benchmark: Benchmark,
    threads: u64,
    rounds: Vec<Round>,
    ratio_median: f64,
    ratio_min: f64,
    ratio_max: f64,
    velella_hit_rate: Option<f64>,
    rocksdb_hit_rate: Option<f64>,
}

/// All that was compared, and with what.
#[derive(Debug, Serialize)]
struct Comparison {
    rocksdb: String,
    rocksdb_arguments: Vec<String>,
    rocksdb_warnings: Vec<String>,
    rows: Vec<Compared>,
}

/// Runs the comparison and prints it.
pub(super) fn run(bench: &Bench, output: &mut Output) -> Result<(), Failure> {
    let mut comparison = Comparison {
        rocksdb: rocksdb::version()?,
        rocksdb_arguments: Vec::new(),
        rocksdb_warnings: Vec::new(),
        rows: Vec::new(),
    };
    for &threads in &bench.threads {
        compare(bench, threads, &mut comparison, output)?;
    }
    output.result(&comparison, |out| {
        writeln!(out, "{}", bench.load.describe())?;
        writeln!(out, "beside {}", comparison.rocksdb)?;
        for arguments in &comparison.rocksdb_arguments {
            writeln!(out, "  db_bench {arguments}")?;
        }
        for warning in &comparison.rocksdb_warnings {
            writeln!(out, "  it says: {warning}")?;
        }
        table(&comparison.rows).print(out)
    })
}

fn compare(
    bench: &Bench,
    threads: u64,
    comparison: &mut Comparison,
    output: &Output,
) -> Result<(), Failure> {
    let scratch = Scratch::new(&bench.dir, &bench.load)?;
    let arguments = rocksdb::arguments(&bench.benchmarks, threads, &bench.load);
    let mut rounds: Vec<(Vec<Row>, Vec<Measured>)> = Vec::new();
    for round in 0..bench.rounds {
        let (of, threads_told) = (bench.rounds, human::counted(threads, "thread"));
        let tell = |who| {
            output.note(&format!(
                "round {} of {of}, {threads_told}: {who}",
                round + 1
            ))
        };
        let ours = || {
            tell("velella");
            run_velella(bench, threads, scratch.dir())
        };
        let theirs = || {
            tell("rocksdb");
            let dir = scratch.dir().join("rocksdb");
            // Its own error first: it may have made no directory.
            let report = rocksdb::run(&dir, &arguments)?;
            std::fs::remove_dir_all(&dir).map_err(|error| Error::io("remove", &dir, error))?;
            Ok::<_, Failure>(report)
        };
        let (ours, theirs) = if round % 2 == 0 {
            let ours = ours()?;
            (ours, theirs()?)
        } else {
            let theirs = theirs()?;
            (ours()?, theirs)
        };
        for warning in theirs.warnings {
            if !comparison.rocksdb_warnings.contains(&warning) {
                comparison.rocksdb_warnings.push(warning);
            }
        }
        rounds.push((ours, theirs.rows));
    }
    comparison.rocksdb_arguments.push(arguments.join(" "));
    for position in 0..bench.benchmarks.len() {
        comparison.rows.push(compared(position, &rounds)?);
    }
    Ok(())
}

/// Runs our side as a process of its own.
fn run_velella(bench: &Bench, threads: u64, dir: &Path) -> Result<Vec<Row>, Failure> {
    let failed = |found: String| Error::new(ErrorKind::Io, "run our own side", found);
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let names: Vec<String> = bench.benchmarks.iter().map(Benchmark::to_string).collect();
    let output = Command::new(program)
        .arg("bench")
        .arg(names.join(","))
        .args(velella_arguments(&bench.load, threads))
        .arg("--dir")
        .arg(dir)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("it ended with {}", output.status)).into());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()).into())
}

/// Our settings; `--in-memory` was turned into sizes already.
fn velella_arguments(load: &Load, threads: u64) -> Vec<String> {
    let mut arguments = vec!["--json".to_owned()];
    let mut add = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
    add("threads", threads.to_string());
    add("num", load.num.to_string());
    add("key-size", load.key_size.to_string());
    add("value-size", load.value_size.to_string());
    add("compression-ratio", load.compression_ratio.to_string());
    add("seek-nexts", load.seek_nexts.to_string());
    add("memory", load.memory.to_string());
    add("write-buffer", load.write_buffer.to_string());
    add("bloom-bits", load.bloom_bits.to_string());
    add("seed", load.seed.to_string());
    // As db_bench without --histogram: no clock in the loop.
    add("latency-every", "0".to_owned());
    if load.sync {
        arguments.push("--sync".to_owned());
    }
    arguments
}

fn compared(position: usize, rounds: &[(Vec<Row>, Vec<Measured>)]) -> Result<Compared, Failure> {
    let pairs: Option<Vec<(&Row, &Measured)>> = rounds
        .iter()
        .map(|(ours, theirs)| {
            let (ours, theirs) = (ours.get(position)?, theirs.get(position)?);
            (ours.benchmark == theirs.benchmark).then_some((ours, theirs))
        })
        .collect();
    let Some((pairs, (row, measured))) = pairs.and_then(|pairs| {
        let last = pairs.last().copied()?;
        Some((pairs, last))
    }) else {
        let found = "its output lacks a benchmark that was asked for";
        return Err(Error::new(ErrorKind::Unsupported, "read db_bench's output", found).into());
    };
    let rounds: Vec<Round> = pairs
        .iter()
        .map(|(ours, theirs)| Round {
            velella_ops_per_second: ours.ops_per_second(),
            rocksdb_ops_per_second: theirs.ops_per_second,
            ratio: ours.ops_per_second() / theirs.ops_per_second.max(1e-9),
        })
        .collect();
    let ratios = sorted(rounds.iter().map(|round| round.ratio));
    Ok(Compared {
        benchmark: row.benchmark,
        threads: row.threads,
        ratio_median: median(&ratios),
        ratio_min: ratios.first().copied().unwrap_or(0.0),
        ratio_max: ratios.last().copied().unwrap_or(0.0),
        velella_hit_rate: row.hit_rate(),
        rocksdb_hit_rate: measured.hit_rate,
        rounds,
    })
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of sorted values; of two middles the lower, which favours nobody's claim.
fn median(sorted: &[f64]) -> f64 {
    sorted
        .get(sorted.len().saturating_sub(1) / 2)
        .copied()
        .unwrap_or(0.0)
}

fn table(rows: &[Compared]) -> Table {
    let mut table = Table::new(&[
        "benchmark",
        ">threads",
        ">velella ops/s",
        ">rocksdb ops/s",
        ">ratio",
        ">least",
        ">greatest",
        ">hits",
        ">rocksdb hits",
    ]);
    for row in rows {
        let middle = |field: fn(&Round) -> f64| {
            let ops = median(&sorted(row.rounds.iter().map(field)));
            human::rate(1, std::time::Duration::from_secs_f64(1.0 / ops.max(1e-9)))
                .replace("/s", "")
        };
        table.row([
            row.benchmark.to_string(),
            row.threads.to_string(),
            middle(|round| round.velella_ops_per_second),
            middle(|round| round.rocksdb_ops_per_second),
            format!("{:.2}", row.ratio_median),
            format!("{:.2}", row.ratio_min),
            format!("{:.2}", row.ratio_max),
            percent(row.velella_hit_rate),
            percent(row.rocksdb_hit_rate),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::Latencies;

    fn round(ours: f64, theirs: f64) -> (Vec<Row>, Vec<Measured>) {
        let row = Row {
            benchmark: Benchmark::Overwrite,
            threads: 1,
            operations: 1000,
            found: None,
            bytes: 0,
            seconds: 1000.0 / ours,
            latencies: Latencies::default(),
            counters: Default::default(),
        };
        let measured = Measured {
            benchmark: Benchmark::Overwrite,
            ops_per_second: theirs,
            hit_rate: None,
        };
        (vec![row], vec![measured])
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds() {
        let rounds = [
            round(100.0, 100.0),
            round(300.0, 100.0),
            round(150.0, 100.0),
        ];
        let row = compared(0, &rounds).unwrap();
        assert!((row.ratio_median - 1.5).abs() < 1e-9);
        assert!((row.ratio_min - 1.0).abs() < 1e-9);
        assert!((row.ratio_max - 3.0).abs() < 1e-9);
        let mut out = Vec::new();
        table(&[row]).print(&mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().contains("1.50"));
    }

    #[test]
    fn a_benchmark_that_db_bench_did_not_report_is_an_error() {
        let mut short = round(1.0, 1.0);
        short.1.clear();
        assert!(compared(0, &[short]).is_err());
    }
}
