//! What was measured, for tables and for programs.
//!
//! Tests: below.

use super::benchmark::Benchmark;
use crate::human;
use crate::table::Table;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};

const MIB: f64 = 1_048_576.0;

/// One benchmark with one number of threads.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) benchmark: Benchmark,
    pub(super) threads: u64,
    /// Of all threads.
    pub(super) operations: u64,
    /// Keys that existed, where the benchmark asks for keys.
    pub(super) found: Option<u64>,
    /// Of keys and values.
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) latencies: Latencies,
    /// What the engine counted, for each operation.
    pub(super) counters: BTreeMap<String, f64>,
}

/// Nanoseconds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Latencies {
    /// How many were measured.
    pub(super) count: u64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) p999_ns: u64,
    pub(super) max_ns: u64,
}

impl Latencies {
    pub(super) fn of(histogram: &Histogram<u64>) -> Self {
        Latencies {
            count: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
        }
    }
}

impl Row {
    /// Operations per second, of all threads together.
    pub(super) fn ops_per_second(&self) -> f64 {
        human::float(self.operations) / self.seconds.max(1e-9)
    }

    /// What part of the keys asked for existed.
    pub(super) fn hit_rate(&self) -> Option<f64> {
        self.found
            .map(|found| human::float(found) / human::float(self.operations.max(1)))
    }
}

/// A share as a percentage; nothing where there is none.
pub(super) fn percent(share: Option<f64>) -> String {
    share
        .map(|share| format!("{:.1} %", share * 100.0))
        .unwrap_or_default()
}

/// A line for each row.
pub(super) fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "benchmark",
        ">threads",
        ">ns/op",
        ">ops/s",
        ">MB/s",
        ">hits",
        ">p50",
        ">p99",
        ">p99.9",
        ">max",
    ]);
    for row in rows {
        let per_operation = row.seconds * human::float(row.threads) * 1e9;
        let latencies = row.latencies;
        let times = [
            latencies.p50_ns,
            latencies.p99_ns,
            latencies.p999_ns,
            latencies.max_ns,
        ];
        let time = |ns: u64| match latencies.count {
            0 => String::new(),
            _ => human::micros(human::float(ns) / 1e3),
        };
        let cells = [
            row.benchmark.to_string(),
            row.threads.to_string(),
            format!("{:.0}", per_operation / human::float(row.operations.max(1))),
            human::rate(
                row.operations,
                std::time::Duration::from_secs_f64(row.seconds),
            )
            .replace("/s", ""),
            format!(
                "{:.1}",
                human::float(row.bytes) / MIB / row.seconds.max(1e-9)
            ),
            percent(row.hit_rate()),
        ];
        table.row(cells.into_iter().chain(times.map(time)));
    }
    table
}

/// What the engine counted, for each operation: a line for each counter, a column for each row.
pub(super) fn counters(rows: &[Row], out: &mut dyn Write) -> io::Result<()> {
    let mut names: Vec<&String> = rows.iter().flat_map(|row| row.counters.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let columns: Vec<String> = std::iter::once("per operation".to_owned())
        .chain(
            rows.iter()
                .map(|row| format!(">{} x{}", row.benchmark, row.threads)),
        )
        .collect();
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for name in names {
        let cell = |row: &Row| {
            row.counters
                .get(name)
                .map_or(String::new(), |n| per_operation(*n))
        };
        table.row(std::iter::once(name.clone()).chain(rows.iter().map(cell)));
    }
    writeln!(out)?;
    table.print(out)
}

/// Three digits behind the point; what is rarer than that is not nothing.
fn per_operation(n: f64) -> String {
    match n {
        n if n < 0.001 => "<0.001".to_owned(),
        n => format!("{n:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row {
            benchmark: Benchmark::ReadRandom,
            threads: 2,
            operations: 2_000_000,
            found: Some(1_264_000),
            bytes: 2 << 20,
            seconds: 2.0,
            latencies: Latencies::default(),
            counters: BTreeMap::from([("comparisons".to_owned(), 20.5)]),
        }
    }

    #[test]
    fn a_row_tells_what_a_thread_waits_and_what_all_do() {
        let mut out = Vec::new();
        table(&[row()]).print(&mut out).unwrap();
        counters(&[row()], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let cells: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(
            cells,
            ["readrandom", "2", "2000", "1,000,000", "1.0", "63.2", "%"]
        );
        assert!(text.contains("comparisons"), "{text}");
    }

    #[test]
    fn a_row_survives_json() {
        let text = serde_json::to_string(&row()).unwrap();
        assert!(text.contains("\"readrandom\""), "{text}");
        let back: Row = serde_json::from_str(&text).unwrap();
        assert_eq!(back.hit_rate(), row().hit_rate());
    }
}
