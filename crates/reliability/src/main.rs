//! `reliability`: runs a campaign as long as one likes and keeps the score.
//!
//! M1. Exit code 0 means that every run held; 1 that one failed (its seed and the command that
//!     repeats it are printed); 2 that the command line was wrong.
//! M2. A campaign is in the ledger before it is reported, and a report that nobody reads is given
//!     up: it changes neither exit code nor ledger, and ends no campaign. One that cannot be
//!     written is a failure.
//!
//! Tests: `tests/command.rs`. The runner's are in `campaign.rs`, those of the sums in `ledger.rs`
//! of velella-cli; CI runs every campaign by this command.

#![forbid(unsafe_code)]

use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use velella_cli::ledger;
use velella_reliability::campaign::{self, Campaign, Outcome, Plan};
use velella_sync::allocations::Counting;

/// Campaigns ask it how much memory damaged files made an opening take.
#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Attack Velella's promises, and count.
///
/// Without a campaign, lists them. Every run follows from its seed; a failure prints the command
/// that repeats it.
#[derive(Debug, Parser)]
#[command(name = "reliability", version)]
struct Arguments {
    /// Which campaign to run, or `all`; `sums` adds the ledger up
    campaign: Option<String>,
    /// How many runs; the campaign's usual number if not given
    #[arg(long)]
    runs: Option<u64>,
    /// Stop after this many minutes
    #[arg(long)]
    minutes: Option<f64>,
    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A run that has not ended after so many seconds hangs: it is reported, not waited for
    #[arg(long, default_value_t = 300)]
    run_limit: u64,
    /// Threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Add a line to this ledger, for instance reliability/LEDGER.tsv
    #[arg(long)]
    ledger: Option<PathBuf>,
    /// Print the outcome as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let all = velella_reliability::all();
    let chosen: Vec<_> = match arguments.campaign.as_deref() {
        None => {
            return told(list(&all));
        }
        Some("sums") => return sums(arguments.ledger.as_deref()),
        Some("all") => all,
        Some(name) => all.into_iter().filter(|one| one.name() == name).collect(),
    };
    if chosen.is_empty() {
        say(format_args!(
            "There is no campaign of that name. `reliability` alone lists them."
        ));
        return ExitCode::from(2);
    }
    let mut held = true;
    for campaign in chosen {
        let plan = plan(&arguments, campaign.as_ref());
        let outcome = campaign::run(&campaign, &plan, &bar(campaign.as_ref(), &plan));
        held &= outcome.failure.is_none();
        let kept = keep(&arguments, campaign.as_ref(), &outcome);
        let reported = heard(report(&arguments, campaign.as_ref(), &outcome));
        if let (Err(_), Some(failure)) = (&reported, &outcome.failure) {
            // M1.
            say(format_args!(
                "FAILED at seed {}: {}; {}",
                failure.seed,
                failure.what,
                command(campaign.as_ref(), failure.seed, 1)
            ));
        }
        if let Err(error) = kept {
            say(format_args!("The ledger could not be written: {error}"));
            return ExitCode::FAILURE;
        }
        if let Err(error) = reported {
            say(format_args!("The outcome could not be written: {error}"));
            return ExitCode::FAILURE;
        }
    }
    if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Tells of what went wrong; where nobody listens, the exit code still does.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

fn list(all: &[Arc<dyn Campaign>]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for campaign in all {
        writeln!(
            out,
            "{:<23} {:<6} {}",
            campaign.name(),
            campaign.goal(),
            campaign.about()
        )?;
    }
    Ok(())
}

/// The ledger's sums, as the table of RELIABILITY.md.
fn sums(path: Option<&Path>) -> ExitCode {
    let path = path.unwrap_or(Path::new("reliability/LEDGER.tsv"));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            say(format_args!(
                "cannot read the ledger {}: {error}",
                path.display()
            ));
            return ExitCode::FAILURE;
        }
    };
    let mut out = io::stdout().lock();
    told(ledger::sums(&text).into_iter().try_for_each(|sum| {
        writeln!(
            out,
            "| {} | `{}` | {} {} | {} |",
            sum.goal, sum.campaign, sum.checked, sum.unit, sum.failed
        )
    }))
}

/// M2.
fn heard(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn told(written: io::Result<()>) -> ExitCode {
    let Err(error) = heard(written) else {
        return ExitCode::SUCCESS;
    };
    say(format_args!("It could not be written: {error}"));
    ExitCode::FAILURE
}

fn plan(arguments: &Arguments, campaign: &dyn Campaign) -> Plan {
    let timed = arguments
        .minutes
        .map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let runs = match (arguments.runs, timed) {
        (Some(runs), _) => runs,
        (None, Some(_)) => u64::MAX,
        (None, None) => campaign.usual_runs(),
    };
    Plan {
        first: arguments.seed,
        runs,
        limit: timed,
        run_limit: Duration::from_secs(arguments.run_limit),
        threads: arguments.threads,
    }
}

/// A bar with rate and time left; only a rate where the end is a matter of time.
fn bar(campaign: &dyn Campaign, plan: &Plan) -> impl Fn(u64) + use<> {
    let bar = if plan.runs == u64::MAX {
        ProgressBar::new_spinner()
    } else {
        ProgressBar::new(plan.runs)
    };
    let style = "{prefix:<14} {wide_bar} {pos} runs, {per_sec}, {eta} left";
    bar.set_style(
        ProgressStyle::with_template(style).unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    bar.set_prefix(campaign.name());
    move |done| bar.set_position(done)
}

fn report(arguments: &Arguments, campaign: &dyn Campaign, outcome: &Outcome) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if arguments.json {
        let line = serde_json::json!({
            "campaign": campaign.name(), "goal": campaign.goal(), "outcome": outcome,
        });
        return writeln!(out, "{line}");
    }
    writeln!(out, "{} ({})", campaign.name(), campaign.goal())?;
    writeln!(out, "  {:<28} {:>14}", "runs", outcome.runs)?;
    for (what, count) in outcome.tally.iter() {
        writeln!(out, "  {what:<28} {count:>14}")?;
    }
    writeln!(out, "  {:<28} {:>14.1}", "seconds", outcome.seconds)?;
    match &outcome.failure {
        None => writeln!(out, "  held"),
        Some(failure) => {
            writeln!(out, "  FAILED at seed {}: {}", failure.seed, failure.what)?;
            writeln!(out, "  again: {}", command(campaign, failure.seed, 1))
        }
    }
}

fn command(campaign: &dyn Campaign, seed: u64, runs: u64) -> String {
    format!(
        "cargo run --release -p velella-reliability -- {} --seed {seed} --runs {runs}",
        campaign.name()
    )
}

fn keep(arguments: &Arguments, campaign: &dyn Campaign, outcome: &Outcome) -> io::Result<()> {
    let Some(path) = &arguments.ledger else {
        return Ok(());
    };
    let entry = ledger::Entry {
        goal: campaign.goal(),
        campaign: campaign.name(),
        seed_from: arguments.seed,
        runs: outcome.runs,
        unit: campaign.unit(),
        checked: outcome.tally.of(campaign.unit()),
        lost: outcome
            .failure
            .as_ref()
            .map_or("0", |failure| failure.what.as_str()),
        seconds: outcome.seconds,
        command: &command(campaign, arguments.seed, outcome.runs),
    };
    entry.append(path, velella_sync::thread::wall_ms())
}
