//! Decides whether what was found after a crash is what was promised: docs/consistency.md.
//!
//! J1. After a kill every acknowledged write is there, whatever its class, and of the pending
//!     ones whole writes only.
//! J2. After a power loss, and without a journal, there is a cut: every write at or below it is
//!     there, none above; and it is not below what was promised to be durable.
//! J3. A value that is found was announced, under this key, with these bytes and this expiry, and
//!     has the stamp it was acknowledged with.
//! J4. A counter is the sum of its acknowledged additions, and of some pending ones.
//! J5. A read-modify-write read the write just before it.
//! J6. Stamps ascend within each thread and from each opening to the next.
//!
//! A place explains the cuts at which its newest writer is the one found; the intersection over
//! all places must not be empty. Where a pending deletion may be what made a key absent, the place
//! is left open and judged once the cut is known.
//!
//! Plain data in, verdict out. Tests: `judge/tests.rs`.

use super::history::{By, Effect, History, Pending, Source, Writer};
use super::key::Place;
use super::operation::{Action, Class, WriteId};
use super::state::{Content, State, Version, name_of};
use std::collections::BTreeSet;

#[cfg(test)]
mod tests;

/// What must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// J1.
    Kept,
    /// J2, with the order below which the cut must not lie.
    Prefix(u64),
}

/// What is to be judged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case<'a> {
    pub(super) source: Source<'a>,
    /// What was found before that.
    pub(super) base: &'a State,
    /// The highest stamp before that.
    pub(super) floor: u64,
    pub(super) found: &'a State,
    pub(super) rule: Rule,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// An acknowledged write is gone.
    Lost,
    /// Part of a write is there.
    Torn,
    /// A later write is there, an earlier one is not.
    Hole,
    /// A value that was never there, or with another stamp.
    Wrong,
    /// A counter is no possible sum.
    Sum,
    /// Stamps or reads contradict each other.
    Order,
    /// The child failed, did not end, or ended by itself.
    Child,
}

impl Fault {
    /// As reports spell it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Fault::Lost => "lost",
            Fault::Torn => "torn",
            Fault::Hole => "hole",
            Fault::Wrong => "wrong",
            Fault::Sum => "sum",
            Fault::Order => "order",
            Fault::Child => "child",
        }
    }
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) fault: Fault,
    pub(super) text: String,
}

impl Violation {
    pub(super) fn new(fault: Fault, text: impl Into<String>) -> Self {
        let text = text.into();
        Violation { fault, text }
    }

    /// A child ended by a `SIGKILL` that no plan has.
    pub(super) fn somebody_else() -> Self {
        Violation::new(Fault::Child, "somebody else killed the child")
    }
}

/// What was judged, all of it right.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// Acknowledged writes, by class.
    pub(super) acknowledged: [u64; 3],
    /// Of those, what the cut took, as it may.
    pub(super) cut_off: u64,
    pub(super) pending: u64,
    /// Of those, what was found.
    pub(super) pending_found: u64,
    /// The highest stamp known now.
    pub(super) floor: u64,
}

/// Cuts, as ranges of orders, both ends included.
type Cuts = Vec<(u64, u64)>;

/// Judges.
pub(super) fn judge(case: &Case<'_>) -> Result<Verdict, Violation> {
    let mut history = History::gather(&case.source, case.base, case.floor)
        .map_err(|text| Violation::new(Fault::Order, text))?;
    check_found(case, &mut history)?;
    check_keyspaces(case, &mut history)?;
    history.sort();
    check_chain(&history)?;
    let cuts = find_cuts(case, &history)?;
    let cut = close(case, &history, &cuts)?;
    let gone = |order: &&u64| **order > cut;
    let is_write = |p: &&Pending| {
        !p.operation.action.changes().is_empty() || matches!(p.operation.action, Action::Add { .. })
    };
    Ok(Verdict {
        acknowledged: history.acknowledged,
        cut_off: history.orders.iter().filter(gone).count() as u64,
        pending: history.pending.iter().filter(is_write).count() as u64,
        pending_found: history.pending.iter().filter(|p| p.order.is_some()).count() as u64,
        floor: history.stamp_max,
    })
}

/// J3; gives pending writes that are seen their stamps.
fn check_found(case: &Case<'_>, history: &mut History) -> Result<(), Violation> {
    for (place, version) in &case.found.versions {
        let Content::Value { id, bytes, .. } = version.content else {
            continue;
        };
        let wrong =
            |why: String| Violation::new(Fault::Wrong, format!("{place} holds {version}, {why}"));
        if id.incarnation != case.source.incarnation {
            if case.base.versions.get(place) != Some(version) {
                return Err(wrong(
                    "which is not what the opening before found".to_owned(),
                ));
            }
            continue;
        }
        check_announced(case, *place, version, id, bytes).map_err(wrong)?;
        let WriteId { thread, number, .. } = id;
        let log = &case.source.log.threads[usize::from(thread)];
        match log.acks.get(number as usize - 1) {
            Some(ack) if ack.stamp == version.stamp => {}
            Some(ack) => {
                let stamp = ack.stamp;
                return Err(wrong(format!("which was acknowledged with stamp {stamp}")));
            }
            None => history
                .resolve(&case.source, thread, number, version.stamp)
                .map_err(|why| {
                    let text = format!("{place} holds a pending write ({id}): {why}");
                    Violation::new(Fault::Torn, text)
                })?,
        }
    }
    Ok(())
}

fn check_announced(
    case: &Case<'_>,
    place: Place,
    version: &Version,
    id: WriteId,
    bytes: u32,
) -> Result<(), String> {
    let log = case.source.log.threads.get(usize::from(id.thread));
    let announced = log.map_or(0, |log| log.announced);
    if id.number == 0 || id.number > announced {
        return Err("which was never announced".to_owned());
    }
    let operation = case.source.operation(id.thread, id.number);
    let change = operation.action.changes().get(usize::from(id.index));
    let expected = change.filter(|change| change.place == place);
    let Some((len, expiry)) = expected.and_then(|change| change.put) else {
        return Err("which was not written there".to_owned());
    };
    if len.max(8) != bytes {
        return Err(format!("which had {len} bytes"));
    }
    let expires_ms = expiry.at_ms(case.source.start_ms);
    if expires_ms != version.expires_ms {
        let found = version.expires_ms;
        return Err(format!("which expires at {expires_ms:?}, not {found:?}"));
    }
    Ok(())
}

fn check_keyspaces(case: &Case<'_>, history: &mut History) -> Result<(), Violation> {
    let expected: BTreeSet<u8> = history.owners.clone();
    for owner in expected.symmetric_difference(&case.found.owners) {
        let toggles = |p: &&Pending| p.thread == *owner && p.operation.action == Action::Toggle;
        let Some(pending) = history.pending.iter().find(toggles) else {
            let name = name_of(*owner);
            let text = match expected.contains(owner) {
                true => format!("keyspace `{name}`, whose creation was acknowledged, is gone"),
                false => format!("keyspace `{name}`, whose drop was acknowledged, is there"),
            };
            return Err(Violation::new(Fault::Lost, text));
        };
        let order = pending.above + 1;
        history.toggle(*owner, case.found.owners.contains(owner), order);
    }
    Ok(())
}

/// J5.
fn check_chain(history: &History) -> Result<(), Violation> {
    for (place, order, read) in &history.chain {
        let writers = history.writers.get(place).map_or(&[][..], Vec::as_slice);
        let before = writers.partition_point(|writer| writer.order < *order);
        let last = before.checked_sub(1).and_then(|last| writers.get(last));
        let stamp = match last.map(|writer| (writer, writer.effect)) {
            None | Some((_, Effect::Absent)) => 0,
            // Whether it had expired by then nobody knows; long-lived ones have their stamps.
            Some((
                _,
                Effect::Value {
                    expires_ms: Some(_),
                    ..
                }
                | Effect::Plus(_),
            )) => continue,
            Some((_, Effect::Was(version))) if version.expires_ms.is_some() => continue,
            Some((_, Effect::Was(version))) => version.stamp,
            Some((writer, Effect::Value { .. })) => writer.order / 2,
        };
        let is_touched = |p: &Pending| {
            let changes = p.operation.action.changes();
            p.order.is_none() && changes.iter().any(|change| change.place == *place)
        };
        if stamp != *read && !history.pending.iter().any(is_touched) {
            let text = format!(
                "the read-modify-write at stamp {} on {place} read stamp {read}, but the write \
                 just before it has stamp {stamp}",
                order / 2
            );
            return Err(Violation::new(Fault::Order, text));
        }
    }
    Ok(())
}

/// The cuts at which every place is as found, but for the open ones.
fn find_cuts(case: &Case<'_>, history: &History) -> Result<Cuts, Violation> {
    let mut cuts = vec![match case.rule {
        Rule::Kept => (u64::MAX, u64::MAX),
        Rule::Prefix(promised) => (promised, u64::MAX),
    }];
    let found = case.found.versions.keys();
    let places: BTreeSet<Place> = history.writers.keys().chain(found).copied().collect();
    for place in places {
        let writers = history.writers.get(&place).map_or(&[][..], Vec::as_slice);
        let found = case.found.versions.get(&place);
        let is_open = found.is_none() && !place.is_counter();
        if is_open && history.pending.iter().any(|p| may_empty(case, p, place)) {
            continue;
        }
        let explaining = match place.is_counter() {
            true => sums(case, history, place, writers),
            false => explaining(case, writers, found),
        };
        let both = intersection(&cuts, &explaining);
        if both.is_empty() {
            return Err(blame(case, place, writers, &cuts, &explaining));
        }
        cuts = both;
    }
    Ok(cuts)
}

/// Whether this pending write, which nobody sees, may be what left `place` empty.
fn may_empty(case: &Case<'_>, pending: &Pending, place: Place) -> bool {
    let changes = pending.operation.action.changes();
    pending.order.is_none()
        && changes.iter().enumerate().any(|(index, change)| {
            let effect = case
                .source
                .effect(pending.thread, pending.number, index, change);
            change.place == place && effect.explains(None, case.found)
        })
}

/// The cuts that explain what is found under a key.
fn explaining(case: &Case<'_>, writers: &[Writer], found: Option<&Version>) -> Cuts {
    let mut cuts = Cuts::new();
    // Before the first of them the key was absent.
    let first = writers.first().map_or(u64::MAX, |writer| writer.order);
    if found.is_none() {
        match (first, writers.is_empty()) {
            (_, true) => cuts.push((0, u64::MAX)),
            (1.., false) => cuts.push((0, first - 1)),
            (0, false) => {}
        }
    }
    for (index, writer) in writers.iter().enumerate() {
        let next = writers.get(index + 1).map(|next| next.order);
        let end = next.map_or(u64::MAX, |next| next.saturating_sub(1));
        if end >= writer.order && writer.effect.explains(found, case.found) {
            cuts.push((writer.order, end));
        }
    }
    cuts
}

/// The cuts that explain a counter (J4).
fn sums(case: &Case<'_>, history: &History, place: Place, writers: &[Writer]) -> Cuts {
    let found = match case.found.versions.get(&place).map(|found| found.content) {
        Some(Content::Sum(sum)) => sum,
        _ => 0,
    };
    let mut possible = BTreeSet::from([0_i64]);
    for pending in &history.pending {
        if let Action::Add {
            place: to, delta, ..
        } = pending.operation.action
            && to == place
        {
            possible.extend(possible.clone().iter().map(|sum| sum + delta));
        }
    }
    let mut cuts = Cuts::new();
    let mut sum = 0;
    let mut start = 0;
    for writer in writers {
        if writer.order > start {
            if possible.contains(&(found - sum)) {
                cuts.push((start, writer.order - 1));
            }
            start = writer.order;
        }
        sum += match writer.effect {
            Effect::Plus(delta) => delta,
            Effect::Was(Version {
                content: Content::Sum(sum),
                ..
            }) => sum,
            _ => 0,
        };
    }
    if possible.contains(&(found - sum)) {
        cuts.push((start, u64::MAX));
    }
    cuts
}

fn intersection(a: &Cuts, b: &Cuts) -> Cuts {
    let mut both = Cuts::new();
    for (from, to) in a {
        for (start, end) in b {
            let (low, high) = (*from.max(start), *to.min(end));
            if low <= high {
                both.push((low, high));
            }
        }
    }
    both
}

/// Says what is wrong with a place that no cut explains.
fn blame(
    case: &Case<'_>,
    place: Place,
    writers: &[Writer],
    cuts: &Cuts,
    explaining: &Cuts,
) -> Violation {
    let found = case.found.versions.get(&place);
    let shown = found.map_or("nothing".to_owned(), ToString::to_string);
    // One that is the sum at an earlier cut has lost what was added since.
    if place.is_counter() && explaining.is_empty() {
        let text = format!("{place} holds {shown}, which is no sum of what was added");
        return Violation::new(Fault::Sum, text);
    }
    // What is so at no cut that keeps the promise breaks that itself, whatever others need.
    if let Rule::Prefix(promised) = case.rule
        && explaining.iter().any(|(_, to)| *to >= promised)
    {
        let text = format!(
            "{place} holds {shown}, which would be so at cuts {explaining:?}, but other keys need \
             a cut in {cuts:?} (stamps times two; {promised} is promised)"
        );
        return Violation::new(Fault::Hole, text);
    }
    let promised = cuts.first().map_or(u64::MAX, |cut| cut.0);
    let Some(last) = last_at(writers, promised) else {
        let text = format!("{place} holds {shown}, but nothing was written there");
        return Violation::new(Fault::Wrong, text);
    };
    let (fault, what) = missing(case, last);
    Violation::new(fault, format!("{place}: {what}; found {shown}"))
}

/// What it means that a write, the newest under its key, is not what is found there.
fn missing(case: &Case<'_>, writer: &Writer) -> (Fault, String) {
    let By::Operation {
        thread,
        number,
        class,
        is_acknowledged,
    } = writer.by
    else {
        return match writer.by {
            By::Toggle => (Fault::Wrong, "its keyspace is new or gone".to_owned()),
            _ => (
                Fault::Lost,
                "what the opening before found is gone".to_owned(),
            ),
        };
    };
    if !is_acknowledged {
        let whose = format!("a pending batch of thread {thread} (operation {number})");
        return (Fault::Torn, format!("{whose} is there in part"));
    }
    let operation = case.source.operation(thread, number);
    let extent = match operation.action.changes().len() {
        0 | 1 => "single",
        _ => "batched",
    };
    let what = match writer.effect {
        Effect::Absent => "deletion",
        _ => "write",
    };
    let text = format!(
        "a {extent} {what} acknowledged as {} (opening {}, thread {thread}, operation {number}, \
         stamp {}) is gone",
        class.as_str(),
        case.source.incarnation,
        writer.order / 2,
    );
    (Fault::Lost, text)
}

/// Judges the open places at the cuts that are left; the cut.
fn close(case: &Case<'_>, history: &History, cuts: &Cuts) -> Result<u64, Violation> {
    let open: Vec<(Place, &[Writer])> = history
        .writers
        .iter()
        .filter(|(place, _)| !case.found.versions.contains_key(place) && !place.is_counter())
        .map(|(place, writers)| (*place, writers.as_slice()))
        .collect();
    // A lower cut than the highest helps only where an open place needs no pending write at it.
    let mut candidates: BTreeSet<u64> = cuts.iter().map(|(_, end)| *end).collect();
    for (_, writers) in &open {
        let own = intersection(cuts, &explaining(case, writers, None));
        candidates.extend(own.iter().map(|(_, end)| *end));
    }
    let mut blamed = None;
    for cut in candidates.into_iter().rev() {
        let is_closed =
            |(place, writers): &&(Place, &[Writer])| is_closed(case, history, *place, writers, cut);
        match open.iter().find(|open| !is_closed(open)) {
            None => return Ok(cut),
            Some(open) => blamed = blamed.or(Some(open)),
        }
    }
    match blamed {
        Some((place, writers)) => Err(blame(case, *place, writers, cuts, &Cuts::new())),
        None => Err(Violation::new(Fault::Hole, "no cut is left")),
    }
}

/// Whether nothing under `place` is explained, at this cut, by its last writer or by a pending
/// write that may have come after it.
fn is_closed(
    case: &Case<'_>,
    history: &History,
    place: Place,
    writers: &[Writer],
    cut: u64,
) -> bool {
    let last = last_at(writers, cut);
    let Some(last) = last.filter(|last| !last.effect.explains(None, case.found)) else {
        return true;
    };
    history.pending.iter().any(|pending| {
        may_empty(case, pending, place) && is_possible(case, history, pending, last.order, cut)
    })
}

/// Whether a pending write may have happened above `order` without being seen anywhere.
fn is_possible(
    case: &Case<'_>,
    history: &History,
    pending: &Pending,
    order: u64,
    cut: u64,
) -> bool {
    let above = order.max(pending.above);
    let changes = pending.operation.action.changes();
    above < cut
        && changes.iter().enumerate().all(|(index, change)| {
            let effect = case
                .source
                .effect(pending.thread, pending.number, index, change);
            match case.found.versions.get(&change.place) {
                Some(found) => found.stamp * 2 > above,
                None if effect.explains(None, case.found) => true,
                None => {
                    let writers = history.writers.get(&change.place);
                    let last = writers.and_then(|writers| last_at(writers, cut));
                    last.is_some_and(|last| last.order > above)
                        || history.pending.iter().any(|other| {
                            other.thread != pending.thread && may_empty(case, other, change.place)
                        })
                }
            }
        })
}

fn last_at(writers: &[Writer], cut: u64) -> Option<&Writer> {
    let count = writers.partition_point(|writer| writer.order <= cut);
    writers.get(count.checked_sub(1)?)
}

/// The classes of acknowledged writes and their numbers, for reports.
pub(super) fn by_class(acknowledged: &[u64; 3]) -> impl Iterator<Item = (Class, u64)> {
    Class::ALL.into_iter().zip(*acknowledged)
}
