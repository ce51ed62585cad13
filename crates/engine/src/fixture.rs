//! What tests inside the engine share: a small database in memory, and its insides.
//!
//! Nothing here runs a thread of its own but the database does. Tests: those that use it.

use crate::core::Engine;
use crate::db::Db;
use crate::options::Builder;
use crate::simulation::Sizes;
use std::sync::Arc;
use velella_vfs::{MemFs, Vfs};

/// Settings under which little data goes a long way.
pub(crate) fn tiny() -> Builder {
    Db::builder()
        .memory(16 << 20)
        .write_buffer(320 << 10)
        .block_bytes(512)
        .background_threads(1)
}

/// Sizes of a database in which nothing happens but what is asked for.
pub(crate) const ALONE: Sizes = Sizes {
    lanes: 2,
    segment_bytes: 64 << 10,
    extent_bytes: 8 << 10,
    inline_value_bytes: 3_000,
    manifest_bytes: None,
};

/// A database and its engine.
pub(crate) fn open(fs: Arc<dyn Vfs>, builder: Builder) -> (Db, Arc<Engine>) {
    let db = builder.vfs(fs).open("/db").unwrap();
    let engine = Arc::clone(&db.handle.engine);
    (db, engine)
}

/// A database in a fresh memory of its own.
pub(crate) fn fresh() -> (Db, Arc<Engine>) {
    open(Arc::new(MemFs::new()), tiny())
}

/// Takes turns until `done`; a test that hangs here is ended by its watchdog.
pub(crate) fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        velella_sync::thread::yield_now();
    }
}
