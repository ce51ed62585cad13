//! Stamps: the one time of the database.
//!
//! Source: cLSM (EuroSys '15) 3.2 calls it a timestamp, JellyFish `T`, LevelDB a sequence number.
//!
//! S1. Stamps fit 56 bits, so that stamp and kind share one word.
//! S2. Stamp 0 belongs to no write: a reader at 0 sees nothing.

/// A point in the order of all writes. Drawn from the database's one clock, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Before every write.
    pub const ZERO: Stamp = Stamp(0);
    /// At or after every write: 2^56 - 1.
    pub const MAX: Stamp = Stamp((1 << 56) - 1);

    /// The stamp of this number; `None` if it is above all stamps (S1), as in damaged bytes.
    #[must_use]
    pub fn of(number: u64) -> Option<Stamp> {
        (number <= Stamp::MAX.0).then_some(Stamp(number))
    }

    /// The stamp after this one.
    #[must_use]
    pub fn next(self) -> Stamp {
        debug_assert!(self < Stamp::MAX, "S1: the clock is exhausted");
        Stamp(self.0 + 1)
    }
}

impl std::fmt::Display for Stamp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
