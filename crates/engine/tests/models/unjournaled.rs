//! Databases without a journal: what their tables hold is all that a crash leaves.
//!
//! As the other models (M1, M2).

use super::{CrashMode, Model, Scene, model, number, open};
use velella::vfs::MemFs;
use velella::{Db, Decision, Error, ErrorKind, JournalMode, Result, WriteBatch, WriteOptions};
use velella_sync::thread;

/// Flushes, and looks at what the tables hold of two writes.
fn flush_and_lose_the_rest(scene: &Scene) {
    scene.db.flush().unwrap();
    let lost = scene.fs.image(1, CrashMode::Strict);
    let after = open(&lost, JournalMode::Off);
    let holds = |name| after.keyspace(name).unwrap().contains("new").unwrap();
    assert!(holds("empty") || !holds("full"), "what came before is lost");
}

/// A keyspace that is empty when a switch begins is written to, and then one that is not: tables
/// have no write without the one before it.
pub(crate) const EMPTY_KEYSPACE: Model = Model {
    journal: JournalMode::Off,
    ..model(
        "an empty keyspace without a journal",
        |scene| {
            // The switch comes to it last: as much as can be lies between the look and its end.
            let [_, full] = ["empty", "full"].map(|name| {
                let created = scene.db.create_keyspace(name, Default::default());
                created.unwrap()
            });
            full.put("old", "1").unwrap();
        },
        &[
            |scene| {
                for name in ["empty", "full"] {
                    let keyspace = scene.db.keyspace(name).unwrap();
                    keyspace.put("new", "1").unwrap();
                }
            },
            flush_and_lose_the_rest,
        ],
        |_| {},
    )
};

/// One write of "k".
pub(crate) type Write = fn(&Db) -> Result<()>;

/// A write of each kind.
pub(crate) const WRITES: [(&str, Write); 5] = [
    ("put", |db| db.put("k", "1").map(drop)),
    ("update", |db| db.increment("k", 1).map(drop)),
    ("read-modify-write", |db| {
        db.rmw("k", |_| Decision::put(b"1")).map(drop)
    }),
    ("batch", |db| {
        let mut batch = WriteBatch::new();
        batch.put(db, "k", "1").put(db, "l", "1");
        db.write(&batch).map(drop)
    }),
    ("only writer", write_alone),
];

/// A transaction that loses its first attempt to another thread.
fn write_alone(db: &Db) -> Result<()> {
    let mut attempts = 0;
    let alone = |_: &_, batch: &mut WriteBatch| {
        attempts += 1;
        if attempts == 1 {
            let other = db.clone();
            let put = move || drop(other.put("k", "0"));
            thread::spawn("other", put).unwrap().join().unwrap();
        }
        batch.put(db, "k", "1");
        Ok::<_, Error>(())
    };
    db.transact(WriteOptions::default(), alone).map(drop)
}

/// A close beside `write`: that is refused, or there from then on.
pub(crate) fn close_beside(write: Write) {
    let fs = MemFs::new();
    let db = open(&fs, JournalMode::Off);
    let writer = {
        let db = db.clone();
        thread::spawn("writer", move || write(&db)).unwrap()
    };
    db.close().unwrap();
    let written = writer.join().expect("the writer failed");
    if let Err(error) = &written {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
    drop(db);
    let after = open(&fs, JournalMode::Off);
    let found = after.get("k").unwrap().map(|value| number(&value));
    match written {
        Ok(()) => assert_eq!(found, Some(1), "acknowledged while it was closed"),
        Err(_) => assert_ne!(found, Some(1), "refused, and there"),
    }
}
