//! The records of all lanes by ascending stamp.
//!
//! M1. Stamps of a lane ascend, so one record a lane stands in the heap, without its payload.
//! M2. Records above the cut are counted and not handed out, wherever they stand (J3).
//! M3. Records that nobody needs any more, below where the caller said, are counted and passed: a
//!     lane keeps its extents whole, and much of the first ones may long be in tables.
//!
//! Tests: `tests/crashes.rs`; M3 in `tests/retention.rs`.

use super::catalog::Catalog;
use super::judge::Case;
use super::reader::{LaneReader, Tail};
use super::report::{Last, Report, Rule};
use super::seals::{Seals, Word};
use super::source::Source;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::Path;
use std::sync::Arc;
use velella_base::file_name::FileName;
use velella_base::{DatabaseId, Result, Stamp, seeded};
use velella_vfs::Vfs;

/// One recovered record.
#[derive(Debug)]
pub struct Record<'a> {
    /// When it was written.
    pub stamp: Stamp,
    /// What was passed to `Lane::reserve`.
    pub payload: &'a [u8],
}

/// The journal of the last incarnation, being read.
#[derive(Debug)]
pub struct Recovery {
    lanes: Vec<LaneReader>,
    heap: BinaryHeap<Reverse<(Stamp, usize)>>,
    /// The lane whose record was handed out last.
    current: Option<usize>,
    /// Records below are not needed (M3).
    needed_from: Stamp,
    large: Vec<u8>,
    report: Report,
    /// To be left should the page cache be believed and turn out not to be writable.
    word: Option<(Arc<dyn Vfs>, Word)>,
}

impl Recovery {
    /// Judges the last incarnation (which rule, which cut). Reads seals and records, holds no
    /// records in memory. Writes nothing.
    ///
    /// # Errors
    /// `Corruption`: durable data is damaged, with file and offset. `Io`.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        database: DatabaseId,
        last: &Last,
    ) -> Result<Recovery> {
        let mut report = Report {
            loss_accepted: last.accept_loss,
            ..Report::default()
        };
        let source = Source::of(&*vfs, last);
        let seals = match Seals::read(&source, dir, database, last) {
            Err(error)
                if last.accept_loss && error.kind() == velella_base::ErrorKind::Corruption =>
            {
                let note = format!("damage, loss accepted: {error}; nothing was taken");
                report.notes.push(note);
                report.notes.extend(source.told());
                return Ok(Recovery::empty(report));
            }
            other => other?,
        };
        let catalog = Catalog::read(&source, dir, database, last, &seals)?;
        let case = Case {
            vfs: &*vfs,
            source: &source,
            dir,
            database,
            last,
            seals: &seals,
            catalog: &catalog,
        };
        let verdict = case.judge(&mut report)?;
        report.notes.extend(source.told());
        report.rule = verdict.rule;
        report.cut = match verdict.rule {
            Rule::CleanClose => Stamp::MAX,
            _ => verdict.cut,
        };
        let lanes = verdict.lanes.iter().enumerate();
        let lanes: Vec<_> = lanes
            .map(|(lane, &(start, limit))| case.reader(lane, start, limit))
            .collect();
        let seal_file = FileName::Seal(last.start.seal_file).path(dir);
        let word = match verdict.rule {
            Rule::PageCache => seals.word(&seal_file),
            _ => None,
        };
        let mut recovery = Recovery {
            lanes,
            word: word.map(|word| (Arc::clone(&vfs), word)),
            ..Recovery::empty(report)
        };
        for lane in 0..recovery.lanes.len() {
            recovery.advance(lane)?;
        }
        Ok(recovery)
    }

    fn empty(report: Report) -> Recovery {
        Recovery {
            lanes: Vec::new(),
            heap: BinaryHeap::new(),
            current: None,
            needed_from: Stamp::ZERO,
            large: Vec::new(),
            report,
            word: None,
        }
    }

    /// Bytes of the lanes that are still to be read: about what records take, large payloads aside.
    #[must_use]
    pub fn bytes_left(&self) -> u64 {
        self.lanes.iter().map(LaneReader::bytes_left).sum()
    }

    /// A file that records refer to could not be synced: leaves word of it for who recovers next
    /// while the page cache is the same. He would find it synced, and a part of it may be gone.
    pub fn note_failed_sync(&self) {
        if let Some((vfs, word)) = &self.word {
            word.leave(&**vfs);
        }
    }

    /// Records below `stamp` are in tables: they are passed, whatever they hold (M3). To be said
    /// before the first record is asked for.
    pub fn skip_below(&mut self, stamp: Stamp) {
        self.needed_from = stamp;
    }

    /// The next record by ascending stamp (a merge of the lanes), within bounded memory.
    ///
    /// # Errors
    /// As [`Recovery::open`].
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>> {
        if let Some(lane) = self.current.take() {
            self.advance(lane)?;
        }
        let (stamp, lane) = loop {
            let Some(Reverse((stamp, lane))) = self.heap.pop() else {
                return Ok(None);
            };
            if stamp < self.needed_from {
                // Its lane's first, which stood there before the caller said what he needs.
                self.pass(lane, stamp)?;
            } else if stamp <= self.report.cut || seeded("recovery-reads-beyond-the-cut") {
                break (stamp, lane);
            } else {
                self.discard(lane)?;
            }
            self.advance(lane)?;
        };
        self.current = Some(lane);
        let payload = self.lanes[lane].payload(&mut self.large)?;
        self.report.records += 1;
        self.report.bytes += payload.len() as u64;
        Ok(Some(Record { stamp, payload }))
    }

    /// Where the record stands that was handed out last, or the reference to it: its file, and the
    /// offset there.
    #[must_use]
    pub fn place(&self) -> Option<(&Path, u64)> {
        self.lanes[self.current?].place()
    }

    /// Puts the lane's next record that is needed into the heap.
    fn advance(&mut self, lane: usize) -> Result<()> {
        while let Some(stamp) = self.lanes[lane].advance()? {
            if stamp >= self.needed_from {
                self.heap.push(Reverse((stamp, lane)));
                return Ok(());
            }
            self.pass(lane, stamp)?;
        }
        let reader = &self.lanes[lane];
        if let Some(Tail::Damaged(error)) = &reader.tail {
            return Err(error.clone());
        }
        if !reader.is_at_limit() {
            // It was judged to go on: what was read then cannot be read any more.
            return Err(reader.corruption("the lane ends here, and went on when it was checked"));
        }
        self.count_rest(lane);
        Ok(())
    }

    /// Counts the lane's record, which nobody needs (M3).
    fn pass(&mut self, lane: usize, stamp: Stamp) -> Result<()> {
        if stamp > self.report.cut {
            return self.discard(lane);
        }
        self.report.records += 1;
        self.report.bytes += self.lanes[lane].payload_len()?;
        Ok(())
    }

    fn discard(&mut self, lane: usize) -> Result<()> {
        self.report.discarded_records += 1;
        self.report.discarded_bytes += self.lanes[lane].payload_len()?;
        Ok(())
    }

    /// Counts what stands complete behind the lane's limit, as far as it can be read.
    fn count_rest(&mut self, lane: usize) {
        if self.report.rule != Rule::Cut {
            return;
        }
        self.lanes[lane].lift_limit();
        while let Ok(Some(_)) = self.lanes[lane].advance() {
            let valid = self.lanes[lane].payload(&mut self.large).is_ok();
            if !valid || self.discard(lane).is_err() {
                break;
            }
        }
        self.lanes[lane].end();
    }

    /// The report; complete once `next_record` returned `None`.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }
}
