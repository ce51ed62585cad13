//! What an opening takes from a manifest that is ahead of the clock's lease.

use crate::fixture::{ALONE, open, tiny};
use std::sync::Arc;
use velella_vfs::MemFs;
use velella_vfs::mem::CrashMode;

#[test]
fn stamps_go_on_above_what_a_flush_says_is_in_tables() {
    let fs = MemFs::new();
    // Without threads: none extends the lease meanwhile.
    let open_alone = |fs: &MemFs| open(Arc::new(fs.clone()), tiny().simulated(ALONE));
    let (db, engine) = open_alone(&fs);
    db.put("before", "v").unwrap();
    // A switch draws its stamp beyond the lease, and the power goes before that is extended.
    let lease = engine.clock.lease();
    while engine.clock.now() <= lease {
        engine.clock.draw();
    }
    db.flush().unwrap();
    let below = engine.clock.now();
    let state = engine.env.manifest.state();
    assert_eq!(state.keyspaces[0].flushed_below, below);
    assert!(below > state.clock_lease, "the lease is not extended");
    let fs = fs.crash(0, CrashMode::Strict);
    let (db, _) = open_alone(&fs);
    assert!(db.put("k", "v").unwrap() >= below);
    db.persist().unwrap();
    let fs = fs.crash(0, CrashMode::Strict);
    let (db, _) = open_alone(&fs);
    assert_eq!(db.get("k").unwrap().unwrap(), "v");
}
