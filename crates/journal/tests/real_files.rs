//! The same on the machine's own file system: mapped where it may be, and by `write`.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::*;
use std::path::Path;
use std::sync::Arc;
use velella_base::Stamp;
use velella_journal::{Access, Journal, Last, Recovery, Rule};
use velella_vfs::{MemFs, OsFs, Vfs};

fn recover(dir: &Path, last: &Last) -> (Rule, Vec<u64>) {
    let vfs: Arc<dyn Vfs> = Arc::new(OsFs::new());
    let mut recovery = Recovery::open(vfs, dir, DATABASE, last).unwrap();
    let mut stamps = Vec::new();
    while let Some(record) = recovery.next_record().unwrap() {
        stamps.push(record.stamp.0);
    }
    (recovery.report().rule, stamps)
}

#[test]
fn a_run_that_just_ends_is_recovered_from_real_files() {
    for access in [Access::Auto, Access::Write] {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(Arc::new(MemFs::new()), 1, 2);
        config.vfs = Arc::new(OsFs::new());
        config.dir = dir.path().to_path_buf();
        config.access = access;
        let (journal, mut lanes, start) = Journal::create(config, Stamp::ZERO).unwrap();
        for stamp in 1..=3000u64 {
            let lane = &mut lanes[usize::try_from(stamp % 2).unwrap()];
            let len = if stamp % 500 == 0 { 70_000 } else { 150 };
            lane.reserve(&[&payload(stamp, len)]).unwrap();
            lane.commit(Stamp(stamp)).unwrap();
            if stamp % 700 == 0 {
                assert_eq!(journal.round(|| Stamp(stamp)).unwrap(), Stamp(stamp));
            }
        }
        drop((journal, lanes));
        let mut last = Last {
            incarnation: 1,
            start,
            durable: Stamp::ZERO,
            assume_power_loss: false,
            accept_loss: false,
        };
        let known = last.start.token.boot != [0; 16];
        let (rule, stamps) = recover(dir.path(), &last);
        assert_eq!(rule == Rule::PageCache, known);
        let end = if known { 3000 } else { 2800 };
        assert_eq!(stamps, (1..=end).collect::<Vec<_>>());
        // As after a power loss: the same files, judged by the cut.
        last.assume_power_loss = true;
        let (rule, stamps) = recover(dir.path(), &last);
        assert_eq!(rule, Rule::Cut);
        assert_eq!(stamps, (1..=2800).collect::<Vec<_>>());
    }
}
