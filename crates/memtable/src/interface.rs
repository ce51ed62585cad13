//! What a memtable is asked to do: the trait every kind implements, and its vocabulary.
//!
//! The promises are M1-M5 of the crate; `contract` tests them on every kind.

use crate::cell::BatchCell;
use crate::identity::Identity;
use crate::record::{Pending, Undecided};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;
use velella_base::{Cursor, Stamp, ValueKind};
use velella_mvcc::{Retention, Word};
use velella_sync::Guard;

/// What a writer wants to install.
#[derive(Debug, Clone, Copy)]
pub struct Intent<'a> {
    /// The key; its length was checked.
    pub key: &'a [u8],
    /// What the version will say.
    pub kind: ValueKind,
    /// The payload, in two parts that are stored one after the other.
    pub payload: [&'a [u8]; 2],
}

impl Intent<'_> {
    /// Bytes of payload.
    ///
    /// # Panics
    /// If they do not fit 32 bits: far above every limit of `velella_base::limits`.
    pub(crate) fn payload_len(&self) -> u32 {
        let [first, second] = self.payload;
        u32::try_from(first.len() + second.len()).expect("a payload is below 4 GiB")
    }

    /// Copies the payload to `target`.
    ///
    /// # Safety
    /// `payload_len` bytes at `target` are allocated and nobody else's.
    pub(crate) unsafe fn write_payload(&self, target: *mut u8) {
        let [first, second] = self.payload;
        // SAFETY: the caller's promise; a slice and fresh memory do not overlap.
        unsafe { target.copy_from_nonoverlapping(first.as_ptr(), first.len()) };
        // SAFETY: the caller's promise: the second part begins inside or at the end.
        let target = unsafe { target.add(first.len()) };
        // SAFETY: as for the first part.
        unsafe { target.copy_from_nonoverlapping(second.as_ptr(), second.len()) };
    }
}

/// Whose word an installed version carries until it is decided.
#[derive(Debug, Clone, Copy)]
pub enum Owner<'a> {
    /// A single write: the owner's slot.
    Slot(usize),
    /// One of a batch: all become visible by one store to its cell.
    Batch(&'a BatchCell),
}

impl Owner<'_> {
    /// The word of a version that is about to be installed; see [`BatchCell::enlist`].
    pub(crate) fn enlist(self) -> u64 {
        match self {
            Owner::Slot(slot) => Word::Pending(slot).encode(),
            Owner::Batch(cell) => {
                cell.enlist();
                cell.word()
            }
        }
    }

    /// Whether versions of it are installed, for which others may be waiting.
    pub(crate) fn is_waited_for(self) -> bool {
        matches!(self, Owner::Batch(cell) if cell.has_installed())
    }

    /// The version was not installed after all.
    pub(crate) fn delist(self) {
        if let Owner::Batch(cell) = self {
            cell.delist();
        }
    }
}

/// What became of an installation.
#[derive(Debug)]
pub enum Install<'g> {
    /// The version is in place, pending.
    Installed(Pending<'g>),
    /// The key's newest version is undecided: wait for it, then call again.
    Busy(Undecided<'g>),
    /// The key's newest version is not the expected one any more; nothing was installed.
    Moved,
}

/// The decided newest state of a key, as a read-modify-write needs it.
#[derive(Debug)]
pub enum Newest<'g> {
    /// Undecided: wait, then call again.
    Busy(Undecided<'g>),
    /// Decided: what to expect at installation, and the newest committed version of this memtable,
    /// if it has one (a tombstone is one).
    Decided(Head<'g>, Option<Version<'g>>),
}

/// A key's newest version as [`Memtable::newest`] found it, aborted ones included; to be expected
/// by [`Memtable::install`]. The guard excludes that the same address means another version.
#[derive(Debug, Clone, Copy)]
pub struct Head<'g> {
    /// The memtable the token is from.
    pub(crate) table: Identity,
    /// The key's node; null if there was none.
    pub(crate) node: *const (),
    /// Its newest version; null if there was none.
    pub(crate) version: *const (),
    pub(crate) life: PhantomData<&'g ()>,
}

impl Head<'_> {
    /// Where the key was found, for who looks for it again; nothing where it was not.
    #[must_use]
    pub fn hint(&self) -> Hint {
        match self.node.is_null() {
            true => Hint::NONE,
            false => Hint(Near::At(Place {
                table: self.table,
                node: self.node,
            })),
        }
    }
}

/// What [`Memtable::prefetch`] or [`Memtable::newest`] found on its way to a key, for who goes
/// there once more. It may be kept, and handed to any memtable, which makes of it what it can.
#[derive(Debug, Clone, Copy)]
pub struct Hint(pub(crate) Near);

/// What a [`Hint`] says.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Near {
    /// Nothing is known.
    Unknown,
    /// The key's node.
    At(Place),
    /// The search for it may begin at a node that is not above it; that took so many comparisons,
    /// uncounted so far.
    From(Place, u64),
}

/// Where a node is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The memtable it is in.
    pub(crate) table: Identity,
    /// It stands as long as the memtable; never null.
    pub(crate) node: *const (),
}

impl Hint {
    /// Nothing is known.
    pub const NONE: Hint = Hint(Near::Unknown);
}

/// A committed version, borrowed from the memtable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version<'g> {
    /// When it was written.
    pub stamp: Stamp,
    /// What it says.
    pub kind: ValueKind,
    /// The payload.
    pub value: &'g [u8],
}

/// What a reader does with an undecided version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnPending {
    /// Passes it over: wait-free.
    Skip,
    /// Finds out, through the owner's slot, whether its stamp can be at or below the reader's
    /// time, and if so waits for the few instructions of the owner's window.
    Resolve,
}

/// At what time to read, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadAt {
    /// Versions above this are not seen; `Stamp::MAX` reads the newest.
    pub stamp: Stamp,
    /// What to do with undecided versions.
    pub pending: OnPending,
}

/// What a cursor yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CursorMode {
    /// Per key the newest version at the reader's time, tombstones included: at most one entry a
    /// key, however many versions it has.
    Visible {
        /// The reader's time.
        at: ReadAt,
        /// Leaves `value` empty except where the kind needs it (every kind but `Put`).
        keys_only: bool,
    },
    /// Every committed version, newest first: for flush. Undecided and aborted ones are passed
    /// over: after quiescence an undecided one will abort. Nothing is pruned while such a cursor
    /// exists.
    All,
}

/// The memory component.
pub trait Memtable: Send + Sync + Debug {
    /// Which memtable it is.
    fn identity(&self) -> Identity;

    /// Installs a pending version as the key's newest (steps 4-6 of a write). With `expected`,
    /// only if the key's newest is still exactly that. `hint` is what was found for the key before.
    fn install_near<'g>(
        &'g self,
        intent: &Intent<'_>,
        owner: Owner<'_>,
        expected: Option<&Head<'g>>,
        hint: Hint,
        guard: &'g Guard,
    ) -> Install<'g>;

    /// As `install_near`, without a hint.
    fn install<'g>(
        &'g self,
        intent: &Intent<'_>,
        owner: Owner<'_>,
        expected: Option<&Head<'g>>,
        guard: &'g Guard,
    ) -> Install<'g> {
        self.install_near(intent, owner, expected, Hint::NONE, guard)
    }

    /// Asks for the memory that a write of `key` uses first, so that it arrives while the caller
    /// does something else. Nothing depends on it. Returns what it found on the way.
    fn prefetch(&self, _key: &[u8], _guard: &Guard) -> Hint {
        Hint::NONE
    }

    /// Goes on from what `prefetch` returned, some time after it. Nothing depends on it, and who
    /// installs with the hint need not ask for it.
    fn approach(&self, _hint: Hint) {}

    /// Asks for the memory in which a get of `key` looks first. Nothing depends on it.
    fn prefetch_get(&self, _key: &[u8]) {}

    /// The key's newest decided version, and the token to install exactly above it. `hint` is what
    /// was found for the key before.
    fn newest_near<'g>(&'g self, key: &[u8], hint: Hint, guard: &'g Guard) -> Newest<'g>;

    /// As `newest_near`, without a hint.
    fn newest<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Newest<'g> {
        self.newest_near(key, Hint::NONE, guard)
    }

    /// The token of a key without a version, for who has seen that it has none here: installed
    /// with it, a version is the key's first, or none is installed.
    fn absent<'g>(&'g self, _guard: &'g Guard) -> Head<'g> {
        Head {
            table: self.identity(),
            node: std::ptr::null(),
            version: std::ptr::null(),
            life: PhantomData,
        }
    }

    /// Whether the key's newest version is undecided (the rule for writers while the previous
    /// memtable is not quiesced); never inserts a node.
    fn undecided<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Option<Undecided<'g>>;

    /// The newest version of `key` at the reader's time, tombstones included.
    fn get<'g>(&'g self, key: &[u8], at: ReadAt, guard: &'g Guard) -> Option<Version<'g>>;

    /// Drops from the key's list what `retention` does not keep, if nobody else is at it.
    /// Returns how many versions were dropped. External values, range deletes, merge operands and
    /// what these build on are never dropped: that is a flush's business.
    fn prune(&self, key: &[u8], retention: &Retention, guard: &Guard) -> usize;

    /// A cursor that keeps the memtable alive. It pins for the length of one call at a time and
    /// hands out copies, so it may be kept as long as one likes.
    fn cursor(self: Arc<Self>, mode: CursorMode) -> Box<dyn Cursor>;

    /// Bytes of memory taken, chunks in use counted whole.
    fn bytes(&self) -> usize;

    /// Of those, the chunk that was taken last: a memtable is full without it.
    fn newest_chunk(&self) -> usize;

    /// Whether no node was ever inserted.
    fn is_empty(&self) -> bool;

    /// Distinct keys (jellyfish) or versions (append-only) inserted so far.
    fn nodes(&self) -> usize;
}
