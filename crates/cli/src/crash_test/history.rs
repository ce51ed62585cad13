//! What was written between two openings, in the order of the stamps, place by place.
//!
//! H1. An acknowledged write has the stamp it was acknowledged with; a pending one (at most one
//!     per thread) has the stamp its value was found with, or none.
//! H2. Orders are stamps times two; creating or dropping a keyspace, whose stamp is not told,
//!     stands one above its thread's last write.
//!
//! Tests: `judge/tests.rs`.

use super::key::{Place, own_keyspace};
use super::operation::{Action, Change, Class, Operation, WriteId, operation};
use super::oracle::{Ack, Log};
use super::settings::Settings;
use super::state::{Content, State, Version};
use std::collections::{BTreeMap, BTreeSet};

/// Keys a thread uses in its own keyspace.
const OWN_KEYS: u16 = 4;

/// What a write leaves under a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Absent,
    Value {
        id: WriteId,
        expires_ms: Option<u64>,
    },
    /// What was found at the opening before.
    Was(Version),
    /// It adds to a counter.
    Plus(i64),
}

impl Effect {
    /// Whether this is what a reader finds as `found` in `state`.
    pub(super) fn explains(&self, found: Option<&Version>, state: &State) -> bool {
        let expires_ms = match self {
            Effect::Absent | Effect::Plus(_) => return found.is_none(),
            Effect::Value { expires_ms, .. } => *expires_ms,
            Effect::Was(version) => version.expires_ms,
        };
        let Some(found) = found else {
            return expires_ms.is_some_and(|expires| expires <= state.latest_ms);
        };
        if expires_ms.is_some_and(|expires| expires <= state.earliest_ms) {
            return false;
        }
        match (self, found.content) {
            (Effect::Was(version), _) => version == found,
            (Effect::Value { id, .. }, Content::Value { id: other, .. }) => *id == other,
            _ => false,
        }
    }
}

/// Who wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Earlier,
    Toggle,
    Operation {
        thread: u8,
        number: u32,
        class: Class,
        is_acknowledged: bool,
    },
}

/// One write under one key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writer {
    pub(super) order: u64,
    pub(super) effect: Effect,
    pub(super) by: By,
}

/// A write that was announced and not acknowledged.
#[derive(Debug, Clone)]
pub(super) struct Pending {
    pub(super) thread: u8,
    pub(super) number: u32,
    pub(super) operation: Operation,
    /// Its order, where its value was found.
    pub(super) order: Option<u64>,
    /// It is above this.
    pub(super) above: u64,
}

/// What may have been done and what was.
#[derive(Debug, Default)]
pub(super) struct History {
    /// By place; by ascending order once [`History::sort`] was called.
    pub(super) writers: BTreeMap<Place, Vec<Writer>>,
    pub(super) pending: Vec<Pending>,
    /// Acknowledged read-modify-writes: place, order, and the stamp each read.
    pub(super) chain: Vec<(Place, u64, u64)>,
    /// Acknowledged writes by class.
    pub(super) acknowledged: [u64; 3],
    /// Orders of acknowledged writes.
    pub(super) orders: BTreeSet<u64>,
    /// The threads whose own keyspaces must exist, unless they were about to change it.
    pub(super) owners: BTreeSet<u8>,
    /// The highest stamp seen.
    pub(super) stamp_max: u64,
}

/// Where a log comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) settings: &'a Settings,
    pub(super) incarnation: u32,
    /// When the child was started.
    pub(super) start_ms: u64,
    pub(super) log: &'a Log,
}

impl Source<'_> {
    pub(super) fn operation(&self, thread: u8, number: u32) -> Operation {
        operation(self.settings, self.incarnation, thread, number)
    }

    /// The effect of part `index` of an operation.
    pub(super) fn effect(&self, thread: u8, number: u32, index: usize, change: &Change) -> Effect {
        match change.put {
            None => Effect::Absent,
            Some((_, expiry)) => Effect::Value {
                id: WriteId {
                    incarnation: self.incarnation,
                    thread,
                    number,
                    index: u8::try_from(index).unwrap_or(u8::MAX),
                },
                expires_ms: expiry.at_ms(self.start_ms),
            },
        }
    }

    /// The order up to which everything was promised to survive a power loss.
    pub(super) fn promised(&self) -> u64 {
        let mut promised = 0;
        for (thread, log) in (0..).zip(&self.log.threads) {
            let mut last = 0;
            for (number, ack) in (1..).zip(&log.acks) {
                last = last.max(ack.stamp);
                let operation = self.operation(thread, number);
                let stamp = match operation.action {
                    Action::Persist => ack.detail,
                    // Dropping waits until what came before is durable.
                    Action::Toggle if ack.detail == 2 => last,
                    Action::Add { by_rmw: false, .. } => 0,
                    _ if operation.class == Class::Buffered => 0,
                    _ => ack.stamp,
                };
                promised = promised.max(stamp * 2);
            }
        }
        promised
    }
}

impl History {
    /// Goes through a log. `floor`: the highest stamp known before.
    ///
    /// # Errors
    /// Stamps that do not ascend.
    pub(super) fn gather(source: &Source<'_>, base: &State, floor: u64) -> Result<Self, String> {
        let mut history = History {
            owners: base.owners.clone(),
            stamp_max: floor,
            ..History::default()
        };
        for (place, version) in &base.versions {
            let effect = Effect::Was(*version);
            history.add(*place, 0, effect, By::Earlier);
        }
        for (thread, log) in (0..).zip(&source.log.threads) {
            let mut last = floor;
            for (number, ack) in (1..).zip(&log.acks) {
                if ack.stamp > 0 {
                    if ack.stamp <= last {
                        return Err(format!(
                            "operation {number} of thread {thread} got stamp {}, though stamp \
                             {last} was given out before it",
                            ack.stamp
                        ));
                    }
                    last = ack.stamp;
                }
                history.acknowledge(source, thread, number, *ack, last);
            }
            history.stamp_max = history.stamp_max.max(last);
            if log.announced as usize > log.acks.len() {
                let number = log.announced;
                history.pending.push(Pending {
                    thread,
                    number,
                    operation: source.operation(thread, number),
                    order: None,
                    above: last * 2,
                });
            }
        }
        Ok(history)
    }

    fn add(&mut self, place: Place, order: u64, effect: Effect, by: By) {
        let writer = Writer { order, effect, by };
        self.writers.entry(place).or_default().push(writer);
    }

    fn acknowledge(&mut self, source: &Source<'_>, thread: u8, number: u32, ack: Ack, last: u64) {
        let operation = source.operation(thread, number);
        let class = operation.class;
        match &operation.action {
            Action::Toggle => return self.toggle(thread, ack.detail == 1, last * 2 + 1),
            Action::Add {
                place,
                delta,
                by_rmw,
            } => {
                let by = By::Operation {
                    thread,
                    number,
                    class,
                    is_acknowledged: true,
                };
                // Of `increment` only the sum counts, and that has no order.
                let order = if *by_rmw { ack.stamp * 2 } else { 0 };
                self.add(*place, order, Effect::Plus(*delta), by);
                let class = if *by_rmw { class } else { Class::Buffered };
                self.acknowledged[class as usize] += 1;
            }
            _ if ack.stamp == 0 => return,
            Action::Replace { change, .. } => {
                self.chain.push((change.place, ack.stamp * 2, ack.detail));
                self.acknowledged[class as usize] += 1;
            }
            Action::Write(_) => self.acknowledged[class as usize] += 1,
            _ => return,
        }
        if ack.stamp > 0 {
            self.orders.insert(ack.stamp * 2);
            self.write(source, thread, number, &operation, ack.stamp * 2, true);
        }
    }

    fn write(
        &mut self,
        source: &Source<'_>,
        thread: u8,
        number: u32,
        operation: &Operation,
        order: u64,
        is_acknowledged: bool,
    ) {
        let by = By::Operation {
            thread,
            number,
            class: operation.class,
            is_acknowledged,
        };
        for (index, change) in operation.action.changes().iter().enumerate() {
            let effect = source.effect(thread, number, index, change);
            self.add(change.place, order, effect, by);
        }
    }

    /// The thread's own keyspace begins or ends: either way it is empty.
    pub(super) fn toggle(&mut self, thread: u8, exists: bool, order: u64) {
        if exists {
            self.owners.insert(thread);
        } else {
            self.owners.remove(&thread);
        }
        for number in 0..OWN_KEYS {
            let keyspace = own_keyspace(thread);
            let place = Place { keyspace, number };
            self.add(place, order, Effect::Absent, By::Toggle);
        }
    }

    /// A pending write was found with this stamp: it takes its place in the order.
    ///
    /// # Errors
    /// It has two stamps, or one that belongs to another write.
    pub(super) fn resolve(
        &mut self,
        source: &Source<'_>,
        thread: u8,
        number: u32,
        stamp: u64,
    ) -> Result<(), String> {
        let mut all = self.pending.iter_mut();
        let Some(pending) = all.find(|p| (p.thread, p.number) == (thread, number)) else {
            return Err("it is not pending".to_owned());
        };
        let order = stamp * 2;
        if pending.order == Some(order) {
            return Ok(());
        }
        if let Some(other) = pending.order {
            let (a, b) = (other / 2, stamp);
            return Err(format!("its parts have the stamps {a} and {b}"));
        }
        if order <= pending.above || self.orders.contains(&order) {
            let last = pending.above / 2;
            return Err(format!(
                "it has stamp {stamp}, which is another write's, or not above {last}, the stamp \
                 before it"
            ));
        }
        pending.order = Some(order);
        let operation = pending.operation.clone();
        self.orders.insert(order);
        self.stamp_max = self.stamp_max.max(stamp);
        self.write(source, thread, number, &operation, order, false);
        Ok(())
    }

    /// Puts each place's writers in order.
    pub(super) fn sort(&mut self) {
        for writers in self.writers.values_mut() {
            writers.sort_by_key(|writer| writer.order);
        }
    }
}
