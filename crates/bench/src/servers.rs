//! Velella's server beside Redis', both driven by Redis' own `redis-benchmark`.
//!
//! The stock client measures, so that nobody has to believe one of ours. Redis keeps everything in
//! memory, and so does no work that Velella's server does: tables, compactions, a bounded memory.
//!
//! V1. One server runs at a time, on a directory of its own; which comes first changes from round
//!     to round. A ratio is that of one round.
//! V2. With both, what was acknowledged survives `kill -9`, and is there in the end: each server is
//!     killed after its tests, started again, and must have as many keys as before.
//! V3. All keys that tests draw are there before the first, and a GET that finds none is an error.
//! V4. A server that answers with an error, or lost a key, has no figures: the run ends.
//!
//! Threads: one; servers and client are processes. Tests: below, and `tests/servers.rs`.

mod process;
mod client;

pub use client::{Measured, Test};

use crate::failure::{Failure, Outcome};
use crate::message::{Scratch, remove};
use crate::result::{Spread, float};
use process::{Kind, Server};
use serde::Serialize;
use std::path::{Path, PathBuf};
use velella_cli::human;
use velella_cli::table::Table;

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Servers {
    /// The program `velella`.
    pub velella: PathBuf,
    /// The program `redis-server`.
    pub redis: PathBuf,
    /// The program `redis-benchmark`.
    pub client: PathBuf,
    /// How often everything is done.
    pub rounds: u64,
    /// Tests, in order.
    pub tests: Vec<Test>,
    /// Numbers of requests that a connection sends at once.
    pub pipelines: Vec<u64>,
    /// Connections.
    pub connections: u64,
    /// Requests of each test without a pipeline; with one, as many times more, but at most ten
    /// times.
    pub requests: u64,
    /// Keys in the key space.
    pub keys: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Where to work; what is made there is removed.
    pub dir: PathBuf,
}

/// One test of one server, once.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// What was measured.
    pub test: Test,
    /// Requests that a connection sent at once.
    pub pipeline: u64,
    /// Which round, from 0.
    pub round: u64,
    /// Which server: `velella` or `redis`.
    pub server: &'static str,
    /// What `redis-benchmark` said.
    #[serde(flatten)]
    pub measured: Measured,
    /// Microseconds of a processor that the server took for a request, what it does in the
    /// background included; where the system tells.
    pub cpu_us: Option<f64>,
}

impl Servers {
    /// Runs it; `begun` hears what begins.
    ///
    /// # Errors
    /// A program that is not there or failed, an error that a server answered, a key that was lost.
    pub fn run(&self, begun: &dyn Fn(&str)) -> Outcome<Vec<Row>> {
        let scratch = Scratch::new(&self.dir)?;
        let mut rows = Vec::new();
        for round in 0..self.rounds {
            let mut kinds = [Kind::Velella, Kind::Redis];
            if round % 2 == 1 {
                kinds.reverse();
            }
            for kind in kinds {
                let dir = scratch.dir().join(format!("{}-{round}", kind.name()));
                self.measure(kind, &dir, round, begun, &mut rows)?;
                remove(&dir)?;
            }
        }
        Ok(rows)
    }

    /// What the programs say that they are, a line each.
    ///
    /// # Errors
    /// A program that is not there.
    pub fn versions(&self) -> Outcome<Vec<String>> {
        let programs = [&self.velella, &self.redis, &self.client];
        programs
            .map(|program| process::version(program))
            .into_iter()
            .collect()
    }

    fn measure(
        &self,
        kind: Kind,
        dir: &Path,
        round: u64,
        begun: &dyn Fn(&str),
        rows: &mut Vec<Row>,
    ) -> Outcome<()> {
        let name = kind.name();
        let tell = |what: &str| {
            begun(&format!(
                "round {}/{}, {name}: {what}",
                round + 1,
                self.rounds
            ))
        };
        let program = match kind {
            Kind::Velella => &self.velella,
            Kind::Redis => &self.redis,
        };
        let server = Server::start(kind, program, dir)?;
        tell("loading");
        server.load(self.keys, self.value_bytes)?;
        for pipeline in &self.pipelines {
            for test in &self.tests {
                tell(&format!("{} in pipelines of {pipeline}", test.about()));
                let before = (server.cpu(), server.count("keyspace_misses")?);
                let measured = client::measure(self, *test, *pipeline, server.port())?;
                let missed = server.count("keyspace_misses")? - before.1;
                if *test == Test::Get && missed > 0 {
                    let found = format!("{missed} keys that were loaded are not there");
                    return Err(wrong(name, found));
                }
                let taken = server
                    .cpu()
                    .zip(before.0)
                    .map(|(after, before)| after - before);
                let requests = float(self.requests_of(*pipeline));
                rows.push(Row {
                    test: *test,
                    pipeline: *pipeline,
                    round,
                    server: name,
                    measured,
                    cpu_us: taken.map(|time| time.as_secs_f64() * 1e6 / requests),
                });
            }
        }
        // V2.
        let before = server.count_keys()?;
        server.kill()?;
        let again = Server::start(kind, program, dir)?;
        let after = again.count_keys()?;
        again.kill()?;
        if after != before {
            let found = format!("it had {before} keys when it was killed, and {after} afterwards");
            return Err(wrong(name, found));
        }
        Ok(())
    }

    /// Requests of a test.
    fn requests_of(&self, pipeline: u64) -> u64 {
        self.requests.saturating_mul(pipeline.min(10))
    }
}

fn wrong(name: &str, found: String) -> Failure {
    Failure::WrongAnswer {
        store: name.to_owned(),
        found,
    }
}

/// Rates, the ratios of rounds, latencies, and processor time for a request: a row for each test
/// and pipeline.
#[must_use]
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(&[
        "requests per second",
        ">pipeline",
        ">velella",
        ">redis",
        ">times as fast (least to greatest)",
        ">p99 velella",
        ">p99 redis",
        ">CPU velella",
        ">CPU redis",
    ]);
    let mut lines: Vec<(Test, u64)> = rows.iter().map(|row| (row.test, row.pipeline)).collect();
    let mut seen = Vec::new();
    lines.retain(|line| {
        let is_new = !seen.contains(line);
        seen.push(*line);
        is_new
    });
    for (test, pipeline) in lines {
        let of = |server: &str| -> Vec<&Row> {
            let is_of = |row: &&Row| (row.test, row.pipeline) == (test, pipeline);
            let all = rows.iter().filter(is_of);
            all.filter(|row| row.server == server).collect()
        };
        let (ours, theirs) = (of("velella"), of("redis"));
        let median = |rows: &[&Row], what: fn(&Row) -> Option<f64>| {
            Spread::of(rows.iter().filter_map(|row| what(row))).map(|spread| spread.median)
        };
        let rate = |rows: &[&Row]| median(rows, |row| Some(row.measured.rate)).map(human::rate_of);
        let p99 = |rows: &[&Row]| {
            median(rows, |row| Some(row.measured.p99_ms)).map(|ms| format!("{ms:.2} ms"))
        };
        let cpu = |rows: &[&Row]| median(rows, |row| row.cpu_us).map(|us| format!("{us:.1} us"));
        let ratios = ours.iter().filter_map(|mine| {
            let their = theirs.iter().find(|their| their.round == mine.round)?;
            Some(mine.measured.rate / their.measured.rate.max(1e-9))
        });
        let ratio = Spread::of(ratios).map(|spread| {
            let Spread {
                median,
                least,
                greatest,
            } = spread;
            format!("{median:.2} ({least:.2}-{greatest:.2})")
        });
        let cells = [
            Some(test.about().to_owned()),
            Some(pipeline.to_string()),
            rate(&ours),
            rate(&theirs),
            ratio,
            p99(&ours),
            p99(&theirs),
            cpu(&ours),
            cpu(&theirs),
        ];
        table.row(cells.map(Option::unwrap_or_default));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(server: &'static str, round: u64, rate: f64) -> Row {
        Row {
            test: Test::Get,
            pipeline: 16,
            round,
            server,
            measured: Measured {
                rate,
                p50_ms: 0.5,
                p99_ms: 1.25,
            },
            cpu_us: Some(3.5),
        }
    }

    #[test]
    fn a_ratio_is_that_of_one_round() {
        let rows = [
            row("velella", 0, 300.0),
            row("redis", 0, 100.0),
            row("redis", 1, 400.0),
            row("velella", 1, 400.0),
        ];
        let mut text = Vec::new();
        table(&rows).print(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("2.00 (1.00-3.00)"), "{text}");
        assert!(
            text.contains("1.25 ms") && text.contains("3.5 us"),
            "{text}"
        );
    }
}
