//! One client's connection: bytes in, commands run, bytes out.
//!
//! P1. All complete requests at hand run as a group, their replies go out in one write.
//! P2. A client that does not read is not served: while more than [`BACKLOG_BYTES_MAX`] bytes wait
//!     for it, its requests wait too. What one command can add to that is bounded by
//!     `Config::max_output_bytes`, or by the one value asked for.
//! P3. An idle connection holds no buffer: bytes are received into the thread's, and only what is
//!     left of an incomplete request is kept; output buffers go back to the thread once sent.
//! P4. Replies that vouch for durability are withheld, with all that follow on the connection,
//!     until it is reached; if it cannot be, they are never sent. What comes before them is: it
//!     vouches for nothing.
//! P5. A read that does not fill its buffer has emptied the socket, as epoll(7) has it, and is not
//!     followed by one in vain; but once the system has told of an end, an error or an urgent byte,
//!     which it does once, a connection is read until the socket says that it would block.
//! P6. A group ends after [`TURN_TIME`] with the command at hand, and at once when the server
//!     stops; the rest of it comes after the other connections. So many costly commands in one
//!     write keep nobody waiting but their client. What is refused takes no time.
//! P7. A client is not silent while it completes requests, whatever the answers, receives more than
//!     a drip, takes what it asked for, or waits for replies withheld.
//!
//! Tests: below, and through sockets in `tests/`.

use crate::command::run::Runner;
use crate::command::session::{Replies, Session};
use crate::resp::reply::{Protocol, Reply};
use crate::resp::request::{Decoder, Limits, Progress};
use mio::net::TcpStream;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};
use velella::Stamp;
use velella_sync::atomic::Ordering;
use velella_sync::thread::now;

/// Unsent bytes above which a client's requests wait.
const BACKLOG_BYTES_MAX: usize = 1 << 20;
/// Time after which no further command of a group is begun.
const TURN_TIME: Duration = Duration::from_millis(5);
/// Sent bytes that stay in the output, at least, until all of it is sent.
const SENT_BYTES_KEPT: usize = 64 << 10;
/// Unsent bytes above which a client that has never authenticated is closed.
const STRANGER_BACKLOG_MAX: usize = 1 << 10;
/// Time a client has to authenticate first.
const AUTHENTICATION_TIME: Duration = Duration::from_secs(10);
/// Longest that a sync waits for company; what is longer, and beyond all instants, is for ever too.
const PATIENCE_MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Bytes received since the last activity that are one, even if no request is complete: a large
/// value is on its way, not a drip that keeps a connection open.
const ACTIVITY_BYTES: usize = 4 << 10;
/// Bytes received at a time.
const READ_BYTES: usize = 64 << 10;
/// Output buffers a thread keeps, and the largest of them.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 256 << 10;

/// The buffers of one thread, lent to its connections.
pub(crate) struct Buffers {
    input: Box<[u8]>,
    outputs: Vec<Vec<u8>>,
}

impl Buffers {
    /// One for input, none yet for output.
    pub(crate) fn new() -> Self {
        Buffers {
            input: vec![0; READ_BYTES].into_boxed_slice(),
            outputs: Vec::new(),
        }
    }

    fn take_back(&mut self, mut buffer: Vec<u8>) {
        if self.outputs.len() < SPARES_MAX && buffer.capacity() <= SPARE_BYTES_MAX {
            buffer.clear();
            self.outputs.push(buffer);
        }
    }
}

/// What withholds a connection's replies (P4).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hold {
    /// What must be durable.
    pub stamp: Stamp,
    /// When waiting for it must begin.
    pub due: Instant,
    /// Where in the output the replies begin that vouch for it.
    from: usize,
}

/// What became of the requests at hand.
#[derive(Default)]
struct Ran {
    /// How many bytes they were.
    used: usize,
    /// Whether there was one at all, run or refused.
    any: bool,
    /// The number of the last command.
    last: Option<usize>,
    /// Where the reply begins of the first that vouches for durability (P4).
    vouching: Option<usize>,
}

/// One client.
pub(crate) struct Connection {
    stream: TcpStream,
    /// The state commands see.
    pub session: Session,
    decoder: Decoder,
    /// Received and not yet executed.
    pending: Vec<u8>,
    reply: Reply,
    /// Bytes of the reply that are sent.
    sent: usize,
    /// The socket may have bytes for us.
    pub readable: bool,
    /// The socket may take bytes from us.
    pub writable: bool,
    /// The system has told of what it tells once: it is read until there is nothing (P5).
    pub reads_on: bool,
    /// Requests in `pending` wait: for the backlog to shrink (P2), or for the next turn (P6).
    stalled: bool,
    /// No more bytes will come.
    ended: bool,
    /// Nothing more can be done with the socket.
    broken: bool,
    /// Why replies are withheld, if they are.
    pub hold: Option<Hold>,
    /// Whether the connection is in the thread's list of ready ones.
    pub queued: bool,
    opened: Instant,
    active: Instant,
    /// Bytes received since then.
    received: usize,
}

impl Connection {
    /// A connection just accepted.
    pub(crate) fn new(stream: TcpStream, session: Session, now: Instant) -> Self {
        Connection {
            stream,
            session,
            decoder: Decoder::default(),
            pending: Vec::new(),
            reply: Reply::default(),
            sent: 0,
            readable: true,
            writable: true,
            reads_on: false,
            stalled: false,
            ended: false,
            broken: false,
            hold: None,
            queued: false,
            opened: now,
            active: now,
            received: 0,
        }
    }

    /// The socket, for registration.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    fn backlog(&self) -> usize {
        self.reply.len() - self.sent
    }

    /// Receives once and runs what is complete. Replies stay in the output until `flush`.
    pub(crate) fn turn(&mut self, runner: &mut Runner, buffers: &mut Buffers) {
        if !self.has_work() {
            return;
        }
        runner.clock = now();
        if self.reply.is_empty()
            && let Some(mut spare) = buffers.outputs.pop()
        {
            self.reply.swap_buffer(&mut spare);
        }
        let received = self.receive(runner, buffers);
        let fresh = &buffers.input[..received];
        let ran = if self.pending.is_empty() {
            let ran = self.execute(runner, fresh);
            self.pending.extend_from_slice(&fresh[ran.used..]);
            ran
        } else {
            self.pending.extend_from_slice(fresh);
            let mut pending = std::mem::take(&mut self.pending);
            let ran = self.execute(runner, &pending);
            pending.drain(..ran.used);
            self.pending = pending;
            ran
        };
        // Whatever the size: a letter and a space are an argument, and take much more (P3).
        if ran.used > 0 {
            self.decoder.shrink();
            self.pending.shrink_to_fit();
        }
        self.after_commands(runner, &ran, received);
        if self.ended {
            self.session.closing = true;
        }
    }

    fn after_commands(&mut self, runner: &Runner, ran: &Ran, received: usize) {
        if ran.any {
            let resp3 = self.reply.protocol == Protocol::Resp3;
            self.session
                .client
                .note(self.session.database, resp3, ran.last);
        }
        // P7.
        self.received += received;
        if ran.any || self.received >= ACTIVITY_BYTES {
            self.active = runner.clock;
            self.received = 0;
        }
        self.note_buffers();
        if let Some(patience) = self.session.withhold.take() {
            let due = runner.clock + patience.min(PATIENCE_MAX);
            let stamp = self.session.last_stamp;
            let from = ran.vouching.unwrap_or(self.reply.len());
            let before = self.hold.unwrap_or(Hold { stamp, due, from });
            self.hold = Some(Hold {
                stamp,
                due: before.due.min(due),
                from: before.from,
            });
        }
    }

    fn note_buffers(&self) {
        let client = &self.session.client;
        client.note_buffers(self.pending.len(), self.backlog());
    }

    /// Receives what one read gives.
    fn receive(&mut self, runner: &Runner, buffers: &mut Buffers) -> usize {
        if !self.readable || self.stalled {
            return 0;
        }
        loop {
            match self.stream.read(&mut buffers.input) {
                Ok(0) => {
                    self.readable = false;
                    self.ended = true;
                    return 0;
                }
                Ok(received) => {
                    runner.counters.reads.add(1);
                    runner.counters.bytes_in.add(received as u64);
                    // P5. What comes later has an event of its own.
                    self.readable = received == buffers.input.len() || self.reads_on;
                    return received;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    runner.counters.reads_in_vain.add(1);
                    self.readable = false;
                    return 0;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.broken = true;
                    return 0;
                }
            }
        }
    }

    /// Runs the complete requests in `bytes`.
    fn execute(&mut self, runner: &mut Runner, bytes: &[u8]) -> Ran {
        let mut ran = Ran::default();
        self.stalled = false;
        let begun = runner.clock;
        // T2 of clients: what killed it has been answered, maybe, as if it would do nothing more.
        while ran.used < bytes.len() && !self.session.closing && !self.session.client.killed() {
            // P6.
            let is_late = runner.clock.saturating_duration_since(begun) > TURN_TIME;
            if is_late || self.backlog() > BACKLOG_BYTES_MAX || runner.shared.stopping() {
                self.stalled = true;
                break;
            }
            let limits = if self.session.is_admitted(&runner.shared) {
                // Relaxed: a setting, see `Settings`.
                let most = runner
                    .shared
                    .settings
                    .max_bulk_bytes
                    .load(Ordering::Relaxed);
                Limits::trusted(most)
            } else {
                Limits::unauthenticated()
            };
            let rest = &bytes[ran.used..];
            match self.decoder.decode(rest, &limits) {
                Ok(Progress::Incomplete) => break,
                Ok(Progress::Complete(size)) => {
                    let args = self.decoder.args(rest);
                    if args.len() > 0 {
                        let from = self.reply.len();
                        let number = runner.run(&mut self.session, &mut self.reply, args);
                        ran.any = true;
                        ran.last = number.or(ran.last);
                        if self.session.withhold.is_some() {
                            ran.vouching.get_or_insert(from);
                        }
                    }
                    ran.used += size;
                }
                Err(error) => {
                    if self.session.replies == Replies::On {
                        let told = format!("ERR Protocol error: {}", error.0);
                        self.reply.error(told.as_bytes());
                    }
                    runner.counters.errors.add(1);
                    self.session.closing = true;
                }
            }
        }
        if self.session.closing {
            ran.used = bytes.len();
        }
        ran
    }

    /// Ends the wait of P4 at `now`: the replies may be sent. The client was waiting, not silent.
    pub(crate) fn release(&mut self, now: Instant) {
        self.hold = None;
        self.active = now;
    }

    /// Ends the wait of P4 in failure: the replies withheld, from the first that vouches for
    /// durability on, are replaced by `error`.
    pub(crate) fn fail_hold(&mut self, error: &velella::Error) {
        if let Some(hold) = self.hold.take() {
            self.reply.truncate(hold.from);
            let text = format!("MISCONF the write may not survive a power loss: {error}");
            self.reply.error(text.as_bytes());
            self.session.closing = true;
        }
    }

    /// Sends what is written, unless it is withheld.
    pub(crate) fn flush(&mut self, runner: &Runner, buffers: &mut Buffers) {
        if self.hold.is_some() || self.broken {
            return;
        }
        let (before, before_backlog) = (self.sent, self.backlog());
        while self.backlog() > 0 && self.writable {
            match self.stream.write(&self.reply.bytes()[self.sent..]) {
                Ok(0) => self.broken = true,
                Ok(sent) => {
                    runner.counters.writes.add(1);
                    runner.counters.bytes_out.add(sent as u64);
                    self.sent += sent;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.broken = true,
            }
            if self.broken {
                return;
            }
        }
        if self.backlog() == 0 && self.reply.has_buffer() {
            let mut buffer = Vec::new();
            self.reply.swap_buffer(&mut buffer);
            buffers.take_back(buffer);
            self.sent = 0;
        } else if self.sent > before {
            // It takes what it asked for, however slowly.
            self.active = now();
            // Of a client that is never quite up to date too: once it is no more than was sent,
            // what is left costs little to move.
            if self.sent >= SENT_BYTES_KEPT.max(self.backlog()) {
                self.reply.forget(self.sent);
                self.sent = 0;
            }
        }
        if self.backlog() != before_backlog {
            self.note_buffers();
        }
        if !self.session.known && self.backlog() > STRANGER_BACKLOG_MAX {
            self.broken = true;
        }
    }

    /// Whether there is something to do without waiting for the socket.
    pub(crate) fn has_work(&self) -> bool {
        let willing = !self.session.closing && !self.broken;
        willing && self.backlog() <= BACKLOG_BYTES_MAX && (self.readable || self.stalled)
    }

    /// Whether the connection is over: broken, or closing with nothing left to send.
    pub(crate) fn done(&self) -> bool {
        self.broken || self.session.closing && self.backlog() == 0 && self.hold.is_none()
    }

    /// Whether the client, served with all it had sent by `heard`, had then been silent, or unable
    /// to authenticate, for too long. Who waits for withheld replies is not silent.
    pub(crate) fn overdue(&self, heard: Instant, timeout: Duration) -> bool {
        let silent_since = if self.hold.is_some() {
            heard
        } else {
            self.active
        };
        let idle = heard.saturating_duration_since(silent_since);
        let age = heard.saturating_duration_since(self.opened);
        is_overdue(idle, age, self.session.known, timeout)
    }
}

/// Whether to close a client that has been silent and here for so long; a `timeout` of zero: never
/// for its silence.
fn is_overdue(idle: Duration, age: Duration, known: bool, timeout: Duration) -> bool {
    !timeout.is_zero() && idle >= timeout || !known && age >= AUTHENTICATION_TIME
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::all;
    use crate::config::Config;
    use crate::counters::Counters;
    use crate::shared::Shared;
    use std::sync::Arc;

    #[test]
    fn silence_and_strangeness_end_connections() {
        let seconds = Duration::from_secs;
        for (idle, age, known, timeout, overdue) in [
            (59, 59, true, 60, false),
            (60, 60, true, 60, true),
            (9000, 9000, true, 0, false),
            (0, 9, false, 60, false),
            (0, 10, false, 60, true),
            (0, 10, false, 0, true),
        ] {
            let found = is_overdue(seconds(idle), seconds(age), known, seconds(timeout));
            assert_eq!(found, overdue, "{idle} {age} {known} {timeout}");
        }
    }

    /// A connection to a server of its own, and the thread that serves it.
    struct Served {
        runner: Runner,
        connection: Connection,
        /// Takes what is sent, as far as the system keeps it for who never asks.
        _listener: std::net::TcpListener,
        _directory: tempfile::TempDir,
    }

    impl Served {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let db = velella::open(directory.path()).unwrap();
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let counters = Arc::new(Counters::new(all::table().len()));
            let of_threads = vec![Arc::clone(&counters)];
            let shared = Shared::new(db, Config::default(), address, of_threads, Vec::new());
            let shared = Arc::new(shared);
            let client = shared.clients.add(1, address, address, 0).unwrap();
            let stream = TcpStream::connect(address).unwrap();
            Served {
                connection: Connection::new(stream, Session::new(client, &shared), now()),
                runner: Runner::new(shared, counters),
                _listener: listener,
                _directory: directory,
            }
        }

        /// A group that is not put off, however long it takes.
        fn execute(&mut self, requests: &[u8]) -> Ran {
            self.runner.clock = now() + 1000 * TURN_TIME;
            self.execute_at_the_clock(requests)
        }

        fn execute_at_the_clock(&mut self, requests: &[u8]) -> Ran {
            self.connection.execute(&mut self.runner, requests)
        }
    }

    #[test]
    fn a_killed_client_runs_no_more_commands() {
        let mut served = Served::new();
        let requests = b"INCR n\r\nINCR n\r\n";
        assert_eq!(served.execute(requests).used, requests.len());
        served.connection.session.client.kill();
        assert_eq!(served.execute(requests).used, 0);
        assert_eq!(served.connection.reply.bytes(), b":1\r\n:2\r\n");
        let found = served.runner.shared.db.get("n").unwrap();
        assert_eq!(found.as_deref(), Some(&b"2"[..]));
    }

    #[test]
    fn a_group_that_takes_long_is_put_off_and_goes_on() {
        let mut served = Served::new();
        let requests = b"INCR n\r\nINCR n\r\nINCR n\r\n";
        // Begun long ago: when its first command has ended, that shows.
        served.runner.clock = now() - 100 * TURN_TIME;
        let used = served.execute_at_the_clock(requests).used;
        assert_eq!(used, requests.len() / 3);
        assert!(served.connection.stalled && served.connection.has_work());
        assert_eq!(served.execute(&requests[used..]).used, 2 * used);
        assert_eq!(served.connection.reply.bytes(), b":1\r\n:2\r\n:3\r\n");
    }

    #[test]
    fn a_server_that_stops_begins_no_more_commands() {
        let mut served = Served::new();
        served.runner.shared.stop();
        assert_eq!(served.execute(b"INCR n\r\n").used, 0);
        assert_eq!(served.runner.shared.db.get("n").unwrap(), None);
    }

    /// It would keep a server that stops for as long as it takes.
    #[test]
    fn what_looks_at_all_keys_ends_when_nobody_waits_for_it() {
        for stops in [true, false] {
            let mut served = Served::new();
            served.execute(b"MSET a 1 b 2\r\n");
            served.connection.reply = Reply::default();
            match stops {
                true => served.runner.shared.stop(),
                false => served.connection.session.client.kill(),
            }
            for request in [
                &b"DBSIZE\r\n"[..],
                b"KEYS *\r\n",
                b"FLUSHALL\r\n",
                b"BITOP OR d a b\r\n",
            ] {
                let (runner, connection) = (&mut served.runner, &mut served.connection);
                let limits = Limits::trusted(1 << 20);
                assert!(connection.decoder.decode(request, &limits).is_ok());
                let args = connection.decoder.args(request);
                runner.run(&mut connection.session, &mut connection.reply, args);
            }
            let told = "-ERR the connection is being closed\r\n".repeat(4);
            assert_eq!(served.connection.reply.bytes(), told.as_bytes());
            assert!(served.runner.shared.db.contains("a").unwrap());
        }
    }

    #[test]
    fn who_wants_no_replies_is_told_of_no_bad_request() {
        for wish in ["OFF", "SKIP"] {
            let mut served = Served::new();
            served.execute(format!("CLIENT REPLY {wish}\r\n").as_bytes());
            served.execute(b"*a\r\n");
            assert_eq!(served.connection.reply.bytes(), b"", "{wish}");
            assert!(served.connection.session.closing, "{wish}");
        }
        let mut served = Served::new();
        served.execute(b"CLIENT REPLY SKIP\r\nRESET\r\nPING\r\n");
        assert_eq!(served.connection.reply.bytes(), b"+PONG\r\n");
    }

    #[test]
    fn who_is_refused_again_and_again_is_not_silent() {
        let mut served = Served::new();
        let opened = served.connection.opened;
        let (second, timeout) = (Duration::from_secs(1), Duration::from_secs(5));
        let at = |seconds: u32| opened + second * seconds;
        *served.runner.shared.settings.requirepass.lock() = Some("secret".into());
        // Unknown, not supported, too few arguments, and no password given.
        let requests = ["NOSUCH", "MULTI", "GET", "GET k"];
        for (turn, request) in (1..).zip(requests) {
            served.connection.session.authenticated = request != "GET k";
            served.runner.clock = at(3 * turn);
            let ran = served.execute_at_the_clock(format!("{request}\r\n").as_bytes());
            assert_eq!(ran.last, None, "{request}");
            let connection = &mut served.connection;
            connection.after_commands(&served.runner, &ran, ran.used);
            assert!(!connection.overdue(at(3 * turn + 4), timeout), "{request}");
            assert!(connection.overdue(at(3 * turn + 5), timeout), "{request}");
        }
        served.runner.clock = at(100);
        let ran = served.execute_at_the_clock(b"\r\n");
        let connection = &mut served.connection;
        connection.after_commands(&served.runner, &ran, ran.used);
        assert!(connection.overdue(at(100), timeout), "no request");
    }

    #[test]
    fn what_was_sent_is_held_for_the_client_no_more() {
        let mut served = Served::new();
        let ran = served.execute(b"ECHO some-words\r\n");
        let (runner, connection) = (&served.runner, &mut served.connection);
        let client = Arc::clone(&connection.session.client);
        let held = || client.line(|_| "").contains(" omem=0 ");
        connection.after_commands(runner, &ran, ran.used);
        assert!(!held());
        connection.writable = true;
        connection.flush(runner, &mut Buffers::new());
        assert!(held() && connection.backlog() == 0);
    }

    /// Each packet is received by itself, and none of them is much.
    #[test]
    fn who_sends_a_large_value_steadily_is_not_silent_and_a_drip_is() {
        let timeout = Duration::from_secs(5);
        for (bytes, is_silent) in [(1448, false), (1, true)] {
            let mut served = Served::new();
            let connection = &mut served.connection;
            let opened = connection.opened;
            for second in 1..=20 {
                served.runner.clock = opened + Duration::from_secs(second);
                connection.after_commands(&served.runner, &Ran::default(), bytes);
            }
            let at = served.runner.clock;
            assert_eq!(connection.overdue(at, timeout), is_silent, "{bytes}");
        }
    }

    #[test]
    fn who_waits_for_withheld_replies_is_not_silent() {
        let mut served = Served::new();
        let connection = &mut served.connection;
        let opened = connection.opened;
        let (second, timeout) = (Duration::from_secs(1), Duration::from_secs(5));
        let at = |seconds: u32| opened + second * seconds;

        assert!(!connection.overdue(at(4), timeout) && connection.overdue(at(5), timeout));
        connection.hold = Some(Hold {
            stamp: Stamp::ZERO,
            due: at(9),
            from: 0,
        });
        assert!(!connection.overdue(at(9), timeout));
        connection.release(at(9));
        assert!(!connection.overdue(at(13), timeout) && connection.overdue(at(14), timeout));
    }
}
