//! A file system that fails on demand.
//!
//! F1. Calls are counted from 1, so a sweep fails the k-th call for k = 1, 2, … until a run ends
//!     before its fault came ([`FaultFs::fired`] is 0).
//! F2. A fault happens instead of its call; only a cut transfer does a part of it first.
//! F3. A sync that fails over a [`MemFs`] leaves pages as kernels do: marked clean, by chance
//!     written, lost, or readable until the power goes (V4). What it takes, and which bit a read
//!     has wrong, follows from the seed of the device and the call's number.
//!
//! `EINTR` reaches the callers above only from here: the real file system repeats the call.
//!
//! Threads: any number; the count is exact, its order theirs.
//!
//! Tests: `fault/tests.rs`, and the contract with no rule set.

use crate::intercept::{Call, Intercepted, Interceptor, Verdict};
use crate::mem::MemFs;
use crate::operation::Operation;
use crate::vfs::Vfs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use velella_base::Error;
use velella_sync::lock::Mutex;
use velella_sync::rng::Rng;
use velella_sync::thread;

/// A way to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// `EIO`.
    Io,
    /// `ENOSPC`.
    NoSpace,
    /// `EACCES`.
    Permission,
    /// `EINTR`.
    Interrupted,
    /// `EMFILE`.
    TooManyFiles,
    /// A read over a [`MemFs`] brings one wrong bit; any other call passes.
    Flip,
    /// Half of the bytes are moved: a write then meets `ENOSPC`, a read the end of the file. Any
    /// other call fails with `EIO`.
    Short,
    /// Nothing fails, but only after this time.
    Delay(Duration),
}

/// Which calls fail, and how. All conditions must hold.
#[derive(Debug, Clone)]
pub struct Rule {
    operation: Option<Operation>,
    path: Option<String>,
    skip: u64,
    times: u64,
    fault: Fault,
}

impl Rule {
    /// Every call fails.
    #[must_use]
    pub fn every(fault: Fault) -> Rule {
        Rule {
            operation: None,
            path: None,
            skip: 0,
            times: u64::MAX,
            fault,
        }
    }

    /// Only calls of this operation.
    #[must_use]
    pub fn of(mut self, operation: Operation) -> Rule {
        self.operation = Some(operation);
        self
    }

    /// Only calls on a path that contains this text (of a rename or link, either path).
    #[must_use]
    pub fn on(mut self, part_of_path: &str) -> Rule {
        self.path = Some(part_of_path.to_owned());
        self
    }

    /// Only from the `nth` matching call on, counted from 1 since the rule was set.
    #[must_use]
    pub fn from_nth(mut self, nth: u64) -> Rule {
        self.skip = nth.saturating_sub(1);
        self
    }

    /// Only so many calls, and then no more.
    #[must_use]
    pub fn times(mut self, times: u64) -> Rule {
        self.times = times;
        self
    }

    /// Only the `nth` matching call.
    #[must_use]
    pub fn nth(self, nth: u64) -> Rule {
        self.from_nth(nth).times(1)
    }

    fn matches(&self, call: &Call<'_>) -> bool {
        let names = |path: &Path| match &self.path {
            Some(part) => path.to_string_lossy().contains(part.as_str()),
            None => true,
        };
        self.operation
            .is_none_or(|operation| operation == call.operation)
            && (names(call.path) || call.to.is_some_and(names))
    }

    /// Counts a matching call; the fault if it is this one's turn.
    fn turn(&mut self) -> Option<Fault> {
        if self.skip > 0 {
            self.skip -= 1;
            return None;
        }
        self.times = self.times.checked_sub(1)?;
        Some(self.fault)
    }
}

/// A file system that fails on demand. Clones share rules and counts.
pub type FaultFs = Intercepted<Faults>;

/// The rules and counts of a [`FaultFs`].
#[derive(Debug, Default)]
pub struct Faults {
    mem: Option<MemFs>,
    /// Of the device (F3).
    seed: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    calls: u64,
    fired: u64,
    /// A sync failed over a [`MemFs`].
    lost_pages: bool,
    /// A bit to be flipped back once it was read.
    flipped: Option<(u64, u8)>,
}

impl FaultFs {
    /// In front of any file system. No rule is set.
    #[must_use]
    pub fn new(inner: Arc<dyn Vfs>) -> FaultFs {
        Intercepted {
            inner,
            by: Arc::default(),
        }
    }

    /// In front of one in memory, whose pages suffer from failed syncs (F3); the device's seed
    /// is 0.
    #[must_use]
    pub fn over_mem(mem: &MemFs) -> FaultFs {
        FaultFs::over_device(mem, 0)
    }

    /// As [`FaultFs::over_mem`], of a device with this seed (F3).
    #[must_use]
    pub fn over_device(mem: &MemFs, seed: u64) -> FaultFs {
        let faults = Faults {
            mem: Some(mem.clone()),
            seed,
            state: Mutex::default(),
        };
        Intercepted {
            inner: Arc::new(mem.clone()),
            by: Arc::new(faults),
        }
    }

    /// Adds a rule. Each call goes by the first rule whose turn it is.
    pub fn inject(&self, rule: Rule) {
        self.by.state.lock().rules.push(rule);
    }

    /// Fails the `k`-th call from now on, whatever it is.
    pub fn fail_call(&self, k: u64, fault: Fault) {
        self.inject(Rule::every(fault).nth(k));
    }

    /// Takes all rules away and sets the counts to zero.
    pub fn reset(&self) {
        *self.by.state.lock() = State::default();
    }

    /// Takes all rules away; the counts stay.
    pub fn heal(&self) {
        self.by.state.lock().rules.clear();
    }

    /// Calls since the last reset.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.by.state.lock().calls
    }

    /// Whether a sync failed, and lost pages, since the last reset.
    #[must_use]
    pub fn lost_pages(&self) -> bool {
        self.by.state.lock().lost_pages
    }

    /// Faults (delays too) since the last reset.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.by.state.lock().fired
    }
}

impl Interceptor for Faults {
    fn before(&self, call: &Call<'_>) -> Verdict {
        let mut state = self.state.lock();
        state.calls += 1;
        let number = state.calls;
        // Every matching rule counts the call, whichever of them it goes by.
        let matching = state.rules.iter_mut().filter(|rule| rule.matches(call));
        let turns: Vec<Fault> = matching.filter_map(Rule::turn).collect();
        let Some(fault) = turns.first().copied() else {
            return Verdict::Pass;
        };
        state.fired += 1;
        drop(state);
        let code = match fault {
            Fault::Delay(time) => {
                thread::sleep(time);
                return Verdict::Pass;
            }
            Fault::Flip => {
                self.flip(call, number);
                return Verdict::Pass;
            }
            Fault::Short if call.bytes > 0 => {
                return Verdict::Cut(call.bytes / 2, short(call));
            }
            Fault::Io | Fault::Short => libc::EIO,
            Fault::NoSpace => libc::ENOSPC,
            Fault::Permission => libc::EACCES,
            Fault::Interrupted => libc::EINTR,
            Fault::TooManyFiles => libc::EMFILE,
        };
        // Where the directory could not even be opened, nothing was synced. An open file cannot
        // meet that; if it is made to, its sync failed.
        let unopened = fault == Fault::TooManyFiles && call.operation == Operation::SyncDir;
        let syncs = call.operation.is_sync() && !unopened;
        if let Some(mem) = self.mem.as_ref().filter(|_| syncs) {
            // A file without a name is not found, and nobody will find what it loses.
            let _ = mem.fail_sync(call.path, self.choice(number));
            self.state.lock().lost_pages = true;
        }
        Verdict::Fail(system_error(call, code))
    }

    fn after(&self, call: &Call<'_>, _failed: bool) {
        let flipped = self.state.lock().flipped.take();
        if let (Some(mem), Some((offset, mask))) = (&self.mem, flipped) {
            // It was there a moment ago.
            let _ = mem.flip_byte(call.path, offset, mask);
        }
    }
}

impl Faults {
    /// What the device chooses at call `number` (F3).
    fn choice(&self, number: u64) -> u64 {
        match self.seed {
            0 => number,
            seed => Rng::new(seed.wrapping_add(number)).next_u64(),
        }
    }

    /// Flips a bit that the call is about to read, until it has; which one follows from `number`.
    fn flip(&self, call: &Call<'_>, number: u64) {
        let (Some(mem), Some(offset)) = (&self.mem, call.offset) else {
            return;
        };
        if call.operation != Operation::Read || call.bytes == 0 {
            return;
        }
        let mixed = self.choice(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (offset, mask) = (
            offset + (mixed >> 8) % call.bytes as u64,
            1 << (mixed >> 61),
        );
        // A file without a name cannot be found; its reader is spared.
        if mem.flip_byte(call.path, offset, mask).is_ok() {
            self.state.lock().flipped = Some((offset, mask));
        }
    }
}

fn short(call: &Call<'_>) -> Error {
    if call.operation != Operation::Read {
        return system_error(call, libc::ENOSPC);
    }
    let found = "the file ends early (injected)";
    Error::corruption("read", call.path, call.offset.unwrap_or(0), found)
}

fn system_error(call: &Call<'_>, code: i32) -> Error {
    let source = io::Error::from_raw_os_error(code);
    let attempt = format!("{} (injected)", call.operation.as_str());
    let error = Error::io(attempt, call.path, source);
    match call.offset {
        Some(offset) => error.at(offset),
        None => error,
    }
}

#[cfg(test)]
mod tests;
