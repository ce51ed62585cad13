//! What a command is: a row of the table, and what it may touch when it runs.
//!
//! R1. Every row names a group and carries flags; what a command may be run for follows from them.
//!
//! Tests: every row is checked in `all.rs`.

use super::failure::Outcome;
use super::session::Session;
use crate::counters::Counters;
use crate::databases::Databases;
use crate::resp::reply::Reply;
use crate::resp::request::Args;
use crate::shared::Shared;

/// What a command may touch.
pub(crate) struct Context<'a> {
    /// The server.
    pub shared: &'a Shared,
    /// This thread's counters.
    pub counters: &'a Counters,
    /// This thread's handles of the databases.
    pub databases: &'a mut Databases,
    /// The connection's state.
    pub session: &'a mut Session,
    /// The connection's output.
    pub reply: &'a mut Reply,
    /// All commands.
    pub table: &'static Table,
    /// The command running.
    pub row: &'static Row,
    /// Where in the output its reply begins.
    pub begun: usize,
}

/// What a command does when it runs.
pub(crate) type Run = fn(&mut Context<'_>, Args<'_>) -> Outcome;

/// Reads data.
pub(crate) const READ: u16 = 1;
/// Writes data.
pub(crate) const WRITE: u16 = 2;
/// Costs the same whatever the size of the data.
pub(crate) const FAST: u16 = 4;
/// Concerns the server, not data.
pub(crate) const ADMIN: u16 = 8;
/// Allowed before authentication.
pub(crate) const NO_AUTH: u16 = 16;
/// Takes memory: refused first when there is none.
pub(crate) const MEMORY: u16 = 32;
/// May take long, or stop the server.
pub(crate) const DANGEROUS: u16 = 64;

/// One command, or one subcommand.
#[derive(Debug)]
pub(crate) struct Row {
    /// In lower case; subcommands as `command|subcommand`.
    pub name: &'static str,
    /// Arguments with the name: exactly, or if negative at least, so many.
    pub arity: i32,
    /// What it may be run for.
    pub flags: u16,
    /// First and last argument that is a key (last below 0: counted from the end), and the step
    /// from one to the next; all 0: none is.
    pub keys: (i32, i32, i32),
    /// As in the documentation of Redis.
    pub group: &'static str,
    /// The version of Redis that had it first.
    pub since: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// What it does; for a command with subcommands, when none is given.
    pub run: Run,
    /// Its subcommands.
    pub subcommands: &'static [Row],
}

/// No keys.
pub(crate) const NO_KEYS: (i32, i32, i32) = (0, 0, 0);
/// One key.
pub(crate) const ONE_KEY: (i32, i32, i32) = (1, 1, 1);
/// Only keys.
pub(crate) const ALL_KEYS: (i32, i32, i32) = (1, -1, 1);

impl Row {
    /// A row; the remaining columns by the methods below.
    pub(crate) const fn new(name: &'static str, arity: i32, flags: u16, run: Run) -> Row {
        Row {
            name,
            arity,
            flags,
            keys: NO_KEYS,
            group: "generic",
            since: "1.0.0",
            summary: "",
            run,
            subcommands: &[],
        }
    }

    /// With keys.
    pub(crate) const fn keys(mut self, keys: (i32, i32, i32)) -> Row {
        self.keys = keys;
        self
    }

    /// With documentation.
    pub(crate) const fn doc(
        mut self,
        group: &'static str,
        since: &'static str,
        summary: &'static str,
    ) -> Row {
        self.group = group;
        self.since = since;
        self.summary = summary;
        self
    }

    /// With subcommands.
    pub(crate) const fn with(mut self, subcommands: &'static [Row]) -> Row {
        self.subcommands = subcommands;
        self
    }

    /// Whether `given` arguments, the name counted, are right in number.
    #[inline]
    pub(crate) fn accepts(&self, given: usize) -> bool {
        let given = i64::try_from(given).unwrap_or(i64::MAX);
        let arity = i64::from(self.arity);
        if arity >= 0 {
            given == arity
        } else {
            given >= -arity
        }
    }

    /// Whether the row has a flag.
    #[inline]
    pub(crate) fn is(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The name without the command before it.
    pub(crate) fn short_name(&self) -> &'static str {
        self.name
            .split_once('|')
            .map_or(self.name, |(_, short)| short)
    }
}

/// Longest name of a command.
pub(crate) const NAME_BYTES_MAX: usize = 32;

const EMPTY: u16 = u16::MAX;

/// Rows by number and by name: an open-addressing hash table, at most a quarter full.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<&'static Row>,
    slots: Vec<u16>,
}

impl Table {
    /// The rows of all `groups`.
    pub(crate) fn new(groups: &[&'static [Row]]) -> Table {
        let rows: Vec<&Row> = groups.iter().copied().flatten().collect();
        let mut slots = vec![EMPTY; (rows.len() * 4).next_power_of_two()];
        for (number, row) in rows.iter().enumerate() {
            let mut slot = hash(row.name.as_bytes()) & (slots.len() - 1);
            while slots[slot] != EMPTY {
                slot = (slot + 1) & (slots.len() - 1);
            }
            slots[slot] = u16::try_from(number).expect("there are fewer than 65,535 commands");
        }
        Table { rows, slots }
    }

    /// The command called `name`, in any case, and its number.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<(usize, &'static Row)> {
        if name.len() > NAME_BYTES_MAX {
            return None;
        }
        let mask = self.slots.len() - 1;
        let mut slot = hash(name) & mask;
        loop {
            let number = usize::from(self.slots[slot]);
            if number == usize::from(EMPTY) {
                return None;
            }
            let row = self.rows[number];
            if row.name.as_bytes().eq_ignore_ascii_case(name) {
                return Some((number, row));
            }
            slot = (slot + 1) & mask;
        }
    }

    /// How many commands there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The name of command `number`.
    pub(crate) fn name(&self, number: usize) -> &'static str {
        self.rows.get(number).map_or("?", |row| row.name)
    }

    /// All commands, by number.
    pub(crate) fn rows(&self) -> &[&'static Row] {
        &self.rows
    }
}

/// FNV-1a over the name in lower case.
#[inline]
fn hash(name: &[u8]) -> usize {
    let hash = name.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, &byte| {
        (hash ^ u64::from(byte | 0x20)).wrapping_mul(0x0100_0000_01b3)
    });
    usize::try_from((hash >> 32) ^ (hash & 0xffff_ffff)).unwrap_or(0)
}
