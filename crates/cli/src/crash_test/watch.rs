//! The child's file system: tells what is under way, and kills the process at a chosen call.
//!
//! W1. A kill is `SIGKILL` of the own process: no destructor, no flush, the other threads stopped
//!     wherever they are. It differs from one by the parent only in being aimed.
//! W2. The phase words are written before a call and after it, so that the parent can tell what a
//!     killed child was doing.
//!
//! Threads: any. Tests: `tests/crash_test.rs`.

use super::plan::{Call as Aim, Moment, Plan, Target};
use std::cell::Cell;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use velella::vfs::intercept::{Call, Interceptor, Verdict};
use velella::vfs::{Operation, Window};

/// The phase words; what each counts is under way now, but for the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// 0 opening, 1 being checked, 2 under load, 3 closing.
    State = 0,
    Flush = 1,
    Compaction = 2,
    Manifest = 3,
    JournalFile = 4,
    Sync = 5,
}

/// Of the state word.
pub(super) const OPENING: u32 = 0;
pub(super) const CHECKED: u32 = 1;
pub(super) const UNDER_LOAD: u32 = 2;
pub(super) const CLOSING: u32 = 3;

thread_local! {
    /// Tables this thread has begun and not synced; whether it has read others meanwhile.
    static TABLES: Cell<(u32, bool)> = const { Cell::new((0, false)) };
}

/// Stands in front of the child's file system.
#[derive(Debug)]
pub(super) struct Watch {
    words: Mutex<(Window, [u32; 16])>,
    aim: Option<Aim>,
    /// Kill after so many operations of the load; 0: do not.
    operations_most: u64,
    calls: AtomicU64,
    operations: AtomicU64,
}

impl Watch {
    pub(super) fn new(phase: Window, plan: &Plan) -> Self {
        Watch {
            words: Mutex::new((phase, [0; 16])),
            aim: match plan {
                Plan::Call(aim) => Some(*aim),
                _ => None,
            },
            operations_most: match plan {
                Plan::Operations(most) => *most,
                _ => 0,
            },
            calls: AtomicU64::new(0),
            operations: AtomicU64::new(0),
        }
    }

    /// Enters a state.
    pub(super) fn enter(&self, state: u32) {
        self.change(Word::State, |word| *word = state);
    }

    /// Counts an operation of the load, which may be the last.
    pub(super) fn operation_done(&self) {
        // Relaxed: a count; nothing else is read by it.
        let done = 1 + self.operations.fetch_add(1, Ordering::Relaxed);
        if done == self.operations_most {
            die();
        }
    }

    /// The operations of the load so far.
    pub(super) fn operations(&self) -> u64 {
        // Relaxed: a count; nothing else is read by it.
        self.operations.load(Ordering::Relaxed)
    }

    fn change(&self, word: Word, change: impl FnOnce(&mut u32)) {
        let mut words = self.words.lock().unwrap_or_else(|held| held.into_inner());
        let (window, values) = &mut *words;
        let index = word as usize;
        change(&mut values[index]);
        window.publish_u32(index as u64 * 4, values[index]);
    }

    fn add(&self, word: Word, n: u32) {
        self.change(word, |word| *word += n);
    }

    fn take(&self, word: Word, n: u32) {
        self.change(word, |word| *word = word.saturating_sub(n));
    }

    fn state(&self) -> u32 {
        let words = self.words.lock().unwrap_or_else(|held| held.into_inner());
        words.1[Word::State as usize]
    }

    /// Kills the process if this is the call that was aimed at.
    fn shoot(&self, call: &Call<'_>, is_after: bool) {
        let Some(aim) = &self.aim else { return };
        let now = match self.state() {
            OPENING => Moment::Opening,
            UNDER_LOAD => Moment::Load,
            _ => return,
        };
        if aim.moment != now || aim.is_after != is_after || !aim.target.is(call) {
            return;
        }
        // Relaxed: a count; nothing else is read by it.
        if 1 + self.calls.fetch_add(1, Ordering::Relaxed) == aim.nth {
            die();
        }
    }

    /// Follows the tables that this thread writes.
    fn follow_tables(&self, call: &Call<'_>, is_after: bool) {
        let (begun, has_read) = TABLES.get();
        let word = if has_read {
            Word::Compaction
        } else {
            Word::Flush
        };
        match call.operation {
            Operation::Create if !is_after => {
                self.add(word, 1);
                TABLES.set((begun + 1, has_read));
            }
            Operation::Read if !is_after && begun > 0 && !has_read => {
                self.take(Word::Flush, begun);
                self.add(Word::Compaction, begun);
                TABLES.set((begun, true));
            }
            Operation::SyncAll | Operation::SyncData if is_after && begun > 0 => {
                self.take(word, 1);
                TABLES.set((begun - 1, has_read && begun > 1));
            }
            _ => {}
        }
    }

    fn follow(&self, call: &Call<'_>, is_after: bool) {
        let word = match kind(call.path) {
            Kind::Table => return self.follow_tables(call, is_after),
            Kind::Manifest => Word::Manifest,
            Kind::Journal if call.operation.is_sync() => Word::Sync,
            Kind::Journal if matches!(call.operation, Operation::Append | Operation::Write) => {
                return;
            }
            Kind::Journal => Word::JournalFile,
            Kind::Other => return,
        };
        if is_after {
            self.take(word, 1);
        } else {
            self.add(word, 1);
        }
    }
}

impl Interceptor for Watch {
    fn before(&self, call: &Call<'_>) -> Verdict {
        self.follow(call, false);
        self.shoot(call, false);
        Verdict::Pass
    }

    fn after(&self, call: &Call<'_>, _failed: bool) {
        self.shoot(call, true);
        self.follow(call, true);
    }
}

/// What a file of a database is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Table,
    Manifest,
    Journal,
    Other,
}

/// What the file at `path` is, by its name.
pub(super) fn kind(path: &Path) -> Kind {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let parent = path.parent().and_then(Path::file_name);
    if name.starts_with("MANIFEST") {
        Kind::Manifest
    } else if name.ends_with(".sst") {
        Kind::Table
    } else if name == "journal" || parent.is_some_and(|parent| parent == "journal") {
        Kind::Journal
    } else {
        Kind::Other
    }
}

impl Target {
    /// Whether it is meant.
    fn is(self, call: &Call<'_>) -> bool {
        let is_read = matches!(
            call.operation,
            Operation::Read | Operation::Exists | Operation::Len | Operation::Identity
        );
        match self {
            Target::Any => !is_read,
            Target::Table => kind(call.path) == Kind::Table && !is_read,
            Target::Manifest => kind(call.path) == Kind::Manifest && !is_read,
            Target::Journal => kind(call.path) == Kind::Journal && !is_read,
            Target::Sync => call.operation.is_sync(),
            Target::Name => matches!(
                call.operation,
                Operation::Rename | Operation::Remove | Operation::Create | Operation::SyncDir
            ),
        }
    }
}

/// W1.
pub(super) fn die() -> ! {
    use rustix::process::{Signal, getpid, kill_process};
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        std::thread::park();
    }
}
