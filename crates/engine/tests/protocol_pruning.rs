//! Which versions a collector may drop, against writers, journal rounds and readers at D: every
//! interleaving of a small protocol.
//!
//! Source: cLSM (EuroSys '15) 3.2.2, widened by the durable stamp. The code is `Slots::frontier`,
//! `Snapshots::retention`, `Round::aim` and `Engine::round`; each condition left out is a control
//! that fails.

use velella_testkit::{Explored, Step, explore};

/// The rule, and what to leave out of it.
#[derive(Debug, Clone, Copy)]
struct Rule {
    /// A round without a frontier keeps all above the D it started from, and not only what is
    /// newest there.
    round_is_bound: bool,
    /// A round with a frontier keeps what is newest there.
    aim_is_kept: bool,
    /// It has that frontier before it says so, and not only a bound for it.
    aim_is_true: bool,
    /// D is read after the rounds in flight, and not before.
    durable_after_rounds: bool,
    /// The readers are looked at after D, and not before.
    readers_last: bool,
    /// A frontier is not below one found before.
    frontier_rises: bool,
    /// What is newest at D stays.
    keeps_durable: bool,
    /// Readers register.
    readers_register: bool,
}

const SOUND: Rule = Rule {
    round_is_bound: true,
    aim_is_kept: true,
    aim_is_true: true,
    durable_after_rounds: true,
    readers_last: true,
    frontier_rises: true,
    keeps_durable: true,
    readers_register: true,
};

/// Two writers of a key each, a round, a collector, a reader at D.
const THREADS: usize = 5;
const ROUND: usize = 2;
const COLLECTOR: usize = 3;

/// Stamps of versions, a bit for each: a state is copied and hashed millions of times.
type Versions = u8;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    clock: u8,
    durable: u8,
    settled: u8,
    slots: [Option<u8>; 2],
    /// Versions of each key: there, and ever written.
    kept: [Versions; 2],
    written: [Versions; 2],
    /// The D it started from, and its frontier once that is known.
    round: Option<(u8, Option<u8>)>,
    reader: Option<u8>,
    /// Step and two registers of each thread.
    at: [u8; THREADS],
    held: [[u8; 2]; THREADS],
    /// What the collector saw of the round and of the reader.
    seen_round: Option<(u8, Option<u8>)>,
    seen_reader: Option<u8>,
    wrong: Option<Wrong>,
}

/// What a reader at this D found, and what was newest there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Wrong {
    at: u8,
    found: Option<u8>,
    wanted: Option<u8>,
}

fn stamps(versions: Versions) -> impl DoubleEndedIterator<Item = u8> {
    (0..8).filter(move |stamp| versions >> stamp & 1 == 1)
}

fn newest(versions: Versions, at: u8) -> Option<u8> {
    stamps(versions).rfind(|stamp| *stamp <= at)
}

impl State {
    fn start() -> State {
        State {
            clock: 0,
            durable: 0,
            settled: 0,
            slots: [None; 2],
            kept: [1; 2],
            written: [1; 2],
            round: None,
            reader: None,
            at: [0; THREADS],
            held: [[0; 2]; THREADS],
            seen_round: None,
            seen_reader: None,
            wrong: None,
        }
    }

    /// The steps of a frontier, from step 0 of three on; it ends in register 0.
    fn find_frontier(&mut self, rule: Rule, thread: usize, step: u8) {
        let found = match step {
            0 => self.clock,
            slot => {
                let bound = self.slots[usize::from(slot) - 1].unwrap_or(u8::MAX);
                self.held[thread][0].min(bound)
            }
        };
        self.held[thread][0] = found;
        if step == 2 && rule.frontier_rises {
            self.settled = self.settled.max(found);
            self.held[thread][0] = self.settled;
        }
    }

    /// A write of the key of `thread`; the first thread writes once, the second twice.
    fn write(&mut self, thread: usize) -> bool {
        let step = self.at[thread];
        match step % 5 {
            0 if step / 5 > thread as u8 => return false,
            0 => self.held[thread][0] = self.clock,
            1 => self.slots[thread] = Some(self.held[thread][0]),
            2 => {
                self.clock += 1;
                self.held[thread][1] = self.clock;
            }
            3 => {
                let stamp = self.held[thread][1];
                self.kept[thread] |= 1 << stamp;
                self.written[thread] |= 1 << stamp;
            }
            _ => self.slots[thread] = None,
        }
        true
    }

    fn run_round(&mut self, rule: Rule) -> bool {
        match self.at[ROUND] {
            0 => {
                let aim = (!rule.aim_is_true).then_some(self.clock);
                self.round = Some((self.durable, aim));
            }
            step @ 1..=3 => self.find_frontier(rule, ROUND, step - 1),
            4 => {
                let frontier = self.held[ROUND][0];
                self.round = self.round.map(|(from, aim)| (from, aim.or(Some(frontier))));
            }
            5 => self.durable = self.durable.max(self.held[ROUND][0]),
            6 => self.round = None,
            _ => return false,
        }
        true
    }

    fn collect(&mut self, rule: Rule) -> bool {
        match self.at[COLLECTOR] {
            step @ 0..=2 => self.find_frontier(rule, COLLECTOR, step),
            3..=5 => {
                let order = match (rule.durable_after_rounds, rule.readers_last) {
                    (true, true) => [0, 1, 2],
                    (false, _) => [1, 0, 2],
                    (true, false) => [2, 0, 1],
                };
                match order[usize::from(self.at[COLLECTOR]) - 3] {
                    0 => self.seen_round = self.round,
                    1 => self.held[COLLECTOR][1] = self.durable,
                    _ => self.seen_reader = self.reader,
                }
            }
            6 => self.drop_versions(rule),
            _ => return false,
        }
        true
    }

    fn drop_versions(&mut self, rule: Rule) {
        let [mut frontier, durable] = self.held[COLLECTOR];
        let mut points: Vec<u8> = self.seen_reader.into_iter().collect();
        if let Some((from, aim)) = self.seen_round {
            points.push(from);
            points.extend(aim.filter(|_| rule.aim_is_kept));
            if aim.is_none() && rule.round_is_bound {
                frontier = frontier.min(from);
            }
        }
        if rule.keeps_durable {
            points.push(durable);
        }
        points.push(frontier);
        // The last version stays.
        points.push(u8::MAX);
        for kept in &mut self.kept {
            let all = *kept;
            let above = stamps(all).filter(|stamp| *stamp > frontier);
            let seen = points.iter().filter_map(|point| newest(all, *point));
            *kept = above.chain(seen).fold(0, |kept, stamp| kept | 1 << stamp);
        }
    }

    fn read(&mut self, rule: Rule) -> bool {
        let reader = THREADS - 1;
        match self.at[reader] {
            0 => {
                self.held[reader][0] = self.durable;
                self.reader = rule.readers_register.then_some(self.durable);
            }
            step @ 1..=2 => {
                let (key, at) = (usize::from(step) - 1, self.held[reader][0]);
                let (found, wanted) = (newest(self.kept[key], at), newest(self.written[key], at));
                if found != wanted {
                    self.wrong = Some(Wrong { at, found, wanted });
                }
            }
            3 => self.reader = None,
            _ => return false,
        }
        true
    }
}

fn run(rule: Rule) -> Explored {
    let step = move |state: &State, thread: usize| {
        let mut next = state.clone();
        let stepped = match thread {
            ROUND => next.run_round(rule),
            COLLECTOR => next.collect(rule),
            0 | 1 => next.write(thread),
            _ => next.read(rule),
        };
        next.at[thread] += 1;
        if stepped {
            Step::To(vec![next])
        } else {
            Step::Done
        }
    };
    let check = |state: &State| match &state.wrong {
        Some(Wrong { at, found, wanted }) => {
            Err(format!("at D {at}: {found:?} instead of {wanted:?}"))
        }
        None => Ok(()),
    };
    explore(State::start(), THREADS, 5_000_000, step, check)
}

#[test]
fn a_reader_at_d_finds_what_was_newest_there() {
    let explored = run(SOUND);
    assert_eq!(explored.failure, None);
    println!(
        "model: pruning | all interleavings | {} states",
        explored.states
    );
}

#[test]
fn each_condition_is_necessary() {
    let mut spoilt = [SOUND; 8];
    spoilt[0].round_is_bound = false;
    spoilt[1].durable_after_rounds = false;
    spoilt[2].readers_last = false;
    spoilt[3].frontier_rises = false;
    spoilt[4].keeps_durable = false;
    spoilt[5].readers_register = false;
    spoilt[6].aim_is_kept = false;
    spoilt[7].aim_is_true = false;
    for rule in spoilt {
        let explored = run(rule);
        assert!(explored.failure.is_some(), "not noticed: {rule:?}");
    }
}
