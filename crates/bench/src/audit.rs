//! After a benchmark, with nobody writing: does the store hold what it must?
//!
//! U1. Each followed key has one of its candidates (`ledger`).
//! U2. Of a sample of the key space, keys that must be there are, keys that were never put are not,
//!     and scans from them on show every key that must be there, and none that was never put.
//!
//! Threads: the main one. Tests: `drive`, `tests/refusals.rs`.

use crate::choice::Choice;
use crate::failure::{Failure, Outcome};
use crate::keys::Keys;
use crate::ledger::Ledger;
use crate::present::Present;
use crate::random::Random;
use crate::spec::Spec;
use crate::store::Store;
use crate::values::Values;
use crate::witness::{self, Scan};

const GETS: u64 = 256;
const SCANS: u64 = 64;
const SCAN_PAIRS: u64 = 50;

/// What is known of a store's content.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Numbers below this were put.
    pub(crate) inserted: u64,
    /// Whether exactly those were put, and none was deleted.
    pub(crate) whole: bool,
    /// Bytes of all keys and values that were put, whatever for.
    pub(crate) bytes_put: u64,
    /// What followed keys hold.
    pub(crate) ledger: Ledger,
    /// Which keys there are.
    pub(crate) present: Present,
}

impl Known {
    /// Nothing is in the store.
    pub(crate) fn empty() -> Self {
        Known {
            whole: true,
            ..Known::default()
        }
    }
}

/// Checks `store`; how many answers were right.
pub(crate) fn audit(
    store: &dyn Store,
    name: &str,
    spec: &Spec,
    values: &Values,
    known: &mut Known,
) -> Outcome<u64> {
    let mut auditor = Auditor {
        store,
        name,
        values,
        keys: spec.key_maker(),
        random: Random::new(spec.seed ^ known.inserted),
        checked: 0,
    };
    auditor.followed(&mut known.ledger)?;
    auditor.sample(&known.present)?;
    // Ranks without a greatest one may be those of absent keys.
    if !matches!(spec.choice, Choice::ZipfUnbounded(_)) {
        auditor.absent(spec.records)?;
    }
    auditor.scans(&known.present)?;
    Ok(auditor.checked)
}

struct Auditor<'a> {
    store: &'a dyn Store,
    name: &'a str,
    values: &'a Values,
    keys: Keys,
    random: Random,
    checked: u64,
}

impl Auditor<'_> {
    fn wrong(&self, found: String) -> Failure {
        Failure::WrongAnswer {
            store: self.name.to_owned(),
            found,
        }
    }

    /// The version under key number `n`; `None` where there is nothing.
    fn version(&mut self, n: u64) -> Outcome<Option<u64>> {
        let mut value = Vec::new();
        let key = self.keys.key(n);
        let found = self.store.get(key, &mut |bytes| value = bytes.to_vec())?;
        self.checked += 1;
        if !found {
            return Ok(None);
        }
        match self.values.check(key, &value) {
            Some(version) => Ok(Some(version)),
            None => Err(self.wrong(format!(
                "the value of key number {n} was never put under it"
            ))),
        }
    }

    fn followed(&mut self, ledger: &mut Ledger) -> Outcome<()> {
        let all: Vec<(u64, Vec<Option<u64>>)> = ledger
            .followed()
            .map(|(n, candidates)| (n, candidates.to_vec()))
            .collect();
        for (n, candidates) in all {
            let found = self.version(n)?;
            if !candidates.contains(&found) {
                return Err(self.wrong(format!(
                    "key number {n} holds version {found:x?}, but the last writes were \
                     {candidates:x?}: a write was lost"
                )));
            }
            ledger.settle(n, found);
        }
        Ok(())
    }

    fn sample(&mut self, present: &Present) -> Outcome<()> {
        for _ in 0..GETS.min(present.bound()) {
            let n = self.random.below(present.bound());
            let found = self.version(n)?.is_some();
            if !found && present.surely(n) {
                return Err(self.wrong(format!("key number {n} is not there, but was put")));
            }
            if found && !present.possibly(n) {
                return Err(self.wrong(format!("key number {n} has a value, but was never put")));
            }
        }
        Ok(())
    }

    fn absent(&mut self, records: u64) -> Outcome<()> {
        for _ in 0..GETS {
            let n = self.random.below(records.max(1));
            let n = self.keys.missing(n);
            if self.version(n)?.is_some() {
                return Err(self.wrong(format!("key number {n} has a value, but was never put")));
            }
        }
        Ok(())
    }

    fn scans(&mut self, present: &Present) -> Outcome<()> {
        let mut scans = Vec::new();
        for at in 0..SCANS {
            let n = self.random.below(present.bound().max(1));
            let mut scan = Scan {
                count: SCAN_PAIRS,
                ..Scan::default()
            };
            // The first one is from the beginning.
            if at > 0 {
                scan.from.extend_from_slice(self.keys.key(n));
            }
            let mut sound = true;
            let values = self.values;
            let count = usize::try_from(SCAN_PAIRS).unwrap_or(0);
            self.store.scan(&scan.from, count, &mut |key, value| {
                sound &= values.check(key, value).is_some();
                scan.shown.push(key.to_vec());
            })?;
            self.checked += 1;
            if !sound || !scan.is_in_order() {
                return Err(self.wrong(format!(
                    "a scan from key number {n} on was not in order, or showed a value that was \
                     never put under its key"
                )));
            }
            scans.push(scan);
        }
        let numbers = present.numbers().map(|n| (n, present.surely(n)));
        match witness::judge(scans, &mut self.keys, numbers) {
            Some(found) => Err(self.wrong(found)),
            None => Ok(()),
        }
    }
}
