//! After a benchmark, with nobody writing: does the store hold what it must?
//!
//! U1. Each followed key has one of its candidates (`ledger`).
//! U2. Where all numbers below a bound were put, a sample of them is there, scans from a sample of
//!     keys show exactly the next keys, and keys that were never put are absent.
//!
//! Threads: the main one. Tests: `drive`, `tests/refusals.rs`.

use crate::failure::{Failure, Outcome};
use crate::keys::Keys;
use crate::ledger::Ledger;
use crate::random::Random;
use crate::spec::Spec;
use crate::store::Store;
use crate::values::Values;

const GETS: u64 = 256;
const SCANS: u64 = 32;
const SCAN_PAIRS: usize = 20;
/// Beyond so many keys the list of all of them is not made.
const LISTED_MAX: u64 = 2_000_000;

/// What is known of a store's content.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Numbers below this were put.
    pub(crate) inserted: u64,
    /// Whether exactly those were put, and none was deleted.
    pub(crate) whole: bool,
    /// What followed keys hold.
    pub(crate) ledger: Ledger,
    /// All keys, sorted, of a number of keys: made when first needed.
    listed: Vec<Vec<u8>>,
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
        keys: Keys::new(spec.keys),
        random: Random::new(spec.seed ^ known.inserted),
        checked: 0,
    };
    auditor.followed(&mut known.ledger)?;
    if known.whole && known.inserted > 0 {
        auditor.present(known.inserted)?;
        auditor.absent(spec.records)?;
        if known.inserted <= LISTED_MAX {
            auditor.list(known);
            auditor.scans(&known.listed)?;
        }
    }
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

    fn present(&mut self, inserted: u64) -> Outcome<()> {
        for _ in 0..GETS {
            let n = self.random.below(inserted);
            if self.version(n)?.is_none() {
                return Err(self.wrong(format!("key number {n} is not there, but was put")));
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

    fn list(&mut self, known: &mut Known) {
        if known.listed.len() as u64 != known.inserted {
            let keys = &mut self.keys;
            known.listed = (0..known.inserted).map(|n| keys.key(n).to_vec()).collect();
            known.listed.sort_unstable();
        }
    }

    fn scans(&mut self, listed: &[Vec<u8>]) -> Outcome<()> {
        for _ in 0..SCANS {
            let at = self.random.below(listed.len() as u64);
            let expected = &listed[usize::try_from(at).unwrap_or(0)..];
            let expected = &expected[..expected.len().min(SCAN_PAIRS)];
            let mut shown: Vec<Vec<u8>> = Vec::new();
            let mut sound = true;
            let values = self.values;
            let from = expected[0].clone();
            self.store.scan(&from, SCAN_PAIRS, &mut |key, value| {
                sound &= values.check(key, value).is_some();
                shown.push(key.to_vec());
            })?;
            self.checked += 1;
            if shown != expected || !sound {
                return Err(self.wrong(format!(
                    "a scan of {SCAN_PAIRS} pairs from the key in place {at} on showed {} pairs, \
                     not the {} that are there",
                    shown.len(),
                    expected.len()
                )));
            }
        }
        Ok(())
    }
}
