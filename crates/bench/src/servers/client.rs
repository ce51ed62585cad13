//! Redis' own load generator, and what it says.
//!
//! Tests: below.

use super::Servers;
use crate::failure::{Failure, Outcome};
use serde::Serialize;
use std::process::Command;

/// One of its tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Test {
    /// `SET` of a drawn key.
    Set,
    /// `GET` of a drawn key.
    Get,
    /// `INCR` of a drawn key.
    Incr,
    /// `MSET` of ten drawn keys.
    Mset,
}

impl Test {
    /// Its name there.
    fn name(self) -> &'static str {
        match self {
            Test::Set => "set",
            Test::Get => "get",
            Test::Incr => "incr",
            Test::Mset => "mset",
        }
    }

    /// What it does, in a word or two.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Test::Set => "SET",
            Test::Get => "GET",
            Test::Incr => "INCR",
            Test::Mset => "MSET of 10 keys",
        }
    }
}

/// What it measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measured {
    /// Requests per second.
    pub rate: f64,
    /// Median latency, in milliseconds, from the first of a pipeline sent to the last answered.
    pub p50_ms: f64,
    /// 99th percentile of the same.
    pub p99_ms: f64,
}

/// Runs `test` against the server on `port` of this machine.
pub(super) fn measure(
    servers: &Servers,
    test: Test,
    pipeline: u64,
    port: u16,
) -> Outcome<Measured> {
    let attempt = format!("measure with {}", servers.client.display());
    let failed = |found: String| Failure::system(&attempt, found);
    let requests = servers.requests_of(pipeline);
    let mut command = Command::new(&servers.client);
    command.args(["-h", "127.0.0.1", "--csv", "-t", test.name()]);
    for (flag, number) in [
        ("-p", u64::from(port)),
        ("-n", requests),
        ("-c", servers.connections),
        ("-P", pipeline),
        ("-r", servers.keys),
        ("-d", servers.value_bytes),
    ] {
        command.arg(flag).arg(number.to_string());
    }
    let output = command.output();
    let output = output.map_err(|error| super::process::absent(&servers.client, &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(failed(format!("{}: {text}{said}", output.status)));
    }
    parse(&text).ok_or_else(|| failed(format!("it said: {text}")))
}

/// The last line of its CSV; the first one names the columns.
fn parse(text: &str) -> Option<Measured> {
    let cells = |line: &str| -> Vec<String> {
        // Names of tests hold no comma and no quotation mark.
        let cells = line.split(',').map(|cell| cell.trim().trim_matches('"'));
        cells.map(str::to_owned).collect()
    };
    let mut lines = text.lines().filter(|line| line.starts_with('"'));
    let columns = cells(lines.next()?);
    let values = cells(lines.next_back()?);
    let number = |column: &str| -> Option<f64> {
        let place = columns.iter().position(|name| name == column)?;
        // Where it took no time at all, it says that the rate is infinite.
        let number: f64 = values.get(place)?.parse().ok()?;
        number.is_finite().then_some(number)
    };
    Some(Measured {
        rate: number("rps")?,
        p50_ms: number("p50_latency_ms")?,
        p99_ms: number("p99_latency_ms")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\
\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\
\"p99_latency_ms\",\"max_latency_ms\"\n\
\"MSET (10 keys)\",\"53619.30\",\"0.811\",\"0.192\",\"0.783\",\"1.359\",\"1.719\",\"2.655\"\n";

    #[test]
    fn what_it_says_is_read_by_the_names_of_columns() {
        let found = parse(SAID).unwrap();
        assert_eq!(
            (found.rate, found.p50_ms, found.p99_ms),
            (53619.30, 0.783, 1.719)
        );
    }

    #[test]
    fn an_error_of_the_server_is_no_measurement() {
        let columns = SAID.lines().next().unwrap();
        let endless = SAID.replace("53619.30", "inf");
        for said in ["", columns, "Error from server: -ERR no\n", &endless] {
            assert_eq!(parse(said), None, "{said}");
        }
    }
}
