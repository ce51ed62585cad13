//! A small database's manifest, and edits of it.

#![allow(unreachable_pub, reason = "a module of tests")]
#![allow(clippy::unwrap_used, reason = "a test")]

use std::path::Path;
use std::sync::Arc;
use velella_base::Stamp;
use velella_sst::TableMeta;
use velella_tree::{Edit, KeyspaceRecord, Manifest, State};
use velella_vfs::{MemFs, Vfs};

pub const DATABASE: u128 = 0x0011_2233_4455_6677_8899_aabb_ccdd_eeff;
/// The manifest of [`sample`].
pub const GOLDEN: &[u8] = include_bytes!("../golden/MANIFEST-000001");

pub fn db() -> &'static Path {
    Path::new("/db")
}

pub fn keyspace(id: u32, name: &str) -> Edit {
    Edit::CreateKeyspace(KeyspaceRecord {
        id,
        name: name.into(),
        layout: "leveled".into(),
        order: "velella.bytewise".into(),
        merge_operator: String::new(),
        prefix_extractor: String::new(),
        created: Stamp(1),
    })
}

pub fn add(file: u64) -> Edit {
    let table = TableMeta {
        file,
        bytes: 1000,
        kinds: [0, 10, 2, 0, 0, 0, 1],
        smallest: b"apple".to_vec(),
        largest: b"pear".to_vec(),
        min_stamp: Stamp(5),
        max_stamp: Stamp(17),
        min_expiry_ms: None,
        max_expiry_ms: None,
        raw_bytes: 1500,
        externals: vec![3],
        shadowed: None,
    };
    Edit::AddTables {
        keyspace: 1,
        level: 0,
        tables: vec![table],
    }
}

pub fn remove(file: u64) -> Edit {
    Edit::RemoveTables {
        keyspace: 1,
        files: vec![file],
    }
}

pub fn arc(fs: &MemFs) -> Arc<dyn Vfs> {
    Arc::new(fs.clone())
}

pub fn create(fs: &MemFs) -> Manifest {
    let state = State {
        next_keyspace: 1,
        ..State::default()
    };
    Manifest::create_with(arc(fs), db(), DATABASE, state)
        .unwrap()
        .0
}

/// A database with a few commits.
pub fn sample() -> (MemFs, Manifest) {
    let fs = MemFs::new();
    let manifest = create(&fs);
    manifest.commit(&[keyspace(1, "default")]).unwrap();
    manifest.commit(&[add(4), add(5)]).unwrap();
    let flushed = Edit::Flushed {
        keyspace: 1,
        below: Stamp(18),
    };
    manifest.commit(&[remove(4), flushed]).unwrap();
    (fs, manifest)
}
