//! The model's recovery, step by step as the code has it.
//!
//! `Seals::collect`, `Seals::add_strips`, `Seals::take`, `Ring::after`, `Ring::damage` of
//! `recovery/seals.rs`; `Case::judge_strictly`, `Case::page_cache`, `Case::damage_in` of
//! `recovery/judge.rs`; `Recovery::next_record` of `recovery/merge.rs`.

use super::Rule;
use super::disk::{Disk, LANES, Place, RECORDS, ROUNDS, Seal};

/// Seals by their numbers, and the highest done marker.
#[derive(Debug, Clone, Default)]
struct Ring {
    intact: [Option<Seal>; ROUNDS + 1],
    done: Option<u8>,
}

/// What the rounds left.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seals {
    intact: [Option<Seal>; ROUNDS + 1],
    done: Option<u8>,
    damage: Option<&'static str>,
}

/// What recovery may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The page cache is believed, if all files sync; these are its stamps.
    PageCache(Vec<u8>),
    /// The stamps up to the cut.
    Cut(Vec<u8>),
    /// Durable data is damaged.
    Damaged(String),
}

impl Ring {
    fn read(disk: &Disk, seal: fn(u8) -> Place, done: Option<fn(u8) -> Place>) -> Ring {
        let mut ring = Ring::default();
        for (number, intact) in (0u8..).zip(&mut ring.intact) {
            *intact = disk.read_seal(seal(number));
            let done = done.map(|done| disk.read(done(number)));
            let done = done.filter(|done| *done != 0).map(|done| done - 1);
            let done = done.map(|done| u8::try_from(done).expect("a number"));
            ring.done = ring.done.max(done);
        }
        ring
    }

    /// The shadows stand by the parity of their rounds.
    fn shadows(disk: &Disk) -> Ring {
        let mut ring = Ring::read(disk, Place::Shadow, Some(Place::ShadowDone));
        for (number, seal) in ring.intact.iter_mut().enumerate() {
            *seal = seal.filter(|seal| usize::from(seal.round) == number);
        }
        ring
    }

    fn newest(&self) -> Option<Seal> {
        self.intact.iter().rev().copied().flatten().next()
    }

    fn newest_number(&self) -> Option<usize> {
        self.intact.iter().rposition(Option::is_some)
    }

    fn damage(&self, first: u8) -> Option<&'static str> {
        let newest = self.newest_number();
        let beyond = |done: &u8| *done >= first && Some(usize::from(*done)) > newest;
        if self.done.as_ref().is_some_and(beyond) {
            return Some("a round completed but its seal is not intact");
        }
        let hole = |number: usize| self.intact[number].is_none();
        (usize::from(first)..newest?)
            .any(hole)
            .then_some("a seal is not intact although another follows it")
    }

    /// Of this strip what follows `anchor`, with what the shadows know of it.
    fn after(&self, anchor: &Seal, shadows: &Ring) -> Ring {
        let follows = |seal: &Seal| seal.anchor == anchor.anchor && seal.round > anchor.round;
        let mut after = Ring {
            done: shadows.done,
            ..Ring::default()
        };
        for (at, seal) in after.intact.iter_mut().enumerate() {
            *seal = self.intact[at]
                .filter(follows)
                .or(shadows.intact[at].filter(follows));
        }
        after
    }
}

impl Seals {
    pub(crate) fn read(rule: &Rule, disk: &Disk) -> Seals {
        let mut seals = Seals::default();
        let anchors = Ring::read(disk, Place::Anchor, Some(Place::AnchorDone));
        let Some(newest) = anchors.newest() else {
            seals.damage = Some("no seal is intact");
            return seals;
        };
        seals.damage = anchors.damage(0);
        let shadows = match rule.recovery_reads_shadows {
            true => Ring::shadows(disk),
            false => Ring::default(),
        };
        let strips = [
            Ring::read(disk, |round| Place::Strip(0, round), None),
            Ring::read(disk, |round| Place::Strip(1, round), None),
        ];
        for (lane, strip) in strips.iter().enumerate() {
            let last = strip.intact.iter().flatten().map(|seal| seal.anchor).max();
            if last.is_some_and(|last| last > newest.anchor) {
                seals.note("a seal follows an anchor that is not intact");
            }
            if usize::from(newest.home) != lane + 1 {
                seals.take(strip);
            }
        }
        if let Some(home) = usize::from(newest.home).checked_sub(1) {
            let after = strips[home].after(&newest, &shadows);
            if let Some(damage) = after.damage(newest.round + 1) {
                seals.note(damage);
            }
            seals.take(&strips[home]);
        }
        seals.take(&shadows);
        let done = shadows.done;
        let done = done.filter(|done| seals.intact[usize::from(*done)].is_some());
        seals.done = seals.done.max(done);
        seals.take(&anchors);
        seals
    }

    fn note(&mut self, damage: &'static str) {
        self.damage.get_or_insert(damage);
    }

    /// Of a failed round the shadow says more than any other.
    fn take(&mut self, ring: &Ring) {
        let done = ring
            .done
            .and_then(|number| ring.intact[usize::from(number)]);
        self.done = self.done.max(done.map(|seal| seal.round));
        for seal in ring.intact.iter().flatten() {
            let known = &mut self.intact[usize::from(seal.round)];
            if !known.is_some_and(|known| known.failed) {
                *known = Some(*seal);
            }
        }
    }

    pub(crate) fn newest(&self) -> Option<Seal> {
        self.intact.iter().rev().copied().flatten().next()
    }

    /// `Case::judge_strictly`: `same_cache` says whether the token still holds.
    pub(crate) fn judge(&self, rule: &Rule, disk: &Disk, same_cache: bool) -> Verdict {
        if let Some(damage) = self.damage {
            return Verdict::Damaged(damage.to_owned());
        }
        let newest = self.newest().expect("no intact seal is damage");
        if same_cache
            && !newest.failed
            && let Some(stamps) = page_cache(disk, &newest)
        {
            return Verdict::PageCache(stamps);
        }
        let is_done = self.done.is_some_and(|done| done >= newest.round);
        if rule.recovery_lowers_the_cut
            && !is_done
            && let Some(before) = newest.round.checked_sub(1)
            && let Some(before) = self.intact[usize::from(before)]
        {
            return Verdict::Cut(up_to(disk, &before));
        }
        if !rule.recovery_checks_the_ends || !is_damaged(disk, &newest) {
            return Verdict::Cut(up_to(disk, &newest));
        }
        let found = format!("what {newest:?} covers");
        if newest.round == 0 || is_done {
            return Verdict::Damaged(found);
        }
        match self.intact[usize::from(newest.round - 1)] {
            Some(before) if !is_damaged(disk, &before) => Verdict::Cut(up_to(disk, &before)),
            _ => Verdict::Damaged(found),
        }
    }
}

/// The stamp of a lane's record.
pub(crate) fn record(disk: &Disk, lane: usize, at: usize) -> Option<u8> {
    let at = u8::try_from(at).expect("there are few");
    let stamp = disk.read(Place::Record(lane, at));
    (stamp != 0).then(|| u8::try_from(stamp).expect("stamps are few"))
}

/// The records of a lane, as far as none is missing.
fn lane(disk: &Disk, lane: usize) -> Vec<u8> {
    (0..RECORDS)
        .map_while(|at| record(disk, lane, at))
        .collect()
}

/// `Case::page_cache` before it syncs: all that is there, or nothing if something speaks against
/// the page cache.
fn page_cache(disk: &Disk, newest: &Seal) -> Option<Vec<u8>> {
    let mut stamps = Vec::new();
    for (at, end) in newest.ends.iter().enumerate() {
        let there = lane(disk, at);
        let mut behind = there.len()..RECORDS;
        if there.len() < usize::from(*end) || behind.any(|next| record(disk, at, next).is_some()) {
            return None;
        }
        stamps.extend(there);
    }
    stamps.sort_unstable();
    Some(stamps)
}

fn is_damaged(disk: &Disk, seal: &Seal) -> bool {
    (0..LANES).any(|at| lane(disk, at).len() < usize::from(seal.ends[at]))
}

/// The stamps of a cut: of each lane what the seal covers, up to its frontier.
fn up_to(disk: &Disk, seal: &Seal) -> Vec<u8> {
    let mut stamps: Vec<u8> = (0..LANES)
        .flat_map(|at| {
            let covered = lane(disk, at).into_iter().take(usize::from(seal.ends[at]));
            covered.filter(|stamp| *stamp <= seal.frontier)
        })
        .collect();
    stamps.sort_unstable();
    stamps
}
