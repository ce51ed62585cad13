//! How recovery finds its cut: every interleaving of two lanes' writers with rounds, a crash in
//! every state with every subset of what was not synced, syncs that fail, and crashes of recovery.
//!
//! The promise: what is recovered is a prefix by stamps that holds everything called durable, is
//! never refused, and stays that after another crash. After the death of the process alone it is
//! all that was complete.
//!
//! What it follows, a step of the model for each step that others can tell apart:
//! `Rounds::run`, `complete`, `place`, `next_home`, `write_seal`, `sync`, `announce`, `write_done`,
//! `settle`, `leave_word`, `sync_done` of `round.rs`; `SealFile` and `Layout` (which ring, which
//! slot) of `seal_file.rs` and `seal.rs`; `Lane::reserve` and `commit`; what recovery does is named
//! in `cut/recovery.rs`. The names of steps and fields are those of the code, so that a change
//! there has a line here to change with it; that the code does what is modelled is shown by
//! `tests/crashes.rs` and `tests/failed_sync.rs`, which attack the same promises on it.
//!
//! Left out: flushed extents, large files and external values, a clean close, notes that are
//! synced before the acknowledgement, rings that are full, and reading the
//! frontier in several steps, which is `engine/tests/protocol_lanes.rs`'s.
//!
//! One hole is known (RELIABILITY.md, what is not promised): the process is killed after a sync
//! failed and before word of it stands in the seal file. What is durable is demanded then, too, and
//! no hole below the round's frontier unless the seal file is what failed.

mod cut;

use cut::disk::{Disk, LANES, Place, RECORDS, ROUNDS, SEALS, Seal};
use cut::judge::{Judge, Known, complete};
use std::cell::RefCell;
use velella_testkit::{Explored, Step, explore};

/// What the promise rests on; each left out once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rule {
    /// D rises after the syncs.
    acknowledges_last: bool,
    /// The lanes' ends are read after the frontier.
    reads_ends_last: bool,
    /// A seal's frontier is never below D.
    never_seals_below_durable: bool,
    /// A sync that failed ends it; the other way it is tried again, and believed.
    stops_after_a_failure: bool,
    /// After a failure the seal file says so,
    leaves_word: bool,
    /// with a frontier of then,
    word_has_its_frontier: bool,
    /// and the lanes' ends of then.
    word_has_its_ends: bool,
    /// A seal in a strip has a shadow.
    writes_shadows: bool,
    recovery_reads_shadows: bool,
    /// A seal counts if what it covers is there.
    recovery_checks_the_ends: bool,
    /// The seal before counts unless the newest one's round is known to be done.
    recovery_lowers_the_cut: bool,
    /// A sync of recovery's that failed is told to who comes next.
    recovery_leaves_word: bool,
    /// A hole is excused where the process dies between a failure and the word of it.
    excuses_a_missing_word: bool,
}

const SOUND: Rule = Rule {
    acknowledges_last: true,
    reads_ends_last: true,
    never_seals_below_durable: true,
    stops_after_a_failure: true,
    leaves_word: true,
    word_has_its_frontier: true,
    word_has_its_ends: true,
    writes_shadows: true,
    recovery_reads_shadows: true,
    recovery_checks_the_ends: true,
    recovery_lowers_the_cut: false,
    recovery_leaves_word: true,
    excuses_a_missing_word: true,
};

/// How much of it is explored.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Records of each lane.
    records: [u8; LANES],
    rounds: u8,
    /// Files of one round whose syncs fail.
    failures: u8,
}

const CALM: Size = Size {
    records: [2, 2],
    rounds: 3,
    failures: 0,
};
/// Three rounds, of which one fails; two, of which one may fail with two files; and all records.
const LATE: Size = Size {
    records: [2, 1],
    rounds: 3,
    failures: 1,
};
const TWICE: Size = Size {
    records: [2, 1],
    rounds: 2,
    failures: 2,
};
const FULL: Size = Size {
    records: [2, 2],
    rounds: 2,
    failures: 1,
};

/// For controls that need no more.
const SMALL: Size = Size {
    records: [2, 1],
    rounds: 2,
    failures: 0,
};

const ROUND: usize = LANES;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Writer {
    step: u8,
    done: u8,
    bound: u8,
    stamp: u8,
}

/// What `Rounds` carries on, and the registers of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Rounds {
    step: u8,
    last: u8,
    last_ends: [u8; LANES],
    anchor: u8,
    home: u8,
    done_unsynced: bool,
    bound: u8,
    ends: [u8; LANES],
    is_strip: bool,
    next_home: u8,
    /// Files to sync, and those whose sync failed, by their bits.
    todo: u8,
    failed: u8,
    /// Of the last word.
    reached: u8,
    tails: [u8; LANES],
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    disk: Disk,
    clock: u8,
    slots: [Option<u8>; LANES],
    tails: [u8; LANES],
    writers: [Writer; LANES],
    rounds: Rounds,
    durable: u8,
    poisoned: bool,
    word: bool,
}

impl State {
    fn new() -> State {
        State {
            disk: Disk::new(),
            clock: 0,
            slots: [None; LANES],
            tails: [0; LANES],
            writers: [Writer::default(); LANES],
            rounds: Rounds::default(),
            durable: 0,
            poisoned: false,
            word: false,
        }
    }

    fn frontier(&self) -> u8 {
        let bounds = self.slots.iter().flatten();
        bounds.fold(self.clock, |least, bound| least.min(*bound))
    }

    /// The next step of the writer of `lane`, if there is one.
    fn write(&mut self, lane: usize, records: u8) -> bool {
        let mut me = self.writers[lane];
        me.step += 1;
        match me.step {
            // `reserve` looks for the poison; who is beyond it goes on.
            1 if me.done == records || self.poisoned => return false,
            1 => me.bound = self.clock,
            2 => self.slots[lane] = Some(me.bound),
            3 => {
                self.clock += 1;
                me.stamp = self.clock;
            }
            4 => {
                let place = Place::Record(lane, self.tails[lane]);
                self.disk.write(place, u16::from(me.stamp));
                self.tails[lane] += 1;
            }
            _ => {
                self.slots[lane] = None;
                me = Writer {
                    done: me.done + 1,
                    ..Writer::default()
                };
            }
        }
        self.writers[lane] = me;
        true
    }

    fn seal(&self) -> Seal {
        let rounds = &self.rounds;
        Seal {
            round: rounds.last + 1,
            frontier: rounds.bound,
            failed: false,
            anchor: rounds.anchor + u8::from(!rounds.is_strip),
            home: rounds.next_home,
            ends: rounds.ends,
        }
    }

    /// All that a round may do next; nothing if there are no more.
    fn round(&self, rule: Rule, size: Size) -> Vec<State> {
        let mut next = self.clone();
        let rounds = &mut next.rounds;
        rounds.step += 1;
        let reads = match rule.reads_ends_last {
            true => [2, 0, 1],
            false => [0, 1, 2],
        };
        match self.rounds.step {
            0 if self.poisoned || rounds.last == size.rounds => return Vec::new(),
            0 => {
                let mut all = vec![next];
                if self.rounds.done_unsynced {
                    all.extend(self.sync_done(size));
                }
                return all;
            }
            step @ 1..=3 => match reads[usize::from(step) - 1] {
                2 if rule.never_seals_below_durable => {
                    rounds.bound = self.frontier().max(self.durable);
                }
                2 => rounds.bound = self.frontier(),
                lane => rounds.ends[lane] = self.tails[lane],
            },
            4 if rounds.bound <= self.durable && rule.never_seals_below_durable => {
                *rounds = Rounds {
                    step: 0,
                    bound: 0,
                    ends: [0; LANES],
                    ..*rounds
                };
            }
            4 => next.place(rule),
            5 => {
                let seal = self.seal();
                if self.rounds.is_strip {
                    next.disk
                        .seal(Place::Strip(usize::from(seal.home) - 1, seal.round), seal);
                }
                if !rule.acknowledges_last {
                    next.durable = next.durable.max(seal.frontier);
                }
            }
            6 => return self.sync(rule, size),
            7 => next.durable = next.durable.max(rounds.bound),
            8 => next.finish(),
            // `leave_word`.
            10 => next.poisoned = true,
            11 => rounds.reached = self.frontier().max(rounds.bound),
            step @ 12..=13 => {
                let lane = usize::from(step) - 12;
                rounds.tails[lane] = self.tails[lane];
            }
            14 => {
                let mut seal = Seal {
                    failed: true,
                    ..self.seal()
                };
                if rule.word_has_its_frontier {
                    seal.frontier = rounds.reached;
                }
                if rule.word_has_its_ends {
                    seal.ends = rounds.tails;
                }
                next.word = true;
                match self.rounds.is_strip {
                    _ if !rule.leaves_word => {}
                    true => next.disk.seal(Place::Shadow(seal.round), seal),
                    false => next.disk.seal(Place::Anchor(seal.anchor), seal),
                }
            }
            _ => return Vec::new(),
        }
        vec![next]
    }

    /// `dirty`, `place`, `next_home`, and the first write of `write_seal`.
    fn place(&mut self, rule: Rule) {
        let rounds = &mut self.rounds;
        let is_dirty = |lane: &usize| rounds.ends[*lane] != rounds.last_ends[*lane];
        let dirty: Vec<usize> = (0..LANES).filter(is_dirty).collect();
        rounds.todo = dirty.iter().fold(0, |todo, lane| todo | 1 << lane);
        let home = usize::from(rounds.home);
        rounds.is_strip = dirty.iter().any(|lane| lane + 1 == home);
        let newest = dirty.last().map_or(0, |lane| lane + 1);
        rounds.next_home = match rounds.is_strip {
            true => rounds.home,
            false => u8::try_from(newest).expect("a lane"),
        };
        let is_strip = rounds.is_strip;
        if !is_strip {
            rounds.todo |= 1 << SEALS;
        }
        let seal = self.seal();
        match is_strip {
            true if rule.writes_shadows => self.disk.seal(Place::Shadow(seal.round), seal),
            true => {}
            false => self.disk.seal(Place::Anchor(seal.anchor), seal),
        }
    }

    /// One file of `sync_all`, whichever comes next.
    fn sync(&self, rule: Rule, size: Size) -> Vec<State> {
        let step = match (self.rounds.todo, self.rounds.failed) {
            (0, 0) => 7,
            (0, _) if !rule.stops_after_a_failure => 7,
            (0, _) => 10,
            _ => 6,
        };
        if step != 6 {
            let mut next = self.clone();
            next.rounds.step = step;
            return vec![next];
        }
        let mut all = Vec::new();
        for file in (0..=SEALS).filter(|file| self.rounds.todo & 1 << file != 0) {
            let mut synced = self.clone();
            synced.rounds.todo &= !(1 << file);
            let failures = self.rounds.failed.count_ones();
            if failures < u32::from(size.failures) {
                for disk in self.disk.failed_syncs(file) {
                    let mut failed = synced.clone();
                    failed.disk = disk;
                    failed.rounds.failed |= 1 << file;
                    all.push(failed);
                }
            }
            synced.disk.sync(file);
            all.push(synced);
        }
        all
    }

    /// `write_done` and `settle`.
    fn finish(&mut self) {
        let seal = self.seal();
        let rounds = self.rounds;
        match rounds.is_strip {
            true => self
                .disk
                .write(Place::ShadowDone(seal.round), u16::from(seal.round) + 1),
            false => self
                .disk
                .write(Place::AnchorDone(seal.anchor), u16::from(seal.anchor) + 1),
        }
        self.rounds = Rounds {
            last: seal.round,
            last_ends: rounds.ends,
            anchor: seal.anchor,
            home: seal.home,
            done_unsynced: true,
            ..Rounds::default()
        };
    }

    fn sync_done(&self, size: Size) -> Vec<State> {
        let mut synced = self.clone();
        synced.rounds.done_unsynced = false;
        synced.disk.sync(SEALS);
        let mut all = vec![synced];
        if size.failures > 0 {
            for disk in self.disk.failed_syncs(SEALS) {
                let mut failed = self.clone();
                (failed.disk, failed.poisoned) = (disk, true);
                all.push(failed);
            }
        }
        all
    }

    /// What may be demanded of a crash now.
    fn known(&self) -> Known {
        let is_open = self.rounds.failed != 0 && !self.word;
        let written: usize = self.tails.iter().map(|tail| usize::from(*tail)).sum();
        Known {
            durable: self.durable,
            // Between the failure and the word of it.
            open: is_open.then_some(match self.rounds.failed & 1 << SEALS {
                0 => self.rounds.bound.max(self.durable),
                _ => self.durable,
            }),
            has_failed: self.rounds.failed != 0,
            kept: match self.word && complete(&self.disk).len() == written {
                true => self.rounds.reached,
                false => 0,
            },
        }
    }
}

fn run(rule: Rule, size: Size) -> (Explored, usize) {
    assert!(
        size.records
            .iter()
            .all(|records| usize::from(*records) <= RECORDS)
    );
    assert!(usize::from(size.rounds) <= ROUNDS);
    let judge = RefCell::new(Judge::new(rule, size.failures > 0));
    let step = |state: &State, thread: usize| {
        if thread == ROUND {
            let all = state.round(rule, size);
            return match all.is_empty() {
                true => Step::Done,
                false => Step::To(all),
            };
        }
        let mut next = state.clone();
        match next.write(thread, size.records[thread]) {
            true => Step::To(vec![next]),
            false => Step::Done,
        }
    };
    let check = |state: &State| judge.borrow_mut().crash(&state.disk, state.known());
    let explored = explore(State::new(), LANES + 1, 10_000_000, step, check);
    (explored, judge.into_inner().crashes())
}

#[test]
fn what_is_recovered_is_a_prefix_with_all_that_was_durable() {
    let sizes = [
        ("no failure", CALM),
        ("a failure in three rounds", LATE),
        ("two files fail", TWICE),
        ("a failure, four records", FULL),
    ];
    for (name, size) in sizes {
        let (explored, crashes) = run(SOUND, size);
        assert_eq!(explored.failure, None, "{name}");
        println!(
            "model: cut, {name} | all interleavings | {} states, {crashes} crashes",
            explored.states
        );
    }
}

#[test]
fn each_rule_of_the_cut_is_necessary() {
    type Spoil = fn(&mut Rule);
    let spoilt: [(Size, Spoil); 13] = [
        (CALM, |rule| rule.acknowledges_last = false),
        (CALM, |rule| rule.reads_ends_last = false),
        (SMALL, |rule| rule.never_seals_below_durable = false),
        (TWICE, |rule| rule.stops_after_a_failure = false),
        (TWICE, |rule| rule.leaves_word = false),
        (TWICE, |rule| rule.word_has_its_frontier = false),
        (TWICE, |rule| rule.word_has_its_ends = false),
        (TWICE, |rule| rule.writes_shadows = false),
        (TWICE, |rule| rule.recovery_reads_shadows = false),
        (CALM, |rule| rule.recovery_checks_the_ends = false),
        (CALM, |rule| rule.recovery_lowers_the_cut = true),
        (TWICE, |rule| rule.recovery_leaves_word = false),
        (TWICE, |rule| rule.excuses_a_missing_word = false),
    ];
    for (size, spoil) in spoilt {
        let mut rule = SOUND;
        spoil(&mut rule);
        let (explored, _) = run(rule, size);
        assert!(explored.failure.is_some(), "not noticed: {rule:?}");
    }
}
