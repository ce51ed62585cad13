//! One request from its arguments to its reply.
//!
//! X3. A panic ends the command and its connection, nothing else; it is counted.
//! X4. Time is read once per command: the end of one is the beginning of the next.
//! X5. A command that meets a dropped keyspace is run once more: what it wrote, if anything, went
//!     with the keyspace, or was a deletion that can be done again.
//!
//! Tests: `tests/limits.rs`, `tests/databases.rs`.

use super::failure::{Failure, NO_AUTH_GIVEN, Outcome, quoted};
use super::row::{Context, NO_AUTH, Row, Table};
use super::session::{Replies, Session};
use super::{all, missing, subcommands};
use crate::counters::Counters;
use crate::databases::Databases;
use crate::resp::reply::Reply;
use crate::resp::request::Args;
use crate::shared::Shared;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};
use velella_sync::atomic::Ordering;
use velella_sync::thread::now;

/// What a network thread brings to every command it runs.
pub(crate) struct Runner {
    /// The server.
    pub shared: Arc<Shared>,
    /// The thread's counters.
    pub counters: Arc<Counters>,
    /// The thread's handles of the databases.
    pub databases: Databases,
    /// All commands.
    pub table: &'static Table,
    /// When the last command ended, or the group began (X4).
    pub clock: Instant,
}

impl Runner {
    /// That of a thread about to start.
    pub(crate) fn new(shared: Arc<Shared>, counters: Arc<Counters>) -> Self {
        Runner {
            databases: Databases::new(shared.db.clone()),
            shared,
            counters,
            table: all::table(),
            clock: now(),
        }
    }

    /// Runs the request `args`, which is not empty; the command's number, if there is one.
    pub(crate) fn run(
        &mut self,
        session: &mut Session,
        reply: &mut Reply,
        args: Args<'_>,
    ) -> Option<usize> {
        if session.replies == Replies::SkipNext {
            session.replies = Replies::SkipThis;
        }
        let mark = reply.len();
        let number = match self.find(session, args) {
            Ok((number, row)) => {
                let outcome = self.run_row(session, reply, number, row, args);
                self.conclude(reply, mark, outcome);
                self.account(session, number, args);
                Some(number)
            }
            Err(failure) => {
                self.conclude(reply, mark, Err(failure));
                None
            }
        };
        match session.replies {
            Replies::On => {}
            Replies::SkipThis => {
                reply.truncate(mark);
                session.replies = Replies::On;
            }
            Replies::Off | Replies::SkipNext => reply.truncate(mark),
        }
        number
    }

    /// The command asked for, if it may run.
    fn find(
        &self,
        session: &mut Session,
        args: Args<'_>,
    ) -> Result<(usize, &'static Row), Failure> {
        let name = args.at(0);
        let Some((number, row)) = self.table.find(name) else {
            return Err(self.unknown(session, args));
        };
        let subcommand = match args.get(1) {
            Some(given) if !row.subcommands.is_empty() => subcommands::find(row, given),
            _ => None,
        };
        let row = subcommand.unwrap_or(row);
        let refused = if !row.accepts(args.len()) {
            Failure::arity(row.name)
        } else if !row.is(NO_AUTH) && !session.is_admitted(&self.shared) {
            NO_AUTH_GIVEN
        } else {
            return Ok((number, row));
        };
        self.counters.commands[number].rejected.add(1);
        Err(refused)
    }

    fn run_row(
        &mut self,
        session: &mut Session,
        reply: &mut Reply,
        number: usize,
        row: &'static Row,
        args: Args<'_>,
    ) -> Outcome {
        let mut ctx = Context {
            begun: reply.len(),
            shared: &self.shared,
            counters: &self.counters,
            databases: &mut self.databases,
            session,
            reply,
            table: self.table,
            row,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| attempt(&mut ctx, args)));
        let outcome = outcome.unwrap_or_else(|_| {
            session.closing = true;
            self.counters.panics.add(1);
            let name = row.name;
            Err(Failure::new(format!(
                "ERR internal error in '{name}'; the connection is closed"
            )))
        });
        if outcome.is_err() {
            self.counters.commands[number].failed.add(1);
        }
        outcome
    }

    /// Makes a failure the reply, in place of what was written since `mark`.
    fn conclude(&self, reply: &mut Reply, mark: usize, outcome: Outcome) {
        if let Err(Failure { text, .. }) = outcome {
            reply.truncate(mark);
            if !text.is_empty() {
                reply.error(text.as_bytes());
            }
            self.counters.errors.add(1);
        }
    }

    /// The answer to a name that is in no table of ours.
    #[cold]
    fn unknown(&self, session: &mut Session, args: Args<'_>) -> Failure {
        let name = quoted(args.at(0));
        let lower = name.to_ascii_lowercase();
        if lower == "post" || lower == "host:" {
            // A web page made a browser talk to us: not a word to it.
            session.closing = true;
            return Failure::new("");
        }
        if missing::contains(&lower) {
            if !session.is_admitted(&self.shared) {
                return NO_AUTH_GIVEN;
            }
            return Failure::new(format!(
                "ERR command '{lower}' is not supported yet by this version of Velella"
            ));
        }
        let mut given = String::new();
        for arg in args.from(1).iter() {
            if given.len() >= 128 {
                break;
            }
            given.push_str(&format!("'{}' ", quoted(arg)));
        }
        Failure::new(format!(
            "ERR unknown command '{name}', with args beginning with: {given}"
        ))
    }

    /// Counts the command and its time, and notes it if it was slow.
    fn account(&mut self, session: &Session, number: usize, args: Args<'_>) {
        let ended = now();
        let took = ended.saturating_duration_since(self.clock);
        self.clock = ended;
        let counts = &self.counters.commands[number];
        counts.calls.add(1);
        counts
            .nanos
            .add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        // Relaxed: a setting, see `Settings`.
        let slow = self.shared.settings.slow_micros.load(Ordering::Relaxed);
        if took >= Duration::from_micros(slow) {
            self.note_slow(session, args, took);
        }
    }

    #[cold]
    fn note_slow(&self, session: &Session, args: Args<'_>, took: Duration) {
        let client = &session.client;
        let name = client.names.lock().name.clone();
        // Relaxed: a setting, see `Settings`.
        let most = self.shared.settings.slowlog_entries.load(Ordering::Relaxed);
        let mut log = self.shared.slowlog.lock();
        log.note(args, took, client.address.to_string(), name, most);
    }
}

/// Runs the command; once more if the program around the server dropped a keyspace (X5).
#[inline]
fn attempt(ctx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match (ctx.row.run)(ctx, args) {
        Err(failure) if failure.is_dropped => {}
        outcome => return outcome,
    }
    ctx.databases.forget();
    ctx.shared.census.forget(now());
    ctx.reply.truncate(ctx.begun);
    (ctx.row.run)(ctx, args)
}
