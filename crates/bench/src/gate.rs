//! How writers are let into a store: the baselines that are Velella behind a lock.
//!
//! Source: cLSM (EuroSys '15). `Striped` is what its read-modify-write is compared with (5.1): a
//! lock for each key, by hash, around read-modify-writes and plain writes. `Shared` is cLSM itself
//! (3.1 and 3.2, algorithms 1 and 2): puts and the making of snapshots share a lock, atomic batches
//! have it alone, and gets take none. `One` is a store with one lock for all writers, as the
//! journal that Xyza (HotStorage '18) starts from.
//!
//! G1. What is let in together: any writes (`Open`); writes of keys with different stripes
//!     (`Striped`); all but batches (`Shared`); nothing (`One`). Reads are never kept out.
//!
//! Threads: shared by all. Tests: below; `tests/stores.rs`.

use crate::stripes::Stripes;
use std::sync::{Mutex, PoisonError, RwLock};

/// A way to let writers in.
#[derive(Debug)]
pub(crate) enum Gate {
    /// Whoever comes.
    Open,
    /// One at a time for each key.
    Striped(Stripes),
    /// Writers together, batches alone.
    Shared(RwLock<()>),
    /// One at a time.
    One(Mutex<()>),
}

impl Gate {
    /// Lets in a write of `key`, read-modify-writes included.
    #[inline]
    pub(crate) fn write<R>(&self, key: &[u8], write: impl FnOnce() -> R) -> R {
        match self {
            Gate::Open => write(),
            Gate::Striped(stripes) => stripes.with(key, write),
            Gate::Shared(lock) => {
                let held = lock.read().unwrap_or_else(PoisonError::into_inner);
                let result = write();
                drop(held);
                result
            }
            Gate::One(lock) => alone(lock, write),
        }
    }

    /// Lets in a batch that writes `keys`.
    pub(crate) fn batch<'a, R>(
        &self,
        keys: impl Iterator<Item = &'a [u8]>,
        write: impl FnOnce() -> R,
    ) -> R {
        match self {
            Gate::Open => write(),
            Gate::Striped(stripes) => stripes.with_all(keys, write),
            Gate::Shared(lock) => {
                let held = lock.write().unwrap_or_else(PoisonError::into_inner);
                let result = write();
                drop(held);
                result
            }
            Gate::One(lock) => alone(lock, write),
        }
    }

    /// Lets in whoever takes a snapshot.
    #[inline]
    pub(crate) fn snapshot<R>(&self, take: impl FnOnce() -> R) -> R {
        match self {
            Gate::Open | Gate::Striped(_) | Gate::One(_) => take(),
            Gate::Shared(lock) => {
                let held = lock.read().unwrap_or_else(PoisonError::into_inner);
                let result = take();
                drop(held);
                result
            }
        }
    }
}

fn alone<R>(lock: &Mutex<()>, write: impl FnOnce() -> R) -> R {
    let held = lock.lock().unwrap_or_else(PoisonError::into_inner);
    let result = write();
    drop(held);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Long enough for a thread that is let in; who is kept out waits longer.
    const PATIENCE: Duration = Duration::from_millis(200);

    /// Whether `other` gets in while a write of `a` is within.
    fn beside_a_write(gate: &Gate, other: impl FnOnce(&Gate) + Send) -> bool {
        std::thread::scope(|scope| {
            let (entered, is_in) = channel();
            gate.write(b"a", || {
                scope.spawn(move || {
                    other(gate);
                    // The one who waited has gone where it was late.
                    let _ = entered.send(());
                });
                is_in.recv_timeout(PATIENCE).is_ok()
            })
        })
    }

    #[test]
    fn each_gate_lets_in_together_what_it_says() {
        let open = || Gate::Open;
        let striped = || Gate::Striped(Stripes::default());
        let shared = || Gate::Shared(RwLock::default());
        let one = || Gate::One(Mutex::default());
        let write = |gate: &Gate, key: &[u8]| gate.write(key, || ());
        // Another key, the same key, a batch with it, a snapshot.
        for (gate, expected) in [
            (open as fn() -> Gate, [true, true, true, true]),
            (striped, [true, false, false, true]),
            (shared, [true, true, false, true]),
            (one, [false, false, false, true]),
        ] {
            let found = [
                beside_a_write(&gate(), |gate| write(gate, b"b")),
                beside_a_write(&gate(), |gate| write(gate, b"a")),
                beside_a_write(&gate(), |gate| {
                    gate.batch([&b"c"[..], b"a", b"a"].into_iter(), || ());
                }),
                beside_a_write(&gate(), |gate| gate.snapshot(|| ())),
            ];
            assert_eq!(found, expected, "{:?}", gate());
        }
    }
}
