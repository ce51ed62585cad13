//! The process that is killed: opens the database, says what is there, waits for the go, writes.
//!
//! ```text
//! child                                    parent
//! opens; tells the state, line by line     judges it
//! `ready MICROSECONDS RULE`                `go`, or kills it
//! writes until it is killed                `stop`: ends the load, closes, exits with 0
//! ```
//!
//! C1. An error, a wrong read or a panic in any thread ends the process at once, with exit code 3
//!     or 4 and a line on standard error.
//! C2. When the parent goes, so does the child: the end of standard input ends it.
//!
//! Threads: those of the load, and the main thread, which listens. Tests: `tests/crash_test.rs`.

use super::awake;
use super::key::LASTING;
use super::load::{Load, at_once};
use super::operation::WriteId;
use super::oracle::Notebook;
use super::plan::Plan;
use super::settings::Settings;
use super::state::{Content, State, counter, told};
use super::watch::{CHECKED, CLOSING, UNDER_LOAD, Watch, die};
use crate::failure::{Failure, say};
use clap::{Args, ValueEnum};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use velella::vfs::OsFs;
use velella::vfs::intercept::Intercepted;
use velella::{Db, RecoveryMode};

/// Operations of a load that ends in good order.
const OPERATIONS_LEAST: u64 = 30;
/// Exit codes (C1).
const EXIT_WRONG: u8 = 3;
const EXIT_PANIC: i32 = 4;

/// Arguments of `crash-test-child`, which only `crash-test` calls.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  (started by `velella crash-test`)")]
pub(crate) struct CrashTestChild {
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    oracle: PathBuf,
    #[arg(long)]
    seed: u64,
    #[arg(long)]
    incarnation: u32,
    #[arg(long)]
    start_ms: u64,
    #[arg(long)]
    plan: Plan,
    #[arg(long)]
    power_cut: bool,
    #[arg(long)]
    verify: bool,
    #[arg(long, value_enum)]
    sabotage: Option<Sabotage>,
}

/// Faults put in on purpose, to see the test find them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Sabotage {
    /// A value disappears
    Lose,
    /// A value is replaced by one that nobody announced
    Forge,
    /// A value is written again, unchanged
    Repeat,
    /// A counter is off by one
    Count,
    /// The opening does not end
    Hang,
    /// The opening panics
    Panic,
    /// The opening is killed, and by no plan
    Die,
}

impl CrashTestChild {
    pub(crate) fn run(self) -> Result<(), Failure> {
        end_with_any_panic();
        match self.live() {
            Ok(()) => Ok(()),
            Err(why) => {
                say(&why);
                Err(Failure::Told(EXIT_WRONG))
            }
        }
    }

    fn live(&self) -> Result<(), String> {
        let settings = Settings::of(self.seed).for_power_cuts(self.power_cut);
        let notebook = Notebook::open(&self.oracle).map_err(told)?;
        let watch = Arc::new(Watch::new(notebook.phase().map_err(told)?, &self.plan));
        let (db, opening) = awake::timed(|| self.open(&settings, &watch));
        let db = db?;
        watch.enter(CHECKED);
        self.sabotage(&db, &settings)?;
        if self.verify {
            db.verify().map_err(told)?;
        }
        let thoroughly = self.verify || self.incarnation.is_multiple_of(4);
        let state = State::read(&db, settings.key_padding, thoroughly)?;
        tell(&state, opening.as_micros(), &db).map_err(|error| format!("failed: {error}"))?;
        if word() != "go" {
            return Ok(());
        }
        watch.enter(UNDER_LOAD);
        self.load(&db, &settings, &notebook, &watch)?;
        watch.enter(CLOSING);
        db.close().map_err(told)
    }

    fn open(&self, settings: &Settings, watch: &Arc<Watch>) -> Result<Db, String> {
        match self.sabotage {
            Some(Sabotage::Hang) if self.incarnation > 2 => loop {
                std::thread::park();
            },
            Some(Sabotage::Panic) if self.incarnation > 2 => panic!("as was asked for"),
            Some(Sabotage::Die) if self.incarnation > 2 => die(),
            _ => {}
        }
        let vfs = Intercepted::standing(Arc::clone(watch), Arc::new(OsFs::new()));
        let builder = settings.builder(self.incarnation).vfs(Arc::new(vfs));
        let db = builder
            .recovery(RecoveryMode::Normal)
            .open(&self.dir)
            .map_err(told)?;
        for name in LASTING {
            db.keyspace_or_create(name).map_err(told)?;
        }
        Ok(db)
    }

    /// Puts the fault in that was asked for, if there is something to spoil.
    fn sabotage(&self, db: &Db, settings: &Settings) -> Result<(), String> {
        let Some(sabotage) = self.sabotage else {
            return Ok(());
        };
        let padding = settings.key_padding;
        let state = State::read(db, padding, false)?;
        let values = state.versions.iter().filter_map(|(place, version)| {
            let Content::Value { id, bytes, .. } = version.content else {
                return None;
            };
            let lasts = place.owner().is_none() && version.expires_ms.is_none();
            lasts.then_some((version.stamp, *place, id, bytes))
        });
        // The oldest: the newest may be a write that was under way, and is judged as such.
        let oldest = values.min_by_key(|(stamp, ..)| *stamp);
        let Some((_, place, id, bytes)) = oldest else {
            return Ok(());
        };
        let keyspace = db
            .keyspace(LASTING[usize::from(place.keyspace)])
            .map_err(told)?;
        let key = place.key(padding);
        let value = match sabotage {
            Sabotage::Lose => return keyspace.delete(key).map(drop).map_err(told),
            Sabotage::Count => {
                let key = counter(0).key(padding);
                return db.increment(key, 1).map(drop).map_err(told);
            }
            Sabotage::Forge => WriteId {
                number: 0xff_fff0,
                ..id
            }
            .value(bytes),
            _ => id.value(bytes),
        };
        keyspace
            .put_with(key, value, at_once())
            .map(drop)
            .map_err(told)
    }

    fn load(
        &self,
        db: &Db,
        settings: &Settings,
        notebook: &Notebook,
        watch: &Arc<Watch>,
    ) -> Result<(), String> {
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..settings.threads {
                let load = Load {
                    db,
                    settings,
                    incarnation: self.incarnation,
                    start_ms: self.start_ms,
                    thread,
                    notes: notebook.notes(thread).map_err(told)?,
                    watch,
                    end: &end,
                };
                scope.spawn(move || {
                    if let Err(why) = load.run() {
                        say(&why);
                        std::process::exit(EXIT_WRONG.into());
                    }
                });
            }
            if word() != "stop" {
                // C2.
                std::process::exit(0);
            }
            while watch.operations() < OPERATIONS_LEAST {
                std::thread::yield_now();
            }
            // Relaxed: nothing is read by it.
            end.store(true, Ordering::Relaxed);
            Ok(())
        })
    }
}

/// Tells the parent what is there and how long the opening took.
fn tell(state: &State, micros: u128, db: &Db) -> io::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    state.write(&mut out)?;
    let rule = db.recovery().rule;
    writeln!(out, "ready\t{micros}\t{rule:?}")?;
    out.flush()
}

/// A word from the parent; empty when it is gone.
fn word() -> String {
    let mut line = String::new();
    let _ = io::stdin().read_line(&mut line);
    line.trim_end().to_owned()
}

/// C1.
fn end_with_any_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        print(info);
        std::process::exit(EXIT_PANIC);
    }));
}
