//! Any commands on a database: what clients may send, run as network threads run it, no socket
//! between.
//!
//! M1. A command leaves exactly one well formed reply, of the protocol then spoken; none only if
//!     the client wants none, or is about to be closed.
//! M2. No command panics.
//! M3. A reply is no larger than `Config::max_output_bytes`, or the one value asked for, with what
//!     is written around it.
//! M4. In the end commands that read the same agree on each key that does not expire.
//!
//! Clients are closed as connections would, and the next request is a new client's. A CONFIG SET
//! may not raise the longest argument for long: SETRANGE would take half a gigabyte.

use super::replies::{self, Answer};
use crate::command::all;
use crate::command::run::Runner;
use crate::command::session::{Replies, Session};
use crate::config::Config;
use crate::counters::Counters;
use crate::resp::reply::Reply;
use crate::resp::request::{Decoder, Limits, Progress};
use crate::shared::Shared;
use mio::{Poll, Token, Waker};
use std::net::SocketAddr;
use std::sync::Arc;
use velella::Db;
use velella_sync::atomic::Ordering;

const BULK_BYTES_MAX: usize = 32 << 10;
const OUTPUT_BYTES_MAX: usize = 256 << 10;
/// What may be written around a value: its head, and what INFO and COMMAND say whatever the data.
const AROUND: usize = 256 << 10;

/// A stream of requests to a server on `db`, which is empty.
///
/// # Errors
/// The system refuses what a server needs.
pub fn commands(db: Db, stream: &[u8]) -> std::io::Result<()> {
    let (_poll, mut server) = serve(db.clone())?;
    let limits = Limits::trusted(BULK_BYTES_MAX);
    let (mut decoder, mut at) = (Decoder::default(), 0);
    while let Ok(Progress::Complete(used)) = decoder.decode(&stream[at..], &limits) {
        let args = decoder.args(&stream[at..]);
        let args: Vec<&[u8]> = args.iter().collect();
        if !args.is_empty() {
            server.ask(&args);
        }
        if server.shared.stopping() {
            // It lists no keys any more: the next one does.
            let (_poll, mut next) = serve(db)?;
            next.agrees_with_itself();
            return Ok(());
        }
        at += used;
    }
    server.agrees_with_itself();
    Ok(())
}

/// A server on `db`; what is returned with it is kept: its end would be the waker's.
fn serve(db: Db) -> std::io::Result<(Poll, Served)> {
    let config = Config {
        threads: 1,
        max_bulk_bytes: BULK_BYTES_MAX,
        max_output_bytes: OUTPUT_BYTES_MAX,
        ..Config::default()
    };
    let poll = Poll::new()?;
    let server = Served::new(db, config, Waker::new(poll.registry(), Token(0))?);
    Ok((poll, server))
}

/// A server without its threads, and the client it talks to.
struct Served {
    shared: Arc<Shared>,
    runner: Runner,
    session: Session,
    reply: Reply,
}

impl Served {
    fn new(db: Db, config: Config, waker: Waker) -> Self {
        let counters = Arc::new(Counters::new(all::table().len()));
        let address = SocketAddr::from(([127, 0, 0, 1], 6380));
        let of_threads = vec![Arc::clone(&counters)];
        let shared = Shared::new(db, config, address, of_threads, vec![waker]);
        let shared = Arc::new(shared);
        Served {
            session: connect(&shared),
            runner: Runner::new(Arc::clone(&shared), counters),
            shared,
            reply: Reply::default(),
        }
    }

    /// Has `args` run, and looks at the reply (M1 to M3); what it said, if anything.
    fn ask(&mut self, args: &[&[u8]]) -> Option<Answer> {
        let wanted = self.session.replies == Replies::On;
        let request = written(args);
        let mut decoder = Decoder::default();
        let complete = decoder.decode(&request, &Limits::trusted(request.len()));
        assert_eq!(complete, Ok(Progress::Complete(request.len())));
        let args = decoder.args(&request);
        self.runner.run(&mut self.session, &mut self.reply, args);
        let wanted = wanted && self.session.replies == Replies::On && !self.session.closing;
        assert_eq!(self.runner.counters.panics.get(), 0, "M2: {args:?}");

        let bytes = self.reply.bytes();
        assert!(bytes.len() <= OUTPUT_BYTES_MAX + AROUND, "M3: {args:?}");
        let parsed = replies::one(bytes, self.reply.protocol);
        let answer = match parsed {
            Some((answer, used)) => {
                assert_eq!(used, bytes.len(), "M1: more than a reply to {args:?}");
                Some(answer)
            }
            None => {
                assert!(bytes.is_empty(), "M1: no reply to {args:?}: {bytes:?}");
                assert!(!wanted, "M1: nothing in reply to {args:?}");
                None
            }
        };
        self.reply.truncate(0);
        let longest = &self.shared.settings.max_bulk_bytes;
        // Relaxed: a setting, see `Settings`.
        longest.fetch_min(BULK_BYTES_MAX, Ordering::Relaxed);
        if self.session.closing || self.session.client.killed() {
            self.reconnect();
        }
        answer
    }

    fn reconnect(&mut self) {
        self.shared.clients.remove(self.session.client.id);
        self.session = connect(&self.shared);
        self.reply = Reply::default();
    }

    /// M4, of each database.
    fn agrees_with_itself(&mut self) {
        *self.shared.settings.requirepass.lock() = None;
        self.reconnect();
        for database in 0..crate::databases::DATABASES {
            let number = database.to_string();
            self.ask(&[b"SELECT", number.as_bytes()]);
            let Some(Answer::Many(keys)) = self.ask(&[b"KEYS", b"*"]) else {
                panic!("M4: KEYS has no list");
            };
            let mut lasting = Vec::new();
            for key in keys {
                let Answer::Bytes(key) = key else {
                    panic!("M4: a key is no bytes");
                };
                // A key may expire between two commands; then they need not agree on it.
                if self.ask(&[b"PTTL", &key]) == Some(Answer::Number(-1)) {
                    self.agrees_on(&key);
                    lasting.push(key);
                }
            }
            let scanned = self.scanned();
            for key in &lasting {
                assert!(scanned.contains(key), "M4: SCAN passes over {key:?}");
            }
        }
    }

    fn agrees_on(&mut self, key: &[u8]) {
        let Some(Answer::Bytes(value)) = self.ask(&[b"GET", key]) else {
            panic!("M4: {key:?} is there, and GET does not find it");
        };
        let length = Some(Answer::Number(i64::try_from(value.len()).unwrap_or(-1)));
        assert_eq!(self.ask(&[b"STRLEN", key]), length, "M4: {key:?}");
        let one = Some(Answer::Number(1));
        assert_eq!(self.ask(&[b"EXISTS", key]), one, "M4: {key:?}");
        let value = Answer::Bytes(value);
        let range = self.ask(&[b"GETRANGE", key, b"0", b"-1"]);
        assert_eq!(range.as_ref(), Some(&value), "M4: {key:?}");
        let together = self.ask(&[b"MGET", key]);
        assert_eq!(together, Some(Answer::Many(vec![value])), "M4: {key:?}");
    }

    /// The keys of the database selected, as SCAN goes through them.
    fn scanned(&mut self) -> Vec<Vec<u8>> {
        let (mut keys, mut cursor) = (Vec::new(), b"0".to_vec());
        loop {
            let Some(Answer::Many(parts)) = self.ask(&[b"SCAN", &cursor, b"COUNT", b"7"]) else {
                panic!("M4: SCAN has no list");
            };
            let [Answer::Bytes(next), Answer::Many(found)] = &parts[..] else {
                panic!("M4: SCAN answers {parts:?}");
            };
            keys.extend(found.iter().filter_map(|key| match key {
                Answer::Bytes(key) => Some(key.clone()),
                _ => None,
            }));
            if next == b"0" {
                return keys;
            }
            cursor.clone_from(next);
        }
    }
}

/// A client of `shared` that has just connected.
fn connect(shared: &Shared) -> Session {
    let ends = shared.address;
    let client = shared.clients.add(usize::MAX, ends, ends, 0);
    Session::new(client.expect("there is no limit"), shared)
}

/// A request of `args`, as clients write it.
fn written(args: &[&[u8]]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        request.extend_from_slice(arg);
        request.extend_from_slice(b"\r\n");
    }
    request
}
