//! A network thread: it owns its connections, and serves those that are ready in rounds.
//!
//! A round: wait for events; receive and run the groups of all ready connections; wait once for
//! durability if any of their replies asks for it; send all replies. So a pipeline costs one read
//! and one write, and many connections that want their writes on the device share one sync.
//!
//! W1. A connection is touched by one thread only.
//! W2. The thread waits only in `poll`, and in the engine.
//! W3. Events are edge-triggered: a connection stays in the list of ready ones until its socket is
//!     empty (P5 of connections).
//! W4. How long a client has been silent is judged at an instant up to which everybody has been
//!     heard: a thread that was busy does not take its own silence for theirs.
//!
//! Tests: below, and through sockets in `tests/`.

use crate::clients::Client;
use crate::command::run::Runner;
use crate::command::session::Session;
use crate::connection::{Buffers, Connection};
use crate::counters::Counters;
use crate::shared::Shared;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use velella_sync::atomic::Ordering;
use velella_sync::thread::now;

/// The token of the waker; connections have their place in the list.
pub(crate) const WAKE: Token = Token(usize::MAX);
/// Most events taken at once.
const EVENTS_MAX: usize = 1024;
/// How often overdue connections are looked for.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// How long a stopping server tries to send what is written.
const FAREWELL_TIME: Duration = Duration::from_secs(3);

/// A connection for this thread.
pub(crate) type Arrival = (TcpStream, Arc<Client>);

/// One network thread.
pub(crate) struct Network {
    poll: Poll,
    runner: Runner,
    buffers: Buffers,
    arrivals: Receiver<Arrival>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Connections to serve in the next round.
    ready: Vec<usize>,
    /// Connections whose replies are withheld.
    held: Vec<usize>,
    kills_seen: u64,
    /// What had arrived by then has been served (W4).
    heard: Instant,
    next_sweep: Instant,
}

impl Network {
    /// A thread about to start.
    pub(crate) fn new(
        poll: Poll,
        shared: Arc<Shared>,
        counters: Arc<Counters>,
        arrivals: Receiver<Arrival>,
    ) -> Self {
        Network {
            poll,
            runner: Runner::new(shared, counters),
            buffers: Buffers::new(),
            arrivals,
            connections: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            held: Vec::new(),
            kills_seen: 0,
            heard: now(),
            next_sweep: now() + SWEEP_INTERVAL,
        }
    }

    /// Serves until the server stops.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.runner.shared.stopping() {
            let patience = self.patience();
            let asked = now();
            let waited = self.poll.poll(&mut events, Some(patience));
            self.runner.counters.polls.add(1);
            self.take_events(&events);
            self.round();
            // A full list may have left some out; an interrupted wait found nothing.
            if waited.is_ok() && events.iter().count() < EVENTS_MAX {
                self.heard = asked;
            }
            self.sweep();
        }
        self.farewell(&mut events);
    }

    /// How long the next wait may be.
    fn patience(&self) -> Duration {
        if !self.ready.is_empty() {
            return Duration::ZERO;
        }
        if self.held.is_empty() {
            return SWEEP_INTERVAL;
        }
        let now = now();
        let due = self
            .held
            .iter()
            .filter_map(|&slot| self.connections[slot].as_ref()?.hold);
        let next = due
            .map(|hold| hold.due.saturating_duration_since(now))
            .min();
        next.unwrap_or(Duration::ZERO).min(SWEEP_INTERVAL)
    }

    fn take_events(&mut self, events: &Events) {
        let mut woken = false;
        for event in events {
            if event.token() == WAKE {
                woken = true;
                continue;
            }
            let slot = event.token().0;
            if let Some(connection) = self.connections.get_mut(slot).and_then(Option::as_mut) {
                connection.readable |= event.is_readable() || event.is_read_closed();
                connection.reads_on |=
                    event.is_read_closed() || event.is_error() || event.is_priority();
                connection.writable |= event.is_writable() || event.is_error();
                queue(&mut self.ready, connection, slot);
            }
        }
        if woken {
            self.admit_arrivals();
            self.look_for_killed();
        }
    }

    fn admit_arrivals(&mut self) {
        while let Ok((stream, client)) = self.arrivals.try_recv() {
            // T3 of clients. The kill's wake may have come before it; a later one is yet to come.
            if client.killed() {
                self.runner.shared.clients.remove(client.id);
                continue;
            }
            let slot = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let session = Session::new(client, &self.runner.shared);
            let mut connection = Connection::new(stream, session, now());
            // Priority: a read stops at an urgent byte, whatever is behind it (P5 of connections).
            let interest = Interest::READABLE | Interest::WRITABLE | Interest::PRIORITY;
            let registry = self.poll.registry();
            if registry
                .register(connection.stream(), Token(slot), interest)
                .is_err()
            {
                self.runner
                    .shared
                    .clients
                    .remove(connection.session.client.id);
                self.free.push(slot);
                continue;
            }
            self.runner.counters.connections.add(1);
            queue(&mut self.ready, &mut connection, slot);
            self.connections[slot] = Some(connection);
        }
    }

    fn look_for_killed(&mut self) {
        // Acquire: pairs with the Release in CLIENT KILL.
        let kills = self.runner.shared.kills.load(Ordering::Acquire);
        if kills != self.kills_seen {
            self.kills_seen = kills;
            self.close_where(|connection| connection.session.client.killed());
        }
    }

    /// Serves every ready connection once.
    fn round(&mut self) {
        if self.ready.is_empty() && self.held.is_empty() {
            return;
        }
        let ready = std::mem::take(&mut self.ready);
        for &slot in &ready {
            if let Some(connection) = &mut self.connections[slot] {
                connection.queued = false;
                let held = connection.hold.is_some();
                connection.turn(&mut self.runner, &mut self.buffers);
                if connection.hold.is_some() && !held {
                    self.held.push(slot);
                }
            }
        }
        self.settle_durability();
        for &slot in &ready {
            self.finish_turn(slot);
        }
        // The list keeps its memory; what was queued meanwhile moves into it.
        let mut spent = ready;
        spent.clear();
        spent.append(&mut self.ready);
        self.ready = spent;
    }

    /// Sends what a connection's turn wrote, and sees what is next for it.
    fn finish_turn(&mut self, slot: usize) {
        let Some(connection) = &mut self.connections[slot] else {
            return;
        };
        connection.flush(&self.runner, &mut self.buffers);
        if connection.done() {
            self.close(slot);
        } else if connection.has_work() {
            queue(&mut self.ready, connection, slot);
        }
    }

    /// Releases the replies whose writes are durable, after waiting for that if it is time to.
    fn settle_durability(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let db = &self.runner.shared.db;
        let holds = self
            .held
            .iter()
            .filter_map(|&slot| self.connections[slot].as_ref()?.hold);
        let (mut newest, mut due) = (None, false);
        let begun = now();
        for hold in holds {
            newest = newest.max(Some(hold.stamp));
            due |= hold.due <= begun;
        }
        let failure = match newest {
            Some(newest) if due && db.durable() < newest => {
                self.runner.counters.durability_waits.add(1);
                db.wait_durable(newest).err()
            }
            _ => None,
        };
        let (durable, now) = (db.durable(), now());
        let mut settled = Vec::new();
        self.held.retain(|&slot| {
            let Some(connection) = &mut self.connections[slot] else {
                return false;
            };
            let Some(hold) = connection.hold else {
                return false;
            };
            match &failure {
                _ if hold.stamp <= durable => connection.release(now),
                Some(error) => connection.fail_hold(error),
                None => return true,
            }
            settled.push(slot);
            false
        });
        settled.into_iter().for_each(|slot| self.finish_turn(slot));
    }

    /// Now and then, closes the connections that are overdue.
    fn sweep(&mut self) {
        let now = now();
        if now < self.next_sweep {
            return;
        }
        self.next_sweep = now + SWEEP_INTERVAL;
        // Relaxed: a setting, see `Settings`.
        let seconds = self
            .runner
            .shared
            .settings
            .timeout_seconds
            .load(Ordering::Relaxed);
        let timeout = Duration::from_secs(seconds);
        let heard = self.heard;
        for connection in self.connections.iter_mut().flatten() {
            connection.session.admit_if_open(&self.runner.shared);
        }
        self.close_where(|connection| connection.overdue(heard, timeout));
    }

    fn close_where(&mut self, condition: impl Fn(&Connection) -> bool) {
        for slot in 0..self.connections.len() {
            if self.connections[slot].as_ref().is_some_and(&condition) {
                self.close(slot);
            }
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(mut connection) = self.connections[slot].take() {
            // Closing the socket also ends its registration; nothing is left to do on failure.
            let _closed_anyway = self.poll.registry().deregister(connection.stream());
            self.runner
                .shared
                .clients
                .remove(connection.session.client.id);
            self.free.push(slot);
        }
    }

    /// Sends what is written, within reason, and closes every connection.
    fn farewell(&mut self, events: &mut Events) {
        let deadline = now() + FAREWELL_TIME;
        loop {
            self.settle_durability_now();
            let mut unsent = false;
            for slot in 0..self.connections.len() {
                let Some(connection) = &mut self.connections[slot] else {
                    continue;
                };
                connection.session.closing = true;
                connection.flush(&self.runner, &mut self.buffers);
                if connection.done() {
                    self.close(slot);
                } else {
                    unsent = true;
                }
            }
            let left = deadline.saturating_duration_since(now());
            if !unsent || left.is_zero() {
                break;
            }
            let _interrupted = self.poll.poll(events, Some(left));
            for event in &*events {
                let connection = self
                    .connections
                    .get_mut(event.token().0)
                    .and_then(Option::as_mut);
                if let Some(connection) = connection {
                    connection.writable = true;
                }
            }
        }
        self.close_where(|_| true);
    }

    /// Ends the patience of every hold, and settles them.
    fn settle_durability_now(&mut self) {
        let now = now();
        for &slot in &self.held {
            if let Some(hold) = self.connections[slot]
                .as_mut()
                .and_then(|it| it.hold.as_mut())
            {
                hold.due = now;
            }
        }
        self.settle_durability();
    }
}

fn queue(ready: &mut Vec<usize>, connection: &mut Connection, slot: usize) {
    if !connection.queued {
        connection.queued = true;
        ready.push(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::all;
    use crate::config::Config;
    use std::sync::mpsc;

    #[test]
    fn a_client_killed_on_its_way_to_its_thread_is_not_served() {
        let directory = tempfile::tempdir().unwrap();
        let db = velella::open(directory.path()).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let counters = Arc::new(Counters::new(all::table().len()));
        let of_threads = vec![Arc::clone(&counters)];
        let shared = Shared::new(db, Config::default(), address, of_threads, Vec::new());
        let shared = Arc::new(shared);
        let (sender, arrivals) = mpsc::channel();
        let poll = Poll::new().unwrap();
        let mut network = Network::new(poll, Arc::clone(&shared), counters, arrivals);

        let client = shared.clients.add(2, address, address, 0).unwrap();
        client.kill();
        shared.kills.fetch_add(1, Ordering::Release);
        network.look_for_killed();
        let stream = || TcpStream::connect(address).unwrap();
        sender.send((stream(), client)).unwrap();
        let other = shared.clients.add(2, address, address, 0).unwrap();
        sender.send((stream(), Arc::clone(&other))).unwrap();
        network.admit_arrivals();
        let served = |it: &Option<Connection>| it.as_ref().map(|it| it.session.client.id);
        let served: Vec<u64> = network.connections.iter().filter_map(served).collect();
        assert_eq!(served, [other.id]);
        assert_eq!(shared.clients.len(), 1);
    }
}
