//! What must hold of a crash, and of crashes while that is recovered.
//!
//! Q1. After a loss of power, and where word of a failed sync stands: a prefix with all that was
//!     durable. Recovery writes nothing then, so another crash changes nothing.
//! Q2. After the death of the process: all that was complete. Recovery syncs each file first; the
//!     power may go at any time, a sync may fail, and the process may die again.
//! Q3. What a failed sync of recovery's leaves is a prefix with all that was durable, now and for
//!     who comes next.

use super::Rule;
use super::disk::{Disk, FILES, LANES, Place, RECORDS, SEALS, Seal};
use super::recovery::record;
use super::recovery::{Seals, Verdict};
use std::collections::HashSet;

/// What is known of the moment of a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Known {
    pub(crate) durable: u8,
    /// A sync failed and nobody left word of it yet: nothing is missing up to here.
    pub(crate) open: Option<u8>,
    /// A sync failed, so what was complete may be gone.
    pub(crate) has_failed: bool,
    /// It took nothing away, and word of it stands: nothing is missing up to here either, if the
    /// power stays.
    pub(crate) kept: u8,
}

/// Judges crashes, each but once.
#[derive(Debug)]
pub(crate) struct Judge {
    rule: Rule,
    syncs_fail: bool,
    known: HashSet<(Disk, Known)>,
    /// After losses of power.
    lost: HashSet<(Disk, u8)>,
}

type Outcome = Result<(), String>;

impl Judge {
    pub(crate) fn new(rule: Rule, syncs_fail: bool) -> Judge {
        Judge {
            rule,
            syncs_fail,
            known: HashSet::new(),
            lost: HashSet::new(),
        }
    }

    /// How many different ones there were.
    pub(crate) fn crashes(&self) -> usize {
        self.known.len() + self.lost.len()
    }

    /// Any crash at this moment.
    pub(crate) fn crash(&mut self, disk: &Disk, known: Known) -> Outcome {
        if !self.known.insert((*disk, known)) {
            return Ok(());
        }
        self.lose_power(disk, known.durable)?;
        self.kill(disk, known)
    }

    /// Q1.
    fn lose_power(&mut self, disk: &Disk, durable: u8) -> Outcome {
        for lost in disk.power_losses() {
            if self.lost.insert((lost, durable)) {
                let verdict = Seals::read(&self.rule, &lost).judge(&self.rule, &lost, false);
                prefix(&verdict, durable).map_err(|what| format!("power loss: {what}"))?;
            }
        }
        Ok(())
    }

    /// Q2.
    fn kill(&mut self, disk: &Disk, known: Known) -> Outcome {
        let seals = Seals::read(&self.rule, disk);
        let verdict = seals.judge(&self.rule, disk, true);
        let open = known.open.filter(|_| self.rule.excuses_a_missing_word);
        let told = match (&verdict, open) {
            (Verdict::PageCache(stamps), Some(whole)) => holds(stamps, whole),
            (Verdict::PageCache(stamps), None) if known.has_failed => {
                prefix(&Verdict::Cut(stamps.clone()), known.durable)
            }
            (Verdict::PageCache(stamps), None) => match *stamps == complete(disk) {
                true => Ok(()),
                false => Err(format!("{stamps:?} of {:?}", complete(disk))),
            },
            (other, _) => prefix(other, known.durable.max(known.kept)),
        };
        told.map_err(|what| format!("kill: {what}, {known:?}"))?;
        match verdict {
            Verdict::PageCache(_) => self.sync_all(disk, known, &seals),
            _ => Ok(()),
        }
    }

    /// `Case::sync_all`: each file in turn, with a crash after each.
    fn sync_all(&mut self, disk: &Disk, known: Known, seals: &Seals) -> Outcome {
        let newest = seals.newest().expect("a verdict");
        let mut disk = *disk;
        for file in [SEALS].into_iter().chain(0..FILES - 1) {
            if self.syncs_fail {
                for failed in disk.failed_syncs(file) {
                    self.fail(failed, file, known, seals, newest)?;
                }
            }
            disk.sync(file);
            self.crash(&disk, known)?;
        }
        Ok(())
    }

    /// Q3.
    fn fail(
        &mut self,
        mut disk: Disk,
        file: usize,
        known: Known,
        seals: &Seals,
        newest: Seal,
    ) -> Outcome {
        let whole = match file {
            SEALS => known.durable,
            _ => newest.frontier.max(known.durable),
        };
        let open = Known {
            open: Some(known.open.map_or(whole, |open| open.min(whole))),
            has_failed: true,
            ..known
        };
        self.crash(&disk, open)?;
        if self.rule.recovery_leaves_word {
            let word = Seal {
                failed: true,
                ..newest
            };
            disk.seal(Place::Shadow(word.round), word);
        }
        let verdict = seals.judge(&self.rule, &disk, false);
        prefix(&verdict, known.durable).map_err(|what| format!("recovery's sync: {what}"))?;
        let told = Known { open: None, ..open };
        self.crash(&disk, told)
    }
}

/// A prefix with all that was durable.
fn prefix(verdict: &Verdict, durable: u8) -> Outcome {
    match verdict {
        Verdict::Damaged(what) => Err(format!("refused, for {what}")),
        Verdict::Cut(stamps) | Verdict::PageCache(stamps) => {
            let is_prefix = stamps.iter().copied().eq((1..).take(stamps.len()));
            match is_prefix && stamps.len() >= usize::from(durable) {
                true => Ok(()),
                false => Err(format!("{stamps:?}, where {durable} was durable")),
            }
        }
    }
}

/// Nothing is missing up to `whole`.
fn holds(stamps: &[u8], whole: u8) -> Outcome {
    let missing = (1..=whole).find(|stamp| !stamps.contains(stamp));
    missing.map_or(Ok(()), |missing| {
        Err(format!("{missing} of {whole} is not in {stamps:?}"))
    })
}

/// Every record that is complete.
pub(crate) fn complete(disk: &Disk) -> Vec<u8> {
    let places = (0..LANES).flat_map(|lane| (0..RECORDS).map(move |at| (lane, at)));
    let stamps = places.filter_map(|(lane, at)| record(disk, lane, at));
    let mut stamps: Vec<u8> = stamps.collect();
    stamps.sort_unstable();
    stamps
}
