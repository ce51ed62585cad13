//! The command line: which commands there are, and what they share.
//!
//! Source: `clap` with derive; each command's arguments stand beside its code.
//!
//! Tests: `tests/usage.rs`.

use crate::bench::Bench;
use crate::compact::Compact;
use crate::completions::Completions;
use crate::crash_test::CrashTest;
use crate::crash_test::child::CrashTestChild;
use crate::delete::Delete;
use crate::export::Export;
use crate::failure::Failure;
use crate::get::Get;
use crate::import::Import;
use crate::inspect::Inspect;
use crate::keyspaces::Keyspaces;
use crate::output::Output;
use crate::put::Put;
use crate::scan::Scan;
use crate::serve::Serve;
use crate::stats::StatsCommand;
use crate::verify::Verify;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// An embedded, concurrent, multi-version key-value store, and a server for Redis clients.
///
/// Without a command it serves: on 127.0.0.1:6380, with its data in ./velella-data.
#[derive(Debug, Parser)]
#[command(
    name = "velella",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "\
Examples:
  velella                                  serve; then: redis-cli -p 6380 set greeting hello
  velella serve --port 7000 --dir /var/lib/velella
  velella import /usr/share/dict/words && velella scan --prefix jelly

Exit codes: 0 done; 1 it failed, or the key is absent; 2 a usage error; 3 done, but malformed
lines were left out. `velella COMMAND --help` has examples of each command."
)]
struct CommandLine {
    #[command(subcommand)]
    command: Option<Command>,
    /// Print results, and errors, as JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve Redis clients
    Serve(Serve),
    /// Print the value of a key
    Get(Get),
    /// Store a value
    Put(Put),
    /// Delete keys
    Delete(Delete),
    /// Print pairs in the order of their keys
    Scan(Scan),
    /// Read pairs from a file
    Import(Import),
    /// Write pairs to a file
    Export(Export),
    /// List, create, change and drop keyspaces
    Keyspaces(Keyspaces),
    /// Tell levels, memory, journal, stalls and counters
    Stats(StatsCommand),
    /// Check every checksum and invariant of every file
    Verify(Verify),
    /// Merge the tables of every level
    Compact(Compact),
    /// Show what stands in a file or directory of a database
    Inspect(Inspect),
    /// Measure, alone or beside RocksDB
    Bench(Box<Bench>),
    /// Kill processes and cut the power under load, and look for what was promised
    CrashTest(Box<CrashTest>),
    #[command(hide = true)]
    CrashTestChild(CrashTestChild),
    /// Print a completion script for a shell
    Completions(Completions),
}

/// Parses the command line and does what it says.
pub fn run() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        // Help and versions are no errors.
        Err(error) if error.use_stderr() && asks_for_json() => {
            return nonsense(&error).report(true);
        }
        Err(error) => error.exit(),
    };
    let mut output = Output::new(line.json);
    let json = line.json;
    let done = match line.command {
        Some(command) => dispatch(command, &mut output),
        None => serve_by_default().and_then(|serve| serve.run(&mut output)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}

/// Whether a command line that cannot be parsed asks for JSON.
fn asks_for_json() -> bool {
    let words = std::env::args_os().skip(1);
    words
        .take_while(|word| word != "--")
        .any(|word| word == "--json")
}

fn nonsense(error: &clap::Error) -> Failure {
    let text = error.to_string();
    Failure::Usage(text.trim_start_matches("error: ").trim_end().to_owned())
}

fn dispatch(command: Command, output: &mut Output) -> Result<(), Failure> {
    match command {
        Command::Serve(serve) => serve.run(output),
        Command::Get(get) => get.run(output),
        Command::Put(put) => put.run(output),
        Command::Delete(delete) => delete.run(output),
        Command::Scan(scan) => scan.run(output),
        Command::Import(import) => import.run(output),
        Command::Export(export) => export.run(output),
        Command::Keyspaces(keyspaces) => keyspaces.run(output),
        Command::Stats(stats) => stats.run(output),
        Command::Verify(verify) => verify.run(output),
        Command::Compact(compact) => compact.run(output),
        Command::Inspect(inspect) => inspect.run(output),
        Command::Bench(bench) => bench.run(output),
        Command::CrashTest(test) => test.run(output),
        Command::CrashTestChild(child) => child.run(),
        Command::Completions(completions) => completions.run(CommandLine::command(), output),
    }
}

/// `serve` with every default, as if it had been typed.
fn serve_by_default() -> Result<Serve, Failure> {
    let command = Serve::augment_args(clap::Command::new("velella"));
    let matches = command.try_get_matches_from(["velella"]);
    matches
        .and_then(|matches| Serve::from_arg_matches(&matches))
        .map_err(|error| nonsense(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_of_the_command_line_agree_with_each_other() {
        CommandLine::command().debug_assert();
        assert!(serve_by_default().is_ok());
    }

    #[test]
    fn every_command_has_examples_in_its_help() {
        for command in CommandLine::command().get_subcommands() {
            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            assert!(help.starts_with("Examples:\n"), "{}", command.get_name());
        }
    }
}
