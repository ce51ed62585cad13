//! What an opening takes from a manifest that is ahead of the clock's lease.

use crate::fixture::{open, tiny};
use std::sync::Arc;
use velella_base::Stamp;
use velella_tree::Edit;
use velella_vfs::MemFs;
use velella_vfs::mem::CrashMode;

#[test]
fn stamps_go_on_above_what_a_flush_says_is_in_tables() {
    let fs = MemFs::new();
    let (db, engine) = open(Arc::new(fs.clone()), tiny());
    // As if a switch had drawn its stamp beyond the lease, and the power had gone before the lease
    // was extended.
    let below = Stamp(engine.clock.lease().0 + 1_000);
    let keyspace = db.core.id;
    let flushed = Edit::Flushed { keyspace, below };
    engine.env.manifest.commit(&[flushed]).unwrap();
    let fs = fs.crash(0, CrashMode::Strict);
    let (db, _) = open(Arc::new(fs.clone()), tiny());
    assert!(db.put("k", "v").unwrap() >= below);
    db.persist().unwrap();
    let fs = fs.crash(0, CrashMode::Strict);
    let (db, _) = open(Arc::new(fs), tiny());
    assert_eq!(db.get("k").unwrap().unwrap(), "v");
}
