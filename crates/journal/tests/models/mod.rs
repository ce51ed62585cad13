//! The journal's own code in small worlds: lanes, rounds, retention and waiters side by side.
//!
//! M1. A role is what one thread of the engine does (docs/concurrency.md, steps 7 to 12), with the
//!     clock and the slots of the engine.
//! M2. `power_cut` judges what a power loss at that moment would leave, in four ways of surviving:
//!     recovery opens it, the cut covers the D announced before, and every stamp from the floor to
//!     the cut is taken, and none above. The end of each execution is judged as well.

#![allow(dead_code, reason = "each test program uses a part of it")]

mod region;

use region::{Region, Survives};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex};
use velella_base::{Stamp, put_in};
use velella_journal::{Access, Config, Journal, Lane, Last, Recovery, Site, Start, spoil};
#[cfg(loom)]
use velella_mvcc::ordering;
use velella_mvcc::{Clock, Slots};
use velella_sync::atomic::Ordering;
use velella_sync::atomic::machine;
use velella_sync::thread;
use velella_vfs::Vfs;

const DATABASE: u128 = 7;
const EXTENT: u64 = 64 << 10;
/// Three of these fill the first extent of a segment, four any other.
const QUARTER: usize = 15 << 10;
/// Goes to a large file.
const LARGE: usize = 20 << 10;

fn dir() -> PathBuf {
    PathBuf::from("/db")
}

/// A journal with what is around it.
pub(crate) struct World {
    region: Region,
    pub(crate) journal: Arc<Journal>,
    lanes: Vec<Mutex<Option<Lane>>>,
    start: Start,
    clock: Clock,
    slots: Slots,
    /// The highest floor released.
    floor: machine::AtomicU64,
}

/// What is wrong in a control.
#[derive(Clone, Copy)]
pub(crate) enum Spoilt {
    Nothing,
    /// An ordering or a step of the journal.
    Site(Site),
    /// An ordering of clock or windows.
    #[cfg(loom)]
    Window(ordering::Site),
    /// A fault of `cargo xtask seeded`.
    Fault(&'static str),
}

impl Spoilt {
    fn put_in(self) {
        let (mut site, mut fault) = (None, None);
        #[cfg(loom)]
        ordering::weaken(None);
        match self {
            Spoilt::Nothing => {}
            Spoilt::Site(spoilt) => site = Some(spoilt),
            #[cfg(loom)]
            Spoilt::Window(spoilt) => ordering::weaken(Some(spoilt)),
            Spoilt::Fault(put_in) => fault = Some(put_in),
        }
        spoil(site);
        put_in(fault);
    }
}

impl std::fmt::Display for Spoilt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Spoilt::Nothing => f.write_str("as it is"),
            Spoilt::Site(site) => write!(f, "{site:?}"),
            #[cfg(loom)]
            Spoilt::Window(site) => write!(f, "window {site:?}"),
            Spoilt::Fault(fault) => f.write_str(fault),
        }
    }
}

/// What one thread does.
pub(crate) type Role = fn(&World);

/// What was before, and two or three roles.
#[derive(Clone, Copy)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    pub(crate) lanes: usize,
    pub(crate) before: Role,
    pub(crate) roles: &'static [Role],
}

impl Model {
    /// Runs it once, role `main` in this thread (none if there is no such role), with `spoilt`.
    pub(crate) fn run(self, main: usize, spoilt: Spoilt) {
        spoilt.put_in();
        let world = Arc::new(World::new(self.lanes));
        (self.before)(&world);
        world.region.run();
        let others: Vec<_> = (0..self.roles.len())
            .filter(|role| *role != main)
            .map(|role| {
                let (world, role) = (Arc::clone(&world), self.roles[role]);
                thread::spawn("role", move || role(&world)).expect("a model has threads")
            })
            .collect();
        if let Some(role) = self.roles.get(main) {
            role(&world);
        }
        for other in others {
            other.join().expect("a role failed");
        }
        world.power_cut();
    }
}

impl World {
    fn new(lanes: usize) -> World {
        let region = Region::default();
        let next = machine::AtomicU64::new(1);
        let config = Config {
            vfs: Arc::new(region.clone()),
            dir: dir(),
            database: DATABASE,
            incarnation: 1,
            lanes,
            segment_bytes: 2 * EXTENT,
            extent_bytes: EXTENT,
            access: Access::Write,
            ack_after_done: false,
            // Relaxed: a counter.
            next_file: Arc::new(move || Ok(next.fetch_add(1, Ordering::Relaxed))),
            note: None,
            make_room: None,
        };
        let (journal, lanes, start) = Journal::create(config, Stamp::ZERO).unwrap();
        World {
            region,
            journal,
            slots: Slots::new(lanes.len()),
            lanes: lanes
                .into_iter()
                .map(|lane| Mutex::new(Some(lane)))
                .collect(),
            start,
            clock: Clock::new(Stamp::ZERO, Stamp::MAX),
            floor: machine::AtomicU64::new(1),
        }
    }

    /// Works with lane `index`, which nobody else does meanwhile.
    fn with<T>(&self, index: usize, work: impl FnOnce(&mut Lane) -> T) -> T {
        let mut lane = self.lanes[index]
            .lock()
            .unwrap()
            .take()
            .expect("one holder");
        let done = work(&mut lane);
        *self.lanes[index].lock().unwrap() = Some(lane);
        done
    }

    /// A write of `len` bytes, in lane `lane`.
    fn put(&self, lane: usize, len: usize) {
        self.put_above(lane, len, self.clock.lower_bound());
    }

    /// A write whose lower bound was read before.
    fn put_above(&self, index: usize, len: usize, bound: Stamp) {
        self.try_put_above(index, len, bound).unwrap();
    }

    /// A write that the journal may refuse.
    fn try_put(&self, lane: usize, len: usize) -> velella_base::Result<()> {
        self.try_put_above(lane, len, self.clock.lower_bound())
    }

    fn try_put_above(&self, index: usize, len: usize, bound: Stamp) -> velella_base::Result<()> {
        self.with(index, |lane| {
            lane.reserve(&[&vec![1; len]])?;
            self.slots.announce(index, bound);
            lane.commit(self.clock.draw()).unwrap();
            self.slots.idle(index);
            Ok(())
        })
    }

    fn frontier(&self) -> Stamp {
        self.slots.frontier(&self.clock)
    }

    /// One that steps back where an announced bound is old, as the journal lets its callers.
    fn frontier_of_now(&self) -> Stamp {
        let now = self.clock.now();
        let slots = 0..self.slots.len();
        slots
            .filter_map(|slot| self.slots.announced(slot))
            .fold(now, Stamp::min)
    }

    fn round(&self) {
        self.journal.round(|| self.frontier()).unwrap();
    }

    /// Everything below `floor` is in tables.
    fn release(&self, floor: u64) {
        // Relaxed: only looked at beside an image, under its locks.
        self.floor.fetch_max(floor, Ordering::Relaxed);
        self.journal.release(Stamp(floor)).unwrap();
    }

    /// Judges what a power loss now would leave (M2).
    fn power_cut(&self) {
        let durable = self.journal.durable();
        for survives in Survives::ALL {
            let floor = self.floor.load(Ordering::Relaxed);
            if is_new((self.region.fingerprint(survives), durable.0, floor)) {
                let image = self.region.image(survives);
                self.judge(image, durable, floor, survives);
            }
        }
    }

    fn judge(&self, image: Region, durable: Stamp, floor: u64, survives: Survives) {
        let last = Last {
            incarnation: 1,
            start: self.start.clone(),
            durable: Stamp::ZERO,
            assume_power_loss: true,
            accept_loss: false,
        };
        let vfs: Arc<dyn Vfs> = Arc::new(image);
        let mut recovery = Recovery::open(vfs, &dir(), DATABASE, &last)
            .unwrap_or_else(|error| panic!("{survives:?}, D {durable}: {error}"));
        let mut stamps = Vec::new();
        while let Some(record) = recovery.next_record().unwrap() {
            stamps.push(record.stamp.0);
        }
        let cut = recovery.report().cut;
        let found = format!("{survives:?}: D {durable}, cut {cut}, floor {floor}: {stamps:?}");
        assert!(cut >= durable, "durable writes are lost: {found}");
        // What is below the floor is in tables, and is there or not, lane by lane.
        let unflushed: Vec<u64> = stamps.into_iter().filter(|stamp| *stamp >= floor).collect();
        let expected: Vec<u64> = (floor..=cut.0).collect();
        assert_eq!(unflushed, expected, "writes are missing: {found}");
    }
}

/// Whether this picture was not judged yet: most executions leave one that was.
fn is_new(picture: (u64, u64, u64)) -> bool {
    static JUDGED: LazyLock<Mutex<HashSet<(u64, u64, u64)>>> = LazyLock::new(Mutex::default);
    JUDGED
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        .insert(picture)
}

fn nothing(_: &World) {}

/// Fills the first extent and begins another, all of it durable.
fn old_extent(world: &World) {
    for _ in 0..5 {
        world.put(0, QUARTER);
    }
    world.round();
}

/// Claim, copy, publish the length, against clock, slots, ends, seal, sync, D; and the power goes.
pub(crate) const LANE_ROUND: Model = Model {
    name: "journal/lane_round",
    lanes: 1,
    before: nothing,
    roles: &[
        |world| {
            world.put(0, 8);
            world.put(0, 8);
        },
        |world| world.round(),
        |world| world.power_cut(),
    ],
};

/// Two rounds after one another, so that the second continues what the first handed over.
pub(crate) const LANE_ROUNDS: Model = Model {
    name: "journal/lane_rounds",
    lanes: 1,
    before: nothing,
    roles: &[
        |world| {
            world.put(0, 8);
            world.put(0, 8);
        },
        |world| {
            world.round();
            world.power_cut();
            world.round();
            world.power_cut();
        },
    ],
};

/// Two lanes: a stamp may be in its lane before a lower one is in another.
pub(crate) const LANES_ROUND: Model = Model {
    name: "journal/lanes_round",
    lanes: 2,
    before: nothing,
    roles: &[
        |world| world.put(0, 8),
        |world| world.put(1, 8),
        |world| {
            world.round();
            world.power_cut();
        },
    ],
};

/// A slot announces a bound read long before, in a round that has something to exclude.
pub(crate) const STALE_BOUND: Model = Model {
    name: "journal/stale_bound",
    lanes: 2,
    before: |world| {
        old_extent(world);
        world.release(5);
    },
    roles: &[
        |world| world.put_above(1, 8, Stamp::ZERO),
        |world| {
            world.journal.round(|| world.frontier_of_now()).unwrap();
            world.power_cut();
        },
    ],
};

/// A lane closes its extent and opens another while a round reads both.
pub(crate) const CLOSE_ROUND: Model = Model {
    name: "journal/close_round",
    lanes: 1,
    before: |world| {
        for _ in 0..3 {
            world.put(0, QUARTER);
        }
        world.release(4);
    },
    roles: &[
        |world| world.put(0, QUARTER),
        |world| {
            world.round();
            world.power_cut();
        },
    ],
};

/// A lane appends, and moves on, while its old extents are given back and their segment reused.
pub(crate) const RETENTION_APPEND: Model = Model {
    name: "journal/retention_append",
    lanes: 2,
    before: |world| {
        // Lane 0 fills a whole segment, which lane 1 then leaves.
        world.put(1, 8);
        for _ in 0..5 {
            world.put(0, QUARTER);
        }
        world.round();
    },
    roles: &[
        |world| world.put(1, 8),
        |world| {
            world.release(7);
            world.round();
            world.journal.prepare(|| false).unwrap();
            world.power_cut();
        },
    ],
};

/// The same, in the middle of the round: nothing is let go of before it completed.
pub(crate) const RETENTION_CUT: Model = Model {
    name: "journal/retention_cut",
    lanes: 1,
    before: |world| {
        for _ in 0..10 {
            world.put(0, QUARTER);
        }
        world.round();
        world.release(9);
    },
    roles: &[
        |world| world.round(),
        |world| {
            world.journal.prepare(|| false).unwrap();
            world.power_cut();
        },
    ],
};

/// A large payload is in its file before the record that refers to it, and synced with it.
pub(crate) const LARGE_ROUND: Model = Model {
    name: "journal/large_round",
    lanes: 1,
    before: |world| world.put(0, LARGE),
    roles: &[
        |world| world.put(0, LARGE),
        |world| {
            world.round();
            world.round();
            world.power_cut();
        },
    ],
};

/// Whoever waits for D wakes when it has risen.
pub(crate) const WAITER: Model = Model {
    name: "journal/waiter",
    lanes: 1,
    before: |world| world.put(0, 8),
    roles: &[
        |world| assert!(world.journal.wait_durable(Stamp(1), None).unwrap()),
        |world| world.round(),
    ],
};

/// Who finds a round under way that then does nothing for it, since a window holds the frontier
/// back, gets its own turn.
pub(crate) const TURN: Model = Model {
    name: "journal/turn",
    lanes: 1,
    before: |world| world.put(0, 8),
    roles: &[
        |world| {
            world.journal.round_for(Stamp(1), || Stamp::ZERO).unwrap();
        },
        |world| {
            let durable = world.journal.round_for(Stamp(1), || world.frontier());
            assert_eq!(durable.unwrap(), Stamp(1));
        },
    ],
};

/// The same, when the round panics.
pub(crate) const TURN_AFTER_PANIC: Model = Model {
    name: "journal/turn_after_panic",
    lanes: 1,
    before: |world| world.put(0, 8),
    roles: &[
        |world| {
            // Without a message, of which there would be thousands.
            let panics = || std::panic::resume_unwind(Box::new("a frontier"));
            let round = || world.journal.round_for(Stamp(1), panics);
            let round = std::panic::catch_unwind(std::panic::AssertUnwindSafe(round));
            // Whoever came late found D risen, and asked nobody.
            assert!(round.is_err() || world.journal.durable() == Stamp(1));
        },
        |world| {
            let durable = world.journal.round_for(Stamp(1), || world.frontier());
            assert_eq!(durable.unwrap(), Stamp(1));
        },
    ],
};

/// One stamp is durable, the sync for the next one fails.
fn a_sync_will_fail(world: &World) {
    world.put(0, 8);
    world.round();
    world.put(0, 8);
    world.region.fail_next_sync();
}

/// Stamp 2, or a later one, was not made durable, of which this caller was told; and the journal
/// takes nothing any more.
fn is_refused<T>(world: &World, told: velella_base::Result<T>) {
    let durable = world.journal.durable();
    assert!(told.is_err(), "told to be durable, at D {durable}");
    assert_eq!(durable, Stamp(1), "D rose over a sync that failed");
    assert!(world.journal.poisoned().is_some(), "an error was forgotten");
    let earlier = world.journal.wait_durable(Stamp(1), None);
    assert!(earlier.unwrap(), "what was durable is not any more");
}

/// The sync of a round fails while two wait for it: both are told, whoever ran the round.
pub(crate) const FAILED_SYNC: Model = Model {
    name: "journal/failed_sync",
    lanes: 1,
    before: a_sync_will_fail,
    roles: &[
        |world| is_refused(world, world.journal.wait_durable(Stamp(2), None)),
        |world| is_refused(world, world.journal.wait_durable(Stamp(2), None)),
        |world| is_refused(world, world.journal.round(|| world.frontier())),
    ],
};

/// The same where those who wait run the round themselves, one after the other: the second does not
/// sync again.
pub(crate) const FAILED_TURNS: Model = Model {
    name: "journal/failed_turns",
    lanes: 1,
    before: a_sync_will_fail,
    roles: &[
        |world| {
            let told = world.journal.round_for(Stamp(2), || world.frontier());
            is_refused(world, told);
        },
        |world| {
            let told = world.journal.round_for(Stamp(2), || world.frontier());
            is_refused(world, told);
            world.with(0, |lane| assert!(lane.reserve(&[b"late"]).is_err()));
            world.power_cut();
        },
    ],
};

/// A write beside the round that fails is refused, or told that it is not durable.
pub(crate) const FAILED_SYNC_WRITER: Model = Model {
    name: "journal/failed_sync_writer",
    lanes: 1,
    before: a_sync_will_fail,
    roles: &[
        |world| {
            if world.try_put(0, 8).is_ok() {
                is_refused(world, world.journal.wait_durable(Stamp(3), None));
            }
            world.with(0, |lane| assert!(lane.reserve(&[b"late"]).is_err()));
        },
        |world| {
            is_refused(world, world.journal.round(|| world.frontier()));
            world.power_cut();
        },
    ],
};

/// Lanes, rounds, waiters and retention at once, larger than loom can.
pub(crate) const ALL_TOGETHER: Model = Model {
    name: "journal/all_together",
    lanes: 3,
    before: old_extent,
    roles: &[
        |world| {
            for turn in 0..6 {
                world.put(0, if turn % 3 == 0 { LARGE } else { QUARTER });
            }
        },
        |world| (0..6).for_each(|_| world.put(1, QUARTER)),
        |world| {
            world.put(2, 8);
            // A window that is open holds the frontier back.
            let stamp = world.clock.now();
            while world.journal.round_for(stamp, || world.frontier()).unwrap() < stamp {
                thread::yield_now();
            }
            world.put(2, LARGE);
        },
        |world| {
            for _ in 0..4 {
                world.round();
                world.power_cut();
                world.release(world.journal.durable().0 + 1);
                world.journal.prepare(|| false).unwrap();
            }
        },
        |world| {
            // The lane above makes a stamp durable that is at least this.
            assert!(world.journal.wait_durable(Stamp(6), None).unwrap());
            world.power_cut();
        },
    ],
};
