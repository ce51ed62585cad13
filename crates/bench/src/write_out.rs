//! Writing what a memtable holds as a table: how much does the order in its memory matter?
//!
//! Source: S3 (VLDB '19) 6.7, figure 17, which sets its index beside a skip list and beside an
//! array that is sorted already. Here the array is made of the store's own entries, so that both
//! write the same table.
//!
//! O1. Each table is checked: as many entries as records, and from the array one as long.
//!
//! Threads: one. Tests: `tests/run.rs`.

use crate::failure::{Failure, Outcome};
use crate::message::Task;
use crate::result::{Latencies, Measurement, Spread, float};
use crate::spec::Spec;
use crate::store::{SeeEntry, Store};
use std::collections::BTreeMap;
use std::time::Instant;
use velella_base::checksum::Context;
use velella_base::{Entry, Result, Stamp, ValueKind};
use velella_sst::{TableBuilder, TableMeta, TableOptions};
use velella_vfs::{OsFs, Vfs};

/// Writes what `store` holds so many `times`, and as often what an array holds.
pub(crate) fn measure(
    store: &dyn Store,
    name: &str,
    task: &Task,
    spec: &Spec,
    times: u64,
) -> Outcome<Measurement> {
    let mut array = Array::default();
    let is_memtable = store.entries(&mut |entry| {
        array.push(entry);
        Ok(())
    })?;
    if !is_memtable {
        return Err(Failure::Unfit {
            store: name.to_owned(),
            lacks: "memtable alone, to be written out".to_owned(),
        });
    }
    let (mut walks, mut own, mut arrays) = (Vec::new(), Vec::new(), Vec::new());
    let mut bytes = 0;
    for _ in 0..times {
        walks.push(walk(store)?);
        let (seconds, table) = written(task, |sink| store.entries(sink).map(drop))?;
        own.push(seconds);
        let (seconds, same) = written(task, |sink| {
            let written = array.entries(sink);
            written.map_err(|error| Failure::store(name, "write a table", error))
        })?;
        arrays.push(seconds);
        let entries = table.entries();
        if entries != spec.records || table.bytes != same.bytes {
            let found = format!(
                "it wrote {entries} of {} entries, {} B, of which an array made {} B",
                spec.records, table.bytes, same.bytes
            );
            return Err(Failure::WrongAnswer {
                store: name.to_owned(),
                found,
            });
        }
        bytes = table.bytes;
    }
    let median = |seconds: Vec<f64>| Spread::of(seconds).map_or(0.0, |spread| spread.median);
    let each = |seconds: f64| seconds * 1e9 / float(spec.records.max(1));
    let (walk, own, array) = (median(walks), median(own), median(arrays));
    let figures = [
        ("walk_ns_an_entry", each(walk)),
        ("write_ns_an_entry", each(own)),
        ("array_write_ns_an_entry", each(array)),
        ("table_bytes", float(bytes)),
    ];
    Ok(Measurement {
        benchmark: spec.name.clone(),
        store: name.to_owned(),
        threads: task.threads,
        round: task.round,
        operations: spec.records,
        seconds: own,
        bytes_put: 0,
        found: 0,
        missed: 0,
        checked: times * 2,
        latencies: Latencies::default(),
        latencies_by_operation: BTreeMap::new(),
        meters: BTreeMap::new(),
        counters: BTreeMap::new(),
        figures: figures.map(|(name, value)| (name.to_owned(), value)).into(),
    })
}

/// Seconds to pass all entries, nothing being done with them.
fn walk(store: &dyn Store) -> Outcome<f64> {
    let start = Instant::now();
    let mut seen = 0;
    store.entries(&mut |entry| {
        seen += entry.key.len() + entry.value.len();
        Ok(())
    })?;
    std::hint::black_box(seen);
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds to write what `entries` gives as a table, the sync at its end left out, and the table.
fn written(
    task: &Task,
    entries: impl FnOnce(SeeEntry<'_>) -> Outcome<()>,
) -> Outcome<(f64, TableMeta)> {
    let path = task.dir.join("written-out.sst");
    let failed = |error| Failure::file("write", &path, error);
    let file = OsFs::new().create(&path).map_err(failed)?;
    let context = Context {
        database: 0,
        file: 1,
    };
    let mut builder = TableBuilder::new(file, context, TableOptions::default());
    let start = Instant::now();
    // Blocks are compressed and given to the system here; the rest of a flush is not timed.
    entries(&mut |entry| builder.add(entry))?;
    let seconds = start.elapsed().as_secs_f64();
    let table = builder.finish().map_err(failed)?;
    OsFs::new().remove(&path).map_err(failed)?;
    Ok((seconds, table))
}

/// Entries one after another in one piece of memory.
#[derive(Default)]
struct Array {
    bytes: Vec<u8>,
    /// Where each ends: its key, its value; and what else it is.
    entries: Vec<(usize, usize, Stamp, ValueKind)>,
}

impl Array {
    fn push(&mut self, entry: Entry<'_>) {
        self.bytes.extend_from_slice(entry.key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(entry.value);
        let end = self.bytes.len();
        self.entries.push((key_end, end, entry.stamp, entry.kind));
    }

    fn entries(&self, sink: SeeEntry<'_>) -> Result<()> {
        let mut begin = 0;
        for &(key_end, end, stamp, kind) in &self.entries {
            sink(Entry {
                key: &self.bytes[begin..key_end],
                stamp,
                kind,
                value: &self.bytes[key_end..end],
            })?;
            begin = end;
        }
        Ok(())
    }
}
