//! How a manifest ends: a sync that fails while it is rewritten, and the close.

use std::path::Path;
use std::sync::Arc;
use velella_base::{ErrorKind, Stamp};
use velella_tree::{Edit, KeyspaceRecord, Manifest};
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::{FaultFs, MemFs, Operation};

fn db() -> &'static Path {
    Path::new("/db")
}

fn keyspace(id: u32) -> Edit {
    Edit::CreateKeyspace(KeyspaceRecord {
        id,
        name: id.to_string(),
        layout: "leveled".into(),
        order: "velella.bytewise".into(),
        merge_operator: String::new(),
        prefix_extractor: String::new(),
        created: Stamp(1),
    })
}

#[test]
fn a_failed_sync_of_a_rewriting_poisons_as_well() {
    let fs = MemFs::new();
    let faulty = FaultFs::over_mem(&fs);
    let (manifest, _) = Manifest::create(Arc::new(faulty.clone()), db()).unwrap();
    manifest.roll_early(1);
    // Names that somebody else made may be lost by it: what the next sync of the directory says is
    // durable is so no more.
    faulty.inject(Rule::every(Fault::Io).of(Operation::SyncDir).times(1));
    let mut acknowledged = 0;
    while faulty.fired() == 0 {
        acknowledged += 1;
        manifest.commit(&[keyspace(acknowledged)]).unwrap();
    }
    let later = manifest.commit(&[keyspace(999)]).unwrap_err();
    assert_eq!(later.kind(), ErrorKind::ReadOnly, "{later}");
    drop(manifest);
    let (manifest, state) = Manifest::open(Arc::new(fs), db()).unwrap();
    assert_eq!(state.keyspaces.len(), acknowledged as usize);
    manifest.commit(&[keyspace(999)]).unwrap();
}

#[test]
fn a_shut_manifest_takes_no_commit_and_removes_nothing() {
    let fs = MemFs::new();
    let (manifest, _) = Manifest::create(Arc::new(fs.clone()), db()).unwrap();
    manifest.commit(&[keyspace(1)]).unwrap();
    let mut removed = 0;
    manifest.unless_shut(|| removed += 1);
    manifest.shut();
    manifest.unless_shut(|| removed += 1);
    assert_eq!(removed, 1);
    assert!(manifest.is_shut());
    let refused = manifest.commit(&[keyspace(2)]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Closed, "{refused}");
    let (_, state) = Manifest::open(Arc::new(fs), db()).unwrap();
    assert_eq!(state.keyspaces.len(), 1);
}
