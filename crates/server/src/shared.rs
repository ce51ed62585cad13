//! What all threads of one server share.
//!
//! H1. Nothing here is written on the path of an ordinary command.
//!
//! Tests: through `tests/`.

use crate::census::Census;
use crate::clients::Clients;
use crate::config::Config;
use crate::counters::Counters;
use crate::cursors::Cursors;
use crate::slowlog::Slowlog;
use mio::Waker;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;
use velella::Db;
use velella_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use velella_sync::lock::Mutex;
use velella_sync::rng::Rng;
use velella_sync::thread::{now, wall_ms};

/// Settings that CONFIG SET changes while the server runs. All accesses Relaxed: each setting
/// stands for itself and takes effect soon.
#[derive(Debug)]
pub(crate) struct Settings {
    /// As in [`Config`].
    pub maxclients: AtomicUsize,
    /// Seconds; 0: never.
    pub timeout_seconds: AtomicU64,
    /// As in [`Config`].
    pub max_bulk_bytes: AtomicUsize,
    /// Microseconds from which on a command is slow; above `i64::MAX`: none is.
    pub slow_micros: AtomicU64,
    /// Entries the slow log keeps.
    pub slowlog_entries: AtomicUsize,
    /// As in [`Config`].
    pub requirepass: Mutex<Option<String>>,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The engine.
    pub db: Db,
    /// The settings it was started with.
    pub config: Config,
    /// The settings that can change.
    pub settings: Settings,
    /// The address it listens on.
    pub address: SocketAddr,
    /// The clients.
    pub clients: Clients,
    /// By network thread.
    pub counters: Vec<Arc<Counters>>,
    /// Connections refused for there being too many.
    pub refused: AtomicU64,
    /// Rises when a client is killed: its thread then looks for it.
    pub kills: AtomicU64,
    /// The scans under way.
    pub cursors: Mutex<Cursors>,
    /// The slowest commands.
    pub slowlog: Mutex<Slowlog>,
    /// When it started.
    pub started: Instant,
    /// Forty hex digits that differ from start to start.
    pub run_id: String,
    /// When everything was last made durable on request, in milliseconds since 1970.
    pub last_save_ms: AtomicU64,
    /// The most resident memory seen, in bytes.
    pub peak_memory: AtomicU64,
    /// Counts of keys made before.
    pub census: Census,
    /// To interrupt the waits of the network threads, then of the listener.
    pub wakers: Vec<Waker>,
    stop: AtomicBool,
}

impl Shared {
    /// A server about to start.
    pub(crate) fn new(
        db: Db,
        config: Config,
        address: SocketAddr,
        counters: Vec<Arc<Counters>>,
        wakers: Vec<Waker>,
    ) -> Self {
        // Rounded up: a part of a second must not become zero, which means never.
        let timeout = config.timeout;
        let begun_second = u64::from(timeout.subsec_nanos() > 0);
        let settings = Settings {
            maxclients: AtomicUsize::new(config.maxclients),
            timeout_seconds: AtomicU64::new(timeout.as_secs().saturating_add(begun_second)),
            max_bulk_bytes: AtomicUsize::new(config.max_bulk_bytes),
            slow_micros: AtomicU64::new(10_000),
            slowlog_entries: AtomicUsize::new(128),
            requirepass: Mutex::new(config.requirepass.clone()),
        };
        let started_ms = wall_ms();
        let mut rng = Rng::new(started_ms ^ u64::from(std::process::id()) << 42);
        let run_id = (0..5)
            .map(|_| format!("{:08x}", rng.next_u64() >> 32))
            .collect();
        Shared {
            db,
            config,
            settings,
            address,
            clients: Clients::default(),
            counters,
            refused: AtomicU64::new(0),
            kills: AtomicU64::new(0),
            cursors: Mutex::new(Cursors::new()),
            slowlog: Mutex::new(Slowlog::default()),
            started: now(),
            run_id,
            last_save_ms: AtomicU64::new(started_ms),
            peak_memory: AtomicU64::new(0),
            census: Census::default(),
            wakers,
            stop: AtomicBool::new(false),
        }
    }

    /// Asks every thread to stop: no new connections, no new commands, replies flushed.
    pub(crate) fn stop(&self) {
        // Release: pairs with the Acquire in `stopping`.
        self.stop.store(true, Ordering::Release);
        self.wake_all();
    }

    /// Whether the server is to stop.
    #[inline]
    pub(crate) fn stopping(&self) -> bool {
        // Acquire: pairs with the Release in `stop`.
        self.stop.load(Ordering::Acquire)
    }

    /// Interrupts every wait.
    pub(crate) fn wake_all(&self) {
        (0..self.wakers.len()).for_each(|thread| self.wake(thread));
    }

    /// Interrupts the wait of one thread.
    pub(crate) fn wake(&self, thread: usize) {
        // A waker fails only when the poll it belongs to has gone, and with it the thread.
        let _gone = self.wakers[thread].wake();
    }

    /// The sum of a count over all network threads.
    pub(crate) fn total(&self, count: impl Fn(&Counters) -> u64) -> u64 {
        self.counters
            .iter()
            .fold(0, |sum, counters| sum.wrapping_add(count(counters)))
    }
}
