//! What of the journal is still needed.
//!
//! Source of J6: a segment goes by the stamps in it, never by its age.
//!
//! T1. `floor` says which stamps are in tables; the next round's seal excludes the extents that
//!     hold only such stamps; when that round completed, segments without other extents are
//!     retired.
//! T2. Lanes are asked to leave a segment when nothing but open extents keeps it.
//!
//! Tests: `tests/retention.rs`.

use crate::core::Core;
use std::collections::BTreeMap;
use velella_base::Stamp;

/// What keeps the segments that are in use.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Pinned {
    /// Bytes of the segments with stamps at or above the floor.
    pub(crate) bytes: u64,
    /// The highest stamp in the oldest segment.
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

/// What keeps the segments that are in use.
pub(crate) fn pinned(core: &Core) -> Pinned {
    let contents = contents(core);
    Pinned {
        bytes: contents
            .values()
            .filter(|content| content.unflushed)
            .map(|content| content.bytes)
            .sum(),
        oldest: contents.values().next().map(|content| content.stamp),
    }
}
