//! The journal of a running database: the handle that ties the parts together.
//!
//! H1. Nothing here decides anything but whose turn it is: each method hands over to the part that
//!     does.
//! H2. Who needs a stamp durable waits for D or for its turn, never in line for the lock: a round
//!     lets all whom it covered go at once, instead of one by one through the lock.
//! H3. Whoever's turn it is waits a little for those who were there when the last round ended: they
//!     are about to write again, and share this round then.
//!
//! Threads: all methods from any thread; rounds serialise among themselves.
//!
//! Tests: `tests/rounds.rs`, `tests/retention.rs`.

use crate::config::Config;
use crate::core::Core;
use crate::lane::Lane;
use crate::ordering::{Site, is_sound};
use crate::retention;
use crate::round::{Ending, Rounds};
use crate::seal_file::SealFile;
use crate::segment::journal_dir;
use crate::waits::Waited;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use velella_base::file_name::FileName;
use velella_base::{ErrorKind, Result, Stamp};
use velella_sync::CachePadded;
use velella_sync::atomic::{AtomicUsize, Ordering};
use velella_sync::lock::Mutex;
use velella_sync::parker::Parker;
use velella_sync::thread;
use velella_vfs::Identity;

const NUMBER_ATTEMPTS: usize = 1 << 16;

/// The journal of a running database.
#[derive(Debug)]
pub struct Journal {
    core: Arc<Core>,
    rounds: Mutex<Rounds>,
    /// Callers of `round_for` now, and ever.
    inside: CachePadded<AtomicUsize>,
    arrivals: CachePadded<AtomicUsize>,
    /// What is known from the last round of `round_for` (H3).
    company: Mutex<Company>,
}

#[derive(Debug, Default)]
struct Company {
    /// How many were inside when it ended: those it covered, and those who came too late.
    callers: usize,
    /// How many had ever come when it began. Of those inside it covered most: they are still
    /// leaving, and to be waited for again.
    arrivals: usize,
    /// How long it took.
    round: Duration,
}

/// The part of a round's time that its leader waits for company, and at most so long (H3).
const COMPANY_SHARE: u32 = 2;
const COMPANY_MAX: Duration = Duration::from_millis(1);

/// What the manifest must remember of a new incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Number of the seal file.
    pub seal_file: u64,
    /// The page-cache token: the seal file's identity.
    pub token: Identity,
}

/// Counters and sizes.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// `mapped` or `write`.
    pub access: &'static str,
    /// Records committed.
    pub records: u64,
    /// Their bytes in the lanes, with framing.
    pub bytes: u64,
    /// Rounds completed.
    pub rounds: u64,
    /// Calls of fdatasync.
    pub syncs: u64,
    /// Threads started to sync several files at once, for somebody who waited.
    pub sync_threads: u64,
    /// Bytes of segments and large files that hold stamps not yet in tables.
    pub unflushed_bytes: u64,
    /// Once every stamp up to this is in tables, the first of them is not needed any more.
    pub oldest_pinned: Option<Stamp>,
    /// Bytes mapped now.
    pub mapped_bytes: u64,
    /// Times a writer waited for a segment.
    pub segment_waits: u64,
    /// How long writers waited for room, for pages that the system made ready, or for a `write`.
    pub waits: Waited,
}

/// Lets the next one have its turn when it is dropped, also by a panic: declared before the lock,
/// so dropped after it.
struct NextTurn<'a>(&'a Parker);

impl Drop for NextTurn<'_> {
    fn drop(&mut self) {
        if [Site::Wake, Site::Turn, Site::Stop].map(is_sound) == [true; 3] {
            self.0.wake_all();
        }
    }
}

impl Journal {
    /// Starts the journal of a new incarnation: makes its seal file (seal 0 durable, directory
    /// synced) and its first segment. Old files are left alone until `Journal::discard_older`.
    ///
    /// Returns the lanes, and the identity of the seal file for the manifest (the page-cache
    /// token).
    ///
    /// # Errors
    /// `InvalidInput`: the configuration. What the file system refused.
    pub fn create(config: Config, durable: Stamp) -> Result<(Arc<Journal>, Vec<Lane>, Start)> {
        config.check()?;
        config.vfs.create_dir_all(&journal_dir(&config))?;
        let (seals, seal_file) = make_seal_file(&config, durable)?;
        let core = Arc::new(Core::new(config, seal_file, durable));
        // No manifest names what was made, and who tries again makes it anew.
        let token = make_durable(&core, &seals).inspect_err(|_| core.inventory.unmake())?;
        let rounds = Rounds::new(seals, core.config.lanes);
        let lanes = (0..core.config.lanes)
            .map(|id| Lane::new(&core, u32::try_from(id).expect("LANES_MAX is small")))
            .collect();
        let journal = Journal {
            core,
            rounds: Mutex::new(rounds),
            inside: CachePadded::default(),
            arrivals: CachePadded::default(),
            company: Mutex::default(),
        };
        Ok((Arc::new(journal), lanes, Start { seal_file, token }))
    }

    /// One sync round. `frontier` is called first; the lanes' ends are read after it. Returns D,
    /// which moves to what `frontier` said, or stays; nobody else moves it from that call on.
    /// If a sync fails, `frontier` is called once more, and D stays.
    /// Calls are serialised; an idle journal whose D has reached the frontier does nothing.
    ///
    /// # Errors
    /// A sync failed: the journal is poisoned, and so says every later call.
    pub fn round(&self, frontier: impl Fn() -> Stamp) -> Result<Stamp> {
        self.with_rounds(|rounds| rounds.run(&self.core, frontier, Ending::Open, &|| true))
    }

    /// As [`Journal::round`], for background work: until somebody asks for a round as well, it
    /// takes its time, and no processors from those that write (N8 of `round.rs`).
    ///
    /// # Errors
    /// As [`Journal::round`].
    pub fn unhurried_round(&self, frontier: impl Fn() -> Stamp) -> Result<Stamp> {
        let is_awaited = || self.is_awaited();
        self.with_rounds(|rounds| rounds.run(&self.core, frontier, Ending::Open, &is_awaited))
    }

    /// As [`Journal::round`], for a caller that only needs `stamp` to be durable: if a round that
    /// others run covers it, that is all. So waiters share rounds (H2, H3).
    ///
    /// # Errors
    /// As [`Journal::round`].
    pub fn round_for(&self, stamp: Stamp, frontier: impl Fn() -> Stamp) -> Result<Stamp> {
        // Relaxed, all: numbers to go by.
        self.inside.fetch_add(1, Ordering::Relaxed);
        self.arrivals.fetch_add(1, Ordering::Relaxed);
        let durable = self.share_round(stamp, frontier, &|| true);
        self.inside.fetch_sub(1, Ordering::Relaxed);
        durable
    }

    /// [`Journal::round_for`] for background work, as [`Journal::unhurried_round`].
    ///
    /// # Errors
    /// As [`Journal::round`].
    pub fn unhurried_round_for(&self, stamp: Stamp, frontier: impl Fn() -> Stamp) -> Result<Stamp> {
        // Who is here for background work is nobody's company.
        self.share_round(stamp, frontier, &|| self.is_awaited())
    }

    /// Whether somebody asks for a round now who waits for it. Callers of `round` and of `close`
    /// are not counted: no writer is one.
    fn is_awaited(&self) -> bool {
        // Relaxed: see `round_for`.
        self.inside.load(Ordering::Relaxed) > 0
    }

    fn share_round(
        &self,
        stamp: Stamp,
        frontier: impl Fn() -> Stamp,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Stamp> {
        let core = &self.core;
        let mut turn = None;
        core.waiters.wait_until(None, || {
            if core.durable() < stamp && turn.is_none() {
                turn = self.rounds.try_lock();
            }
            turn.is_some() || core.durable() >= stamp
        });
        let Some(turn) = turn else {
            return Ok(core.durable());
        };
        let _next = NextTurn(&core.waiters);
        let mut rounds = turn;
        if core.durable() >= stamp {
            return Ok(core.durable());
        }
        if is_awaited() {
            self.await_company();
        }
        let started = thread::now();
        // Relaxed, and below: see `round_for`.
        let arrivals = self.arrivals.load(Ordering::Relaxed);
        let durable = rounds.run(core, frontier, Ending::Open, is_awaited);
        *self.company.lock() = Company {
            callers: self.inside.load(Ordering::Relaxed),
            arrivals,
            round: started.elapsed(),
        };
        durable
    }

    /// H3. Alone, nobody is waited for.
    fn await_company(&self) {
        let Company {
            callers,
            arrivals,
            round,
        } = *self.company.lock();
        // Relaxed: see `round_for`.
        let come = || self.arrivals.load(Ordering::Relaxed).wrapping_sub(arrivals);
        let are_missing = || come() < callers;
        if !are_missing() || cfg!(any(loom, shuttle)) {
            return;
        }
        let started = thread::now();
        let limit = (round / COMPANY_SHARE).min(COMPANY_MAX);
        while are_missing() && started.elapsed() < limit {
            thread::yield_now();
        }
    }

    /// Runs `body` when it is this caller's turn, then lets others have theirs.
    fn with_rounds<T>(&self, body: impl FnOnce(&mut Rounds) -> T) -> T {
        let _next = NextTurn(&self.core.waiters);
        let mut rounds = self.rounds.lock();
        body(&mut rounds)
    }

    /// D: every stamp at or below it is on the device, complete and published.
    #[must_use]
    pub fn durable(&self) -> Stamp {
        self.core.durable()
    }

    /// Waits until D reaches `stamp`, or `limit` passes (then `false`). Does not start a round:
    /// the caller nudges the coordinator.
    ///
    /// # Errors
    /// The journal is poisoned or closed.
    pub fn wait_durable(&self, stamp: Stamp, limit: Option<Duration>) -> Result<bool> {
        let core = &self.core;
        core.waiters.wait_until(limit, || {
            core.durable() >= stamp || core.poison.check().is_err()
        });
        if core.durable() >= stamp {
            return Ok(true);
        }
        core.poison.check().map(|()| false)
    }

    /// Syncs the note that the last round completed, when no round follows within some time.
    ///
    /// # Errors
    /// As [`Journal::round`].
    pub fn sync_done(&self) -> Result<()> {
        self.with_rounds(|rounds| rounds.sync_done(&self.core))
    }

    /// Every stamp below `floor` is in tables in every keyspace. The next round excludes the
    /// extents that hold nothing else; segments it frees are reused by `prepare` or deleted here.
    ///
    /// # Errors
    /// What the device refused; other files that cannot be deleted are tried again later.
    pub fn release(&self, floor: Stamp) -> Result<()> {
        self.core.poison.check()?;
        self.core.raise_floor(floor);
        retention::ask_lanes_to_move(&self.core);
        self.core.inventory.sweep()
    }

    /// Closes the extent of a lane nobody uses if it keeps an old segment from being recycled, or a
    /// file of large payloads that are in tables.
    ///
    /// # Errors
    /// As [`Journal::round`].
    pub fn close_idle(&self, lane: &mut Lane) -> Result<()> {
        self.core.poison.check()?;
        lane.leave_idle()
    }

    /// Prepares segments ahead of need; called by a background thread in a loop. Returns once
    /// enough are ready, or soon after it was `cancelled`.
    ///
    /// # Errors
    /// The device is full, or what else the file system refused.
    pub fn prepare(&self, cancelled: impl Fn() -> bool) -> Result<()> {
        self.core.poison.check()?;
        self.core.inventory.prepare(&cancelled)
    }

    /// Gives up the segments that are ready or kept to be reused, instead of `prepare`: where
    /// flushes lack descriptors, which alone give back those of older segments, or room.
    ///
    /// # Errors
    /// As [`Journal::prepare`].
    pub fn forgo(&self) -> Result<()> {
        self.core.poison.check()?;
        self.core.inventory.forgo()
    }

    /// Waits until a segment has been taken and `prepare` should run, or `limit` passes, or the
    /// journal is poisoned or closed, or `over`, which is looked at again on `wake_preparer`. What
    /// lanes leave meanwhile is handed to the device, for which it may take longer than `limit`.
    pub fn wait_for_preparation(&self, limit: Duration, over: impl Fn() -> bool) {
        let poison = &self.core.poison;
        self.core
            .inventory
            .wait_for_preparation(limit, || over() || poison.check().is_err());
    }

    /// Lets `wait_for_preparation` look again whether it is over.
    pub fn wake_preparer(&self) {
        self.core.inventory.wake_preparer();
    }

    /// Files that an external value's write put on disk and that the next round must sync first.
    pub fn sync_with_next_round(&self, file: Box<dyn velella_vfs::WriteFile>) {
        self.core.externals.lock().push(file);
    }

    /// Takes such a file back, of a write that did not come to pass: kept open, it would keep its
    /// space.
    pub fn forget(&self, path: &Path) {
        let mut externals = self.core.externals.lock();
        externals.retain(|file| file.path() != path);
    }

    /// How many such files wait for the next round, each of them open.
    #[must_use]
    pub fn files_to_sync(&self) -> usize {
        self.core.externals.lock().len()
    }

    /// Poisons the journal: every later call fails with `cause`.
    pub fn poison(&self, cause: velella_base::Error) {
        self.core.stop(cause);
    }

    /// The poison, if any.
    #[must_use]
    pub fn poisoned(&self) -> Option<velella_base::Error> {
        let cause = self.core.poison.cause()?;
        (cause.kind() != ErrorKind::Closed).then_some(cause)
    }

    /// Deletes the files of earlier incarnations, once the manifest no longer needs them.
    ///
    /// # Errors
    /// The directory could not be read; as [`Journal::release`].
    pub fn discard_older(&self) -> Result<()> {
        self.core.inventory.discard_older()
    }

    /// Removes the files of a journal that nothing was written to and no manifest names.
    pub fn unmake(&self) {
        self.core.inventory.unmake();
    }

    /// A last round and a synced `done`: the next open finds a clean close. Later writes fail with
    /// `Closed`.
    ///
    /// # Errors
    /// As [`Journal::round`].
    pub fn close(&self, frontier: impl Fn() -> Stamp) -> Result<()> {
        self.with_rounds(|rounds| rounds.run(&self.core, frontier, Ending::Closed, &|| true))?;
        self.core.poison.close();
        self.core.wake_stopped();
        Ok(())
    }

    /// What the journal did and holds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let core = &self.core;
        let pinned = retention::pinned(core);
        Stats {
            access: if core.inventory.is_mapped() {
                "mapped"
            } else {
                "write"
            },
            records: core.ledgers.iter().map(|ledger| ledger.records()).sum(),
            bytes: core.ledgers.iter().map(|ledger| ledger.tail()).sum(),
            rounds: core.rounds.sum(),
            syncs: core.syncs.sum(),
            sync_threads: core.sync_threads.sum(),
            unflushed_bytes: pinned.bytes,
            oldest_pinned: pinned.oldest,
            mapped_bytes: core.inventory.mapped_bytes(),
            segment_waits: core.inventory.waits.sum(),
            waits: core.waits.report(),
        }
    }
}

/// The page-cache token; where the system does not tell, one that recovery never believes.
fn token(config: &Config, seal_file: u64) -> Result<Identity> {
    let told = config
        .vfs
        .identity(&FileName::Seal(seal_file).path(&config.dir));
    match told {
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(Identity::default()),
        told => told,
    }
}

/// Makes the first segment, and all there is durable. Everything is written before anything is
/// synced: one commit of the file system's own journal does for all of it. Making the segment syncs
/// it, and the directory of both files.
fn make_durable(core: &Core, seals: &SealFile) -> Result<Identity> {
    let token = token(&core.config, core.seal_file)?;
    core.inventory.first()?;
    seals.sync_new()?;
    core.config.vfs.sync_dir(&core.config.dir)?;
    Ok(token)
}

/// Makes the seal file under the first number no leftover file has.
fn make_seal_file(config: &Config, durable: Stamp) -> Result<(SealFile, u64)> {
    for _ in 0..NUMBER_ATTEMPTS {
        let number = (config.next_file)()?;
        match SealFile::make(config, number, durable) {
            Ok(seals) => return Ok((seals, number)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(crate::inventory::no_number(config))
}
