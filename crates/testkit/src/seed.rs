//! Random numbers that can be drawn again.
//!
//! Whatever a test draws comes from one number, which it prints first: give that number again and
//! the test repeats exactly.

/// A printed seed and what is drawn from it.
#[derive(Debug, Clone)]
pub struct Seed {
    number: u64,
    state: u64,
}

/// The seeds a test runs with: `count` fixed ones, or only the one in `VELELLA_SEED`.
#[must_use]
pub fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("VELELLA_SEED") {
        Ok(text) => vec![text.parse().expect("VELELLA_SEED is a number")],
        Err(_) => (1..=scale(count)).collect(),
    }
}

/// `count` times what `VELELLA_SCALE` says (default 1): nightly runs do more of the same.
#[must_use]
pub fn scale(count: u64) -> u64 {
    let factor = std::env::var("VELELLA_SCALE")
        .ok()
        .and_then(|text| text.parse().ok());
    count * factor.unwrap_or(1)
}

impl Seed {
    /// Prints the seed of `test` and starts to draw.
    #[must_use]
    pub fn new(test: &str, number: u64) -> Self {
        println!("{test}: VELELLA_SEED={number}");
        Seed {
            number,
            state: number,
        }
    }

    /// As [`Seed::new`], for a runner that prints seeds itself.
    #[must_use]
    pub fn silent(number: u64) -> Self {
        Seed {
            number,
            state: number,
        }
    }

    /// A generator of its own for one thread of the test.
    #[must_use]
    pub fn fork(&self, thread: u64) -> Seed {
        let number = self
            .number
            .wrapping_mul(0x9e37_79b9)
            .wrapping_add(thread + 1);
        Seed {
            number,
            state: number,
        }
    }

    /// The next 64 bits (splitmix64).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// As [`Seed::below`], as an index.
    ///
    /// # Panics
    /// Never: what is below an index is one.
    pub fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).expect("it is below an index")
    }

    /// Yes, once in so many times.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of `choices`.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.index(choices.len())]
    }

    /// A key out of few: short, with shared prefixes, the empty one among them.
    pub fn key(&mut self, few: u64) -> Vec<u8> {
        let number = self.below(few);
        match number % 4 {
            _ if number == 0 => Vec::new(),
            1 => format!("k{number}").into_bytes(),
            2 => format!("prefix/{number:04}").into_bytes(),
            _ => vec![0xff, u8::try_from(number % 256).unwrap_or(0), 0],
        }
    }

    /// A value of up to `longest` bytes that begins with its own number, so that no two are alike.
    pub fn value(&mut self, longest: usize) -> Vec<u8> {
        let mut value = self.next().to_le_bytes().to_vec();
        let len = 8 + self.index(longest.max(1));
        let byte = value[0];
        value.resize(len, byte);
        value
    }
}
