//! SLOWLOG: the commands that took longest to execute, newest first.
//!
//! L1. Bounded: at most the set number of entries, 32 arguments of 128 bytes each per entry.
//! L2. Secrets stay out: the arguments of AUTH and HELLO are not kept, nor is a password that
//!     CONFIG SET sets.
//!
//! Tests: below.

use crate::resp::request::Args;
use std::collections::VecDeque;
use std::time::Duration;
use velella_sync::thread::wall_ms;

const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_BYTES_MAX: usize = 128;
/// What stands in a secret's place, as in Redis.
const REDACTED: &[u8] = b"(redacted)";

/// One slow command.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Its number, rising.
    pub id: u64,
    /// When it ended, in milliseconds since 1970.
    pub at_ms: u64,
    /// How long it took.
    pub took: Duration,
    /// Its arguments, shortened.
    pub arguments: Vec<Vec<u8>>,
    /// Where its client is.
    pub address: String,
    /// What its client calls itself.
    pub client: String,
}

/// The log.
#[derive(Debug, Default)]
pub(crate) struct Slowlog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl Slowlog {
    /// Notes a command; the oldest go beyond `most`.
    pub(crate) fn note(
        &mut self,
        args: Args<'_>,
        took: Duration,
        address: String,
        client: String,
        most: usize,
    ) {
        let id = self.next_id;
        self.next_id += 1;
        let arguments = shortened(args);
        let entry = Entry {
            id,
            at_ms: wall_ms(),
            took,
            arguments,
            address,
            client,
        };
        self.entries.push_front(entry);
        self.entries.truncate(most);
    }

    /// The entries, newest first.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = &Entry> {
        self.entries.iter()
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

fn shortened(args: Args<'_>) -> Vec<Vec<u8>> {
    let name = args.at(0);
    if name.eq_ignore_ascii_case(b"auth") || name.eq_ignore_ascii_case(b"hello") {
        return vec![name.to_vec(), REDACTED.to_vec()];
    }
    let kept = if args.len() > ARGUMENTS_MAX {
        ARGUMENTS_MAX - 1
    } else {
        args.len()
    };
    let mut arguments: Vec<Vec<u8>> = (0..kept)
        .map(|at| match is_password(args, at) {
            true => REDACTED.to_vec(),
            false => shorten(args.at(at)),
        })
        .collect();
    if kept < args.len() {
        arguments.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    arguments
}

/// Whether argument `at` is what CONFIG SET makes the password.
fn is_password(args: Args<'_>, at: usize) -> bool {
    let is = |at: usize, name: &[u8]| args.at(at).eq_ignore_ascii_case(name);
    at >= 3 && is(0, b"config") && is(1, b"set") && is(at - 1, b"requirepass")
}

fn shorten(argument: &[u8]) -> Vec<u8> {
    if argument.len() <= ARGUMENT_BYTES_MAX {
        return argument.to_vec();
    }
    let more = argument.len() - ARGUMENT_BYTES_MAX;
    let more = format!("... ({more} more bytes)");
    [&argument[..ARGUMENT_BYTES_MAX], more.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::request::{Decoder, Limits};

    fn noted(request: &[u8], most: usize, log: &mut Slowlog) {
        let mut decoder = Decoder::default();
        decoder.decode(request, &Limits::trusted(1 << 20)).unwrap();
        log.note(
            decoder.args(request),
            Duration::ZERO,
            String::new(),
            String::new(),
            most,
        );
    }

    #[test]
    fn passwords_are_in_no_entry() {
        for secret in [
            &b"auth hunter2\n"[..],
            b"hello 3 auth me hunter2\n",
            b"config set requirepass hunter2\n",
            b"CONFIG SET timeout 1 RequirePass hunter2 maxclients 9\n",
        ] {
            let mut log = Slowlog::default();
            noted(secret, 2, &mut log);
            let shown = log.entries[0].arguments.join(&b' ');
            let shown = String::from_utf8_lossy(&shown);
            assert!(!shown.contains("hunter2"), "{shown}");
            assert!(shown.contains("(redacted)"), "{shown}");
        }
    }

    #[test]
    fn entries_are_few_short_and_without_secrets() {
        let mut log = Slowlog::default();
        noted(b"auth hunter2\n", 2, &mut log);
        assert!(!format!("{log:?}").contains("hunter2"));
        let long = [b"mget", &b" k".repeat(100)[..], b" ", &[b'x'; 500], b"\n"].concat();
        noted(&long, 2, &mut log);
        noted(&[b"get ", &[b'x'; 500][..], b"\n"].concat(), 2, &mut log);
        let entries: Vec<&Entry> = log.entries().collect();
        assert_eq!(
            entries.iter().map(|entry| entry.id).collect::<Vec<_>>(),
            [2, 1]
        );
        assert!(entries[0].arguments[1].ends_with(b"... (372 more bytes)"));
        assert_eq!(entries[1].arguments.len(), ARGUMENTS_MAX);
        assert_eq!(entries[1].arguments[31], b"... (71 more arguments)");
    }
}
