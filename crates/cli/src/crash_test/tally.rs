//! What a campaign did and found, in figures.
//!
//! Plain data. Tests: below, and `tests/crash_test.rs`.

use super::judge::{Verdict, by_class};
use super::oracle::Log;
use super::watch::{CHECKED, OPENING, UNDER_LOAD, Word};
use crate::human;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

/// Openings are to be done within this time.
pub(super) const OPENING_GOAL: Duration = Duration::from_secs(5);

/// Figures of a campaign, growing.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) kills: u64,
    by_phase: BTreeMap<&'static str, u64>,
    acknowledged: [u64; 3],
    cut_off: u64,
    pending: u64,
    pending_found: u64,
    openings: Vec<Duration>,
    pub(super) databases: u64,
    verified: u64,
    closed: u64,
    pub(super) cuts: u64,
    cuts_of_recovery: u64,
}

/// What a child was doing.
pub(super) fn phase(log: &Log, incarnation: u32) -> &'static str {
    let word = |word: Word| log.phase[word as usize];
    match word(Word::State) {
        OPENING if incarnation == 1 => "creation",
        OPENING => "recovery",
        CHECKED => "idle",
        UNDER_LOAD if word(Word::Manifest) > 0 => "manifest edit",
        UNDER_LOAD if word(Word::Compaction) > 0 => "compaction",
        UNDER_LOAD if word(Word::Flush) > 0 => "flush",
        UNDER_LOAD if word(Word::JournalFile) > 0 => "journal file",
        UNDER_LOAD if word(Word::Sync) > 0 => "sync round",
        UNDER_LOAD => "writes",
        _ => "closing",
    }
}

impl Tally {
    pub(super) fn killed(&mut self, phase: &'static str) {
        self.kills += 1;
        *self.by_phase.entry(phase).or_default() += 1;
    }

    pub(super) fn opened(&mut self, time: Duration, verified: bool) {
        self.openings.push(time);
        self.verified += u64::from(verified);
    }

    pub(super) fn closed(&mut self) {
        self.closed += 1;
    }

    pub(super) fn cut(&mut self, in_recovery: bool) {
        self.cuts += 1;
        self.cuts_of_recovery += u64::from(in_recovery);
    }

    pub(super) fn judged(&mut self, verdict: &Verdict) {
        for (sum, n) in self.acknowledged.iter_mut().zip(verdict.acknowledged) {
            *sum += n;
        }
        self.cut_off += verdict.cut_off;
        self.pending += verdict.pending;
        self.pending_found += verdict.pending_found;
    }

    /// The figures at the end; `lost` is what ended it early, if anything did.
    pub(super) fn report(mut self, seed_from: u64, time: Duration, failed: Failed) -> Report {
        self.openings.sort_unstable();
        let millis = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let slow = self.openings.iter().filter(|time| **time > OPENING_GOAL);
        Report {
            seed_from,
            databases: self.databases,
            kills: self.kills,
            kills_by_phase: self.by_phase,
            power_cuts: self.cuts,
            power_cuts_of_recovery: self.cuts_of_recovery,
            acknowledged: by_class(&self.acknowledged)
                .map(|(class, n)| (class.as_str(), n))
                .collect(),
            cut_off: self.cut_off,
            pending: self.pending,
            pending_found: self.pending_found,
            openings: self.openings.len() as u64,
            opening_ms_median: millis(self.openings.get(self.openings.len() / 2)),
            opening_ms_max: millis(self.openings.last()),
            openings_over_5_s: slow.count() as u64,
            verified: self.verified,
            closed: self.closed,
            lost: failed.lost,
            wrong: failed.wrong,
            seconds: time.as_secs_f64(),
        }
    }
}

/// How many promises were seen broken; a campaign ends at the first.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Failed {
    pub(super) lost: u64,
    pub(super) wrong: u64,
}

/// The figures of a campaign.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) seed_from: u64,
    pub(super) databases: u64,
    pub(super) kills: u64,
    pub(super) kills_by_phase: BTreeMap<&'static str, u64>,
    pub(super) power_cuts: u64,
    pub(super) power_cuts_of_recovery: u64,
    /// Acknowledged writes that were looked for, by class.
    pub(super) acknowledged: BTreeMap<&'static str, u64>,
    /// Acknowledged writes that a cut took, as their class allows.
    pub(super) cut_off: u64,
    pub(super) pending: u64,
    pub(super) pending_found: u64,
    pub(super) openings: u64,
    pub(super) opening_ms_median: f64,
    pub(super) opening_ms_max: f64,
    pub(super) openings_over_5_s: u64,
    pub(super) verified: u64,
    pub(super) closed: u64,
    pub(super) lost: u64,
    pub(super) wrong: u64,
    pub(super) seconds: f64,
}

impl Report {
    /// Acknowledged writes of all classes.
    pub(super) fn checked(&self) -> u64 {
        self.acknowledged.values().sum()
    }

    /// For people.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let time = Duration::from_secs_f64(self.seconds);
        if self.power_cuts > 0 {
            writeln!(
                out,
                "power cuts   {}, {} of them in a recovery ({})",
                human::count(self.power_cuts),
                human::count(self.power_cuts_of_recovery),
                human::rate(self.power_cuts, time),
            )?;
        } else {
            writeln!(
                out,
                "kills        {} of {} in {} ({})",
                human::count(self.kills),
                human::counted(self.databases, "database"),
                human::duration(time),
                human::rate(self.kills, time),
            )?;
        }
        let mut phases: Vec<_> = self.kills_by_phase.iter().collect();
        phases.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        for (phase, n) in phases {
            writeln!(out, "  during     {:>9} {phase}", human::count(*n))?;
        }
        writeln!(
            out,
            "checked      {} acknowledged writes",
            human::count(self.checked())
        )?;
        for (class, n) in &self.acknowledged {
            writeln!(out, "  class      {:>9} {class}", human::count(*n))?;
        }
        if self.cut_off > 0 {
            let taken = human::count(self.cut_off);
            writeln!(
                out,
                "  above cut  {taken:>9}, given up as their class allows"
            )?;
        }
        writeln!(
            out,
            "pending      {}: {} found whole, the others absent or overwritten",
            human::count(self.pending),
            human::count(self.pending_found),
        )?;
        writeln!(
            out,
            "openings     {}, median {:.1} ms, longest {:.0} ms; {} verified; {} after a close",
            human::count(self.openings),
            self.opening_ms_median,
            self.opening_ms_max,
            human::count(self.verified),
            human::count(self.closed),
        )?;
        writeln!(out, "lost         {}", self.lost)?;
        writeln!(out, "wrong        {}", self.wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_summed_and_openings_ordered() {
        let mut tally = Tally::default();
        for ms in [9, 1, 5] {
            tally.opened(Duration::from_millis(ms), ms == 9);
            tally.killed("writes");
        }
        tally.judged(&Verdict {
            acknowledged: [7, 2, 1],
            pending: 2,
            pending_found: 1,
            ..Verdict::default()
        });
        let report = tally.report(4, Duration::from_secs(1), Failed::default());
        assert_eq!((report.kills, report.checked()), (3, 10));
        assert!((report.opening_ms_median - 5.0).abs() < 1e-9);
        let mut text = Vec::new();
        report.print(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.contains("kills        3 of 0 databases in 1.00 s (3/s)"),
            "{text}"
        );
        assert!(
            text.contains("1 verified") && text.contains("lost         0"),
            "{text}"
        );
    }
}
