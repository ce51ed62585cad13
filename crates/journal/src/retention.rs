//! What of the journal is still needed.
//!
//! Source of J6: a segment goes by the stamps in it, never by its age.
//!
//! T1. `floor` says which stamps are in tables; the next round's seal excludes the extents that
//!     hold only such stamps; when that round completed, segments without other extents are
//!     retired.
//! T2. Lanes are asked to leave a segment when nothing but open extents keeps it; large files they
//!     leave by themselves (`large.rs`, L4).
//! T3. Large files count as journal like segments, so its bound holds whatever the size of values.
//!
//! Tests: `tests/retention.rs`, `tests/large.rs`.

use crate::core::Core;
use std::collections::BTreeMap;
use velella_base::Stamp;

/// What is kept because its stamps are not in tables yet.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Pinned {
    /// Bytes of segments and large files with stamps at or above the floor.
    pub(crate) bytes: u64,
    /// The least of their highest stamps: up to there, flushing frees the first of them.
    pub(crate) oldest: Option<Stamp>,
}

/// What is known of a segment by the spans in it.
#[derive(Debug, Default, Clone, Copy)]
struct Content {
    /// Its length.
    bytes: u64,
    /// The highest stamp of its extents.
    stamp: Stamp,
    /// Some extent in it is open.
    open: bool,
    /// Some closed extent holds a stamp at or above the floor.
    needed: bool,
    /// Some extent, closed or not, does.
    unflushed: bool,
}

fn contents(core: &Core) -> BTreeMap<u64, Content> {
    let floor = core.floor();
    let mut segments: BTreeMap<u64, Content> = BTreeMap::new();
    for ledger in &core.ledgers {
        let (tail, last) = (ledger.tail(), ledger.stamp());
        for span in &ledger.files().spans {
            let content = segments.entry(span.segment.number).or_default();
            let (stamp, written) = match span.closed {
                Some((_, stamp)) => (stamp, true),
                None => (last, tail > span.start),
            };
            content.bytes = span.segment.bytes;
            content.stamp = content.stamp.max(stamp);
            content.open |= span.closed.is_none();
            content.needed |= span.closed.is_some() && stamp >= floor;
            content.unflushed |= written && stamp >= floor;
        }
    }
    segments
}

/// Asks lanes to leave segments that only open extents keep (T2).
pub(crate) fn ask_lanes_to_move(core: &Core) {
    let current = core.inventory.current();
    let old = contents(core)
        .into_iter()
        .take_while(|(number, content)| Some(*number) != current && !content.needed)
        .filter(|(_, content)| content.open)
        .last();
    if let Some((number, _)) = old {
        core.raise_move_below(number + 1);
    }
}

/// What is kept because its stamps are not in tables yet.
pub(crate) fn pinned(core: &Core) -> Pinned {
    let segment = |content: Content| (content.stamp, content.bytes);
    let segments = contents(core).into_values().filter(|c| c.unflushed);
    let mut unflushed: Vec<(Stamp, u64)> = segments.map(segment).collect();
    let floor = core.floor();
    for ledger in &core.ledgers {
        let files = ledger.files();
        let large = files.large.iter().map(|span| &span.file);
        // A file nothing refers to yet has stamp 0, and goes at the next opening at the latest.
        let needed = large.filter(|file| file.stamp() >= floor.max(Stamp(1)));
        unflushed.extend(needed.map(|file| (file.stamp(), file.len())));
    }
    Pinned {
        bytes: unflushed.iter().map(|(_, bytes)| bytes).sum(),
        oldest: unflushed.iter().map(|(stamp, _)| *stamp).min(),
    }
}
