//! A memtable's run becomes a table of level 0.
//!
//! One table per flush: the run of a memtable is bounded, and a compaction of level 0 takes all
//! that overlap anyway. Tombstones stay, whatever lies beneath: an older run may be on its way.

use crate::output::Output;
use crate::tree::Shared;
use velella_base::{Cursor, Entry, Result};
use velella_mvcc::Retention;
use velella_tree::{Built, Retain};

/// Writes the whole of `run`, less what `retention` drops.
pub(crate) fn build(shared: &Shared, run: &mut dyn Cursor, retention: &Retention) -> Result<Built> {
    let mut output = Output::new(shared, 0);
    let mut retain = Retain::new(retention, shared.options.table.order.clone());
    let bottom = |_: &[u8]| false;
    run.seek_first()?;
    while let Some(entry) = run.entry() {
        let mut sink = |entry: Entry<'_>, _| output.add(entry);
        retain.offer(entry, &bottom, &mut sink)?;
        run.next()?;
    }
    let retained = retain.finish();
    let finished = output.finish()?;
    crate::compaction::check_count(finished.files(), retained.entries_out)?;
    Ok(Built::new(finished.keep(), retained.dropped_externals))
}
