//! `velella-bench`: what it measures and how is in the library; here is the command line.
//!
//! M1. Exit code 0: everything was measured, and every answer was right. 1: something was not.
//!     2: the command line was wrong.
//!
//! Threads: the main one. Tests: `tests/run.rs`, `tests/refusals.rs`.

#![deny(unsafe_code)]

mod arguments;
mod bar;

use arguments::{Arguments, Beside, Check, Command, List, Run};
use clap::Parser;
use std::io::Write;
use std::process::ExitCode;
use velella_bench::failure::{Failure, Outcome};
use velella_bench::{catalogue, check, report, servers, stores, task};
use velella_cli::human;

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(run) => measure(&run),
        Command::List(list) => show(&list).map(|()| true),
        Command::Check(check) => compare(&check),
        Command::Servers(asked) => beside(&asked).map(|()| true),
        Command::Child => task::perform_as_child(stores::named).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(failure) => {
            eprintln!("velella-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Runs benchmarks; whether all stores did well.
fn measure(run: &Run) -> Outcome<bool> {
    let session = run.session()?;
    let bar = bar::Bar::new();
    let (results, failures) = session.run(&bar)?;
    bar.finish();
    let wanted = report::text::Wanted {
        latencies: run.latencies,
        counters: run.counters,
    };
    let mut out = std::io::stdout().lock();
    report::text::print(&results, wanted, &mut out)
        .map_err(|error| Failure::system("print the results", error))?;
    if let Some(file) = &run.json {
        let json = serde_json::to_vec_pretty(&results)
            .map_err(|error| Failure::file("write", file, error))?;
        std::fs::write(file, json).map_err(|error| Failure::file("write", file, error))?;
    }
    if let Some(file) = &run.html {
        let page = report::html::page(&results);
        std::fs::write(file, page).map_err(|error| Failure::file("write", file, error))?;
    }
    for failure in &failures {
        eprintln!("velella-bench: {failure}");
    }
    Ok(failures.is_empty())
}

/// Measures servers, and prints what came out.
fn beside(asked: &Beside) -> Outcome<()> {
    let servers = asked.servers()?;
    let versions = servers.versions()?;
    let rows = servers.run(&|what| eprintln!("{what}"))?;
    for version in versions {
        println!("{version}");
    }
    println!(
        "{} connections, {} keys, {} B values; writes survive: kill -9",
        servers.connections,
        human::count(servers.keys),
        servers.value_bytes
    );
    println!();
    servers::table(&rows)
        .print(&mut std::io::stdout().lock())
        .map_err(|error| Failure::system("print the results", error))?;
    if let Some(file) = &asked.json {
        let failed = |error: std::io::Error| Failure::file("write", file, error);
        let json = serde_json::to_vec_pretty(&rows).map_err(|error| failed(error.into()))?;
        std::fs::write(file, json).map_err(failed)?;
    }
    Ok(())
}

/// Counts, and compares with the baseline; whether it passed.
fn compare(asked: &Check) -> Outcome<bool> {
    let file = &asked.baseline;
    let bar = bar::Bar::new();
    let counted = check::count(&asked.dir, &asked.store, asked.rounds, &bar)?;
    bar.finish();
    let tell = |what: &str, lines: &[String]| {
        for line in lines {
            println!("{what}: {line}");
        }
    };
    tell("NOT COUNTED", &counted.remarks);
    if asked.renew {
        let text = counted.baseline().text();
        std::fs::write(file, text).map_err(|error| Failure::file("write", file, error))?;
        tell("left out, not the same in all rounds", &counted.unsteady());
        println!("wrote {}", file.display());
        return Ok(true);
    }
    let text = std::fs::read_to_string(file);
    let text = text.map_err(|error| Failure::file("read", file, error))?;
    let verdict = check::Baseline::parse(&text)?.compare(&counted);
    tell("not compared", &verdict.beyond);
    tell("new", &verdict.new);
    tell("fell", &verdict.fallen);
    tell("NOT THE SAME IN ALL ROUNDS", &verdict.unsteady);
    tell("NOT COUNTED ANY MORE", &verdict.missing);
    tell("GREW", &verdict.grown);
    println!(
        "{} counts compared, {} grew, {} fell",
        verdict.compared,
        verdict.grown.len(),
        verdict.fallen.len()
    );
    if !verdict.fallen.is_empty() || !verdict.new.is_empty() {
        println!("to make these the baseline: velella-bench check --renew");
    }
    Ok(verdict.passed())
}

/// Lists benchmarks, groups and stores.
fn show(list: &List) -> Outcome<()> {
    let mut all = Vec::new();
    for one in catalogue::all() {
        let wanted = |name: &String| one.name.starts_with(name) || one.groups.contains(&&**name);
        if list.names.is_empty() || list.names.iter().any(wanted) {
            all.push(one);
        }
    }
    let print = || -> std::io::Result<()> {
        let mut out = std::io::stdout().lock();
        for one in all {
            writeln!(out, "{}\n    {}\n    {}", one.name, one.about, one.source)?;
        }
        if list.names.is_empty() {
            writeln!(out, "\ngroups: {}", catalogue::groups().join(", "))?;
            writeln!(out, "\nstores built in:")?;
            for peer in stores::built() {
                writeln!(out, "    {:<18} {}", peer.name(), peer.about())?;
            }
            writeln!(out, "\nnot there, for want of parts in Velella:")?;
            for (names, parts) in catalogue::NOT_THERE {
                writeln!(out, "    {names}\n        {parts}")?;
            }
        }
        Ok(())
    };
    print().map_err(|error| Failure::system("print the list", error))
}
