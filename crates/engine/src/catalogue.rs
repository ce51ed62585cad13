//! Which keyspaces exist: creating and dropping them.
//!
//! C1. A keyspace's creation is durable before a record can name it.
//! C2. Creating and dropping are writes: they take a stamp, and the edit of a drop is committed
//!     only once everything before it is durable, so a crash leaves a prefix here too.
//! C3. Ids are never reused; recovery skips records of dropped ones.
//! C4. A drop that failed before its edit has not happened. One whose edit is in doubt ends all
//!     writing: what the keyspace took now, the next opening might not find.
//!
//! Tests: `tests/keyspaces.rs`.

use crate::commit::dropped;
use crate::core::Engine;
use crate::keyspace_core::Core;
use crate::options::{KeyspaceOptions, Options};
use std::sync::Arc;
use std::time::Duration;
use velella_base::{Error, ErrorKind, KeyspaceId, Order, Result, Stamp};
use velella_memtable::MemtableOptions;
use velella_sst::{Compression, TableOptions};
use velella_sync::epoch;
use velella_tree::{Edit, KeyspaceRecord, KeyspaceState, TreeOptions};

/// Name of the keyspace every database has.
pub const DEFAULT_KEYSPACE: &str = "default";
/// Longest name of a keyspace, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// The one layout so far.
pub(crate) const LEVELED: &str = "leveled";

/// How the tables of a keyspace are written and arranged.
pub(crate) fn tree_options(
    options: &Options,
    own: &KeyspaceOptions,
    id: KeyspaceId,
    order: Order,
) -> TreeOptions {
    let compression = own.compression.unwrap_or(options.compression);
    let table = TableOptions {
        block_bytes: options.block_bytes,
        compression,
        bloom_bits: own.bloom_bits.unwrap_or(options.bloom_bits),
        order,
    };
    let upper_compression = match compression {
        Compression::None => Compression::None,
        // The upper levels are rewritten soon: the cheap one.
        Compression::Lz4 | Compression::Zstd => Compression::Lz4,
    };
    TreeOptions {
        upper_compression,
        table_bytes: options.write_buffer.min(64 << 20),
        level_bytes: 4 * options.write_buffer,
        ..TreeOptions::new(id, table)
    }
}

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

impl Engine {
    /// Creates a keyspace (C1).
    pub(crate) fn create_keyspace(&self, name: &str, own: &KeyspaceOptions) -> Result<Arc<Core>> {
        self.check()?;
        check_name(name)?;
        let created = self.clock.draw();
        if self.journal.is_some() {
            // C2. Without a journal D only moves with a switch, which would have to wait for us.
            self.make_durable(Stamp(created.0 - 1), Duration::ZERO)?;
        }
        // Not during a switch: without a journal a switch covers every keyspace there is.
        let _switching = self.switching.lock();
        let mut keyspaces = self.keyspaces.lock();
        if keyspaces.contains_key(name) {
            let attempt = format!("create keyspace `{name}`");
            return Err(
                Error::new(ErrorKind::AlreadyExists, attempt, "it exists already")
                    .remedy("open it with `keyspace`"),
            );
        }
        let id = self.env.manifest.state().next_keyspace;
        let record = record(id, name, &own.order, created);
        self.env
            .manifest
            .commit(&[Edit::CreateKeyspace(record.clone())])?;
        let state = KeyspaceState {
            record,
            flushed_below: created,
            levels: Vec::new(),
        };
        let options = tree_options(&self.options, own, id, own.order.clone());
        let tree = velella_lsm::open(self.env.clone(), options, &state)?;
        let memtable = MemtableOptions {
            kind: own.memtable.unwrap_or(self.options.memtable),
            order: own.order.clone(),
            slots: Arc::clone(&self.slots),
            counters: Arc::clone(&self.memtable_counters),
        };
        let core = Core::new(id, name.to_owned(), &memtable, tree, created);
        keyspaces.insert(name.to_owned(), Arc::clone(&core));
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
        if !core.mark_dropped() {
            // Somebody else is at it; another may bear its name soon.
            return Err(dropped(&core));
        }
        let outcome = self.drop_marked(&core);
        if outcome.is_err() {
            core.unmark_dropped();
        }
        outcome
    }

    /// Drops a keyspace that takes no writes any more. After an error it is there, unchanged, and
    /// takes writes again as far as the database does (C4).
    fn drop_marked(&self, core: &Arc<Core>) -> Result<()> {
        let stamp = self.clock.draw();
        self.make_durable(Stamp(stamp.0 - 1), Duration::ZERO)?;
        // No flush in between: it would name tables of a keyspace that is gone.
        let paused = self.flushes.pause();
        let edit = Edit::DropKeyspace { id: core.id, stamp };
        self.env.manifest.commit(&[edit]).inspect_err(|error| {
            let found = format!("dropping keyspace `{}` is in doubt: {error}", core.name);
            let cause = Error::new(ErrorKind::ReadOnly, "write", found);
            self.halt(cause.remedy("mend the cause, then open the database again"));
        })?;
        self.keyspaces.lock().remove(&core.name);
        drop(paused);
        self.work.wake_all();
        core.tree.drop_files();
        let guard = epoch::pin();
        for mem in core.view.load(&guard).memtables() {
            mem.discount(&self.memtable_bytes);
        }
        drop(guard);
        self.relief.wake_all();
        // It has happened: what the journal cannot give back now is the next flush's business.
        let _ = self.release_journal();
        Ok(())
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
