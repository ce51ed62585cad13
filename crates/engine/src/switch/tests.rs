//! How short the time is in which a writer may have to wait for a switch.

use super::publish;
use crate::fixture::fresh;
use crate::flush_queue::Group;
use crate::view::Split;
use std::sync::Arc;
use velella_sync::allocations::{Counting, allocations};
use velella_sync::epoch;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn the_next_memtable_expects_as_many_keys_as_the_last_one_has() {
    let (db, engine) = fresh();
    let core = engine.cores().remove(0);
    let expected = || engine.memtable_options(&core, &epoch::pin()).keys;
    assert_eq!(expected(), 0);
    for n in 0..300 {
        db.put((n % 100).to_string(), "v").unwrap();
    }
    assert_eq!(expected(), 100, "keys, not versions");
    db.flush().unwrap();
    assert_eq!(expected(), 0);
}

#[test]
fn between_the_first_view_of_a_switch_and_its_last_nothing_is_allocated() {
    let (db, engine) = fresh();
    for name in ["a", "b", "c"] {
        db.keyspace_or_create(name).unwrap().put("k", "v").unwrap();
    }
    let cores = engine.cores();
    let switching = engine.switching.lock();
    let split = Arc::new(Split::default());
    let guard = epoch::pin();
    let mut steps = Vec::new();
    let prepared = allocations(|| steps = engine.prepare(cores.iter(), &split, &guard));
    assert!(
        prepared > 12,
        "four memtables and views: {prepared} allocations"
    );
    assert_eq!(allocations(|| publish(&mut steps, &split)), 0);
    let members = steps.into_iter().map(|step| step.finish(&guard)).collect();
    drop(guard);
    let boundary = split.quiesce(&engine.clock, &engine.slots);
    engine.flushes.push(Group { members, boundary });
    drop(switching);
    db.flush().unwrap();
    assert_eq!(db.keyspace("b").unwrap().get("k").unwrap().unwrap(), "v");
}
