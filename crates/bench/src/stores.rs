//! Every store there is, by name, and which of them this program was built with.
//!
//! `unsafe` stands in adapters whose libraries are asked from C or demand it: `lmdb`, `leveldb`
//! and the binding in `wiredtiger`.
//!
//! Tests: `tests/stores.rs`.

pub mod velella;
pub mod memtable;
pub mod inplace;
pub mod listnode;
#[cfg(feature = "rocksdb")]
pub mod rocksdb;
#[cfg(feature = "fjall")]
pub mod fjall;
#[cfg(feature = "lmdb")]
#[expect(unsafe_code, reason = "heed asks for promises about the mapped file")]
pub mod lmdb;
#[cfg(feature = "redb")]
pub mod redb;
#[cfg(feature = "leveldb")]
#[expect(unsafe_code, reason = "it is a binding of a C interface")]
pub mod leveldb;
#[cfg(feature = "wiredtiger")]
pub mod wiredtiger;

use crate::failure::{Failure, Outcome};
use crate::store::Peer;

/// The store that others are compared with where a benchmark names no other.
pub const OURS: &str = "velella";

/// Peers, each of which is a feature of that name.
const PEERS: [&str; 6] = ["rocksdb", "fjall", "lmdb", "redb", "leveldb", "wiredtiger"];

/// All that were built in: Velella and its baselines, then peers.
#[must_use]
pub fn built() -> Vec<&'static dyn Peer> {
    let mut all: Vec<&'static dyn Peer> = Vec::new();
    all.extend(velella::ALL.iter().map(|store| store as &dyn Peer));
    all.extend(memtable::ALL.iter().map(|store| store as &dyn Peer));
    all.push(&inplace::InPlace);
    all.extend(listnode::ALL.iter().map(|store| store as &dyn Peer));
    #[cfg(feature = "rocksdb")]
    all.push(&rocksdb::RocksDb);
    #[cfg(feature = "fjall")]
    all.push(&fjall::Fjall);
    #[cfg(feature = "lmdb")]
    all.push(&lmdb::Lmdb);
    #[cfg(feature = "redb")]
    all.push(&redb::Redb);
    #[cfg(feature = "leveldb")]
    all.push(&leveldb::LevelDb);
    #[cfg(feature = "wiredtiger")]
    all.push(&wiredtiger::WiredTiger);
    all
}

/// The peers that were built in.
#[must_use]
pub fn peers() -> Vec<&'static dyn Peer> {
    built()
        .into_iter()
        .filter(|peer| PEERS.contains(&peer.name()))
        .collect()
}

/// The store called `name`.
///
/// # Errors
/// `NotBuilt`, `Unknown`.
pub fn named(name: &str) -> Outcome<&'static dyn Peer> {
    let all = built();
    if let Some(found) = all.iter().find(|peer| peer.name() == name) {
        return Ok(*found);
    }
    if PEERS.contains(&name) {
        return Err(Failure::NotBuilt {
            store: name.to_owned(),
            feature: name.to_owned(),
        });
    }
    let built = all.iter().map(|peer| peer.name());
    Err(Failure::Unknown {
        what: "store".to_owned(),
        name: name.to_owned(),
        known: built.chain(PEERS).map(str::to_owned).collect(),
    })
}
