//! Where crashes happen: at calls to the file system, at stores into the mapped journal, and
//! between operations.
//!
//! P1. An image is what a crash right before the call leaves; the run goes on as if nothing had
//!     happened, so one run gives many images.
//! P2. An image carries what had been promised by then: the stamp below which nothing may be lost.
//! P3. A store is a call. At one that goes over the border of a word an image may also hold the
//!     part before such a border: a copy goes word by word, and the thread may die, or the page be
//!     written, on the way.
//! P4. Of stores, which are many, one in [`STORES`] counts for what is drawn.
//!
//! Threads: one; the lock is for the type.

use std::path::Path;
use std::sync::Arc;
use velella::Db;
use velella::vfs::intercept::{Call, Intercepted, Interceptor, Verdict};
use velella::vfs::mem::CrashMode;
use velella::vfs::{MemFs, Operation, Vfs};
use velella_sync::lock::Mutex;
use velella_testkit::Seed;

/// Every way to crash; losses of power are more often than deaths of the process.
const MODES: [CrashMode; 6] = [
    CrashMode::Random,
    CrashMode::Strict,
    CrashMode::Random,
    CrashMode::Prefix,
    CrashMode::Random,
    CrashMode::KeepAll,
];

/// Aligned bytes that are stored as a whole.
const WORD: usize = 8;
/// Stores into a mapping there are for each other call that changes something, about (P4).
pub const STORES: u64 = 8;
/// What images at stores, and in the middle of one, are called.
const AT_STORES: [&str; 2] = ["store", "middle of a store"];

/// A machine as a crash left it.
#[derive(Debug)]
pub struct Image {
    /// What is left.
    pub fs: MemFs,
    /// How it crashed.
    pub mode: CrashMode,
    /// Which call it was, counted from 1 over the run, and of what kind.
    pub call: (u64, &'static str),
    /// Every stamp up to this one survives a loss of power.
    pub durable: u64,
    /// Every stamp up to this one survives the death of the process.
    pub kept: u64,
    /// The last stamp that was acknowledged: it is not given out again.
    pub last: u64,
    /// A sync had failed by then.
    pub failed: bool,
    /// Syncs had lied by then: what was promised may be lost.
    pub lied: bool,
}

impl Image {
    /// Every stamp up to the result must be there.
    #[must_use]
    pub fn promised(&self) -> u64 {
        if self.mode == CrashMode::KeepAll {
            self.kept
        } else {
            self.durable
        }
    }

    /// Whether it was taken at a store into a mapping, or in the middle of one.
    #[must_use]
    pub fn is_at_store(&self) -> bool {
        AT_STORES.contains(&self.call.1)
    }

    /// Where it was taken, for an error.
    #[must_use]
    pub fn place(&self) -> String {
        let (call, kind) = self.call;
        format!("{:?} crash before call {call} ({kind})", self.mode)
    }
}

/// Which calls to crash at.
#[derive(Debug, Clone)]
pub enum When {
    /// Never.
    Never,
    /// At one in so many calls, by chance.
    OneIn(u64),
    /// At every call that changes something, in these ways.
    Always(Vec<CrashMode>),
}

/// A failing sync on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// All syncs do what they say.
    Honest,
    /// The sync with this number fails and loses pages.
    Fails(u64),
    /// From the sync with this number on they lie.
    Lies(u64),
    /// As `Lies`, and the judge is not told: a control, in which something must be found lost.
    LiesInSecret(u64),
}

#[derive(Debug)]
struct State {
    seed: Seed,
    when: When,
    sync: Sync,
    calls: u64,
    syncs: u64,
    images: Vec<Image>,
    db: Option<Db>,
    acknowledged: u64,
    structural: bool,
    failed: bool,
    lied: bool,
}

/// Takes images at calls.
#[derive(Debug)]
pub struct Points {
    mem: MemFs,
    state: Mutex<State>,
}

impl Points {
    /// In front of `mem`; the file system to open the database on, and the handle to steer it by.
    #[must_use]
    pub fn over(mem: &MemFs, seed: Seed, when: When, sync: Sync) -> (Arc<dyn Vfs>, Arc<Points>) {
        let state = State {
            seed,
            when,
            sync,
            calls: 0,
            syncs: 0,
            images: Vec::new(),
            db: None,
            acknowledged: 0,
            structural: false,
            failed: false,
            lied: false,
        };
        let points = Arc::new(Points {
            mem: mem.clone(),
            state: Mutex::new(state),
        });
        let inner = Arc::new(mem.clone());
        (
            Arc::new(Intercepted::standing(Arc::clone(&points), inner)),
            points,
        )
    }

    /// Whose watermark counts from now on (`None`: what counted last), and the last stamp that was
    /// acknowledged. `structural`: a keyspace is created or dropped next; without a journal its
    /// stamp, which nobody is told, may be durable before it is.
    pub fn promise(&self, db: Option<&Db>, acknowledged: u64, structural: bool) {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.db, db.cloned());
        state.acknowledged = acknowledged;
        state.structural = structural;
        drop(state);
        // The last handle closes its database, which calls us.
        drop(before);
    }

    /// Crashes at other calls from now on.
    pub fn at(&self, when: When) {
        self.state.lock().when = when;
    }

    /// Takes an image between two operations.
    pub fn now(&self) {
        let mut state = self.state.lock();
        state.shoot(&self.mem, "between operations");
    }

    /// The images taken since the last time.
    #[must_use]
    pub fn take(&self) -> Vec<Image> {
        std::mem::take(&mut self.state.lock().images)
    }

    /// Calls so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Syncs so far.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.state.lock().syncs
    }
}

/// A store of which a part is done.
#[derive(Debug, Clone, Copy)]
struct Store<'s> {
    path: &'s Path,
    offset: u64,
    bytes: &'s [u8],
}

impl State {
    /// Whether to crash at this call, which is one of so many as one other.
    fn is_chosen(&mut self, many: u64) -> bool {
        self.calls += 1;
        match self.when {
            When::Never => false,
            When::OneIn(times) => self.seed.one_in(times * many),
            When::Always(_) => true,
        }
    }

    /// The machine with a part of `store` done (P3); `None` if it is not made of parts, or if the
    /// file lost its name.
    fn midway(&mut self, mem: &MemFs, store: Store<'_>) -> Option<MemFs> {
        let len = store.bytes.len();
        let before_border = WORD - usize::try_from(store.offset % WORD as u64).unwrap_or(0);
        let borders = len.saturating_sub(before_border).div_ceil(WORD);
        if borders == 0 {
            return None;
        }
        let part = before_border + WORD * self.seed.index(borders);
        let fs = mem.image(self.seed.below(1 << 40), CrashMode::KeepAll);
        let file = fs.open_write(store.path).ok()?;
        // A sparse file on a full disk may have no space for it; so has the store itself.
        let _ = file.write_at(store.offset, &store.bytes[..part]);
        Some(fs)
    }

    fn shoot(&mut self, mem: &MemFs, kind: &'static str) {
        let modes = match &self.when {
            When::Never => return,
            When::OneIn(_) => vec![*self.seed.pick(&MODES), *self.seed.pick(&MODES)],
            When::Always(modes) => modes.clone(),
        };
        let mut durable = self.db.as_ref().map_or(0, |db| db.durable().0);
        let journaled = self
            .db
            .as_ref()
            .is_none_or(|db| db.options().journal != velella::JournalMode::Off);
        if self.structural && !journaled {
            durable = durable.min(self.acknowledged);
        }
        // A failed sync may take what only the page cache had.
        let kept = if journaled && !self.failed {
            self.acknowledged
        } else {
            durable
        };
        for mode in modes {
            self.images.push(Image {
                fs: mem.image(self.seed.below(1 << 40), mode),
                mode,
                call: (self.calls, kind),
                durable,
                kept,
                last: self.acknowledged,
                failed: self.failed,
                lied: self.lied,
            });
        }
    }
}

/// Whether a call leaves another file system than it found.
fn changes(operation: Operation) -> bool {
    use Operation::{Exists, Identity, Len, Lock, Map, OpenRead, OpenWrite, Read, ReadDir, Remove};
    // A removal is left out for another reason: see the head of `sim.rs`.
    !matches!(
        operation,
        Exists | Identity | Len | Lock | Map | OpenRead | OpenWrite | Read | ReadDir | Remove
    )
}

impl Interceptor for Points {
    fn before(&self, call: &Call<'_>) -> Verdict {
        if !changes(call.operation) {
            return Verdict::Pass;
        }
        let mut state = self.state.lock();
        if state.is_chosen(1) {
            state.shoot(&self.mem, call.operation.as_str());
        }
        if !call.operation.is_sync() {
            return Verdict::Pass;
        }
        state.syncs += 1;
        match state.sync {
            Sync::Lies(from) | Sync::LiesInSecret(from) if state.syncs >= from => {
                state.lied = matches!(state.sync, Sync::Lies(_));
                self.mem.set_syncs_lie(true);
            }
            Sync::Fails(at) if state.syncs == at => {
                state.failed = true;
                // A file without a name is not found, and nobody will find what it loses.
                let _ = self.mem.fail_sync(call.path, state.seed.below(1 << 40));
                let source = std::io::Error::other("the sync failed (injected)");
                return Verdict::Fail(velella::Error::io("sync", call.path, source));
            }
            _ => {}
        }
        Verdict::Pass
    }

    fn after(&self, _call: &Call<'_>, _failed: bool) {}

    fn storing(&self, path: &Path, offset: u64, bytes: &[u8]) {
        let mut state = self.state.lock();
        if !state.is_chosen(STORES) {
            return;
        }
        state.shoot(&self.mem, AT_STORES[0]);
        let store = Store {
            path,
            offset,
            bytes,
        };
        if let Some(midway) = state.midway(&self.mem, store) {
            state.shoot(&midway, AT_STORES[1]);
        }
    }
}
