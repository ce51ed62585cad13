//! Whether the page cache is the one that the last run wrote to: deaths of the process, losses of
//! power and restarts in another mount namespace at any step, opening included, in every order.
//!
//! Source: amendment A2 of the protocol (docs/format/journal.md); the code is
//! `velella_journal::recovery` (the token), `Engine::open`. Records are pushed to the device in any
//! order, so what a loss of power leaves of them is any subset.

use velella_testkit::{Explored, Step, explore};

#[derive(Debug, Clone, Copy)]
struct Rule {
    /// The boot is part of the token.
    compares_boot: bool,
    /// The mount is compared only in the namespace it was noted in.
    mount_in_namespace: bool,
    /// Each opening notes the token it finds.
    renews: bool,
    /// The new journal is durable before the manifest names it.
    journal_first: bool,
    /// What another run may have lost is not taken beyond the last round.
    cuts: bool,
}

const SOUND: Rule = Rule {
    compares_boot: true,
    mount_in_namespace: true,
    renews: true,
    journal_first: true,
    cuts: true,
};

const STAMPS: usize = 3;
const RUNS: usize = 4;
/// The database, and whatever happens to it.
const THREADS: usize = 2;

/// Boot, and namespace; a mount has another id in each namespace and each boot.
type Place = (u8, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Down,
    /// Steps of an opening; which stamps it takes, one bit each.
    Opening(u8, u8),
    Up,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    place: Place,
    at: At,
    /// What the manifest says: run, token, stamps in tables.
    run: usize,
    token: Place,
    tables: u8,
    /// Journals, by run: in the page cache, on the device.
    journals: [(bool, bool); RUNS],
    /// Records of the present run in the page cache and on the device, one bit each.
    cache: u8,
    device: u8,
    /// How many stamps were acknowledged; how many were durable.
    acknowledged: usize,
    durable: usize,
    /// The power was lost since the present run wrote first.
    power_lost: bool,
    /// Deaths, losses of power and moves left.
    left: [u8; 3],
    wrong: Option<String>,
}

fn prefix(stamps: usize) -> u8 {
    (1 << stamps) - 1
}

impl State {
    fn start() -> State {
        let mut journals = [(false, false); RUNS];
        journals[0] = (true, true);
        State {
            place: (0, 0),
            at: At::Up,
            run: 0,
            token: (0, 0),
            tables: 0,
            journals,
            cache: 0,
            device: 0,
            acknowledged: 0,
            durable: 0,
            power_lost: false,
            left: [2, 2, 1],
            wrong: None,
        }
    }

    fn is_same(&self, rule: Rule) -> bool {
        let (boot, namespace) = self.token;
        let same_boot = boot == self.place.0 || !rule.compares_boot;
        let same_namespace = namespace == self.place.1;
        // Within a namespace and a boot the mount is the same here.
        same_boot && (same_namespace || rule.mount_in_namespace)
    }

    /// What an opening takes of the journal.
    fn take(&mut self, rule: Rule) -> u8 {
        if !self.journals[self.run].0 {
            self.wrong = Some("the manifest names a journal that is not there".to_owned());
        }
        let all = self.tables | self.cache;
        let taken = match self.is_same(rule) || !rule.cuts {
            true => all,
            false => all & prefix(self.durable) | self.tables,
        };
        let is_prefix = (0..=STAMPS).any(|stamps| prefix(stamps) == taken);
        let least = match self.power_lost {
            true => self.durable,
            false => self.acknowledged,
        };
        if !is_prefix {
            self.wrong = Some(format!("{taken:#b} is no prefix"));
        } else if taken & prefix(least) != prefix(least) {
            self.wrong = Some(format!(
                "{taken:#b} lacks one of {least} that were promised"
            ));
        }
        taken
    }

    fn database(&mut self, rule: Rule) -> Vec<State> {
        let mut next = self.clone();
        match self.at {
            At::Down => next.at = At::Opening(0, 0),
            At::Opening(0, _) => next.at = At::Opening(1, next.take(rule)),
            At::Opening(step @ 1..=2, taken) => {
                let run = self.run + usize::from(step == 1 || rule.journal_first);
                match (step == 1) == rule.journal_first {
                    true => next.journals[run.min(RUNS - 1)] = (true, true),
                    false => next.name(rule, taken),
                }
                next.at = match step {
                    1 => At::Opening(2, taken),
                    _ => At::Up,
                };
            }
            At::Opening(..) => unreachable!("an opening has three steps"),
            At::Up => {
                // A write, or a round.
                let mut all = Vec::new();
                if self.acknowledged < STAMPS {
                    next.cache |= 1 << self.acknowledged;
                    next.acknowledged += 1;
                    all.push(next);
                }
                if self.durable < self.acknowledged {
                    let mut synced = self.clone();
                    synced.device = synced.cache;
                    synced.durable = synced.acknowledged;
                    all.push(synced);
                }
                return all;
            }
        }
        vec![next]
    }

    /// The one edit that makes an opening true; what it took is in tables.
    fn name(&mut self, rule: Rule, taken: u8) {
        self.run += 1;
        if rule.renews {
            self.token = self.place;
        }
        self.tables = taken;
        (self.cache, self.device, self.power_lost) = (0, 0, false);
        self.acknowledged = taken.count_ones() as usize;
        self.durable = self.acknowledged;
    }

    /// A death, a loss of power, a restart elsewhere.
    fn happens(&self) -> Vec<State> {
        let mut all = Vec::new();
        let spend = |what: usize| {
            let mut next = self.clone();
            next.left[what] = next.left[what].checked_sub(1)?;
            next.at = At::Down;
            Some(next)
        };
        all.extend(spend(0));
        if let Some(lost) = spend(1) {
            for kept in 0..=prefix(STAMPS) {
                let mut next = lost.clone();
                next.cache = self.device | self.cache & kept;
                next.device = next.cache;
                next.place.0 += 1;
                next.power_lost = true;
                next.journals
                    .iter_mut()
                    .for_each(|journal| journal.0 = journal.1);
                all.push(next);
            }
        }
        if let Some(mut moved) = spend(2) {
            moved.place.1 += 1;
            all.push(moved);
        }
        all
    }
}

fn run(rule: Rule) -> Explored {
    let step = move |state: &State, thread: usize| {
        let next = match thread {
            0 if state.run + 1 >= RUNS && state.at != At::Up => Vec::new(),
            0 => state.clone().database(rule),
            _ => state.happens(),
        };
        match next.is_empty() {
            true => Step::Done,
            false => Step::To(next),
        }
    };
    let check = |state: &State| state.wrong.clone().map_or(Ok(()), Err);
    explore(State::start(), THREADS, 5_000_000, step, check)
}

#[test]
fn a_dead_process_loses_nothing_and_a_loss_of_power_leaves_a_prefix() {
    let explored = run(SOUND);
    assert_eq!(explored.failure, None);
    println!("model: token | all orders | {} states", explored.states);
}

#[test]
fn each_part_is_necessary() {
    let mut spoilt = [SOUND; 5];
    spoilt[0].compares_boot = false;
    spoilt[1].mount_in_namespace = false;
    spoilt[2].renews = false;
    spoilt[3].journal_first = false;
    spoilt[4].cuts = false;
    for rule in spoilt {
        let explored = run(rule);
        assert!(explored.failure.is_some(), "not noticed: {rule:?}");
    }
}
