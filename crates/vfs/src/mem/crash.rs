//! What survives a crash, decided by a seed.
//!
//! Every choice is drawn from one generator in a fixed order, so a seed replays a crash exactly.
//! What may survive at all is V1-V3 of the crate. Tests: `mem/tests/legality.rs`.

use velella_sync::rng::Rng;

/// How a crash chooses among what was not synced. Whatever was synced survives every mode, except
/// that nothing is promised of what a failed sync left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CrashMode {
    /// Power loss; nothing unsynced survives.
    Strict,
    /// Power loss; of all unsynced operations, in the order they were done, a prefix survives.
    Prefix,
    /// Power loss; every sector, length and name by itself: what it was when last synced, or any
    /// later value, or a mixture of two successive ones.
    Random,
    /// The process is killed: everything survives, what was not synced is as volatile as before,
    /// and the boot is the same.
    KeepAll,
}

impl CrashMode {
    /// Every way to lose power.
    pub const POWER_LOSSES: [CrashMode; 3] =
        [CrashMode::Strict, CrashMode::Prefix, CrashMode::Random];
}

/// Makes the choices of one crash.
pub(super) struct Choice {
    mode: CrashMode,
    rng: Rng,
    /// `Prefix`: what happened up to this time survives.
    until: u64,
    /// `Random`: what is likely in this crash.
    taste: Taste,
}

/// Uniform choices alone would hardly ever leave a file whole, or nearly nothing.
#[derive(Clone, Copy)]
enum Taste {
    Old,
    Any,
    New,
}

impl Choice {
    /// Choices by `seed`; everything unsynced happened within `[first, last]`.
    pub(super) fn new(mode: CrashMode, seed: u64, first: u64, last: u64) -> Choice {
        let mut rng = Rng::new(seed);
        let span = last.saturating_sub(first) + 2;
        let until = first.saturating_sub(1) + rng.below(span);
        let taste = match rng.below(4) {
            0 => Taste::Old,
            1 => Taste::New,
            _ => Taste::Any,
        };
        Choice {
            mode,
            rng,
            until,
            taste,
        }
    }

    /// How many of successive changes, done at these times, survive.
    pub(super) fn prefix(&mut self, times: impl ExactSizeIterator<Item = u64>) -> usize {
        let all = times.len();
        match self.mode {
            CrashMode::Strict => 0,
            CrashMode::KeepAll => all,
            CrashMode::Prefix => times.take_while(|&at| at <= self.until).count(),
            CrashMode::Random => self.up_to(all),
        }
    }

    /// Whether a change done at this time survives.
    pub(super) fn survives(&mut self, at: u64) -> bool {
        self.prefix([at].into_iter()) == 1
    }

    /// A length on the way from `len` to `next`.
    pub(super) fn between(&mut self, len: usize, next: usize) -> usize {
        if self.mode != CrashMode::Random || next <= len || self.rng.below(4) > 0 {
            return len;
        }
        let step = self.rng.below((next - len) as u64);
        len + usize::try_from(step).unwrap_or(0)
    }

    /// Which of a sector's 64 words have their next value already.
    pub(super) fn torn_words(&mut self) -> u64 {
        if self.mode != CrashMode::Random {
            return 0;
        }
        match self.rng.below(8) {
            // Copied from the front, from the back, or in no order.
            0 => (1 << self.rng.below(64)) - 1,
            1 => !((1 << self.rng.below(64)) - 1),
            2 => self.rng.next_u64(),
            _ => 0,
        }
    }

    fn up_to(&mut self, all: usize) -> usize {
        let number = usize::try_from(self.rng.below(all as u64 + 1)).unwrap_or(0);
        let usual = self.rng.below(8) > 0;
        match self.taste {
            Taste::Old if usual => 0,
            Taste::New if usual => all,
            _ => number,
        }
    }
}
