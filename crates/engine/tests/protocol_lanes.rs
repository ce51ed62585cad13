//! Slot and lane are one pair, checked out for a whole write; a keyspace is dropped meanwhile:
//! every interleaving of a small protocol.
//!
//! Source: amendment A7 of the protocol (docs/concurrency.md); the code is `Engine::checkout`,
//! `Engine::window`, `Engine::owns`, `Engine::drop_keyspace`, `Slots::frontier`.

use velella_testkit::{Explored, Step, explore};

#[derive(Debug, Clone, Copy)]
struct Rule {
    /// Who has a slot has the lane of the same number, and nobody else has.
    one_pair: bool,
    /// The pair is given back after the slot is idle.
    returned_last: bool,
    /// A writer looks whether its keyspace lives after it drew its stamp.
    looks_again: bool,
    /// A drop is marked before it draws its stamp.
    marks_first: bool,
    /// A drop waits until everything below it is durable.
    drop_waits: bool,
}

const SOUND: Rule = Rule {
    one_pair: true,
    returned_last: true,
    looks_again: true,
    marks_first: true,
    drop_waits: true,
};

const PAIRS: usize = 2;
const WRITERS: usize = 2;
/// Of each writer.
const WRITES: [u8; WRITERS] = [2, 1];
const ROUND: usize = WRITERS;
const DROPPER: usize = WRITERS + 1;
const THREADS: usize = WRITERS + 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Writer {
    step: u8,
    done: u8,
    slot: usize,
    lane: usize,
    bound: u8,
    stamp: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct State {
    clock: u8,
    slots: [Option<u8>; PAIRS],
    busy: [bool; PAIRS],
    lanes: [Vec<u8>; PAIRS],
    /// Stamps that no write has.
    burned: Vec<u8>,
    published: Vec<u8>,
    writers: [Writer; WRITERS],
    /// The round's step and register, and D.
    round: (u8, u8),
    durable: u8,
    marked: bool,
    /// The drop's step, its stamp, and whether it is in the manifest.
    drop: (u8, u8, bool),
    wrong: Option<String>,
}

impl State {
    /// Every way to check a pair out.
    fn check_out(&self, rule: Rule, index: usize) -> Vec<State> {
        let free = (0..PAIRS).filter(|slot| !self.busy[*slot]);
        let lanes = |slot: usize| match rule.one_pair {
            true => slot..slot + 1,
            false => 0..PAIRS,
        };
        free.flat_map(|slot| lanes(slot).map(move |lane| (slot, lane)))
            .map(|(slot, lane)| {
                let mut next = self.clone();
                next.busy[slot] = true;
                let writer = &mut next.writers[index];
                (writer.slot, writer.lane, writer.step) = (slot, lane, 1);
                next
            })
            .collect()
    }

    /// Steps 1 to 7 of a write that has a pair.
    fn write(&mut self, rule: Rule, index: usize) {
        let mut me = self.writers[index];
        me.step += 1;
        match me.step - 1 {
            1 => me.bound = self.clock,
            2 => self.slots[me.slot] = Some(me.bound),
            3 => {
                self.clock += 1;
                me.stamp = self.clock;
            }
            4 if self.marked && rule.looks_again => {
                self.burned.push(me.stamp);
                self.burned.sort_unstable();
                self.slots[me.slot] = None;
                self.busy[me.slot] = false;
                (me.step, me.done) = (0, WRITES[index]);
            }
            5 => {
                let lane = &mut self.lanes[me.lane];
                if lane.last().is_some_and(|last| *last >= me.stamp) {
                    self.wrong = Some(format!("{} follows {lane:?} in a lane", me.stamp));
                }
                lane.push(me.stamp);
                self.busy[me.slot] &= rule.returned_last;
            }
            6 => {
                self.published.push(me.stamp);
                self.published.sort_unstable();
            }
            7 => {
                self.slots[me.slot] = None;
                if rule.returned_last {
                    self.busy[me.slot] = false;
                }
                (me.step, me.done) = (0, me.done + 1);
            }
            _ => {}
        }
        self.writers[index] = me;
    }

    /// Two rounds: the clock, each slot, then D.
    fn run_round(&mut self) -> bool {
        let (step, found) = self.round;
        let next = match step % 4 {
            _ if step == 8 => return false,
            0 => self.clock,
            slot @ 1..=2 => {
                self.slots[usize::from(slot) - 1].map_or(found, |bound| bound.min(found))
            }
            _ => {
                let known = |stamp: &u8| {
                    self.lanes
                        .iter()
                        .flatten()
                        .chain(&self.burned)
                        .any(|one| one == stamp)
                };
                if let Some(missing) = (1..=found).find(|stamp| !known(stamp)) {
                    self.wrong = Some(format!("D is {found}, but {missing} is in no lane"));
                }
                self.durable = self.durable.max(found);
                0
            }
        };
        self.round = (step + 1, next);
        true
    }

    /// `None`: it waits. `Some(false)`: it has ended.
    fn drop_keyspace(&mut self, rule: Rule) -> Option<bool> {
        let order = if rule.marks_first { [0, 1] } else { [1, 0] };
        match self.drop.0 {
            step @ 0..=1 => match order[usize::from(step)] {
                0 => self.marked = true,
                _ => {
                    self.clock += 1;
                    self.drop.1 = self.clock;
                    self.burned.push(self.clock);
                    self.burned.sort_unstable();
                }
            },
            2 if rule.drop_waits => {
                let frontier = self
                    .slots
                    .iter()
                    .flatten()
                    .fold(self.clock, |f, b| f.min(*b));
                if frontier < self.drop.1 - 1 {
                    return None;
                }
                self.durable = self.durable.max(frontier);
            }
            3 => self.drop.2 = true,
            4 => return Some(false),
            _ => {}
        }
        self.drop.0 += 1;
        Some(true)
    }

    fn check(&self) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        let (_, stamp, committed) = self.drop;
        if !committed {
            return Ok(());
        }
        if let Some(late) = self.published.iter().find(|one| **one > stamp) {
            return Err(format!("{late} was written after the drop at {stamp}"));
        }
        match self.published.iter().find(|one| **one > self.durable) {
            Some(lost) => Err(format!("the drop at {stamp} survives without {lost}")),
            None => Ok(()),
        }
    }
}

fn run(rule: Rule) -> Explored {
    let step = move |state: &State, thread: usize| {
        let mut next = state.clone();
        match thread {
            ROUND => match next.run_round() {
                true => Step::To(vec![next]),
                false => Step::Done,
            },
            DROPPER => match next.drop_keyspace(rule) {
                None => Step::Blocked,
                Some(false) => Step::Done,
                Some(true) => Step::To(vec![next]),
            },
            writer => match state.writers[writer] {
                Writer { step: 0, done, .. } if done >= WRITES[writer] => Step::Done,
                Writer { step: 0, .. } => match state.check_out(rule, writer) {
                    pairs if pairs.is_empty() => Step::Blocked,
                    pairs => Step::To(pairs),
                },
                _ => {
                    next.write(rule, writer);
                    Step::To(vec![next])
                }
            },
        }
    };
    explore(State::default(), THREADS, 10_000_000, step, State::check)
}

#[test]
fn a_lane_ascends_and_a_drop_is_the_last_word() {
    let explored = run(SOUND);
    assert_eq!(explored.failure, None);
    println!(
        "model: lanes | all interleavings | {} states",
        explored.states
    );
}

#[test]
fn each_rule_is_necessary() {
    let mut spoilt = [SOUND; 5];
    spoilt[0].one_pair = false;
    spoilt[1].returned_last = false;
    spoilt[2].looks_again = false;
    spoilt[3].marks_first = false;
    spoilt[4].drop_waits = false;
    for rule in spoilt {
        let explored = run(rule);
        assert!(explored.failure.is_some(), "not noticed: {rule:?}");
    }
}
