//! Read-modify-writes across two switches of memtables, with an older memtable that is not flushed
//! yet: every interleaving of a small protocol.
//!
//! Source: cLSM (EuroSys '15) 3.1 has one immutable memtable; with several, a switch waits until
//! the one before is quiesced, and readers and bases go on to `older`. The code is
//! `Engine::switch`, `Split`, `View` and `Engine::attempt`; the numbers are steps of
//! docs/concurrency.md.

use velella_testkit::{Explored, Step, explore};

#[derive(Debug, Clone, Copy)]
struct Rule {
    /// A switch waits until the one before is quiesced.
    waits_for_quiescence: bool,
    /// A base is looked for in `older` as well.
    looks_into_older: bool,
    /// W is decided before the previous memtable is looked at.
    decides_first: bool,
    /// A writer looks again which memtable owns its stamp.
    looks_again: bool,
}

const SOUND: Rule = Rule {
    waits_for_quiescence: true,
    looks_into_older: true,
    decides_first: true,
    looks_again: true,
};

const WRITERS: usize = 2;
const SWITCHES: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Word {
    Pending,
    Aborted,
    /// Stamp and value.
    Committed(u8, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Writer {
    step: u8,
    /// The view it loaded, the length of the list it saw, the base it read, its stamp.
    view: usize,
    seen: usize,
    base: u8,
    stamp: u8,
}

/// One key. View `n` has memtable `n` to write to, `n - 1` before it, and all below as `older`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    clock: u8,
    view: usize,
    /// Its list in each memtable, the newest last.
    lists: Vec<Vec<Word>>,
    /// W of each view, 0 while undecided, and whether it is quiesced.
    splits: Vec<(u8, bool)>,
    slots: [Option<u8>; WRITERS],
    writers: [Writer; WRITERS],
    switcher: u8,
}

fn committed(list: &[Word]) -> Option<u8> {
    list.iter().rev().find_map(|word| match word {
        Word::Committed(_, value) => Some(*value),
        _ => None,
    })
}

impl State {
    fn start() -> State {
        State {
            clock: 0,
            view: 0,
            lists: vec![Vec::new(); SWITCHES + 1],
            splits: vec![(0, true); SWITCHES + 1],
            slots: [None; WRITERS],
            writers: [Writer::default(); WRITERS],
            switcher: 0,
        }
    }

    fn decide(&mut self, view: usize) -> u8 {
        if self.splits[view].0 == 0 {
            self.clock += 1;
            self.splits[view].0 = self.clock;
        }
        self.splits[view].0
    }

    fn is_pending(&self, memtable: usize) -> bool {
        self.lists[memtable].last() == Some(&Word::Pending)
    }

    /// `None`: it waits. `Some(false)`: it has ended.
    fn write(&mut self, rule: Rule, index: usize) -> Option<bool> {
        let mut me = self.writers[index];
        me.step += 1;
        match me.step - 1 {
            0 => me.view = self.view,
            // Step 3: the memtable before must be final for this key.
            1 if me.view > 0 && !self.splits[me.view].1 && rule.decides_first => {
                self.decide(me.view);
            }
            2 if me.view > 0 && !self.splits[me.view].1 && self.is_pending(me.view - 1) => {
                return None;
            }
            3 if self.is_pending(me.view) => return None,
            3 => me.seen = self.lists[me.view].len(),
            4 => {
                let lowest = match rule.looks_into_older {
                    true => 0,
                    false => me.view.saturating_sub(1),
                };
                let mut below = self.lists[lowest..=me.view].iter().rev();
                me.base = below.find_map(|list| committed(list)).unwrap_or(0);
            }
            // Steps 4 to 6.
            5 if self.lists[me.view].len() != me.seen => me.step = 0,
            5 => self.lists[me.view].push(Word::Pending),
            6 => self.slots[index] = Some(self.clock),
            7 => {
                self.clock += 1;
                me.stamp = self.clock;
            }
            // Step 9.
            8 if rule.looks_again && !self.owns(me) => {
                *self.lists[me.view].last_mut().expect("its own") = Word::Aborted;
                self.slots[index] = None;
                me.step = 0;
            }
            9 => {
                let own = self.lists[me.view].last_mut().expect("its own");
                *own = Word::Committed(me.stamp, me.base + 1);
            }
            10 => self.slots[index] = None,
            11 => return Some(false),
            _ => {}
        }
        self.writers[index] = me;
        Some(true)
    }

    fn owns(&mut self, me: Writer) -> bool {
        match self.view - me.view {
            0 => true,
            1 => me.stamp < self.decide(self.view),
            _ => false,
        }
    }

    fn switch(&mut self, rule: Rule) -> Option<bool> {
        let (number, step) = (usize::from(self.switcher / 3) + 1, self.switcher % 3);
        if number > SWITCHES {
            return Some(false);
        }
        match step {
            0 if rule.waits_for_quiescence && !self.splits[self.view].1 => return None,
            0 => {
                self.view = number;
                self.splits[number] = (0, false);
            }
            1 => {
                self.decide(number);
            }
            _ => {
                let boundary = self.splits[number].0;
                let open = self.slots.iter().flatten().any(|bound| *bound < boundary);
                if open && rule.waits_for_quiescence {
                    return None;
                }
                self.splits[number].1 = !open;
            }
        }
        self.switcher += 1;
        Some(true)
    }

    fn check(&self) -> Result<(), String> {
        if self.writers.iter().any(|writer| writer.step < 11) {
            return Ok(());
        }
        let words = self.lists.iter().flatten();
        let mut values: Vec<(u8, u8)> = words
            .filter_map(|word| match word {
                Word::Committed(stamp, value) => Some((*stamp, *value)),
                _ => None,
            })
            .collect();
        values.sort_unstable();
        let found: Vec<u8> = values.iter().map(|(_, value)| *value).collect();
        let wanted: Vec<u8> = (1..=WRITERS as u8).collect();
        match found == wanted {
            true => Ok(()),
            false => Err(format!("an update is lost: {values:?}")),
        }
    }
}

fn run(rule: Rule) -> Explored {
    let step = move |state: &State, thread: usize| {
        let mut next = state.clone();
        let stepped = match thread {
            WRITERS => next.switch(rule),
            _ => next.write(rule, thread),
        };
        match stepped {
            None => Step::Blocked,
            Some(false) => Step::Done,
            Some(true) => Step::To(vec![next]),
        }
    };
    explore(State::start(), WRITERS + 1, 5_000_000, step, State::check)
}

#[test]
fn no_update_is_lost_over_two_switches() {
    let explored = run(SOUND);
    assert_eq!(explored.failure, None);
    println!(
        "model: memtables | all interleavings | {} states",
        explored.states
    );
}

#[test]
fn each_step_is_necessary() {
    let mut spoilt = [SOUND; 4];
    spoilt[0].waits_for_quiescence = false;
    spoilt[1].looks_into_older = false;
    spoilt[2].decides_first = false;
    spoilt[3].looks_again = false;
    for rule in spoilt {
        let explored = run(rule);
        assert!(explored.failure.is_some(), "not noticed: {rule:?}");
    }
}
