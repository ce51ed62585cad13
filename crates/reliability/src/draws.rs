//! Decisions drawn from bytes: what turns a fuzzer's input into a structured one.
//!
//! D1. Total: where the bytes end, zeros follow, and `is_empty` says so. The same bytes decide the
//!     same, so an input is its own recipe.
//!
//! Threads: one. Tests: through `targets` and `workload`.

/// Bytes being turned into decisions.
#[derive(Debug, Clone)]
pub struct Draws<'a> {
    rest: &'a [u8],
}

impl<'a> Draws<'a> {
    /// Decides by `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Draws { rest: bytes }
    }

    /// Whether nothing is left to decide by.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// A byte.
    pub fn u8(&mut self) -> u8 {
        match self.rest.split_first() {
            Some((&byte, rest)) => {
                self.rest = rest;
                byte
            }
            None => 0,
        }
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.u8(), self.u8()])
    }

    /// A number of 64 bits, of those at which arithmetic breaks half the time.
    pub fn u64(&mut self) -> u64 {
        let choice = self.u8();
        match choice {
            0..=127 => u64::from(choice),
            128..=159 => 1 << (choice - 128) << 32 >> (choice & 31),
            160..=191 => u64::MAX - u64::from(choice - 160),
            192..=207 => 1 << (choice - 144),
            208..=223 => (1 << (choice - 160)) - 1,
            _ => u64::from_le_bytes(std::array::from_fn(|_| self.u8())),
        }
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let drawn = if bound <= 256 {
            self.u8().into()
        } else {
            usize::from(self.u16())
        };
        drawn % bound
    }

    /// Yes or no.
    pub fn flag(&mut self) -> bool {
        self.u8() & 1 == 1
    }

    /// At most `len` of the bytes left.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }
}
