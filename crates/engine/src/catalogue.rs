//! Which keyspaces exist: creating, changing and dropping them.
//!
//! C1. A keyspace's creation is durable before a record can name it.
//! C2. Creating and dropping are writes: they take a stamp, and their edit is committed only once
//!     everything before it is durable, so a crash leaves a prefix here too.
//! C3. Ids are never reused; recovery skips records of dropped ones.
//! C4. A drop that failed before its edit, or panicked in a user's order, has not happened. One
//!     whose edit is in doubt ends all writing: what the keyspace took now, the next opening might
//!     not find.
//! C5. A change of settings is in the manifest before it is in force. It is in force for the next
//!     memtable and the tables begun from then on; what exists stays as it is, and is read either
//!     way, so it needs no stamp.
//! C6. Who reads a dropped keyspace is told, whatever of it is still in memory: he would find a
//!     part of what was there. Until the edit is durable it is read as ever.
//! C7. D does not reach the stamp of a creation or a drop before its edit is durable: its window is
//!     open until then. Without a journal that is not so: there D moves by flushes of everything.
//! C8. What a dropped keyspace had, in memory and on the disk, goes with its last reader: not with
//!     its last handle, which somebody may keep for ever.
//!
//! Tests: `tests/keyspaces.rs`, `tests/settings.rs`, `tests/views.rs`.

use crate::core::Engine;
use crate::keyspace_core::Core;
use crate::lease::check_left;
use crate::options::KeyspaceOptions;
use crate::settings::{self, Effective};
use crate::view::{Mem, View};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use velella_base::{Error, ErrorKind, KeyspaceId, Order, Result, Stamp, seeded};
use velella_mvcc::Slots;
use velella_sync::epoch;
use velella_sync::lock::MutexGuard;
use velella_tree::{Edit, KeyspaceRecord, KeyspaceSettings, KeyspaceState, Manifest};

/// Name of the keyspace every database has.
pub const DEFAULT_KEYSPACE: &str = "default";
/// Longest name of a keyspace, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The one layout so far.
pub(crate) const LEVELED: &str = "leveled";

/// A new entry for the manifest.
pub(crate) fn record(id: KeyspaceId, name: &str, order: &Order, created: Stamp) -> KeyspaceRecord {
    KeyspaceRecord {
        id,
        name: name.to_owned(),
        layout: LEVELED.to_owned(),
        order: order.name().to_owned(),
        merge_operator: String::new(),
        prefix_extractor: String::new(),
        created,
    }
}

/// Refuses a name that is taken.
fn check_new(keyspaces: &BTreeMap<String, Arc<Core>>, name: &str) -> Result<()> {
    if !keyspaces.contains_key(name) {
        return Ok(());
    }
    let attempt = format!("create keyspace `{name}`");
    let error = Error::new(ErrorKind::AlreadyExists, attempt, "it exists already");
    Err(error.remedy("open it with `keyspace`"))
}

/// Why a change is not acknowledged, which the next opening may find all the same.
fn not_committed(error: Error) -> Error {
    if Manifest::is_refusal(&error) {
        return error;
    }
    error
        .with_kind(ErrorKind::OutcomeUnknown)
        .remedy("mend the cause, open the database again and see which keyspaces it has")
}

impl Engine {
    /// Creates a keyspace (C1).
    pub(crate) fn create_keyspace(&self, name: &str, own: &KeyspaceOptions) -> Result<Arc<Core>> {
        self.check()?;
        check_name(name)?;
        settings::check(&format!("create keyspace `{name}`"), own)?;
        let stored = settings::merged(&KeyspaceSettings::default(), own);
        // Looked at again below; nothing needs to be flushed to refuse what is plain to see.
        check_new(&self.keyspaces.lock(), name)?;
        let (created, _window) = self.begin_change()?;
        // C2. Without a journal that is a flush, which does not wait for our window.
        self.make_durable(Stamp(created.0 - 1), Duration::ZERO)?;
        // Without a journal a switch covers every keyspace there is: not during one. With one it
        // makes no difference, and waiting for a batch that keeps switches off would hold back D.
        let _switching = self.journal.is_none().then(|| self.switching.lock());
        let mut keyspaces = self.keyspaces.lock();
        check_new(&keyspaces, name)?;
        let id = self.env.manifest.state().next_keyspace;
        let order = own.order.clone().unwrap_or_default();
        let record = record(id, name, &order, created);
        let mut edits = vec![Edit::CreateKeyspace(record.clone())];
        if !stored.is_empty() {
            edits.push(Edit::KeyspaceSettings {
                keyspace: id,
                settings: stored.clone(),
            });
        }
        let state = KeyspaceState {
            record,
            settings: stored,
            flushed_below: created,
            levels: Vec::new(),
        };
        // Before the commit: what can fail here is no doubt then.
        let core = Core::open(&self.env, &state, order, &self.options, &self.made_of())?;
        self.env.manifest.commit(&edits).map_err(not_committed)?;
        keyspaces.insert(name.to_owned(), Arc::clone(&core));
        Ok(core)
    }

    /// Opens the keyspace `name` and changes its settings to what `own` says (C5).
    pub(crate) fn open_keyspace(&self, name: &str, own: &KeyspaceOptions) -> Result<Arc<Core>> {
        let attempt = format!("open keyspace `{name}`");
        settings::check(&attempt, own)?;
        let core = self.core_named(name)?;
        let has = core.order.name();
        if let Some(given) = own.order.as_ref().filter(|order| order.name() != has) {
            let found = format!("its keys are ordered by `{has}`, not by `{}`", given.name());
            return Err(Error::invalid(attempt, found)
                .remedy("give the order it was created with: an order cannot be changed"));
        }
        let mut stored = core.settings.lock();
        let next = settings::merged(&stored, own);
        if next != *stored {
            self.check()?;
            let effective = Effective::of(&self.options, &next, name)?;
            let edit = Edit::KeyspaceSettings {
                keyspace: core.id,
                settings: next.clone(),
            };
            self.env.manifest.commit(&[edit]).map_err(not_committed)?;
            *stored = next;
            core.set_effective(effective);
        }
        drop(stored);
        Ok(core)
    }

    /// Drops a keyspace (C2).
    pub(crate) fn drop_keyspace(&self, name: &str) -> Result<()> {
        self.check()?;
        if name == DEFAULT_KEYSPACE {
            let found = "every database has it";
            return Err(Error::invalid(format!("drop keyspace `{name}`"), found)
                .remedy("delete its keys instead"));
        }
        let core = self.core_named(name)?;
        // From here on its writers fail at step 9; those published before get lower stamps.
        let Some(marked) = Marked::new(&core) else {
            // Somebody else is at it; another may bear its name soon.
            return Err(core.refuse("drop"));
        };
        self.drop_marked(&core, marked)?;
        // It may have been the one whose compactions lack something.
        self.shortages.compactions.end();
        Ok(())
    }

    /// Draws the stamp of a change of the set of keyspaces. While the second is held D does not
    /// reach it, and no other change begins (C7).
    fn begin_change(&self) -> Result<(Stamp, Changing<'_>)> {
        let changing = Changing {
            slots: &self.slots,
            _turn: self.changing.lock(),
        };
        let stamp = self.slots.begin_change(&self.clock);
        check_left(stamp)?;
        Ok((stamp, changing))
    }

    /// Drops a keyspace that takes no writes any more. After an error it is there, unchanged, and
    /// takes writes again as far as the database does (C4).
    fn drop_marked(&self, core: &Arc<Core>, marked: Marked<'_>) -> Result<()> {
        // No flush until the edit: it would name tables of a keyspace that is gone. Before the
        // window is opened: a flush under way waits for rounds, which that would hold back.
        let paused = self.journal.as_ref().map(|_| self.flushes.pause());
        let (stamp, window) = self.begin_change()?;
        if !seeded("a-drop-does-not-wait-for-what-is-below-it") {
            self.make_durable(Stamp(stamp.0 - 1), Duration::ZERO)?;
        }
        // Without a journal it was flushes that made it durable.
        let paused = paused.unwrap_or_else(|| self.flushes.pause());
        let edit = Edit::DropKeyspace { id: core.id, stamp };
        self.env.manifest.commit(&[edit]).map_err(|error| {
            let error = not_committed(error);
            if error.kind() == ErrorKind::OutcomeUnknown {
                let found = format!("dropping keyspace `{}` is in doubt: {error}", core.name);
                let cause = Error::new(ErrorKind::ReadOnly, "write", found);
                self.halt(cause.remedy("mend the cause, then open the database again"));
            }
            error
        })?;
        marked.for_good();
        drop(window);
        self.keyspaces.lock().remove(&core.name);
        // C6. Before a flush can run, which takes memtables away and makes no tables of them.
        core.give_up();
        self.sweep_resting(core);
        self.empty_view(core);
        drop(paused);
        self.work.wake_all();
        self.relief.wake_all();
        // It has happened: what the journal cannot give back now is the next flush's business, and
        // what the device says of it the next write's.
        let _ = self.release_journal();
        Ok(())
    }

    /// C8, for memtables.
    fn empty_view(&self, core: &Core) {
        let empty = self.made_of().memtable(&core.effective(), &core.order, 0);
        let empty = Mem::new(velella_memtable::new(&empty));
        // Nobody's from the first: a batch that ends only now would count it, and nobody discount.
        empty.discount(&self.memtable_bytes);
        let empty = View::new(empty);
        let guard = epoch::pin();
        let publishing = core.publishing.lock();
        for mem in core.view.load(&guard).memtables() {
            mem.discount(&self.memtable_bytes);
            // Those that tables name were given up with them.
            let values: Vec<u64> = mem.externals.lock().keys().copied().collect();
            self.env.externals.discard(&values);
        }
        core.publish(empty, &guard);
        drop(publishing);
    }
}

/// The set of keyspaces is being changed.
struct Changing<'a> {
    slots: &'a Slots,
    _turn: MutexGuard<'a, ()>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.slots.end_change();
    }
}

/// A keyspace that turns writers away, until it is dropped or, however that ends, is not (C4).
struct Marked<'a> {
    core: &'a Core,
    is_for_good: bool,
}

impl<'a> Marked<'a> {
    /// Unless somebody marked it before.
    fn new(core: &'a Core) -> Option<Self> {
        core.mark_dropped().then_some(Marked {
            core,
            is_for_good: false,
        })
    }

    fn for_good(mut self) {
        self.is_for_good = true;
    }
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        if !self.is_for_good {
            self.core.unmark_dropped();
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    let attempt = || format!("create keyspace `{}`", name.escape_debug());
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let found = format!(
            "the name has {} bytes, from 1 to {NAME_BYTES_MAX}",
            name.len()
        );
        return Err(Error::invalid(attempt(), found));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(attempt(), "the name has control characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
