//! `velella stats`: levels, memory by owner, journal, cache, stall causes, counters, latencies.
//!
//! Tests: `tests/maintenance.rs`.

use crate::database::Place;
use crate::failure::Failure;
use crate::human;
use crate::keyspaces;
use crate::output::Output;
use crate::table::Table;
use clap::Args;
use std::io::{self, Write};
use velella::Stats;

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  velella stats
  velella stats --json | jq .keyspaces

Opens the database, so counters speak of this opening only. A running server tells its own:
  redis-cli -p 6380 info")]
pub(crate) struct StatsCommand {
    #[command(flatten)]
    place: Place,
}

impl StatsCommand {
    pub(crate) fn run(self, output: &mut Output) -> Result<(), Failure> {
        let db = self.place.open(output)?;
        let stats = db.stats();
        db.close()?;
        output.result(&stats, |out| print(&stats, out))
    }
}

/// Prints everything, each part under its name; parts with nothing to tell are left out.
fn print(stats: &Stats, out: &mut dyn Write) -> io::Result<()> {
    section("keyspaces", &keyspaces::table(&stats.keyspaces), out)?;
    section("levels", &levels(stats), out)?;
    section("memory", &memory(stats), out)?;
    section("journal", &journal(stats), out)?;
    section("block cache", &cache(stats), out)?;
    section("stalls", &stalls(stats), out)?;
    section("latencies", &latencies(stats), out)?;
    section("counters", &counters(stats), out)?;
    section("time", &time(stats), out)
}

fn section(name: &str, table: &Table, out: &mut dyn Write) -> io::Result<()> {
    if table.is_empty() {
        return Ok(());
    }
    writeln!(out, "{name}")?;
    table.print(out)?;
    writeln!(out)
}

fn levels(stats: &Stats) -> Table {
    let mut table = Table::new(&["keyspace", ">level", ">tables", ">entries", ">bytes"]);
    for keyspace in &stats.keyspaces {
        for level in keyspace.levels.iter().filter(|level| level.tables > 0) {
            table.row([
                keyspace.name.clone(),
                level.level.to_string(),
                human::count(level.tables),
                human::count(level.entries),
                human::bytes(level.bytes),
            ]);
        }
    }
    table
}

fn memory(stats: &Stats) -> Table {
    let memory = &stats.memory;
    let share = |bytes: u64| human::float(bytes) * 100.0 / human::float(memory.budget.max(1));
    let owners = [
        ("memtables", memory.memtables),
        ("spare", memory.spare),
        ("block cache", memory.block_cache),
        ("filters and indexes", memory.filters_and_indexes),
        ("journal mappings", memory.journal_mappings),
    ];
    let all = owners.iter().map(|(_, bytes)| bytes).sum();
    let rows = owners
        .into_iter()
        .chain([("in all", all), ("budget", memory.budget)]);
    let mut table = Table::new(&["owner", ">bytes", ">of budget"]);
    for (owner, bytes) in rows {
        table.row([
            owner.to_owned(),
            human::bytes(bytes),
            format!("{:.1} %", share(bytes)),
        ]);
    }
    table
}

fn journal(stats: &Stats) -> Table {
    let journal = &stats.journal;
    let mut table = Table::new(&[
        "access",
        ">records",
        ">bytes",
        ">rounds",
        ">syncs",
        ">segment waits",
        ">unflushed",
        "pinned by",
    ]);
    table.row([
        journal.access.clone(),
        human::count(journal.records),
        human::bytes(journal.bytes),
        human::count(journal.rounds),
        human::count(journal.syncs),
        human::count(journal.segment_waits),
        human::bytes(journal.unflushed_bytes),
        journal.pinned_by.join(", "),
    ]);
    table
}

fn cache(stats: &Stats) -> Table {
    let cache = &stats.cache;
    let asked = cache.hits + cache.misses;
    let rate = human::float(cache.hits) * 100.0 / human::float(asked.max(1));
    let mut table = Table::new(&[">hits", ">misses", ">hit rate", ">bytes"]);
    if asked > 0 {
        table.row([
            human::count(cache.hits),
            human::count(cache.misses),
            format!("{rate:.1} %"),
            human::bytes(cache.bytes),
        ]);
    }
    table
}

fn stalls(stats: &Stats) -> Table {
    let mut table = Table::new(&["cause", ">count", ">total", ">longest"]);
    for stall in stats.stalls.iter().filter(|stall| stall.count > 0) {
        table.row([
            stall.cause.clone(),
            human::count(stall.count),
            human::micros(human::float(stall.total_us)),
            human::micros(human::float(stall.max_us)),
        ]);
    }
    table
}

fn latencies(stats: &Stats) -> Table {
    let mut table = Table::new(&["of", ">count", ">p50", ">p99", ">p99.9", ">max"]);
    for histogram in stats
        .histograms
        .iter()
        .filter(|histogram| histogram.count > 0)
    {
        let times = [
            histogram.p50_us,
            histogram.p99_us,
            histogram.p999_us,
            histogram.max_us,
        ];
        let cells = [histogram.name.clone(), human::count(histogram.count)];
        table.row(cells.into_iter().chain(times.map(human::micros)));
    }
    table
}

fn counters(stats: &Stats) -> Table {
    let mut table = Table::new(&["counter", ">count"]);
    for (name, count) in stats.counters.iter().filter(|(_, count)| **count > 0) {
        table.row([name.clone(), human::count(*count)]);
    }
    table
}

fn time(stats: &Stats) -> Table {
    let mut table = Table::new(&[
        ">last stamp",
        ">durable stamp",
        ">snapshots",
        ">external values",
    ]);
    table.row([
        human::count(stats.last_stamp),
        human::count(stats.durable_stamp),
        human::count(stats.snapshots),
        human::bytes(stats.external_bytes),
    ]);
    table
}
