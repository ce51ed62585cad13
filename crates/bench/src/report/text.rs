//! Results as aligned tables.
//!
//! Tests: `tests/run.rs`.

use crate::result::{Measurement, Results, Spread, float};
use std::collections::BTreeSet;
use std::io::{self, Write};
use velella_cli::human;
use velella_cli::table::Table;

/// Which tables are printed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Latencies.
    pub latencies: bool,
    /// What was counted.
    pub counters: bool,
}

/// Prints all.
///
/// # Errors
/// Those of `out`.
pub fn print(results: &Results, wanted: Wanted, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", results.machine)?;
    for line in settings(results) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    rates(results).print(out)?;
    if results.stores.len() > 1 {
        let title = ratio_title(results, "the store in the second column");
        writeln!(out, "\n{title}")?;
        ratios(results).print(out)?;
    }
    let figures = figures(results);
    if !figures.is_empty() {
        writeln!(out)?;
        figures.print(out)?;
    }
    if wanted.latencies {
        writeln!(out)?;
        latencies(results).print(out)?;
    }
    if wanted.counters {
        writeln!(out)?;
        meters(results).print(out)?;
    }
    for remark in &results.remarks {
        writeln!(out, "\nnote: {remark}")?;
    }
    let checked: u64 = results.measurements.iter().map(|one| one.checked).sum();
    writeln!(
        out,
        "\n{} answers were checked, all right",
        human::count(checked)
    )
}

/// The parameters that benchmarks share, one line for each kind.
#[must_use]
pub fn settings(results: &Results) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for spec in &results.specs {
        let line = format!(
            "{} keys ({:?}), {} B values, cache {}, memtables {}, writes survive: {}",
            human::count(spec.records),
            spec.keys,
            spec.value_bytes,
            human::bytes(spec.settings.memory),
            human::bytes(spec.settings.write_buffer),
            match spec.settings.durability {
                crate::store::Durability::None => "nothing",
                crate::store::Durability::Process => "kill -9",
                crate::store::Durability::Device => "power loss",
            }
        );
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, names)) => names.push(&spec.name),
            None => lines.push((line, vec![&spec.name])),
        }
    }
    let alone = lines.len() == 1;
    let text = |(line, names): (String, Vec<&str>)| match alone {
        true => line,
        false => format!("{}: {line}", names.join(", ")),
    };
    lines.into_iter().map(text).collect()
}

/// Every benchmark with every number of threads that was measured.
fn lines(results: &Results) -> impl Iterator<Item = (&str, u64)> {
    let benchmarks = results.specs.iter().map(|spec| spec.name.as_str());
    benchmarks
        .flat_map(|name| results.threads.iter().map(move |threads| (name, *threads)))
        .filter(|(name, threads)| {
            let mut all = results.measurements.iter();
            all.any(|one| one.benchmark == *name && one.threads == *threads)
        })
}

/// Operations per second: a column for each store.
#[must_use]
pub fn rates(results: &Results) -> Table {
    let stores = results.stores.iter().map(|store| format!(">{store}"));
    let columns: Vec<String> = ["operations per second".to_owned(), ">threads".to_owned()]
        .into_iter()
        .chain(stores)
        .collect();
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, threads) in lines(results) {
        let rate = |store: &String| {
            let rate = results.rate(name, store, threads);
            rate.map_or(String::new(), |spread| per_second(spread.median))
        };
        let cells = [name.to_owned(), threads.to_string()];
        table.row(cells.into_iter().chain(results.stores.iter().map(rate)));
    }
    table
}

pub(crate) fn per_second(rate: f64) -> String {
    match rate {
        rate if rate < 100.0 => format!("{rate:.2}"),
        rate => human::rate_of(rate),
    }
}

/// What the table of ratios is called; `each` says where it is told which store is ours, if that is
/// not the same in all of them.
#[must_use]
pub fn ratio_title(results: &Results, each: &str) -> String {
    let ours = results.ours_of_all().unwrap_or(each);
    let measured = results.measurements.iter().map(|one| one.round + 1);
    let rounds = human::counted(measured.max().unwrap_or(0), "round");
    format!("{ours} as many times as fast as each: median (least to greatest) of {rounds}")
}

/// Our rate as a multiple of each other store's, and of the best one's.
#[must_use]
pub fn ratios(results: &Results) -> Table {
    let compared = |store: &&String| results.specs.iter().any(|spec| spec.ours != **store);
    let others: Vec<&String> = results.stores.iter().filter(compared).collect();
    let whose = results.ours_of_all().is_none();
    let columns: Vec<String> = ["ratio", "of", ">threads"]
        .into_iter()
        .filter(|column| whose || *column != "of")
        .map(str::to_owned)
        .chain(others.iter().map(|store| format!(">{store}")))
        .chain([">the best".to_owned(), "which".to_owned()])
        .collect();
    let mut table = Table::new(&columns.iter().map(String::as_str).collect::<Vec<_>>());
    for (name, threads) in lines(results) {
        let all: Vec<Option<Spread>> = others
            .iter()
            .map(|store| results.ratio(name, store, threads))
            .collect();
        let best = others
            .iter()
            .zip(&all)
            .filter_map(|(store, ratio)| ratio.map(|ratio| (store, ratio)))
            .min_by(|a, b| a.1.median.total_cmp(&b.1.median));
        let (ratio, which) = best.map_or((String::new(), String::new()), |(store, ratio)| {
            (format!("{:.2}", ratio.median), (*store).clone())
        });
        let of = whose.then(|| results.ours(name).unwrap_or_default().to_owned());
        let cells = std::iter::once(name.to_owned())
            .chain(of)
            .chain([threads.to_string()]);
        let ratios = all
            .into_iter()
            .map(|ratio| ratio.map_or(String::new(), spread));
        table.row(cells.chain(ratios).chain([ratio, which]));
    }
    table
}

/// Median, least and greatest.
#[must_use]
pub fn spread(spread: Spread) -> String {
    if spread.least.total_cmp(&spread.greatest).is_eq() {
        return format!("{:.2}", spread.median);
    }
    format!(
        "{:.2} ({:.2}-{:.2})",
        spread.median, spread.least, spread.greatest
    )
}

/// What single benchmarks alone measure: the median, a column for each store.
#[must_use]
pub fn figures(results: &Results) -> Table {
    let mut table = by_store(results, ["figure", ">threads", "what"]);
    for (benchmark, threads) in lines(results) {
        let all = || {
            let of_all = results.measurements.iter();
            of_all.filter(move |one| one.benchmark == benchmark && one.threads == threads)
        };
        let names: BTreeSet<&String> = all().flat_map(|one| one.figures.keys()).collect();
        for name in names {
            // A stall that a round has no figure of did not occur in it.
            let missing = name.starts_with("stall").then_some(0.0);
            let of = |store: &String| {
                let values = results.of(benchmark, store, threads);
                let values = values.filter_map(|one| one.figures.get(name).copied().or(missing));
                Spread::of(values).map_or(String::new(), |spread| format!("{:.2}", spread.median))
            };
            let cells = [benchmark.to_owned(), threads.to_string(), name.clone()];
            table.row(cells.into_iter().chain(results.stores.iter().map(of)));
        }
    }
    table
}

/// A table with a column for each store behind `first`.
fn by_store(results: &Results, first: [&str; 3]) -> Table {
    let stores: Vec<String> = results
        .stores
        .iter()
        .map(|name| format!(">{name}"))
        .collect();
    let stores = stores.iter().map(String::as_str);
    Table::new(&first.into_iter().chain(stores).collect::<Vec<_>>())
}

/// The latencies of the median round.
fn latencies(results: &Results) -> Table {
    let mut table = Table::new(&[
        "latency", ">threads", "store", ">p50", ">p90", ">p99", ">p99.9", ">max",
    ]);
    for (benchmark, threads) in lines(results) {
        for store in &results.stores {
            let mut all: Vec<&Measurement> = results.of(benchmark, store, threads).collect();
            all.sort_unstable_by(|a, b| a.rate().total_cmp(&b.rate()));
            let Some(middle) = all.get(all.len() / 2) else {
                continue;
            };
            let latencies = &middle.latencies;
            if latencies.count == 0 {
                continue;
            }
            let times = [
                latencies.p50_ns,
                latencies.p90_ns,
                latencies.p99_ns,
                latencies.p999_ns,
                latencies.max_ns,
            ];
            let cells = [benchmark.to_owned(), threads.to_string(), store.clone()];
            let times = times.map(|ns| human::micros(float(ns) / 1e3));
            table.row(cells.into_iter().chain(times));
        }
    }
    table
}

/// What was counted in the last round, for each operation, sizes whole: a column for each store.
#[must_use]
pub fn meters(results: &Results) -> Table {
    let mut table = by_store(results, ["counted per operation", ">threads", "what"]);
    for (benchmark, threads) in lines(results) {
        let stores = results.stores.iter();
        let last = stores.map(|store| results.of(benchmark, store, threads).last());
        let all: Vec<Option<&Measurement>> = last.collect();
        let measured = || all.iter().flatten();
        let meters: BTreeSet<&String> = measured().flat_map(|one| one.meters.keys()).collect();
        let counted = measured().flat_map(|one| &one.counters);
        let counted = counted
            .filter(|(_, count)| **count > 0)
            .map(|(name, _)| name);
        let counters: BTreeSet<&String> = counted.collect();
        for name in meters.into_iter().chain(counters) {
            let of = |one: &Option<&Measurement>| {
                let told = one.and_then(|one| counted_of(one, name));
                told.unwrap_or_default()
            };
            let cells = [
                benchmark.to_owned(),
                threads.to_string(),
                (*name).to_owned(),
            ];
            table.row(cells.into_iter().chain(all.iter().map(of)));
        }
    }
    table
}

/// What `one` counted by this name, for people.
fn counted_of(one: &Measurement, name: &str) -> Option<String> {
    let each = float(one.operations.max(1));
    let Some(count) = one.meters.get(name) else {
        let count = one.counters.get(name)?;
        return Some(per_operation(float(*count) / each));
    };
    Some(match name {
        "write_amplification" => format!("{count:.2} in all"),
        "space_bytes" | "resident_bytes" | "resident_bytes_max" => {
            format!("{} in all", human::bytes_of(*count))
        }
        _ => per_operation(count / each),
    })
}

/// Three digits behind the point; what is rarer than that is not nothing.
fn per_operation(n: f64) -> String {
    match n {
        n if n > 0.0 && n < 0.001 => "<0.001".to_owned(),
        n => format!("{n:.3}"),
    }
}
