//! The listener thread: accepts connections and deals them out to the network threads in turn.
//!
//! Q1. Out of file descriptors, it waits a moment instead of asking again at once: what cannot be
//!     accepted now stays in the system's queue.
//! Q2. A connection too many is told why before it is closed.

use crate::clients::Client;
use crate::network::{Arrival, WAKE};
use crate::shared::Shared;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::{SockRef, TcpKeepalive};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use velella::{Error, Result};
use velella_sync::atomic::Ordering;

const LISTEN: Token = Token(0);
/// How long to wait when the process has no file descriptor left.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// After so much silence the system asks whether the other end is still there.
const KEEPALIVE_TIME: Duration = Duration::from_secs(300);

/// Binds `address`.
///
/// # Errors
/// Why it cannot be listened on, and what to do.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::AddrInUse => format!(
                "another program listens on port {0}: stop it, or choose another port, for \
                 instance {1}",
                address.port(),
                address.port().checked_add(1).unwrap_or(6380)
            ),
            ErrorKind::PermissionDenied => {
                "ports below 1024 are for privileged programs: choose one above".to_owned()
            }
            ErrorKind::AddrNotAvailable => {
                "this machine has no such address: choose another to bind".to_owned()
            }
            _ => "choose another address or port".to_owned(),
        };
        let kind = match error.kind() {
            ErrorKind::AddrInUse => velella::ErrorKind::Locked,
            ErrorKind::PermissionDenied => velella::ErrorKind::Permission,
            _ => velella::ErrorKind::Io,
        };
        Error::new(kind, format!("listen on {address}"), error.to_string()).remedy(remedy)
    })
}

/// The listener thread.
pub(crate) struct Listener {
    poll: Poll,
    socket: TcpListener,
    shared: Arc<Shared>,
    threads: Vec<Sender<Arrival>>,
    next_thread: usize,
}

impl Listener {
    /// A listener that deals connections out to `threads`.
    ///
    /// # Errors
    /// The operating system's refusal to watch the socket.
    pub(crate) fn new(
        poll: Poll,
        mut socket: TcpListener,
        shared: Arc<Shared>,
        threads: Vec<Sender<Arrival>>,
    ) -> std::io::Result<Self> {
        poll.registry()
            .register(&mut socket, LISTEN, Interest::READABLE)?;
        Ok(Listener {
            poll,
            socket,
            shared,
            threads,
            next_thread: 0,
        })
    }

    /// Accepts until the server stops.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(8);
        let mut retry = None;
        while !self.shared.stopping() {
            // An interrupted wait is a wait that found nothing.
            let _interrupted = self.poll.poll(&mut events, retry);
            let only_woken = events.iter().all(|event| event.token() == WAKE);
            if retry.is_some() || !only_woken {
                retry = self.accept_all();
            }
        }
    }

    /// Accepts what waits; if something forbids it for now, when to try again (Q1).
    fn accept_all(&mut self) -> Option<Duration> {
        loop {
            match self.socket.accept() {
                Ok((stream, address)) => self.deal_out(stream, address),
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return None,
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    // Above all EMFILE and ENFILE.
                    _ => return Some(RETRY_INTERVAL),
                },
            }
            if self.shared.stopping() {
                return None;
            }
        }
    }

    fn deal_out(&mut self, mut stream: TcpStream, address: SocketAddr) {
        // Relaxed: a setting, see `Settings`.
        let most = self.shared.settings.maxclients.load(Ordering::Relaxed);
        let local = stream.local_addr().unwrap_or(self.shared.address);
        let thread = self.next_thread;
        let client = self.shared.clients.add(most, address, local, thread);
        let Some(client) = client else {
            // Relaxed: a number for people.
            self.shared.refused.fetch_add(1, Ordering::Relaxed);
            // Whether or not the client hears it, the connection ends here.
            let _heard = stream.write(b"-ERR max number of clients reached\r\n");
            return;
        };
        // Neither is needed for a correct connection.
        let _faster = stream.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_TIME);
        let _tidier = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        self.hand_over(stream, client);
    }

    fn hand_over(&mut self, stream: TcpStream, client: Arc<Client>) {
        let (thread, id) = (self.next_thread, client.id);
        self.next_thread = (thread + 1) % self.threads.len();
        match self.threads[thread].send((stream, client)) {
            Ok(()) => self.shared.wake(thread),
            // The thread is gone, and with it the server: see `Server::wait`.
            Err(_) => self.shared.clients.remove(id),
        }
    }
}
