//! What is known about each client, for CLIENT LIST and CLIENT KILL from any connection.
//!
//! T1. The connection's thread writes a client's numbers, anybody reads them; nothing but the
//!     marks `kill` passes the other way.
//! T2. A killed client is closed by its own thread, and runs no command after the one under way.
//! T3. It may be killed before its thread has it: known here, it is on its way there.
//!
//! Tests: through CLIENT in `tests/`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use velella_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use velella_sync::lock::Mutex;
use velella_sync::thread::now;

/// No command yet.
const NONE: usize = usize::MAX;

/// What a client calls itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    /// By CLIENT SETNAME or HELLO.
    pub name: String,
    /// By CLIENT SETINFO LIB-NAME.
    pub library: String,
    /// By CLIENT SETINFO LIB-VER.
    pub library_version: String,
}

/// One client.
#[derive(Debug)]
pub(crate) struct Client {
    /// Its number, rising, never reused.
    pub id: u64,
    /// Its end of the connection.
    pub address: SocketAddr,
    /// Our end.
    pub local: SocketAddr,
    /// The network thread it is served by.
    pub thread: usize,
    /// What it calls itself.
    pub names: Mutex<Names>,
    connected: Instant,
    // All Relaxed (T1): each stands for itself, and CLIENT LIST may be an instant behind.
    database: AtomicUsize,
    resp3: AtomicBool,
    last_command: AtomicUsize,
    last_active_ms: AtomicU64,
    input_bytes: AtomicUsize,
    output_bytes: AtomicUsize,
    kill: AtomicBool,
}

impl Client {
    /// A client that has just connected.
    pub(crate) fn new(id: u64, address: SocketAddr, local: SocketAddr, thread: usize) -> Self {
        Client {
            id,
            address,
            local,
            thread,
            names: Mutex::new(Names::default()),
            connected: now(),
            database: AtomicUsize::new(0),
            resp3: AtomicBool::new(false),
            last_command: AtomicUsize::new(NONE),
            last_active_ms: AtomicU64::new(0),
            input_bytes: AtomicUsize::new(0),
            output_bytes: AtomicUsize::new(0),
            kill: AtomicBool::new(false),
        }
    }

    /// Notes where the client stands after a group of commands, of which `last` was the last.
    pub(crate) fn note(&self, database: usize, resp3: bool, last: Option<usize>) {
        // Relaxed: see the fields.
        self.database.store(database, Ordering::Relaxed);
        self.resp3.store(resp3, Ordering::Relaxed);
        if let Some(last) = last {
            self.last_command.store(last, Ordering::Relaxed);
        }
        let active = u64::try_from(self.connected.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_active_ms.store(active, Ordering::Relaxed);
    }

    /// Notes the bytes held for the client.
    pub(crate) fn note_buffers(&self, input: usize, output: usize) {
        // Relaxed: see the fields.
        self.input_bytes.store(input, Ordering::Relaxed);
        self.output_bytes.store(output, Ordering::Relaxed);
    }

    /// Marks the client for closing (T2).
    pub(crate) fn kill(&self) {
        // Relaxed: the waker that follows orders it.
        self.kill.store(true, Ordering::Relaxed);
    }

    /// Whether the client is to be closed.
    #[inline]
    pub(crate) fn killed(&self) -> bool {
        // Relaxed: see `kill`.
        self.kill.load(Ordering::Relaxed)
    }

    /// The client as a line of CLIENT LIST; `command` names the command of a number.
    pub(crate) fn line(&self, command: impl FnOnce(usize) -> &'static str) -> String {
        // Relaxed: see the fields.
        let last = self.last_command.load(Ordering::Relaxed);
        let last = if last == NONE { "NULL" } else { command(last) };
        let age = self.connected.elapsed();
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let idle = age_ms.saturating_sub(self.last_active_ms.load(Ordering::Relaxed)) / 1000;
        let input = self.input_bytes.load(Ordering::Relaxed);
        let output = self.output_bytes.load(Ordering::Relaxed);
        let resp = if self.resp3.load(Ordering::Relaxed) {
            3
        } else {
            2
        };
        let names = self.names.lock();
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={idle} flags=N db={} sub=0 psub=0 \
             ssub=0 multi=-1 qbuf={input} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 \
             obl={output} oll=0 omem={output} tot-mem={} events=r cmd={last} user=default \
             redir=-1 resp={resp} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local,
            names.name,
            age.as_secs(),
            self.database.load(Ordering::Relaxed),
            input + output,
            names.library,
            names.library_version,
        )
    }
}

/// All clients, by number.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    by_id: Mutex<BTreeMap<u64, Arc<Client>>>,
    next_id: AtomicU64,
}

impl Clients {
    /// Adds a client unless there are `most`.
    pub(crate) fn add(
        &self,
        most: usize,
        address: SocketAddr,
        local: SocketAddr,
        thread: usize,
    ) -> Option<Arc<Client>> {
        let mut by_id = self.by_id.lock();
        if by_id.len() >= most {
            return None;
        }
        // Relaxed: numbers need only differ.
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client::new(id, address, local, thread));
        by_id.insert(id, Arc::clone(&client));
        Some(client)
    }

    /// Forgets a client that has gone.
    pub(crate) fn remove(&self, id: u64) {
        self.by_id.lock().remove(&id);
    }

    /// The clients of this instant, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.by_id.lock().values().cloned().collect()
    }

    /// The client of this number.
    pub(crate) fn of(&self, id: u64) -> Option<Arc<Client>> {
        self.by_id.lock().get(&id).cloned()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_id.lock().len()
    }
}
