//! A drop that fails leaves a keyspace that is as usable as the database is.

use crate::fixture::{open, tiny};
use crate::options::JournalMode;
use std::sync::Arc;
use velella_base::ErrorKind;
use velella_vfs::fault::{Fault, Rule};
use velella_vfs::{FaultFs, MemFs, Operation};

#[test]
fn a_drop_that_finds_no_room_leaves_the_keyspace_as_it_was() {
    let faulty = FaultFs::over_mem(&MemFs::new());
    let (db, engine) = open(Arc::new(faulty.clone()), tiny().journal(JournalMode::Off));
    // The flush must fail here, not in a worker, which would end all writing.
    db.handle.workers.lock().stop(&engine);
    let keyspace = db.create_keyspace("k", Default::default()).unwrap();
    keyspace.put("a", "1").unwrap();
    faulty.inject(Rule::every(Fault::NoSpace).on(".sst"));
    let error = db.drop_keyspace("k").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
    faulty.heal();
    keyspace.put("b", "2").unwrap();
    assert_eq!(keyspace.fetch_add("n", 1).unwrap(), 1);
    assert_eq!(db.keyspace("k").unwrap().get("a").unwrap().unwrap(), "1");
    db.drop_keyspace("k").unwrap();
    assert_eq!(
        keyspace.put("c", "3").unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_drop_in_doubt_ends_writing_and_is_decided_by_the_next_opening() {
    for fault in [Fault::Io, Fault::Short, Fault::NoSpace] {
        let mem = MemFs::new();
        let faulty = FaultFs::over_mem(&mem);
        let (db, engine) = open(Arc::new(faulty.clone()), tiny());
        db.handle.workers.lock().stop(&engine);
        let keyspace = db.create_keyspace("k", Default::default()).unwrap();
        keyspace.put("a", "1").unwrap();
        db.persist().unwrap();
        faulty.inject(Rule::every(fault).on("MANIFEST").of(Operation::Append));
        faulty.inject(Rule::every(fault).on("MANIFEST").of(Operation::Write));
        db.drop_keyspace("k").unwrap_err();
        assert!(faulty.fired() > 0);
        faulty.heal();
        // Were it only the manifest that had stopped, this would be acknowledged and lost.
        let refused = keyspace.put("b", "2").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
        assert_eq!(db.put("b", "2").unwrap_err().kind(), ErrorKind::ReadOnly);
        assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
        drop(db.close());
        drop((keyspace, db, engine));
        let (db, _) = open(Arc::new(mem), tiny());
        if let Ok(keyspace) = db.keyspace("k") {
            assert_eq!(keyspace.get("a").unwrap().unwrap(), "1");
            keyspace.put("b", "2").unwrap();
        }
        db.verify().unwrap();
    }
}
