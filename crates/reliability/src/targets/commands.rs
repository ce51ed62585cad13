//! Any commands of clients on a database in memory.
//!
//! Threads: the database's own. Tests: `tests/corpus.rs`.

use std::sync::Arc;
use velella::Db;
use velella::vfs::MemFs;

/// Requests, inline or not, one behind the other.
pub(super) fn commands(stream: &[u8]) {
    let builder = Db::builder().memory(16 << 20).background_threads(1);
    let db = builder.vfs(Arc::new(MemFs::new())).open("/db");
    let db = db.expect("a database in memory opens");
    velella_server::fuzz::commands(db.clone(), stream).expect("the system has a waker for us");
    db.close().expect("a database in memory closes");
}
