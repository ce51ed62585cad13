//! The judge, judged: simulated runs are right whatever the interleaving, the pending writes and
//! the cut; each kind of fault put into what was found is named for what it is.

use super::*;
use crate::crash_test::operation::{Operation, digest, operation};
use crate::crash_test::oracle::{Ack, Log, ThreadLog};
use crate::crash_test::random::Random;
use crate::crash_test::settings::Settings;
use std::collections::BTreeMap;

const INCARNATION: u32 = 3;
const START_MS: u64 = 1_000_000;
const FLOOR: u64 = 100;

/// A database that does what it promises.
struct Model {
    settings: Settings,
    log: Log,
    /// What was there after each stamp, from the floor on.
    states: BTreeMap<u64, State>,
    owners: BTreeSet<u8>,
    /// Threads that are in the middle of an operation; their next is announced.
    stamp: u64,
}

impl Model {
    fn new(seed: u64) -> Self {
        let mut settings = Settings::of(seed);
        settings.stamped_sums = true;
        settings.threads = 4;
        settings.keys = 12;
        settings.batches = true;
        Model {
            settings,
            log: Log {
                threads: vec![ThreadLog::default(); 4],
                phase: [0; 16],
            },
            states: BTreeMap::from([(FLOOR, empty())]),
            owners: BTreeSet::new(),
            stamp: FLOOR,
        }
    }

    fn now(&self) -> State {
        self.states.values().next_back().unwrap().clone()
    }

    fn next(&self, thread: u8) -> (u32, Operation) {
        let number = self.log.threads[usize::from(thread)].announced + 1;
        (
            number,
            operation(&self.settings, INCARNATION, thread, number),
        )
    }

    /// The thread's next operation: done at once, and acknowledged or not.
    fn step(&mut self, thread: u8, is_acknowledged: bool) {
        let (number, operation) = self.next(thread);
        let mut state = self.now();
        let mut ack = Ack::default();
        match &operation.action {
            Action::Toggle => {
                let is_there = self.owners.contains(&thread);
                state
                    .versions
                    .retain(|place, _| place.owner() != Some(thread));
                if is_there {
                    self.owners.remove(&thread);
                } else {
                    self.owners.insert(thread);
                }
                ack.detail = 1 + u64::from(is_there);
                state.owners = self.owners.clone();
                self.states.insert(self.stamp, state);
            }
            Action::Add { place, delta, .. } => {
                self.stamp += 1;
                ack.stamp = self.stamp;
                let sum = match state.versions.get(place).map(|version| version.content) {
                    Some(Content::Sum(sum)) => sum,
                    _ => 0,
                };
                put(
                    &mut state,
                    *place,
                    Content::Sum(sum + delta),
                    self.stamp,
                    None,
                );
                self.states.insert(self.stamp, state);
            }
            Action::Write(changes)
                if changes.iter().all(|change| {
                    change
                        .place
                        .owner()
                        .is_none_or(|owner| self.owners.contains(&owner))
                }) =>
            {
                ack.stamp = self.write(thread, number, &operation);
            }
            Action::Replace { change, if_absent } => {
                let old = state.versions.get(&change.place);
                if old.is_none() || !if_absent {
                    ack.detail = old.map_or(0, |old| old.stamp);
                    ack.stamp = self.write(thread, number, &operation);
                }
            }
            _ => {}
        }
        let log = &mut self.log.threads[usize::from(thread)];
        log.announced = number;
        if is_acknowledged {
            log.acks.push(ack);
        }
    }

    fn write(&mut self, thread: u8, number: u32, operation: &Operation) -> u64 {
        self.stamp += 1;
        let mut state = self.now();
        for (index, change) in (0..).zip(operation.action.changes()) {
            let id = WriteId {
                incarnation: INCARNATION,
                thread,
                number,
                index,
            };
            state.versions.remove(&change.place);
            if let Some((bytes, expiry)) = change.put {
                let expires_ms = expiry.at_ms(START_MS);
                if expires_ms.is_none_or(|at| at > state.latest_ms) {
                    put(
                        &mut state,
                        change.place,
                        content(id, bytes),
                        self.stamp,
                        expires_ms,
                    );
                }
            }
        }
        self.states.insert(self.stamp, state);
        self.stamp
    }

    /// Some operations of random threads; then some threads are cut off in the middle of one,
    /// which may have happened or not.
    fn run(seed: u64, steps: u64) -> (Self, Random) {
        let mut model = Model::new(seed);
        let mut random = Random::of(&[seed, 99]);
        for _ in 0..steps {
            model.step(u8::try_from(random.below(4)).unwrap(), true);
        }
        for thread in 0..4 {
            match random.below(3) {
                0 => {}
                1 => model.log.threads[usize::from(thread)].announced += 1,
                _ => model.step(thread, false),
            }
        }
        (model, random)
    }

    fn judge(&self, found: &State, rule: Rule) -> Result<Verdict, Violation> {
        judge(&Case {
            source: Source {
                settings: &self.settings,
                incarnation: INCARNATION,
                start_ms: START_MS,
                log: &self.log,
            },
            base: &empty(),
            floor: FLOOR,
            found,
            rule,
        })
    }

    #[track_caller]
    fn blames(&self, found: &State, rule: Rule, fault: Fault, words: &str) {
        let violation = self
            .judge(found, rule)
            .expect_err("nothing was found wrong");
        assert_eq!(violation.fault, fault, "{}", violation.text);
        assert!(violation.text.contains(words), "{}", violation.text);
    }
}

fn empty() -> State {
    State {
        earliest_ms: START_MS + 5,
        latest_ms: START_MS + 6,
        ..State::default()
    }
}

fn content(id: WriteId, bytes: u32) -> Content {
    Content::Value {
        id,
        bytes: bytes.max(8),
        digest: digest(&id.value(bytes)),
    }
}

fn put(state: &mut State, place: Place, content: Content, stamp: u64, expires_ms: Option<u64>) {
    let version = Version {
        content,
        stamp,
        expires_ms,
    };
    state.versions.insert(place, version);
}

/// A place whose newest write was acknowledged, and lasts.
fn lasting(model: &Model, state: &State, wants_batch: bool) -> Option<Place> {
    let lasts = |(place, version): (&Place, &Version)| {
        let Content::Value { id, .. } = version.content else {
            return None;
        };
        let acks = &model.log.threads[usize::from(id.thread)].acks;
        let operation = operation(&model.settings, INCARNATION, id.thread, id.number);
        let is_batch = operation.action.changes().len() > 1;
        // A pending deletion could excuse it.
        let is_excused = (0..4).any(|thread| {
            let log = &model.log.threads[usize::from(thread)];
            let last = crate::crash_test::operation::operation(
                &model.settings,
                INCARNATION,
                thread,
                log.announced,
            );
            log.announced as usize > log.acks.len()
                && last
                    .action
                    .changes()
                    .iter()
                    .any(|change| change.place == *place)
        });
        let is_meant = acks.len() >= id.number as usize && is_batch == wants_batch && !is_excused;
        (is_meant && version.expires_ms.is_none()).then_some(*place)
    };
    state.versions.iter().find_map(lasts)
}

#[test]
fn a_database_that_keeps_its_promises_is_never_blamed() {
    let mut pending_found = 0;
    for seed in 0..400 {
        let (model, _) = Model::run(seed, 150);
        let verdict = model.judge(&model.now(), Rule::Kept);
        let verdict = verdict.unwrap_or_else(|violation| panic!("seed {seed}: {violation:?}"));
        assert!(verdict.acknowledged.iter().sum::<u64>() > 50);
        pending_found += verdict.pending_found;
    }
    assert!(
        pending_found > 100,
        "pending writes are seldom seen: {pending_found}"
    );
}

#[test]
fn every_prefix_is_right_down_to_what_was_promised_and_not_below() {
    // Keyspaces come and go without a cut, so they are left out.
    for seed in (0..200).filter(|seed| !Settings::of(*seed).own_keyspaces) {
        let (model, mut random) = Model::run(seed, 80);
        let stamps: Vec<u64> = model.states.keys().copied().collect();
        let stamp = random.pick(&stamps);
        let found = model.states[&stamp].clone();
        let verdict = model.judge(&found, Rule::Prefix(stamp * 2));
        assert!(verdict.is_ok(), "seed {seed}, cut {stamp}: {verdict:?}");
    }
}

#[test]
fn less_than_was_promised_is_blamed() {
    let mut blamed = 0;
    for seed in (0..60).filter(|seed| !Settings::of(*seed).own_keyspaces) {
        let (model, _) = Model::run(seed, 80);
        let stamps: Vec<u64> = model.states.keys().copied().collect();
        let (cut, last) = (stamps[stamps.len() / 2], *stamps.last().unwrap());
        let found = &model.states[&cut];
        blamed += u32::from(model.judge(found, Rule::Prefix(last * 2)).is_err());
        assert!(model.judge(found, Rule::Prefix(cut * 2)).is_ok());
    }
    assert!(blamed > 20, "{blamed}");
}

#[test]
fn a_lost_write_is_called_lost_single_or_batched() {
    for wants_batch in [false, true] {
        let mut blamed = 0;
        for seed in 0..60 {
            let (model, _) = Model::run(seed, 150);
            let mut found = model.now();
            if let Some(place) = lasting(&model, &found, wants_batch) {
                found.versions.remove(&place);
                model.blames(&found, Rule::Kept, Fault::Lost, "is gone; found nothing");
                blamed += 1;
            }
        }
        assert!(blamed > 20, "{blamed}");
    }
}

#[test]
fn half_a_pending_batch_is_called_torn() {
    let mut blamed = 0;
    for seed in 0..2000 {
        let mut model = Model::new(seed);
        model.settings.own_keyspaces = false;
        (0..40).for_each(|n| model.step(n % 4, true));
        let (_, next) = model.next(0);
        let puts = |change: &&crate::crash_test::operation::Change| {
            matches!(
                change.put,
                Some((_, crate::crash_test::operation::Expiry::Never))
            )
        };
        let places: Vec<Place> = next
            .action
            .changes()
            .iter()
            .filter(puts)
            .map(|c| c.place)
            .collect();
        let [first, .., _] = places[..] else { continue };
        let before = model.now();
        model.step(0, false);
        let mut found = model.now();
        assert!(model.judge(&found, Rule::Kept).is_ok());
        match before.versions.get(&first) {
            Some(old) => found.versions.insert(first, *old),
            None => found.versions.remove(&first),
        };
        model.blames(&found, Rule::Kept, Fault::Torn, "in part");
        blamed += 1;
    }
    assert!(blamed > 50, "{blamed}");
}

#[test]
fn a_hole_is_called_a_hole() {
    let mut blamed = 0;
    for seed in (0..120).filter(|seed| !Settings::of(*seed).own_keyspaces) {
        let (model, _) = Model::run(seed, 120);
        let mut found = model.now();
        if let Some(place) = lasting(&model, &found, false) {
            let newest = found
                .versions
                .values()
                .map(|version| version.stamp)
                .max()
                .unwrap();
            let now = found.versions[&place];
            if now.stamp + 20 < newest {
                found.versions.remove(&place);
                model.blames(&found, Rule::Prefix(0), Fault::Hole, "cut");
                // Unless it was promised: then it is lost, whatever cuts others need.
                let promised = Rule::Prefix(2 * (now.stamp + 1));
                model.blames(&found, promised, Fault::Lost, "is gone");
                blamed += 1;
            }
        }
    }
    assert!(blamed > 10, "{blamed}");
}

#[test]
fn an_older_value_a_foreign_one_and_another_stamp_are_seen() {
    let mut older = 0;
    for seed in 0..60 {
        let (model, _) = Model::run(seed, 150);
        let now = model.now();
        let Some(place) = lasting(&model, &now, false) else {
            continue;
        };
        let version = now.versions[&place];
        let Content::Value { id, bytes, digest } = version.content else {
            panic!("a value was chosen");
        };
        let spoilt = |version: Version| {
            let mut found = now.clone();
            found.versions.insert(place, version);
            found
        };
        let stamped = spoilt(Version {
            stamp: version.stamp + 1000,
            ..version
        });
        model.blames(
            &stamped,
            Rule::Kept,
            Fault::Wrong,
            "acknowledged with stamp",
        );
        let number = id.number + 10_000;
        let content = Content::Value {
            id: WriteId { number, ..id },
            bytes,
            digest,
        };
        let foreign = spoilt(Version { content, ..version });
        model.blames(&foreign, Rule::Kept, Fault::Wrong, "never announced");
        let before = model.states.range(..version.stamp).next_back();
        if let Some(old) = before.and_then(|(_, state)| state.versions.get(&place)) {
            let found = spoilt(*old);
            let violation = model.judge(&found, Rule::Kept).unwrap_err();
            assert!(
                violation.text.contains("is gone; found"),
                "{}",
                violation.text
            );
            older += 1;
        }
    }
    assert!(older > 5, "{older}");
}

#[test]
fn a_wrong_sum_is_seen() {
    let (model, _) = Model::run(3, 200);
    let mut found = model.now();
    let (_, version) = found
        .versions
        .iter_mut()
        .find(|(place, _)| place.is_counter())
        .unwrap();
    let Content::Sum(sum) = &mut version.content else {
        panic!("counters hold sums");
    };
    *sum += 1_000_000;
    model.blames(&found, Rule::Kept, Fault::Sum, "no sum");
}

#[test]
fn a_counter_without_what_was_added_has_lost_it() {
    let (model, _) = Model::run(3, 200);
    let mut counters = 0;
    for (place, version) in model.now().versions {
        let is_sum = matches!(version.content, Content::Sum(sum) if sum != 0);
        if place.is_counter() && is_sum {
            let mut found = model.now();
            found.versions.remove(&place);
            model.blames(&found, Rule::Kept, Fault::Lost, "is gone; found nothing");
            counters += 1;
        }
    }
    assert!(counters > 1, "{counters}");
}

#[test]
fn stamps_that_fall_and_reads_that_skip_a_write_are_seen() {
    let (mut model, _) = Model::run(5, 150);
    let found = model.now();
    let mut spoilt = model.log.clone();
    let stamped = spoilt.threads[0]
        .acks
        .iter_mut()
        .filter(|ack| ack.stamp > 0);
    stamped.last().unwrap().stamp = FLOOR;
    std::mem::swap(&mut model.log, &mut spoilt);
    model.blames(&found, Rule::Kept, Fault::Order, "given out before");
    std::mem::swap(&mut model.log, &mut spoilt);
    let mut seen = 0;
    for (thread, number) in (0..4).flat_map(|thread| (0..200).map(move |number| (thread, number))) {
        let Some(ack) = model.log.threads[thread].acks.get(number).copied() else {
            continue;
        };
        let action = operation(
            &model.settings,
            INCARNATION,
            u8::try_from(thread).unwrap(),
            u32::try_from(number).unwrap() + 1,
        )
        .action;
        if matches!(action, Action::Replace { .. }) && ack.stamp > 0 && ack.detail > 0 {
            model.log.threads[thread].acks[number].detail -= 1;
            let violation = model.judge(&found, Rule::Kept);
            seen += u32::from(violation.is_err_and(|v| v.fault == Fault::Order));
            model.log.threads[thread].acks[number].detail += 1;
        }
    }
    assert!(seen > 3, "{seen}");
}

#[test]
fn a_keyspace_that_came_back_or_went_is_seen() {
    let mut seen = 0;
    for seed in (0..200).filter(|seed| Settings::of(*seed).own_keyspaces) {
        let mut model = Model::new(seed);
        (0..200).for_each(|n| model.step(n % 4, true));
        let mut found = model.now();
        assert!(model.judge(&found, Rule::Kept).is_ok());
        if let Some(owner) = found.owners.pop_first() {
            found
                .versions
                .retain(|place, _| place.owner() != Some(owner));
            model.blames(
                &found,
                Rule::Kept,
                Fault::Lost,
                "whose creation was acknowledged",
            );
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen}");
}
