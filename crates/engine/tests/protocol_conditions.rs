//! Batches under a condition (`write_if_unchanged`) over a switch of memtables: every interleaving
//! of a small protocol.
//!
//! Source: amendment A3 of the protocol, as far as the product has it: the first committer wins,
//! and a key may not have changed since the snapshot. The code is `Engine::try_batch` and
//! `Engine::conflicts`; the numbers are steps of docs/concurrency.md. Ranges and keys that are only
//! read are not validated by the product, and not modelled.

use velella_testkit::{Explored, Step, explore};

#[derive(Debug, Clone, Copy)]
struct Rule {
    /// The condition is looked at after the intent is installed.
    installs_first: bool,
    /// It is looked at in the previous memtable as well.
    looks_into_prev: bool,
    /// W is decided, and the previous memtable waited for, before the intent.
    decides_first: bool,
    /// A writer looks again which memtable owns its stamp.
    looks_again: bool,
    /// A snapshot waits for versions that may be below its time.
    snapshot_waits: bool,
}

const SOUND: Rule = Rule {
    installs_first: true,
    looks_into_prev: true,
    decides_first: true,
    looks_again: true,
    snapshot_waits: true,
};

const WRITERS: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Word {
    /// Its writer.
    Pending(usize),
    Aborted,
    /// Stamp and value.
    Committed(u8, u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Writer {
    step: u8,
    /// The snapshot's time and what it read there.
    since: u8,
    base: u8,
    /// The view it loaded, whether the condition held, its stamp.
    view: usize,
    held: bool,
    stamp: u8,
}

/// One key in two memtables; view 1 has memtable 0 as its previous one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    clock: u8,
    view: usize,
    lists: [Vec<Word>; 2],
    /// W of view 1, 0 while undecided; whether it is quiesced.
    boundary: u8,
    quiesced: bool,
    slots: [Option<u8>; WRITERS],
    writers: [Writer; WRITERS],
    switcher: u8,
}

const END: u8 = 20;

impl State {
    fn start() -> State {
        State {
            clock: 0,
            view: 0,
            lists: [Vec::new(), Vec::new()],
            boundary: 0,
            quiesced: false,
            slots: [None; WRITERS],
            writers: [Writer::default(); WRITERS],
            switcher: 0,
        }
    }

    fn decide(&mut self) -> u8 {
        if self.boundary == 0 {
            self.clock += 1;
            self.boundary = self.clock;
        }
        self.boundary
    }

    fn committed(&self, lists: std::ops::RangeInclusive<usize>) -> impl Iterator<Item = (u8, u8)> {
        let words = self.lists[lists]
            .iter()
            .rev()
            .flat_map(|list| list.iter().rev());
        words.filter_map(|word| match word {
            Word::Committed(stamp, value) => Some((*stamp, *value)),
            _ => None,
        })
    }

    /// Whether an undecided version may have a stamp at or below `since`: its writer has drawn one.
    fn is_undecided_below(&self, since: u8) -> bool {
        self.lists.iter().flatten().any(|word| match word {
            Word::Pending(owner) => (1..=since).contains(&self.writers[*owner].stamp),
            _ => false,
        })
    }

    fn holds(&self, rule: Rule, me: &Writer) -> bool {
        let from = if rule.looks_into_prev { 0 } else { me.view };
        self.committed(from..=me.view)
            .all(|(stamp, _)| stamp <= me.since)
    }

    fn take_back(&mut self, index: usize, view: usize) {
        let own = |word: &&mut Word| **word == Word::Pending(index);
        if let Some(word) = self.lists[view].iter_mut().find(own) {
            *word = Word::Aborted;
        }
        self.slots[index] = None;
    }

    /// `None`: it waits. `Some(false)`: it has ended.
    fn write(&mut self, rule: Rule, index: usize) -> Option<bool> {
        let mut me = self.writers[index];
        let is_split = me.view == 1 && !self.quiesced;
        let pending = |list: &[Word]| matches!(list.last(), Some(Word::Pending(_)));
        me.step += 1;
        match me.step - 1 {
            0 => me.since = self.clock,
            1 if self.is_undecided_below(me.since) && rule.snapshot_waits => return None,
            1 => {
                let mut below = self
                    .committed(0..=1)
                    .filter(|(stamp, _)| *stamp <= me.since);
                me.base = below.next().map_or(0, |(_, value)| value);
            }
            2 => me.view = self.view,
            3 if is_split && rule.decides_first => {
                self.decide();
            }
            4 if is_split && rule.decides_first && pending(&self.lists[0]) => return None,
            5 if !rule.installs_first => me.held = self.holds(rule, &me),
            6 if pending(&self.lists[me.view]) => return None,
            6 => self.lists[me.view].push(Word::Pending(index)),
            7 if rule.installs_first => me.held = self.holds(rule, &me),
            8 if !me.held => {
                self.take_back(index, me.view);
                me.step = END;
            }
            9 => self.slots[index] = Some(self.clock),
            10 => {
                self.clock += 1;
                me.stamp = self.clock;
            }
            11 if rule.looks_again && self.view > me.view && me.stamp >= self.decide() => {
                self.take_back(index, me.view);
                (me.step, me.stamp) = (2, 0);
            }
            12 => {
                let own = self.lists[me.view].iter_mut();
                let mut own = own.filter(|word| **word == Word::Pending(index));
                *own.next().expect("its own") = Word::Committed(me.stamp, me.base + 1);
            }
            13 => {
                self.slots[index] = None;
                me.step = END;
            }
            END => return Some(false),
            _ => {}
        }
        self.writers[index] = me;
        Some(true)
    }

    fn switch(&mut self) -> Option<bool> {
        match self.switcher {
            0 => self.view = 1,
            1 => {
                self.decide();
            }
            2 => {
                let boundary = self.boundary;
                if self.slots.iter().flatten().any(|bound| *bound < boundary) {
                    return None;
                }
                self.quiesced = true;
            }
            _ => return Some(false),
        }
        self.switcher += 1;
        Some(true)
    }

    fn check(&self) -> Result<(), String> {
        if self.writers.iter().any(|writer| writer.step < END) {
            return Ok(());
        }
        let mut values: Vec<_> = self.committed(0..=1).collect();
        values.sort_unstable();
        let chain = (1u8..)
            .zip(&values)
            .all(|(wanted, (_, value))| *value == wanted);
        match (values.is_empty(), chain) {
            (true, _) => Err("nobody won".to_owned()),
            (false, false) => Err(format!("an update is lost: {values:?}")),
            (false, true) => Ok(()),
        }
    }
}

fn run(rule: Rule) -> Explored {
    let step = move |state: &State, thread: usize| {
        let mut next = state.clone();
        let stepped = match thread {
            WRITERS => next.switch(),
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
fn the_first_committer_wins_over_a_switch() {
    let explored = run(SOUND);
    assert_eq!(explored.failure, None);
    println!(
        "model: conditions | all interleavings | {} states",
        explored.states
    );
}

#[test]
fn each_step_is_necessary() {
    let mut spoilt = [SOUND; 5];
    spoilt[0].installs_first = false;
    spoilt[1].looks_into_prev = false;
    spoilt[2].decides_first = false;
    spoilt[3].looks_again = false;
    spoilt[4].snapshot_waits = false;
    for rule in spoilt {
        let explored = run(rule);
        assert!(explored.failure.is_some(), "not noticed: {rule:?}");
    }
}
