//! A server from its start to its end.
//!
//! A server owns its threads; they end when it is told to stop, by a [`Handle`], SHUTDOWN or a
//! signal: first nothing more is accepted, then running commands finish, replies are sent, and the
//! database is closed.

use crate::command::all;
use crate::config::Config;
use crate::counters::Counters;
use crate::listener::{self, Listener};
use crate::network::{Network, WAKE};
use crate::shared::Shared;
use crate::shutdown::{Handle, Signals};
use mio::net::TcpListener;
use mio::{Poll, Waker};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use velella::{Db, Error, ErrorKind, Result};
use velella_sync::thread::spawn;

/// Files left to the engine when clients take all they may, beside its tables.
const FILES_RESERVED: u64 = 256;

/// A server's address, taken before there is a database: who opens one only after this leaves
/// nothing behind where the address is not to be had. Clients that connect meanwhile wait.
#[derive(Debug)]
pub struct Bound {
    config: Config,
    socket: TcpListener,
}

impl Bound {
    /// Checks the settings and takes the address.
    ///
    /// # Errors
    /// `InvalidInput`: a setting is outside its limits. `Locked`: the port is in use. `Permission`,
    /// `Io`: the operating system refuses the port.
    pub fn new(config: Config) -> Result<Bound> {
        let config = config.validated()?;
        let socket = listener::bind(SocketAddr::new(config.bind, config.port))?;
        Ok(Bound { config, socket })
    }

    /// Starts a server over `db`.
    ///
    /// # Errors
    /// `Io`: the operating system refuses the threads.
    pub fn start(self, db: Db) -> Result<Server> {
        Server::over(self, db)
    }

    /// Serves `db` until SHUTDOWN, SIGTERM or SIGINT, then closes it. `ready` is called once
    /// clients are served.
    ///
    /// Meanwhile the two signals are the server's; a second one ends the process. Afterwards they
    /// do again what they do by default, unless the process had caught or ignored them before.
    ///
    /// # Errors
    /// As [`Bound::start`] and [`Server::wait`].
    pub fn serve(self, db: Db, ready: impl FnOnce(&Server)) -> Result<()> {
        let server = self.start(db)?;
        let signals = Signals::watch(server.handle())?;
        ready(&server);
        let outcome = server.wait();
        signals.end();
        outcome
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    lowered_for: Option<u64>,
}

impl Server {
    /// Starts a server over `db`.
    ///
    /// # Errors
    /// `InvalidInput`: a setting is outside its limits. `Locked`: the port is in use. `Permission`,
    /// `Io`: the operating system refuses the port or the threads.
    pub fn start(config: Config, db: Db) -> Result<Server> {
        Bound::new(config)?.start(db)
    }

    fn over(bound: Bound, db: Db) -> Result<Server> {
        let Bound { mut config, socket } = bound;
        let (clients, files) = affordable_clients(config.maxclients, db.options().open_files);
        let lowered_for = (clients < config.maxclients).then_some(files);
        config.maxclients = clients;
        let refused = |error: std::io::Error| {
            Error::new(
                ErrorKind::Io,
                "start the threads of the server",
                error.to_string(),
            )
        };
        let address = socket.local_addr().map_err(refused)?;
        let polls = (0..=config.threads).map(|_| Poll::new());
        let mut polls = polls
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(refused)?;
        let wakers = polls.iter().map(|poll| Waker::new(poll.registry(), WAKE));
        let wakers = wakers
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(refused)?;
        let counters: Vec<_> = (0..config.threads)
            .map(|_| Arc::new(Counters::new(all::table().len())))
            .collect();
        let listener_poll = polls
            .pop()
            .expect("there is one more poll than network threads");
        let shared = Arc::new(Shared::new(db, config, address, counters, wakers));
        let mut server = Server {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            lowered_for,
        };
        let mut senders = Vec::new();
        for (number, poll) in polls.into_iter().enumerate() {
            let (sender, arrivals) = channel();
            senders.push(sender);
            let counters = Arc::clone(&shared.counters[number]);
            let network = Network::new(poll, Arc::clone(&shared), counters, arrivals);
            server
                .run(&format!("velella-net-{number}"), || network.run())
                .map_err(refused)?;
        }
        let listener = Listener::new(listener_poll, socket, shared, senders).map_err(refused)?;
        server
            .run("velella-listen", || listener.run())
            .map_err(refused)?;
        Ok(server)
    }

    /// Runs one of the server's threads; whatever ends it ends the server.
    fn run(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
        let stop = StopOnDrop(self.handle());
        self.threads.push(spawn(name, move || {
            let _stop = stop;
            body();
        })?);
        Ok(())
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Most clients at once: as many as were asked for, or fewer.
    #[must_use]
    pub fn maxclients(&self) -> usize {
        self.shared.config.maxclients
    }

    /// How many files the process may open, if that made the clients fewer.
    #[must_use]
    pub fn lowered_for(&self) -> Option<u64> {
        self.lowered_for
    }

    /// For stopping it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.shared))
    }

    /// Waits until the server has stopped, then closes the database.
    ///
    /// # Errors
    /// What closing met; `Io` if a thread of the server panicked.
    pub fn wait(mut self) -> Result<()> {
        let mut panicked = false;
        for thread in self.threads.drain(..) {
            panicked |= thread.join().is_err();
        }
        self.shared.db.close()?;
        if panicked {
            return Err(Error::new(
                ErrorKind::Io,
                "go on serving",
                "a thread of the server panicked",
            )
            .remedy("report it with what was printed, and start the server again"));
        }
        Ok(())
    }
}

impl Drop for Server {
    /// A server that is not waited for still ends with its owner.
    fn drop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            // Its panic was printed when it happened.
            let _panicked = thread.join();
        }
    }
}

/// Stops the server when a thread of it ends, by return or panic.
struct StopOnDrop(Handle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Raises the limit of open files to what `wanted` clients need beside so many tables; how many
/// clients it admits, and what it is then.
fn affordable_clients(wanted: usize, tables: usize) -> (usize, u64) {
    let limit = getrlimit(Resource::Nofile);
    let reserved = (tables as u64).saturating_add(FILES_RESERVED);
    let needed = (wanted as u64).saturating_add(reserved);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= needed {
        return (wanted, current);
    }
    let raised = limit.maximum.map_or(needed, |most| most.min(needed));
    let raised = match setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(raised),
            maximum: limit.maximum,
        },
    ) {
        Ok(()) => raised,
        Err(_) => current,
    };
    (admitted(raised, wanted, tables), raised)
}

/// How many of `wanted` clients a limit of open files admits beside so many tables. Of a low one
/// they get a quarter at least: tables open their files in turn.
fn admitted(limit: u64, wanted: usize, tables: usize) -> usize {
    let room = limit.saturating_sub(FILES_RESERVED);
    let affordable = room.saturating_sub(tables as u64).max(limit / 4).max(1);
    usize::try_from(affordable).map_or(wanted, |affordable| affordable.min(wanted))
}

/// Serves `db` until SHUTDOWN, SIGTERM or SIGINT, then closes it. `ready` is called once
/// clients can connect. Of signals, see [`Bound::serve`].
///
/// # Errors
/// As [`Server::start`] and [`Server::wait`].
pub fn serve(config: Config, db: Db, ready: impl FnOnce(&Server)) -> Result<()> {
    Bound::new(config)?.serve(db, ready)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_limit_of_open_files_leaves_room_for_clients_beside_tables() {
        assert_eq!(admitted(100_000, 10_000, 512), 10_000);
        assert_eq!(admitted(512, 10_000, 256), 128);
        assert_eq!(admitted(1024, 10_000, 64), 704);
        assert_eq!(admitted(80, 1000, 512), 20);
        assert_eq!(admitted(80, 10, 512), 10);
        assert_eq!(admitted(2, 1000, 512), 1);
    }
}
