//! A get from memory allocates nothing; nor does a read of an absent key, nor an update that keeps
//! the value. A put takes its memory by the chunk, and so does an update that is brought its value.
//!
//! A test binary of its own: it counts through the global allocator, per thread.

use velella::{Db, Decision, MemtableKind};
use velella_sync::allocations::{Counting, allocations, peak_bytes};
use velella_sync::rng::Rng;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_get_that_hits_the_memtable_allocates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().memory(64 << 20).open(dir.path()).unwrap();
    for number in 0..1_000u32 {
        db.put(number.to_be_bytes(), "a value that is short")
            .unwrap();
    }
    db.put("long", vec![1; 500]).unwrap();
    let mut buffer = Vec::with_capacity(1_000);
    let mut reads = || {
        for number in 0..1_000u32 {
            assert!(db.get(number.to_be_bytes()).unwrap().is_some());
            assert!(db.get_strict(number.to_be_bytes()).unwrap().is_some());
            assert!(db.contains(number.to_be_bytes()).unwrap());
            assert!(db.get_into("long", &mut buffer).unwrap());
            assert_eq!(db.get_with("long", <[u8]>::len).unwrap(), Some(500));
        }
    };
    // The first pins of a thread set up what later ones use.
    reads();
    let counted = allocations(reads);
    // Unpinning collects garbage of other threads now and then; that is not the get's.
    assert!(counted <= 4, "{counted} allocations in 5,000 reads");
    let control = allocations(|| drop(db.get("long").unwrap()));
    assert!(
        control >= 1,
        "a long value that is handed out is copied: the counter counts"
    );
}

#[test]
fn an_update_copies_no_value_but_the_one_it_writes() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().memory(64 << 20).open(dir.path()).unwrap();
    db.put("long", vec![1; 500]).unwrap();
    let look = |old: Option<&[u8]>| {
        assert_eq!(old.unwrap().len(), 500);
        Decision::Keep
    };
    db.update("long", look).unwrap();
    let counted = allocations(|| {
        for _ in 0..1_000 {
            db.update("long", look).unwrap();
            assert!(!db.put_if_absent("long", "short").unwrap());
        }
    });
    assert!(counted <= 4, "{counted} allocations in 2,000 updates");
    let control = allocations(|| drop(db.rmw("long", look).unwrap()));
    assert!(control >= 1, "a value that is returned is copied");
}

#[test]
fn what_an_update_writes_is_borrowed_from_who_brings_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().memory(64 << 20).open(dir.path()).unwrap();
    let values = [[1; 500], [2; 500]];
    let counted = |write: &dyn Fn(usize)| allocations(|| (0..500).for_each(write));
    db.put("key", values[0]).unwrap();
    let swaps = counted(&|number| {
        let [old, new] = [number % 2, (number + 1) % 2].map(|place| &values[place][..]);
        assert!(db.compare_and_swap("key", Some(old), Some(new)).unwrap());
    });
    let updates = counted(&|number| {
        let decide = |_: Option<&[u8]>| Decision::put(&values[number % 2]);
        assert!(db.update("key", decide).unwrap().is_some());
    });
    let keys: Vec<[u8; 8]> = (0..500u64).map(u64::to_be_bytes).collect();
    let inserts = counted(&|number| {
        assert!(db.put_if_absent(keys[number], values[0]).unwrap());
    });
    // Prunings take two each, every 32 writes, and chunks one; a copy for each would be 500 more.
    for (name, counted) in [("swaps", swaps), ("updates", updates), ("inserts", inserts)] {
        assert!(counted <= 150, "{name}: {counted} allocations in 500");
    }
}

#[test]
fn a_put_of_an_existing_key_allocates_only_by_the_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().memory(64 << 20).open(dir.path()).unwrap();
    db.put("key", "value").unwrap();
    let puts = || {
        for _ in 0..1_000 {
            db.put("key", "value").unwrap();
        }
    };
    // A round of the journal that is under way takes one more of each pruning.
    let counted = (0..3).map(|_| allocations(puts)).min().unwrap();
    // A pruning, every 32 puts, takes two: the list of stamps that are still read (`Retention`),
    // and that of the versions that go. A chunk is the rest.
    assert!(counted <= 80, "{counted} allocations in 1,000 puts");
}

#[test]
fn a_put_of_a_new_key_allocates_only_by_the_chunk() {
    for memtable in MemtableKind::ALL {
        let dir = tempfile::tempdir().unwrap();
        let db = Db::builder().memory(64 << 20).memtable(memtable);
        let db = db.open(dir.path()).unwrap();
        let mut rng = Rng::new(1);
        let mut puts = |count: usize| {
            for _ in 0..count {
                db.put(rng.next_u64().to_be_bytes(), "value").unwrap();
            }
        };
        // What a thread, and a memtable, set up once.
        puts(1_000);
        let counted = allocations(|| puts(20_000));
        // Chunks of the arena, the index that grows, the guard directory.
        let name = memtable.name();
        assert!(
            counted <= 400,
            "{name}: {counted} allocations in 20,000 puts"
        );
    }
}

#[test]
fn a_large_value_is_in_memory_once_when_an_iterator_yields_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::builder().memory(64 << 20).open(dir.path()).unwrap();
    let bytes: u64 = 4 << 20;
    db.put("large", vec![7; 4 << 20]).unwrap();
    for back in [false, true] {
        let mut iter = db.iter().unwrap();
        let (pair, peak) = peak_bytes(|| match back {
            false => iter.next(),
            true => iter.seek_last().unwrap().then(|| iter.next().unwrap()),
        });
        assert!((bytes..bytes / 4 * 5).contains(&peak), "{peak} bytes");
        let (_, value) = pair.unwrap().unwrap();
        assert_eq!(value.len(), 4 << 20);
        // It stands there still, and what was handed out is not taken back.
        assert_eq!(iter.pair().unwrap().unwrap().1, &*value);
        assert!(!iter.step().unwrap());
    }
}
