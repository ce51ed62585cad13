//! RocksDB's `db_bench`, run with the settings of our side, and its output read.
//!
//! Source: Debian package rocksdb-tools; the format is that of `Stats::Report` in
//! `db_bench_tool.cc`.
//!
//! Tests: below.

use super::Load;
use super::benchmark::Benchmark;
use crate::failure::Failure;
use std::path::Path;
use std::process::{Command, Stdio};
use velella::{Error, ErrorKind};

const PROGRAM: &str = "db_bench";

/// One benchmark, as `db_bench` reports it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Measured {
    pub(super) benchmark: Benchmark,
    pub(super) ops_per_second: f64,
    pub(super) hit_rate: Option<f64>,
}

/// What a run of `db_bench` printed.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) rows: Vec<Measured>,
    /// Lines that warn of something, such as assertions compiled in.
    pub(super) warnings: Vec<String>,
}

/// The version of the `db_bench` that is installed.
pub(super) fn version() -> Result<String, Failure> {
    let output = Command::new(PROGRAM)
        .arg("--version")
        .output()
        .map_err(missing)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn missing(error: std::io::Error) -> Error {
    Error::new(
        ErrorKind::NotFound,
        "run RocksDB's db_bench",
        error.to_string(),
    )
    .remedy("install it (Debian and Ubuntu: apt-get install rocksdb-tools)")
}

/// The arguments that give `db_bench` our settings.
pub(super) fn arguments(benchmarks: &[Benchmark], threads: u64, load: &Load) -> Vec<String> {
    let names: Vec<String> = benchmarks.iter().map(Benchmark::to_string).collect();
    let mut arguments = vec![
        format!("--benchmarks={}", names.join(",")),
        format!("--num={}", load.num),
        format!("--key_size={}", load.key_size),
        format!("--value_size={}", load.value_size),
        format!("--compression_ratio={}", load.compression_ratio),
        "--compression_type=lz4".to_owned(),
        format!("--bloom_bits={}", load.bloom_bits),
        format!("--cache_size={}", cache_bytes(load)),
        format!("--write_buffer_size={}", load.write_buffer),
        format!("--seek_nexts={}", load.seek_nexts),
        format!("--threads={threads}"),
        format!("--seed={}", load.seed),
    ];
    if load.sync {
        arguments.push("--sync=1".to_owned());
    }
    arguments
}

/// In memory there is nothing to cache; a cache as large as our budget would only be a number.
fn cache_bytes(load: &Load) -> u64 {
    if load.in_memory { 1 << 30 } else { load.memory }
}

/// Runs `db_bench` in `dir`.
pub(super) fn run(dir: &Path, arguments: &[String]) -> Result<Report, Failure> {
    let output = Command::new(PROGRAM)
        .arg(format!("--db={}", dir.display()))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(missing)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().last().unwrap_or_default();
        let found = format!("it ended with {}: {last}", output.status);
        return Err(Error::new(ErrorKind::Io, "run RocksDB's db_bench", found).into());
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

fn parse(text: &str) -> Report {
    let mut report = Report::default();
    for line in text.lines() {
        if let Some(row) = parse_row(line) {
            report.rows.push(row);
        } else if let Some(warning) = line.strip_prefix("WARNING: ") {
            report.warnings.push(warning.to_owned());
        }
    }
    report
}

/// Reads `readrandom : 3.607 micros/op 526537 ops/sec … (19635 of 20000 found)`.
fn parse_row(line: &str) -> Option<Measured> {
    let (name, rest) = line.split_once(':')?;
    let benchmark = clap::ValueEnum::from_str(name.trim(), false).ok()?;
    let (before, _) = rest.split_once(" ops/sec")?;
    let ops_per_second = before.split_whitespace().last()?.parse().ok()?;
    Some(Measured {
        benchmark,
        ops_per_second,
        hit_rate: hit_rate(rest),
    })
}

fn hit_rate(rest: &str) -> Option<f64> {
    let inner = rest.rsplit_once('(')?.1.trim_end().strip_suffix(')')?;
    let (found, all) = if let Some(of) = inner.strip_suffix(" found") {
        of.split_once(" of ")?
    } else {
        let (updates, found) = inner
            .trim()
            .strip_prefix("updates:")?
            .split_once(" found:")?;
        (found, updates)
    };
    let (found, all): (f64, f64) = (found.parse().ok()?, all.parse().ok()?);
    (all > 0.0).then(|| found / all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_db_bench_is_read() {
        let text = "\
Keys:       16 bytes each (+ 0 bytes user-defined timestamp)
WARNING: Assertions are enabled; benchmarks unnecessarily slow
fillrandom   :       7.191 micros/op 269982 ops/sec 0.148 seconds 40000 operations;   29.9 MB/s
readrandom   :       3.607 micros/op 526537 ops/sec 0.076 seconds 40000 operations;   57.2 MB/s (12635 of 20000 found)

deleterandom :       7.580 micros/op 252295 ops/sec 0.159 seconds 40000 operations;
updaterandom :       9.747 micros/op 185887 ops/sec 0.215 seconds 40000 operations;   33.4 MB/s ( updates:20000 found:11990)
";
        let report = parse(text);
        let row = |benchmark, ops_per_second, hit_rate| Measured {
            benchmark,
            ops_per_second,
            hit_rate,
        };
        let expected = [
            row(Benchmark::FillRandom, 269_982.0, None),
            row(Benchmark::ReadRandom, 526_537.0, Some(0.631_75)),
            row(Benchmark::DeleteRandom, 252_295.0, None),
            row(Benchmark::UpdateRandom, 185_887.0, Some(0.599_5)),
        ];
        assert_eq!(report.rows, expected);
        assert_eq!(report.warnings.len(), 1);
    }
}
