//! What everybody may know of a lane: how far it is complete, and where its bytes lie.
//!
//! D1. `tail` passes a lane offset only after every record below it is complete, and after the
//!     extent that holds it is entered in the spans.
//! D2. Spans stand in lane order; only the last can be open. They leave from the front, when a
//!     completed round excludes them.
//!
//! Threads: the tail is stored by the lane's holder; spans are entered by it too, seldom, under a
//! lock; everything is read by the coordinator.
//!
//! Tests: `tests/rounds.rs`, `tests/retention.rs`.

use crate::large::LargeFile;
use crate::ordering::{Site, is_sound, release};
use crate::segment::Segment;
use std::collections::VecDeque;
use std::sync::Arc;
use velella_base::Stamp;
use velella_sync::CachePadded;
use velella_sync::atomic::{AtomicU64, Ordering};
use velella_sync::lock::Mutex;

/// One lane's public side.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    progress: CachePadded<Progress>,
    /// Lane offset below which a round has handed the bytes to the device.
    handed: CachePadded<AtomicU64>,
    files: Mutex<Files>,
}

#[derive(Debug, Default)]
struct Progress {
    tail: AtomicU64,
    stamp: AtomicU64,
    records: AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct Files {
    pub(crate) spans: VecDeque<Span>,
    pub(crate) large: Vec<LargeSpan>,
}

/// An extent of the lane.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) segment: Arc<Segment>,
    /// Lane offset of its first record.
    pub(crate) start: u64,
    /// Once closed: lane offset of its end, and the highest stamp at or before it.
    pub(crate) closed: Option<(u64, Stamp)>,
}

/// A large file of the lane.
#[derive(Debug)]
pub(crate) struct LargeSpan {
    pub(crate) file: Arc<LargeFile>,
    /// Once closed: lane offset behind the last reference to it.
    pub(crate) closed: Option<u64>,
}

impl Ledger {
    /// A record is complete: everything below `tail` is.
    #[inline]
    pub(crate) fn commit(&self, tail: u64, stamp: Stamp) {
        let progress = &*self.progress;
        // Relaxed: statistics; only the holder writes them.
        let records = progress.records.load(Ordering::Relaxed) + 1;
        progress.records.store(records, Ordering::Relaxed);
        progress.stamp.store(stamp.0, Ordering::Relaxed);
        // Release, partner: the Acquire in `tail` (D1).
        progress.tail.store(tail, release(Site::Tail));
    }

    /// The lane goes on at `tail` although no record of a caller ended there.
    pub(crate) fn move_tail(&self, tail: u64) {
        // Release, partner: the Acquire in `tail` (D1).
        self.progress.tail.store(tail, Ordering::Release);
    }

    /// Everything below this lane offset is complete.
    #[inline]
    pub(crate) fn tail(&self) -> u64 {
        // Acquire, partners: `commit`, `move_tail`. J2: read after the frontier.
        self.progress.tail.load(Ordering::Acquire)
    }

    /// The stamp of the last record.
    pub(crate) fn stamp(&self) -> Stamp {
        // Relaxed: statistics.
        Stamp(self.progress.stamp.load(Ordering::Relaxed))
    }

    pub(crate) fn records(&self) -> u64 {
        // Relaxed: statistics.
        self.progress.records.load(Ordering::Relaxed)
    }

    /// A round is about to sync everything below `end`.
    pub(crate) fn hand_over(&self, end: u64) {
        // Relaxed: it only tells the lane to leave the page; a record already reserved may still
        // be completed there, beyond `end`.
        self.handed.store(end, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn handed(&self) -> u64 {
        // Relaxed: see `hand_over`.
        self.handed.load(Ordering::Relaxed)
    }

    pub(crate) fn files(&self) -> velella_sync::lock::MutexGuard<'_, Files> {
        self.files.lock()
    }
}

impl Files {
    /// Where the seal may let the lane start: behind the extents that hold no stamp at or above
    /// `floor` and are complete below `end`.
    pub(crate) fn start(&self, floor: Stamp, end: u64) -> u64 {
        let Some(first) = self.spans.front() else {
            return end;
        };
        self.spans
            .iter()
            .map_while(|span| span.closed)
            .take_while(|&(span_end, stamp)| {
                stamp < floor && (span_end <= end || !is_sound(Site::ExcludedEnd))
            })
            .last()
            .map_or(first.start, |(span_end, _)| span_end)
    }

    /// Drops what lies below `start`, which a completed round excludes; returns large files to
    /// delete.
    pub(crate) fn exclude(&mut self, start: u64) -> Vec<Arc<LargeFile>> {
        while let Some(span) = self.spans.front()
            && span.closed.is_some_and(|(end, _)| end <= start)
        {
            span.segment.let_go();
            self.spans.pop_front();
        }
        let (gone, kept) = std::mem::take(&mut self.large)
            .into_iter()
            .partition(|large: &LargeSpan| large.closed.is_some_and(|end| end <= start));
        self.large = kept;
        gone.into_iter().map(|large| large.file).collect()
    }

    /// Segments with bytes in `[from, to)`.
    pub(crate) fn segments(&self, from: u64, to: u64) -> impl Iterator<Item = &Arc<Segment>> {
        self.spans
            .iter()
            .filter(move |span| {
                let end = span.closed.map_or(u64::MAX, |(end, _)| end);
                span.start < to && end > from
            })
            .map(|span| &span.segment)
    }
}
