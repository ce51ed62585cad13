//! Which rule, and which cut.
//!
//! J1. The page cache survived, if the token says it may have and nothing speaks against it: every
//!     lane is valid up to the newest seal's ends, and beyond them up to a word of zero, no lane
//!     has a hole, nothing was unreadable, every file syncs, and no sync of the newest round
//!     failed: of what came after that, parts may be gone that nobody misses. A record's word is
//!     written last, so beyond the ends, too, what does not validate is damage: were the lane to
//!     end there, others would go on, and the state had a hole. But where a lane would have gone on
//!     at the next page may stand what a recycled segment held before: if the sector there rots
//!     that holds all of a lane's last records, nothing tells. Should a file not sync here, the
//!     seal file says so to who recovers next. A call that fails otherwise speaks against nothing:
//!     it is the caller's error, and who tries again may find all there.
//! J2. Otherwise it was a power loss. r is the newest intact seal. Valid up to its ends: the cut is
//!     F_r. Else, if nothing shows that round r completed, it was in flight: the cut is F_{r-1} and
//!     everything up to the ends of seal r-1 must be valid. Anything else is corruption of durable
//!     data. Never further back, nor below what the caller knows was durable.
//! J3. A clean close is decided by seal r alone: it says closed, and its done marker is intact.
//! J4. With `accept_loss`, damage makes it the larger of two cuts instead of an error: the largest
//!     valid round, and the newest seal's, cut below what is damaged. Stamps of a lane ascend, so
//!     nothing is missing below a damaged record whose header still says its stamp, and up to the
//!     last sound stamp before any other damage.
//!
//! Tests: below, `tests/damage.rs`, `tests/lost_pages.rs`, `tests/damage_after_kill.rs`,
//! `tests/rounds.rs`.

use super::catalog::Catalog;
use super::reader::{LaneReader, Tail};
use super::report::{Last, Report, Rule};
use super::seals::{ATTEMPT, Seals};
use super::source::Source;
use crate::record::LaneSeed;
use crate::seal::Seal;
use std::path::Path;
use velella_base::file_name::FileName;
use velella_base::{DatabaseId, Error, ErrorKind, Result, Stamp, seeded};
use velella_sync::helpers;
use velella_vfs::{Identity, Vfs};

/// Lanes walked at once: checking them is most of recovery, and each is checked on its own.
const THREADS_MAX: usize = 4;

/// What to take of each lane.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) rule: Rule,
    pub(super) cut: Stamp,
    /// `[start, limit)` per lane.
    pub(super) lanes: Vec<(u64, u64)>,
}

/// Everything a judgement looks at.
pub(super) struct Case<'a> {
    pub(super) vfs: &'a dyn Vfs,
    pub(super) source: &'a Source<'a>,
    pub(super) dir: &'a Path,
    pub(super) database: DatabaseId,
    pub(super) last: &'a Last,
    pub(super) seals: &'a Seals,
    pub(super) catalog: &'a Catalog,
}

impl Case<'_> {
    pub(super) fn judge(&self, report: &mut Report) -> Result<Verdict> {
        let judged = self.judge_strictly(report);
        match judged {
            Err(error) if error.kind() == ErrorKind::Corruption && self.last.accept_loss => {
                self.largest_valid_round(&error, report)
            }
            other => other,
        }
    }

    fn judge_strictly(&self, report: &mut Report) -> Result<Verdict> {
        if let Some(damage) = &self.seals.damage {
            return Err(damage.clone());
        }
        let newest = self.seals.newest().expect("no intact seal is damage");
        if self.seals.torn {
            let next = newest.round.saturating_add(1);
            report.notes.push(format!(
                "seal {next} is torn: round {next} was in flight; stamps above {} were not \
                 promised to be durable",
                newest.frontier
            ));
        }
        let closed = newest.closed && self.seals.is_done(newest.round);
        if !closed {
            match self.page_cache(newest)? {
                Ok(verdict) => return Ok(verdict),
                Err(reason) => report
                    .notes
                    .push(format!("taken as a power loss: {reason}")),
            }
        }
        if newest.frontier < self.known() {
            return Err(self.lost_seals(newest));
        }
        let Some(damage) = self.damage_in(newest)? else {
            let rule = if closed { Rule::CleanClose } else { Rule::Cut };
            return Ok(Verdict::of(rule, newest));
        };
        if newest.round == 0 || self.seals.is_done(newest.round) {
            return Err(damage);
        }
        let Some(before) = self.seals.get(newest.round - 1) else {
            return Err(damage);
        };
        if before.frontier < self.known() {
            return Err(damage);
        }
        if let Some(damage) = self.damage_in(before)? {
            return Err(damage);
        }
        report.notes.push(format!(
            "round {} was in flight ({damage}): fell back to round {}; stamps in ({}, {}] were \
             given up",
            newest.round, before.round, before.frontier, newest.frontier
        ));
        Ok(Verdict::of(Rule::Cut, before))
    }

    /// Up to where everything was durable, by what the caller knows.
    fn known(&self) -> Stamp {
        match seeded("what-tables-hold-is-no-evidence") {
            true => Stamp::ZERO,
            false => self.last.durable,
        }
    }

    /// The seals of what the caller knows are lost, although nothing is wrong with those up to the
    /// `newest`.
    fn lost_seals(&self, newest: &Seal) -> Error {
        let seal_file = FileName::Seal(self.last.start.seal_file).path(self.dir);
        let found = format!(
            "the manifest waited for what is up to stamp {}, but the newest seal, {}, covers {}: \
             the next is lost, here or among the anchors in {}",
            self.last.durable,
            newest.round,
            newest.frontier,
            seal_file.display()
        );
        let (path, at) = self.seals.next().unwrap_or((&seal_file, 0));
        Error::corruption(ATTEMPT, path, at, found)
    }

    /// J1. The inner error says why not.
    fn page_cache(&self, newest: &Seal) -> Result<Result<Verdict, String>> {
        if self.last.assume_power_loss {
            return Ok(Err("the caller asked for it".to_owned()));
        }
        if newest.failed {
            return Ok(Err(format!("a sync of round {} failed", newest.round)));
        }
        let path = FileName::Seal(self.last.start.seal_file).path(self.dir);
        let now = match self.vfs.identity(&path) {
            Ok(now) => now,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                return Ok(Err(format!("there is no token now ({error})")));
            }
            Err(error) => return Err(error),
        };
        if !may_be_same_page_cache(&self.last.start.token, &now) {
            let found = "the seal file is not the same file of the same boot";
            return Ok(Err(found.to_owned()));
        }
        if let Some(damage) = &self.catalog.damage {
            return Ok(Err(format!("a segment is damaged ({damage})")));
        }
        let mut verdict = Verdict::of(Rule::PageCache, newest);
        verdict.cut = Stamp::MAX;
        let lanes = self.used_lanes(newest);
        let ends = helpers::each(THREADS_MAX, lanes.len(), |at| {
            self.end_of(lanes[at], verdict.lanes[lanes[at]])
        });
        for (&lane, end) in lanes.iter().zip(ends) {
            match end? {
                Ok(end) => verdict.lanes[lane].1 = end,
                Err(reason) => return Ok(Err(reason)),
            }
        }
        if let Some(unreadable) = self.source.told() {
            return Ok(Err(unreadable));
        }
        Ok(match self.sync_all()? {
            Ok(()) => Ok(verdict),
            Err(error) => {
                if let Some(word) = self.seals.word(&path) {
                    word.leave(self.vfs);
                }
                Err(format!("a file cannot be synced ({error})"))
            }
        })
    }

    /// The lanes that were ever written to, or should have been.
    fn used_lanes(&self, seal: &Seal) -> Vec<usize> {
        let is_used = |&lane: &usize| {
            let (start, end) = seal.lanes[lane];
            start != end || !self.catalog.lanes[lane].is_empty()
        };
        (0..seal.lanes.len()).filter(is_used).collect()
    }

    /// Where a lane ends that a seal covers in `[start, end)`. The inner error says why that cannot
    /// be all (J1).
    fn end_of(&self, lane: usize, (start, end): (u64, u64)) -> Result<Result<u64, String>> {
        let mut reader = self.reader(lane, start, u64::MAX);
        let damage = walk(&mut reader)?;
        let reached = reader.offset();
        Ok(match damage {
            Some(damage) => Err(format!("lane {lane} is damaged ({damage})")),
            _ if reached < end => Err(format!("lane {lane} ends before its seal says")),
            _ if reader.has_follower()? => {
                let hole = reader.corruption("records follow a place where there is none");
                Err(format!("lane {lane} has a hole ({hole})"))
            }
            _ => Ok(reached),
        })
    }

    /// Makes sure that what the page cache holds can be written. The inner error is the sync's.
    fn sync_all(&self) -> Result<Result<()>> {
        let seal = FileName::Seal(self.last.start.seal_file).path(self.dir);
        let mut paths = std::collections::BTreeSet::from([seal]);
        for extent in self.catalog.lanes.iter().flatten() {
            paths.insert(extent.file.path().to_path_buf());
        }
        for file in self.catalog.large.values() {
            paths.insert(file.path().to_path_buf());
        }
        for path in &paths {
            let synced = self.vfs.open_write(path)?.sync_data();
            if synced.is_err() {
                return Ok(synced);
            }
        }
        Ok(Ok(()))
    }

    /// The first damage in what `seal` covers.
    fn damage_in(&self, seal: &Seal) -> Result<Option<Error>> {
        let lanes = self.used_lanes(seal);
        let damages = helpers::each(THREADS_MAX, lanes.len(), |at| {
            self.damage_in_lane(lanes[at], seal)
        });
        let mut found = damages.into_iter().filter_map(Result::transpose);
        found.next().transpose()
    }

    fn damage_in_lane(&self, lane: usize, seal: &Seal) -> Result<Option<Error>> {
        let (start, end) = seal.lanes[lane];
        let mut reader = self.reader(lane, start, end);
        Ok(match walk(&mut reader)? {
            None if reader.offset() != end => Some(self.broken_off(lane, &reader, seal, end)),
            damage => damage,
        })
    }

    /// A lane ends before `end`: what is most likely to blame.
    fn broken_off(&self, lane: usize, reader: &LaneReader, seal: &Seal, end: u64) -> Error {
        if let Some(suspect) = self.catalog.suspects.first() {
            return suspect.clone();
        }
        let found = format!(
            "lane {lane} ends at its byte {}, but seal {} covers it up to {end}",
            reader.offset(),
            seal.round
        );
        let error = reader.corruption(&found);
        if error.file().is_some() {
            return error;
        }
        // Of the lane nothing at all is there: the word of the seal is what stands against it.
        let seal_file = FileName::Seal(self.last.start.seal_file).path(self.dir);
        let (path, at) = self.seals.place(seal.round).unwrap_or((&seal_file, 0));
        Error::corruption(ATTEMPT, path, at, found)
    }

    /// J4.
    fn largest_valid_round(&self, damage: &Error, report: &mut Report) -> Result<Verdict> {
        report
            .notes
            .push(format!("damage, loss accepted: {damage}"));
        let below = self.seals.newest().map(|seal| self.below_damage(seal));
        let below = below.transpose()?;
        let newest = self
            .seals
            .newest()
            .map_or(Stamp::ZERO, |seal| seal.frontier);
        let below = below.filter(|below| below.cut > Stamp::ZERO);
        for seal in self.seals.newest_first() {
            if below.as_ref().is_some_and(|b| b.cut > seal.frontier) {
                break;
            }
            if self.damage_in(seal)?.is_none() {
                report.notes.push(format!(
                    "took round {}; stamps in ({}, {newest}] and above were given up",
                    seal.round, seal.frontier
                ));
                return Ok(Verdict::of(Rule::Cut, seal));
            }
        }
        if let Some(below) = below {
            report.notes.push(format!(
                "took what is below the damage; stamps in ({}, {newest}] and above were given up",
                below.cut
            ));
            return Ok(below);
        }
        report
            .notes
            .push("no round is valid: nothing was taken".to_owned());
        Ok(Verdict {
            rule: Rule::Nothing,
            cut: Stamp::ZERO,
            lanes: vec![(0, 0); self.seals.lanes],
        })
    }

    /// Of what `seal` covers, every lane up to its first damage, as far as none lacks a record
    /// (J4).
    fn below_damage(&self, seal: &Seal) -> Result<Verdict> {
        let mut verdict = Verdict::of(Rule::Cut, seal);
        for lane in self.used_lanes(seal) {
            let (start, end) = seal.lanes[lane];
            let mut reader = self.reader(lane, start, end);
            let damage = walk(&mut reader)?;
            if damage.is_some() || reader.offset() != end {
                verdict.cut = verdict.cut.min(reader.sound_up_to());
                verdict.lanes[lane].1 = reader.offset();
            }
        }
        Ok(verdict)
    }

    pub(super) fn reader(&self, lane: usize, start: u64, limit: u64) -> LaneReader {
        let id = u32::try_from(lane).expect("bounded by LANES_MAX");
        LaneReader::new(
            LaneSeed::new(self.database, self.last.incarnation, id),
            &self.catalog.lanes[lane],
            &self.catalog.large,
            start,
            limit,
        )
    }
}

impl Verdict {
    fn of(rule: Rule, seal: &Seal) -> Verdict {
        Verdict {
            rule,
            cut: seal.frontier,
            lanes: seal.lanes.clone(),
        }
    }
}

/// Walks to the tail, checking payloads; the damage met, if any.
fn walk(reader: &mut LaneReader) -> Result<Option<Error>> {
    let mut piece = Vec::new();
    while reader.advance()?.is_some() {
        match reader.check(&mut piece) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Corruption => return Ok(Some(error)),
            Err(error) => return Err(error),
        }
    }
    Ok(match &reader.tail {
        Some(Tail::Damaged(error)) => Some(error.clone()),
        _ => None,
    })
}

/// Whether the page cache of `then` may be that of `now`. The mount id only means something within
/// one mount namespace: a restarted container has another.
fn may_be_same_page_cache(then: &Identity, now: &Identity) -> bool {
    let known = then.boot != [0; 16];
    let same_file = (
        then.boot,
        then.device,
        then.file_system,
        then.inode,
        then.born_ns,
    ) == (
        now.boot,
        now.device,
        now.file_system,
        now.inode,
        now.born_ns,
    );
    let same_namespace = then.mount_namespace == now.mount_namespace && then.mount_namespace != 0;
    if seeded("any-page-cache-is-taken-for-ours") {
        return true;
    }
    known && same_file && (!same_namespace || then.mount == now.mount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        Identity {
            boot: [1; 16],
            device: 2,
            file_system: 3,
            inode: 4,
            born_ns: 5,
            mount_namespace: 6,
            mount: 7,
        }
    }

    #[test]
    fn the_token_holds_across_namespaces_but_not_across_boots_files_or_remounts() {
        let then = identity();
        assert!(may_be_same_page_cache(&then, &identity()));
        let container = Identity {
            mount_namespace: 60,
            mount: 70,
            ..identity()
        };
        assert!(may_be_same_page_cache(&then, &container));
        let others = [
            Identity {
                boot: [9; 16],
                ..identity()
            },
            Identity {
                device: 9,
                ..identity()
            },
            Identity {
                file_system: 9,
                ..identity()
            },
            Identity {
                inode: 9,
                ..identity()
            },
            Identity {
                born_ns: 9,
                ..identity()
            },
            Identity {
                mount: 9,
                ..identity()
            },
        ];
        for other in others {
            assert!(!may_be_same_page_cache(&then, &other), "{other:?}");
        }
        let unreadable = Identity::default();
        assert!(!may_be_same_page_cache(&unreadable, &unreadable.clone()));
    }
}
