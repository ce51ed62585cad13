//! A value that expires over an older one that does not, while time goes on, data moves down and
//! a snapshot reads: every interleaving of a small protocol.
//!
//! An expired version is a tombstone: it becomes one when data is merged, and leaves only where a
//! tombstone may. The code is `Retention` and the iterator over it in `tree`.

use velella_testkit::{Explored, Step, explore};

#[derive(Debug, Clone, Copy)]
struct Rule {
    /// What expired becomes a tombstone, instead of nothing.
    leaves_tombstone: bool,
    /// A tombstone leaves only at the bottom.
    bottom_only: bool,
    /// Nothing expires that a live snapshot still sees by its own clock.
    minds_snapshots: bool,
    /// A snapshot keeps the clock it began with.
    fixes_now: bool,
}

const SOUND: Rule = Rule {
    leaves_tombstone: true,
    bottom_only: true,
    minds_snapshots: true,
    fixes_now: true,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Version {
    Value,
    /// A value until time 1.
    Expiring,
    Tombstone,
}

const LEVELS: usize = 3;
/// The clock, what merges, a snapshot.
const THREADS: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    /// One key: memtable, upper level, bottom; what is further up is newer.
    levels: [Option<Version>; LEVELS],
    at: [u8; THREADS],
    /// The snapshot's clock, and what it read first.
    snapshot: Option<u8>,
    first: Option<Option<Version>>,
    wrong: Option<String>,
}

impl State {
    fn read(&self, now: u8) -> Option<Version> {
        match self.levels.iter().flatten().next() {
            Some(Version::Expiring) if now >= 1 => None,
            Some(Version::Tombstone) | None => None,
            found => found.copied(),
        }
    }

    /// Moves what is in `level` down by one, over what is there.
    fn merge(&mut self, rule: Rule, level: usize) {
        let oldest = self.snapshot.filter(|_| rule.minds_snapshots);
        let now = oldest.map_or(self.now, |snapshot| snapshot.min(self.now));
        let mut moved = self.levels[level].take();
        if moved == Some(Version::Expiring) && now >= 1 {
            moved = rule.leaves_tombstone.then_some(Version::Tombstone);
        }
        let to = level + 1;
        let merged = moved.or(self.levels[to]);
        let may_leave = to == LEVELS - 1 || !rule.bottom_only;
        let leaves = merged == Some(Version::Tombstone) && may_leave;
        self.levels[to] = if leaves { None } else { merged };
    }

    fn step(&mut self, rule: Rule, thread: usize) -> bool {
        let at = self.at[thread];
        match (thread, at) {
            (0, 0..2) => self.now += 1,
            // Flushed, merged to the bottom, and once more.
            (1, 0..4) => self.merge(rule, usize::from(at % 2)),
            (2, 0) => self.snapshot = Some(self.now),
            (2, 1) => self.first = Some(self.read_snapshot(rule)),
            (2, 2) => {
                let again = self.read_snapshot(rule);
                if self.first.is_some_and(|first| first != again) {
                    self.wrong = Some(format!("a snapshot changed to {again:?}"));
                }
            }
            (2, 3) => self.snapshot = None,
            _ => return false,
        }
        self.at[thread] += 1;
        true
    }

    fn read_snapshot(&self, rule: Rule) -> Option<Version> {
        let now = self.snapshot.filter(|_| rule.fixes_now);
        self.read(now.unwrap_or(self.now))
    }

    fn check(&self) -> Result<(), String> {
        if let Some(wrong) = &self.wrong {
            return Err(wrong.clone());
        }
        match (self.now >= 1, self.read(self.now)) {
            (true, Some(found)) => Err(format!("after the expiry there is a {found:?}")),
            _ => Ok(()),
        }
    }
}

fn run(rule: Rule) -> Explored {
    let start = State {
        now: 0,
        levels: [Some(Version::Expiring), None, Some(Version::Value)],
        at: [0; THREADS],
        snapshot: None,
        first: None,
        wrong: None,
    };
    let step = move |state: &State, thread: usize| {
        let mut next = state.clone();
        match next.step(rule, thread) {
            true => Step::To(vec![next]),
            false => Step::Done,
        }
    };
    explore(start, THREADS, 100_000, step, State::check)
}

#[test]
fn what_expired_never_uncovers_what_it_replaced() {
    let explored = run(SOUND);
    assert_eq!(explored.failure, None);
    println!(
        "model: expiry | all interleavings | {} states",
        explored.states
    );
}

#[test]
fn each_rule_is_necessary() {
    let mut spoilt = [SOUND; 4];
    spoilt[0].leaves_tombstone = false;
    spoilt[1].bottom_only = false;
    spoilt[2].minds_snapshots = false;
    spoilt[3].fixes_now = false;
    for rule in spoilt {
        let explored = run(rule);
        assert!(explored.failure.is_some(), "not noticed: {rule:?}");
    }
}
