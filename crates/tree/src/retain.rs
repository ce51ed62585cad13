//! What of a sorted run survives a flush or a compaction.
//!
//! Source: cLSM (EuroSys '15) 3.2.2, with `velella_mvcc::Retention` as the rule of which stamps are
//! still read; expiry and tombstones are ours.
//!
//! D1. A version is dropped only where `Retention` does not keep it and no merge operand above
//!     still needs it.
//! D2. An expired value *is a tombstone*: it becomes a delete of the same stamp, and leaves only
//!     where a delete may (otherwise an older value beneath would come back).
//! D3. A delete leaves only if nothing older of its key lies beneath (`bottom`), nothing older of
//!     it is kept in this run, and every reader is past it.
//! D4. Range deletes and merge operands are always carried; what lies under an operand is kept
//!     down to the value it applies to.
//! D5. The same (key, stamp) twice is the same version twice (a recovery may write one again, and a
//!     compaction that was cut off may have; its copy of what expired meanwhile is a delete):
//!     the first one is kept, and sources come newest first.
//!
//! No allocation per entry. Threads: one. Tests: `retain/tests.rs`.

use velella_base::codec::Reader;
use velella_base::external::ExternalRef;
use velella_base::{Entry, Order, Result, Stamp, ValueKind, seeded};
use velella_mvcc::Retention;
use velella_mvcc::retention::KeyRetention;

/// What a [`Retain`] has seen and done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Retained {
    /// Entries offered.
    pub entries_in: u64,
    /// Entries passed on.
    pub entries_out: u64,
    /// Numbers of external values whose version was dropped.
    pub dropped_externals: Vec<u64>,
}

/// The filter; feed it a run in order with [`Retain::offer`].
#[derive(Debug)]
pub struct Retain<'a> {
    retention: &'a Retention,
    order: Order,
    done: Retained,
    key: Vec<u8>,
    started: bool,
    of_key: OfKey<'a>,
    /// Deletes of this key that leave unless something older of it is kept (D3).
    held_deletes: Vec<Stamp>,
    /// Payload of the last range delete at this key (D5).
    range_end: Vec<u8>,
}

/// What is known of the key at hand.
#[derive(Debug)]
struct OfKey<'a> {
    rule: KeyRetention<'a>,
    /// Stamp of the last version that is not a range delete.
    last_point: Option<Stamp>,
    last_range: Option<Stamp>,
    /// Operands above still look for their value (D4).
    under_operand: bool,
    /// What `bottom` said, once asked.
    is_bottom: Option<bool>,
    /// Nothing of this key was passed on yet.
    fresh: bool,
}

impl<'a> OfKey<'a> {
    fn new(retention: &'a Retention) -> Self {
        OfKey {
            rule: retention.key(),
            last_point: None,
            last_range: None,
            under_operand: false,
            is_bottom: None,
            fresh: true,
        }
    }
}

/// Where kept entries go: with each, whether it is the first of its key (outputs are split there).
pub trait Sink {
    /// Takes a kept entry.
    ///
    /// # Errors
    /// What writing it met.
    fn take(&mut self, entry: Entry<'_>, first_of_key: bool) -> Result<()>;
}

impl<F: FnMut(Entry<'_>, bool) -> Result<()>> Sink for F {
    #[inline]
    fn take(&mut self, entry: Entry<'_>, first_of_key: bool) -> Result<()> {
        self(entry, first_of_key)
    }
}

impl<'a> Retain<'a> {
    /// A filter by `retention` over a run in `order`.
    #[must_use]
    pub fn new(retention: &'a Retention, order: Order) -> Self {
        Retain {
            retention,
            order,
            done: Retained::default(),
            key: Vec::new(),
            started: false,
            of_key: OfKey::new(retention),
            held_deletes: Vec::new(),
            range_end: Vec::new(),
        }
    }

    /// Decides the next entry of the run and passes on what is kept. `bottom(key)`: nothing older
    /// of `key` lies outside the run.
    ///
    /// # Errors
    /// The sink's.
    #[inline]
    pub fn offer(
        &mut self,
        entry: Entry<'_>,
        bottom: &impl Fn(&[u8]) -> bool,
        sink: &mut impl Sink,
    ) -> Result<()> {
        self.done.entries_in += 1;
        if !self.started || !self.same_key(entry.key) {
            self.start(entry.key);
        }
        match entry.kind {
            ValueKind::RangeDelete => self.range_delete(entry, sink),
            ValueKind::Merge => {
                if self.of_key.last_point == Some(entry.stamp) {
                    return Ok(());
                }
                self.of_key.last_point = Some(entry.stamp);
                self.of_key.rule.keeps(entry.stamp);
                self.of_key.under_operand = true;
                self.pass(entry, sink)
            }
            _ => self.point(entry, bottom, sink),
        }
    }

    /// What was done; the run has ended.
    #[must_use]
    pub fn finish(self) -> Retained {
        self.done
    }

    #[inline]
    fn same_key(&self, key: &[u8]) -> bool {
        self.order.compare(&self.key, key).is_eq()
    }

    #[inline]
    fn start(&mut self, key: &[u8]) {
        self.started = true;
        self.key.clear();
        self.key.extend_from_slice(key);
        // Deletes held to the end of their key had nothing older beneath them: they leave (D3).
        self.held_deletes.clear();
        self.of_key = OfKey::new(self.retention);
    }

    /// A put, an expiring put, an external value or a delete.
    #[inline]
    fn point(
        &mut self,
        entry: Entry<'_>,
        bottom: &impl Fn(&[u8]) -> bool,
        sink: &mut impl Sink,
    ) -> Result<()> {
        if self.of_key.last_point == Some(entry.stamp) {
            return Ok(());
        }
        self.of_key.last_point = Some(entry.stamp);
        let needed = std::mem::take(&mut self.of_key.under_operand);
        let kept = self.of_key.rule.keeps(entry.stamp) || needed;
        if !kept {
            self.drop_external(&entry);
            return Ok(());
        }
        if seeded("an-expired-value-leaves-alone") && self.is_expired(&entry) {
            return Ok(());
        }
        if entry.kind == ValueKind::Delete || self.is_expired(&entry) {
            self.drop_external(&entry);
            return self.delete(entry, needed, bottom, sink);
        }
        self.pass(entry, sink)
    }

    fn delete(
        &mut self,
        entry: Entry<'_>,
        needed: bool,
        bottom: &impl Fn(&[u8]) -> bool,
        sink: &mut impl Sink,
    ) -> Result<()> {
        let may_leave = !needed
            && !seeded("no-tombstone-ever-leaves")
            && entry.stamp <= self.retention.oldest()
            && *self
                .of_key
                .is_bottom
                .get_or_insert_with(|| bottom(entry.key) || seeded("a-tombstone-leaves-too-early"));
        if may_leave {
            self.held_deletes.push(entry.stamp);
            return Ok(());
        }
        let delete = Entry {
            kind: ValueKind::Delete,
            value: &[],
            ..entry
        };
        self.pass(delete, sink)
    }

    fn range_delete(&mut self, entry: Entry<'_>, sink: &mut impl Sink) -> Result<()> {
        if self.of_key.last_range == Some(entry.stamp) && self.range_end == entry.value {
            return Ok(());
        }
        self.of_key.last_range = Some(entry.stamp);
        self.range_end.clear();
        self.range_end.extend_from_slice(entry.value);
        self.pass(entry, sink)
    }

    /// Passes an entry on, after the deletes above it that have to stay because of it.
    #[inline]
    fn pass(&mut self, entry: Entry<'_>, sink: &mut impl Sink) -> Result<()> {
        for held in 0..self.held_deletes.len() {
            let delete = Entry {
                stamp: self.held_deletes[held],
                kind: ValueKind::Delete,
                value: &[],
                ..entry
            };
            self.hand_on(delete, sink)?;
        }
        self.held_deletes.clear();
        self.hand_on(entry, sink)
    }

    #[inline]
    fn hand_on(&mut self, entry: Entry<'_>, sink: &mut impl Sink) -> Result<()> {
        self.done.entries_out += 1;
        let first = std::mem::replace(&mut self.of_key.fresh, false);
        sink.take(entry, first)
    }

    #[inline]
    fn is_expired(&self, entry: &Entry<'_>) -> bool {
        let expiry = match entry.kind {
            ValueKind::PutExpiring => Reader::new(entry.value).u64(),
            ValueKind::External => {
                ExternalRef::decode(entry.value).map(|reference| reference.expires_at_ms)
            }
            _ => None,
        };
        // 0 stands for never, as for readers.
        expiry.is_some_and(|expiry| expiry != 0 && expiry < self.retention.now_ms())
    }

    #[inline]
    fn drop_external(&mut self, entry: &Entry<'_>) {
        if entry.kind == ValueKind::External
            && let Some(reference) = ExternalRef::decode(entry.value)
        {
            self.done.dropped_externals.push(reference.file);
        }
    }
}

#[cfg(test)]
mod tests;
