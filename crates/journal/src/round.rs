//! Sync rounds: frontier, ends, seal, sync, D.
//!
//! N1. The order of J2: first the frontier, then the lanes' ends, then the seal, then the syncs,
//!     then D. Ends read before the frontier would miss records below it.
//!     External values come before the seal: recovery checks the records a seal vouches for, but
//!     not the files these refer to.
//! N2. Rounds are strictly sequential: one lock, held from the frontier to the done marker. D goes
//!     from where it is to the round's first frontier, or stays: the caller prunes by that.
//! N3. The done marker is written after the syncs returned, always into the seal file, and is
//!     itself synced only by a round that writes an anchor, or when asked. Syncing a segment for
//!     it could fail and take away records that no seal tells of yet.
//! N4. Any error poisons the journal; no sync is repeated (J5).
//! N5. What a round excludes leaves the spans only after it completed (J6).
//! N6. A seal goes into the strip of its home, if the round syncs that segment anyway: then there
//!     is one file to sync. Otherwise it is an anchor, and the newest segment the round syncs is
//!     the next home. A home is held until the anchor that names another one is durable. What a
//!     failed sync takes away from a segment, the shadow of the seal still tells of.
//! N7. After the syncs of a round failed, the seal file says so, with a frontier of then and how
//!     far the lanes had come. Any part of what is beyond may be gone, so it does not count; of
//!     what is below, a part that is gone is missed. Where it was an external value's, the
//!     frontier is D: nothing would miss a part of that. A seal that D was raised for is never
//!     written again: it would vouch for what is not durable.
//! N8. While nobody waits for a round but the background work that runs it, its files are synced
//!     one after the other: threads that sync take the processors of those that write, for
//!     milliseconds each. From the moment that somebody asks for a round, what is left is synced
//!     at once.
//!
//! Threads: any; N2.
//!
//! Tests: `tests/rounds.rs`, `tests/crashes.rs`, `tests/failed_sync.rs`.

use crate::core::Core;
use crate::large::LargeFile;
use crate::ordering::{Site, is_sound};
use crate::seal::Seal;
use crate::seal_file::SealFile;
use crate::segment::Segment;
use std::collections::BTreeMap;
use std::sync::Arc;
use velella_base::{ErrorKind, Result, Stamp, seeded};
use velella_sync::thread;
use velella_vfs::WriteFile;

/// More files than this are synced by several threads, where somebody waits (N8): a segment and the
/// seal file at once cost one flush of the device instead of two (here 0.4 instead of 5 ms). loom
/// has no threads that borrow.
const SYNC_ALONE_MAX: usize = if cfg!(loom) { usize::MAX } else { 1 };
/// Most threads that sync at once.
const SYNC_THREADS: usize = 8;

/// What rounds carry on from one to the next.
#[derive(Debug)]
pub(crate) struct Rounds {
    seals: SealFile,
    /// The last completed round.
    last: u64,
    /// Its `[start, end)` per lane.
    lanes: Vec<(u64, u64)>,
    /// The last anchor's number.
    anchor: u64,
    /// What it named (N6).
    home: Option<Arc<Segment>>,
    /// Its done marker is not synced.
    done_unsynced: bool,
}

/// Where a seal stands.
#[derive(Debug, Clone)]
enum Place {
    /// In the seal file, under this number.
    Anchor(u64),
    /// In the strip of the home.
    Strip(Arc<Segment>),
}

/// A file with something to sync.
enum Dirty<'a> {
    Segment(Arc<Segment>),
    Large(Arc<LargeFile>),
    External(Box<dyn WriteFile>),
    Seals(&'a SealFile),
}

impl Dirty<'_> {
    fn sync(&self) -> Result<()> {
        match self {
            Dirty::Segment(_) if seeded("a-round-does-not-sync-segments") => Ok(()),
            Dirty::Seals(_) if seeded("a-round-does-not-sync-its-seal") => Ok(()),
            Dirty::Segment(segment) => segment.sync_data(),
            Dirty::Large(file) => file.sync_data(),
            Dirty::External(file) => file.sync_data(),
            Dirty::Seals(seals) => seals.sync_data(),
        }
        // Whoever waited for it has written something, which `NoSpace` would deny.
        .map_err(|error| match error.kind() {
            ErrorKind::NoSpace => error.with_kind(ErrorKind::Io),
            _ => error,
        })
    }
}

/// How a round ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// More rounds follow.
    Open,
    /// The journal is closed with it.
    Closed,
}

impl Rounds {
    /// Round 0 is seal 0.
    pub(crate) fn new(seals: SealFile, lanes: usize) -> Rounds {
        Rounds {
            seals,
            last: 0,
            lanes: vec![(0, 0); lanes],
            anchor: 0,
            home: None,
            done_unsynced: false,
        }
    }

    /// One round (N1). Returns D. `is_awaited` is asked while several files are left (N8).
    pub(crate) fn run(
        &mut self,
        core: &Core,
        frontier: impl Fn() -> Stamp,
        ending: Ending,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<Stamp> {
        core.poison.check()?;
        // A slot may announce an old lower bound, so a frontier can be below the last one. What D
        // covers was published before, so it lies below the ends read next: the seal never says
        // less, and neither does the cut (J3).
        let durable = core.durable();
        let spoiled = (!is_sound(Site::EndsLast)).then(|| lane_ranges(core));
        let bound = match is_sound(Site::SealFrontier) {
            true => frontier().max(durable),
            false => frontier(),
        };
        let lanes = spoiled.unwrap_or_else(|| lane_ranges(core));
        let excludes_more = lanes
            .iter()
            .zip(&self.lanes)
            .any(|(now, last)| now.0 > last.0);
        if ending == Ending::Open && bound <= durable && !excludes_more {
            return Ok(durable);
        }
        let done = self.complete(core, bound, &frontier, lanes, ending, is_awaited);
        core.poison_on_error(done)?;
        Ok(core.durable())
    }

    fn complete(
        &mut self,
        core: &Core,
        bound: Stamp,
        frontier: &dyn Fn() -> Stamp,
        lanes: Vec<(u64, u64)>,
        ending: Ending,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<()> {
        let round = self.last + 1;
        velella_sync::spot(60);
        let externals = externals(core);
        let early = seeded("a-seal-is-written-before-its-external-values");
        let mut seal = Seal {
            round,
            frontier: bound,
            wall_ms: thread::wall_ms(),
            closed: ending == Ending::Closed,
            failed: false,
            // Of what was durable before the seal: it is never ahead of the caller's log.
            note: core.config.note.as_ref().map_or(0, |note| note()),
            anchor: 0,
            home: 0,
            lanes,
        };
        if !early && let Err(error) = sync_all(core, &externals, is_awaited) {
            core.stop(error.clone());
            self.leave_word(core, core.durable(), &self.place(&[], ending), seal);
            return Err(error);
        }
        let dirty = self.dirty(core, &seal.lanes);
        let place = self.place(&dirty, ending);
        let home = next_home(&place, &dirty, ending);
        seal.anchor = self.anchor_of(&place);
        seal.home = home.as_ref().map_or(0, |home| home.number);
        self.write_seal(&place, &seal)?;
        if early {
            sync_all(core, &externals, is_awaited)?;
        }
        velella_sync::spot(61);
        if !is_sound(Site::SyncFirst) || seeded("the-durable-stamp-is-ahead-of-the-sync") {
            core.raise_durable(seal.frontier);
        }
        if !is_sound(Site::ExcludeLast) {
            exclude(core, &seal.lanes);
        }
        let done_first = core.config.ack_after_done || ending == Ending::Closed;
        if let Err(error) = self.sync(core, dirty, &place, is_awaited) {
            core.stop(error.clone());
            // External values that nobody synced must not lie below what it vouches for (N1).
            // None comes while its frontier is read.
            let externals = core.externals.lock();
            let reached = match externals.is_empty() {
                true => frontier().max(bound),
                false => bound,
            };
            drop(externals);
            self.leave_word(core, reached, &place, seal);
            return Err(error);
        }
        self.announce(core, &place, &seal, done_first)?;
        self.last = round;
        self.lanes = seal.lanes;
        self.settle(&place, home);
        self.done_unsynced = !done_first;
        core.rounds.increment();
        exclude(core, &self.lanes);
        Ok(())
    }

    /// Raises D: everything is synced. From here on the seal stays as it is.
    fn announce(&self, core: &Core, place: &Place, seal: &Seal, done_first: bool) -> Result<()> {
        if done_first {
            self.write_done(place, seal.round)?;
            self.seals.sync_data()?;
            core.syncs.increment();
        }
        core.raise_durable(seal.frontier);
        if !done_first {
            self.write_done(place, seal.round)?;
        }
        Ok(())
    }

    /// A sync failed, and of what it was to cover any part may be gone from the page cache, the
    /// seal too. Writes it once more into the seal file, with all that is complete now that nobody
    /// begins a record any more, up to `reached` (N7). Who had begun one may still complete it, of
    /// which a part is gone; so what is beyond does not count. If even this write fails, nothing is
    /// left to try.
    fn leave_word(&self, core: &Core, reached: Stamp, place: &Place, mut seal: Seal) {
        seal.anchor = self.anchor_of(place);
        seal.frontier = reached;
        for ((_, end), ledger) in seal.lanes.iter_mut().zip(&core.ledgers) {
            *end = ledger.tail();
        }
        (seal.closed, seal.failed) = (false, true);
        let _ = match place {
            Place::Anchor(_) => self.seals.write(&seal),
            Place::Strip(_) => self.seals.write_shadow(&seal),
        };
    }

    /// Where the seal of a round goes that syncs these files (N6).
    fn place(&self, dirty: &[Dirty<'_>], ending: Ending) -> Place {
        match &self.home {
            Some(home)
                if ending == Ending::Open && segments(dirty).any(|s| s.number == home.number) =>
            {
                Place::Strip(Arc::clone(home))
            }
            _ => Place::Anchor(self.anchor + 1),
        }
    }

    /// The number of the last anchor, which may be the seal at `place`.
    fn anchor_of(&self, place: &Place) -> u64 {
        match place {
            Place::Anchor(number) => *number,
            Place::Strip(_) => self.anchor,
        }
    }

    fn write_seal(&self, place: &Place, seal: &Seal) -> Result<()> {
        match place {
            Place::Anchor(_) => self.seals.write(seal),
            Place::Strip(home) => {
                self.seals.write_shadow(seal)?;
                home.write_seal(seal)
            }
        }
    }

    fn write_done(&self, place: &Place, round: u64) -> Result<()> {
        match place {
            Place::Anchor(number) => self.seals.write_done(*number),
            Place::Strip(_) => self.seals.write_shadow_done(round),
        }
    }

    /// Syncs what the round covers, its seal with it.
    fn sync<'a>(
        &'a self,
        core: &Core,
        mut dirty: Vec<Dirty<'a>>,
        place: &Place,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<()> {
        if matches!(place, Place::Anchor(_)) {
            dirty.push(Dirty::Seals(&self.seals));
        }
        sync_all(core, &dirty, is_awaited)
    }

    /// The round completed: from its anchor on, another segment is home (N6).
    fn settle(&mut self, place: &Place, home: Option<Arc<Segment>>) {
        let Place::Anchor(number) = place else {
            return;
        };
        self.anchor = *number;
        if let Some(home) = &home {
            home.hold();
        }
        if let Some(left) = std::mem::replace(&mut self.home, home) {
            left.let_go();
        }
    }

    /// Everything that changed below the ends since the last round, but for its seal; tells the
    /// lanes to leave their pages.
    fn dirty(&self, core: &Core, lanes: &[(u64, u64)]) -> Vec<Dirty<'static>> {
        let mut segments = BTreeMap::new();
        let mut dirty = Vec::new();
        for (ledger, (&(_, end), &(_, last))) in
            core.ledgers.iter().zip(lanes.iter().zip(&self.lanes))
        {
            if end == last {
                continue;
            }
            ledger.hand_over(end);
            let files = ledger.files();
            for segment in files.segments(last, end) {
                segments.insert(segment.number, Arc::clone(segment));
            }
            let large = files.large.iter().map(|span| &span.file);
            dirty.extend(
                large
                    .filter(|file| file.is_dirty())
                    .map(|file| Dirty::Large(Arc::clone(file))),
            );
        }
        dirty.extend(segments.into_values().map(Dirty::Segment));
        dirty
    }

    /// Syncs the last done marker (N3).
    pub(crate) fn sync_done(&mut self, core: &Core) -> Result<()> {
        core.poison.check()?;
        if self.done_unsynced {
            let synced = self.seals.sync_data();
            core.poison_on_error(synced)?;
            core.syncs.increment();
            self.done_unsynced = false;
        }
        Ok(())
    }
}

/// The segments among the files.
fn segments<'a>(dirty: &'a [Dirty<'_>]) -> impl Iterator<Item = &'a Arc<Segment>> {
    dirty.iter().filter_map(|dirty| match dirty {
        Dirty::Segment(segment) => Some(segment),
        _ => None,
    })
}

/// What a seal names as home: where it stands, or as an anchor the newest segment of its round.
fn next_home(place: &Place, dirty: &[Dirty<'_>], ending: Ending) -> Option<Arc<Segment>> {
    match place {
        Place::Strip(home) => Some(Arc::clone(home)),
        Place::Anchor(_) if ending == Ending::Closed => None,
        Place::Anchor(_) => segments(dirty).last().map(Arc::clone),
    }
}

/// Lets go of what a completed round excludes (N5).
fn exclude(core: &Core, lanes: &[(u64, u64)]) {
    for (ledger, &(start, _)) in core.ledgers.iter().zip(lanes) {
        let gone = ledger.files().exclude(start);
        for large in gone {
            core.inventory.doom(large.path());
        }
    }
    core.inventory.retire();
}

/// The external values of the records below the ends, which were read before (N1).
fn externals(core: &Core) -> Vec<Dirty<'static>> {
    let externals = std::mem::take(&mut *core.externals.lock());
    externals.into_iter().map(Dirty::External).collect()
}

/// `[start, end)` of every lane, ends first (N1).
fn lane_ranges(core: &Core) -> Vec<(u64, u64)> {
    let floor = core.floor();
    core.ledgers
        .iter()
        .map(|ledger| {
            let end = ledger.tail();
            (ledger.files().start(floor, end), end)
        })
        .collect()
}

/// N8.
fn sync_all(core: &Core, dirty: &[Dirty<'_>], is_awaited: &dyn Fn() -> bool) -> Result<()> {
    core.syncs.add(dirty.len() as u64);
    let mut left = dirty;
    while let [next, others @ ..] = left {
        if left.len() > SYNC_ALONE_MAX && is_awaited() {
            return sync_at_once(core, left);
        }
        next.sync()?;
        left = others;
    }
    Ok(())
}

fn sync_at_once(core: &Core, dirty: &[Dirty<'_>]) -> Result<()> {
    let share = dirty.len().div_ceil(SYNC_THREADS);
    let (own, others) = dirty.split_at(share);
    let sync = |files: &[Dirty<'_>]| files.iter().try_for_each(Dirty::sync);
    thread::scope(|scope| {
        let threads: Vec<_> = others
            .chunks(share)
            .map(|files| {
                // Where no thread can be started, this one does the work.
                thread::spawn_scoped(scope, "velella-sync", move || sync(files))
                    .inspect(|_| core.sync_threads.increment())
                    .map_err(|_| files)
            })
            .collect();
        let mut result = sync(own);
        for thread in threads {
            let synced = match thread {
                Ok(thread) => thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(files) => sync(files),
            };
            result = result.and(synced);
        }
        result
    })
}
