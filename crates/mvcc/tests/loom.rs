//! Clock and windows in every interleaving and every reordering that the language allows, up to
//! three preemptions: the hand-shake on which snapshots, switches and the journal's frontier rest.
//!
//! What a write installs and publishes is a flag each, read and written without any ordering, so
//! that whether it is seen is up to clock and windows. Each ordering has a control that weakens it.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p velella-mvcc --test loom --release`.
//! Claims: `clock.rs` T1, T2; `slots.rs` A1, A3, A4.
#![cfg(loom)]
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use velella_base::Stamp;
use velella_mvcc::ordering::{Site, weaken};
use velella_mvcc::{Clock, Slots};
use velella_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use velella_sync::{model, thread};

/// Writes of a model, at most.
const WRITES: usize = 2;

/// Clock and windows, and what became of each write.
struct World {
    clock: Clock,
    slots: Slots,
    installed: [AtomicBool; WRITES],
    published: [AtomicBool; WRITES],
}

/// Everything up to this stamp was to be seen, and what was.
type Look = (Stamp, [bool; WRITES]);

fn seen(flags: &[AtomicBool; WRITES]) -> [bool; WRITES] {
    // Relaxed: see the head.
    std::array::from_fn(|write| flags[write].load(Ordering::Relaxed))
}

impl World {
    fn new(slots: usize) -> World {
        World {
            clock: Clock::new(Stamp(5), Stamp::MAX),
            slots: Slots::new(slots),
            installed: Default::default(),
            published: Default::default(),
        }
    }

    /// Steps 6 to 12 of a write.
    fn write(&self, slot: usize, write: usize) -> Stamp {
        // Relaxed, here and below: see the head.
        self.installed[write].store(true, Ordering::Relaxed);
        self.slots.announce(slot, self.clock.lower_bound());
        let stamp = self.clock.draw();
        self.published[write].store(true, Ordering::Relaxed);
        self.slots.idle(slot);
        stamp
    }

    /// Up to the frontier all is published (A3).
    fn collect(&self) -> Look {
        let frontier = self.slots.frontier(&self.clock);
        (frontier, seen(&self.published))
    }

    /// Up to a snapshot all is installed (T2).
    fn observe(&self) -> Look {
        let at = self.clock.observe();
        (at, seen(&self.installed))
    }

    /// Below W, once the windows are past it, all is published.
    fn switch(&self) -> Look {
        let boundary = self.clock.draw();
        self.slots.wait_past(boundary);
        (Stamp(boundary.0 - 1), seen(&self.published))
    }
}

/// Who writes: the slot of each write, all by one thread or each by its own.
#[derive(Clone, Copy)]
enum Writers {
    /// Both writes, one after the other, in one slot.
    One,
    /// One write.
    Single,
    /// A write each, in two slots.
    Two,
}

/// Runs the writers beside `looks`, each in a thread of its own but the last, and judges.
fn run(spoiled: Option<Site>, writers: Writers, looks: &[fn(&World) -> Look]) {
    weaken(spoiled);
    let world = Arc::new(World::new(2));
    let of = |writes: &'static [(usize, usize)]| {
        let world = Arc::clone(&world);
        let each = move |&(slot, write): &(usize, usize)| (write, world.write(slot, write));
        thread::spawn("writer", move || {
            writes.iter().map(each).collect::<Vec<_>>()
        })
        .unwrap()
    };
    let writing = match writers {
        Writers::One => vec![of(&[(0, 0), (0, 1)])],
        Writers::Single => vec![of(&[(0, 0)])],
        Writers::Two => vec![of(&[(0, 0)]), of(&[(1, 1)])],
    };
    let (last, others) = looks.split_last().unwrap();
    let others: Vec<_> = others
        .iter()
        .map(|&look| {
            let world = Arc::clone(&world);
            thread::spawn("reader", move || look(&world)).unwrap()
        })
        .collect();
    let mut all = vec![last(&world)];
    all.extend(others.into_iter().map(|other| other.join().unwrap()));
    for writer in writing {
        for (write, stamp) in writer.join().unwrap() {
            for (upto, seen) in &all {
                assert!(
                    stamp > *upto || seen[write],
                    "{stamp} is not seen at {upto}"
                );
            }
        }
    }
    weaken(None);
}

fn check(
    name: &str,
    bound: usize,
    writers: Writers,
    looks: &'static [fn(&World) -> Look],
    sites: &[Site],
) {
    model::holds(&format!("mvcc/{name}"), bound, move || {
        run(None, writers, looks)
    });
    for &site in sites {
        let control: model::Placement = Box::new(move || run(Some(site), writers, looks));
        model::fails(&format!("mvcc/{name} {site:?}"), bound, vec![control]);
    }
}

#[test]
fn nothing_below_the_frontier_is_unpublished() {
    let sites = [
        Site::Announce,
        Site::Idle,
        Site::Draw,
        Site::Now,
        Site::Announced,
    ];
    check("frontier", 3, Writers::One, &[World::collect], &sites);
}

#[test]
fn a_frontier_taken_over_shows_what_its_finder_saw() {
    let looks: &[fn(&World) -> Look] = &[World::collect, World::collect];
    check("settled", 3, Writers::One, looks, &[Site::Settled]);
}

#[test]
fn two_writers_hold_the_frontier_back() {
    check(
        "two_writers",
        3,
        Writers::Two,
        &[World::collect],
        &[Site::Idle],
    );
}

#[test]
fn a_snapshot_sees_all_that_was_drawn_before_it() {
    let sites = [Site::Draw, Site::Observe];
    check("snapshot", 3, Writers::One, &[World::observe], &sites);
}

#[test]
fn a_switch_waits_for_every_stamp_below_its_boundary() {
    let sites = [Site::Idle, Site::Announced];
    check("switch", 3, Writers::Single, &[World::switch], &sites);
}

/// Threads that draw across the end of the lease, of which so many stamps are left: whoever draws
/// beyond it gives its stamp up, extends the lease durably and draws again. What is durable is a
/// number, written and read without any ordering.
fn lease(spoiled: Option<Site>, threads: usize, left: u64, does_look: bool) {
    weaken(spoiled);
    let durable = 5 + left;
    let world = (
        Clock::new(Stamp(5), Stamp(durable)),
        AtomicU64::new(durable),
    );
    let world = Arc::new(world);
    let write = move |(clock, durable): &(Clock, AtomicU64)| loop {
        let stamp = clock.draw();
        if does_look && stamp > clock.lease() {
            // Relaxed, and below: see the head.
            durable.fetch_max(stamp.0 + 2, Ordering::Relaxed);
            clock.extend(Stamp(stamp.0 + 2));
            continue;
        }
        assert!(
            stamp.0 <= durable.load(Ordering::Relaxed),
            "{stamp} may be drawn again after a crash"
        );
        return stamp;
    };
    let others: Vec<_> = (1..threads)
        .map(|_| {
            let world = Arc::clone(&world);
            thread::spawn("writer", move || write(&world)).unwrap()
        })
        .collect();
    let mut stamps = vec![write(&world)];
    stamps.extend(others.into_iter().map(|other| other.join().unwrap()));
    stamps.sort_unstable();
    stamps.dedup();
    assert_eq!(stamps.len(), threads, "T1: {stamps:?}");
    weaken(None);
}

#[test]
fn no_stamp_is_used_beyond_a_lease_that_is_not_durable() {
    model::holds("mvcc/lease", 3, || lease(None, 2, 0, true));
    model::holds("mvcc/lease, three", 3, || lease(None, 3, 1, true));
    for site in [Site::Lease, Site::Extend] {
        let control: model::Placement = Box::new(move || lease(Some(site), 2, 0, true));
        model::fails(&format!("mvcc/lease {site:?}"), 3, vec![control]);
    }
    let control: model::Placement = Box::new(|| lease(None, 2, 1, false));
    model::fails("mvcc/lease, not looked at", 3, vec![control]);
}
